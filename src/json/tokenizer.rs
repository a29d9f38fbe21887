//! The pull tokenizer.

use crate::text::push_utf8_lossy;

/// Deepest nesting accepted; deeper input is an error, never a stack overflow (the tokenizer keeps one bit a level).
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

/// One token. Colons and commas are checked and not reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Token<'a> {
    /// `{`
    ObjectStart,
    /// `}`
    ObjectEnd,
    /// `[`
    ArrayStart,
    /// `]`
    ArrayEnd,
    /// A name in an object.
    Key(Text<'a>),
    /// A string value.
    Str(Text<'a>),
    /// A number, as written. `NaN`, `Infinity` and `-Infinity` are let through: some servers send them in fields nobody
    /// reads.
    Number(&'a [u8]),
    /// `true` or `false`
    Bool(bool),
    /// `null`
    Null,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// A value must come.
    Value,
    /// A value or `]`.
    ValueOrEnd,
    /// A name or `}`.
    KeyOrEnd,
    /// A name.
    Key,
    /// `:`
    Colon,
    /// `,` or the end of the container.
    CommaOrEnd,
    /// The document is complete.
    Done,
}

/// The tokenizer's position in the grammar. It holds none of the input: the caller keeps the bytes from `pos` on and
/// calls again with more of them, so a document may be cut at any byte.
#[derive(Clone)]
pub struct Tokenizer {
    state: State,
    depth: usize,
    /// One bit a level: set for objects.
    objects: [u32; MAX_DEPTH / 32],
    /// How many bytes of the unfinished token at `pos` need not be looked at again, and whether a backslash is among
    /// them: a long string that comes in small pieces is scanned once.
    seen: usize,
    seen_escape: bool,
}

impl Default for Tokenizer {
    fn default() -> Self {
        Self::new()
    }
}

impl Tokenizer {
    /// A tokenizer at the start of a document.
    pub fn new() -> Self {
        Tokenizer {
            state: State::Value,
            depth: 0,
            objects: [0; MAX_DEPTH / 32],
            seen: 0,
            seen_escape: false,
        }
    }

    /// Whether one whole document has been read.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// How many containers are open.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Reads the next token from `input` at `*pos` and moves `*pos` behind it. `Ok(None)` means: the document is
    /// complete, or (when `last` is false) the token at `*pos` is not whole yet. With `last` set an incomplete document
    /// is an error.
    ///
    /// # Errors
    /// Whatever RFC 8259 does not allow, except `NaN` and `±Infinity`; raw control characters in strings are allowed
    /// (servers send them); nesting beyond [`MAX_DEPTH`].
    pub fn next<'a>(
        &mut self,
        input: &'a [u8],
        pos: &mut usize,
        last: bool,
    ) -> Result<Option<Token<'a>>, Error> {
        loop {
            if self.state == State::Done {
                return Ok(None);
            }
            let mut at = *pos;
            while matches!(input.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
                at += 1;
            }
            *pos = at;
            let Some(&b) = input.get(at) else {
                return if last {
                    Err(Error {
                        at,
                        what: "unexpected end",
                    })
                } else {
                    Ok(None)
                };
            };
            let fail = |what| Err(Error { at, what });
            match (self.state, b) {
                (State::Colon, b':') => {
                    self.state = State::Value;
                    *pos += 1;
                }
                (State::Colon, _) => return fail("expected ':'"),
                (State::CommaOrEnd, b',') => {
                    self.state = if self.in_object() {
                        State::Key
                    } else {
                        State::Value
                    };
                    *pos += 1;
                }
                (State::CommaOrEnd | State::KeyOrEnd, b'}') if self.in_object() => {
                    *pos += 1;
                    self.close();
                    return Ok(Some(Token::ObjectEnd));
                }
                (State::CommaOrEnd | State::ValueOrEnd, b']') if !self.in_object() => {
                    *pos += 1;
                    self.close();
                    return Ok(Some(Token::ArrayEnd));
                }
                (State::CommaOrEnd, _) => {
                    return fail(if self.in_object() {
                        "expected ',' or '}'"
                    } else {
                        "expected ',' or ']'"
                    });
                }
                (State::Key | State::KeyOrEnd, b'"') => {
                    let Some(text) = self.string(input, pos, last)? else {
                        return Ok(None);
                    };
                    self.state = State::Colon;
                    return Ok(Some(Token::Key(text)));
                }
                (State::Key | State::KeyOrEnd, _) => return fail("expected a name in quotes"),
                _ => return self.value(input, pos, last, b),
            }
        }
    }

    fn value<'a>(
        &mut self,
        input: &'a [u8],
        pos: &mut usize,
        last: bool,
        b: u8,
    ) -> Result<Option<Token<'a>>, Error> {
        let token = match b {
            b'{' | b'[' => {
                if self.depth == MAX_DEPTH {
                    return Err(Error {
                        at: *pos,
                        what: "nested too deeply",
                    });
                }
                let object = b == b'{';
                let (word, bit) = (self.depth / 32, 1u32 << (self.depth % 32));
                if object {
                    self.objects[word] |= bit;
                } else {
                    self.objects[word] &= !bit;
                }
                self.depth += 1;
                *pos += 1;
                self.state = if object {
                    State::KeyOrEnd
                } else {
                    State::ValueOrEnd
                };
                return Ok(Some(if object {
                    Token::ObjectStart
                } else {
                    Token::ArrayStart
                }));
            }
            b'"' => match self.string(input, pos, last)? {
                Some(text) => Token::Str(text),
                None => return Ok(None),
            },
            _ => match self.word(input, pos, last)? {
                Some(token) => token,
                None => return Ok(None),
            },
        };
        self.after_value();
        Ok(Some(token))
    }

    fn in_object(&self) -> bool {
        let level = self.depth.wrapping_sub(1);
        self.objects
            .get(level / 32)
            .is_some_and(|w| w >> (level % 32) & 1 == 1)
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.after_value();
    }

    fn after_value(&mut self) {
        self.state = if self.depth == 0 {
            State::Done
        } else {
            State::CommaOrEnd
        };
    }

    /// Reads the string at `*pos` (which holds its opening quote).
    fn string<'a>(
        &mut self,
        input: &'a [u8],
        pos: &mut usize,
        last: bool,
    ) -> Result<Option<Text<'a>>, Error> {
        let start = *pos + 1;
        let mut at = start + self.seen;
        let mut escaped = self.seen_escape;
        (self.seen, self.seen_escape) = (0, false);
        loop {
            let rest = input.get(at..).unwrap_or_default();
            let Some(i) = memchr::memchr2(b'"', b'\\', rest) else {
                return self.pause(input, start, input.len(), escaped, last);
            };
            at += i;
            if input[at] == b'"' {
                *pos = at + 1;
                let raw = &input[start..at];
                return Ok(Some(Text { raw, escaped }));
            }
            let fail = |what| Err(Error { at, what });
            let escape = &input[at + 1..];
            let len = match escape.first() {
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 1,
                Some(b'u') => {
                    let digits = &escape[1..escape.len().min(5)];
                    if !digits.iter().all(u8::is_ascii_hexdigit) {
                        return fail("bad \\u escape");
                    }
                    5
                }
                Some(_) => return fail("bad escape"),
                None => 1,
            };
            if escape.len() < len {
                return self.pause(input, start, at, escaped, last);
            }
            escaped = true;
            at += 1 + len;
        }
    }

    /// The input ends inside a string of which the bytes before `at` need no second look.
    fn pause<'a>(
        &mut self,
        input: &[u8],
        start: usize,
        at: usize,
        escaped: bool,
        last: bool,
    ) -> Result<Option<Text<'a>>, Error> {
        if last {
            let (at, what) = (input.len(), "unexpected end in a string");
            return Err(Error { at, what });
        }
        (self.seen, self.seen_escape) = (at.saturating_sub(start), escaped);
        Ok(None)
    }

    /// Reads the number or literal at `*pos`.
    fn word<'a>(
        &mut self,
        input: &'a [u8],
        pos: &mut usize,
        last: bool,
    ) -> Result<Option<Token<'a>>, Error> {
        let rest = &input[*pos..];
        let from = self.seen.min(rest.len());
        self.seen = 0;
        let end = rest[from..].iter().position(
            |&b| !matches!(b, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'+' | b'-' | b'.'),
        );
        let Some(len) = end.map(|i| from + i).or(last.then_some(rest.len())) else {
            self.seen = rest.len();
            return Ok(None);
        };
        let text = &rest[..len];
        let token = match text {
            b"true" => Token::Bool(true),
            b"false" => Token::Bool(false),
            b"null" => Token::Null,
            b"NaN" | b"Infinity" | b"-Infinity" => Token::Number(text),
            _ if is_number(text) => Token::Number(text),
            _ => {
                let (at, what) = (*pos, "expected a value");
                return Err(Error { at, what });
            }
        };
        *pos += len;
        Ok(Some(token))
    }
}

/// The grammar of RFC 8259 §6.
fn is_number(text: &[u8]) -> bool {
    let digits = |s: &[u8]| s.iter().take_while(|b| b.is_ascii_digit()).count();
    let mut rest = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(rest);
    if whole == 0 || whole > 1 && rest[0] == b'0' {
        return false;
    }
    rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let n = digits(fraction);
        if n == 0 {
            return false;
        }
        rest = &fraction[n..];
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = match exponent {
            [b'+' | b'-', more @ ..] => more,
            more => more,
        };
        let n = digits(exponent);
        if n == 0 {
            return false;
        }
        rest = &exponent[n..];
    }
    rest.is_empty()
}
