//! The words of a command line: quotes, expansions, redirections and here-documents. Commands are in
//! [`super::grammar`].

use super::grammar::{Reader, TOO_MUCH, UNEXPECTED, UNFINISHED, is_meta};
use super::shell::{Kind, MAX_WORDS, Nest, Op, Redir, Word, is_name};

const UNBALANCED: &str = "a quote isn't closed";
/// Instead of the closing quote of a here-document.
const DOC: u8 = 1;

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
    pub fn word(&mut self, word: &mut Word) {
        self.script.word_count += 1;
        if self.script.word_count > MAX_WORDS {
            return self.fail(TOO_MUCH);
        }
        let from = self.pos;
        if self.at(0) == b'~' {
            word.mark(0, Kind::Tilde, 0);
        }
        loop {
            let c = self.at(0);
            let start = self.pos;
            if self.at(1) == b'(' && matches!(c, b'<' | b'>') {
                self.pos += 2;
                let (nest, kind) = match c {
                    b'<' => (Nest::Output, Kind::From),
                    _ => (Nest::Into, Kind::Value),
                };
                let scope = self.group(nest, b")");
                self.expansion(word, start, kind, scope);
                continue;
            }
            if is_meta(c) {
                break;
            }
            word.globs |= matches!(c, b'*' | b'?' | b'[');
            self.piece(word, 0);
        }
        if self.pos == from {
            self.fail(UNEXPECTED);
        }
    }

    /// One byte, or one quoted or expanded thing. `quote` is the quote it stands in, if any.
    fn piece(&mut self, word: &mut Word, quote: u8) {
        let c = self.at(0);
        let next = self.at(1);
        match c {
            b'$' => return self.dollar(word, quote),
            b'`' => return self.backtick(word, quote),
            b'"' if quote == 0 => {
                self.pos += 1;
                return self.quoted(word, c);
            }
            b'\'' if quote == 0 => {
                let rest = self.src.get(self.pos + 1..).unwrap_or(b"");
                let Some(n) = memchr::memchr(c, rest) else {
                    return self.fail(UNBALANCED);
                };
                word.text.extend_from_slice(rest.get(..n).unwrap_or(b""));
                self.pos += n + 2;
                return;
            }
            b'\\' if next != 0 && (quote == 0 || next == quote || b"$`\\\n".contains(&next)) => {
                self.pos += 1;
                if next != b'\n' {
                    word.text.push(next);
                }
            }
            _ => word.text.push(c),
        }
        self.pos += 1;
    }

    /// Text in which only `$`, backticks and backslash are special, up to its quote or, in a here-document, the end.
    fn quoted(&mut self, word: &mut Word, quote: u8) {
        loop {
            let c = self.at(0);
            if c == if quote == DOC { 0 } else { quote } {
                self.pos += usize::from(c != 0);
                return;
            }
            if c == 0 {
                return self.fail(UNBALANCED);
            }
            self.piece(word, quote);
        }
    }

    /// Marks what was read since `start` as an expansion; its text stays as it was written.
    fn expansion(&mut self, word: &mut Word, start: usize, kind: Kind, scope: usize) {
        let raw = self.src.get(start..self.pos).unwrap_or(b"");
        let at = word.text.len();
        self.spend(raw.len());
        word.text.extend_from_slice(raw);
        word.mark(at, kind, scope);
    }

    fn dollar(&mut self, word: &mut Word, quote: u8) {
        let start = self.pos;
        let c = self.at(1);
        self.pos += 1;
        match c {
            b'(' => {
                if !self.arithmetic() {
                    self.pos += 1;
                    let scope = self.group(Nest::Output, b")");
                    return self.expansion(word, start, Kind::Output, scope);
                }
            }
            b'{' => {
                self.pos += 1;
                self.inside(usize::MAX, quote);
            }
            b'\'' if quote == 0 => {
                // With escapes it is as good as unknown.
                let mut plain = true;
                loop {
                    self.pos += 1;
                    match self.at(0) {
                        0 => return self.fail(UNBALANCED),
                        b'\\' => {
                            plain = false;
                            self.pos += 1;
                        }
                        b'\'' => break,
                        _ => {}
                    }
                }
                let text = self.src.get(start + 2..self.pos).unwrap_or(b"");
                self.pos += 1;
                if plain {
                    return word.text.extend_from_slice(text);
                }
            }
            b'"' if quote == 0 => return,
            _ if is_name(c) => {
                self.pos += 1;
                while !c.is_ascii_digit() && is_name(self.at(0)) {
                    self.pos += 1;
                }
            }
            _ if c != 0 && b"@*#?-$!".contains(&c) => self.pos += 1,
            _ => return word.text.push(b'$'),
        }
        self.expansion(word, start, Kind::Value, 0);
    }

    /// Reads up to the `}` of `${…}` or, in arithmetic, up to `end`, for the commands substituted there.
    fn inside(&mut self, end: usize, quote: u8) {
        self.deeper();
        let mut scratch = Word::default();
        while self.pos < end {
            let c = self.at(0);
            if c == 0 || c == b'}' && end == usize::MAX {
                break;
            }
            // A quote in `"${…}"` is one of its own.
            self.piece(&mut scratch, if c == b'"' { 0 } else { quote });
            scratch.text.clear();
        }
        if self.at(0) == 0 || self.pos > end {
            self.fail(UNFINISHED);
        }
        self.pos += 1;
        self.depth -= 1;
    }

    /// Reads `((…))` if that is what stands at the cursor; its parentheses can also be those of commands.
    pub fn arithmetic(&mut self) -> bool {
        if self.at(0) != b'(' || self.at(1) != b'(' {
            return false;
        }
        let mut open = 0usize;
        let mut n = 2;
        loop {
            match self.at(n) {
                0 => return self.arithmetic_ends(n, false),
                b'\\' => n += 1,
                b'(' => open += 1,
                b')' if open == 0 => break,
                b')' => open -= 1,
                _ => {}
            }
            n += 1;
        }
        self.arithmetic_ends(n, self.at(n + 1) == b')')
    }

    fn arithmetic_ends(&mut self, n: usize, is: bool) -> bool {
        let end = self.pos + n;
        self.spend(n);
        if is {
            self.pos += 2;
            self.inside(end, b'"');
            self.pos += 1;
        }
        is
    }

    fn backtick(&mut self, word: &mut Word, quote: u8) {
        let start = self.pos;
        let mut inside = Vec::new();
        loop {
            self.pos += 1;
            let mut c = self.at(0);
            if c == 0 {
                return self.fail(UNBALANCED);
            }
            if c == b'`' {
                break;
            }
            let next = self.at(1);
            if c == b'\\' && (b"`\\$".contains(&next) || quote == b'"' && next == quote) {
                c = next;
                self.pos += 1;
            }
            inside.push(c);
        }
        self.pos += 1;
        self.spend(inside.len());
        let scope = self.nested(&inside, |reader| reader.group(Nest::Output, b""));
        self.expansion(word, start, Kind::Output, scope);
    }

    /// Reads another text in place of this one.
    fn nested(&mut self, text: &[u8], read: impl FnOnce(&mut Reader) -> usize) -> usize {
        let mut reader = Reader::new(text, self.script, self.place, self.depth);
        let n = read(&mut reader);
        if self.script.unread.is_some() {
            self.pos = self.src.len();
        }
        n
    }

    /// Reads a redirection if there is one at the cursor.
    pub fn redirect(&mut self, redirs: &mut Vec<Redir>) -> bool {
        let mut n = 0;
        while n < 3 && self.at(n).is_ascii_digit() {
            n += 1;
        }
        let first = self.at(0);
        let both = first == b'&' && self.at(1) == b'>';
        n += usize::from(both);
        let op = self.at(n);
        let next = self.at(n + 1);
        if !matches!(op, b'<' | b'>') || n == 0 && next == b'(' {
            return false;
        }
        let fd = match n {
            1 if !both => first - b'0',
            0 | 1 => u8::from(op == b'>'),
            _ => 9,
        };
        let (mut len, mut kind) = match (op, next) {
            (b'<', b'<') => (2, Op::Doc(0)),
            (_, b'&') => (2, Op::Dup),
            (_, b'>' | b'|') => (2, Op::Out),
            (b'<', _) => (1, Op::In),
            _ => (1, Op::Out),
        };
        let third = self.at(n + 2);
        if kind == Op::Doc(0) && matches!(third, b'<' | b'-') {
            len = 3;
            if third == b'<' {
                kind = Op::Text;
            }
        }
        self.pos += n + len;
        self.space(false);
        let from = self.pos;
        let mut target = Word::default();
        self.word(&mut target);
        let digit = |b: &u8| b.is_ascii_digit() || *b == b'-';
        if kind == Op::Dup && op == b'>' && !target.text.iter().all(digit) {
            kind = Op::Out;
        }
        if kind == Op::Doc(0) {
            let body = self.script.bodies.len();
            kind = Op::Doc(body);
            let raw = self.src.get(from..self.pos).unwrap_or(b"");
            self.script.bodies.push(Vec::new());
            self.pending.push(Pending {
                body,
                delimiter: target.text.clone(),
                quoted: raw.iter().any(|b| b"'\"\\".contains(b)),
                tabs: len == 3,
            });
        }
        redirs.push(Redir {
            fd,
            op: kind,
            target,
        });
        true
    }

    /// Reads the bodies of the here-documents that wait, after a newline.
    pub fn read_bodies(&mut self) {
        for doc in std::mem::take(&mut self.pending) {
            let mut text = Vec::new();
            loop {
                let mut rest = self.src.get(self.pos..).unwrap_or(b"");
                let n = memchr::memchr(b'\n', rest).map_or(rest.len(), |n| n + 1);
                self.pos += n;
                rest = rest.get(..n).unwrap_or(rest);
                while doc.tabs && rest.first() == Some(&b'\t') {
                    rest = rest.get(1..).unwrap_or(b"");
                }
                if n == 0 || rest.strip_suffix(b"\n").unwrap_or(rest) == doc.delimiter {
                    break;
                }
                text.extend_from_slice(rest);
            }
            self.spend(text.len());
            if !doc.quoted {
                let mut word = Word::default();
                self.deeper();
                self.nested(&text, |reader| {
                    reader.quoted(&mut word, DOC);
                    0
                });
                self.depth -= 1;
                text = word.text;
            }
            if let Some(body) = self.script.bodies.get_mut(doc.body) {
                *body = text;
            }
        }
    }
}
