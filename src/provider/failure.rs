//! Failures: the status and typed codes decide, tables of words where servers have none. Nothing outside this module looks
//! at the text of an error.

use super::adapt::{change, number_after, room};
use super::said::{self, Said, any, find};
use super::transport::{self, Head};
use super::words::*;
use super::{Adapt, Class, Failure, Stage, wait};
use crate::json::{Value, parse_prefix};
use crate::text::push_dec;

pub use said::{is_error, push_line};

/// Judges a reply whose status is not 2xx. Nothing in `body` is trusted to be there: uclient-fetch shows neither head nor
/// body of a refusal.
pub fn classify(head: &Head, body: &[u8]) -> Box<Failure> {
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
        Err(_) => {}
    }
    if said.text.is_empty() {
        // No JSON, or JSON without a word in it that we know.
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
    let mut failure = plain(Class::Fatal, Stage::Status, head.status, message);
    judge(&mut failure, head, &said, body, blank);
    failure
}

/// Judges an error object that came inside a reply, bare or with what it was wrapped in. `status` is 0 when only the object
/// can tell.
pub fn from_error_json(value: Value, status: u16) -> Box<Failure> {
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
    let mut failure = plain(Class::Fatal, Stage::Body, status, message);
    judge(&mut failure, &Head::default(), &said, value.raw(), false);
    failure
}

/// Judges an error that came inside a reply and may be JSON or plain text.
pub fn from_error_text(text: &[u8]) -> Box<Failure> {
    let text = text.trim_ascii();
    if let Ok((value, _)) = parse_prefix(text) {
        return from_error_json(value, 0);
    }
    let mut quoted = Vec::new();
    crate::json::write::push_string(&mut quoted, &text[..text.len().min(4096)]);
    from_error_json(crate::json::value::checked(&quoted), 0)
}

/// Judges a page that came with a good status: a captive portal, or a web site where the API should be.
pub fn from_page(status: u16, body: &[u8]) -> Box<Failure> {
    let mut message = b"the server answered with an ".to_vec();
    push_line(&mut message, &page(body));
    message.extend_from_slice(
        b" instead of a chat completion (is base_url right? does this network ask for a login?)",
    );
    plain(Class::Fatal, Stage::Body, status, message)
}

/// Judges what a transport said.
pub fn from_transport(error: &transport::Error) -> Box<Failure> {
    let class = match (error.cancelled, error.transient) {
        (true, _) => Class::Cancelled,
        (_, true) => Class::Transient,
        _ => Class::Fatal,
    };
    let mut message = Vec::new();
    push_line(&mut message, error.message.as_bytes());
    plain(class, error.stage, 0, message)
}

/// A failure with nothing but its message.
pub fn plain(class: Class, stage: Stage, status: u16, message: Vec<u8>) -> Box<Failure> {
    Box::new(Failure {
        class,
        stage,
        status,
        message: String::from_utf8(message).unwrap_or_default(),
        retry_after: None,
        adapt: None,
    })
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

/// The lists that fit, as bits.
fn marks(said: &Said, words: &[u8]) -> u32 {
    let mut bits = 0;
    let mut bit = 1;
    for list in WORDS.as_bytes().split(|&b| b == b'\n') {
        if any(words, list) {
            bits |= bit;
        }
        bit <<= 1;
    }
    for list in CODES.as_bytes().split(|&b| b == b'\n') {
        if said.codes.iter().any(|code| said::is_in(code, list)) {
            bits |= bit;
        }
        bit <<= 1;
    }
    bits
}

/// First and last status, one of these bits (0: always), and what it is then. The first that fits counts.
const RULES: [(u16, u16, u32, Class); 31] = [
    (300, 399, 0, Class::Fatal),
    (402, 402, RETRY, Class::RateLimit),
    (401, 401, BILLING, Class::Billing),
    (401, 401, 0, Class::Auth),
    (402, 402, 0, Class::Billing),
    (403, 403, BILLING, Class::Billing),
    (403, 403, FILTER, Class::Fatal),
    (403, 403, CONTEXT, Class::Context),
    (403, 403, THROTTLE, Class::RateLimit),
    (403, 403, 0, Class::Auth),
    (404, 407, 0, Class::Fatal),
    (408, 409, 0, Class::Transient),
    (410, 412, 0, Class::Fatal),
    (413, 413, OVER, Class::Context),
    (413, 413, THROTTLE, Class::RateLimit),
    (413, 413, 0, Class::Context),
    (425, 425, 0, Class::Transient),
    (429, 429, OVER, Class::Context),
    (429, 429, BILLING, Class::Billing),
    (429, 429, 0, Class::RateLimit),
    (498, 498, 0, Class::Transient),
    (0, 999, CODE_TRANSIENT, Class::Transient),
    (0, 999, CODE_AUTH, Class::Auth),
    (0, 499, AUTH, Class::Auth),
    (0, 999, BILLING, Class::Billing),
    (0, 999, CONTEXT, Class::Context),
    (0, 499, THROTTLE | CODE_LIMIT, Class::RateLimit),
    (0, 999, FILTER | TEMPLATE, Class::Fatal),
    (500, 599, 0, Class::Transient),
    (400, 400, BLANK, Class::Context),
    (0, 999, 0, Class::Unsupported),
];

/// Fills in class, wait and change. `blank`: the transport could have shown a body, and there was none.
fn judge(f: &mut Failure, head: &Head, said: &Said, body: &[u8], blank: bool) {
    let status = f.status;
    let words = said.words();
    let words = words.as_slice();
    let body = body[..body.len().min(64 << 10)].to_ascii_lowercase();
    let mut bits = marks(said, words);
    let throttled = bits & THROTTLE != 0;
    // Words of money count unless something says that waiting helps, those of the window unless it is a throttle.
    if bits & CODE_LIMIT != 0 || find(&body, b"retrydelay").is_some() {
        bits &= !BILLING;
    }
    if throttled && bits & NAMES_CONTEXT == 0 {
        bits &= !CONTEXT;
    }
    for (code, word) in [
        (CODE_BILLING, BILLING),
        (CODE_CONTEXT, CONTEXT),
        (CODE_FATAL, FILTER),
    ] {
        if bits & code != 0 {
            bits |= word;
        }
    }
    // A request over the budget of a whole minute: waiting never helps, a smaller one may pass.
    if throttled
        && let Some(n) = number_after(words, b"requested ")
        && number_after(words, b"limit ").is_some_and(|limit| n > limit)
    {
        bits |= OVER;
    }
    if status == 402 && wait::header(head, "retry-after").is_some() {
        bits |= RETRY;
    }
    if blank {
        bits |= BLANK;
    }
    let fits = |r: &&(u16, u16, u32, Class)| {
        (r.0..=r.1).contains(&status) && (r.2 == 0 || bits & r.2 != 0)
    };
    f.class = RULES.iter().find(fits).map_or(Class::Unsupported, |r| r.3);
    f.adapt = match (f.class, status) {
        (Class::Billing, 401 | 402) => {
            number_after(words, b"can only afford ").map(|n| Adapt::MaxTokens(n - n / 16))
        }
        (Class::Context, 403 | 413 | 429) => None,
        (Class::Context, _) => room(words),
        (Class::Unsupported, _) => change(said, words, bits),
        _ => None,
    };
    if f.class == Class::Unsupported && f.adapt.is_none() {
        f.class = match status {
            0 if bits & PASSING != 0 => Class::Transient,
            _ => Class::Fatal,
        };
    }
    // "usage limit" and the like still say when; a wait for money is not one.
    if matches!(
        f.class,
        Class::RateLimit | Class::Transient | Class::Billing
    ) {
        f.retry_after = wait::asked(head, &body, f.class == Class::RateLimit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(status: u16, body: &str) -> Box<Failure> {
        let head = Head {
            status,
            headers: "content-type:application/json\n".into(),
        };
        classify(&head, body.as_bytes())
    }

    fn said(message: &str) -> String {
        let mut body = b"{\"error\":{\"message\":".to_vec();
        crate::json::write::push_string(&mut body, message.as_bytes());
        body.extend_from_slice(b"}}");
        String::from_utf8(body).unwrap()
    }

    #[test]
    fn status_alone() {
        use Class::*;
        let cases = [
            (301, Fatal),
            (400, Context),
            (401, Auth),
            (402, Billing),
            (403, Auth),
            (404, Fatal),
            (405, Fatal),
            (408, Transient),
            (409, Transient),
            (413, Context),
            (418, Fatal),
            (422, Fatal),
            (425, Transient),
            (429, RateLimit),
            (498, Transient),
            (500, Transient),
            (502, Transient),
            (503, Transient),
            (504, Transient),
            (520, Transient),
            (524, Transient),
            (529, Transient),
            (599, Transient),
        ];
        for (status, class) in cases {
            let failure = http(status, "");
            assert_eq!(failure.class, class, "{status}");
            assert!(
                failure.message.contains(&status.to_string()),
                "{}",
                failure.message
            );
            assert_eq!((failure.status, failure.stage), (status, Stage::Status));
        }
        // A transport that can't show a body says nothing by an empty one.
        let mute = Head {
            status: 400,
            headers: String::new(),
        };
        assert_eq!(classify(&mute, b"").class, Fatal);
    }

    #[test]
    fn context_windows_of_all_servers() {
        for text in [
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
            "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens.",
            "The input (40000 tokens) is longer than the model's context length (32768 tokens).",
            "the request exceeds the available context size, try increasing it",
            "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens",
            "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
            "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
            "Please reduce the length of the messages or completion.",
            "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
            "Your request exceeded model token limit: 262144",
            "Input token length too long",
            "invalid params, context window exceeds limit",
            "prompt is too long: 210000 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 199900 + 32768 > 200000",
        ] {
            for status in [400, 422, 500] {
                assert_eq!(
                    http(status, &said(text)).class,
                    Class::Context,
                    "{status} {text}"
                );
            }
        }
        for code in [
            "context_length_exceeded",
            "tokens_too_long",
            "1261",
            "exceed_context_size_error",
        ] {
            let body = format!("{{\"error\":{{\"code\":\"{code}\",\"message\":\"no\"}}}}");
            assert_eq!(http(400, &body).class, Class::Context, "{code}");
        }
        assert_eq!(
            http(429, &said("Too many tokens, please wait")).class,
            Class::RateLimit
        );
        assert_eq!(
            http(400, &said("Too many requests in your context")).class,
            Class::RateLimit
        );
    }

    #[test]
    fn money_and_keys() {
        use Class::*;
        let cases = [
            (402, "Insufficient Balance", Billing),
            (
                429,
                "You exceeded your current quota, please check your plan and billing details.",
                Billing,
            ),
            (
                403,
                "You've reached your usage limit for this billing cycle.",
                Billing,
            ),
            (
                403,
                "The request was blocked: data_inspection_failed",
                Fatal,
            ),
            (403, "Forbidden", Auth),
            (
                400,
                "Your credit balance is too low to access the API",
                Billing,
            ),
            (401, "No credits", Billing),
            (401, "bad key", Auth),
            (400, "API key not valid. Please pass a valid API key.", Auth),
            (429, "Rate limit reached, try again in 4.77s", RateLimit),
            (500, "internal error", Transient),
            (500, "Jinja Exception: roles must alternate", Fatal),
            (
                400,
                "registry.ollama.ai/library/x:1b does not support tools",
                Fatal,
            ),
        ];
        for (status, text, class) in cases {
            assert_eq!(http(status, &said(text)).class, class, "{status} {text}");
        }
        for (code, class) in [
            ("1113", Billing),
            ("1310", Billing),
            ("1302", RateLimit),
            ("rate_limit_exceeded", RateLimit),
        ] {
            let body = format!("{{\"error\":{{\"code\":\"{code}\",\"message\":\"no\"}}}}");
            assert_eq!(http(429, &body).class, class, "{code}");
        }
        assert_eq!(
            http(429, &said("try again in 4.77s")).retry_after,
            Some(4770)
        );
        let mut head = Head {
            status: 402,
            headers: "retry-after:3\n".into(),
        };
        let failure = classify(&head, b"");
        assert_eq!(
            (failure.class, failure.retry_after),
            (RateLimit, Some(3000))
        );
        head.status = 413;
        let over = said("tokens per minute (TPM): Limit 8000, Requested 31500, please");
        assert_eq!(classify(&head, over.as_bytes()).class, Context);
        let under = said(
            "tokens per minute (TPM): Limit 8000, Used 7000, Requested 1500, please try again in 4s",
        );
        assert_eq!(http(429, &under).class, RateLimit);
    }

    #[test]
    fn errors_inside_a_reply() {
        use Class::*;
        let cases = [
            (r#"{"error":{"code":502,"message":"x"}}"#, Transient, 502),
            (r#"{"error":{"code":"429","message":"x"}}"#, RateLimit, 429),
            (
                r#"{"error":{"message":"Overloaded","type":"overloaded_error"}}"#,
                Transient,
                0,
            ),
            (
                r#"{"error":{"message":"x","type":"server_error"}}"#,
                Transient,
                0,
            ),
            (
                r#"{"error":{"message":"x","type":"rate_limit_error"}}"#,
                RateLimit,
                0,
            ),
            (
                r#"{"error":{"message":"x","type":"authentication_error"}}"#,
                Auth,
                0,
            ),
            (
                r#"{"error":{"message":"x","code":"insufficient_quota"}}"#,
                Billing,
                0,
            ),
            (r#"{"error":"prompt is too long"}"#, Context, 0),
            (r#"{"error":"model not found"}"#, Fatal, 0),
            ("upstream connect error", Transient, 0),
            ("\"plain\"", Fatal, 0),
            ("", Fatal, 0),
        ];
        for (text, class, status) in cases {
            let failure = from_error_text(text.as_bytes());
            assert_eq!((failure.class, failure.status), (class, status), "{text}");
            assert_eq!(failure.stage, Stage::Body);
        }
    }

    #[test]
    fn messages_are_one_line_without_keys() {
        let failure = http(
            401,
            &said("Incorrect key\nsk-abcdef0123456789 given,\tBearer xyz"),
        );
        assert_eq!(
            failure.message,
            "HTTP 401: Incorrect key sk-… given, Bearer …"
        );
        let page = http(
            502,
            "<html><head><title>502 Bad Gateway</title></head></html>",
        );
        assert_eq!(
            (page.class, page.message.as_str()),
            (Class::Transient, "HTTP 502: HTML page \"502 Bad Gateway\"")
        );
        let event = http(
            500,
            "event: error\ndata: {\"error\":{\"message\":\"Context size has been exceeded.\"}}\n\n",
        );
        assert_eq!(event.class, Class::Context);
        let odd = http(400, "{\"strange\":[1,2]}");
        assert_eq!(odd.message, "HTTP 400: {\"strange\":[1,2]}");
    }
}
