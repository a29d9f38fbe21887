//! The table of configuration keys, and how a JSON object of them is laid over a [`Config`].

use super::{Config, Fallback, KeyStrategy, Price};
use crate::json::value::decimal;
use crate::json::{Kind as Json, Value, parse};
use crate::text::nearest;
use crate::tools::{Level, TOOLS};

/// A number field of [`Config`].
pub enum Num<'a> {
    /// 32 bits.
    Small(&'a mut u32),
    /// 64 bits.
    Large(&'a mut u64),
    /// A size in memory.
    Size(&'a mut usize),
    /// May be left to the program.
    Maybe(&'a mut Option<u64>),
}

impl Num<'_> {
    fn get(&self) -> Option<u64> {
        match self {
            Num::Small(n) => Some(u64::from(**n)),
            Num::Large(n) => Some(**n),
            Num::Size(n) => Some(**n as u64),
            Num::Maybe(n) => **n,
        }
    }

    /// Limits of the table keep `value` inside the field's type.
    fn set(self, value: u64) {
        match self {
            Num::Small(n) => *n = u32::try_from(value).unwrap_or(u32::MAX),
            Num::Large(n) => *n = value,
            Num::Size(n) => *n = usize::try_from(value).unwrap_or(usize::MAX),
            Num::Maybe(n) => *n = Some(value),
        }
    }
}

/// What a key holds.
enum Kind {
    /// Text that may not be empty.
    Name(fn(&mut Config) -> &mut String),
    /// Text.
    Text(fn(&mut Config) -> &mut String),
    /// Text; empty means unset.
    MaybeText(fn(&mut Config) -> &mut Option<String>),
    /// `true` or `false`
    Flag(fn(&mut Config) -> &mut bool),
    /// A whole number between two limits.
    Number(fn(&mut Config) -> Num<'_>, u64, u64),
    /// A list of texts that replaces the one of the layer below; a lone text counts as a list.
    Texts(fn(&mut Config) -> &mut Vec<String>),
    /// The same, but added to the layer below: what protects can't be taken away by a later file.
    MoreTexts(fn(&mut Config) -> &mut Vec<String>),
    /// One of some words.
    Choice(&'static [&'static str], fn(&mut Config, usize)),
    /// Whatever needs its own reader.
    Own(fn(&mut Layer, &Key, Value)),
    /// Read by another part of the program straight from the file, or by none in this build.
    Elsewhere,
}

/// One key.
pub struct Key {
    /// Its name in the file.
    pub name: &'static str,
    kind: Kind,
}

const fn key(name: &'static str, kind: Kind) -> Key {
    Key { name, kind }
}

const DAY: u64 = 86_400;

/// Every key.
#[rustfmt::skip]
pub static KEYS: &[Key] = &[
    key("base_url", Kind::Own(base_url)),
    key("model", Kind::Name(|c| &mut c.model)),
    key("api_key", Kind::Own(api_key)),
    key("api_keys", Kind::Texts(|c| &mut c.api_keys)),
    key("key_strategy", Kind::Choice(&["fill_first", "round_robin", "least_used"], |c, i| {
        c.key_strategy = match i {
            1 => KeyStrategy::RoundRobin,
            2 => KeyStrategy::LeastUsed,
            _ => KeyStrategy::FillFirst,
        };
    })),
    key("fallback", Kind::Own(fallback)),
    key("models", Kind::Own(models)),
    key("profiles", Kind::Elsewhere),
    key("prices", Kind::Own(prices)),
    key("max_steps", Kind::Number(|c| Num::Small(&mut c.max_steps), 1, 1_000_000)),
    key("max_tokens", Kind::Number(|c| Num::Large(&mut c.max_tokens), 0, 100_000_000)),
    key("request_timeout", Kind::Number(|c| Num::Large(&mut c.request_timeout), 1, DAY)),
    key("idle_timeout", Kind::Number(|c| Num::Large(&mut c.idle_timeout), 1, DAY)),
    key("offline_wait", Kind::Number(|c| Num::Large(&mut c.offline_wait), 0, DAY)),
    key("thinking", Kind::Own(|layer, _, value| layer.config.thinking = value.bool() != Some(false))),
    key("reasoning_effort", Kind::Text(|c| &mut c.reasoning_effort)),
    key("stream", Kind::Flag(|c| &mut c.stream)),
    key("context_limit", Kind::Number(|c| Num::Large(&mut c.context_limit), 1_000, 100_000_000)),
    key("compact_threshold", Kind::Own(compact_threshold)),
    key("compact_model", Kind::Text(|c| &mut c.compact_model)),
    key("permissions", Kind::Own(permissions)),
    key("danger_patterns", Kind::MoreTexts(|c| &mut c.danger_patterns)),
    key("redact", Kind::Flag(|c| &mut c.redact)),
    key("env_remove", Kind::MoreTexts(|c| &mut c.env_remove)),
    key("roots", Kind::Texts(|c| &mut c.roots)),
    key("guard", Kind::Own(guard)),
    key("repeat_threshold", Kind::Number(|c| Num::Small(&mut c.repeat_threshold), 2, 1_000)),
    key("error_threshold", Kind::Number(|c| Num::Small(&mut c.error_threshold), 1, 1_000)),
    key("bash_timeout", Kind::Number(|c| Num::Large(&mut c.bash_timeout), 1, DAY)),
    key("tool_output_limit", Kind::Number(|c| Num::Size(&mut c.tool_output_limit), 1_000, 1_000_000)),
    key("stdin_wait", Kind::Number(|c| Num::Large(&mut c.stdin_wait), 0, DAY)),
    key("subagent_parallel", Kind::Number(|c| Num::Small(&mut c.subagent_parallel), 1, 16)),
    key("rules", Kind::Choice(&["nearest", "all"], |c, i| c.rules_all = i == 1)),
    key("session_dir", Kind::MaybeText(|c| &mut c.session_dir)),
    key("history_file", Kind::MaybeText(|c| &mut c.history_file)),
    key("checkpoint_max", Kind::Number(|c| Num::Maybe(&mut c.checkpoint_max), 0, 1 << 30)),
    key("search_url", Kind::MaybeText(|c| &mut c.search_url)),
    key("hooks", Kind::Elsewhere),
];

/// One object of keys on its way into a [`Config`].
pub struct Layer<'a> {
    /// What it is laid over.
    pub config: &'a mut Config,
    /// The file's name for messages; empty when it is no file.
    pub file: &'a str,
    /// The file's text, for line numbers.
    pub text: &'a [u8],
    /// What the object is inside of, with a dot: `profiles.fast.`; empty for the whole file.
    pub inside: &'a str,
    /// Gets what is wrong.
    pub warnings: &'a mut Vec<String>,
}

/// Line and column, from 1, of the byte `at` in `text`; columns count characters.
pub fn position(text: &[u8], at: usize) -> (usize, usize) {
    let before = &text[..at.min(text.len())];
    let start = memchr::memrchr(b'\n', before).map_or(0, |i| i + 1);
    let line = 1 + before.iter().filter(|&&b| b == b'\n').count();
    let column = 1 + before[start..]
        .iter()
        .filter(|&&b| b & 0xC0 != 0x80)
        .count();
    (line, column)
}

impl Layer<'_> {
    /// Lays `object` over the configuration. `null` leaves a key as it is; what is wrong is left out with a warning.
    pub fn apply(&mut self, object: Value) {
        if object.kind() != Json::Object {
            let what = [self.inside.trim_end_matches('.'), " must be an object"].concat();
            return self.warn(object.raw(), what.trim_start());
        }
        for (name, value) in object.entries() {
            match KEYS.iter().find(|k| name.is(k.name)) {
                Some(key) if !value.is_null() => self.one(key, value),
                Some(_) => {}
                None => {
                    let name_text = name.string();
                    let mut what = ["unknown key \"", self.inside, &name_text, "\""].concat();
                    if let Some(near) = nearest(&name_text, KEYS.iter().map(|k| k.name)) {
                        what.push_str(&["; did you mean \"", near, "\"?"].concat());
                    }
                    self.warn(name.raw(), &what);
                }
            }
        }
    }

    /// A warning about `part`, a piece of the layer's text.
    fn warn(&mut self, part: &[u8], what: &str) {
        let mut line = String::new();
        if !self.file.is_empty() {
            let at = (part.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
            line.push_str(self.file);
            line.push(':');
            line.push_str(&position(self.text, at).0.to_string());
            line.push_str(": ");
        }
        line.push_str(what);
        if !self.warnings.contains(&line) {
            self.warnings.push(line);
        }
    }

    /// `value` is not what `name` must be; `current` stays.
    fn wrong(&mut self, name: &str, value: Value, must: &str, current: &str) {
        // Texts are not shown: one in the wrong place may be a key.
        let is = match value.kind() {
            Json::Number | Json::Bool => String::from_utf8_lossy(value.raw()).into_owned(),
            Json::Str => "a text".into(),
            Json::Array => "a list".into(),
            Json::Object => "an object".into(),
            Json::Null => "null".into(),
        };
        let mut what = [self.inside, name, " is ", &is, ", must be ", must].concat();
        if !current.is_empty() {
            what.push_str("; using ");
            what.push_str(current);
        }
        self.warn(value.raw(), &what);
    }

    fn one(&mut self, key: &Key, value: Value) {
        match key.kind {
            Kind::Name(field) => match value.string() {
                Some(s) if !s.trim().is_empty() => s.trim().clone_into(field(self.config)),
                _ => {
                    let current = field(self.config).clone();
                    self.wrong(key.name, value, "a text that is not empty", &current);
                }
            },
            Kind::Text(field) => match value.string() {
                Some(s) => *field(self.config) = s,
                None => {
                    let current = ["\"", field(self.config), "\""].concat();
                    self.wrong(key.name, value, "a text", &current);
                }
            },
            Kind::MaybeText(field) => match value.string() {
                Some(s) => *field(self.config) = Some(s).filter(|s| !s.is_empty()),
                None => self.wrong(key.name, value, "a text", ""),
            },
            Kind::Flag(field) => match value.bool() {
                Some(b) => *field(self.config) = b,
                None => {
                    let current = if *field(self.config) { "true" } else { "false" };
                    self.wrong(key.name, value, "true or false", current);
                }
            },
            Kind::Number(field, min, max) => match whole(value) {
                Some(n) if (min..=max).contains(&n) => field(self.config).set(n),
                _ => {
                    let must = format!("a whole number from {min} to {max}");
                    let current = field(self.config).get().map(|n| n.to_string());
                    let current = current.as_deref().unwrap_or("the default");
                    self.wrong(key.name, value, &must, current);
                }
            },
            Kind::Texts(field) => {
                let list = self.texts(key, value);
                *field(self.config) = list;
            }
            Kind::MoreTexts(field) => {
                let list = self.texts(key, value);
                let have = field(self.config);
                for text in list {
                    if !have.contains(&text) {
                        have.push(text);
                    }
                }
            }
            Kind::Choice(words, set) => {
                let text = value.text();
                match words.iter().position(|w| text.is_some_and(|t| t.is(w))) {
                    Some(i) => set(self.config, i),
                    None => {
                        let must = ["one of ", &words.join(", ")].concat();
                        self.wrong(key.name, value, &must, "");
                    }
                }
            }
            Kind::Own(read) => read(self, key, value),
            Kind::Elsewhere => {}
        }
    }

    fn texts(&mut self, key: &Key, value: Value) -> Vec<String> {
        let mut out: Vec<String> = value.string().into_iter().collect();
        if !matches!(value.kind(), Json::Array | Json::Str) {
            self.wrong(key.name, value, "a list of texts", "");
        }
        for item in value.items() {
            match item.string() {
                Some(s) => out.push(s),
                None => self.wrong(key.name, item, "a list of texts", "the others"),
            }
        }
        out.retain(|s| !s.trim().is_empty());
        out
    }

    /// The members of an object, or a warning.
    fn members<'v>(&mut self, key: &Key, value: Value<'v>) -> Vec<(String, Value<'v>)> {
        if value.kind() != Json::Object {
            self.wrong(key.name, value, "an object", "");
        }
        let named = value.entries().map(|(name, v)| (name.string(), v));
        named.filter(|(_, v)| !v.is_null()).collect()
    }
}

/// A whole number; `1e3` and `5.0` are ones.
fn whole(value: Value) -> Option<u64> {
    let n = value.u64()?;
    let fraction = value.milli()? != n.saturating_mul(1000);
    (!fraction).then_some(n)
}

fn base_url(layer: &mut Layer, key: &Key, value: Value) {
    match value.string() {
        Some(s) if !s.trim().is_empty() => {
            layer.config.base_url = s.trim().to_owned();
            layer.config.base_url_source = layer.file.to_owned();
        }
        _ => {
            let current = layer.config.base_url.clone();
            layer.wrong(key.name, value, "a text that is not empty", &current);
        }
    }
}

fn api_key(layer: &mut Layer, key: &Key, value: Value) {
    match value.string() {
        Some(s) => {
            s.trim().clone_into(&mut layer.config.api_key);
            layer.config.api_key_source = layer.file.to_owned();
        }
        None => layer.wrong(key.name, value, "a text", ""),
    }
}

fn compact_threshold(layer: &mut Layer, key: &Key, value: Value) {
    match value.milli() {
        Some(n) if (100..=950).contains(&n) => layer.config.compact_threshold = n,
        _ => {
            let n = layer.config.compact_threshold;
            let current = format!("0.{n:03}");
            layer.wrong(
                key.name,
                value,
                "a number from 0.1 to 0.95",
                current.trim_end_matches('0'),
            );
        }
    }
}

fn guard(layer: &mut Layer, key: &Key, value: Value) {
    match (value.bool(), whole(value)) {
        (Some(on), _) => layer.config.guard = if on { super::GUARD_SECONDS } else { 0 },
        (_, Some(n)) if n == 0 || (10..=3600).contains(&n) => layer.config.guard = n,
        _ => {
            let must = "true, false or a whole number of seconds from 10 to 3600";
            let current = layer.config.guard.to_string();
            layer.wrong(key.name, value, must, &current);
        }
    }
}

/// Sets `list[name]`.
fn put<T>(list: &mut Vec<(String, T)>, name: String, value: T) {
    match list.iter_mut().find(|(n, _)| *n == name) {
        Some((_, slot)) => *slot = value,
        None => list.push((name, value)),
    }
}

fn models(layer: &mut Layer, key: &Key, value: Value) {
    for (name, v) in layer.members(key, value) {
        match v.string() {
            Some(id) if !id.is_empty() => put(&mut layer.config.models, name, id),
            _ => layer.wrong(&["models.", &name].concat(), v, "a model's id", ""),
        }
    }
}

/// The level a word means.
pub fn level(word: &str) -> Option<Level> {
    match word {
        "allow" => Some(Level::Allow),
        "ask" => Some(Level::Ask),
        "deny" => Some(Level::Deny),
        _ => None,
    }
}

/// A level that can't be read counts as `ask`: whoever wrote a rule wanted one.
fn permissions(layer: &mut Layer, key: &Key, value: Value) {
    for (name, v) in layer.members(key, value) {
        let read = v.string().and_then(|s| level(&s));
        if read.is_none() {
            let full = ["permissions.", &name].concat();
            layer.wrong(&full, v, "\"allow\", \"ask\" or \"deny\"", "ask");
        }
        let tool = name.split('(').next().unwrap_or(&name).trim();
        if TOOLS.iter().all(|t| t.name != tool)
            && let Some(near) = nearest(tool, TOOLS.iter().map(|t| t.name))
        {
            let what = [
                "no tool is called \"",
                tool,
                "\"; did you mean \"",
                near,
                "\"?",
            ];
            layer.warn(v.raw(), &what.concat());
        }
        put(
            &mut layer.config.permissions,
            name,
            read.unwrap_or(Level::Ask),
        );
    }
}

fn fallback(layer: &mut Layer, key: &Key, value: Value) {
    if !matches!(value.kind(), Json::Array) {
        return layer.wrong(key.name, value, "a list of {base_url, model, api_key}", "");
    }
    layer.config.fallback.clear();
    for item in value.items() {
        let Some(base_url) = item.get_string("base_url").filter(|s| !s.is_empty()) else {
            layer.wrong(key.name, item, "{base_url, model, api_key}", "the others");
            continue;
        };
        layer.config.fallback.push(Fallback {
            base_url,
            model: item.get_string("model").unwrap_or_default(),
            api_key: item
                .get_string("api_key")
                .unwrap_or_default()
                .trim()
                .to_owned(),
        });
    }
}

fn prices(layer: &mut Layer, key: &Key, value: Value) {
    for (model, v) in layer.members(key, value) {
        let full = ["prices.", &model].concat();
        let micro = |name: &str| {
            let number = v.get(name).filter(|n| n.kind() == Json::Number)?;
            decimal(number.raw(), 6)
        };
        let (Some(input), Some(output)) = (micro("input"), micro("output")) else {
            layer.wrong(
                &full,
                v,
                "{input, output, cached}: prices a million tokens",
                "",
            );
            continue;
        };
        let price = Price {
            model,
            input,
            output,
            cached: micro("cached").unwrap_or(input),
        };
        let list = &mut layer.config.prices;
        list.retain(|p| p.model != price.model);
        list.push(price);
    }
}

/// Sets the key `name` from what a user typed: JSON where the key wants it, else plain text.
///
/// # Errors
/// No such key, or what the value must be.
pub fn set(config: &mut Config, name: &str, typed: &str) -> Result<(), String> {
    let Some(key) = KEYS.iter().find(|k| k.name == name) else {
        let mut text = ["unknown key \"", name, "\""].concat();
        if let Some(near) = nearest(name, KEYS.iter().map(|k| k.name)) {
            text.push_str(&["; did you mean \"", near, "\"?"].concat());
        }
        return Err(text);
    };
    let mut quoted = Vec::new();
    crate::json::write::push_string(&mut quoted, typed.as_bytes());
    let wants_text = matches!(
        key.kind,
        Kind::Name(_) | Kind::Text(_) | Kind::MaybeText(_) | Kind::Choice(..)
    );
    let value = match parse(typed.as_bytes()) {
        Ok(v) if v.kind() == Json::Str || !wants_text => v,
        _ => parse(&quoted).map_err(|e| e.what)?,
    };
    let mut warnings = Vec::new();
    let mut layer = Layer {
        config,
        file: "",
        text: value.raw(),
        inside: "",
        warnings: &mut warnings,
    };
    layer.one(key, value);
    warnings.pop().map_or(Ok(()), Err)
}
