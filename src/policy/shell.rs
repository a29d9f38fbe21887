//! A reader of POSIX and busybox ash command lines, with the parts of bash that models write. It finds every simple
//! command a line would run, however deep in groups, loops, functions, substitutions and here-documents, and keeps
//! what is known of each word. It runs nothing, expands nothing, knows no variables and judges no grammar beyond what
//! it needs to tell commands from data: it may accept what a shell refuses.
//!
//! Refused: aliases, history, extended globs, brace expansion; here-documents end at the end of
//! the text as in real shells. Work and memory are bounded by the length of the text, nesting by [`MAX_DEPTH`].

use super::grammar::Reader;

/// Bytes of a command that are read; the kernel takes 128 KiB in one argument.
pub(super) const MAX_INPUT: usize = 256 * 1024;
/// Words in a command, in all.
pub(super) const MAX_WORDS: usize = 16_384;
/// Levels of nesting.
pub(super) const MAX_DEPTH: u32 = 48;

/// What a part of a word stands for that isn't just itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    /// `$x`, `${x…}`, `$((…))`, `$'…'` with escapes, `>(…)`: the value is unknown.
    #[default]
    Value,
    /// An unquoted `~` at the start.
    Tilde,
    /// `$(…)` or backticks.
    Output,
    /// `<(…)`
    From,
}

/// A word of a command, or the body of a here-document.
#[derive(Default)]
pub struct Word {
    /// The text without its quotes. Expansions stand in it as they were written.
    pub text: Vec<u8>,
    /// Whether there is an unquoted `*`, `?` or `[`.
    pub globs: bool,
    /// How many expansions there are; what follows is about the first one.
    pub unknown: u32,
    /// What it is.
    pub kind: Kind,
    /// Its scope, for [`Kind::Output`] and [`Kind::From`].
    pub scope: usize,
    /// Where it starts in the text.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

impl Word {
    /// The text when it is known: nothing in it is expanded but globs.
    pub fn known(&self) -> Option<&[u8]> {
        (self.unknown == 0).then_some(self.text.as_slice())
    }

    /// Notes an expansion that starts at `start` and ends the text so far.
    pub(super) fn mark(&mut self, start: usize, kind: Kind, scope: usize) {
        self.unknown += 1;
        if self.unknown == 1 {
            self.kind = kind;
            self.scope = scope;
            self.start = start;
            self.end = self.text.len();
        }
    }
}

/// What a redirection does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// `<`
    In,
    /// `>`, `>>`, `>|`, `&>`, `<>`, `>&file`: the target is opened for writing.
    Out,
    /// `2>&1`, `<&-`
    Dup,
    /// `<<`, `<<-`: the body is in [`Script::bodies`].
    Doc(usize),
    /// `<<<`
    Text,
}

/// A redirection.
pub struct Redir {
    /// The descriptor, 1 for `&>`, 9 for those above 9.
    pub fd: u8,
    /// What it does.
    pub op: Op,
    /// File, descriptor, delimiter or text.
    pub target: Word,
}

/// Where a command stands. Commands are stored in the order in which they end, so the commands of a pipeline or a
/// stage, with all that is nested in them, are neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// The scope it is in.
    pub scope: usize,
    /// Index of the first command of its pipeline.
    pub pipe: usize,
    /// Index of the first command of its stage. `pipe..stage` are the commands whose output it may read.
    pub stage: usize,
}

/// A simple command. Redirections of a group or a loop are a command without words behind it.
pub struct Command {
    /// How many words in front are `NAME=value` or elements of arrays.
    pub assigns: usize,
    /// Assignments, program and arguments.
    pub words: Vec<Word>,
    /// Redirections in order.
    pub redirs: Vec<Redir>,
    /// Where it stands.
    pub place: Place,
}

impl Command {
    /// Program and arguments.
    pub fn run(&self) -> &[Word] {
        self.words.get(self.assigns..).unwrap_or(&[])
    }
}

/// What a scope is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nest {
    /// The text itself.
    Top,
    /// `{ }`, `( )`, if, while, for, case: its input and output are those of its place.
    Group,
    /// `$( )`, backticks and `<( )`.
    Output,
    /// `>( )`: its input is what the command at its place writes.
    Into,
}

/// A list of commands inside something.
pub struct Scope {
    /// What it is.
    pub nest: Nest,
    /// Where it stands.
    pub place: Place,
    /// Index of its first command.
    pub first: usize,
    /// Index behind its last command.
    pub end: usize,
}

/// A function definition.
pub struct Function {
    /// Its name.
    pub name: Vec<u8>,
    /// The scope of its body.
    pub scope: usize,
}

/// What was read.
pub struct Script {
    /// Every simple command.
    pub commands: Vec<Command>,
    /// Scopes; the first is the text itself.
    pub scopes: Vec<Scope>,
    /// Functions defined.
    pub functions: Vec<Function>,
    /// Bodies of here-documents.
    pub bodies: Vec<Vec<u8>>,
    /// Why the text can't be read, if it can't. What was read before stays: a shell runs it line by line.
    pub unread: Option<&'static str>,
    pub(super) fuel: usize,
    pub(super) word_count: usize,
}

/// Reads `text` as the argument of `sh -c`.
pub fn read(text: &[u8]) -> Script {
    let mut script = Script {
        commands: Vec::new(),
        scopes: Vec::new(),
        functions: Vec::new(),
        bodies: Vec::new(),
        unread: None,
        fuel: text.len().saturating_mul(8).saturating_add(4096),
        word_count: 0,
    };
    let mut reader = Reader::new(text, &mut script, Place::default(), 0);
    if text.len() > MAX_INPUT || memchr::memchr(0, text).is_some() {
        reader.fail("it is too long or has a NUL byte");
    }
    reader.group(Nest::Top, b"");
    script
}

/// Words with a blank between them.
pub(super) fn joined(words: &[Word]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in words {
        if !out.is_empty() {
            out.push(b' ');
        }
        out.extend_from_slice(&word.text);
    }
    out
}

/// Whether `text` starts as an assignment: a name in front of `=` or `+=`.
pub fn assigned(text: &[u8]) -> bool {
    let name = text.iter().position(|b| !is_name(*b)).unwrap_or(0);
    let rest = text.get(name..).unwrap_or(b"");
    let rest = rest.strip_prefix(b"+").unwrap_or(rest);
    name > 0 && rest.first() == Some(&b'=') && !text.first().is_some_and(u8::is_ascii_digit)
}

pub(super) fn is_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}
