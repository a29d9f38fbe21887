//! The table of options is the text of `--help`: what a line of it says is what the parser takes, and the README's table
//! is made from it.

/// The text of `--help` above the reserved words: at most 80 columns. A line whose first character behind the blanks is
/// a dash is an option: its letter, its name, its value's name (none for a switch), two blanks or more, its help.
pub static OPTIONS: &str = "\
cluade: a coding agent for small Linux devices

Usage: cluade [options] [prompt...]
       cluade [options] WORD [verb] [arguments]

Without a prompt: a conversation on a terminal, else stdin is the prompt.
With one, stdin (a file or a pipe) is attached to it. Behind -- everything
is the prompt, whatever it looks like.

Model
  -m, --model MODEL       model or alias (default deepseek-v4-pro)
      --base-url URL      API (default https://api.deepseek.com/v1)
      --api-key KEY       API key (others can see it: prefer OPENAI_API_KEY)
      --api-key-file PATH file that holds the API key
      --profile NAME      settings from `profiles` in the config

Session
  -c, --continue          go on with the most recent session
  -r, --resume ID         go on with this session
      --no-session        save nothing
      --list-sessions     list saved sessions, newest first
      --prune-sessions N  delete sessions older than N days

Input and output
  -f, --file PATH         attach a file, - for stdin; repeatable
  -o, --output FILE       write the final answer to this file too
  -x, --extract           print only the last fenced block of the answer
  -q, --quiet             final answer on stdout, all else on stderr
      --json              one event a line on stdout
      --repl              read several prompts from stdin, one a line
      --no-color          no colour

What it may do
  -y, --yes               allow bash, remote_bash and write without asking
      --mode MODE         one of `cluade modes`
      --plan              read only
      --tools LIST        only these tools (comma between)
      --deny LIST         never these tools
      --trust             trust this directory's .cluade/ from now on
      --subagent          unattended: --quiet --no-session, never asks
      --max-steps N       stop after N requests a turn
      --timeout S         stop after S seconds

Setup and other tasks
      --init              write a default config (never over an old one)
      --config PATH       this file in place of both config files
      --list-models       ask the API for its models
  -h, --help              this text
  -V, --version           version and capabilities

Debugging
      --show-tools-json   raw replies and decoded tool calls on stderr
      --record FILE       keep the API's replies in this file
      --replay FILE       answer from a recorded file, no network
";

/// Where the second column of [`OPTIONS`] begins.
pub const COLUMN: usize = 26;

/// The options in the order of [`OPTIONS`], by their long names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Opt {
    Model,
    BaseUrl,
    ApiKey,
    ApiKeyFile,
    Profile,
    Continue,
    Resume,
    NoSession,
    ListSessions,
    PruneSessions,
    File,
    Output,
    Extract,
    Quiet,
    Json,
    Repl,
    NoColor,
    Yes,
    Mode,
    Plan,
    Tools,
    Deny,
    Trust,
    Subagent,
    MaxSteps,
    Timeout,
    Init,
    Config,
    ListModels,
    Help,
    Version,
    ShowToolsJson,
    Record,
    Replay,
}

/// One option.
#[derive(Clone, Copy)]
pub struct Flag {
    /// Its place in the table, an [`Opt`].
    pub id: u8,
    /// Its letter; a blank when it has none.
    pub short: u8,
    /// Its name without the dashes.
    pub long: &'static str,
    /// The value's name; empty when it takes none. `N` and `S` are numbers, `PATH` and `FILE` may be any bytes.
    pub value: &'static str,
    /// One line of help.
    pub help: &'static str,
}

/// Numbers: the option, the least and the most.
pub static LIMITS: [(Opt, u32, u32); 3] = [
    (Opt::PruneSessions, 0, 36_500),
    (Opt::MaxSteps, 1, 1_000_000),
    (Opt::Timeout, 1, 31_536_000),
];

/// Pairs that contradict each other. Those at the end are tasks of their own.
pub static CONFLICTS: [(Opt, Opt); 18] = [
    (Opt::Continue, Opt::Resume),
    (Opt::ApiKey, Opt::ApiKeyFile),
    (Opt::Record, Opt::Replay),
    (Opt::Json, Opt::Quiet),
    (Opt::Json, Opt::Subagent),
    (Opt::Json, Opt::Extract),
    (Opt::Repl, Opt::Quiet),
    (Opt::Repl, Opt::Json),
    (Opt::Repl, Opt::Subagent),
    (Opt::Repl, Opt::Extract),
    (Opt::Repl, Opt::Output),
    (Opt::Plan, Opt::Mode),
    (Opt::ListSessions, Opt::Init),
    (Opt::PruneSessions, Opt::Init),
    (Opt::PruneSessions, Opt::ListSessions),
    (Opt::ListModels, Opt::Init),
    (Opt::ListModels, Opt::ListSessions),
    (Opt::ListModels, Opt::PruneSessions),
];

/// Every option in order.
pub struct Flags {
    rest: &'static str,
    id: u8,
}

/// All of them.
pub fn flags() -> Flags {
    Flags {
        rest: OPTIONS,
        id: 0,
    }
}

impl Iterator for Flags {
    type Item = Flag;

    #[inline(never)]
    fn next(&mut self) -> Option<Flag> {
        loop {
            let end = memchr::memchr(b'\n', self.rest.as_bytes())?;
            let (line, rest) = (self.rest.get(..end)?, self.rest.get(end + 1..)?);
            self.rest = rest;
            // The names are in one column, the help in another: `  -m, --model MODEL       …`.
            if line.get(6..8) != Some("--") {
                continue;
            }
            let name = line.get(8..COLUMN)?.trim_ascii_end();
            let long = name.get(..name.bytes().position(|b| b == b' ').unwrap_or(name.len()))?;
            let value = name.get(long.len()..)?.trim_ascii_start();
            let help = line.get(COLUMN..)?;
            let id = self.id;
            self.id += 1;
            return Some(Flag {
                id,
                short: *line.as_bytes().get(3)?,
                long,
                value,
                help,
            });
        }
    }
}

/// The name of an option.
pub fn name_of(option: Opt) -> &'static str {
    flags()
        .find(|f| f.id == option as u8)
        .map_or("", |f| f.long)
}
