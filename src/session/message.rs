//! Messages: making the JSON text that goes on the wire and into the session file, and reading it again.

use crate::json::value::checked;
use crate::json::write::{push_escaped, push_string};
use crate::json::{Kind, Value, parse};
use crate::provider::{Call, Reply};
use crate::text::push_dec;

/// The result of a call that never ran because its process was ended.
pub const INTERRUPTED: &[u8] = b"error: not executed: the run was interrupted";

/// Longest function name servers take.
const NAME_MAX: usize = 64;

/// Who a message is from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The instructions.
    System,
    /// The user, or the agent in their place.
    User,
    /// The model.
    Assistant,
    /// A tool's result.
    Tool,
}

/// Appends `start`, `id` as a string if there is one, and the content.
fn plain(out: &mut Vec<u8>, start: &[u8], id: Option<&str>, text: &[u8]) {
    out.reserve(text.len() + text.len() / 16 + 96);
    out.extend_from_slice(start);
    if let Some(id) = id {
        push_string(out, id.as_bytes());
    }
    out.extend_from_slice(b",\"content\":");
    push_string(out, text);
    out.push(b'}');
}

/// Appends a system message.
pub fn system(out: &mut Vec<u8>, text: &[u8]) {
    plain(out, b"{\"role\":\"system\"", None, text);
}

/// Appends a user message.
pub fn user(out: &mut Vec<u8>, text: &[u8]) {
    plain(out, b"{\"role\":\"user\"", None, text);
}

/// Appends the result of the call `id`.
pub fn tool(out: &mut Vec<u8>, id: &str, text: &[u8]) {
    plain(out, b"{\"role\":\"tool\",\"tool_call_id\":", Some(id), text);
}

/// Appends the reply as an assistant message. The content is always a string; the thinking goes into the field it came
/// in, also when it is empty. What would make every later request fail never gets in: arguments that are no JSON object
/// become `{}`, an empty id or name a made-up one, and a name loses the characters servers refuse.
pub fn assistant(out: &mut Vec<u8>, reply: &Reply) {
    plain(out, b"{\"role\":\"assistant\"", None, &reply.content);
    out.pop();
    if let Some(field) = reply.reasoning_field {
        out.push(b',');
        push_string(out, field.as_bytes());
        out.push(b':');
        push_string(out, &reply.reasoning);
    }
    for (i, call) in reply.calls.iter().enumerate() {
        out.extend_from_slice(if i == 0 { b",\"tool_calls\":[" } else { b"," });
        out.extend_from_slice(b"{\"id\":\"");
        if call.id.is_empty() {
            out.extend_from_slice(b"call_");
            push_dec(out, i as u64);
        }
        push_escaped(out, call.id.as_bytes());
        out.push(b'"');
        out.extend_from_slice(b",\"type\":\"function\",\"function\":{\"name\":\"");
        push_name(out, &call.name);
        out.extend_from_slice(b"\",\"arguments\":");
        let arguments = match parse(&call.arguments) {
            Ok(v) if v.kind() == Kind::Object => v.raw(),
            _ => b"{}",
        };
        push_string(out, arguments);
        out.push(b'}');
        push_extra(out, &call.extra);
        out.push(b'}');
    }
    out.extend_from_slice(if reply.calls.is_empty() { b"}" } else { b"]}" });
}

fn push_name(out: &mut Vec<u8>, name: &str) {
    if name.is_empty() {
        out.extend_from_slice(b"unknown");
    }
    for b in name.bytes().take(NAME_MAX) {
        let fine = b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        out.push(if fine { b } else { b'_' });
    }
}

/// Opaque members, when they are members.
fn push_extra(out: &mut Vec<u8>, extra: &[u8]) {
    let extra = extra.trim_ascii();
    let whole = [b"{", extra, b"}"].concat();
    if !extra.is_empty() && parse(&whole).is_ok_and(|v| v.kind() == Kind::Object) {
        out.push(b',');
        crate::text::push_utf8_lossy(out, extra);
    }
}

/// A member of a stored message.
#[inline(never)]
pub fn member<'a>(message: &'a [u8], name: &str) -> Option<Value<'a>> {
    checked(message).get(name)
}

/// Who a stored message is from; `None` when it is no message.
pub fn role(message: &[u8]) -> Option<Role> {
    // Messages made here start with their role, so that the whole needn't be read.
    let word = match message.strip_prefix(b"{\"role\":\"") {
        Some(rest) => rest.get(..memchr::memchr(b'"', rest)?)?,
        None => member(message, "role")?.text()?.raw(),
    };
    Some(match word {
        b"user" => Role::User,
        b"tool" => Role::Tool,
        b"assistant" => Role::Assistant,
        b"system" | b"developer" => Role::System,
        _ => return None,
    })
}

/// The calls of a stored message, in order. Members that are missing are empty.
pub fn calls(message: &[u8]) -> Vec<Call> {
    let mut list = Vec::new();
    let items = member(message, "tool_calls");
    for item in items.iter().flat_map(Value::items) {
        let mut call = Call {
            id: item.get_string("id").unwrap_or_default(),
            ..Call::default()
        };
        if let Some(function) = item.get("function") {
            call.name = function.get_string("name").unwrap_or_default();
            if let Some(v) = function.get("arguments") {
                call.arguments = v.text().map_or_else(|| v.raw().to_vec(), |t| t.bytes());
            }
        }
        list.push(call);
    }
    list
}

/// The id of the call a stored tool message answers.
pub fn answers(message: &[u8]) -> Option<String> {
    member(message, "tool_call_id")?.string()
}

/// The text of a stored message: its content when that is a string, else the texts of its parts, one a line. Other
/// parts (pictures) are left out.
pub fn content(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let Some(value) = member(message, "content") else {
        return out;
    };
    if let Some(text) = value.text() {
        text.push_to(&mut out);
    }
    for part in value.items() {
        if let Some(text) = part.get("text").and_then(|v| v.text()) {
            if !out.is_empty() {
                out.push(b'\n');
            }
            text.push_to(&mut out);
        }
    }
    out
}

/// Checks that a conversation is one that every server takes: at most one system message, at the start; then a user
/// message; every call of an assistant message answered right after it, once; no other results; no empty ids or names;
/// arguments that are JSON.
///
/// # Errors
/// The first message that breaks a rule, counted from 0, and the rule.
pub fn check<'a>(messages: impl Iterator<Item = &'a [u8]>) -> Result<(), String> {
    let mut open: Vec<String> = Vec::new();
    let mut started = false;
    let mut last = 0;
    for (i, message) in messages.enumerate() {
        last = i;
        let fail = |what: &str| Err(format!("message {i}: {what}"));
        let Ok(value) = parse(message) else {
            return fail("not JSON");
        };
        if std::str::from_utf8(message).is_err() || memchr::memchr(b'\n', message).is_some() {
            return fail("not one line of UTF-8");
        }
        let role = role(message);
        if role != Some(Role::Tool) && !open.is_empty() {
            return fail("comes before all calls were answered");
        }
        match role {
            None => return fail("no known role"),
            Some(Role::System) if i > 0 => return fail("a system message that isn't the first"),
            Some(Role::System) => {}
            Some(Role::User) => started = true,
            Some(_) if !started => return fail("comes before the first user message"),
            Some(Role::Tool) => {
                let id = answers(message).unwrap_or_default();
                match open.iter().position(|o| *o == id) {
                    Some(at) => open.remove(at),
                    None => return fail("answers no call"),
                };
            }
            Some(Role::Assistant) => {
                for call in calls(message) {
                    if call.id.is_empty() || call.name.is_empty() {
                        return fail("a call without id or name");
                    }
                    if parse(&call.arguments).is_err() {
                        return fail("arguments that are not JSON");
                    }
                    open.push(call.id);
                }
            }
        }
        if role != Some(Role::Assistant) && value.get("content").is_none() {
            return fail("no content");
        }
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(format!("message {last}: calls without a result at the end"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(f: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        f(&mut out);
        assert!(serde_json::from_slice::<serde_json::Value>(&out).is_ok());
        String::from_utf8(out).unwrap()
    }

    fn call(id: &str, name: &str, arguments: &str, extra: &str) -> Call {
        Call {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            extra: extra.into(),
            fault: None,
        }
    }

    #[test]
    fn texts_on_the_wire() {
        assert_eq!(
            made(|o| system(o, b"be \"good\"")),
            r#"{"role":"system","content":"be \"good\""}"#
        );
        assert_eq!(
            made(|o| user(o, b"a\n\xff")),
            "{\"role\":\"user\",\"content\":\"a\\n\u{FFFD}\"}"
        );
        assert_eq!(
            made(|o| tool(o, "c\"1", b"")),
            r#"{"role":"tool","tool_call_id":"c\"1","content":""}"#
        );
    }

    #[test]
    fn replies_on_the_wire() {
        let mut reply = Reply {
            content: b"hi".to_vec(),
            ..Reply::default()
        };
        assert_eq!(
            made(|o| assistant(o, &reply)),
            r#"{"role":"assistant","content":"hi"}"#
        );
        reply.reasoning_field = Some("reasoning_content");
        reply.content.clear();
        reply.calls = vec![
            call(
                "c1",
                "bash",
                "{\"command\":\"ls\"}",
                "\"extra_content\":{\"g\":1}",
            ),
            call("c2", "read", " {} ", ""),
        ];
        assert_eq!(
            made(|o| assistant(o, &reply)),
            concat!(
                r#"{"role":"assistant","content":"","reasoning_content":"","tool_calls":["#,
                r#"{"id":"c1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"},"#,
                r#""extra_content":{"g":1}},"#,
                r#"{"id":"c2","type":"function","function":{"name":"read","arguments":"{}"}}]}"#
            )
        );
    }

    #[test]
    fn nothing_that_poisons_later_requests_is_stored() {
        for (c, stored) in [
            (call("", "bash", "{\"a\":", ""), ("call_0", "bash", "{}")),
            (call("x", "", "null", "junk"), ("x", "unknown", "{}")),
            (
                call("x", "functions.bash:0 é", "{\"a\":1}{\"a\":1}", "\"a\":"),
                ("x", "functions_bash_0___", "{}"),
            ),
            (call("x", "y", "", "}"), ("x", "y", "{}")),
            (call("x", "y", "[1]", ""), ("x", "y", "{}")),
            (call("x", "y", "{\"a\":1}", ""), ("x", "y", "{\"a\":1}")),
        ] {
            let reply = Reply {
                calls: vec![c],
                ..Reply::default()
            };
            let text = made(|o| assistant(o, &reply));
            let back = calls(text.as_bytes());
            assert_eq!(back.len(), 1, "{text}");
            let got = &back[0];
            assert_eq!(
                (got.id.as_str(), got.name.as_str(), &got.arguments[..]),
                (stored.0, stored.1, stored.2.as_bytes()),
                "{text}"
            );
            assert!(!text.contains("junk"));
        }
    }

    #[test]
    fn roles_and_contents() {
        for (message, who, text) in [
            (
                r#"{"role":"user","content":"a\u00e9"}"#,
                Some(Role::User),
                "aé",
            ),
            (
                r#"{"content":"x","role":"assistant"}"#,
                Some(Role::Assistant),
                "x",
            ),
            (
                r#"{ "role" : "tool", "content":null}"#,
                Some(Role::Tool),
                "",
            ),
            (
                r#"{"role":"developer","content":[{"type":"text","text":"a"},{"type":"image"},{"text":"b"}]}"#,
                Some(Role::System),
                "a\nb",
            ),
            (r#"{"role":"alien","content":"x"}"#, None, "x"),
            (r#"{"role":7}"#, None, ""),
            (r#"{"role":"user"#, None, ""),
            ("", None, ""),
        ] {
            assert_eq!(role(message.as_bytes()), who, "{message}");
            assert_eq!(content(message.as_bytes()), text.as_bytes(), "{message}");
        }
        assert_eq!(
            answers(br#"{"role":"tool","tool_call_id":"a\/b","content":""}"#),
            Some("a/b".into())
        );
        assert!(calls(br#"{"role":"user","content":"\"tool_calls\""}"#).is_empty());
    }

    const U: &str = r#"{"role":"user","content":"u"}"#;
    const S: &str = r#"{"role":"system","content":"s"}"#;
    const A: &str = r#"{"role":"assistant","content":"a"}"#;
    const C: &str = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"1","function":{"name":"x","arguments":"{}"}},{"id":"2","function":{"name":"y","arguments":"{}"}}]}"#;
    const R1: &str = r#"{"role":"tool","tool_call_id":"1","content":""}"#;
    const R2: &str = r#"{"role":"tool","tool_call_id":"2","content":""}"#;

    #[test]
    fn valid_and_invalid_conversations() {
        let cases: &[(&[&str], &str)] = &[
            (&[], ""),
            (&[S], ""),
            (&[S, U, A, U, U], ""),
            (&[U, C, R2, R1, A], ""),
            (&[U, C, R1], "message 2: calls without a result at the end"),
            (
                &[U, C, R1, U],
                "message 3: comes before all calls were answered",
            ),
            (&[U, C, R1, R1], "message 3: answers no call"),
            (&[U, A, R1], "message 2: answers no call"),
            (&[A], "message 0: comes before the first user message"),
            (&[U, S], "message 1: a system message that isn't the first"),
            (&[U, "{"], "message 1: not JSON"),
            (&["{}"], "message 0: no known role"),
            (&[r#"{"role":"user"}"#], "message 0: no content"),
            (
                &[
                    U,
                    r#"{"role":"assistant","content":"","tool_calls":[{"id":"","function":{"name":"x","arguments":"{}"}}]}"#,
                ],
                "message 1: a call without id or name",
            ),
            (
                &[
                    U,
                    r#"{"role":"assistant","content":"","tool_calls":[{"id":"1","function":{"name":"x","arguments":"{"}}]}"#,
                ],
                "message 1: arguments that are not JSON",
            ),
        ];
        for (list, want) in cases {
            let got = check(list.iter().map(|m| m.as_bytes()));
            assert_eq!(got.err().unwrap_or_default(), *want, "{list:?}");
        }
    }
}
