//! Tool calls that a server's parser missed and left in the text as a model's own markup. They are recovered when they
//! can only be that: outside code, at the end of the text, whole, for a tool that was offered. What is markup and can't
//! be recovered is reported as broken, never shown as an answer.
//!
//! Read: `<invoke name=…>` with `<parameter name=…>` (DeepSeek's DSML bars, other prefixes or none), `<tool_call>` around
//! JSON, around `<function=…>` (or that alone) or around `<arg_key>`. Only reported: special tokens of Kimi, DeepSeek V3,
//! Mistral and harmony.

use super::said::{find, is_one};
use crate::json::lenient::arguments;
use crate::json::value::checked;
use crate::json::{Kind, Value, Writer, parse, parse_prefix};

/// What stands at a place in a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opener {
    /// Markup of a call may begin here.
    Yes,
    /// More bytes are needed to tell.
    Maybe,
    /// Text.
    No,
}

/// What a text that begins with an opener is.
#[derive(PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Whole calls and nothing else: name and arguments.
    Calls(Vec<(String, Vec<u8>)>),
    /// A call that can't be read, with the tool's name when that can.
    Broken(Option<String>),
    /// No call.
    Text,
}

/// No opening tag is longer.
const MAX_TAG: usize = 160;

/// Special tokens of templates that stand for calls.
const TOKENS: [&str; 6] = [
    "[TOOL_CALLS]",
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<|channel|>",
];

/// Tags in front of a call.
const OPENERS: &str = "tool_call|tool_calls|function_calls|invoke|function";

/// Parameters of ours that are no strings. Markup has no types, and a file's content may well be `true`.
const TYPED: &str = "replaceAll|offset|limit|timeout|context|ignoreCase|edits";

/// Whether markup begins at the start of `text`; `last`: nothing follows `text`.
pub fn opener(text: &[u8], last: bool) -> Opener {
    for token in TOKENS {
        let token = token.as_bytes();
        if text.starts_with(token) {
            return Opener::Yes;
        }
        if !last && token.starts_with(text) {
            return Opener::Maybe;
        }
    }
    let (b'<', Some(b'|' | 0xE2 | 0xEF | b'a'..=b'z')) = (byte(text, 0), text.get(1)) else {
        return if text == b"<" && !last {
            Opener::Maybe
        } else {
            Opener::No
        };
    };
    match tag(text) {
        Some(tag) => match tag.name {
            name if !tag.close && is_one(name, OPENERS) => Opener::Yes,
            _ => Opener::No,
        },
        None if last || text.len() >= MAX_TAG || text[1..].iter().any(|b| b"<>\n".contains(b)) => {
            Opener::No
        }
        None => Opener::Maybe,
    }
}

fn byte(text: &[u8], at: usize) -> u8 {
    text.get(at).copied().unwrap_or(0)
}

struct Tag<'a> {
    close: bool,
    /// Marked as DeepSeek's own, which no prose contains.
    dsml: bool,
    name: &'a [u8],
    /// What stands between name and `>`.
    rest: &'a [u8],
    len: usize,
}

/// The tag at the start of `text`.
fn tag(text: &[u8]) -> Option<Tag<'_>> {
    let window = &text[..text.len().min(MAX_TAG)];
    let inner = window.strip_prefix(b"<")?;
    let len = memchr::memchr(b'>', inner)? + 2;
    let mut inner = &inner[..len - 2];
    let mut close = false;
    let mut dsml = false;
    loop {
        let prefixes: [&[u8]; 7] = [
            b"/",
            b"DSML",
            "｜".as_bytes(),
            "‖".as_bytes(),
            b"|",
            b"antml:",
            b"minimax:",
        ];
        let Some(prefix) = prefixes.iter().find(|p| inner.starts_with(p)) else {
            break;
        };
        close |= *prefix == b"/";
        dsml |= *prefix == b"DSML";
        inner = &inner[prefix.len()..];
    }
    let end = inner
        .iter()
        .position(|&b| !b.is_ascii_alphabetic() && b != b'_')
        .unwrap_or(inner.len());
    let (name, rest) = inner.split_at(end);
    let fits = !name.is_empty() && !rest.iter().any(|b| b"<\n".contains(b));
    fits.then_some(Tag {
        close,
        dsml,
        name,
        rest,
        len,
    })
}

impl<'a> Tag<'a> {
    /// The value of the attribute whose beginning, up to the opening quote, is `start`.
    fn attribute(&self, start: &[u8]) -> Option<&'a [u8]> {
        let at = find(self.rest, start)?;
        let value = &self.rest[at + start.len()..];
        Some(&value[..memchr::memchr(b'"', value)?])
    }

    /// The name in either spelling: `<invoke name="x">`, `<function=x>`.
    fn named(&self) -> Option<String> {
        let name = match self.rest.strip_prefix(b"=") {
            Some(name) => name.trim_ascii(),
            None => self.attribute(b"name=\"")?,
        };
        let name = name.strip_prefix(b"\"").unwrap_or(name);
        let name = name.strip_suffix(b"\"").unwrap_or(name);
        (!name.is_empty()).then(|| String::from_utf8(name.to_vec()).ok())?
    }
}

/// Reads `text`, which begins with an opener and reaches to the end of the reply.
pub fn read(text: &[u8], tools: &[String]) -> Verdict {
    let known = |name: &str| super::calls::known(tools, name);
    if let Some(token) = TOKENS.iter().find(|t| text.starts_with(t.as_bytes())) {
        let channel = token.ends_with("channel|>");
        let to = find(text, b"to=functions.").is_some();
        return if channel && !to {
            Verdict::Text
        } else {
            Verdict::Broken(None)
        };
    }
    let mut calls: Vec<(String, Vec<u8>)> = Vec::new();
    let mut rest = text;
    let mut wrappers = 0;
    loop {
        rest = rest.trim_ascii_start();
        let Some(tag) = tag(rest) else { break };
        if tag.name != b"invoke" && tag.name != b"function" {
            let wrapper = is_one(tag.name, OPENERS);
            wrappers += 1;
            // Two in front of a call are usual; a long row of them must not be read again and again.
            if !wrapper || calls.is_empty() && wrappers > 4 {
                break;
            }
            rest = rest[tag.len..].trim_ascii_start();
            if tag.close || tag.name != b"tool_call" || rest.first() == Some(&b'<') {
                continue;
            }
        } else if tag.close {
            rest = &rest[tag.len..];
            continue;
        }
        // Of a call that was cut this shows what came, and the name comes first in every template.
        let mut members = [None; 3];
        let (name, from) = match rest.first() {
            Some(b'{') => {
                checked(rest).pick("name|arguments|parameters", &mut members);
                (members[0].and_then(|v| v.string()), 0)
            }
            Some(b'<') => (tag.named(), tag.len),
            _ => keyed_name(rest),
        };
        let Some(name) = name.filter(|n| tag.dsml || known(n)) else {
            break;
        };
        rest = rest.get(from..).unwrap_or_default();
        let found = if from > 0 {
            parameters(rest)
        } else {
            json_arguments(rest, members[1].or(members[2]))
        };
        let Some((arguments, end)) = found else {
            return Verdict::Broken(Some(name));
        };
        calls.push((name, arguments));
        rest = rest.get(end..).unwrap_or_default();
    }
    match calls.first() {
        Some(_) if rest.is_empty() => Verdict::Calls(calls),
        Some((name, _)) => Verdict::Broken(Some(name.clone())),
        None if tag(text).is_some_and(|t| t.dsml) => Verdict::Broken(None),
        None => Verdict::Text,
    }
}

/// The arguments in `{"name": …, "arguments": {…}}`, and the end of that.
fn json_arguments(text: &[u8], value: Option<Value>) -> Option<(Vec<u8>, usize)> {
    let (_, end) = parse_prefix(text).ok()?;
    let object = arguments(value.map_or(b"", |v| v.raw())).ok()?;
    Some((object, end))
}

/// The name in `name <arg_key>k</arg_key><arg_value>v</arg_value> …`, and where it ends; the tag behind it tells a call.
fn keyed_name(text: &[u8]) -> (Option<String>, usize) {
    let window = &text[..text.len().min(MAX_TAG)];
    let open = memchr::memchr(b'<', window).unwrap_or(0);
    let name = text[..open].trim_ascii();
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"_-.".contains(b);
    let call = |t: Tag| t.name == b"arg_key" || t.close && t.name == b"tool_call";
    if name.is_empty() || !name.iter().all(plain) || !tag(&text[open..]).is_some_and(call) {
        return (None, 0);
    }
    (String::from_utf8(name.to_vec()).ok(), open)
}

/// Parameters up to a closing tag that is none of theirs; the end is in front of that tag.
fn parameters(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut w = Writer::new();
    w.open(b'{');
    let mut rest = text;
    loop {
        rest = rest.trim_ascii_start();
        let tag = tag(rest)?;
        if tag.close {
            w.close(b'}');
            return Some((w.out, text.len() - rest.len()));
        }
        rest = &rest[tag.len..];
        let mut key = tag.named();
        let mut end = tag.name;
        match tag.name {
            b"arg_key" => {
                let (name, after) = until(rest, end)?;
                key = String::from_utf8(name.trim_ascii().to_vec()).ok();
                let after = after.trim_ascii_start();
                end = b"arg_value";
                let open = self::tag(after).filter(|t| t.name == end && !t.close)?;
                rest = &after[open.len..];
            }
            b"parameter" => {}
            _ => return None,
        }
        let (mut value, after) = until(rest, end)?;
        rest = after;
        let key = key?;
        if tag.rest.starts_with(b"=") {
            // This template puts the value on lines of its own.
            value = value.strip_prefix(b"\n").unwrap_or(value);
            value = value.strip_suffix(b"\n").unwrap_or(value);
        }
        let typed = match tag.attribute(b"string=\"") {
            Some(flag) => flag == b"false",
            None => is_one(key.as_bytes(), TYPED),
        };
        w.key(&key);
        match parse(value) {
            Ok(v) if typed && v.kind() != Kind::Str => w.raw(&crate::json::lenient::strict(v)),
            _ => w.str(value),
        };
    }
}

/// The text up to the closing tag `name`, and what follows it.
fn until<'a>(text: &'a [u8], name: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let mut from = 0;
    loop {
        let at = from + memchr::memchr(b'<', text.get(from..)?)?;
        match tag(&text[at..]) {
            Some(t) if t.close && t.name == name => {
                return Some((&text[..at], &text[at + t.len..]));
            }
            _ => from = at + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools() -> Vec<String> {
        ["read", "bash", "write", "edit"].map(String::from).to_vec()
    }

    fn calls(text: &str) -> String {
        match read(text.as_bytes(), &tools()) {
            Verdict::Calls(calls) => calls
                .iter()
                .map(|(name, a)| format!("{name}{} ", String::from_utf8_lossy(a)))
                .collect(),
            Verdict::Broken(name) => format!("broken {}", name.unwrap_or_default()),
            Verdict::Text => "text".into(),
        }
    }

    #[test]
    fn whole_calls_are_recovered() {
        let ls = "bash{\"command\":\"ls -l\"} ";
        for bar in ["｜", "‖", "|", "｜｜", "||"] {
            let dsml = "<{b}DSML{b}tool_calls>\n<{b}DSML{b}invoke name=\"bash\">\n<{b}DSML{b}parameter name=\"command\" \
                        string=\"true\">ls -l</{b}DSML{b}parameter>\n</{b}DSML{b}invoke>\n</{b}DSML{b}tool_calls>";
            assert_eq!(calls(&dsml.replace("{b}", bar)), ls);
        }
        let cases = [
            (
                "<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls -l\"}}\n</tool_call>",
                ls,
            ),
            (
                "<tool_call>{\"name\":\"bash\",\"arguments\":\"{\\\"command\\\":\\\"ls -l\\\"}\"}",
                ls,
            ),
            (
                "<tool_call>\n<function=bash>\n<parameter=command>\nls -l\n</parameter>\n</function>\n</tool_call>",
                ls,
            ),
            (
                "<function=bash>\n<parameter=command>\nls -l\n</parameter>\n</function>\n</tool_call>",
                ls,
            ),
            (
                "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls -l</arg_value>\n</tool_call>",
                ls,
            ),
            (
                "<tool_call>bash<arg_key>command</arg_key><arg_value>ls -l</arg_value></tool_call>",
                ls,
            ),
            (
                "<function_calls><invoke name=\"bash\"><parameter name=\"command\">ls -l</parameter></invoke></function_calls>",
                ls,
            ),
            (
                "<minimax:tool_call><invoke name=\"bash\"><parameter name=\"command\">ls -l</parameter></invoke></minimax:tool_call>",
                ls,
            ),
            ("<tool_call>read</tool_call>", "read{} "),
            (
                "<tool_call>{\"name\":\"read\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"bash\"}</tool_call>",
                "read{} bash{} ",
            ),
            // Content stays text, flags don't.
            (
                "<function=write><parameter=content>\ntrue\n\n</parameter></function>",
                "write{\"content\":\"true\\n\"} ",
            ),
            (
                "<function=edit><parameter=replaceAll>true</parameter><parameter=newString>a < b <c></parameter></function>",
                "edit{\"replaceAll\":true,\"newString\":\"a < b <c>\"} ",
            ),
            (
                "<|DSML|invoke name=\"read\"><|DSML|parameter name=\"offset\" string=\"false\">7</|DSML|parameter></|DSML|invoke>",
                "read{\"offset\":7} ",
            ),
            ("<|DSML|invoke name=\"nope\"></|DSML|invoke>", "nope{} "),
        ];
        for (text, want) in cases {
            assert_eq!(calls(text), want, "{text}");
            assert_eq!(opener(text.as_bytes(), true), Opener::Yes, "{text}");
        }
    }

    #[test]
    fn what_is_cut_or_mixed_is_broken() {
        let whole =
            "<tool_call><function=bash><parameter=command>ls -l</parameter></function></tool_call>";
        for n in "<tool_call><function=bash>".len()..whole.len() - "</tool_call></function>".len() {
            assert_eq!(calls(&whole[..n]), "broken bash", "{}", &whole[..n]);
        }
        let cases = [
            (
                "<tool_call>{\"name\":\"bash\",\"arguments\":{\"command\":\"ls",
                "broken bash",
            ),
            (
                "<tool_call>{\"name\":\"read\"}</tool_call> and then",
                "broken read",
            ),
            (
                "<tool_call>bash<arg_key>command</arg_key><arg_value>ls",
                "broken bash",
            ),
            ("<｜DSML｜tool_calls>", "broken "),
            ("<|tool_call_begin|>functions.read:0", "broken "),
            ("[TOOL_CALLS]read{}", "broken "),
            (
                "<|channel|>commentary to=functions.read <|message|>{}",
                "broken ",
            ),
        ];
        for (text, want) in cases {
            assert_eq!(calls(text), want, "{text}");
        }
    }

    #[test]
    fn prose_is_text() {
        for text in [
            "<tool_call> is the tag Qwen writes",
            "<tool_call>",
            "<tool_call>nope</tool_call>",
            "<function=nope><parameter=a>1</parameter></function>",
            "<invoke name=\"nope\"></invoke>",
            "<function_calls> wraps them",
            "<|channel|>final<|message|>Hello",
        ] {
            assert_eq!(calls(text), "text", "{text}");
        }
        for text in [
            "< b",
            "<b>",
            "<p class=\"x\">",
            "<invoked>",
            "</tool_call>",
            "[1]",
            "<a\n",
            "x",
        ] {
            assert_eq!(opener(text.as_bytes(), false), Opener::No, "{text}");
        }
        for text in [
            "<",
            "<tool_c",
            "<｜DS",
            "<\u{ff5c}",
            "<\u{2016}DSML",
            "[TOOL",
            "<function=re",
        ] {
            assert_eq!(opener(text.as_bytes(), false), Opener::Maybe, "{text}");
            assert_eq!(opener(text.as_bytes(), true), Opener::No, "{text}");
        }
    }
}
