//! Configuration. To be filled: loading, merging, ranges.

use crate::tools::Level;

/// Everything that can be configured, with the defaults of the specification.
#[derive(Clone)]
pub struct Config {
    /// Where the API is; see [`crate::provider::request`] for the forms accepted.
    pub base_url: String,
    /// The model's id.
    pub model: String,
    /// The key; empty sends no Authorization header.
    pub api_key: String,
    /// Where the key came from, for messages: `--api-key`, `OPENAI_API_KEY`, a file's path.
    pub api_key_source: String,
    /// Further keys of the pool.
    pub api_keys: Vec<String>,
    /// Requests in a turn.
    pub max_steps: u32,
    /// Tokens asked for in a reply; 0 leaves the field out.
    pub max_tokens: u64,
    /// Seconds a request may take in all.
    pub request_timeout: u64,
    /// Seconds without a byte before a request is given up.
    pub idle_timeout: u64,
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
    /// Tool names or patterns such as `bash(git log*)`, with levels, in the order given.
    pub permissions: Vec<(String, Level)>,
    /// Further regular expressions for the danger gate.
    pub danger_patterns: Vec<String>,
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
    /// Short names for models.
    pub models: Vec<(String, String)>,
    /// Where sessions are kept instead of `sessions/` in the home directory.
    pub session_dir: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            base_url: "https://api.deepseek.com/v1".into(),
            model: "deepseek-v4-pro".into(),
            api_key: String::new(),
            api_key_source: String::new(),
            api_keys: Vec::new(),
            max_steps: 100,
            max_tokens: 131_072,
            request_timeout: 600,
            idle_timeout: 120,
            thinking: true,
            reasoning_effort: "max".into(),
            stream: true,
            context_limit: 200_000,
            compact_threshold: 850,
            permissions: Vec::new(),
            danger_patterns: Vec::new(),
            repeat_threshold: 3,
            error_threshold: 4,
            bash_timeout: 30,
            tool_output_limit: 16_000,
            stdin_wait: 60,
            models: Vec::new(),
            session_dir: None,
        }
    }
}
