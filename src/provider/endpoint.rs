//! What a base URL and model turned out to need. Hosts known to be strict start with rules; the rest is learned from
//! refusals that name a field, and kept by [`super::memory`].

use super::Adapt;
use super::messages::REASONING;
use super::transport::url::cut;
use super::url::Base;
use crate::json::value::decimal;

/// Request fields an endpoint can do without.
const FIELDS: [&str; 5] = [
    "tool_choice",
    "thinking",
    "reasoning_effort",
    "max_tokens",
    "stream_options",
];
const THINKING: u8 = 1 << 1;
const EFFORT: u8 = 1 << 2;
const STREAM_OPTIONS: u8 = 1 << 4;

/// `max_completion_tokens` instead of `max_tokens`.
pub const NEW_MAX_TOKENS: u16 = 1;
/// `"content":null` instead of an empty string beside tool calls.
pub const NULL_CONTENT: u16 = 1 << 1;
/// Ids of calls are nine letters and digits.
pub const SHORT_IDS: u16 = 1 << 2;
/// A user message may not follow a tool's: one of the assistant goes between.
pub const BRIDGE: u16 = 1 << 3;
/// Streams are refused.
pub const NO_STREAM: u16 = 1 << 4;
/// The path lacks `/v1`.
pub const ADD_V1: u16 = 1 << 5;
/// No thinking in messages.
pub const STRIP: u16 = 1 << 6;
/// No opaque members in tool calls.
pub const STRIP_EXTRA: u16 = 1 << 7;
/// Thinking in every assistant message, be it empty.
pub const FILL: u16 = 1 << 8;
/// With [`FILL`]: the field is `reasoning`, else `reasoning_content`.
pub const FILL_REASONING: u16 = 1 << 9;
/// With [`FILL`]: a blank stands for missing thinking, an empty string counts as missing.
pub const BLANK_FILL: u16 = 1 << 10;
/// With [`FILL`]: thinking that came under another name is sent under this one.
pub const RENAME: u16 = 1 << 11;
/// `reasoning_effort` has no `max`.
pub const HIGH_EFFORT: u16 = 1 << 12;

/// How requests to an endpoint differ from the usual.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Fields left out, by their place in [`FIELDS`].
    drop: u8,
    flags: u16,
    /// The most tokens to ask for; 0: no limit known.
    max_tokens: u64,
}

/// Hosts known to be strict: the end of the host's name, the beginning of the model's (several separated by blanks),
/// fields dropped, flags. The first row that fits counts.
const KNOWN: [(&str, &str, u8, u16); 12] = [
    ("deepseek.com", "", 0, FILL),
    (
        "mistral.ai",
        "",
        THINKING | EFFORT | STREAM_OPTIONS,
        STRIP | SHORT_IDS | BRIDGE,
    ),
    ("groq.com", "", THINKING | EFFORT, STRIP),
    (
        "openai.com",
        "o1 o3 o4 gpt-5",
        THINKING,
        NEW_MAX_TOKENS | HIGH_EFFORT,
    ),
    ("openai.com", "", THINKING | EFFORT, 0),
    (
        "openai.azure.com",
        "o1 o3 o4 gpt-5",
        THINKING,
        NEW_MAX_TOKENS | HIGH_EFFORT,
    ),
    ("openai.azure.com", "", THINKING | EFFORT, 0),
    (
        "generativelanguage.googleapis.com",
        "",
        THINKING,
        HIGH_EFFORT,
    ),
    ("moonshot.ai", "", EFFORT, FILL | BLANK_FILL),
    ("moonshot.cn", "", EFFORT, FILL | BLANK_FILL),
    ("kimi.com", "", EFFORT, FILL | BLANK_FILL),
    ("cerebras.ai", "", THINKING, HIGH_EFFORT),
];

impl Rules {
    /// What is known of an endpoint beforehand. `thinking` says whether the configuration asks for it.
    pub fn known(base: &Base, model: &str, thinking: bool) -> Rules {
        let host = base.host();
        let mut rules = Rules::default();
        let row = KNOWN.iter().find(|(end, models, ..)| {
            host.strip_suffix(end)
                .is_some_and(|sub| sub.is_empty() || sub.ends_with('.'))
                && models.split(' ').any(|m| model.starts_with(m))
        });
        if let Some((_, _, drop, flags)) = row {
            (rules.drop, rules.flags) = (*drop, *flags);
        }
        let model = model.to_ascii_lowercase();
        if row.is_none() && memchr::memmem::find(model.as_bytes(), b"deepseek").is_some() {
            rules.flags |= FILL;
        }
        if !thinking {
            rules.flags &= !(FILL | BLANK_FILL);
        }
        rules
    }

    /// Whether one of `flags` is set.
    pub fn has(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }

    /// Sets `flags`.
    pub fn set(&mut self, flags: u16) {
        self.flags |= flags;
    }

    /// Whether the request field is sent at all.
    pub fn sends(&self, field: &str) -> bool {
        self.drop & bit(field) == 0
    }

    /// The tokens to ask for when the configuration says `wanted`; 0 leaves the field out.
    pub fn limit(&self, wanted: u64) -> u64 {
        if !self.sends("max_tokens") {
            return 0;
        }
        match self.max_tokens {
            0 => wanted,
            most if wanted == 0 => most,
            most => wanted.min(most),
        }
    }

    /// Takes over a change; false when it changes nothing: it was made already, or can't be made (a field no request
    /// does without).
    pub fn apply(&mut self, adapt: &Adapt) -> bool {
        self.recall(&word(adapt))
    }

    /// Takes over a change as [`word`] wrote it; a word of another version is passed over. False as [`Rules::apply`].
    pub fn recall(&mut self, word: &str) -> bool {
        let before = *self;
        let (verb, what) = cut(word, b" ");
        let what = what.get(1..).unwrap_or_default();
        match verb {
            "drop" => {
                // A refusal may name the member inside.
                let field = match cut(what, b".[").0 {
                    "include_usage" => "stream_options",
                    "type" => "thinking",
                    "max_completion_tokens" => "max_tokens",
                    other => other,
                };
                if field == "stream" {
                    self.flags |= NO_STREAM;
                }
                self.drop |= bit(field);
            }
            "rename" => self.flags |= NEW_MAX_TOKENS,
            "limit" => {
                let n = decimal(what.as_bytes(), 0).unwrap_or(0);
                if n > 0 && (self.max_tokens == 0 || n < self.max_tokens) {
                    self.max_tokens = n;
                }
            }
            "add" if REASONING.contains(&what) => {
                let mut wanted = FILL | RENAME;
                if what == REASONING[1] {
                    wanted |= FILL_REASONING;
                }
                // Asked for again although it is there: an empty one counts as missing.
                if self.flags & (FILL | FILL_REASONING) == wanted & !RENAME {
                    wanted |= BLANK_FILL;
                }
                self.flags = self.flags & !(STRIP | FILL_REASONING) | wanted;
            }
            "strip" if what == "extra_content" => self.flags |= STRIP_EXTRA,
            "strip" if what.starts_with("reasoning") => {
                self.flags &= !(FILL | FILL_REASONING | BLANK_FILL | RENAME);
                self.flags |= STRIP;
            }
            "null" => self.flags |= NULL_CONTENT,
            "path" => self.flags |= ADD_V1,
            _ => {}
        }
        *self != before
    }
}

/// The bit of a request field in [`Rules::drop`], 0 when no request does without it.
fn bit(field: &str) -> u8 {
    match FIELDS.iter().position(|f| *f == field) {
        Some(i) => 1 << i,
        None => 0,
    }
}

/// The change of a path that lacked its version, in the spelling of [`word`].
pub const PATH_V1: &str = "path /v1";

/// A change as it is kept and told: `drop thinking`, `limit 8192`.
pub fn word(adapt: &Adapt) -> String {
    let number;
    let (verb, what) = match adapt {
        Adapt::DropField(f) => ("drop ", f.as_str()),
        Adapt::RenameMaxTokens => ("rename ", "max_tokens"),
        Adapt::MaxTokens(n) => {
            number = super::attempt::dec(*n);
            ("limit ", number.as_str())
        }
        Adapt::AddMessageField(f) => ("add ", f.as_str()),
        Adapt::StripMessageField(f) => ("strip ", f.as_str()),
        Adapt::NullContent => ("null ", "content"),
    };
    [verb, what].concat()
}

/// The name of an endpoint as sessions keep it: base URL, blank, model.
pub fn name(base: &Base, model: &str) -> String {
    [&base.name(), " ", model].concat()
}

/// The number of the endpoint of that [`name`], for [`super::messages::Message::origin`]: a hash (FNV-1a), never 0 but
/// for an empty name.
pub fn origin(name: &str) -> u32 {
    if name.is_empty() {
        return 0;
    }
    let mut hash: u32 = 0x811c_9dc5;
    for b in name.bytes() {
        hash = (hash ^ u32::from(b)).wrapping_mul(0x0100_0193);
    }
    hash.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(url: &str) -> Base {
        Base::parse(url).unwrap()
    }

    #[test]
    fn hosts_and_models() {
        for (url, model, thinking, has, has_not) in [
            ("https://api.deepseek.com", "x", true, FILL, STRIP),
            ("https://api.deepseek.com", "x", false, 0, FILL),
            ("http://10.0.0.2:8000/v1", "DeepSeek-V4", true, FILL, RENAME),
            (
                "https://api.groq.com/openai/v1",
                "deepseek-r1",
                true,
                STRIP,
                FILL,
            ),
            ("https://api.mistral.ai/v1", "x", true, SHORT_IDS, FILL),
            (
                "https://api.moonshot.ai/v1",
                "kimi-k2.6",
                true,
                BLANK_FILL,
                0,
            ),
            (
                "https://api.openai.com/v1",
                "o3-mini",
                true,
                NEW_MAX_TOKENS,
                0,
            ),
            (
                "https://api.openai.com/v1",
                "gpt-4o",
                true,
                0,
                NEW_MAX_TOKENS,
            ),
            (
                "https://x.openai.azure.com",
                "gpt-5",
                true,
                NEW_MAX_TOKENS,
                0,
            ),
            ("https://fakegroq.com/v1", "x", true, 0, STRIP),
        ] {
            let rules = Rules::known(&base(url), model, thinking);
            assert!(has == 0 || rules.has(has), "{url} {model}");
            assert!(!rules.has(has_not), "{url} {model}");
        }
    }

    #[test]
    fn limits_only_go_down() {
        let mut rules = Rules::default();
        assert_eq!((rules.limit(0), rules.limit(100)), (0, 100));
        assert!(rules.apply(&Adapt::MaxTokens(50)));
        assert!(!rules.apply(&Adapt::MaxTokens(60)));
        assert!(!rules.apply(&Adapt::MaxTokens(0)));
        assert_eq!(
            (rules.limit(0), rules.limit(100), rules.limit(40)),
            (50, 50, 40)
        );
    }

    #[test]
    fn origins_differ() {
        let o = |url, model| origin(&name(&base(url), model));
        let first = o("https://h/v1", "m");
        assert_eq!(first, o("https://H/v1/", "m"));
        assert_eq!(first, origin("https://h/v1 m"));
        assert_eq!(origin(""), 0);
        assert!(first != o("https://h/v1", "n") && first != o("https://h/v2", "m") && first != 0);
    }
}
