//! What to change in a request that was refused, read from the words of the refusal.

use super::Adapt;
use super::said::{Said, find, is_one};
use super::words::*;

/// A field name follows (and ends at the first byte that fits no name). Each says that the server does not know it.
const UNKNOWN_FIELD: &str = "unknown name \"|unknown name '|unsupported parameter: |unsupported parameter '\
    |unknown parameter: |unknown parameter '|unrecognized request argument supplied: \
    |unrecognized field|unknown field|unexpected field|unexpected keyword argument \
    |additional properties are not allowed (|property |argument not supported on this model: ";

/// The number right behind `needle`; a `:` or `=` may stand between.
pub fn number_after(words: &[u8], needle: &[u8]) -> Option<u64> {
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
    let mut digits = text[..n].to_vec();
    digits.retain(|&b| b != b',');
    crate::json::value::decimal(&digits, 0)
}

/// The number that ends right before `at`.
fn number_before(words: &[u8], at: usize) -> Option<u64> {
    let text = words.get(..at)?.trim_ascii_end();
    let digits = text.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    leading_number(&text[text.len() - digits..])
}

/// When the prompt alone fits the window, how many tokens are left for the answer.
pub fn room(words: &[u8]) -> Option<Adapt> {
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

/// What to change in the request for the one adapted try. `bits`: the lists of [`super::words`] that fit.
pub fn change(said: &Said, words: &[u8], bits: u32) -> Option<Adapt> {
    let has = |list: u32| bits & list != 0;
    let drop = |name: &str| Some(Adapt::DropField(name.to_string()));
    let unknown = has(UNKNOWN);
    if !unknown && has(MISSING) {
        for field in ["reasoning_content", "reasoning_details", "reasoning"] {
            if find(words, field.as_bytes()).is_some() {
                return Some(Adapt::AddMessageField(field.to_string()));
            }
        }
    }
    if unknown && has(MAX_COMPLETION) && has(MAX_TOKENS) {
        return Some(Adapt::RenameMaxTokens);
    }
    let refused = has(UNKNOWN | NO_SUPPORT);
    if refused && has(TOOL_CHOICE) {
        return drop("tool_choice");
    }
    if let Some(path) = field(said, words, unknown) {
        let end = path.iter().rposition(|b| b".]".contains(b));
        let name = &path[end.map_or(0, |i| i + 1)..];
        // Without these a message is none.
        if is_one(name, "|role|content|tool_calls|tool_call_id") {
            return None;
        }
        let of_message =
            find(&path, b"messages").is_some() || name == b"reasoning_content" || has(IN_MESSAGES);
        let name = String::from_utf8(name.to_vec()).unwrap_or_default();
        return Some(if of_message {
            Adapt::StripMessageField(name)
        } else {
            Adapt::DropField(name)
        });
    }
    if has(MAX_TOKENS | MAX_COMPLETION | MAX_NEW) {
        // "supports at most 16384", "less than or equal to `8192`", "the valid range of max_tokens is [1, 8192]".
        let most = "at most |less than or equal to |maximum value of |maximum is |must be <= |cannot exceed |[1, ";
        let mut most = most.as_bytes().split(|&b| b == b'|');
        let most = most.find_map(|needle| number_after(words, needle));
        if let Some(most) = most.filter(|&n| n > 0) {
            return Some(Adapt::MaxTokens(most));
        }
    }
    if has(UNKNOWN | NO_SUPPORT | ONLY_ONE) && has(TEMPERATURE) {
        return drop("temperature");
    }
    (has(EMPTY) && has(NAMES_CONTENT)).then_some(Adapt::NullContent)
}

/// The path of the field the server does not know, as it spells it.
fn field(said: &Said, words: &[u8], unknown: bool) -> Option<Vec<u8>> {
    let in_name = |b: &u8| b.is_ascii_alphanumeric() || b"_.[]-".contains(b);
    let name_at = |at: usize| {
        let rest = said.text.get(at..)?;
        let start = rest
            .iter()
            .take(3)
            .take_while(|b| b" :'\"`(".contains(b))
            .count();
        let n = rest[start..].iter().take_while(|b| in_name(b)).count();
        let mut name = &rest[start..start + n];
        while let [shorter @ .., b'.' | b'-'] = name {
            name = shorter;
        }
        (!name.is_empty()).then(|| name.to_vec())
    };
    // `body.messages.3.assistant.reasoning_content: Extra inputs are not permitted`
    if let Some(at) = find(words, b": extra inputs") {
        let before = said.text.get(..at)?;
        let n = before.iter().rev().take_while(|b| in_name(b)).count();
        return Some(before[at - n..].to_vec());
    }
    for needle in UNKNOWN_FIELD.as_bytes().split(|&b| b == b'|') {
        let Some(at) = find(words, needle) else {
            continue;
        };
        if needle != b"property " || unknown {
            return name_at(at + needle.len());
        }
    }
    let param = said.param.clone().filter(|p| unknown && !p.is_empty());
    param.map(String::into_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::failure::classify;
    use crate::provider::transport::Head;
    use crate::provider::{Class, Failure};

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
    fn room_for_the_answer() {
        let adapt = |text: &str| http(400, &said(text)).adapt;
        let cases = [
            (
                "maximum context length is 32768 tokens. However, you requested 34000 tokens (2000 in the messages, 32000 in the completion)",
                Some(30768 - 961),
            ),
            (
                "exceed context limit: 180002 + 32768 > 200000, decrease",
                Some(19998 - 624),
            ),
            (
                "This model's maximum context length is 32768 tokens and your request has 2000 input tokens",
                Some(30768 - 961),
            ),
            ("exceed context limit: 199900 + 32768 > 200000", None),
            ("prompt is too long: 210000 tokens > 200000 maximum", None),
        ];
        for (text, want) in cases {
            assert_eq!(adapt(text), want.map(Adapt::MaxTokens), "{text}");
        }
    }

    #[test]
    fn what_to_change_in_the_request() {
        use Adapt::*;
        let drop = |f: &str| Some(DropField(f.into()));
        let strip = |f: &str| Some(StripMessageField(f.into()));
        let add = |f: &str| Some(AddMessageField(f.into()));
        let cases = [
            (
                "The `reasoning_content` in the thinking mode must be passed back to the API.",
                add("reasoning_content"),
            ),
            (
                "Missing `reasoning_content` field in the assistant message at message index 3",
                add("reasoning_content"),
            ),
            (
                "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
                add("reasoning_content"),
            ),
            (
                "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property 'reasoning_content' is unsupported)]",
                strip("reasoning_content"),
            ),
            (
                "'messages.2' : property 'reasoning' is unsupported",
                strip("reasoning"),
            ),
            (
                "Invalid JSON payload received. Unknown name \"reasoning_content\" at 'messages[3]': Cannot find field.",
                strip("reasoning_content"),
            ),
            (
                "Invalid JSON payload received. Unknown name \"stream_options\": Cannot find field.",
                drop("stream_options"),
            ),
            (
                "property 'parallel_tool_calls' is unsupported",
                drop("parallel_tool_calls"),
            ),
            (
                "Unrecognized request argument supplied: store",
                drop("store"),
            ),
            ("Unknown parameter: 'metadata'.", drop("metadata")),
            (
                "Thinking mode does not support this tool_choice",
                drop("tool_choice"),
            ),
            (
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                Some(RenameMaxTokens),
            ),
            (
                "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
                Some(MaxTokens(16384)),
            ),
            (
                "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
                Some(MaxTokens(8192)),
            ),
            (
                "invalid temperature: only 1 is allowed for this model",
                drop("temperature"),
            ),
            (
                "message at position 3 with role 'assistant' must not be empty: content",
                Some(NullContent),
            ),
            ("body.messages.2.tool_call_id: Field required", None),
            (
                "unknown variant `developer`, expected one of `system`, `user`",
                None,
            ),
            ("model does not exist", None),
        ];
        for (text, want) in cases {
            let failure = http(400, &said(text));
            assert_eq!(failure.adapt, want, "{text}");
            let class = if want.is_some() {
                Class::Unsupported
            } else {
                Class::Fatal
            };
            assert_eq!(failure.class, class, "{text}");
        }
        let param = r#"{"error":{"message":"Unsupported value","param":"messages[0].role","code":"unsupported_value"}}"#;
        assert_eq!(http(400, param).adapt, None);
        let param = r#"{"error":{"message":"Unsupported value","param":"top_p","code":"unsupported_value"}}"#;
        assert_eq!(http(400, param).adapt, drop("top_p"));
        let detail = r#"{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}"#;
        assert_eq!(http(422, detail).adapt, drop("stream_options"));
    }
}
