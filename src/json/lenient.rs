//! The lenient reading of tool arguments. Servers and small models send them double encoded, twice, after a stray `{}`,
//! with raw line breaks, or as Python literals; whatever can mean only one object is read as that object.
//!
//! Refused on purpose: completing what was cut. A command that lost its end is another command.

use super::Error;
use super::tokenizer::{Text, string};
use super::value::{Kind, Value, parse_prefix};
use super::write::push_string;
use crate::text::push_dec;

/// Why arguments must not be run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The text ends before the object does.
    Cut,
    /// A second object, or other text, follows the first.
    Trailing,
    /// A JSON value that is no object.
    NotObject,
    /// No JSON, and nothing that can mean only one object.
    Invalid(Error),
}

impl Fault {
    /// The fault as a phrase for the model.
    pub fn phrase(&self) -> String {
        let mut text = match self {
            Fault::Cut => "the arguments were cut off before their end",
            Fault::Trailing => {
                "more text follows the arguments object; one call takes exactly one JSON object"
            }
            Fault::NotObject => "the arguments are not a JSON object",
            Fault::Invalid(_) => "the arguments are not valid JSON: ",
        }
        .as_bytes()
        .to_vec();
        if let Fault::Invalid(e) = self {
            text.extend_from_slice(e.what.as_bytes());
            text.extend_from_slice(b" at byte ");
            push_dec(&mut text, e.at as u64);
        }
        String::from_utf8(text).unwrap_or_default()
    }
}

/// Reads a tool call's arguments as servers send them and returns them as one strict JSON object's text: valid UTF-8,
/// no control characters inside strings, no lone surrogates. Nothing, white space and `null` mean `{}`.
///
/// # Errors
/// The fault; [`Fault::phrase`] is for the model.
pub fn arguments(text: &[u8]) -> Result<Vec<u8>, Fault> {
    object(text, 2)
}

/// `layers`: how many more times a string may hold the real thing.
fn object(text: &[u8], layers: u32) -> Result<Vec<u8>, Fault> {
    let mut text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    loop {
        text = text.trim_ascii();
        if let Some(fenced) = text.strip_prefix(b"```") {
            text = fenced.strip_prefix(b"json").unwrap_or(fenced).trim_ascii();
        }
        if text.is_empty() {
            return Ok(b"{}".to_vec());
        }
        let (value, end) = match parse_prefix(text) {
            Ok(found) => found,
            Err(e) if e.is_cut() => return Err(Fault::Cut),
            Err(e) => return loose(text, e),
        };
        let rest = text[end..].trim_ascii();
        let void = match value.kind() {
            Kind::Null => true,
            Kind::Object => value.entries().next().is_none(),
            _ => false,
        };
        // A null or `{}` in front of the object is where the server began to count.
        if void && matches!(rest.first(), Some(b'{' | b'"' | b'n')) {
            text = rest;
            continue;
        }
        return match value.kind() {
            Kind::Null if rest.is_empty() => Ok(b"{}".to_vec()),
            Kind::Object => only(value, rest),
            Kind::Str if layers > 0 => {
                only(value, rest)?;
                let mut inner = Vec::new();
                value.push_to(&mut inner);
                object(&inner, layers - 1)
            }
            _ => Err(Fault::NotObject),
        };
    }
}

/// `value` as strict JSON when `rest` adds nothing to it: the same value again, closing brackets too many, an end marker of a template.
fn only(value: Value, rest: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut rest = rest;
    let one = strict(value);
    while !rest.is_empty() {
        if rest.starts_with(b"<|") || rest.starts_with(b"</") || rest == b"null" {
            break;
        }
        if let [b'}' | b']' | b'`', more @ ..] = rest {
            rest = more.trim_ascii_start();
            continue;
        }
        match parse_prefix(rest) {
            Ok((again, end)) if one == strict(again) => rest = rest[end..].trim_ascii(),
            Err(e) if e.is_cut() => return Err(Fault::Cut),
            _ => return Err(Fault::Trailing),
        }
    }
    Ok(one)
}

/// The value written anew as strict JSON on one line.
pub fn strict(value: Value) -> Vec<u8> {
    let raw = value.raw();
    let mut out = Vec::with_capacity(raw.len());
    let mut at = 0;
    while let Some(&b) = raw.get(at) {
        at += 1;
        match b {
            b' ' | b'\t' | b'\n' | b'\r' => {}
            b'"' => {
                let end = string(raw, at - 1).unwrap_or(raw.len());
                let inner = raw.get(at..end.saturating_sub(1)).unwrap_or_default();
                push_string(&mut out, &Text::new(inner, true).bytes());
                at = end;
            }
            // `NaN` and `Infinity`; a minus sign may stand in front.
            b'N' | b'I' => {
                if out.last() == Some(&b'-') {
                    out.pop();
                }
                out.extend_from_slice(b"null");
                at += if b == b'N' { 2 } else { 7 };
            }
            _ => out.push(b),
        }
    }
    out
}

/// Reads what is nearly JSON: single quotes, names without quotes, commas before a closing bracket, `True`, `None`,
/// unknown escapes. Words are translated up to the bracket that closes the first one; whether the outcome is JSON, the
/// strict reader says. `error` is what it said of `text`, for texts that are no better here.
fn loose(text: &[u8], error: Error) -> Result<Vec<u8>, Fault> {
    if text.first() != Some(&b'{') {
        return Err(Fault::Invalid(error));
    }
    let mut out = Vec::with_capacity(text.len());
    let (mut at, mut depth) = (0, 0u32);
    while let Some(&b) = text.get(at) {
        let rest = &text[at..];
        let mut n = 1;
        match b {
            b' ' | b'\t' | b'\n' | b'\r' => {}
            b'"' | b'\'' => match quoted(rest, b, &mut out) {
                Some(len) => n = len,
                None => break,
            },
            b'{' | b'[' => {
                depth += 1;
                out.push(b);
            }
            b'}' | b']' => {
                if let [.., before, b','] = out.as_slice()
                    && !b"{[:,".contains(before)
                {
                    out.pop();
                }
                depth = depth.saturating_sub(1);
                out.push(b);
                if depth == 0 {
                    at += 1;
                    break;
                }
            }
            _ if in_word(&b) => {
                n = rest.iter().take_while(|b| in_word(b)).count();
                let word = &rest[..n];
                match rest[n..].trim_ascii_start().first() {
                    // It may go on.
                    None => break,
                    Some(b':') => push_string(&mut out, word),
                    _ => out.extend_from_slice(match word {
                        b"True" => b"true",
                        b"False" => b"false",
                        b"None" | b"undefined" => b"null",
                        other => other,
                    }),
                }
            }
            _ => out.push(b),
        }
        at += n;
    }
    match parse_prefix(&out) {
        Ok((value, end)) if end == out.len() => {
            let (done, rest) = text.split_at(at);
            let rest = rest.trim_ascii();
            only(value, if rest == done { b"" } else { rest })
        }
        Err(e) if e.is_cut() => Err(Fault::Cut),
        _ => Err(Fault::Invalid(error)),
    }
}

fn in_word(b: &u8) -> bool {
    b.is_ascii_alphanumeric() || b"_$+-.".contains(b)
}

/// Appends the string at the start of `text` as a strict one and returns its length; `None` when it has no end.
fn quoted(text: &[u8], quote: u8, out: &mut Vec<u8>) -> Option<usize> {
    let mut raw = Vec::new();
    let mut at = 1;
    loop {
        let rest = text.get(at..)?;
        let n = memchr::memchr2(quote, b'\\', rest)?;
        raw.extend_from_slice(&rest[..n]);
        at += n + 1;
        if rest[n] == quote {
            push_string(out, &Text::new(&raw, true).bytes());
            return Some(at);
        }
        let escape = *rest.get(n + 1)?;
        at += 1;
        raw.push(b'\\');
        let hex = || {
            rest.get(n + 2..n + 6)?
                .iter()
                .all(u8::is_ascii_hexdigit)
                .then_some(())
        };
        // `\d`, `\$`: meant for a pattern or a shell, one backslash too few for JSON.
        if !b"\"\\/bfnrt'\n".contains(&escape) && (escape != b'u' || hex().is_none()) {
            raw.push(b'\\');
        }
        raw.push(escape);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, Fault> {
        let out = arguments(text.as_bytes())?;
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert!(value.is_object());
        assert!(!out.contains(&b'\n'));
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn what_servers_send() {
        let a = r#"{"a":1}"#;
        let cases = [
            ("", "{}"),
            (" \n", "{}"),
            ("null", "{}"),
            (r#""""#, "{}"),
            ("{}", "{}"),
            (a, a),
            ("\u{feff}{\"a\":1}", a),
            ("{ \"a\" :\n 1 }\n", a),
            // In front of and behind the object.
            (r#"{}{"a":1}"#, a),
            (r#"{} {"a":1}"#, a),
            (r#"null{"a":1}"#, a),
            (r#"{"a":1}null"#, a),
            (r#"{"a":1}{"a":1}"#, a),
            (r#"{"a":1} { "a": 1 }"#, a),
            (r#"{"a":1}{"a":1}{"a":1}"#, a),
            (r#"{"a":1}}"#, a),
            (r#"{"a":1}<|im_end|>"#, a),
            (r#"{"a":1}</tool_call>"#, a),
            ("```json\n{\"a\":1}\n```", a),
            // Encoded twice and three times.
            (r#""{\"a\":1}""#, a),
            (r#""\"{\\\"a\\\":1}\"""#, a),
            (r#""{\"a\":1}""{\"a\":1}""#, a),
            // Raw control characters, bad UTF-8 by escapes, numbers that are none.
            ("{\"a\":\"x\n\ty\"}", r#"{"a":"x\n\ty"}"#),
            (r#"{"a":"\ud800"}"#, "{\"a\":\"\u{FFFD}\"}"),
            (r#"{"a":"\ud83d\ude42"}"#, r#"{"a":"🙂"}"#),
            (r#"{"a":NaN}"#, r#"{"a":null}"#),
            // Small models.
            ("{'a': 'it is', 'b': True}", r#"{"a":"it is","b":true}"#),
            ("{'a': None, 'b': False,}", r#"{"a":null,"b":false}"#),
            (r#"{a: 1, b-c: [1, 2,],}"#, r#"{"a":1,"b-c":[1,2]}"#),
            (r#"{"a": {'b': "say 'x'"}}"#, r#"{"a":{"b":"say 'x'"}}"#),
            (r#"{'a': 'say "x" \' y'}"#, r#"{"a":"say \"x\" ' y"}"#),
            (r#"{"p":"\d+\.\w"}"#, r#"{"p":"\\d+\\.\\w"}"#),
            (r#"{'p':'\u0041\ud83d\ude42\n'}"#, r#"{"p":"A🙂\n"}"#),
            ("{'a':1}{'a':1}", a),
            ("{a:{},b:[],}", r#"{"a":{},"b":[]}"#),
        ];
        for (text, want) in cases {
            assert_eq!(read(text).as_deref(), Ok(want), "{text}");
        }
    }

    #[test]
    fn what_must_not_run() {
        let cut = |text: &str| assert_eq!(read(text), Err(Fault::Cut), "{text}");
        let whole = r#"{"a":"b\u0041","c":[{"d":true},12,null],"e":{"f":"g"}}"#;
        for n in 1..whole.len() {
            cut(&whole[..n]);
        }
        let loose = r#"{'a':'b\u0041',c:[{'d':True},12,None],"e":{"f":"g",},}"#;
        for n in 1..loose.len() {
            cut(&loose[..n]);
        }
        cut(r#""{\"a\":"#);
        cut(r#""{\"a\":""#);
        cut(r#"{"a":1}{"a""#);
        cut(r#"{}{"a":"#);
        cut(r#"{"p":"\d"#);
        for text in [
            r#"{"a":1}{"b":2}"#,
            r#"{"a":1}{"a":2}"#,
            r#"{"a":1} and more"#,
            "{'a':1}{'a':2}",
        ] {
            assert_eq!(read(text), Err(Fault::Trailing), "{text}");
        }
        for text in ["[]", "[1]", "12", "true", r#"[{"a":1}]"#] {
            assert_eq!(read(text), Err(Fault::NotObject), "{text}");
        }
        for text in [
            "ls -l",
            r#"{"a":"say "x""}"#,
            "{'a': 'it's'}",
            r#"{"a" 1}"#,
            r#"{"a":}"#,
            r#"{"a":,}"#,
            "{,}",
            "{a:[,]}",
            "{a:yes}",
            "{a:1 b:2}",
            "{a:01}",
            "{a:1]}",
            r#""ls -l""#,
        ] {
            assert!(
                matches!(read(text), Err(Fault::Invalid(_))),
                "{text}: {:?}",
                read(text)
            );
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = |n: usize, close: &str| format!("{{'a':{}1{close}", "[".repeat(n));
        assert!(matches!(read(&deep(100_000, "")), Err(Fault::Invalid(_))));
        assert!(read(&deep(100, &format!("{}}}", "]".repeat(100)))).is_ok());
    }
}
