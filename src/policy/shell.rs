//! A reader of POSIX and busybox ash command lines, with the parts of bash that models write. It finds every simple
//! command a line would run, however deep in groups, loops, functions, substitutions and here-documents, and keeps
//! what is known of each word. It runs nothing, expands nothing and knows no variables.
//!
//! Refused: aliases, history, extended globs and brace expansion (`sh -c` has none of them); here-documents end at the
//! end of the text as in real shells. Work and memory are bounded by the length of the text, nesting by [`MAX_DEPTH`].

use super::grammar::{END, Reader};

/// Bytes of a command that are read; the kernel takes 128 KiB in one argument.
pub(super) const MAX_INPUT: usize = 256 * 1024;
/// Words in a command, in all.
pub(super) const MAX_WORDS: usize = 16_384;
/// Levels of nesting.
pub(super) const MAX_DEPTH: u32 = 48;

/// What a part of a word stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An unquoted `*`, `?` or `[`.
    Glob,
    /// An unquoted `~` at the start.
    Tilde,
    /// `$x`, `${x…}`, `$((…))`: the value is unknown.
    Value,
    /// `$(…)` or backticks; the scope with its commands.
    Output(usize),
    /// `<(…)`; the scope.
    From(usize),
    /// `>(…)`; the scope.
    Into(usize),
}

/// A part of a word's text that isn't just itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// Where it starts in [`Word::text`].
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// What it is.
    pub kind: Kind,
}

/// A word of a command, or the body of a here-document.
#[derive(Clone, Default)]
pub struct Word {
    /// The text without its quotes. Expansions stand in it as they were written.
    pub text: Vec<u8>,
    /// The expansions, by place.
    pub marks: Vec<Mark>,
}

impl Word {
    /// The text when it is known: nothing in it is expanded but globs.
    pub fn known(&self) -> Option<&[u8]> {
        let plain = self.marks.iter().all(|m| m.kind == Kind::Glob);
        plain.then_some(self.text.as_slice())
    }

    /// Whether there is an unquoted glob character.
    pub fn globs(&self) -> bool {
        self.marks.iter().any(|m| m.kind == Kind::Glob)
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
#[derive(Clone)]
pub struct Redir {
    /// The descriptor; 1 for `&>`.
    pub fd: u32,
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
    /// `NAME=value` words in front, and the elements of arrays.
    pub assigns: Vec<Word>,
    /// Program and arguments.
    pub words: Vec<Word>,
    /// Redirections in order.
    pub redirs: Vec<Redir>,
    /// Where it stands.
    pub place: Place,
}

/// What a scope is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nest {
    /// The text itself.
    Top,
    /// `{ }`, `( )`, if, while, for, case: its input and output are those of its place.
    Group,
    /// The body of a function.
    Function,
    /// `$( )` and backticks.
    Output,
    /// `<( )`
    From,
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
    /// Bodies of here-documents; in unquoted ones the expansions are marked.
    pub bodies: Vec<Word>,
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
    script.scopes.push(Scope {
        nest: Nest::Top,
        place: Place::default(),
        first: 0,
        end: 0,
    });
    script.unread = if text.len() > MAX_INPUT {
        Some("it is too long")
    } else if memchr::memchr(0, text).is_some() {
        Some("there is a NUL byte in it")
    } else {
        let mut reader = Reader::new(text, &mut script, Place::default(), 0);
        reader.list(END).err()
    };
    let end = script.commands.len();
    if let Some(top) = script.scopes.first_mut() {
        top.end = end;
    }
    script
}

/// The length of the name in front of `=` or `+=`, when `text` starts as an assignment.
pub fn assigned(text: &[u8]) -> Option<usize> {
    let n = text.iter().position(|&b| !is_name(b))?;
    let rest = text.get(n..)?;
    let first = *text.first()?;
    let is = n > 0 && !first.is_ascii_digit();
    (is && (rest.starts_with(b"=") || rest.starts_with(b"+="))).then_some(n)
}

pub(super) fn is_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}
