//! Failures: the status and typed codes decide, tables of words where servers have none. Nothing outside this module looks
//! at the text of an error.

use super::said::{self, Said, find};
use super::transport::{self, Head};
use super::{Adapt, Class, Failure, Stage, wait};
use crate::json::{Value, parse_prefix};
use crate::text::push_dec;

pub use said::{is_error, push_line};

/// Codes, types and reasons, lower case. Generic ones (`invalid_request_error`) are not here: the words decide then.
const CODES: [(&str, Class); 44] = [
    ("context_length_exceeded", Class::Context),
    ("exceed_context_size_error", Class::Context),
    ("tokens_too_long", Class::Context),
    ("request_too_large", Class::Context),
    ("1261", Class::Context),
    ("insufficient_quota", Class::Billing),
    ("insufficient_balance", Class::Billing),
    ("insufficient_user_quota", Class::Billing),
    ("exceeded_current_quota_error", Class::Billing),
    ("billing_hard_limit_reached", Class::Billing),
    ("billing_not_active", Class::Billing),
    ("billing_error", Class::Billing),
    ("payment_required", Class::Billing),
    ("arrearage", Class::Billing),
    ("creditserror", Class::Billing),
    ("1113", Class::Billing),
    ("1308", Class::Billing),
    ("1309", Class::Billing),
    ("1310", Class::Billing),
    ("invalid_api_key", Class::Auth),
    ("api_key_invalid", Class::Auth),
    ("incorrect_api_key", Class::Auth),
    ("authentication_error", Class::Auth),
    ("invalid_authentication_error", Class::Auth),
    ("unauthenticated", Class::Auth),
    ("permission_error", Class::Auth),
    ("rate_limit_exceeded", Class::RateLimit),
    ("rate_limit_error", Class::RateLimit),
    ("rate_limit_reached_error", Class::RateLimit),
    ("engine_overloaded_error", Class::RateLimit),
    ("resource_exhausted", Class::RateLimit),
    ("throttling", Class::RateLimit),
    ("throttlingexception", Class::RateLimit),
    ("1302", Class::RateLimit),
    ("1303", Class::RateLimit),
    ("1305", Class::RateLimit),
    ("tool_use_failed", Class::Transient),
    ("overloaded_error", Class::Transient),
    ("content_filter", Class::Fatal),
    ("content_policy_violation", Class::Fatal),
    ("responsibleaipolicyviolation", Class::Fatal),
    ("data_inspection_failed", Class::Fatal),
    ("datainspectionfailed", Class::Fatal),
    ("1301", Class::Fatal),
];

/// Words of a throttle; they come before those of the context window, which they quote ("too many tokens").
const THROTTLE: [&str; 10] = [
    "throttl",
    "rate limit",
    "rate_limit",
    "ratelimit",
    "too many requests",
    "please wait",
    "tokens per min",
    "tokens per day",
    "requests per min",
    "(tpm)",
];

const CONTEXT: [&str; 22] = [
    "maximum context length",
    "context length of",
    "context_length",
    "context window",
    "context size",
    "context limit",
    "model's context length",
    "greater than the context length",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input length too long",
    "input token count",
    "input token length too long",
    "model token limit",
    "maximum prompt length",
    "too large for model with",
    "reduce the length of",
    "prompt exceeds",
    "exceeds max length",
    "exceed max message tokens",
    "maximum allowed input",
];

const BILLING: [&str; 16] = [
    "insufficient balance",
    "insufficient_balance",
    "insufficient credit",
    "insufficient funds",
    "exceeded your current quota",
    "usage limit for this",
    "billing cycle",
    "requires more credits",
    "out of credits",
    "not enough credits",
    "no credits",
    "credit balance is too low",
    "no resource package",
    "payment required",
    "余额不足",
    "欠费",
];

const AUTH: [&str; 6] = [
    "api key not valid",
    "invalid api key",
    "incorrect api key",
    "invalid api-key",
    "invalid token",
    "no auth credentials",
];

/// Deterministic: the same bytes will fail again, whatever the status says.
const TEMPLATE: [&str; 8] = [
    "jinja",
    "templateerror",
    "template error",
    "raise_exception",
    "roles must alternate",
    "system message must be at the beginning",
    "does not support tools",
    "does not support thinking",
];

const FILTER: [&str; 4] = [
    "content management policy",
    "content_filter",
    "content filter",
    "data_inspection_failed",
];

/// For errors without any status: what passes by itself.
const PASSING: [&str; 17] = [
    "overloaded",
    "server_error",
    "server error",
    "internal_error",
    "internal error",
    "unavailable",
    "timeout",
    "timed out",
    "try again later",
    "at capacity",
    "no capacity",
    "upstream",
    "disconnected",
    "connection reset",
    "connection refused",
    "connection closed",
    "network",
];

/// A field name follows (and ends at the first byte that fits no name). Each says that the server does not know it.
const UNKNOWN_FIELD: [&str; 14] = [
    "unknown name \"",
    "unknown name '",
    "unsupported parameter: ",
    "unsupported parameter '",
    "unknown parameter: ",
    "unknown parameter '",
    "unrecognized request argument supplied: ",
    "unrecognized field",
    "unknown field",
    "unexpected field",
    "unexpected keyword argument ",
    "additional properties are not allowed (",
    "property ",
    "argument not supported on this model: ",
];

/// Judges a reply whose status is not 2xx. Nothing in `body` is trusted to be there: uclient-fetch shows neither head nor
/// body of a refusal.
pub fn classify(head: &Head, body: &[u8]) -> Failure {
    let mut body = body.trim_ascii();
    body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    if let Some(at) = find(&body[..body.len().min(200)], b"data:")
        && !matches!(body.first(), Some(b'{' | b'[' | b'<'))
    {
        body = body[at + 5..].trim_ascii();
    }
    let mut said = Said::default();
    match parse_prefix(body) {
        Ok((value, _)) => said = Said::read(value),
        Err(_) if body.starts_with(b"<") => said.text = page(body),
        Err(_) => said.text = body[..body.len().min(4096)].to_vec(),
    }
    if said.text.is_empty() && !body.is_empty() {
        // JSON without a word in it that we know.
        said.text = body[..body.len().min(4096)].to_vec();
    }
    let mut message = b"HTTP ".to_vec();
    push_dec(&mut message, u64::from(head.status));
    let moved = wait::header(head, "location").filter(|_| head.status / 100 == 3);
    if let Some(to) = moved {
        message.extend_from_slice(b": the redirect was not followed: ");
        push_line(&mut message, to.as_bytes());
    } else if !said.text.is_empty() {
        message.extend_from_slice(b": ");
        push_line(&mut message, &said.text);
    } else if head.headers.is_empty() {
        message.extend_from_slice(b" (this transport can't show the server's reason)");
    } else {
        message.extend_from_slice(b" without an explanation");
    }
    if matches!(head.status, 404 | 405) {
        message.extend_from_slice(b" (is base_url right?)");
    }
    let blank = body.is_empty() && !head.headers.is_empty();
    judge(
        head.status,
        head,
        &said,
        body,
        blank,
        Stage::Status,
        message,
    )
}

/// Judges an error object that came inside a reply, bare or with what it was wrapped in. `status` is 0 when only the object
/// can tell.
pub fn from_error_json(value: Value, status: u16) -> Failure {
    let said = Said::read(value);
    let status = if status == 0 { said.status } else { status };
    let mut message = b"the server reported an error".to_vec();
    if status != 0 {
        message.push(b' ');
        push_dec(&mut message, u64::from(status));
    }
    message.extend_from_slice(b": ");
    let text = if said.text.is_empty() {
        value.raw()
    } else {
        &said.text
    };
    push_line(&mut message, text);
    judge(
        status,
        &Head::default(),
        &said,
        value.raw(),
        false,
        Stage::Body,
        message,
    )
}

/// Judges an error that came inside a reply and may be JSON or plain text.
pub fn from_error_text(text: &[u8]) -> Failure {
    let text = text.trim_ascii();
    if let Ok((value, _)) = parse_prefix(text) {
        return from_error_json(value, 0);
    }
    let mut quoted = Vec::new();
    crate::json::write::push_string(&mut quoted, &text[..text.len().min(4096)]);
    match parse_prefix(&quoted) {
        Ok((value, _)) => from_error_json(value, 0),
        Err(_) => plain(
            Class::Fatal,
            Stage::Body,
            0,
            b"the server reported an error".to_vec(),
        ),
    }
}

/// Judges a page that came with a good status: a captive portal, or a web site where the API should be.
pub fn from_page(status: u16, body: &[u8]) -> Failure {
    let mut message = b"the server answered with an ".to_vec();
    push_line(&mut message, &page(body));
    message.extend_from_slice(
        b" instead of a chat completion (is base_url right? does this network ask for a login?)",
    );
    plain(Class::Fatal, Stage::Body, status, message)
}

/// Judges what a transport said.
pub fn from_transport(error: &transport::Error) -> Failure {
    let class = match (error.cancelled, error.transient) {
        (true, _) => Class::Cancelled,
        (_, true) => Class::Transient,
        _ => Class::Fatal,
    };
    let mut message = Vec::new();
    push_line(&mut message, error.message.as_bytes());
    plain(class, error.stage, 0, message)
}

fn plain(class: Class, stage: Stage, status: u16, message: Vec<u8>) -> Failure {
    Failure {
        class,
        stage,
        status,
        message: String::from_utf8(message).unwrap_or_default(),
        retry_after: None,
        adapt: None,
    }
}

fn page(body: &[u8]) -> Vec<u8> {
    let mut text = b"HTML page".to_vec();
    if let Some(title) = said::title(body) {
        text.extend_from_slice(b" \"");
        text.extend_from_slice(&title);
        text.push(b'"');
    }
    text
}

fn any(words: &[u8], table: &[&str]) -> bool {
    table.iter().any(|w| find(words, w.as_bytes()).is_some())
}

/// `blank`: the transport could have shown a body, and there was none.
fn judge(
    status: u16,
    head: &Head,
    said: &Said,
    body: &[u8],
    blank: bool,
    stage: Stage,
    message: Vec<u8>,
) -> Failure {
    let words = said.words();
    let body = body[..body.len().min(64 << 10)].to_ascii_lowercase();
    let code = |class: Class| {
        let is = |c: &Vec<u8>| {
            CODES
                .iter()
                .any(|(n, k)| *k == class && n.as_bytes() == c.as_slice())
        };
        said.codes.iter().any(is)
    };
    let throttled = any(&words, &THROTTLE);
    let billing = code(Class::Billing)
        || any(&words, &BILLING) && !code(Class::RateLimit) && find(&body, b"retrydelay").is_none();
    let context = code(Class::Context)
        || any(&words, &CONTEXT) && (!throttled || find(&words, b"context").is_some());
    let filtered = code(Class::Fatal) || any(&words, &FILTER);
    // A request over the budget of a whole minute: waiting never helps, a smaller one may pass.
    let over = matches!(
        (number_after(&words, b"limit "), number_after(&words, b"requested ")),
        (Some(limit), Some(requested)) if throttled && requested > limit
    );
    let mut adapt = None;
    let class = match status {
        300..=399 | 404..=407 | 410..=412 => Class::Fatal,
        401 if !billing => Class::Auth,
        402 if wait::header(head, "retry-after").is_some() => Class::RateLimit,
        401 | 402 => {
            adapt = number_after(&words, b"can only afford ").map(|n| Adapt::MaxTokens(n - n / 16));
            Class::Billing
        }
        403 if billing => Class::Billing,
        403 if filtered => Class::Fatal,
        403 if context => Class::Context,
        403 if throttled => Class::RateLimit,
        403 => Class::Auth,
        408 | 409 | 425 | 498 => Class::Transient,
        413 if throttled && !over => Class::RateLimit,
        413 => Class::Context,
        429 if over => Class::Context,
        429 if billing => Class::Billing,
        429 => Class::RateLimit,
        _ if code(Class::Transient) => Class::Transient,
        _ if code(Class::Auth) || status < 500 && any(&words, &AUTH) => Class::Auth,
        _ if billing => Class::Billing,
        _ if context => {
            adapt = room(&words);
            Class::Context
        }
        _ if status < 500 && (throttled || code(Class::RateLimit)) => Class::RateLimit,
        _ if filtered || any(&words, &TEMPLATE) => Class::Fatal,
        500..=599 => Class::Transient,
        400 if blank => Class::Context,
        _ => {
            adapt = change(said, &words);
            match &adapt {
                Some(_) => Class::Unsupported,
                None if status == 0 && any(&words, &PASSING) => Class::Transient,
                None => Class::Fatal,
            }
        }
    };
    // "usage limit" and the like still say when; a wait for money is not one.
    let waits = matches!(class, Class::RateLimit | Class::Transient | Class::Billing);
    Failure {
        retry_after: if waits {
            wait::asked(head, &body, class == Class::RateLimit)
        } else {
            None
        },
        adapt,
        ..plain(class, stage, status, message)
    }
}

/// The number right behind `needle`; a `:` or `=` may stand between.
fn number_after(words: &[u8], needle: &[u8]) -> Option<u64> {
    let mut from = 0;
    loop {
        let at = from + find(words.get(from..)?, needle)? + needle.len();
        let rest = words.get(at..)?;
        let start = rest.iter().position(|b| !b" :=`'\"".contains(b))?;
        if let Some(n) = leading_number(&rest[start..]) {
            return Some(n);
        }
        from = at;
    }
}

fn leading_number(text: &[u8]) -> Option<u64> {
    let n = text
        .iter()
        .position(|b| !b.is_ascii_digit() && *b != b',')
        .unwrap_or(text.len());
    let digits: Vec<u8> = text[..n].iter().copied().filter(|b| *b != b',').collect();
    if digits.is_empty() {
        return None;
    }
    crate::json::value::decimal(&digits, 0)
}

/// The number that ends right before `at`.
fn number_before(words: &[u8], at: usize) -> Option<u64> {
    let text = words.get(..at)?.trim_ascii_end();
    let digits = text.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    leading_number(&text[text.len() - digits..])
}

/// When the prompt alone fits the window, how many tokens are left for the answer.
fn room(words: &[u8]) -> Option<Adapt> {
    // "180002 + 32768 > 200000", "2000 in the messages", "your request has 2000 input tokens".
    let sum = find(words, b" + ").and_then(|at| {
        let over = at + find(&words[at..], b" > ")?;
        Some((
            number_before(words, at)?,
            leading_number(&words[over + 3..])?,
        ))
    });
    let told = || {
        let limit = number_after(words, b"context length is ")?;
        let prompt = [
            b" in the messages".as_slice(),
            b" in the prompt",
            b" input tokens",
        ]
        .iter()
        .find_map(|needle| number_before(words, find(words, needle)?))?;
        Some((prompt, limit))
    };
    let (prompt, limit) = sum.or_else(told)?;
    let left = limit.checked_sub(prompt)?;
    // Less is no room for an answer; a little is kept back, since tokens are counted anew.
    (left >= 1024).then_some(Adapt::MaxTokens(left - left / 32))
}

/// What to change in the request for the one adapted try.
fn change(said: &Said, words: &[u8]) -> Option<Adapt> {
    let has = |needle: &str| find(words, needle.as_bytes()).is_some();
    let unknown = has("unsupported")
        || has("not supported")
        || has("unknown")
        || has("unrecognized")
        || has("unexpected")
        || has("extra inputs")
        || has("extra_forbidden")
        || has("additional properties");
    let thinking = ["reasoning_content", "reasoning_details", "reasoning"]
        .into_iter()
        .find(|f| has(f));
    if let Some(field) = thinking
        && !unknown
        && (has("must be passed back") || has("missing"))
    {
        return Some(Adapt::AddMessageField(field.to_string()));
    }
    if has("max_completion_tokens") && has("max_tokens") && unknown {
        return Some(Adapt::RenameMaxTokens);
    }
    if has("tool_choice") && (unknown || has("does not support")) {
        return Some(Adapt::DropField("tool_choice".to_string()));
    }
    if let Some(path) = field(said, words, unknown) {
        let name = path.rsplit(['.', ']']).next().unwrap_or(&path).to_string();
        let of_message = path.contains("messages")
            || name == "reasoning_content"
            || find(words, b"'messages.").is_some()
            || find(words, b"messages[").is_some();
        return Some(if of_message {
            Adapt::StripMessageField(name)
        } else {
            Adapt::DropField(name)
        });
    }
    if has("max_tokens") || has("max_completion_tokens") || has("max_new_tokens") {
        // "supports at most 16384", "less than or equal to `8192`", "the valid range of max_tokens is [1, 8192]".
        let most = [
            b"at most ".as_slice(),
            b"less than or equal to ",
            b"maximum value of ",
            b"maximum is ",
            b"must be <= ",
            b"cannot exceed ",
            b"[1, ",
        ];
        let most = most.iter().find_map(|needle| number_after(words, needle));
        if let Some(most) = most.filter(|&n| n > 0) {
            return Some(Adapt::MaxTokens(most));
        }
    }
    if has("temperature") && (unknown || has("only 1 is allowed") || has("does not support")) {
        return Some(Adapt::DropField("temperature".to_string()));
    }
    let hollow = [
        "must not be empty",
        "cannot be empty",
        "content is empty",
        "non-empty content",
    ];
    if has("content") && hollow.iter().any(|h| has(h)) {
        return Some(Adapt::NullContent);
    }
    None
}

/// The path of the field the server does not know, as it spells it.
fn field(said: &Said, words: &[u8], unknown: bool) -> Option<String> {
    let in_name = |b: &u8| b.is_ascii_alphanumeric() || b"_.[]-".contains(b);
    let name_at = |at: usize| {
        let rest = said.text.get(at..)?;
        let start = rest
            .iter()
            .take(3)
            .take_while(|b| b" :'\"`(".contains(b))
            .count();
        let n = rest[start..].iter().take_while(|b| in_name(b)).count();
        let name = std::str::from_utf8(&rest[start..start + n]).ok()?;
        let name = name.trim_end_matches(['.', '-']);
        (!name.is_empty()).then(|| name.to_string())
    };
    // `body.messages.3.assistant.reasoning_content: Extra inputs are not permitted`
    if let Some(at) = find(words, b": extra inputs") {
        let before = said.text.get(..at)?;
        let n = before.iter().rev().take_while(|b| in_name(b)).count();
        return Some(String::from_utf8_lossy(&before[at - n..]).into_owned());
    }
    for needle in UNKNOWN_FIELD {
        let Some(at) = find(words, needle.as_bytes()) else {
            continue;
        };
        if needle != "property " || unknown {
            return name_at(at + needle.len());
        }
    }
    said.param.clone().filter(|p| unknown && !p.is_empty())
}
