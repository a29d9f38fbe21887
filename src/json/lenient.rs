//! The lenient reading of tool arguments. Servers and small models send them double encoded, twice, after a stray `{}`,
//! with raw line breaks, or as Python literals; whatever can mean only one object is read as that object.
//!
//! Refused on purpose: completing what was cut. A command that lost its end is another command.

use super::tokenizer::{MAX_DEPTH, Text, Tokenizer};
use super::value::{Kind, Value, parse_prefix};
use super::write::{Writer, push_string};
use super::{Error, Joiner, Token};

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
        match self {
            Fault::Cut => "the arguments were cut off before their end".into(),
            Fault::Trailing => {
                "more text follows the arguments object; one call takes exactly one JSON object"
                    .into()
            }
            Fault::NotObject => "the arguments are not a JSON object".into(),
            Fault::Invalid(e) => format!(
                "the arguments are not valid JSON: {} at byte {}",
                e.what, e.at
            ),
        }
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
            Kind::Object => only(value, rest).map(|()| strict(value)),
            Kind::Str if layers > 0 => {
                only(value, rest)?;
                object(
                    &value.text().unwrap_or(Text::new(b"", false)).bytes(),
                    layers - 1,
                )
            }
            _ => Err(Fault::NotObject),
        };
    }
}

/// Whether `rest` adds nothing to `value`: the same value again, closing brackets too many, an end marker of a template.
fn only(value: Value, rest: &[u8]) -> Result<(), Fault> {
    let mut rest = rest;
    while !rest.is_empty() {
        if rest.starts_with(b"<|") || rest.starts_with(b"</") || rest == b"null" {
            break;
        }
        if let [b'}' | b']' | b'`', more @ ..] = rest {
            rest = more.trim_ascii_start();
            continue;
        }
        match parse_prefix(rest) {
            Ok((again, end)) if same(value.raw(), again.raw()) => rest = rest[end..].trim_ascii(),
            Err(e) if e.is_cut() => return Err(Fault::Cut),
            _ => return Err(Fault::Trailing),
        }
    }
    Ok(())
}

/// Whether two texts hold the same tokens.
fn same(a: &[u8], b: &[u8]) -> bool {
    let (mut left, mut right) = (Tokenizer::new(), Tokenizer::new());
    let (mut i, mut j) = (0, 0);
    loop {
        match (left.next(a, &mut i, true), right.next(b, &mut j, true)) {
            (Ok(None), Ok(None)) => return true,
            (Ok(x), Ok(y)) if x == y => {}
            _ => return false,
        }
    }
}

/// The value written anew as strict JSON on one line.
pub fn strict(value: Value) -> Vec<u8> {
    let raw = value.raw();
    let mut w = Writer::new();
    let (mut tokens, mut pos) = (Tokenizer::new(), 0);
    while let Ok(Some(token)) = tokens.next(raw, &mut pos, true) {
        match token {
            Token::ObjectStart => w.open(b'{'),
            Token::ArrayStart => w.open(b'['),
            Token::ObjectEnd => w.close(b'}'),
            Token::ArrayEnd => w.close(b']'),
            Token::Key(name) => w.key(&name.string()),
            Token::Str(text) => w.str(text.bytes()),
            Token::Number(b"NaN" | b"Infinity" | b"-Infinity") | Token::Null => w.raw(b"null"),
            Token::Number(text) => w.raw(text),
            Token::Bool(b) => w.bool(b),
        };
    }
    w.out
}

/// Reads what is nearly JSON: single quotes, names without quotes, commas before a closing bracket, `True`, `None`,
/// unknown escapes. `error` is what strict reading said, for texts that are no better here.
fn loose(text: &[u8], error: Error) -> Result<Vec<u8>, Fault> {
    if text.first() != Some(&b'{') {
        return Err(Fault::Invalid(error));
    }
    let mut reader = Loose {
        text,
        pos: 0,
        out: Vec::with_capacity(text.len()),
    };
    match reader.document() {
        Ok(()) => {}
        Err(Stop::End) => return Err(Fault::Cut),
        Err(Stop::Bad) => return Err(Fault::Invalid(error)),
    }
    // The proof that what was written is JSON, and the judge of what follows it.
    let value = super::parse(&reader.out).map_err(|_| Fault::Invalid(error))?;
    match text[reader.pos..].trim_ascii() {
        b"" => Ok(value.raw().to_vec()),
        rest if rest == &text[..reader.pos] => Ok(value.raw().to_vec()),
        rest => only(value, rest).map(|()| value.raw().to_vec()),
    }
}

enum Stop {
    /// The input ends inside the object.
    End,
    /// What stands here can't be read.
    Bad,
}

struct Loose<'a> {
    text: &'a [u8],
    pos: usize,
    out: Vec<u8>,
}

impl Loose<'_> {
    fn peek(&mut self) -> Result<u8, Stop> {
        while matches!(self.text.get(self.pos), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.pos += 1;
        }
        self.text.get(self.pos).copied().ok_or(Stop::End)
    }

    /// One object, without recursion: `open` holds the closing brackets still owed.
    fn document(&mut self) -> Result<(), Stop> {
        let mut open: Vec<u8> = Vec::new();
        loop {
            let b = self.peek()?;
            // Here a value must come, or, after a comma too many, the end of the container.
            let closes = open.last() == Some(&b);
            match b {
                _ if closes => self.uncomma(),
                b'{' | b'[' => {
                    if open.len() == MAX_DEPTH {
                        return Err(Stop::Bad);
                    }
                    self.pos += 1;
                    self.out.push(b);
                    open.push(b + 2);
                    if b == b'{' && self.peek()? != b'}' {
                        self.name()?;
                    }
                    continue;
                }
                b'"' | b'\'' => self.string()?,
                _ => self.word()?,
            }
            // After a value: commas and closing brackets.
            loop {
                let Some(&close) = open.last() else {
                    return Ok(());
                };
                let b = self.peek()?;
                if b == close {
                    self.pos += 1;
                    self.out.push(b);
                    open.pop();
                } else if b == b',' {
                    self.pos += 1;
                    self.out.push(b',');
                    if close == b'}' && self.peek()? != b'}' {
                        self.name()?;
                    }
                    break;
                } else {
                    return Err(Stop::Bad);
                }
            }
        }
    }

    /// Takes back a comma that nothing followed.
    fn uncomma(&mut self) {
        if self.out.last() == Some(&b',') {
            self.out.pop();
        }
    }

    fn name(&mut self) -> Result<(), Stop> {
        match self.peek()? {
            b'"' | b'\'' => self.string()?,
            _ => {
                let name = self.take(|b| b.is_ascii_alphanumeric() || b"_$-".contains(&b))?;
                let name = name.to_vec();
                push_string(&mut self.out, &name);
            }
        }
        if self.peek()? != b':' {
            return Err(Stop::Bad);
        }
        self.pos += 1;
        self.out.push(b':');
        Ok(())
    }

    /// At least one byte that `fits`, and one that does not behind them.
    fn take(&mut self, fits: fn(u8) -> bool) -> Result<&[u8], Stop> {
        let rest = self.text.get(self.pos..).unwrap_or_default();
        match rest.iter().position(|&b| !fits(b)) {
            None => Err(Stop::End),
            Some(0) => Err(Stop::Bad),
            Some(n) => {
                self.pos += n;
                Ok(&rest[..n])
            }
        }
    }

    fn word(&mut self) -> Result<(), Stop> {
        let word = self.take(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))?;
        let json: &[u8] = match word {
            b"True" => b"true",
            b"False" => b"false",
            b"None" | b"undefined" | b"NaN" | b"Infinity" | b"-Infinity" => b"null",
            other => other,
        };
        let json = json.to_vec();
        self.out.extend_from_slice(&json);
        Ok(())
    }

    fn string(&mut self) -> Result<(), Stop> {
        let quote = self.text.get(self.pos).copied().ok_or(Stop::End)?;
        self.pos += 1;
        let mut decoded = Joiner::default();
        loop {
            let rest = self.text.get(self.pos..).unwrap_or_default();
            let n = memchr::memchr2(quote, b'\\', rest).ok_or(Stop::End)?;
            decoded.push(Text::new(&rest[..n], false));
            self.pos += n + 1;
            if rest[n] == quote {
                break;
            }
            let escape = *rest.get(n + 1).ok_or(Stop::End)?;
            let hex = rest.get(n + 2..n + 6);
            let len = match escape {
                b'u' if hex.ok_or(Stop::End)?.iter().all(u8::is_ascii_hexdigit) => 5,
                _ => 1,
            };
            let raw = &rest[n..n + 1 + len];
            match escape {
                b'\'' | b'\n' => decoded.push_plain(&raw[1..]),
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {
                    decoded.push(Text::new(raw, true));
                }
                b'u' if len == 5 => decoded.push(Text::new(raw, true)),
                // `\d`, `\$`: meant for a pattern or a shell, one backslash too few for JSON.
                _ => decoded.push_plain(raw),
            }
            self.pos += len;
        }
        decoded.flush();
        push_string(&mut self.out, &decoded.out);
        Ok(())
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
