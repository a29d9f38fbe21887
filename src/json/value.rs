//! A lazy view of one JSON document: nothing is built, members are found by scanning the text.

use super::tokenizer::{Error, Text, Token, Tokenizer};

/// What a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    Str,
    /// A number.
    Number,
    /// `true` or `false`
    Bool,
    /// `null`
    Null,
}

/// A value inside a text that has been checked by [`parse`]. Copying it copies a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Value<'a> {
    text: &'a [u8],
}

/// Checks that `text` is exactly one JSON document (white space around it allowed) and returns a view of it.
///
/// # Errors
/// The first byte that does not fit, see [`Tokenizer::next`].
pub fn parse(text: &[u8]) -> Result<Value<'_>, Error> {
    let (value, end) = parse_prefix(text)?;
    match text[end..].iter().position(|b| !b" \t\r\n".contains(b)) {
        Some(i) => Err(Error {
            at: end + i,
            what: "unexpected text after the value",
        }),
        None => Ok(value),
    }
}

/// A view of a text that was checked before, a stored message say, without reading it again. Of a text that is no JSON
/// document it shows the members up to the first fault.
pub fn checked(text: &[u8]) -> Value<'_> {
    Value {
        text: text.trim_ascii(),
    }
}

/// Reads one JSON document at the start of `text` and says where it ends; what follows is the caller's business.
///
/// # Errors
/// As [`parse`], but for what follows the document.
pub fn parse_prefix(text: &[u8]) -> Result<(Value<'_>, usize), Error> {
    let mut tokens = Tokenizer::new();
    let mut pos = 0;
    let start = text
        .iter()
        .position(|b| !b" \t\r\n".contains(b))
        .unwrap_or(text.len());
    while tokens.next(text, &mut pos, true)?.is_some() {}
    Ok((
        Value {
            text: &text[start..pos],
        },
        pos,
    ))
}

impl<'a> Value<'a> {
    /// The value's text as written.
    pub fn raw(&self) -> &'a [u8] {
        self.text
    }

    /// What the value is.
    pub fn kind(&self) -> Kind {
        match self.text.first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::Str,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') | None => Kind::Null,
            _ => Kind::Number,
        }
    }

    /// Whether the value is `null`.
    pub fn is_null(&self) -> bool {
        self.kind() == Kind::Null
    }

    /// The member `name` of an object. Of several with that name the last counts; `null` counts as absent.
    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        let mut found = None;
        for (key, value) in self.entries() {
            if key.is(name) {
                found = Some(value);
            }
        }
        found.filter(|v| !v.is_null())
    }

    /// The string member `name`, decoded.
    pub fn get_string(&self, name: &str) -> Option<String> {
        self.get(name)?.string()
    }

    /// The number member `name`.
    pub fn get_u64(&self, name: &str) -> Option<u64> {
        self.get(name)?.u64()
    }

    /// The text of a string value.
    pub fn text(&self) -> Option<Text<'a>> {
        match self.text {
            [b'"', inner @ .., b'"'] => {
                Some(Text::new(inner, memchr::memchr(b'\\', inner).is_some()))
            }
            _ => None,
        }
    }

    /// The decoded string value.
    pub fn string(&self) -> Option<String> {
        Some(self.text()?.string())
    }

    /// The value of `true` and `false`.
    pub fn bool(&self) -> Option<bool> {
        match self.text {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }

    /// A non-negative number without its fraction; exponents are honoured, too large ones saturate.
    pub fn u64(&self) -> Option<u64> {
        if self.kind() != Kind::Number {
            return None;
        }
        decimal(self.text, 0)
    }

    /// The number times a thousand, without the rest: seconds as milliseconds, prices as thousandths.
    pub fn milli(&self) -> Option<u64> {
        if self.kind() != Kind::Number {
            return None;
        }
        decimal(self.text, 3)
    }

    /// The members of an object in order; nothing for other values.
    pub fn entries(&self) -> Entries<'a> {
        Entries {
            inner: Inner::new(self.text, self.kind() == Kind::Object),
        }
    }

    /// The elements of an array in order; nothing for other values.
    pub fn items(&self) -> Items<'a> {
        Items {
            inner: Inner::new(self.text, self.kind() == Kind::Array),
        }
    }
}

/// Reads a decimal number times 10^`shift` as an integer, dropping what is left of the fraction. `None` for negative
/// numbers and for what is no number.
pub fn decimal(text: &[u8], shift: i32) -> Option<u64> {
    let (mantissa, exponent) = match text.iter().position(|b| matches!(b, b'e' | b'E')) {
        Some(i) => (&text[..i], exponent(&text[i + 1..])?),
        None => (text, 0),
    };
    let mut n: u64 = 0;
    let mut dot = None;
    for (i, &b) in mantissa.iter().enumerate() {
        match b {
            b'0'..=b'9' => n = n.saturating_mul(10).saturating_add(u64::from(b - b'0')),
            b'.' if dot.is_none() => dot = Some(i),
            _ => return None,
        }
        // Digits beyond this can't matter for any field we read, and would overflow.
        if dot.is_some_and(|d| i - d > 9) {
            return decimal(&mantissa[..i], shift.saturating_add(exponent));
        }
    }
    let places = dot.map_or(0, |d| mantissa.len() - d - 1) as i32;
    let scale = exponent.saturating_add(shift).saturating_sub(places);
    if n == 0 {
        return Some(0);
    }
    for _ in 0..scale.unsigned_abs().min(40) {
        n = if scale > 0 {
            n.saturating_mul(10)
        } else {
            n / 10
        };
    }
    Some(n)
}

/// A signed decimal; beyond 9,999 it makes no difference how large it is.
fn exponent(text: &[u8]) -> Option<i32> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let mut n = 0i32;
    for &b in digits {
        if !b.is_ascii_digit() {
            return None;
        }
        n = (n * 10 + i32::from(b - b'0')).min(9_999);
    }
    (!digits.is_empty()).then_some(if negative { -n } else { n })
}

#[derive(Clone)]
struct Inner<'a> {
    text: &'a [u8],
    tokens: Tokenizer,
    pos: usize,
}

impl<'a> Inner<'a> {
    fn new(text: &'a [u8], open: bool) -> Self {
        let mut inner = Inner {
            text,
            tokens: Tokenizer::new(),
            pos: 0,
        };
        if open {
            inner.token();
        } else {
            inner.pos = text.len();
        }
        inner
    }

    fn token(&mut self) -> Option<Token<'a>> {
        self.tokens
            .next(self.text, &mut self.pos, true)
            .ok()
            .flatten()
    }

    /// The value whose first token is next, with everything inside it.
    fn value(&mut self) -> Option<Value<'a>> {
        let before = self.tokens.depth();
        let token = self.token()?;
        let mut start = self.pos;
        match token {
            Token::ObjectStart | Token::ArrayStart => {
                start -= 1;
                while self.tokens.depth() > before {
                    self.token()?;
                }
            }
            Token::ObjectEnd | Token::ArrayEnd | Token::Key(_) => return None,
            Token::Str(text) => start -= text.raw().len() + 2,
            Token::Number(text) => start -= text.len(),
            Token::Bool(true) | Token::Null => start -= 4,
            Token::Bool(false) => start -= 5,
        }
        Some(Value {
            text: &self.text[start..self.pos],
        })
    }
}

/// Iterator over the members of an object.
#[derive(Clone)]
pub struct Entries<'a> {
    inner: Inner<'a>,
}

impl<'a> Iterator for Entries<'a> {
    type Item = (Text<'a>, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        match self.inner.token()? {
            Token::Key(key) => Some((key, self.inner.value()?)),
            _ => None,
        }
    }
}

/// Iterator over the elements of an array.
#[derive(Clone)]
pub struct Items<'a> {
    inner: Inner<'a>,
}

impl<'a> Iterator for Items<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.inner.value()
    }
}
