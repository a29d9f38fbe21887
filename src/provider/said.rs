//! What a server said about an error: the text for people and the typed codes, out of the shapes servers use.

use crate::json::{Kind, Value, lenient::strict, parse_prefix};
use crate::text::{complete_utf8_len, push_utf8_lossy};

/// A line for people is cut to about this many bytes: the head and, behind it, the tail, where traces have their point.
const LINE_HEAD: usize = 200;
const LINE_TAIL: usize = 100;
/// Of a text not more than this is looked at.
const MAX_TEXT: usize = 16 << 10;

/// How keys begin.
const KEYS: &str = "sk-|gsk_|xai-|AIza|pplx-|nvapi-|hf_|ghp_|tgp_";

/// An error as the server told it.
#[derive(Default)]
pub struct Said {
    /// The message with what belongs to it; places (`body.messages.3.name: …`) in front of complaints.
    pub text: Vec<u8>,
    /// Codes, types and reasons in order, lower case.
    pub codes: Vec<Vec<u8>>,
    /// A number that is an HTTP status; 0 when there was none.
    pub status: u16,
    /// The request field the server names.
    pub param: Option<String>,
}

impl Said {
    /// Reads an error object, whatever it is wrapped in.
    pub fn read(value: Value) -> Said {
        let mut said = Said::default();
        said.take(value, 0);
        said.text.truncate(MAX_TEXT);
        said
    }

    /// The text and the codes in lower case, for the tables of words. Offsets below `text.len()` are those of the text.
    pub fn words(&self) -> Vec<u8> {
        let mut words = self.text.to_ascii_lowercase();
        for code in &self.codes {
            words.push(b' ');
            words.extend_from_slice(code);
        }
        words
    }

    fn say(&mut self, text: &[u8]) {
        let text = text.trim_ascii();
        if text.is_empty() || find(&self.text, text).is_some() {
            return;
        }
        if !self.text.is_empty() {
            self.text.extend_from_slice(b": ");
        }
        push_utf8_lossy(&mut self.text, text);
    }

    fn take(&mut self, value: Value, depth: u32) {
        if depth > 5 {
            return;
        }
        match value.kind() {
            Kind::Str => {
                let mut text = Vec::new();
                value.push_to(&mut text);
                // Gateways put the error of the server behind them into a string.
                match parse_prefix(text.trim_ascii()) {
                    Ok((inner, _)) if inner.kind() == Kind::Object => self.take(inner, depth + 1),
                    _ => self.say(&text),
                }
            }
            Kind::Object => self.members(value, depth),
            _ => {
                for item in value.items().take(4) {
                    self.take(item, depth + 1);
                }
            }
        }
    }

    fn members(&mut self, value: Value, depth: u32) {
        let mut found = [None; 3];
        value.pick("loc|msg|type", &mut found);
        if let [Some(place), Some(what), kind] = found {
            let mut text = Vec::new();
            for part in place.items() {
                if !text.is_empty() {
                    text.push(b'.');
                }
                part.push_to(&mut text);
            }
            text.extend_from_slice(b": ");
            what.push_to(&mut text);
            self.code(kind);
            return self.say(&text);
        }
        for (key, v) in value.entries() {
            let is = |names| is_one(key.raw(), names);
            if is("error|message|msg|detail|errors|error_description|error_msg") {
                self.take(v, depth + 1);
            } else if is("code|type|status|reason|error_code|http_code|status_code") {
                self.code(Some(v));
            } else if is("param") {
                self.param = v.string();
            } else if is("metadata") {
                if let Some(raw) = v.get("raw") {
                    self.take(raw, depth + 1);
                }
            } else if is("details|innererror") {
                self.reasons(v);
                v.items().for_each(|item| self.reasons(item));
            }
        }
    }

    fn reasons(&mut self, value: Value) {
        let mut found = [None; 2];
        value.pick("reason|code", &mut found);
        found.into_iter().for_each(|v| self.code(v));
    }

    /// Takes a code, a string or a number.
    fn code(&mut self, value: Option<Value>) {
        let Some(value) = value.filter(|v| matches!(v.kind(), Kind::Str | Kind::Number)) else {
            return;
        };
        let mut text = Vec::new();
        value.push_to(&mut text);
        if self.status == 0
            && text.len() == 3
            && let Some(n @ 400..=599) = crate::json::value::decimal(&text, 0)
        {
            self.status = n as u16;
        }
        if !text.is_empty() && text.len() < 80 {
            text.make_ascii_lowercase();
            self.codes.push(text);
        }
    }
}

/// Whether an `error` member says that there is one: some servers always send an empty one.
pub fn is_error(value: Value) -> bool {
    !is_one(&strict(value), "null|{}|[]|\"\"|0|0.0|false")
}

/// Where `needle` stands in `text`.
pub fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    let (&first, more) = needle.split_first()?;
    let mut from = 0;
    loop {
        let rest = text.get(from..)?;
        let at = memchr::memchr(first, rest)?;
        if rest[at + 1..].starts_with(more) {
            return Some(from + at);
        }
        from += at + 1;
    }
}

/// Whether one of `words` (separated by `|`) stands in `text`.
pub fn any(text: &[u8], words: &[u8]) -> bool {
    let mut words = words.split(|&b| b == b'|');
    words.any(|word| find(text, word).is_some())
}

/// Whether `text` is one of `words` (separated by `|`).
pub fn is_one(text: &[u8], words: &str) -> bool {
    is_in(text, words.as_bytes())
}

/// [`is_one`] of a list of bytes.
pub fn is_in(text: &[u8], words: &[u8]) -> bool {
    words.split(|&b| b == b'|').any(|word| word == text)
}

/// The title of a page.
pub fn title(page: &[u8]) -> Option<Vec<u8>> {
    let page = &page[..page.len().min(MAX_TEXT)];
    let lower = page.to_ascii_lowercase();
    let mut at = 0;
    let mut start = 0;
    for mark in ["<title", ">", "</title"] {
        (start, at) = (at, at + find(lower.get(at..)?, mark.as_bytes())?);
    }
    let title = page.get(start + 1..at)?.trim_ascii();
    (!title.is_empty()).then(|| title.to_vec())
}

/// Appends `text` as one line: white space folded, keys hidden, cut to about 300 bytes.
pub fn push_line(out: &mut Vec<u8>, text: &[u8]) {
    let mut clean = Vec::new();
    push_utf8_lossy(&mut clean, &text[..text.len().min(MAX_TEXT)]);
    let mut line = Vec::with_capacity(clean.len());
    for word in clean.split(|b| b.is_ascii_whitespace() || *b == 0) {
        if word.is_empty() || word.len() > 3 && word.iter().all(|b| b"-=_*~".contains(b)) {
            continue;
        }
        if !line.is_empty() {
            line.push(b' ');
        }
        let before = line.get(line.len().saturating_sub(7)..);
        if before.is_some_and(|b| b.eq_ignore_ascii_case(b"bearer ")) {
            line.extend_from_slice("…".as_bytes());
        } else {
            push_word(&mut line, word);
        }
    }
    if line.len() <= LINE_HEAD + LINE_TAIL {
        out.extend_from_slice(&line);
        return;
    }
    let head = complete_utf8_len(&line[..LINE_HEAD]);
    out.extend_from_slice(&line[..head]);
    out.extend_from_slice(" … ".as_bytes());
    let tail = &line[line.len() - LINE_TAIL..];
    let start = tail.iter().position(|b| b & 0xC0 != 0x80).unwrap_or(0);
    out.extend_from_slice(&tail[start..]);
}

/// A word without the keys in it: what begins like one, and long runs of mixed letters and digits.
fn push_word(line: &mut Vec<u8>, word: &[u8]) {
    let gap = |b: &u8| !b.is_ascii_alphanumeric() && !b"-_*".contains(b);
    let mut rest = word;
    while !rest.is_empty() {
        let n = rest.iter().position(gap).unwrap_or(rest.len());
        let run = &rest[..n];
        let mut keys = KEYS.as_bytes().split(|&b| b == b'|');
        let prefix = keys.find(|k| run.starts_with(k));
        // Digits, letters, others.
        let kinds = run.iter().fold(0, |kinds, b| {
            kinds
                | match b {
                    b'0'..=b'9' => 1,
                    b'a'..=b'z' | b'A'..=b'Z' => 2,
                    _ => 4,
                }
        });
        let shown = match prefix {
            Some(prefix) => prefix.len(),
            None if n >= 32 && kinds == 3 => 4,
            None => n,
        };
        line.extend_from_slice(&run[..shown]);
        if shown < n {
            line.extend_from_slice("…".as_bytes());
        }
        let after = (n + 1).min(rest.len());
        line.extend_from_slice(&rest[n..after]);
        rest = &rest[after..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn said(json: &str) -> (String, String, u16) {
        let said = Said::read(parse(json.as_bytes()).unwrap());
        let codes: Vec<_> = said
            .codes
            .iter()
            .map(|c| String::from_utf8_lossy(c))
            .collect();
        (
            String::from_utf8(said.text.clone()).unwrap(),
            codes.join(","),
            said.status,
        )
    }

    #[test]
    fn the_shapes_servers_use() {
        let cases = [
            (
                r#"{"error":{"message":"m","type":"t","code":null}}"#,
                "m",
                "t",
                0,
            ),
            (r#"{"error":"m"}"#, "m", "", 0),
            (
                r#"{"object":"error","message":"m","type":"BadRequestError","code":400}"#,
                "m",
                "badrequesterror,400",
                400,
            ),
            (
                r#"[{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}]"#,
                "m",
                "429,resource_exhausted",
                429,
            ),
            (
                r#"{"error":{"message":"m","code":502,"metadata":{"raw":"why"}}}"#,
                "m: why",
                "502",
                502,
            ),
            (
                r#"{"error":{"message":"m","metadata":{"raw":"{\"error\":{\"message\":\"why\",\"code\":\"x\"}}"}}}"#,
                "m: why",
                "x",
                0,
            ),
            (
                r#"{"message":{"detail":[{"type":"extra_forbidden","loc":["body","messages",3,"x"],"msg":"no"}]}}"#,
                "body.messages.3.x: no",
                "extra_forbidden",
                0,
            ),
            (r#"{"detail":"m"}"#, "m", "", 0),
            (
                r#"{"detail":[{"loc":["a"],"msg":"m"},{"loc":["b"],"msg":"n"}]}"#,
                "a: m: b: n",
                "",
                0,
            ),
            (r#"{"error":{"code":"1113","message":"m"}}"#, "m", "1113", 0),
            (r#"{"code":500,"msg":"m","success":false}"#, "m", "500", 500),
            (r#""m""#, "m", "", 0),
            ("{}", "", "", 0),
        ];
        for (json, text, codes, status) in cases {
            let (t, c, s) = said(json);
            assert_eq!((t.as_str(), c.as_str(), s), (text, codes, status), "{json}");
        }
        let deep = "{\"error\":".repeat(100) + "1" + &"}".repeat(100);
        assert_eq!(said(&deep).0, "");
    }

    #[test]
    fn lines_hide_keys_and_stay_short() {
        let line = |text: &str| {
            let mut out = Vec::new();
            push_line(&mut out, text.as_bytes());
            String::from_utf8(out).unwrap()
        };
        let cases = [
            ("a\n\n  b\tc", "a b c"),
            (
                "Incorrect API key provided: sk-ab***yz.",
                "Incorrect API key provided: sk-….",
            ),
            ("key=sk-proj-Abc_123\"", "key=sk-…\""),
            (
                "header Bearer abc.def.ghi refused",
                "header Bearer … refused",
            ),
            ("bearer x", "bearer …"),
            ("0123456789abcdef0123456789abcdef.Zz9", "0123….Zz9"),
            ("\n------------\nWhile", "While"),
            ("task-force risk-averse", "task-force risk-averse"),
        ];
        for (text, want) in cases {
            assert_eq!(line(text), want);
        }
        let long = line(&"wörter ".repeat(100));
        assert!(long.len() <= 310 && long.contains('…'), "{long}");
        let end = line(&("x ".repeat(400) + "the point"));
        assert!(end.ends_with("the point"));
        assert!(line(&"é".repeat(100_000)).len() <= 310);
    }

    #[test]
    fn titles() {
        assert_eq!(
            title(b"<html><TITLE lang=en> A b </Title>").as_deref(),
            Some(b"A b".as_slice())
        );
        assert_eq!(title(b"<html><title>cut"), None);
        assert_eq!(title(b"<title></title>"), None);
    }
}
