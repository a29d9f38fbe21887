//! What a base URL and model turned out to need. Hosts known to be strict start with rules; the rest is learned from
//! refusals that name a field, and kept with date and cause in `endpoints.json` of the home directory.

use super::Adapt;
use super::messages::REASONING;
use super::url::Base;
use crate::json::{self, Writer};
use crate::sys::time;
use crate::text::push_dec;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

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
        let deepseek = memchr::memmem::find(model.to_ascii_lowercase().as_bytes(), b"deepseek");
        if deepseek.is_some() && row.is_none() {
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
        FIELDS
            .iter()
            .position(|f| *f == field)
            .is_none_or(|i| self.drop >> i & 1 == 0)
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
        let before = *self;
        match adapt {
            Adapt::DropField(field) => {
                let field = field.split(['.', '[']).next().unwrap_or_default();
                match FIELDS.iter().position(|f| *f == field) {
                    Some(i) => self.drop |= 1 << i,
                    None if field == "stream" => self.flags |= NO_STREAM,
                    None if field == "max_completion_tokens" => self.drop |= 1 << 3,
                    None => {}
                }
            }
            Adapt::RenameMaxTokens => self.flags |= NEW_MAX_TOKENS,
            Adapt::MaxTokens(n) => {
                if *n > 0 && (self.max_tokens == 0 || *n < self.max_tokens) {
                    self.max_tokens = *n;
                }
            }
            Adapt::AddMessageField(field) => {
                if let Some(i) = REASONING.iter().position(|f| f == field) {
                    let wanted = FILL | RENAME | if i == 1 { FILL_REASONING } else { 0 };
                    // Asked for again although it is there: an empty one counts as missing.
                    let again = self.flags & (FILL | FILL_REASONING) == wanted & !RENAME;
                    self.flags &= !(STRIP | FILL_REASONING);
                    self.flags |= wanted | if again { BLANK_FILL } else { 0 };
                }
            }
            Adapt::StripMessageField(field) => match field.as_str() {
                "extra_content" => self.flags |= STRIP_EXTRA,
                f if f.starts_with("reasoning") => {
                    self.flags &= !(FILL | FILL_REASONING | BLANK_FILL | RENAME);
                    self.flags |= STRIP;
                }
                _ => {}
            },
            Adapt::NullContent => self.flags |= NULL_CONTENT,
        }
        *self != before
    }

    /// Takes over a change as [`word`] wrote it; a word of another version is passed over.
    fn recall(&mut self, word: &str) {
        let (verb, what) = word.split_once(' ').unwrap_or((word, ""));
        let adapt = match verb {
            "drop" => Adapt::DropField(what.into()),
            "rename" => Adapt::RenameMaxTokens,
            "limit" => Adapt::MaxTokens(what.parse().unwrap_or(0)),
            "add" => Adapt::AddMessageField(what.into()),
            "strip" => Adapt::StripMessageField(what.into()),
            "null" => Adapt::NullContent,
            "path" => return self.set(ADD_V1),
            _ => return,
        };
        self.apply(&adapt);
    }
}

/// The change of a path that lacked its version, in the spelling of [`word`].
pub const PATH_V1: &str = "path /v1";

/// A change as it is kept and told: `drop thinking`, `limit 8192`.
pub fn word(adapt: &Adapt) -> String {
    let (verb, what) = match adapt {
        Adapt::DropField(f) => ("drop ", f.as_str()),
        Adapt::RenameMaxTokens => ("rename ", "max_tokens"),
        Adapt::MaxTokens(n) => {
            let mut out = b"limit ".to_vec();
            push_dec(&mut out, *n);
            return String::from_utf8(out).unwrap_or_default();
        }
        Adapt::AddMessageField(f) => ("add ", f.as_str()),
        Adapt::StripMessageField(f) => ("strip ", f.as_str()),
        Adapt::NullContent => ("null ", "content"),
    };
    [verb, what].concat()
}

/// Names an endpoint in stored messages: a hash (FNV-1a) of base URL and model, never 0.
pub fn origin(base: &Base, model: &str) -> u32 {
    let mut hash: u32 = 0x811c_9dc5;
    for b in base.name().bytes().chain([b'\n']).chain(model.bytes()) {
        hash = (hash ^ u32::from(b)).wrapping_mul(0x0100_0193);
    }
    hash.max(1)
}

/// Bytes of `endpoints.json` read at most, endpoints kept, changes kept of one.
const MAX_FILE: u64 = 64 * 1024;
const MAX_ENDPOINTS: usize = 50;
const MAX_CHANGES: usize = 16;

/// The file of learned changes. It is a convenience: when it can't be read, everything is learned again.
pub struct Memory {
    path: Option<PathBuf>,
}

impl Memory {
    /// The file in the directory `home`; without one nothing is kept.
    pub fn new(home: Option<&[u8]>) -> Memory {
        let path = |h| PathBuf::from(OsStr::from_bytes(h)).join("endpoints.json");
        Memory {
            path: home.map(path),
        }
    }

    fn read(&self) -> Vec<u8> {
        let mut text = Vec::new();
        if let Some(path) = &self.path
            && let Ok(file) = std::fs::File::open(path)
            && file.take(MAX_FILE).read_to_end(&mut text).is_ok()
            && json::parse(&text).is_ok()
        {
            return text;
        }
        Vec::new()
    }

    /// Applies to `rules` what was learned of an endpoint.
    pub fn recall(&self, base: &Base, model: &str, rules: &mut Rules) {
        let text = self.read();
        let name = base.name();
        for endpoint in endpoints(&text) {
            if is(endpoint, &name, model)
                && let Some(changes) = endpoint.get("changes")
            {
                for change in changes.items().take(MAX_CHANGES) {
                    if let Some(word) = change.get_string("change") {
                        rules.recall(&word);
                    }
                }
            }
        }
    }

    /// Adds changes, each with its cause, to what is kept of an endpoint.
    ///
    /// # Errors
    /// One line with the path when the file can't be written.
    pub fn learn(
        &self,
        base: &Base,
        model: &str,
        changes: &[(String, String)],
    ) -> Result<(), String> {
        self.update(base, model, Some(changes)).map(|_| ())
    }

    /// Forgets what was learned of an endpoint; whether there was anything.
    ///
    /// # Errors
    /// One line with the path when the file can't be written.
    pub fn forget(&self, base: &Base, model: &str) -> Result<bool, String> {
        self.update(base, model, None)
    }

    fn update(
        &self,
        base: &Base,
        model: &str,
        changes: Option<&[(String, String)]>,
    ) -> Result<bool, String> {
        let Some(path) = &self.path else {
            return Ok(false);
        };
        let old = self.read();
        let name = base.name();
        let kept = endpoints(&old).filter(|e| !is(*e, &name, model));
        let ours = endpoints(&old).find(|e| is(*e, &name, model));
        if changes.is_none() && ours.is_none() {
            return Ok(false);
        }
        let mut w = Writer::new();
        w.open(b'{')
            .key("version")
            .num(1)
            .key("endpoints")
            .open(b'[');
        // The one learned last stands first, so that the cut at the end loses the oldest.
        if let Some(changes) = changes {
            w.out.push(b'\n');
            w.open(b'{').key("base_url").str(&name);
            w.key("model").str(model).key("changes").open(b'[');
            let before = ours.and_then(|o| o.get("changes"));
            let before = before.iter().flat_map(|c| c.items());
            let room = MAX_CHANGES.saturating_sub(changes.len());
            for change in before.take(room) {
                w.raw(change.raw());
            }
            let date = today();
            for (change, cause) in changes {
                w.open(b'{').key("change").str(change);
                w.key("date").str(&date).key("cause").str(clip(cause));
                w.close(b'}');
            }
            w.close(b']').close(b'}');
        }
        for endpoint in kept.take(MAX_ENDPOINTS) {
            w.raw(endpoint.raw());
        }
        w.close(b']').close(b'}');
        w.out.push(b'\n');
        match replace(path, &w.out) {
            Ok(()) => Ok(true),
            Err(e) => Err(format!("{} can't be written: {e}", path.display())),
        }
    }
}

fn endpoints(text: &[u8]) -> impl Iterator<Item = json::Value<'_>> {
    let list = json::value::checked(text).get("endpoints");
    list.into_iter().flat_map(|l| l.items())
}

fn is(endpoint: json::Value, name: &str, model: &str) -> bool {
    let equal = |key, value| {
        endpoint
            .get(key)
            .and_then(|v| v.text())
            .is_some_and(|t| t.is(value))
    };
    equal("base_url", name) && equal("model", model)
}

/// The cause's beginning: enough to judge by, however much the server said.
fn clip(cause: &str) -> &str {
    let mut end = cause.len().min(200);
    while !cause.is_char_boundary(end) {
        end -= 1;
    }
    cause.get(..end).unwrap_or_default()
}

fn today() -> Vec<u8> {
    let t = time::local(time::unix_seconds());
    let mut out = Vec::new();
    push_dec(&mut out, u64::from(t.year));
    for n in [t.month, t.day] {
        out.push(b'-');
        if n < 10 {
            out.push(b'0');
        }
        push_dec(&mut out, u64::from(n));
    }
    out
}

/// Puts `bytes` in the place of `path` in one step, readable for the owner alone.
fn replace(path: &std::path::Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(home) = path.parent()
        && !home.exists()
    {
        std::fs::DirBuilder::new().mode(0o700).create(home)?;
    }
    let mut name = b"json.".to_vec();
    push_dec(&mut name, u64::from(std::process::id()));
    let temp = path.with_extension(OsStr::from_bytes(&name));
    // What an earlier process with our number left behind is of no use.
    let _ = std::fs::remove_file(&temp);
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temp)
        .and_then(|mut f| f.write_all(bytes))
        .and_then(|()| std::fs::rename(&temp, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temp);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    struct Home(PathBuf);

    impl Home {
        fn new(name: &str) -> Home {
            let dir = format!("cluade-endpoint-{}-{name}", std::process::id());
            let dir = std::env::temp_dir().join(dir);
            let _ = std::fs::remove_dir_all(&dir);
            Home(dir)
        }

        fn memory(&self) -> Memory {
            Memory::new(Some(self.0.as_os_str().as_bytes()))
        }

        fn file(&self) -> PathBuf {
            self.0.join("endpoints.json")
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn base(url: &str) -> Base {
        Base::parse(url).unwrap()
    }

    fn changes(words: &[&str]) -> Vec<(String, String)> {
        let pair = |w: &&str| (w.to_string(), "HTTP 400: \"no\"".to_string());
        words.iter().map(pair).collect()
    }

    #[test]
    fn what_was_learned_is_there_after_a_restart() {
        let home = Home::new("restart");
        let (b, other) = (base("http://h:1/v1?key=secret"), base("http://h:2/v1"));
        let all = [
            Adapt::DropField("thinking".into()),
            Adapt::RenameMaxTokens,
            Adapt::MaxTokens(8192),
            Adapt::StripMessageField("reasoning".into()),
            Adapt::AddMessageField("reasoning".into()),
            Adapt::AddMessageField("reasoning".into()),
            Adapt::StripMessageField("extra_content".into()),
            Adapt::NullContent,
            Adapt::DropField("stream".into()),
        ];
        let mut wanted = Rules::default();
        for adapt in &all {
            assert!(wanted.apply(adapt), "{}", word(adapt));
            home.memory()
                .learn(&b, "m", &changes(&[&word(adapt)]))
                .unwrap();
        }
        home.memory().learn(&b, "m", &changes(&[PATH_V1])).unwrap();
        home.memory()
            .learn(&other, "m", &changes(&["drop thinking"]))
            .unwrap();
        wanted.set(ADD_V1);

        let recalled = |b: &Base, model: &str| {
            let mut rules = Rules::default();
            home.memory().recall(b, model, &mut rules);
            rules
        };
        assert_eq!(recalled(&b, "m"), wanted);
        assert_eq!(recalled(&b, "m2"), Rules::default());
        assert!(!recalled(&other, "m").sends("thinking"));

        let text = std::fs::read_to_string(home.file()).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["endpoints"][1]["base_url"], "http://h:1/v1");
        assert!(!text.contains("secret"));
        let change = &value["endpoints"][0]["changes"][0];
        assert_eq!(change["cause"], "HTTP 400: \"no\"");
        assert_eq!(change["date"].as_str().unwrap().len(), 10);
        let mode = |p| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(home.file()), mode(home.0.clone())), (0o600, 0o700));
        assert_eq!(std::fs::read_dir(&home.0).unwrap().count(), 1);

        assert!(home.memory().forget(&b, "m").unwrap());
        assert!(!home.memory().forget(&b, "m").unwrap());
        assert_eq!(recalled(&b, "m"), Rules::default());
        assert!(!recalled(&other, "m").sends("thinking"));
    }

    #[test]
    fn a_broken_file_is_as_good_as_none() {
        let home = Home::new("broken");
        let b = base("http://h/v1");
        std::fs::create_dir(&home.0).unwrap();
        for text in [
            "",
            "{",
            "[]",
            "null",
            r#"{"endpoints":3}"#,
            r#"{"endpoints":[1,{"base_url":"http://h/v1","model":"m","changes":[3,{"change":"fly"},{"change":"limit x"},{"change":"drop model"}]}]}"#,
        ] {
            std::fs::write(home.file(), text).unwrap();
            let mut rules = Rules::default();
            home.memory().recall(&b, "m", &mut rules);
            assert_eq!(rules, Rules::default(), "{text}");
            home.memory()
                .learn(&b, "m", &changes(&["drop thinking"]))
                .unwrap();
            home.memory().recall(&b, "m", &mut rules);
            assert!(!rules.sends("thinking"), "{text}");
        }
    }

    #[test]
    fn a_file_that_can_not_be_written_is_an_error_with_its_path() {
        let home = Home::new("unwritable");
        std::fs::write(&home.0, "a file in the place of the directory").unwrap();
        let e = home
            .memory()
            .learn(&base("http://h"), "m", &changes(&["drop thinking"]))
            .unwrap_err();
        assert!(e.contains("endpoints.json"), "{e}");
        let _ = std::fs::remove_file(&home.0);
        let none = Memory::new(None);
        assert_eq!(none.learn(&base("http://h"), "m", &changes(&["x"])), Ok(()));
    }

    #[test]
    fn the_file_stays_small() {
        let home = Home::new("small");
        let long = vec![("drop thinking".to_string(), "é".repeat(10_000))];
        for i in 0..MAX_ENDPOINTS + 10 {
            let b = base(&format!("http://h{i}/v1"));
            for _ in 0..3 {
                home.memory().learn(&b, "m", &long).unwrap();
            }
        }
        for _ in 0..MAX_CHANGES + 5 {
            home.memory().learn(&base("http://x"), "m", &long).unwrap();
        }
        let size = std::fs::metadata(home.file()).unwrap().len();
        assert!(size < MAX_FILE, "{size}");
        let mut rules = Rules::default();
        home.memory()
            .recall(&base("http://h59/v1"), "m", &mut rules);
        assert!(!rules.sends("thinking"));
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
        let o = |url, model| origin(&base(url), model);
        let first = o("https://h/v1", "m");
        assert_eq!(first, o("https://H/v1/", "m"));
        assert!(first != o("https://h/v1", "n") && first != o("https://h/v2", "m") && first != 0);
    }
}
