//! A lazy view of one JSON document: nothing is built, members are found by scanning the text.

use super::tokenizer::{self, Error, Text};

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
/// The first byte that does not fit, see [`tokenizer::document`].
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
    let end = tokenizer::document(text)?;
    let text = text[..end].trim_ascii_start();
    Ok((Value { text }, end))
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
        let mut found = [None];
        self.pick(name, &mut found);
        found[0]
    }

    /// The members `names` (separated by `|`) of an object, found in one pass and put in their order into `found`, which
    /// keeps what it has of those that are absent. As for [`Value::get`] `null` counts as absent.
    pub fn pick(&self, names: &str, found: &mut [Option<Value<'a>>]) {
        for (key, value) in self.entries() {
            let decoded;
            let mut key_text = key.raw();
            if key.is_escaped() {
                decoded = key.bytes();
                key_text = &decoded;
            }
            let mut names = names.as_bytes().split(|&b| b == b'|');
            if !value.is_null()
                && let Some(i) = names.position(|name| name == key_text)
                && let Some(slot) = found.get_mut(i)
            {
                *slot = Some(value);
            }
        }
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

    /// Appends the decoded string, or what other values are written as.
    pub fn push_to(&self, out: &mut Vec<u8>) {
        match self.text() {
            Some(text) => text.push_to(out),
            None => out.extend_from_slice(self.text),
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
        decimal(self.text, 0)
    }

    /// The number times a thousand, without the rest: seconds as milliseconds, prices as thousandths.
    pub fn milli(&self) -> Option<u64> {
        decimal(self.text, 3)
    }

    /// The members of an object in order; nothing for other values.
    pub fn entries(&self) -> Entries<'a> {
        Entries {
            rest: self.inside(b'{'),
        }
    }

    /// The elements of an array in order; nothing for other values.
    pub fn items(&self) -> Items<'a> {
        Items {
            rest: self.inside(b'['),
        }
    }

    fn inside(&self, bracket: u8) -> &'a [u8] {
        match self.text.split_first() {
            Some((&b, rest)) if b == bracket => rest,
            _ => b"",
        }
    }
}

/// Reads a decimal number times 10^`shift` as an integer, dropping what is left of the fraction. `None` for negative
/// numbers and for what is no number.
pub fn decimal(text: &[u8], shift: i32) -> Option<u64> {
    let mut n: u64 = 0;
    let (mut scale, mut dot, mut digits) = (shift, false, false);
    for (i, &b) in text.iter().enumerate() {
        match b {
            b'0'..=b'9' => {
                digits = true;
                if n < u64::MAX / 10 {
                    n = n * 10 + u64::from(b - b'0');
                    scale -= i32::from(dot);
                } else {
                    // Beyond 19 digits only their number counts.
                    scale = scale.saturating_add(i32::from(!dot));
                }
            }
            b'.' if !dot => dot = true,
            b'e' | b'E' if digits => {
                scale = scale.saturating_add(exponent(&text[i + 1..])?);
                break;
            }
            _ => return None,
        }
    }
    if !digits {
        return None;
    }
    while scale < 0 && n > 0 {
        n /= 10;
        scale += 1;
    }
    while scale > 0 && n > 0 {
        if n > u64::MAX / 10 {
            return Some(u64::MAX);
        }
        n *= 10;
        scale -= 1;
    }
    Some(n)
}

/// A signed decimal; beyond 9,999 it makes no difference how large it is.
fn exponent(text: &[u8]) -> Option<i32> {
    let sign = text.first().is_some_and(|b| matches!(b, b'+' | b'-'));
    let digits = &text[usize::from(sign)..];
    let mut n = 0i32;
    for &b in digits {
        if !b.is_ascii_digit() {
            return None;
        }
        n = (n * 10 + i32::from(b - b'0')).min(9_999);
    }
    if digits.is_empty() {
        return None;
    }
    Some(if text[0] == b'-' { -n } else { n })
}

/// Cuts the next value off the inside of a container, with the punctuation in front of it. The text was checked: brackets
/// are counted and strings are skipped.
#[inline(never)]
fn next<'a>(rest: &mut &'a [u8]) -> Option<Value<'a>> {
    let text = *rest;
    let start = text.iter().position(|b| !b" \t\r\n,:".contains(b))?;
    let mut at = start;
    let mut depth = 0u32;
    loop {
        match text.get(at)? {
            b'"' => at = tokenizer::string(text, at).ok()?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                at += 1;
            }
            _ => match tokenizer::word_len(&text[at..]) {
                0 if depth == 0 => return None,
                n => at += n.max(1),
            },
        }
        if depth == 0 {
            *rest = &text[at..];
            let text = &text[start..at];
            return Some(Value { text });
        }
    }
}

/// Iterator over the members of an object.
#[derive(Clone)]
pub struct Entries<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Entries<'a> {
    type Item = (Text<'a>, Value<'a>);

    #[inline(never)]
    fn next(&mut self) -> Option<Self::Item> {
        let key = next(&mut self.rest)?.text()?;
        Some((key, next(&mut self.rest)?))
    }
}

/// Iterator over the elements of an array.
#[derive(Clone)]
pub struct Items<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Items<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        next(&mut self.rest)
    }
}
