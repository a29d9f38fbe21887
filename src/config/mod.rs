//! Configuration: the fields and their defaults, the first config file, and whether there is a key to work with.
//! [`keys`] is the table of keys, [`load`](load::load) merges the sources.

pub mod keys;
pub mod load;

use crate::provider::transport::url::Url;
use crate::sys::fs;
use crate::text::{filled, whole};
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
    /// Where sessions are kept instead of `sessions/` in the home directory; empty is there.
    pub session_dir: String,
    /// Where typed lines are kept between runs; empty keeps them in memory.
    pub history_file: String,
    /// Largest file a checkpoint copies, in bytes; [`u64::MAX`] leaves it to the storage.
    pub checkpoint_max: u64,
    /// The search engine's URL; empty means the built-in one.
    pub search_url: String,
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
            session_dir: String::new(),
            history_file: String::new(),
            checkpoint_max: u64::MAX,
            search_url: String::new(),
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
pub fn missing_key(config: &Config, home: Option<&[u8]>) -> Option<Vec<u8>> {
    let url = Url::parse(&config.base_url).ok()?;
    if config.has_key() || is_local_host(&url.host) {
        return None;
    }
    Some(filled(
        "no API key for %: export OPENAI_API_KEY=...\n\
         or put it as \"api_key\" into %/config.json (cluade --init writes one)\n\
         or use a server that needs none: cluade --base-url http://192.168.1.10:11434/v1 -m MODEL\n",
        &[config.base_url.as_bytes(), home.unwrap_or(b"~/.cluade")],
    ))
}

/// Whether `host` is this device or one on its own network: loopback, private and link-local addresses, carrier-grade
/// NAT (overlay networks use it), names without a dot or of a local zone.
pub fn is_local_host(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    let host = host.as_bytes();
    if let Some(colon) = memchr::memrchr(b':', host) {
        let (front, last) = host.split_at(colon + 1);
        let zeros = |text: &[u8]| text.iter().all(|b| b"0:".contains(b));
        if last.contains(&b'.') {
            let mapped = front.strip_suffix(b"ffff:");
            return mapped.is_some_and(zeros) && v4(last).is_some_and(is_local_v4);
        }
        // Unique local fc00::/7, link-local fe80::/10, loopback ::1.
        return match host.split(|&b| b == b':').next() {
            Some([b'f', b'c' | b'd', _, _] | [b'f', b'e', b'8'..=b'b', _]) => true,
            _ => zeros(front) && last.strip_suffix(b"1").is_some_and(zeros),
        };
    }
    if let Some(address) = v4(host) {
        return is_local_v4(address);
    }
    let name = host.strip_suffix(b".").unwrap_or(host);
    let zones = b".localhost .local .lan .internal .home.arpa";
    let plain = !name.contains(&b'.') && !name.iter().all(u8::is_ascii_digit);
    plain || zones.split(|&b| b == b' ').any(|z| name.ends_with(z))
}

/// A dotted address.
fn v4(text: &[u8]) -> Option<[u8; 4]> {
    let mut parts = text.split(|&b| b == b'.');
    let mut out = [0; 4];
    for octet in &mut out {
        let part = parts.next()?;
        // A zero in front is octal to some.
        if part.len() > 1 && part.first() == Some(&b'0') {
            return None;
        }
        *octet = u8::try_from(whole(part)?).ok()?;
    }
    parts.next().is_none().then_some(out)
}

fn is_local_v4(address: [u8; 4]) -> bool {
    matches!(
        address,
        [10 | 127, ..] | [172, 16..=31, ..] | [192, 168, ..] | [169, 254, ..] | [100, 64..=127, ..]
    )
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
pub fn init(home: &[u8]) -> Result<Vec<u8>, Vec<u8>> {
    let path = fs::join(home, b"config.json");
    match write_default(home, &path) {
        Ok(()) => Ok(path),
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(filled("% exists and was left as it is", &[&path]))
        }
        Err(e) => Err(filled("%: %", &[&path, fs::os_text(&e).as_bytes()])),
    }
}

fn write_default(home: &[u8], path: &[u8]) -> std::io::Result<()> {
    make_home(home)?;
    let mut file = fs::File::create_new(path, 0o600)?;
    let written = file.write(DEFAULT_FILE.as_bytes());
    let result = written.and_then(|()| file.sync());
    if result.is_err() {
        // Ours, and cut short by a full disk: the next --init must find the place free.
        let _ = fs::remove(path);
    }
    result
}

#[cfg(test)]
mod tests;
