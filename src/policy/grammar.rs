//! The grammar of command lines: lists, pipelines, compound and simple commands. Words are in [`super::words`].

use super::shell::{
    Command, Function, MAX_DEPTH, Nest, Place, Redir, Scope, Script, Word, assigned,
};
use super::words::Pending;

pub(super) type Read<T = ()> = Result<T, &'static str>;

pub(super) const END: u16 = 1;
pub(super) const PAREN: u16 = 2;
const BRACE: u16 = 4;
const THEN: u16 = 8;
const ELSE: u16 = 16;
const FI: u16 = 32;
const DO: u16 = 64;
const DONE: u16 = 128;
const ESAC: u16 = 256;

static CLOSERS: [(&[u8], u16); 8] = [
    (b"}", BRACE),
    (b"then", THEN),
    (b"elif", ELSE),
    (b"else", ELSE),
    (b"fi", FI),
    (b"do", DO),
    (b"done", DONE),
    (b"esac", ESAC),
];

const MISSING: &str = "a command is missing";
pub(super) const UNEXPECTED: &str = "there is an unexpected character";
pub(super) const UNFINISHED: &str = "a command isn't finished";
pub(super) const TOO_MUCH: &str = "there is too much in it";

/// A cursor over one text: the command itself, or what stood in backticks or a here-document.
pub(super) struct Reader<'a> {
    pub src: &'a [u8],
    pub pos: usize,
    pub script: &'a mut Script,
    pub place: Place,
    pub depth: u32,
    /// Here-documents whose bodies come after the next newline; those before `base` wait for an outer newline.
    pub pending: Vec<Pending>,
    pub base: usize,
}

impl<'a> Reader<'a> {
    pub fn new(src: &'a [u8], script: &'a mut Script, place: Place, depth: u32) -> Self {
        Reader {
            src,
            pos: 0,
            script,
            place,
            depth,
            pending: Vec::new(),
            base: 0,
        }
    }

    /// The byte `n` behind the cursor, 0 at the end: there is no NUL in the text.
    pub fn at(&self, n: usize) -> u8 {
        self.src.get(self.pos + n).copied().unwrap_or(0)
    }

    /// Pays for copying or reading again; what is nested may not multiply the work.
    pub fn spend(&mut self, bytes: usize) -> Read {
        self.script.fuel = self.script.fuel.checked_sub(bytes).ok_or(TOO_MUCH)?;
        Ok(())
    }

    pub fn deeper(&mut self) -> Read {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("it is nested too deep");
        }
        Ok(())
    }

    /// Opens a scope. Returns the place to go back to with [`Self::leave`].
    pub fn enter(&mut self, nest: Nest) -> Read<Place> {
        self.deeper()?;
        let n = self.script.commands.len();
        let outer = self.place;
        self.place = Place {
            scope: self.script.scopes.len(),
            pipe: n,
            stage: n,
        };
        self.script.scopes.push(Scope {
            nest,
            place: outer,
            first: n,
            end: n,
        });
        Ok(outer)
    }

    /// Closes the scope and returns its number.
    pub fn leave(&mut self, outer: Place) -> usize {
        let scope = self.place.scope;
        let end = self.script.commands.len();
        if let Some(s) = self.script.scopes.get_mut(scope) {
            s.end = end;
        }
        self.place = outer;
        self.depth -= 1;
        scope
    }

    /// Skips blanks, comments, joined lines and, if asked, newlines with the here-documents behind them.
    pub fn space(&mut self, newlines: bool) -> Read {
        loop {
            match self.at(0) {
                b' ' | b'\t' => self.pos += 1,
                b'\\' if self.at(1) == b'\n' => self.pos += 2,
                b'#' => {
                    let rest = self.src.get(self.pos..).unwrap_or(b"");
                    self.pos += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                }
                b'\n' if newlines => {
                    self.pos += 1;
                    self.read_bodies()?;
                }
                _ => return Ok(()),
            }
        }
    }

    /// The bare word at the cursor if it can be a reserved one, without moving.
    fn keyword(&self) -> &'a [u8] {
        let rest = self.src.get(self.pos..).unwrap_or(b"");
        let n = rest
            .iter()
            .take(10)
            .position(|&b| is_meta(b))
            .unwrap_or(rest.len());
        rest.get(..n).unwrap_or(b"")
    }

    fn expect(&mut self, byte: u8) -> Read {
        if self.at(0) != byte {
            return Err(UNFINISHED);
        }
        self.pos += 1;
        Ok(())
    }

    /// Takes one of the ends in `until` if it is at the cursor.
    fn ending(&mut self, until: u16) -> Option<&'static [u8]> {
        let (len, word): (usize, &'static [u8]) = match self.at(0) {
            b')' if until & PAREN != 0 => (1, b")"),
            b';' if until & ESAC != 0 => match (self.at(1), self.at(2)) {
                (b';', b'&') => (3, b";;"),
                (b';' | b'&', _) => (2, b";;"),
                _ => return None,
            },
            _ => {
                let keyword = self.keyword();
                let (word, _) = CLOSERS
                    .iter()
                    .find(|(word, bit)| until & bit != 0 && *word == keyword)?;
                (word.len(), word)
            }
        };
        self.pos += len;
        Some(word)
    }

    /// Reads commands up to one of the ends in `until` and returns which it was.
    pub fn list(&mut self, until: u16) -> Read<&'static [u8]> {
        let mut need = false;
        loop {
            self.space(true)?;
            let end = if self.at(0) == 0 {
                if until != END {
                    return Err(UNFINISHED);
                }
                Some(&b""[..])
            } else {
                self.ending(until)
            };
            if let Some(end) = end {
                return if need { Err(MISSING) } else { Ok(end) };
            }
            self.pipeline()?;
            self.space(false)?;
            let twice = self.at(1) == self.at(0);
            need = false;
            match self.at(0) {
                b';' if !twice && self.at(1) != b'&' => self.pos += 1,
                b'&' | b'|' if twice => {
                    self.pos += 2;
                    need = true;
                }
                b'&' => self.pos += 1,
                0 | b';' | b'\n' | b')' => {}
                _ => return Err(UNEXPECTED),
            }
        }
    }

    fn pipeline(&mut self) -> Read {
        self.place.pipe = self.script.commands.len();
        loop {
            self.place.stage = self.script.commands.len();
            self.command()?;
            self.space(false)?;
            if self.at(0) != b'|' || self.at(1) == b'|' {
                return Ok(());
            }
            self.pos += 1 + usize::from(self.at(1) == b'&');
            self.space(true)?;
        }
    }

    fn command(&mut self) -> Read {
        while self.keyword() == b"!" {
            self.pos += 1;
            self.space(false)?;
        }
        let word = self.keyword();
        if self.at(0) == b'(' {
            return self.parens();
        }
        let outer = match word {
            b"{" | b"if" | b"while" | b"until" | b"for" | b"select" | b"case" => {
                self.pos += word.len();
                self.enter(Nest::Group)?
            }
            b"function" => {
                self.pos += word.len();
                self.space(false)?;
                let name = self.word()?.text;
                self.space(false)?;
                if self.at(0) == b'(' {
                    return self.function(name);
                }
                return self.body(name);
            }
            b"[[" => return self.condition(),
            b"time" => {
                // A keyword only in front of a compound command; else it is a program like nice.
                let from = self.pos;
                self.pos += word.len();
                self.space(false)?;
                if self.at(0) == b'(' || matches!(self.keyword(), b"{" | b"if" | b"while" | b"for")
                {
                    return self.nested_command();
                }
                self.pos = from;
                return self.simple();
            }
            _ if CLOSERS.iter().any(|(closer, _)| *closer == word) => {
                return Err("there is an unexpected keyword");
            }
            _ => return self.simple(),
        };
        match word {
            b"{" => {
                self.list(BRACE)?;
            }
            b"if" => {
                self.list(THEN)?;
                let mut end = self.list(ELSE | FI)?;
                while end == b"elif" {
                    self.list(THEN)?;
                    end = self.list(ELSE | FI)?;
                }
                if end == b"else" {
                    self.list(FI)?;
                }
            }
            b"case" => self.case()?,
            _ => {
                if matches!(word, b"for" | b"select") {
                    self.for_head()?;
                }
                self.list(DO)?;
                self.list(DONE)?;
            }
        }
        self.leave(outer);
        self.trailing()
    }

    fn nested_command(&mut self) -> Read {
        self.deeper()?;
        self.command()?;
        self.depth -= 1;
        Ok(())
    }

    /// `( … )` or `(( … ))`.
    fn parens(&mut self) -> Read {
        if self.at(1) == b'('
            && let Some(end) = self.arithmetic_end(self.pos + 2)?
        {
            self.pos += 2;
            self.arithmetic(end)?;
        } else {
            self.pos += 1;
            let outer = self.enter(Nest::Group)?;
            self.list(PAREN)?;
            self.leave(outer);
        }
        self.trailing()
    }

    fn for_head(&mut self) -> Read {
        self.space(false)?;
        if self.at(0) == b'(' && self.at(1) == b'(' {
            let end = self.arithmetic_end(self.pos + 2)?.ok_or(UNFINISHED)?;
            self.pos += 2;
            self.arithmetic(end)?;
        } else {
            self.word()?;
            self.space(true)?;
            if self.keyword() == b"in" {
                self.pos += 2;
                self.space(false)?;
                while !is_end(self.at(0)) {
                    self.word()?;
                    self.space(false)?;
                }
            }
        }
        self.space(false)?;
        if self.at(0) == b';' {
            self.pos += 1;
        }
        Ok(())
    }

    fn case(&mut self) -> Read {
        self.space(false)?;
        self.word()?;
        self.space(true)?;
        if self.keyword() != b"in" {
            return Err(UNFINISHED);
        }
        self.pos += 2;
        loop {
            self.space(true)?;
            if self.ending(ESAC) == Some(b"esac") {
                return Ok(());
            }
            if self.at(0) == b'(' {
                self.pos += 1;
            }
            loop {
                self.space(false)?;
                self.word()?;
                self.space(false)?;
                if self.at(0) != b'|' {
                    break;
                }
                self.pos += 1;
            }
            self.expect(b')')?;
            if self.list(ESAC)? == b"esac" {
                return Ok(());
            }
        }
    }

    /// `[[ … ]]`: operators in it are not the shell's.
    fn condition(&mut self) -> Read {
        let mut words = vec![self.word()?];
        loop {
            self.space(true)?;
            if self.keyword() == b"]]" {
                self.pos += 2;
                break;
            }
            match self.at(0) {
                0 => return Err(UNFINISHED),
                c if is_meta(c) => self.pos += 1,
                _ => words.push(self.word()?),
            }
        }
        self.push(Vec::new(), words, Vec::new())?;
        self.trailing()
    }

    /// `( )` and the body of a function whose name was read.
    fn function(&mut self, name: Vec<u8>) -> Read {
        self.pos += 1;
        self.space(false)?;
        self.expect(b')')?;
        self.body(name)
    }

    fn body(&mut self, name: Vec<u8>) -> Read {
        self.space(true)?;
        let outer = self.enter(Nest::Function)?;
        if self.at(0) == b'{' {
            // Some shells take `f(){cmd;}` without the blank.
            self.pos += 1;
            self.list(BRACE)?;
            self.trailing()?;
        } else {
            self.command()?;
        }
        let scope = self.leave(outer);
        self.script.functions.push(Function { name, scope });
        Ok(())
    }

    /// Redirections behind a compound command.
    fn trailing(&mut self) -> Read {
        let mut redirs = Vec::new();
        self.space(false)?;
        while self.redirect(&mut redirs)? {
            self.space(false)?;
        }
        if redirs.is_empty() {
            return Ok(());
        }
        self.push(Vec::new(), Vec::new(), redirs)
    }

    fn simple(&mut self) -> Read {
        let (mut assigns, mut words, mut redirs) = (Vec::new(), Vec::<Word>::new(), Vec::new());
        loop {
            self.space(false)?;
            if self.redirect(&mut redirs)? {
                continue;
            }
            match self.at(0) {
                b'(' => {
                    let name = words.pop().ok_or(UNEXPECTED)?;
                    if !words.is_empty() || !assigns.is_empty() || !redirs.is_empty() {
                        return Err(UNEXPECTED);
                    }
                    return self.function(name.text);
                }
                c if is_end(c) => break,
                _ => {}
            }
            let word = self.word()?;
            let array = word.text.ends_with(b"=") && self.at(0) == b'(';
            if words.is_empty() && assigned(&word.text).is_some() {
                assigns.push(word);
            } else {
                words.push(word);
            }
            if array {
                self.pos += 1;
                self.space(true)?;
                while self.at(0) != b')' {
                    assigns.push(self.word()?);
                    self.space(true)?;
                }
                self.pos += 1;
            }
        }
        self.push(assigns, words, redirs)
    }

    fn push(&mut self, assigns: Vec<Word>, words: Vec<Word>, redirs: Vec<Redir>) -> Read {
        if assigns.is_empty() && words.is_empty() && redirs.is_empty() {
            return Err(MISSING);
        }
        self.script.commands.push(Command {
            assigns,
            words,
            redirs,
            place: self.place,
        });
        Ok(())
    }
}

/// Whether `b` ends an unquoted word.
pub(super) fn is_meta(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'<' | b'>' | b'(') || is_end(b)
}

/// Whether `b` ends a simple command.
fn is_end(b: u8) -> bool {
    matches!(b, 0 | b'\n' | b';' | b'&' | b'|' | b')')
}
