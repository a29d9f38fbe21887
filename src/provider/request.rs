//! The body of a request, written straight from stored messages. It begins with the model and the messages, so that
//! each request of a turn is a byte-for-byte prefix of the next one up to the end of its messages, and servers find what
//! they cached. Fields: model, messages, tools and tool_choice, thinking, reasoning_effort, max_tokens, stream and
//! stream_options; nothing else, ever. For the URL see [`super::url`].

use super::endpoint::{HIGH_EFFORT, NEW_MAX_TOKENS, NO_STREAM, Rules};
use super::messages::{self, Message};
use crate::json::write::push_string;
use crate::text::push_dec;

/// What to ask.
#[derive(Clone, Copy)]
pub struct Body<'a> {
    /// The model's id.
    pub model: &'a str,
    /// The conversation in order.
    pub messages: &'a [Message<'a>],
    /// The schemas of the tools as a JSON array; `None` or an empty array offers none.
    pub tools: Option<&'a [u8]>,
    /// Tokens asked for in a reply; 0 leaves the field out.
    pub max_tokens: u64,
    /// Ask for thinking.
    pub thinking: bool,
    /// How hard to think; empty leaves the field out, and so does `thinking` being off.
    pub reasoning_effort: &'a str,
    /// Ask for a stream.
    pub stream: bool,
}

/// The body for the endpoint `origin`, as its rules have it.
pub fn body(ask: &Body, rules: &Rules, origin: u32) -> Vec<u8> {
    let tools = ask.tools.filter(|t| {
        let inner = t.trim_ascii();
        inner.len() > 2 && inner != b"null"
    });
    let size: usize = ask.messages.iter().map(|m| m.json.len() + 1).sum();
    let mut out = Vec::with_capacity(size + tools.map_or(0, <[u8]>::len) + ask.model.len() + 512);
    put(&mut out, b"{\"model\":");
    push_string(&mut out, ask.model.as_bytes());
    put(&mut out, b",\"messages\":[");
    messages::push(&mut out, ask.messages, rules, origin);
    out.push(b']');
    if let Some(tools) = tools {
        put(&mut out, b",\"tools\":");
        put(&mut out, tools);
        if rules.sends("tool_choice") {
            put(&mut out, b",\"tool_choice\":\"auto\"");
        }
    }
    if ask.thinking && rules.sends("thinking") {
        put(&mut out, b",\"thinking\":{\"type\":\"enabled\"}");
    }
    if ask.thinking && !ask.reasoning_effort.is_empty() && rules.sends("reasoning_effort") {
        let mut effort = ask.reasoning_effort;
        if effort == "max" && rules.has(HIGH_EFFORT) {
            effort = "high";
        }
        put(&mut out, b",\"reasoning_effort\":");
        push_string(&mut out, effort.as_bytes());
    }
    let limit = rules.limit(ask.max_tokens);
    if limit > 0 {
        let new = rules.has(NEW_MAX_TOKENS);
        put(
            &mut out,
            if new {
                b",\"max_completion_tokens\":"
            } else {
                b",\"max_tokens\":"
            },
        );
        push_dec(&mut out, limit);
    }
    let stream = ask.stream && !rules.has(NO_STREAM);
    put(
        &mut out,
        if stream {
            b",\"stream\":true"
        } else {
            b",\"stream\":false"
        },
    );
    if stream && rules.sends("stream_options") {
        put(&mut out, b",\"stream_options\":{\"include_usage\":true}");
    }
    out.push(b'}');
    out
}

fn put(out: &mut Vec<u8>, text: &[u8]) {
    messages::put(out, &[text]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Adapt;
    use crate::provider::url::Base;

    const TOOLS: &[u8] = br#"[{"type":"function","function":{"name":"read","parameters":{"type":"object","properties":{}}}}]"#;

    fn text(ask: &Body, rules: &Rules) -> String {
        let text = String::from_utf8(body(ask, rules, 1)).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
        text
    }

    fn ask<'a>(messages: &'a [Message<'a>]) -> Body<'a> {
        Body {
            model: "deepseek-v4-pro",
            messages,
            tools: Some(TOOLS),
            max_tokens: 131_072,
            thinking: true,
            reasoning_effort: "max",
            stream: true,
        }
    }

    fn stored(text: &str) -> Message<'_> {
        Message {
            json: text.as_bytes(),
            origin: 1,
        }
    }

    #[test]
    fn a_whole_body() {
        let messages = [
            stored(r#"{"role":"system","content":"You are cluade."}"#),
            stored(r#"{"role":"user","content":"hi"}"#),
        ];
        let got = text(&ask(&messages), &Rules::default());
        let want = [
            r#"{"model":"deepseek-v4-pro","messages":[{"role":"system","content":"You are cluade."},"#,
            r#"{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"read","#,
            r#""parameters":{"type":"object","properties":{}}}}],"tool_choice":"auto","#,
            r#""thinking":{"type":"enabled"},"reasoning_effort":"max","max_tokens":131072,"#,
            r#""stream":true,"stream_options":{"include_usage":true}}"#,
        ];
        assert_eq!(got, want.concat());
    }

    #[test]
    fn fields_by_configuration() {
        let plain = Body {
            model: "m\"1",
            tools: None,
            max_tokens: 0,
            thinking: false,
            stream: false,
            ..ask(&[])
        };
        let bare = r#"{"model":"m\"1","messages":[],"stream":false}"#;
        assert_eq!(text(&plain, &Rules::default()), bare);
        for tools in [&b"[]"[..], b" [] ", b"null", b""] {
            let tools = Some(tools);
            assert_eq!(text(&Body { tools, ..plain }, &Rules::default()), bare);
        }
        let no_effort = Body {
            thinking: true,
            reasoning_effort: "",
            ..plain
        };
        let got = text(&no_effort, &Rules::default());
        assert!(got.contains("thinking") && !got.contains("effort"), "{got}");
    }

    #[test]
    fn fields_by_rules() {
        let tail = |rules: &Rules| {
            let got = text(&ask(&[]), rules);
            got.split_once("}}}}]").unwrap().1.to_string()
        };
        let mut rules = Rules::default();
        for (adapt, want) in [
            (
                Adapt::DropField("include_usage".into()),
                r#","tool_choice":"auto","thinking":{"type":"enabled"},"reasoning_effort":"max","max_tokens":131072,"stream":true}"#,
            ),
            (
                Adapt::DropField("tool_choice".into()),
                r#","thinking":{"type":"enabled"},"reasoning_effort":"max","max_tokens":131072,"stream":true}"#,
            ),
            (
                Adapt::DropField("thinking.type".into()),
                r#","reasoning_effort":"max","max_tokens":131072,"stream":true}"#,
            ),
            (
                Adapt::RenameMaxTokens,
                r#","reasoning_effort":"max","max_completion_tokens":131072,"stream":true}"#,
            ),
            (
                Adapt::MaxTokens(8192),
                r#","reasoning_effort":"max","max_completion_tokens":8192,"stream":true}"#,
            ),
            (
                Adapt::DropField("reasoning_effort".into()),
                r#","max_completion_tokens":8192,"stream":true}"#,
            ),
            (
                Adapt::DropField("stream".into()),
                r#","max_completion_tokens":8192,"stream":false}"#,
            ),
            (
                Adapt::DropField("max_completion_tokens".into()),
                r#","stream":false}"#,
            ),
        ] {
            assert!(rules.apply(&adapt));
            assert!(!rules.apply(&adapt), "twice the same changes nothing");
            assert_eq!(tail(&rules), want);
        }
        for field in ["model", "messages", "tools", "messages[2].content", ""] {
            assert!(!rules.apply(&Adapt::DropField(field.into())), "{field}");
        }
    }

    #[test]
    fn strict_hosts() {
        let tail = |url: &str, model: &str| {
            let rules = Rules::known(&Base::parse(url).unwrap(), model, true);
            text(&ask(&[]), &rules)
                .split_once("\"auto\"")
                .unwrap()
                .1
                .to_string()
        };
        for (url, model, want) in [
            (
                "https://api.mistral.ai/v1",
                "codestral",
                r#","max_tokens":131072,"stream":true}"#,
            ),
            (
                "https://api.openai.com/v1",
                "gpt-5.2",
                r#","reasoning_effort":"high","max_completion_tokens":131072,"stream":true,"stream_options":{"include_usage":true}}"#,
            ),
            (
                "https://api.openai.com/v1",
                "gpt-4.1",
                r#","max_tokens":131072,"stream":true,"stream_options":{"include_usage":true}}"#,
            ),
            (
                "https://api.groq.com/openai/v1",
                "deepseek-r1-distill",
                r#","max_tokens":131072,"stream":true,"stream_options":{"include_usage":true}}"#,
            ),
            (
                "https://notopenai.com",
                "gpt-5",
                r#","thinking":{"type":"enabled"},"reasoning_effort":"max","max_tokens":131072,"stream":true,"stream_options":{"include_usage":true}}"#,
            ),
        ] {
            assert_eq!(tail(url, model), want, "{url} {model}");
        }
    }

    /// Thirty steps of a turn, each adding calls and results: every request must begin with the one before it.
    #[test]
    fn each_request_begins_with_the_one_before() {
        for (url, model) in [
            ("https://api.deepseek.com/v1", "deepseek-v4-pro"),
            ("https://api.mistral.ai/v1", "m"),
            ("https://api.groq.com/openai/v1", "m"),
            ("http://[::1]:8080/v1", "m"),
        ] {
            let rules = Rules::known(&Base::parse(url).unwrap(), model, true);
            let mut lines = vec![
                r#"{"role":"system","content":"S"}"#.to_string(),
                r#"{"role":"user","content":"go"}"#.to_string(),
            ];
            let mut before: Vec<u8> = Vec::new();
            for step in 0..30 {
                let messages: Vec<Message> = lines
                    .iter()
                    .enumerate()
                    .map(|(i, line)| Message {
                        json: line.as_bytes(),
                        origin: u32::from(i % 5 != 0),
                    })
                    .collect();
                let tools = [TOOLS, b"[]"][step % 2];
                let asked = Body {
                    model,
                    tools: Some(tools),
                    ..ask(&messages)
                };
                let got = text(&asked, &rules).into_bytes();
                assert!(got.starts_with(&before), "{url} step {step}");
                // Up to the end of the messages, without the bracket.
                let tail = text(
                    &Body {
                        messages: &[],
                        ..asked
                    },
                    &rules,
                );
                let tail = tail.len() - tail.find("\"messages\":[").unwrap() - 12;
                before = got[..got.len() - tail].to_vec();
                assert!(before.ends_with(b"}"));
                let calls: Vec<String> = (0..=step % 3)
                    .map(|c| {
                        format!(
                            r#"{{"id":"call.{step}.{c}","type":"function","function":{{"name":"bash","arguments":"{{\"command\":\"echo {c}\"}}"}}}}"#
                        )
                    })
                    .collect();
                let thought =
                    ["", r#","reasoning_content":"hm""#, r#","reasoning":"hm""#][step % 3];
                lines.push(format!(
                    r#"{{"role":"assistant","content":""{thought},"tool_calls":[{}]}}"#,
                    calls.join(",")
                ));
                for c in 0..=step % 3 {
                    lines.push(format!(
                        r#"{{"role":"tool","tool_call_id":"call.{step}.{c}","content":"{c}\n"}}"#
                    ));
                }
            }
        }
    }
}
