//! The command line: one table of options ([`flags`]), one of reserved words ([`words`]); what they say becomes
//! [`Args`]. Texts made from the tables are in [`help`].
//!
//! Refused on purpose: abbreviated long options (scripts break when an option is added) and `+x` style switches.

pub mod flags;
pub mod help;
pub mod words;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::text::{Near, filled, push_dec, push_filled, push_utf8_lossy, whole};
pub use flags::Opt;
use flags::{CONFLICTS, Flag, LIMITS, flags, name_of};
use words::{Verb, WORDS, Word};

/// What the command line asks for.
#[derive(PartialEq, Eq)]
pub enum Command {
    /// Run this prompt, valid UTF-8; without one a conversation, or stdin is the prompt (see
    /// [`Args::prompt_from_stdin`]).
    Prompt(Option<Vec<u8>>),
    /// A reserved word.
    Reserved(Reserved),
    /// An option that is a task of its own: `--init`, `--list-sessions`, `--prune-sessions`, `--list-models`, `--help`
    /// or `--version`.
    Task(Opt),
}

/// A reserved word with its verb; what it needs is there, the number of arguments is right.
#[derive(PartialEq, Eq)]
pub struct Reserved {
    /// The word.
    pub word: &'static str,
    /// The verb; empty for words that have none.
    pub verb: &'static str,
    /// The arguments behind them.
    pub rest: Vec<Vec<u8>>,
    /// The verb's own options in order; the value is empty for a switch.
    pub options: Vec<(&'static str, Vec<u8>)>,
}

impl Reserved {
    /// Whether the option `name` was given.
    pub fn has(&self, name: &str) -> bool {
        self.option(name).is_some()
    }

    /// The last value of the option `name`.
    pub fn option(&self, name: &str) -> Option<&[u8]> {
        let (_, value) = self.options.iter().rev().find(|(n, _)| *n == name)?;
        Some(value)
    }
}

impl Default for Command {
    fn default() -> Self {
        Command::Prompt(None)
    }
}

/// The command line, read and checked. It holds the API key, so it is never printed.
#[derive(Default)]
pub struct Args {
    /// What to do.
    pub command: Command,
    /// The only prompt was `-`: read it from stdin, even from a terminal.
    pub prompt_from_stdin: bool,
    /// The options in the order given, with their values; empty for a switch.
    given: Vec<(u8, Vec<u8>)>,
}

impl Args {
    /// Whether the option was given. `--subagent` gives `--quiet` and `--no-session` too.
    pub fn has(&self, option: Opt) -> bool {
        self.bytes(option).is_some()
    }

    /// Gives a switch.
    pub fn set(&mut self, option: Opt) {
        self.given.push((option as u8, Vec::new()));
    }

    /// The last value of an option.
    #[inline(never)]
    pub fn bytes(&self, option: Opt) -> Option<&[u8]> {
        self.each(option).last()
    }

    /// The last value of an option that is text; a session's id is without `.json`.
    pub fn text(&self, option: Opt) -> Option<&str> {
        std::str::from_utf8(self.bytes(option)?).ok()
    }

    /// The last value of an option that is a number, inside its limits.
    pub fn number(&self, option: Opt) -> Option<u32> {
        whole(self.bytes(option)?)
    }

    /// Every value of an option, in order.
    pub fn each(&self, option: Opt) -> impl Iterator<Item = &[u8]> {
        let given = self.given.iter();
        given.filter_map(move |(id, value)| (*id == option as u8).then_some(&value[..]))
    }

    /// The words between commas in all values of an option; empty when it was not given.
    pub fn list(&self, option: Opt) -> Vec<String> {
        let mut list = Vec::new();
        for value in self.each(option) {
            for word in value.split(|&b| b == b',').map(<[u8]>::trim_ascii) {
                if let (false, Ok(word)) = (word.is_empty(), std::str::from_utf8(word)) {
                    list.push(word.to_owned());
                }
            }
        }
        list
    }
}

/// Reads the arguments behind the program's name. `--help` and `--version` win over whatever follows them.
///
/// # Errors
/// A usage error as text for the user, without the program's name; the exit status is 2.
pub fn parse(argv: Vec<OsString>) -> Result<Args, Vec<u8>> {
    let mut line = Line {
        parser: lexopt::Parser::from_args(argv),
        args: Args::default(),
        words: Vec::new(),
        options: Vec::new(),
    };
    // One owner of it all, so that no way out of the reader has to drop it.
    line.read()?;
    Ok(line.args)
}

/// A command line being read.
struct Line {
    parser: lexopt::Parser,
    args: Args,
    words: Vec<Vec<u8>>,
    options: Vec<(&'static str, Vec<u8>)>,
}

impl Line {
    fn read(&mut self) -> Result<(), Vec<u8>> {
        let Line {
            parser,
            args,
            words,
            options,
        } = self;
        let mut word: Option<&'static Word> = None;
        loop {
            if let Some(mut raw) = parser.try_raw_args() {
                match raw.peek().map(OsStr::as_bytes) {
                    Some(b"--") => {
                        raw.next();
                        words.extend(raw.map(OsString::into_vec));
                        break;
                    }
                    Some(arg) => refuse_single_dash(arg)?,
                    None => {}
                }
            }
            let flag = match parser.next() {
                Ok(None) => break,
                Ok(Some(lexopt::Arg::Value(value))) => {
                    words.push(value.into_vec());
                    match words.len() {
                        1 => word = WORDS.iter().find(|w| w.name.as_bytes() == words[0]),
                        2 if let Some(word) = word => drop(verb_of(word, words)?),
                        _ => {}
                    }
                    continue;
                }
                Ok(Some(lexopt::Arg::Short(letter))) => {
                    let found = flags().find(|f| f.short != b' ' && char::from(f.short) == letter);
                    found.ok_or_else(|| unknown_letter(letter))?
                }
                Ok(Some(lexopt::Arg::Long(name))) => {
                    let own = match word {
                        Some(word) => verb_of(word, words)?.options,
                        None => &[],
                    };
                    if let Some(&(option, takes_value)) = own.iter().find(|o| o.0 == name) {
                        let value = if takes_value {
                            value_of(parser, option, "value")?
                        } else {
                            Vec::new()
                        };
                        options.push((option, value));
                        continue;
                    }
                    let found = flags().find(|f| f.long == name);
                    found.ok_or_else(|| unknown_name(name, own))?
                }
                Err(lexopt::Error::UnexpectedValue { option, .. }) => {
                    return Err(filled("% takes no value", &[option.as_bytes()]));
                }
                // The parser is asked for nothing that ends in another error.
                Err(_) => return Err(b"an argument can't be read".into()),
            };
            let mut value = Vec::new();
            if !flag.value.is_empty() {
                value = value_of(parser, flag.long, flag.value)?;
                check_value(&flag, &mut value)?;
            }
            args.given.push((flag.id, value));
            for task in [Opt::Help, Opt::Version] {
                if flag.id == task as u8 {
                    args.command = Command::Task(task);
                    return Ok(());
                }
            }
        }
        for (a, b) in CONFLICTS {
            if args.has(a) && args.has(b) {
                let names = [name_of(a).as_bytes(), name_of(b).as_bytes()];
                return Err(filled("--% and --% exclude each other", &names));
            }
        }
        let tasks = [
            Opt::Init,
            Opt::ListSessions,
            Opt::PruneSessions,
            Opt::ListModels,
        ];
        args.command = match (tasks.into_iter().find(|t| args.has(*t)), word) {
            (Some(task), _) if words.is_empty() => Command::Task(task),
            (Some(task), _) => {
                let name = name_of(task).as_bytes();
                return Err(filled("--% takes no prompt and no command", &[name]));
            }
            (None, Some(word)) => command(word, words, options)?,
            (None, None) => {
                args.prompt_from_stdin = matches!(&words[..], [word] if word == b"-");
                prompt(words)?
            }
        };
        if args.has(Opt::Subagent) {
            args.set(Opt::Quiet);
            args.set(Opt::NoSession);
        }
        Ok(())
    }
}

/// What the value of an option must be.
fn check_value(flag: &Flag, value: &mut Vec<u8>) -> Result<(), Vec<u8>> {
    let long = flag.long.as_bytes();
    let is_path = matches!(flag.value, "PATH" | "FILE");
    if value.is_empty() || !is_path && value.trim_ascii().is_empty() {
        let parts = [long, flag.value.as_bytes()];
        return Err(filled("--% needs a %, not nothing", &parts));
    }
    if !is_path && std::str::from_utf8(value).is_err() {
        return Err(filled("the value of --% is not UTF-8", &[long]));
    }
    if let Some(&(_, min, max)) = LIMITS.iter().find(|l| l.0 as u8 == flag.id)
        && !whole(value).is_some_and(|n| (min..=max).contains(&n))
    {
        let mut text = filled("--% must be ", &[long]);
        push_range(&mut text, min, max);
        push_filled(&mut text, ", not \"%\"", &[value]);
        return Err(text);
    }
    if flag.id == Opt::Resume as u8 && value.ends_with(b".json") {
        value.truncate(value.len() - 5);
    }
    Ok(())
}

/// Appends `a whole number from MIN to MAX`.
pub fn push_range(out: &mut Vec<u8>, min: u32, max: u32) {
    out.extend_from_slice(b"a whole number from ");
    push_dec(out, u64::from(min));
    out.extend_from_slice(b" to ");
    push_dec(out, u64::from(max));
}

/// The value of `--option`. One in an argument of its own that is an option we know, or `--`, is taken for a forgotten
/// value; `--option=--value` still says it.
fn value_of(parser: &mut lexopt::Parser, option: &str, what: &str) -> Result<Vec<u8>, Vec<u8>> {
    if let Some(value) = parser.optional_value() {
        return Ok(value.into_vec());
    }
    let next = parser.try_raw_args().and_then(|mut raw| raw.next());
    let mut error = filled("--% needs a %", &[option.as_bytes(), what.as_bytes()]);
    let Some(next) = next else {
        return Err(error);
    };
    let next = next.into_vec();
    if let Some(name) = next.strip_prefix(b"--") {
        let name = name.split(|&b| b == b'=').next().unwrap_or(name);
        if name.is_empty() || flags().any(|f| f.long.as_bytes() == name) {
            let parts = [&next, option.as_bytes(), &next];
            push_filled(
                &mut error,
                ", found %; if you mean that, write --%=%",
                &parts,
            );
            return Err(error);
        }
    }
    Ok(next)
}

/// The prompt, a space between its words. One that is there and empty is an error: in a script it is a variable that
/// was never set, and a conversation is not what the script wants.
fn prompt(words: &[Vec<u8>]) -> Result<Command, Vec<u8>> {
    if words.is_empty() || matches!(words, [word] if word == b"-") {
        return Ok(Command::Prompt(None));
    }
    let mut out = Vec::new();
    for word in words {
        push_utf8_lossy(&mut out, word);
        out.push(b' ');
    }
    out.pop();
    if out.trim_ascii().is_empty() {
        return Err(b"the prompt is empty".into());
    }
    Ok(Command::Prompt(Some(out)))
}

fn command(
    word: &'static Word,
    words: &mut Vec<Vec<u8>>,
    options: &mut Vec<(&'static str, Vec<u8>)>,
) -> Result<Command, Vec<u8>> {
    let verb = verb_of(word, words)?;
    let skip = if verb.name.is_empty() { 1 } else { 2 };
    words.drain(..skip.min(words.len()));
    let count = words.len();
    if count < usize::from(verb.min) || count > usize::from(verb.max) && verb.max < u8::MAX {
        let mut text = filled("usage: cluade %", &[word.name.as_bytes()]);
        for part in [verb.name, verb.usage] {
            if !part.is_empty() {
                push_filled(&mut text, " %", &[part.as_bytes()]);
            }
        }
        if count > 0 {
            quote_hint(&mut text, word);
        }
        return Err(text);
    }
    Ok(Command::Reserved(Reserved {
        word: word.name,
        verb: verb.name,
        rest: std::mem::take(words),
        options: std::mem::take(options),
    }))
}

/// The verb behind `word`, the first of `words`; the word's first one when there is none.
fn verb_of(word: &'static Word, words: &[Vec<u8>]) -> Result<&'static Verb, Vec<u8>> {
    let name = words.get(1).map_or(&b""[..], |w| w);
    for verb in word.verbs {
        if verb.name.is_empty() || words.len() < 2 || verb.name.as_bytes() == name {
            return Ok(verb);
        }
    }
    let given = String::from_utf8_lossy(name);
    let mut near = Near::to(&given);
    word.verbs.iter().for_each(|v| near.offer(v.name));
    let parts = [word.name.as_bytes(), given.as_bytes()];
    let mut text = filled("% has no verb \"%\"", &parts);
    if !near.push(&mut text, ["\""; 2]) {
        text.extend_from_slice(b"; it has: ");
        help::push_verbs(&mut text, word);
    }
    quote_hint(&mut text, word);
    Err(text)
}

fn quote_hint(text: &mut Vec<u8>, word: &Word) {
    push_filled(
        text,
        "\nIf it is a prompt, put it in quotes: cluade \"% ...\"",
        &[word.name.as_bytes()],
    );
}

fn unknown_name(name: &str, own: &[(&'static str, bool)]) -> Vec<u8> {
    let mut near = Near::to(name);
    own.iter().for_each(|o| near.offer(o.0));
    flags().for_each(|f| near.offer(f.long));
    unknown("--", name, near.found())
}

fn unknown_letter(letter: char) -> Vec<u8> {
    let mut near = None;
    for flag in flags() {
        if flag.short != b' ' && char::from(flag.short).eq_ignore_ascii_case(&letter) {
            near = Some([flag.short]);
        }
    }
    let near = near.as_ref().and_then(|n| std::str::from_utf8(n).ok());
    unknown("-", letter.encode_utf8(&mut [0; 4]), near)
}

fn unknown(dashes: &str, name: &str, near: Option<&str>) -> Vec<u8> {
    let parts = [dashes, name, dashes, near.unwrap_or("")].map(str::as_bytes);
    let template = match near {
        Some(_) => "unknown option %%; did you mean %%?",
        None => {
            "unknown option %% (--help lists them; a prompt that holds it goes in quotes or after --)"
        }
    };
    filled(template, &parts)
}

/// `-model x` would be read as `-m odel`: the name of a long option behind one dash is a slip, not a bundle.
fn refuse_single_dash(arg: &[u8]) -> Result<(), Vec<u8>> {
    if let [b'-', rest @ ..] = arg
        && rest.len() > 1
    {
        let name = rest.split(|&b| b == b'=').next().unwrap_or(rest);
        if let Some(flag) = flags().find(|f| f.long.as_bytes() == name) {
            let name = flag.long.as_bytes();
            return Err(filled(
                "unknown option -%; did you mean --%?",
                &[name, name],
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
