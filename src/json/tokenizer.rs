//! The grammar: one document is checked in one pass, without recursion and without building anything.

use crate::text::push_utf8_lossy;

/// Deepest nesting accepted; deeper input is an error, never a stack overflow (the reader keeps one byte a level).
pub const MAX_DEPTH: usize = 512;

/// What is wrong with a text, and at which byte of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Error {
    /// Byte offset into the input of the call that failed.
    pub at: usize,
    /// What was expected, as a short English phrase.
    pub what: &'static str,
}

impl Error {
    /// Whether the text is right as far as it goes and only ends too early.
    pub fn is_cut(&self) -> bool {
        self.what.starts_with("unexpected end")
    }
}

/// The inside of a string literal, escapes still in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Text<'a> {
    raw: &'a [u8],
    escaped: bool,
}

impl<'a> Text<'a> {
    /// A text over the bytes between two quotes. `escaped` says whether a backslash is among them.
    pub fn new(raw: &'a [u8], escaped: bool) -> Self {
        Text { raw, escaped }
    }

    /// The bytes between the quotes as written.
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// Whether escapes are in it.
    pub fn is_escaped(&self) -> bool {
        self.escaped
    }

    /// Appends the decoded text to `out`: valid UTF-8 whatever the input holds.
    pub fn push_to(&self, out: &mut Vec<u8>) {
        if !self.escaped {
            return push_utf8_lossy(out, self.raw);
        }
        let mut rest = self.raw;
        while let Some(i) = memchr::memchr(b'\\', rest) {
            push_utf8_lossy(out, &rest[..i]);
            rest = decode_escape(&rest[i + 1..], out);
        }
        push_utf8_lossy(out, rest);
    }

    /// The decoded text.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.raw.len());
        self.push_to(&mut out);
        out
    }

    /// The decoded text as a `String`.
    pub fn string(&self) -> String {
        String::from_utf8(self.bytes()).unwrap_or_default()
    }

    /// Whether the decoded text equals `other`, without allocating for the usual text that has no escapes.
    pub fn is(&self, other: &str) -> bool {
        if self.escaped {
            self.bytes() == other.as_bytes()
        } else {
            self.raw == other.as_bytes()
        }
    }
}

/// Decodes what follows a backslash, appends it to `out` and returns what is left. An escape that is not one of JSON's
/// (only the lenient reader lets them through) stands for its own character.
fn decode_escape<'a>(rest: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let Some((&b, rest)) = rest.split_first() else {
        return rest;
    };
    let plain = match b {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 8,
        b'f' => 12,
        b'u' => return decode_unicode(rest, out),
        other => other,
    };
    out.push(plain);
    rest
}

/// The number at the start of `digits`, when four hexadecimal ones are there.
fn hex4(digits: &[u8]) -> Option<u32> {
    let mut code = 0;
    for &d in digits.get(..4)? {
        code = code * 16 + char::from(d).to_digit(16)?;
    }
    Some(code)
}

fn decode_unicode<'a>(rest: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let Some(first) = hex4(rest) else {
        out.extend_from_slice("\u{FFFD}".as_bytes());
        return rest;
    };
    let mut rest = &rest[4..];
    let mut code = first;
    if (0xD800..0xDC00).contains(&first)
        && rest.starts_with(b"\\u")
        && let Some(low) = hex4(&rest[2..])
        && (0xDC00..0xE000).contains(&low)
    {
        code = 0x10000 + ((first - 0xD800) << 10) + (low - 0xDC00);
        rest = &rest[6..];
    }
    let c = char::from_u32(code).unwrap_or('\u{FFFD}');
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    rest
}

/// Checks the document at the start of `text` and returns where it ends.
///
/// # Errors
/// Whatever RFC 8259 does not allow, except `NaN` and `±Infinity` (some servers send them in fields nobody reads) and raw
/// control characters in strings; nesting beyond [`MAX_DEPTH`].
pub fn document(text: &[u8]) -> Result<usize, Error> {
    // The closing brackets owed.
    let mut open = [0u8; MAX_DEPTH];
    let mut depth = 0;
    let mut at = 0;
    // Whether a value has just ended, and whether a container has just begun.
    let (mut after, mut first) = (false, false);
    loop {
        let close = open[..depth].last().copied().unwrap_or(0);
        let mut b = peek(text, &mut at);
        if (after || first) && b == close {
            at += 1;
            depth -= 1;
            (after, first) = (true, false);
        } else {
            if after {
                if b != b',' {
                    let what = match close {
                        b'}' => "expected ',' or '}'",
                        _ => "expected ',' or ']'",
                    };
                    return fail(text, at, what);
                }
                at += 1;
                b = peek(text, &mut at);
            }
            if close == b'}' {
                if b != b'"' {
                    return fail(text, at, "expected a name in quotes");
                }
                at = string(text, at)?;
                if peek(text, &mut at) != b':' {
                    return fail(text, at, "expected ':'");
                }
                at += 1;
                b = peek(text, &mut at);
            }
            (after, first) = (true, false);
            match b {
                b'{' | b'[' => {
                    let Some(slot) = open.get_mut(depth) else {
                        return fail(text, at, "nested too deeply");
                    };
                    // `}` and `]` stand two behind their openers.
                    *slot = b + 2;
                    depth += 1;
                    at += 1;
                    (after, first) = (false, true);
                }
                b'"' => at = string(text, at)?,
                _ => {
                    let rest = &text[at..];
                    let word = &rest[..word_len(rest)];
                    let literal = matches!(
                        word,
                        b"true" | b"false" | b"null" | b"NaN" | b"Infinity" | b"-Infinity"
                    );
                    if !literal && !is_number(word) {
                        return fail(text, at, "expected a value");
                    }
                    at += word.len();
                }
            }
        }
        if depth == 0 {
            return Ok(at);
        }
    }
}

#[cold]
#[inline(never)]
fn fail(text: &[u8], at: usize, what: &'static str) -> Result<usize, Error> {
    let what = if at < text.len() {
        what
    } else {
        "unexpected end"
    };
    Err(Error { at, what })
}

/// The next byte that is no white space; 0 at the end.
fn peek(text: &[u8], at: &mut usize) -> u8 {
    loop {
        match text.get(*at) {
            Some(b' ' | b'\t' | b'\n' | b'\r') => *at += 1,
            Some(&b) => return b,
            None => return 0,
        }
    }
}

/// The length of the number or literal at the start of `text`.
pub(super) fn word_len(text: &[u8]) -> usize {
    let ends = |b: &u8| !b.is_ascii_alphanumeric() && !matches!(b, b'+' | b'-' | b'.');
    text.iter().position(ends).unwrap_or(text.len())
}

/// Checks the string at `start`, which holds its opening quote, and returns where it ends.
///
/// # Errors
/// A bad escape, or no end.
pub(super) fn string(text: &[u8], start: usize) -> Result<usize, Error> {
    let mut at = start + 1;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let Some(i) = memchr::memchr2(b'"', b'\\', rest) else {
            let (at, what) = (text.len(), "unexpected end in a string");
            return Err(Error { at, what });
        };
        at += i;
        let escape = &rest[i + 1..];
        if rest[i] == b'"' {
            return Ok(at + 1);
        }
        let what = match escape.first() {
            Some(b'u') => {
                let digits = &escape[1..escape.len().min(5)];
                if digits.iter().all(u8::is_ascii_hexdigit) {
                    ""
                } else {
                    "bad \\u escape"
                }
            }
            Some(b) if !b"\"\\/bfnrt".contains(b) => "bad escape",
            _ => "",
        };
        if !what.is_empty() {
            return Err(Error { at, what });
        }
        at += 2;
    }
}

/// The grammar of RFC 8259 §6.
fn is_number(text: &[u8]) -> bool {
    let mut rest = text.strip_prefix(b"-").unwrap_or(text);
    if rest.len() > 1 && rest[0] == b'0' && rest[1].is_ascii_digit() {
        return false;
    }
    for part in [b' ', b'.', b'e'] {
        if part != b' ' {
            match rest.split_first() {
                Some((b, more)) if b | 0x20 == part | 0x20 => rest = more,
                _ => continue,
            }
            if part == b'e' {
                let sign = rest.first().is_some_and(|b| matches!(b, b'+' | b'-'));
                rest = &rest[usize::from(sign)..];
            }
        }
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 {
            return false;
        }
        rest = &rest[digits..];
    }
    rest.is_empty()
}
