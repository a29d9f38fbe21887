//! The writer: appends JSON to a byte buffer, puts the commas, escapes strings.

use crate::text::push_dec;

/// Appends `bytes` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD; the output is valid UTF-8
/// without control characters.
pub fn push_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    push_escaped(out, bytes);
    out.push(b'"');
}

/// Appends the inside of a JSON string, without the quotes.
pub fn push_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid().as_bytes();
        while let Some(i) = rest
            .iter()
            .position(|&b| b < 0x20 || b == b'"' || b == b'\\' || b == 0x7F)
        {
            out.extend_from_slice(&rest[..i]);
            let b = rest[i];
            let short = match b {
                b'"' | b'\\' => b,
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                _ => 0,
            };
            if short != 0 {
                out.extend_from_slice(&[b'\\', short]);
            } else {
                out.extend_from_slice(b"\\u00");
                out.push(b'0' + (b >> 4));
                out.push(b"0123456789abcdef"[usize::from(b & 15)]);
            }
            rest = &rest[i + 1..];
        }
        out.extend_from_slice(rest);
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{FFFD}".as_bytes());
        }
    }
}

/// Valid JSON without white space, broken into lines and indented by two blanks a level.
pub fn indented(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut depth, mut text, mut escaped) = (0usize, false, false);
    let line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.resize(out.len() + 2 * depth, b' ');
    };
    for (i, &b) in json.iter().enumerate() {
        if text {
            text = b != b'"' || escaped;
            escaped = b == b'\\' && !escaped;
            out.push(b);
            continue;
        }
        let empty = matches!(json.get(i + 1), Some(b']' | b'}'));
        match b {
            b'{' | b'[' => {
                out.push(b);
                depth += 1;
                if !empty {
                    line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if !matches!(out.last(), Some(b'{' | b'[')) {
                    line(&mut out, depth);
                }
                out.push(b);
            }
            b',' => {
                out.push(b);
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            _ => {
                text = b == b'"';
                out.push(b);
            }
        }
    }
    out
}

/// Builds one JSON document. The caller opens and closes containers in order; commas are put as needed.
#[derive(Default)]
pub struct Writer {
    /// What has been written.
    pub out: Vec<u8>,
    comma: bool,
}

impl Writer {
    /// An empty writer.
    pub fn new() -> Self {
        Self::default()
    }

    fn start(&mut self) {
        if self.comma {
            self.out.push(b',');
        }
        self.comma = true;
    }

    /// Opens a container: `b'{'` or `b'['`.
    pub fn open(&mut self, bracket: u8) -> &mut Self {
        self.start();
        self.out.push(bracket);
        self.comma = false;
        self
    }

    /// Closes a container: `b'}'` or `b']'`.
    pub fn close(&mut self, bracket: u8) -> &mut Self {
        self.out.push(bracket);
        self.comma = true;
        self
    }

    /// A member's name; its value must follow.
    pub fn key(&mut self, name: &str) -> &mut Self {
        self.start();
        push_string(&mut self.out, name.as_bytes());
        self.out.push(b':');
        self.comma = false;
        self
    }

    /// A string value.
    pub fn str(&mut self, value: impl AsRef<[u8]>) -> &mut Self {
        self.start();
        push_string(&mut self.out, value.as_ref());
        self
    }

    /// A number value.
    pub fn num(&mut self, value: u64) -> &mut Self {
        self.start();
        push_dec(&mut self.out, value);
        self
    }

    /// `true` or `false`.
    pub fn bool(&mut self, value: bool) -> &mut Self {
        self.raw(if value { b"true" } else { b"false" })
    }

    /// A value that is JSON already.
    pub fn raw(&mut self, json: &[u8]) -> &mut Self {
        self.start();
        self.out.extend_from_slice(json);
        self
    }
}

#[cfg(test)]
mod indent_tests {
    #[test]
    fn indented_by_two() {
        let json = br#"{"a":[1,{"b":"x, {\"y\\"}],"c":{},"d":[]}"#;
        let want = "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"x, {\\\"y\\\\\"\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}";
        assert_eq!(String::from_utf8_lossy(&super::indented(json)), want);
    }
}
