//! The table of options. Parsing, `--help` and the README's table are derived from it.

use super::Args;

/// What an option does to [`Args`].
#[derive(Clone, Copy)]
pub enum Effect {
    /// Takes no value.
    Switch(fn(&mut Args) -> &mut bool),
    /// A value that is text; the last one counts.
    Text(fn(&mut Args) -> &mut Option<String>),
    /// A path, any bytes; the last one counts.
    Path(fn(&mut Args) -> &mut Option<Vec<u8>>),
    /// A path, any bytes; each one counts.
    Paths(fn(&mut Args) -> &mut Vec<Vec<u8>>),
    /// Words between commas; each option adds to them.
    List(fn(&mut Args) -> &mut Vec<String>),
    /// A whole number from the first to the second limit.
    Number(fn(&mut Args) -> &mut Option<u64>, u64, u64),
}

/// One option.
pub struct Flag {
    /// Its name without the dashes.
    pub long: &'static str,
    /// Its letter; a space when it has none.
    pub short: char,
    /// The value's name in the help; empty when it takes none.
    pub value: &'static str,
    /// One line of help; empty hides the option.
    pub help: &'static str,
    /// Index into [`GROUPS`].
    pub group: usize,
    /// What it does.
    pub effect: Effect,
}

/// Headings of the help, in order.
pub const GROUPS: &[&str] = &[
    "Model",
    "Session",
    "Input and output",
    "What it may do",
    "Setup and other tasks",
    "Debugging",
];

const fn flag(
    group: usize,
    long: &'static str,
    short: char,
    value: &'static str,
    help: &'static str,
    effect: Effect,
) -> Flag {
    Flag {
        long,
        short,
        value,
        help,
        group,
        effect,
    }
}

use Effect::{List, Number, Path, Paths, Switch, Text};

/// Every option.
#[rustfmt::skip]
pub static FLAGS: &[Flag] = &[
    flag(0, "model", 'm', "MODEL", "model or alias (default deepseek-v4-pro)", Text(|a| &mut a.model)),
    flag(0, "base-url", ' ', "URL", "API (default https://api.deepseek.com/v1)", Text(|a| &mut a.base_url)),
    flag(0, "api-key", ' ', "KEY", "API key (others can see it: prefer OPENAI_API_KEY)", Text(|a| &mut a.api_key)),
    flag(0, "api-key-file", ' ', "PATH", "file that holds the API key", Path(|a| &mut a.api_key_file)),
    flag(0, "profile", ' ', "NAME", "settings from `profiles` in the config", Text(|a| &mut a.profile)),

    flag(1, "continue", 'c', "", "go on with the most recent session", Switch(|a| &mut a.resume_last)),
    flag(1, "resume", 'r', "ID", "go on with this session", Text(|a| &mut a.resume)),
    flag(1, "no-session", ' ', "", "save nothing", Switch(|a| &mut a.no_session)),
    flag(1, "list-sessions", ' ', "", "list saved sessions, newest first", Switch(|a| &mut a.list_sessions)),
    flag(1, "prune-sessions", ' ', "N", "delete sessions older than N days", Number(|a| &mut a.prune_sessions, 0, 36_500)),

    flag(2, "file", 'f', "PATH", "attach a file, - for stdin; repeatable", Paths(|a| &mut a.files)),
    flag(2, "output", 'o', "FILE", "write the final answer to this file too", Path(|a| &mut a.output)),
    flag(2, "extract", 'x', "", "print only the last fenced block of the answer", Switch(|a| &mut a.extract)),
    flag(2, "quiet", 'q', "", "final answer on stdout, all else on stderr", Switch(|a| &mut a.quiet)),
    flag(2, "json", ' ', "", "one event a line on stdout", Switch(|a| &mut a.json)),
    flag(2, "repl", ' ', "", "read several prompts from stdin, one a line", Switch(|a| &mut a.repl)),
    flag(2, "no-color", ' ', "", "no colour", Switch(|a| &mut a.no_color)),

    flag(3, "yes", 'y', "", "allow bash, remote_bash and write without asking", Switch(|a| &mut a.yes)),
    flag(3, "mode", ' ', "MODE", "one of `cluade modes`", Text(|a| &mut a.mode)),
    flag(3, "plan", ' ', "", "read only", Switch(|a| &mut a.plan)),
    flag(3, "tools", ' ', "LIST", "only these tools (comma between)", List(|a| &mut a.tools)),
    flag(3, "deny", ' ', "LIST", "never these tools", List(|a| &mut a.deny)),
    flag(3, "trust", ' ', "", "trust this directory's .cluade/ from now on", Switch(|a| &mut a.trust)),
    flag(3, "subagent", ' ', "", "unattended: --quiet --no-session, never asks", Switch(|a| &mut a.subagent)),
    flag(3, "max-steps", ' ', "N", "stop after N requests a turn", Number(|a| &mut a.max_steps, 1, 1_000_000)),
    flag(3, "timeout", ' ', "S", "stop after S seconds", Number(|a| &mut a.timeout, 1, 31_536_000)),

    flag(4, "init", ' ', "", "write a default config (never over an old one)", Switch(|a| &mut a.init)),
    flag(4, "config", ' ', "PATH", "this file in place of both config files", Path(|a| &mut a.config)),
    flag(4, "list-models", ' ', "", "ask the API for its models", Switch(|a| &mut a.list_models)),
    flag(4, "help", 'h', "", "this text", Switch(|a| &mut a.help)),
    flag(4, "version", 'V', "", "version and capabilities", Switch(|a| &mut a.version)),

    flag(5, "show-tools-json", ' ', "", "raw replies and decoded tool calls on stderr", Switch(|a| &mut a.show_tools_json)),
    flag(5, "record", ' ', "FILE", "keep the API's replies in this file", Path(|a| &mut a.record)),
    flag(5, "replay", ' ', "FILE", "answer from a recorded file, no network", Path(|a| &mut a.replay)),
    flag(5, "help-markdown", ' ', "", "", Switch(|a| &mut a.help_markdown)),
];

/// Pairs that contradict each other.
pub const CONFLICTS: &[(&str, &str)] = &[
    ("continue", "resume"),
    ("api-key", "api-key-file"),
    ("record", "replay"),
    ("json", "quiet"),
    ("json", "subagent"),
    ("json", "extract"),
    ("repl", "quiet"),
    ("repl", "json"),
    ("repl", "subagent"),
    ("repl", "extract"),
    ("repl", "output"),
    ("plan", "mode"),
];

/// Options that are a task of their own: no prompt, and one at a time.
pub const TASKS: &[&str] = &["init", "list-sessions", "prune-sessions", "list-models"];

/// The option called `long`.
pub fn by_name(long: &str) -> Option<&'static Flag> {
    FLAGS.iter().find(|f| f.long == long)
}

/// The option with the letter `short`.
pub fn by_letter(short: char) -> Option<&'static Flag> {
    FLAGS.iter().find(|f| f.short == short && short != ' ')
}

impl Flag {
    /// Whether the command line set it.
    pub fn is_set(&self, args: &mut Args) -> bool {
        match self.effect {
            Effect::Switch(field) => *field(args),
            Effect::Text(field) => field(args).is_some(),
            Effect::Path(field) => field(args).is_some(),
            Effect::Paths(field) => !field(args).is_empty(),
            Effect::List(field) => !field(args).is_empty(),
            Effect::Number(field, ..) => field(args).is_some(),
        }
    }
}
