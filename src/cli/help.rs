//! The texts of `--help` and `--version`.

use super::flags::OPTIONS;
use super::words::Word;

/// What follows the reserved words.
const REST: &str = "
Words that are no prompt
  sessions [list]         saved sessions, as --list-sessions
  sessions prune DAYS     as --prune-sessions
  modes                   the modes and their tools
  Reserved for later: checkpoint rules skill marketplace mcp doctor

Environment
  OPENAI_API_KEY          API key; ANTHROPIC_API_KEY for a base URL of your own
  CLUADE_BASE_URL         base URL, else OPENAI_BASE_URL
  CLUADE_MODEL            model
  CLUADE_HOME             config and sessions, default ~/.cluade
  NO_COLOR                no colour

Exit status
  0 finished   1 failed   2 usage or configuration   3 stopped at a limit
  4 finished, but a call nobody was there to approve was refused
  130, 143 ended by a signal

Examples
  cluade \"why does wlan0 not come up?\"
  logread | cluade -q \"what failed?\" >report.txt
  cluade --base-url http://192.168.1.10:11434/v1 -m qwen3 -c
";

/// The text of `--help`: at most 80 columns.
pub fn help() -> Vec<u8> {
    let mut out = OPTIONS.as_bytes().to_vec();
    out.extend_from_slice(REST.as_bytes());
    out
}

/// Appends the verbs of `word`, a space between.
pub fn push_verbs(out: &mut Vec<u8>, word: &Word) {
    for (i, verb) in word.verbs.iter().enumerate() {
        if i > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(verb.name.as_bytes());
    }
}

/// The text of `--version`: version, machine and how HTTPS is done.
pub fn version() -> Vec<u8> {
    let end = match (cfg!(target_endian = "big"), cfg!(feature = "tls")) {
        (true, true) => " big-endian, HTTPS built in)\n",
        (false, true) => ", HTTPS built in)\n",
        (true, false) => " big-endian, HTTPS by curl, uclient-fetch or wget)\n",
        (false, false) => ", HTTPS by curl, uclient-fetch or wget)\n",
    };
    let start = concat!("cluade ", env!("CARGO_PKG_VERSION"), " (");
    [start, std::env::consts::ARCH, end].concat().into_bytes()
}
