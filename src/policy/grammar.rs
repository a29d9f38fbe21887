//! Where commands start and end: lists, pipelines, groups and simple commands. Words are in [`super::words`].

use super::hazard::{listed, next_word};
use super::shell::{Command, Function, MAX_DEPTH, Nest, Place, Scope, Script, Word, assigned};
use super::words::Pending;

pub(super) const UNEXPECTED: &str = "there is an unexpected character";
pub(super) const UNFINISHED: &str = "a command isn't finished";
pub(super) const TOO_MUCH: &str = "there is too much in it";

/// Words that open a list of commands, each with the one that closes it.
static GROUPS: &str =
    "( ) { } if fi while done until done for done select done case esac function function";

/// A cursor over one text: the command itself, or what stood in backticks or a here-document. After an error it stands
/// at the end, where every loop stops.
pub(super) struct Reader<'a> {
    pub src: &'a [u8],
    pub pos: usize,
    pub script: &'a mut Script,
    pub place: Place,
    pub depth: u32,
    /// Here-documents whose bodies come after the next newline.
    pub pending: Vec<Pending>,
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
        }
    }

    /// The byte `n` behind the cursor, 0 at the end: there is no NUL in the text.
    #[inline(never)]
    pub fn at(&self, n: usize) -> u8 {
        self.src.get(self.pos + n).copied().unwrap_or(0)
    }

    /// Ends the reading; the first reason counts.
    #[inline(never)]
    pub fn fail(&mut self, why: &'static str) {
        self.script.unread = self.script.unread.or(Some(why));
        self.pos = self.src.len();
    }

    /// Pays for copying or reading again; what is nested may not multiply the work.
    pub fn spend(&mut self, bytes: usize) {
        match self.script.fuel.checked_sub(bytes) {
            Some(fuel) => self.script.fuel = fuel,
            None => self.fail(TOO_MUCH),
        }
    }

    pub fn deeper(&mut self) {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.fail("it is nested too deep");
        }
    }

    /// Reads commands up to `until` as a scope. Returns its number.
    pub fn group(&mut self, nest: Nest, until: &[u8]) -> usize {
        self.deeper();
        let first = self.script.commands.len();
        let scope = self.script.scopes.len();
        let outer = self.place;
        self.script.scopes.push(Scope {
            nest,
            place: outer,
            first,
            end: first,
        });
        self.place.scope = scope;
        self.list(until);
        let end = self.script.commands.len();
        if let Some(s) = self.script.scopes.get_mut(scope) {
            s.end = end;
        }
        self.place = outer;
        self.depth -= 1;
        scope
    }

    /// Skips blanks, comments, joined lines and, if asked, newlines with the here-documents behind them.
    pub fn space(&mut self, newlines: bool) {
        loop {
            match self.at(0) {
                b' ' | b'\t' => self.pos += 1,
                b'\\' if self.at(1) == b'\n' => self.pos += 2,
                b'#' => {
                    while !matches!(self.at(0), 0 | b'\n') {
                        self.pos += 1;
                    }
                }
                b'\n' if newlines => {
                    self.pos += 1;
                    self.read_bodies();
                }
                _ => return,
            }
        }
    }

    /// The bare word or the parenthesis at the cursor if it can be a reserved word, without moving.
    fn keyword(&self) -> &'a [u8] {
        let paren = matches!(self.at(0), b'(' | b')');
        let mut n = usize::from(paren);
        while !paren && n < 10 && !is_meta(self.at(n)) {
            n += 1;
        }
        self.src.get(self.pos..self.pos + n).unwrap_or(b"")
    }

    /// Reads commands up to `until`: a reserved word, `)` or, when it is empty, the end of the text.
    fn list(&mut self, until: &[u8]) {
        // Whether a command must come, whether it reads from the one before, whether a pattern of `case` comes.
        let (mut need, mut piped, mut pattern) = (false, false, until == b"esac");
        loop {
            self.space(true);
            if pattern && self.keyword() != until {
                self.pattern();
            }
            pattern = false;
            self.space(true);
            let word = self.keyword();
            let c = self.at(0);
            if word == until && (c == 0 || !word.is_empty()) && !need {
                self.pos += word.len();
                return;
            }
            if c == 0 {
                return self.fail(UNFINISHED);
            }
            self.place.stage = self.script.commands.len();
            if !piped {
                self.place.pipe = self.place.stage;
            }
            need = listed("then elif else do !", word)
                || word == b"time" && matches!(self.at(5), b'{' | b'(');
            if need {
                self.pos += word.len();
                continue;
            }
            if until != b"esac" || c != b';' {
                self.command(word);
            }
            self.space(false);
            let c = self.at(0);
            piped = false;
            match c {
                b'|' | b'&' => {
                    self.pos += 1;
                    let twice = self.at(0) == c;
                    piped = !twice && c == b'|';
                    need = twice || piped;
                    self.pos += usize::from(twice || piped && self.at(0) == b'&');
                }
                b';' => {
                    self.pos += 1;
                    while until == b"esac" && matches!(self.at(0), b';' | b'&') {
                        self.pos += 1;
                        pattern = true;
                    }
                }
                _ => {}
            }
        }
    }

    /// Patterns of `case` up to their parenthesis.
    fn pattern(&mut self) {
        self.pos += usize::from(self.at(0) == b'(');
        loop {
            self.space(false);
            match self.at(0) {
                0 => return,
                b'|' => {}
                b')' => break,
                _ => {
                    self.word(&mut Word::default());
                    continue;
                }
            }
            self.pos += 1;
        }
        self.pos += 1;
    }

    /// One command that starts with `word`.
    fn command(&mut self, word: &[u8]) {
        let mut list = GROUPS.as_bytes();
        let close = loop {
            let open = next_word(&mut list);
            let close = next_word(&mut list);
            if open == word || open.is_empty() {
                break close;
            }
        };
        if close.is_empty() {
            return self.simple(true);
        }
        if word != b"(" || !self.arithmetic() {
            self.pos += word.len();
            self.space(false);
            if word == close {
                let mut name = Word::default();
                self.word(&mut name);
                return self.function(name.text);
            }
            if listed("for select case", word) {
                self.head(word == b"case");
            }
            self.group(Nest::Group, close);
        }
        self.simple(false);
    }

    /// What stands in front of the `do` of a `for`, or behind a `case` up to its first pattern.
    fn head(&mut self, case: bool) {
        if !self.arithmetic() {
            self.word(&mut Word::default());
            self.space(true);
            if self.keyword() == b"in" {
                self.pos += 2;
            }
            self.space(false);
            while !case && !is_end(self.at(0)) && self.keyword() != b"do" {
                self.word(&mut Word::default());
                self.space(false);
            }
        }
        self.space(false);
        self.pos += usize::from(self.at(0) == b';');
    }

    /// The rest of a function definition, behind the name.
    fn function(&mut self, name: Vec<u8>) {
        self.space(false);
        if self.at(0) == b'(' {
            self.pos += 1;
            self.space(false);
            if self.at(0) != b')' {
                return self.fail(UNEXPECTED);
            }
            self.pos += 1;
        }
        self.space(true);
        // The body is the group that comes next.
        let scope = self.script.scopes.len();
        self.script.functions.push(Function { name, scope });
        if self.at(0) == b'{' {
            // Some shells take `f(){cmd;}` without the blank.
            self.pos += 1;
            self.group(Nest::Group, b"}");
            self.simple(false);
        }
    }

    /// A simple command; without `any` words only the redirections behind a group.
    fn simple(&mut self, any: bool) {
        let mut command = Command {
            assigns: 0,
            words: Vec::new(),
            redirs: Vec::new(),
            place: self.place,
        };
        let mut array = false;
        loop {
            self.space(array);
            // Operators between `[[` and `]]` are not the shell's.
            let test = command.words.first().is_some_and(|w| w.text == b"[[");
            if !test && self.redirect(&mut command.redirs) {
                continue;
            }
            let c = self.at(0);
            if !any || c == 0 {
                if test || array {
                    self.fail(UNFINISHED);
                }
                break;
            }
            if test && is_meta(c) || array && c == b')' {
                array = false;
                self.pos += 1;
                continue;
            }
            if c == b'(' {
                let only = command.words.len() == 1;
                match command.words.pop() {
                    Some(word) if word.text.ends_with(b"=") => {
                        array = true;
                        command.words.push(word);
                        self.pos += 1;
                        continue;
                    }
                    Some(name) if only => return self.function(name.text),
                    _ => return self.fail(UNEXPECTED),
                }
            }
            if is_end(c) {
                break;
            }
            let mut word = Word::default();
            self.word(&mut word);
            if test && word.text == b"]]" {
                break;
            }
            let front = command.words.len() == command.assigns;
            command.assigns += usize::from(front && (array || assigned(&word.text)));
            command.words.push(word);
        }
        if self.script.unread.is_some() {
            return;
        }
        if !command.words.is_empty() || !command.redirs.is_empty() {
            self.script.commands.push(command);
        } else if any {
            self.fail(UNEXPECTED);
        }
    }
}

/// Whether `b` ends an unquoted word.
pub(super) fn is_meta(b: u8) -> bool {
    is_end(b) || b" \t<>(".contains(&b)
}

/// Whether `b` ends a simple command.
fn is_end(b: u8) -> bool {
    b"\0\n;&|)".contains(&b)
}
