//! Configuration: the fields and their defaults, the first config file, and whether there is a key to work with.
//! [`keys`] is the table of keys, [`load`](load::load) merges the sources.

pub mod keys;
pub mod load;

use crate::provider::transport::url::Url;
use crate::sys::fs;
use crate::tools::Level;
pub use load::{Loaded, load};

/// Where the API is unless configured.
pub const DEFAULT_BASE_URL: &str = "https://api.deepseek.com/v1";

/// The guard's deadline unless configured, in seconds.
pub const GUARD_SECONDS: u64 = 90;

/// Which key of the pool is taken next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyStrategy {
    /// The first one until it fails.
    FillFirst,
    /// Each in turn.
    RoundRobin,
    /// The one used least.
    LeastUsed,
}

/// A provider to turn to when the first one fails for good.
#[derive(Clone, PartialEq, Eq)]
pub struct Fallback {
    /// Where it is.
    pub base_url: String,
    /// Its model; empty keeps the first one's.
    pub model: String,
    /// Its key; empty sends none. The first provider's key never goes there.
    pub api_key: String,
}

/// What a model costs, in millionths of the currency's unit for a million tokens.
#[derive(Clone, PartialEq, Eq)]
pub struct Price {
    /// The model's id.
    pub model: String,
    /// Tokens sent.
    pub input: u64,
    /// Tokens received.
    pub output: u64,
    /// Tokens sent that came from the server's cache.
    pub cached: u64,
}

/// Everything that can be configured, with the defaults of the specification.
#[derive(Clone)]
pub struct Config {
    /// Where the API is; see [`crate::provider::request`] for the forms accepted.
    pub base_url: String,
    /// The model's id.
    pub model: String,
    /// Where the base URL came from, for messages: an option, a variable, a file's path; empty for the default.
    pub base_url_source: String,
    /// The key; empty sends no Authorization header.
    pub api_key: String,
    /// Where the key came from, for messages: `--api-key`, `OPENAI_API_KEY`, a file's path.
    pub api_key_source: String,
    /// Further keys of the pool.
    pub api_keys: Vec<String>,
    /// How the pool is used.
    pub key_strategy: KeyStrategy,
    /// Providers to turn to, in order.
    pub fallback: Vec<Fallback>,
    /// What models cost.
    pub prices: Vec<Price>,
    /// Requests in a turn.
    pub max_steps: u32,
    /// Tokens asked for in a reply; 0 leaves the field out.
    pub max_tokens: u64,
    /// Seconds a request may take in all.
    pub request_timeout: u64,
    /// Seconds without a byte before a request is given up.
    pub idle_timeout: u64,
    /// Seconds to wait for the network to come back; 0 gives up at once.
    pub offline_wait: u64,
    /// Ask for thinking.
    pub thinking: bool,
    /// How hard to think; empty leaves the field out.
    pub reasoning_effort: String,
    /// Ask for a stream.
    pub stream: bool,
    /// The context window in tokens.
    pub context_limit: u64,
    /// Thousandths of the window at which the model is nudged to compact.
    pub compact_threshold: u64,
    /// The model that writes summaries; empty means the same.
    pub compact_model: String,
    /// Tool names or patterns such as `bash(git log*)`, with levels, in the order given.
    pub permissions: Vec<(String, Level)>,
    /// Further regular expressions for the danger gate.
    pub danger_patterns: Vec<String>,
    /// Replace secrets by placeholders before anything leaves the device.
    pub redact: bool,
    /// Further environment variables no child may get.
    pub env_remove: Vec<String>,
    /// Directories outside of which nothing is written; empty means anywhere.
    pub roots: Vec<String>,
    /// Seconds until a change that can cut the device off is taken back unless confirmed; 0 turns the guard off.
    pub guard: u64,
    /// Identical calls in a row that count as a loop.
    pub repeat_threshold: u32,
    /// Errors in a row that count as a loop.
    pub error_threshold: u32,
    /// Seconds a bash command may take.
    pub bash_timeout: u64,
    /// Bytes of a tool result the model gets.
    pub tool_output_limit: usize,
    /// Seconds to wait for the first byte of a pipe on stdin; 0 waits for ever.
    pub stdin_wait: u64,
    /// Subagents that may run side by side.
    pub subagent_parallel: u32,
    /// Take the rules files of all directories above, not only the nearest.
    pub rules_all: bool,
    /// Short names for models.
    pub models: Vec<(String, String)>,
    /// Where sessions are kept instead of `sessions/` in the home directory.
    pub session_dir: Option<String>,
    /// Where typed lines are kept between runs; `None` keeps them in memory.
    pub history_file: Option<String>,
    /// Largest file a checkpoint copies, in bytes; `None` depends on the storage.
    pub checkpoint_max: Option<u64>,
    /// The search engine's URL; `None` means the built-in one.
    pub search_url: Option<String>,
    /// Colour is wanted, if the output is a terminal: neither `--no-color` nor `NO_COLOR` nor `TERM=dumb`.
    pub color: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            base_url: DEFAULT_BASE_URL.into(),
            model: "deepseek-v4-pro".into(),
            base_url_source: String::new(),
            api_key: String::new(),
            api_key_source: String::new(),
            api_keys: Vec::new(),
            key_strategy: KeyStrategy::FillFirst,
            fallback: Vec::new(),
            prices: Vec::new(),
            max_steps: 100,
            max_tokens: 131_072,
            request_timeout: 600,
            idle_timeout: 120,
            offline_wait: 0,
            thinking: true,
            reasoning_effort: "max".into(),
            stream: true,
            context_limit: 200_000,
            compact_threshold: 850,
            compact_model: String::new(),
            permissions: Vec::new(),
            danger_patterns: Vec::new(),
            redact: true,
            env_remove: Vec::new(),
            roots: Vec::new(),
            guard: GUARD_SECONDS,
            repeat_threshold: 3,
            error_threshold: 4,
            bash_timeout: 30,
            tool_output_limit: 16_000,
            stdin_wait: 60,
            subagent_parallel: 2,
            rules_all: false,
            models: Vec::new(),
            session_dir: None,
            history_file: None,
            checkpoint_max: None,
            search_url: None,
            color: true,
        }
    }
}

impl Config {
    /// The model id `name` stands for: an alias of `models`, or itself.
    pub fn resolve_model(&self, name: &str) -> String {
        let mut id = name;
        // Aliases may name aliases; a ring of them ends after as many steps as there are.
        for _ in 0..self.models.len() {
            match self.models.iter().find(|(alias, _)| alias == id) {
                Some((_, target)) => id = target,
                None => break,
            }
        }
        id.to_owned()
    }

    /// Whether there is any key for the first provider.
    pub fn has_key(&self) -> bool {
        !self.api_key.is_empty() || !self.api_keys.is_empty()
    }
}

/// The three lines to show when there is neither a key nor a local endpoint; `None` when there is one, or a base URL
/// that is wrong in a way the client names. `home` is the home directory, for the path of the file.
pub fn missing_key(config: &Config, home: Option<&[u8]>) -> Option<String> {
    let url = Url::parse(&config.base_url).ok()?;
    if config.has_key() || is_local_host(&url.host) {
        return None;
    }
    let home = home.unwrap_or(b"~/.cluade");
    Some(
        [
            "no API key for ",
            &config.base_url,
            ": export OPENAI_API_KEY=...\n\
             or put it as \"api_key\" into ",
            &String::from_utf8_lossy(home),
            "/config.json (cluade --init writes one)\n\
             or use a server that needs none: cluade --base-url http://192.168.1.10:11434/v1 -m MODEL\n",
        ]
        .concat(),
    )
}

/// Whether `host` is this device or one on its own network: loopback, private and link-local addresses, carrier-grade
/// NAT (overlay networks use it), names without a dot or of a local zone.
pub fn is_local_host(host: &str) -> bool {
    use std::net::{IpAddr, Ipv4Addr};
    let v4 = |a: Ipv4Addr| {
        let [b0, b1, ..] = a.octets();
        a.is_loopback() || a.is_private() || a.is_link_local() || (b0 == 100 && b1 & 0xC0 == 64)
    };
    let bare = host.split('%').next().unwrap_or(host);
    match bare.parse::<IpAddr>() {
        Ok(IpAddr::V4(a)) => v4(a),
        Ok(IpAddr::V6(a)) => {
            let first = a.segments()[0];
            a.is_loopback()
                || first & 0xFE00 == 0xFC00
                || first & 0xFFC0 == 0xFE80
                || a.to_ipv4_mapped().is_some_and(v4)
        }
        Err(_) => {
            let name = host.trim_end_matches('.').to_ascii_lowercase();
            let zones = [".localhost", ".local", ".lan", ".internal", ".home.arpa"];
            let numeric = name.bytes().all(|b| b.is_ascii_digit());
            !name.is_empty()
                && (!name.contains('.') && !numeric || zones.iter().any(|z| name.ends_with(z)))
        }
    }
}

/// The file `--init` writes: every key of the specification with its default.
pub const DEFAULT_FILE: &str = r#"{
  "base_url": "https://api.deepseek.com/v1",
  "model": "deepseek-v4-pro",
  "api_key": "",
  "max_steps": 100,
  "max_tokens": 131072,
  "request_timeout": 600,
  "thinking": true,
  "reasoning_effort": "max",
  "context_limit": 200000,
  "compact_threshold": 0.85,
  "permissions": {
    "bash": "allow",
    "remote_bash": "ask",
    "write": "allow"
  }
}
"#;

/// Makes the home directory, mode 0700, and what is above it; one that exists is left as it is.
///
/// # Errors
/// The system's.
pub fn make_home(home: &[u8]) -> std::io::Result<()> {
    if fs::is_dir(home) {
        return Ok(());
    }
    fs::private_dir(home)
}

/// Writes [`DEFAULT_FILE`] to `home`/config.json, readable by the user alone, and returns the path. An existing file is
/// never touched.
///
/// # Errors
/// What failed, with the path.
pub fn init(home: &[u8]) -> Result<Vec<u8>, String> {
    let path = fs::join(home, b"config.json");
    let say = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::AlreadyExists => [
            &String::from_utf8_lossy(&path),
            " exists and was left as it is",
        ]
        .concat(),
        _ => [&String::from_utf8_lossy(&path), ": ", &fs::os_text(&e)].concat(),
    };
    make_home(home).map_err(say)?;
    let mut file = fs::File::create_new(&path, 0o600).map_err(say)?;
    if let Err(e) = file
        .write(DEFAULT_FILE.as_bytes())
        .and_then(|()| file.sync())
    {
        // Ours, and cut short by a full disk: the next --init must find the place free.
        let _ = fs::remove(&path);
        return Err(say(e));
    }
    Ok(path)
}

#[cfg(test)]
mod tests;
