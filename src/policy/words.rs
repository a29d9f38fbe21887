//! The words of a command line: quotes, expansions, redirections and here-documents. The grammar is in
//! [`super::grammar`].

use super::grammar::{END, PAREN, Read, Reader, TOO_MUCH, UNEXPECTED, UNFINISHED, is_meta};
use super::shell::{Kind, MAX_WORDS, Mark, Nest, Op, Redir, Word, is_name};

const UNBALANCED: &str = "a quote isn't closed";

/// A here-document whose body comes later.
pub(super) struct Pending {
    /// Its place in `Script::bodies`.
    body: usize,
    delimiter: Vec<u8>,
    /// A quoted delimiter: nothing in the body is expanded.
    quoted: bool,
    /// `<<-`: tabs in front of lines don't count.
    tabs: bool,
}

impl Reader<'_> {
    /// Reads one word; there must be one.
    pub fn word(&mut self) -> Read<Word> {
        self.script.word_count += 1;
        if self.script.word_count > MAX_WORDS {
            return Err(TOO_MUCH);
        }
        let from = self.pos;
        let mut word = Word::default();
        if self.at(0) == b'~' {
            word.text.push(b'~');
            self.pos += 1;
            mark(&mut word, 0, Kind::Tilde);
        }
        loop {
            let c = self.at(0);
            match c {
                b'<' | b'>' if self.at(1) == b'(' => {
                    let start = self.pos;
                    let kind = if c == b'>' {
                        Kind::Into(self.substitution(Nest::Into)?)
                    } else {
                        Kind::From(self.substitution(Nest::From)?)
                    };
                    self.expansion(&mut word, start, kind)?;
                }
                b'\\' => self.backslash(&mut word),
                b'\'' => self.single(&mut word)?,
                b'"' => {
                    self.pos += 1;
                    self.quoted(&mut word, b'"')?;
                }
                b'$' => self.dollar(&mut word, false)?,
                b'`' => self.backtick(&mut word, false)?,
                b'*' | b'?' | b'[' => {
                    let start = word.text.len();
                    word.text.push(c);
                    self.pos += 1;
                    mark(&mut word, start, Kind::Glob);
                }
                _ if is_meta(c) => break,
                _ => {
                    word.text.push(c);
                    self.pos += 1;
                }
            }
        }
        if self.pos == from {
            return Err(UNEXPECTED);
        }
        Ok(word)
    }

    /// An unquoted backslash.
    fn backslash(&mut self, word: &mut Word) {
        match self.at(1) {
            0 => {
                word.text.push(b'\\');
                self.pos += 1;
            }
            c => {
                if c != b'\n' {
                    word.text.push(c);
                }
                self.pos += 2;
            }
        }
    }

    fn single(&mut self, word: &mut Word) -> Read {
        let rest = self.src.get(self.pos + 1..).unwrap_or(b"");
        let n = memchr::memchr(b'\'', rest).ok_or(UNBALANCED)?;
        word.text.extend_from_slice(rest.get(..n).unwrap_or(b""));
        self.pos += n + 2;
        Ok(())
    }

    /// Text in which only `$`, backticks and backslash are special, up to `end`: a quote, or 0 for the whole of a
    /// here-document.
    fn quoted(&mut self, word: &mut Word, end: u8) -> Read {
        loop {
            let c = self.at(0);
            if c == end {
                self.pos += usize::from(c != 0);
                return Ok(());
            }
            match c {
                0 => return Err(UNBALANCED),
                b'\\' => {
                    let next = self.at(1);
                    let escapes =
                        matches!(next, b'$' | b'`' | b'\\' | b'\n') || next == b'"' && end == b'"';
                    if !escapes {
                        word.text.push(c);
                        self.pos += 1;
                        continue;
                    }
                    if next != b'\n' {
                        word.text.push(next);
                    }
                    self.pos += 2;
                }
                b'$' => self.dollar(word, true)?,
                b'`' => self.backtick(word, end == b'"')?,
                _ => {
                    word.text.push(c);
                    self.pos += 1;
                }
            }
        }
    }

    /// Marks what was read since `start` as an expansion; its text stays as it was written.
    fn expansion(&mut self, word: &mut Word, start: usize, kind: Kind) -> Read {
        let src = self.src;
        let raw = src.get(start..self.pos).ok_or(UNFINISHED)?;
        self.spend(raw.len())?;
        let at = word.text.len();
        word.text.extend_from_slice(raw);
        mark(word, at, kind);
        Ok(())
    }

    /// `$(…)`, `<(…)` or `>(…)`; here-documents begun outside wait for a newline outside.
    fn substitution(&mut self, nest: Nest) -> Read<usize> {
        self.pos += 2;
        let outer = self.enter(nest)?;
        let base = std::mem::replace(&mut self.base, self.pending.len());
        self.list(PAREN)?;
        self.base = base;
        Ok(self.leave(outer))
    }

    fn dollar(&mut self, word: &mut Word, quoted: bool) -> Read {
        let start = self.pos;
        let mut kind = Kind::Value;
        match self.at(1) {
            b'(' => {
                let end = if self.at(2) == b'(' {
                    self.arithmetic_end(start + 3)?
                } else {
                    None
                };
                if let Some(end) = end {
                    self.pos += 3;
                    self.arithmetic(end)?;
                } else {
                    kind = Kind::Output(self.substitution(Nest::Output)?);
                }
            }
            b'{' => {
                self.pos += 2;
                self.braces(quoted)?;
            }
            b'\'' if !quoted => return self.ansi(word),
            b'"' if !quoted => {
                self.pos += 2;
                return self.quoted(word, b'"');
            }
            c if is_name(c) => {
                self.pos += 2;
                while !c.is_ascii_digit() && is_name(self.at(0)) {
                    self.pos += 1;
                }
            }
            b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!' => self.pos += 2,
            _ => {
                word.text.push(b'$');
                self.pos += 1;
                return Ok(());
            }
        }
        self.expansion(word, start, kind)
    }

    /// The rest of `${…}`.
    fn braces(&mut self, quoted: bool) -> Read {
        self.deeper()?;
        let mut scratch = Word::default();
        loop {
            match self.at(0) {
                0 => return Err("a brace isn't closed"),
                b'}' => break,
                b'\'' if !quoted => self.single(&mut scratch)?,
                _ => self.inner(&mut scratch, quoted)?,
            }
            scratch.text.clear();
            scratch.marks.clear();
        }
        self.pos += 1;
        self.depth -= 1;
        Ok(())
    }

    /// One byte, or one nested thing, of an expansion.
    fn inner(&mut self, scratch: &mut Word, quoted: bool) -> Read {
        match self.at(0) {
            b'\\' => self.backslash(scratch),
            b'"' => {
                self.pos += 1;
                self.quoted(scratch, b'"')?;
            }
            b'$' => self.dollar(scratch, quoted)?,
            b'`' => self.backtick(scratch, quoted)?,
            _ => self.pos += 1,
        }
        Ok(())
    }

    /// Where the arithmetic whose inside starts at `from` closes; `None` if its parentheses are those of commands.
    pub fn arithmetic_end(&mut self, from: usize) -> Read<Option<usize>> {
        let mut open = 1usize;
        let mut at = from;
        while let Some(&c) = self.src.get(at) {
            match c {
                b'\\' => at += 1,
                b'(' => open += 1,
                b')' if open == 1 => {
                    self.spend(at - from)?;
                    return Ok((self.src.get(at + 1) == Some(&b')')).then_some(at));
                }
                b')' => open -= 1,
                _ => {}
            }
            at += 1;
        }
        self.spend(at.saturating_sub(from))?;
        Ok(None)
    }

    /// Reads arithmetic up to `end`, for the commands substituted in it, and the `))`.
    pub fn arithmetic(&mut self, end: usize) -> Read {
        self.deeper()?;
        let mut scratch = Word::default();
        while self.pos < end {
            self.inner(&mut scratch, true)?;
            scratch.text.clear();
            scratch.marks.clear();
        }
        if self.pos != end {
            return Err(UNFINISHED);
        }
        self.pos += 2;
        self.depth -= 1;
        Ok(())
    }

    fn backtick(&mut self, word: &mut Word, quoted: bool) -> Read {
        let start = self.pos;
        self.pos += 1;
        let mut inside = Vec::new();
        loop {
            match self.at(0) {
                0 => return Err("a backtick isn't closed"),
                b'`' => break,
                b'\\' => {
                    let next = self.at(1);
                    if !matches!(next, b'`' | b'\\' | b'$') && !(quoted && next == b'"') {
                        inside.push(b'\\');
                    }
                    if next != 0 {
                        inside.push(next);
                        self.pos += 1;
                    }
                    self.pos += 1;
                }
                c => {
                    inside.push(c);
                    self.pos += 1;
                }
            }
        }
        self.pos += 1;
        self.spend(inside.len())?;
        let outer = self.enter(Nest::Output)?;
        Reader::new(&inside, self.script, self.place, self.depth).list(END)?;
        let scope = self.leave(outer);
        self.expansion(word, start, Kind::Output(scope))
    }

    /// `$'…'` with the escapes of C.
    fn ansi(&mut self, word: &mut Word) -> Read {
        self.pos += 2;
        loop {
            let c = self.at(0);
            self.pos += 1;
            match c {
                0 => return Err(UNBALANCED),
                b'\'' => return Ok(()),
                b'\\' => {
                    let c = self.at(0);
                    self.pos += 1;
                    let code = match c {
                        0 => return Err(UNBALANCED),
                        b'a' => 7,
                        b'b' => 8,
                        b'e' | b'E' => 27,
                        b'f' => 12,
                        b'n' => 10,
                        b'r' => 13,
                        b't' => 9,
                        b'v' => 11,
                        b'x' => self.number(16, 2),
                        b'u' => self.number(16, 4),
                        b'U' => self.number(16, 8),
                        b'0'..=b'7' => {
                            self.pos -= 1;
                            self.number(8, 3) & 0xFF
                        }
                        _ => u32::from(c),
                    };
                    if matches!(c, b'u' | b'U') {
                        let c = char::from_u32(code).unwrap_or('\u{FFFD}');
                        let mut buf = [0; 4];
                        word.text
                            .extend_from_slice(c.encode_utf8(&mut buf).as_bytes());
                    } else {
                        word.text.push(code as u8);
                    }
                }
                _ => word.text.push(c),
            }
        }
    }

    fn number(&mut self, base: u32, digits: u32) -> u32 {
        let mut value = 0u32;
        for _ in 0..digits {
            let Some(d) = char::from(self.at(0)).to_digit(base) else {
                break;
            };
            value = value.wrapping_mul(base).wrapping_add(d);
            self.pos += 1;
        }
        value
    }

    /// Reads a redirection if there is one at the cursor.
    pub fn redirect(&mut self, redirs: &mut Vec<Redir>) -> Read<bool> {
        let mut n = 0;
        while n < 4 && self.at(n).is_ascii_digit() {
            n += 1;
        }
        let op = self.at(n);
        let next = self.at(n + 1);
        let both = n == 0 && op == b'&' && next == b'>';
        if !both && (!matches!(op, b'<' | b'>') || n == 0 && next == b'(') {
            return Ok(false);
        }
        let mut fd = u32::from(op != b'<');
        if n > 0 {
            fd = self.number(10, 4);
        }
        let (len, mut kind) = match (op, next, self.at(2)) {
            (b'&', _, b'>') => (3, Op::Out),
            (b'&', ..) => (2, Op::Out),
            (b'<', b'<', b'<') => (3, Op::Text),
            (b'<', b'<', b'-') => (3, Op::Doc(0)),
            (b'<', b'<', _) => (2, Op::Doc(0)),
            (b'<', b'>', _) => (2, Op::Out),
            (_, b'&', _) => (2, Op::Dup),
            (b'<', ..) => (1, Op::In),
            (_, b'>' | b'|', _) => (2, Op::Out),
            _ => (1, Op::Out),
        };
        let tabs = len == 3;
        self.pos += len;
        self.space(false)?;
        let from = self.pos;
        let target = self.word()?;
        match kind {
            Op::Dup => {
                let text = target.text.as_slice();
                if op == b'>' && !text.iter().all(|b| b.is_ascii_digit() || *b == b'-') {
                    kind = Op::Out;
                }
            }
            Op::Doc(_) => {
                let raw = self.src.get(from..self.pos).unwrap_or(b"");
                let body = self.script.bodies.len();
                kind = Op::Doc(body);
                self.script.bodies.push(Word::default());
                self.pending.push(Pending {
                    body,
                    delimiter: target.text.clone(),
                    quoted: raw.iter().any(|b| matches!(b, b'\'' | b'"' | b'\\')),
                    tabs,
                });
            }
            _ => {}
        }
        redirs.push(Redir {
            fd,
            op: kind,
            target,
        });
        Ok(true)
    }

    /// Reads the bodies of the here-documents that wait, after a newline.
    pub fn read_bodies(&mut self) -> Read {
        if self.pending.len() <= self.base {
            return Ok(());
        }
        for doc in self.pending.split_off(self.base) {
            let mut text = Vec::new();
            while let Some(rest) = self.src.get(self.pos..).filter(|r| !r.is_empty()) {
                let n = memchr::memchr(b'\n', rest).map_or(rest.len(), |n| n + 1);
                self.pos += n;
                let mut line = rest.get(..n).unwrap_or(rest);
                while doc.tabs && line.first() == Some(&b'\t') {
                    line = line.get(1..).unwrap_or(b"");
                }
                if line.strip_suffix(b"\n").unwrap_or(line) == doc.delimiter {
                    break;
                }
                text.extend_from_slice(line);
            }
            self.spend(text.len())?;
            let mut word = Word::default();
            if doc.quoted {
                word.text = text;
            } else {
                self.deeper()?;
                Reader::new(&text, self.script, self.place, self.depth).quoted(&mut word, 0)?;
                self.depth -= 1;
            }
            if let Some(body) = self.script.bodies.get_mut(doc.body) {
                *body = word;
            }
        }
        Ok(())
    }
}

fn mark(word: &mut Word, start: usize, kind: Kind) {
    let end = word.text.len();
    word.marks.push(Mark { start, end, kind });
}
