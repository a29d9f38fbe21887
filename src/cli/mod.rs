//! The command line: one table of options ([`flags`]), one of reserved words ([`words`]); what they say becomes
//! [`Args`]. Texts made from the tables are in [`help`].
//!
//! Refused on purpose: abbreviated long options (scripts break when an option is added) and `+x` style switches.

pub mod flags;
pub mod help;
pub mod words;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::text::nearest;
use flags::{CONFLICTS, Effect, FLAGS, Flag, TASKS, by_letter, by_name};
pub use help::{markdown_table, markdown_words};
use words::{Verb, WORDS, Word};

/// What the command line asks for.
#[derive(Clone, PartialEq, Eq)]
pub enum Command {
    /// Run this prompt; without one a conversation, or stdin is the prompt (see [`Args::prompt_from_stdin`]).
    Prompt(Option<String>),
    /// A reserved word.
    Reserved(Reserved),
    /// `--init`
    Init,
    /// `--list-sessions`
    ListSessions,
    /// `--list-models`
    ListModels,
    /// `--prune-sessions`: older than so many days.
    PruneSessions(u64),
    /// `--help`: print [`help::help`].
    Help,
    /// `--version`: print [`help::version`].
    Version,
    /// `--help-markdown`: print [`markdown_table`] and [`markdown_words`].
    HelpMarkdown,
}

/// A reserved word with its verb; what it needs is there, the number of arguments is right.
#[derive(Clone, PartialEq, Eq)]
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
#[derive(Clone, Default)]
pub struct Args {
    /// What to do.
    pub command: Command,
    /// The only prompt was `-`: read it from stdin, even from a terminal.
    pub prompt_from_stdin: bool,
    /// `-m`
    pub model: Option<String>,
    /// `--base-url`
    pub base_url: Option<String>,
    /// `--api-key`
    pub api_key: Option<String>,
    /// `--api-key-file`
    pub api_key_file: Option<Vec<u8>>,
    /// `--profile`
    pub profile: Option<String>,
    /// `-c`
    pub resume_last: bool,
    /// `-r`, without a trailing `.json`
    pub resume: Option<String>,
    /// `--no-session`, also set by `--subagent`
    pub no_session: bool,
    /// `--list-sessions`; see [`Args::command`]
    pub list_sessions: bool,
    /// `--prune-sessions`; see [`Args::command`]
    pub prune_sessions: Option<u64>,
    /// `-f`, in order
    pub files: Vec<Vec<u8>>,
    /// `-o`
    pub output: Option<Vec<u8>>,
    /// `-x`
    pub extract: bool,
    /// `-q`, also set by `--subagent`
    pub quiet: bool,
    /// `--json`
    pub json: bool,
    /// `--repl`
    pub repl: bool,
    /// `--no-color`; the environment's wish is in [`crate::config::Config::color`]
    pub no_color: bool,
    /// `-y`
    pub yes: bool,
    /// `--mode`
    pub mode: Option<String>,
    /// `--plan`
    pub plan: bool,
    /// `--tools`; empty means all
    pub tools: Vec<String>,
    /// `--deny`; stands above `-y`
    pub deny: Vec<String>,
    /// `--trust`
    pub trust: bool,
    /// `--subagent`: whatever would ask is refused.
    pub subagent: bool,
    /// `--max-steps`
    pub max_steps: Option<u64>,
    /// `--timeout`: seconds for the whole run
    pub timeout: Option<u64>,
    /// `--init`; see [`Args::command`]
    pub init: bool,
    /// `--config`
    pub config: Option<Vec<u8>>,
    /// `--list-models`; see [`Args::command`]
    pub list_models: bool,
    /// `-h`; see [`Args::command`]
    pub help: bool,
    /// `-V`; see [`Args::command`]
    pub version: bool,
    /// `--show-tools-json`
    pub show_tools_json: bool,
    /// `--record`
    pub record: Option<Vec<u8>>,
    /// `--replay`
    pub replay: Option<Vec<u8>>,
    /// `--help-markdown`; see [`Args::command`]
    pub help_markdown: bool,
}

/// Reads the arguments behind the program's name. `--help` and `--version` win over whatever follows them.
///
/// # Errors
/// A usage error as text for the user, without the program's name; the exit status is 2.
pub fn parse(argv: Vec<OsString>) -> Result<Args, String> {
    let mut parser = lexopt::Parser::from_args(argv);
    let mut args = Args::default();
    let mut words: Vec<Vec<u8>> = Vec::new();
    let mut reserved: Option<(&'static Word, Option<&'static Verb>)> = None;
    let mut options = Vec::new();
    loop {
        if let Some(mut raw) = parser.try_raw_args() {
            if raw.peek() == Some(OsStr::new("--")) {
                raw.next();
                words.extend(raw.map(OsString::into_vec));
                break;
            }
            if let Some(arg) = raw.peek() {
                refuse_single_dash(arg.as_bytes())?;
            }
        }
        let found = match parser.next() {
            Err(e) => return Err(lexopt_error(e)),
            Ok(None) => break,
            Ok(Some(lexopt::Arg::Value(value))) => {
                take_word(&mut words, &mut reserved, value.into_vec())?;
                continue;
            }
            Ok(Some(lexopt::Arg::Short(letter))) => {
                by_letter(letter).ok_or_else(|| unknown_letter(letter))
            }
            Ok(Some(lexopt::Arg::Long(name))) => {
                let verb = reserved.and_then(|(word, verb)| verb.or(word.verbs.first()));
                if let Some(&(option, takes_value)) =
                    verb.and_then(|v| v.options.iter().find(|o| o.0 == name))
                {
                    let value = if takes_value {
                        value_of(&mut parser, &["--", option].concat(), "value")?
                    } else {
                        OsString::new()
                    };
                    options.push((option, value.into_vec()));
                    continue;
                }
                by_name(name).ok_or_else(|| unknown_name(name, verb))
            }
        };
        apply(&mut args, found?, &mut parser)?;
        if args.help || args.version || args.help_markdown {
            args.command = match (args.help, args.version) {
                (true, _) => Command::Help,
                (_, true) => Command::Version,
                _ => Command::HelpMarkdown,
            };
            return Ok(args);
        }
    }
    check_conflicts(&mut args)?;
    let task = TASKS
        .iter()
        .filter_map(|name| by_name(name))
        .find(|f| f.is_set(&mut args));
    args.command = match (task, reserved) {
        (Some(flag), _) if !words.is_empty() => {
            return Err(["--", flag.long, " takes no prompt and no command"].concat());
        }
        (Some(_), _) if args.init => Command::Init,
        (Some(_), _) if args.list_sessions => Command::ListSessions,
        (Some(_), _) if args.list_models => Command::ListModels,
        (Some(_), _) => Command::PruneSessions(args.prune_sessions.unwrap_or(0)),
        (None, Some((word, verb))) => Command::Reserved(command(word, verb, words, options)?),
        (None, None) => Command::Prompt(prompt(&mut args, &words)?),
    };
    if args.subagent {
        args.quiet = true;
        args.no_session = true;
    }
    if let Some(id) = &mut args.resume
        && let Some(stem) = id.strip_suffix(".json")
    {
        *id = stem.to_owned();
    }
    Ok(args)
}

/// Takes one positional argument; the first decides whether this is a command, the second whether its verb exists.
fn take_word(
    words: &mut Vec<Vec<u8>>,
    reserved: &mut Option<(&'static Word, Option<&'static Verb>)>,
    value: Vec<u8>,
) -> Result<(), String> {
    if words.is_empty() {
        let word = WORDS.iter().find(|w| w.name.as_bytes() == value);
        *reserved = word.map(|w| (w, w.verbs.first().filter(|v| v.name.is_empty())));
    } else if let Some((word, verb @ None)) = reserved {
        *verb = word.verbs.iter().find(|v| v.name.as_bytes() == value);
        if verb.is_none() {
            return Err(unknown_verb(word, &value));
        }
    }
    words.push(value);
    Ok(())
}

fn apply(args: &mut Args, flag: &Flag, parser: &mut lexopt::Parser) -> Result<(), String> {
    let mut value = || value_of(parser, &["--", flag.long].concat(), flag.value);
    match flag.effect {
        Effect::Switch(field) => *field(args) = true,
        Effect::Text(field) => *field(args) = Some(text(flag, value()?)?),
        Effect::Path(field) => *field(args) = Some(path(flag, value()?)?),
        Effect::Paths(field) => field(args).push(path(flag, value()?)?),
        Effect::List(field) => {
            let list = text(flag, value()?)?;
            let names = list.split(',').map(str::trim).filter(|s| !s.is_empty());
            field(args).extend(names.map(str::to_owned));
        }
        Effect::Number(field, min, max) => {
            let text = text(flag, value()?)?;
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            let number = text.parse::<u64>().ok();
            let Some(n) = number.filter(|n| digits && (min..=max).contains(n)) else {
                return Err(format!(
                    "--{} must be a whole number from {min} to {max}, not \"{text}\"",
                    flag.long
                ));
            };
            *field(args) = Some(n);
        }
    }
    Ok(())
}

/// The value of `option`. One in an argument of its own that is an option we know, or `--`, is taken for a forgotten
/// value; `--option=--value` still says it.
fn value_of(parser: &mut lexopt::Parser, option: &str, what: &str) -> Result<OsString, String> {
    if let Some(value) = parser.optional_value() {
        return Ok(value);
    }
    let missing = [option, " needs a ", what].concat();
    let next = parser.try_raw_args().and_then(|mut raw| raw.next());
    let Some(next) = next else {
        return Err(missing);
    };
    if let Some(name) = next.as_bytes().strip_prefix(b"--") {
        let known = FLAGS.iter().any(|f| {
            name.strip_prefix(f.long.as_bytes())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"="))
        });
        if known || name.is_empty() {
            return Err([
                &missing,
                ", found ",
                &next.to_string_lossy(),
                "; if you mean that, write ",
                option,
                "=",
                &next.to_string_lossy(),
            ]
            .concat());
        }
    }
    Ok(next)
}

fn text(flag: &Flag, value: OsString) -> Result<String, String> {
    match value.into_string() {
        Ok(text) if text.trim().is_empty() => {
            Err(["--", flag.long, " needs a ", flag.value, ", not nothing"].concat())
        }
        Ok(text) => Ok(text),
        Err(_) => Err(["the value of --", flag.long, " is not UTF-8"].concat()),
    }
}

fn path(flag: &Flag, value: OsString) -> Result<Vec<u8>, String> {
    if value.is_empty() {
        return Err(["--", flag.long, " needs a ", flag.value, ", not nothing"].concat());
    }
    Ok(value.into_vec())
}

/// The prompt, a space between its words. One that is there and empty is an error: in a script it is a variable that
/// was never set, and a conversation is not what the script wants.
fn prompt(args: &mut Args, words: &[Vec<u8>]) -> Result<Option<String>, String> {
    if words.is_empty() {
        return Ok(None);
    }
    if let [word] = words
        && word == b"-"
    {
        args.prompt_from_stdin = true;
        return Ok(None);
    }
    let joined = words.join(&b' ');
    if joined.trim_ascii().is_empty() {
        return Err("the prompt is empty".into());
    }
    let mut out = Vec::with_capacity(joined.len());
    crate::text::push_utf8_lossy(&mut out, &joined);
    Ok(Some(String::from_utf8(out).unwrap_or_default()))
}

fn command(
    word: &'static Word,
    verb: Option<&'static Verb>,
    mut words: Vec<Vec<u8>>,
    options: Vec<(&'static str, Vec<u8>)>,
) -> Result<Reserved, String> {
    // Behind `--` the verb has not been looked for.
    let verb = match (verb, words.get(1)) {
        (Some(verb), _) => Some(verb),
        (None, Some(name)) => Some(
            word.verbs
                .iter()
                .find(|v| v.name.as_bytes() == *name)
                .ok_or_else(|| unknown_verb(word, name))?,
        ),
        (None, None) => word.verbs.first(),
    };
    let Some(verb) = verb else {
        return Err(unknown_verb(word, b""));
    };
    let skip = if verb.name.is_empty() { 1 } else { 2 };
    let rest = words.split_off(skip.min(words.len()));
    if rest.len() < verb.min || rest.len() > verb.max {
        let mut text = ["usage: cluade ", &help::usage_of(word, verb)].concat();
        if !rest.is_empty() {
            quote_hint(&mut text, word);
        }
        return Err(text);
    }
    Ok(Reserved {
        word: word.name,
        verb: verb.name,
        rest,
        options,
    })
}

fn check_conflicts(args: &mut Args) -> Result<(), String> {
    let mut set = |name: &str| by_name(name).is_some_and(|f| f.is_set(args));
    let mut clash = CONFLICTS.iter().copied().find(|(a, b)| set(a) && set(b));
    for (i, a) in TASKS.iter().enumerate() {
        for b in &TASKS[..i] {
            if set(a) && set(b) {
                clash = Some((a, b));
            }
        }
    }
    match clash {
        Some((a, b)) => Err(["--", a, " and --", b, " exclude each other"].concat()),
        None => Ok(()),
    }
}

fn unknown_name(name: &str, verb: Option<&Verb>) -> String {
    let own = verb.map_or(&[][..], |v| v.options).iter().map(|o| o.0);
    let shown = FLAGS.iter().filter(|f| !f.help.is_empty()).map(|f| f.long);
    unknown(
        &["--", name].concat(),
        nearest(name, own.chain(shown)).map(|n| ["--", n].concat()),
    )
}

fn unknown_letter(letter: char) -> String {
    let near = FLAGS
        .iter()
        .find(|f| f.short.eq_ignore_ascii_case(&letter) && letter != ' ');
    let mut option = String::from("-");
    option.push(letter);
    unknown(&option, near.map(|f| String::from_iter(['-', f.short])))
}

fn unknown(option: &str, near: Option<String>) -> String {
    match near {
        Some(near) => ["unknown option ", option, "; did you mean ", &near, "?"].concat(),
        None => [
            "unknown option ",
            option,
            " (--help lists them; a prompt that holds it goes in quotes or after --)",
        ]
        .concat(),
    }
}

/// `-model x` would be read as `-m odel`: the name of a long option behind one dash is a slip, not a bundle.
fn refuse_single_dash(arg: &[u8]) -> Result<(), String> {
    if arg.len() > 2
        && let Some(rest) = arg.strip_prefix(b"-")
    {
        let name = rest.split(|&b| b == b'=').next().unwrap_or(rest);
        if let Some(flag) = FLAGS.iter().find(|f| f.long.as_bytes() == name) {
            return Err(unknown(
                &["-", flag.long].concat(),
                Some(["--", flag.long].concat()),
            ));
        }
    }
    Ok(())
}

fn unknown_verb(word: &Word, given: &[u8]) -> String {
    let given = String::from_utf8_lossy(given);
    let mut text = [word.name, " has no verb \"", &given, "\""].concat();
    match nearest(&given, word.verbs.iter().map(|v| v.name)) {
        Some(near) => text.push_str(&["; did you mean \"", near, "\"?"].concat()),
        None => {
            text.push_str("; it has: ");
            help::push_verbs(&mut text, word);
        }
    }
    quote_hint(&mut text, word);
    text
}

fn quote_hint(text: &mut String, word: &Word) {
    text.push_str(
        &[
            "\nIf it is a prompt, put it in quotes: cluade \"",
            word.name,
            " ...\"",
        ]
        .concat(),
    );
}

fn lexopt_error(error: lexopt::Error) -> String {
    match error {
        lexopt::Error::UnexpectedValue { option, .. } => [&option, " takes no value"].concat(),
        // The parser is asked for nothing that ends in another one.
        _ => "an argument can't be read".into(),
    }
}

#[cfg(test)]
mod tests;
