//! How a reply ends: finish reasons and token counts in every spelling.

use super::said::is_one;
use super::{Class, Finish, Usage};
use crate::json::Value;

/// How the server said it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// The reply is what the model meant, as far as it got.
    Normal(Finish),
    /// A finish reason that stands for a failure.
    Failed(Class, String),
}

/// Finish reasons, lower case with `_`; what isn't here is a normal stop.
const FINISHES: [(Finish, &str); 3] = [
    (Finish::ToolCalls, "tool_calls|function_call"),
    (
        Finish::Length,
        "length|max_tokens|max_output_tokens|model_length",
    ),
    (
        Finish::ContentFilter,
        "content_filter|content_filtered|sensitive|safety|recitation|prohibited_content|blocklist|refusal",
    ),
];

/// Finish reasons that are failures.
const FAILED: [(Class, &str); 2] = [
    (
        Class::Transient,
        "error|abort|network_error|insufficient_system_resource|malformed_function_call|malformed_tool_call|\
         function_call_filter",
    ),
    (
        Class::Context,
        "model_context_window_exceeded|context_length_exceeded",
    ),
];

/// Where servers put the token counts: two names of the prompt's, two of the completion's, five of those from the cache,
/// of which the last two are objects.
const COUNTS: &str = "prompt_tokens|input_tokens|completion_tokens|output_tokens|prompt_cache_hit_tokens|cached_tokens\
    |cache_read_input_tokens|input_tokens_details|prompt_tokens_details";

impl End {
    /// Reads a finish reason; what no table has, and what is no string, is a normal stop.
    pub fn read(reason: Value) -> End {
        let text = reason.string().unwrap_or_default();
        let mut name = text.to_ascii_lowercase().into_bytes();
        for b in &mut name {
            if *b == b'-' {
                *b = b'_';
            }
        }
        if let Some((class, _)) = FAILED.iter().find(|(_, list)| is_one(&name, list)) {
            return End::Failed(*class, text);
        }
        let known = FINISHES.iter().find(|(_, list)| is_one(&name, list));
        End::Normal(known.map_or(Finish::Stop, |(finish, _)| *finish))
    }

    /// Whether it says no more than that the reply has ended.
    pub fn is_plain(&self) -> bool {
        matches!(self, End::Normal(Finish::Stop | Finish::ToolCalls))
    }
}

/// Takes token counts. They are running totals: what is named again replaces what was.
pub fn count(total: &mut Option<Usage>, usage: Option<Value>) {
    let Some(usage) = usage else { return };
    let mut found = [None; 9];
    usage.pick(COUNTS, &mut found);
    for outer in &mut found[7..] {
        *outer = outer.and_then(|v| v.get("cached_tokens"));
    }
    for (i, value) in found.iter().enumerate() {
        if let Some(n) = value.and_then(|v| v.u64()) {
            let total = total.get_or_insert_default();
            match i {
                0 | 1 => total.prompt = n,
                2 | 3 => total.completion = n,
                _ => total.cached = n,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    #[test]
    fn finish_reasons() {
        let cases = [
            ("\"stop\"", End::Normal(Finish::Stop)),
            ("\"end_turn\"", End::Normal(Finish::Stop)),
            ("\"eos\"", End::Normal(Finish::Stop)),
            ("{\"type\":\"stop\"}", End::Normal(Finish::Stop)),
            ("\"tool_calls\"", End::Normal(Finish::ToolCalls)),
            ("\"MAX_TOKENS\"", End::Normal(Finish::Length)),
            ("\"sensitive\"", End::Normal(Finish::ContentFilter)),
            ("\"SAFETY\"", End::Normal(Finish::ContentFilter)),
            (
                "\"network-error\"",
                End::Failed(Class::Transient, "network-error".into()),
            ),
            (
                "\"MALFORMED_FUNCTION_CALL\"",
                End::Failed(Class::Transient, "MALFORMED_FUNCTION_CALL".into()),
            ),
            (
                "\"model_context_window_exceeded\"",
                End::Failed(Class::Context, "model_context_window_exceeded".into()),
            ),
        ];
        for (text, want) in cases {
            assert_eq!(End::read(parse(text.as_bytes()).unwrap()), want, "{text}");
        }
    }

    #[test]
    fn counts_wherever_they_are() {
        let read = |texts: &[&str]| {
            let mut total = None;
            for text in texts {
                count(&mut total, parse(text.as_bytes()).ok());
            }
            total.map(|u| (u.prompt, u.completion, u.cached))
        };
        assert_eq!(read(&["{}", "null", "{\"prompt_tokens\":null}"]), None);
        let deepseek = r#"{"prompt_tokens":9,"completion_tokens":2,"prompt_cache_hit_tokens":5,"prompt_tokens_details":null}"#;
        assert_eq!(read(&[deepseek]), Some((9, 2, 5)));
        let openai = r#"{"prompt_tokens":9.0,"completion_tokens":1e1,"prompt_tokens_details":{"cached_tokens":4}}"#;
        assert_eq!(read(&[openai]), Some((9, 10, 4)));
        assert_eq!(
            read(&[r#"{"input_tokens":3,"output_tokens":1,"cached_tokens":2}"#]),
            Some((3, 1, 2))
        );
        let first = r#"{"prompt_tokens":7,"completion_tokens":1}"#;
        let last = r#"{"prompt_tokens":7,"completion_tokens":5}"#;
        assert_eq!(
            read(&[first, last]),
            Some((7, 5, 0)),
            "running totals are not added up"
        );
    }
}
