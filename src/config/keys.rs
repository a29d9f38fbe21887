//! The table of configuration keys, and how a JSON object of them is laid over a [`Config`].

use super::{Config, Fallback, KeyStrategy, Price};
use crate::cli::push_range;
use crate::json::value::decimal;
use crate::json::{Kind as Json, Value, parse};
use crate::text::{Near, filled, push_dec};
use crate::tools::{Level, TOOLS};

/// A number field of [`Config`].
enum Num<'a> {
    /// 32 bits.
    Small(&'a mut u32),
    /// 64 bits; a value beyond 32 bits leaves it to the program.
    Large(&'a mut u64),
    /// A size in memory.
    Size(&'a mut usize),
}

/// What a key holds.
enum Kind {
    /// Text, blanks around it dropped, of at least so many bytes.
    Text(fn(&mut Config) -> &mut String, usize),
    /// `true` or `false`
    Flag(fn(&mut Config) -> &mut bool),
    /// A whole number between two limits.
    Number(fn(&mut Config) -> Num<'_>, u32, u32),
    /// A list of texts that replaces the one of the layer below; a lone text counts as a list.
    Texts(fn(&mut Config) -> &mut Vec<String>),
    /// The same, but added to the layer below: what protects can't be taken away by a later file.
    MoreTexts(fn(&mut Config) -> &mut Vec<String>),
    /// Whatever needs its own reader: it takes the value, or says what it must be and what counts instead.
    Own(fn(&mut Layer, Value) -> Result<(), Wrong>),
    /// Read by another part of the program straight from the file, or by none in this build.
    Elsewhere,
}

/// What a value must be, and what counts instead of the one that isn't.
type Wrong = (&'static str, Vec<u8>);

/// One key.
pub struct Key {
    /// Its name in the file.
    pub name: &'static str,
    kind: Kind,
}

const fn key(name: &'static str, kind: Kind) -> Key {
    Key { name, kind }
}

const DAY: u32 = 86_400;

/// Every key.
#[rustfmt::skip]
pub static KEYS: &[Key] = &[
    key("base_url", Kind::Text(|c| &mut c.base_url, 1)),
    key("model", Kind::Text(|c| &mut c.model, 1)),
    key("api_key", Kind::Text(|c| &mut c.api_key, 0)),
    key("api_keys", Kind::Texts(|c| &mut c.api_keys)),
    key("key_strategy", Kind::Own(key_strategy)),
    key("fallback", Kind::Own(fallback)),
    key("models", Kind::Own(models)),
    key("profiles", Kind::Elsewhere),
    key("prices", Kind::Own(prices)),
    key("max_steps", Kind::Number(|c| Num::Small(&mut c.max_steps), 1, 1_000_000)),
    key("max_tokens", Kind::Number(|c| Num::Large(&mut c.max_tokens), 0, 100_000_000)),
    key("request_timeout", Kind::Number(|c| Num::Large(&mut c.request_timeout), 1, DAY)),
    key("idle_timeout", Kind::Number(|c| Num::Large(&mut c.idle_timeout), 1, DAY)),
    key("offline_wait", Kind::Number(|c| Num::Large(&mut c.offline_wait), 0, DAY)),
    key("thinking", Kind::Own(thinking)),
    key("reasoning_effort", Kind::Text(|c| &mut c.reasoning_effort, 0)),
    key("stream", Kind::Flag(|c| &mut c.stream)),
    key("context_limit", Kind::Number(|c| Num::Large(&mut c.context_limit), 1_000, 100_000_000)),
    key("compact_threshold", Kind::Own(compact_threshold)),
    key("compact_model", Kind::Text(|c| &mut c.compact_model, 0)),
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
    key("rules", Kind::Own(rules)),
    key("session_dir", Kind::Text(|c| &mut c.session_dir, 0)),
    key("history_file", Kind::Text(|c| &mut c.history_file, 0)),
    key("checkpoint_max", Kind::Number(|c| Num::Large(&mut c.checkpoint_max), 0, 1 << 30)),
    key("search_url", Kind::Text(|c| &mut c.search_url, 0)),
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
    pub warnings: &'a mut Vec<Vec<u8>>,
}

/// Line and column, from 1, of the byte `at` in `text`; columns count characters.
pub fn position(text: &[u8], at: usize) -> (u32, u32) {
    let (mut line, mut column) = (1, 1);
    for &b in text.iter().take(at) {
        if b == b'\n' {
            (line, column) = (line + 1, 1);
        } else if b & 0xC0 != 0x80 {
            column += 1;
        }
    }
    (line, column)
}

/// `unknown key "NAME"`, with the nearest one.
fn unknown_key(inside: &str, name: &str) -> Vec<u8> {
    let mut text = filled("unknown key \"%%\"", &[inside.as_bytes(), name.as_bytes()]);
    let mut near = Near::to(name);
    KEYS.iter().for_each(|k| near.offer(k.name));
    near.push(&mut text, ["\""; 2]);
    text
}

impl Layer<'_> {
    /// Lays `object` over the configuration. `null` leaves a key as it is; what is wrong is left out with a warning.
    pub fn apply(&mut self, object: Value) {
        if object.kind() != Json::Object {
            let what = match self.inside.strip_suffix('.') {
                Some(name) => filled("% must be an object", &[name.as_bytes()]),
                None => b"must be an object".to_vec(),
            };
            return self.warn(object.raw(), &what);
        }
        for (name, value) in object.entries() {
            match KEYS.iter().find(|k| name.is(k.name)) {
                Some(key) if !value.is_null() => self.one(key, value),
                Some(_) => {}
                None => {
                    let what = unknown_key(self.inside, &name.string());
                    self.warn(name.raw(), &what);
                }
            }
        }
    }

    /// A warning about `part`, a piece of the layer's text.
    fn warn(&mut self, part: &[u8], what: &[u8]) {
        let mut line = Vec::new();
        if !self.file.is_empty() {
            let at = (part.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
            line.extend_from_slice(self.file.as_bytes());
            line.push(b':');
            push_dec(&mut line, u64::from(position(self.text, at).0));
            line.extend_from_slice(b": ");
        }
        line.extend_from_slice(what);
        if !self.warnings.contains(&line) {
            self.warnings.push(line);
        }
    }

    /// `value` is not what the member `member` (none: empty) of `name` must be; `using` counts instead.
    fn wrong(&mut self, [name, member]: [&str; 2], value: Value, must: &[u8], using: &[u8]) {
        // Texts are not shown: one in the wrong place may be a key.
        let is = match value.kind() {
            Json::Number | Json::Bool => value.raw(),
            Json::Str => b"a text",
            Json::Array => b"a list",
            Json::Object => b"an object",
            Json::Null => b"null",
        };
        let dot = if member.is_empty() { "" } else { "." };
        let [inside, name, dot, member] = [self.inside, name, dot, member].map(str::as_bytes);
        let parts = [inside, name, dot, member, is, must, using];
        let template = if using.is_empty() {
            "%%%% is %, must be %"
        } else {
            "%%%% is %, must be %; using %"
        };
        self.warn(value.raw(), &filled(template, &parts));
    }

    fn one(&mut self, key: &Key, value: Value) {
        let mut must: &str = "";
        let mut range = Vec::new();
        let mut using = Vec::new();
        match key.kind {
            Kind::Text(field, least) => {
                let place = field(self.config);
                if let Some(text) = value.string().filter(|s| s.trim().len() >= least) {
                    text.trim().clone_into(place);
                    match key.name {
                        "base_url" => self.file.clone_into(&mut self.config.base_url_source),
                        "api_key" => self.file.clone_into(&mut self.config.api_key_source),
                        _ => {}
                    }
                    return;
                }
                must = "a text";
                if least > 0 {
                    must = "a text that is not empty";
                    using.extend_from_slice(place.as_bytes());
                }
            }
            Kind::Flag(field) => {
                let place = field(self.config);
                if let Some(b) = value.bool() {
                    *place = b;
                    return;
                }
                must = "true or false";
                using.extend_from_slice(if *place { b"true" } else { b"false" });
            }
            Kind::Number(field, min, max) => {
                let place = field(self.config);
                if let Some(n) = whole(value, min, max) {
                    return match place {
                        Num::Small(place) => *place = n,
                        Num::Large(place) => *place = u64::from(n),
                        Num::Size(place) => *place = n as usize,
                    };
                }
                push_range(&mut range, min, max);
                let n = match place {
                    Num::Small(n) => *n,
                    Num::Large(n) => u32::try_from(*n).unwrap_or(u32::MAX),
                    Num::Size(n) => *n as u32,
                };
                if n == u32::MAX {
                    using.extend_from_slice(b"the default");
                } else {
                    push_dec(&mut using, u64::from(n));
                }
            }
            Kind::Texts(field) => {
                field(self.config).clear();
                return self.texts(key, value, field);
            }
            Kind::MoreTexts(field) => return self.texts(key, value, field),
            Kind::Own(read) => match read(self, value) {
                Ok(()) => return,
                Err(wrong) => (must, using) = wrong,
            },
            Kind::Elsewhere => return,
        }
        range.extend_from_slice(must.as_bytes());
        self.wrong([key.name, ""], value, &range, &using);
    }

    /// Adds what is not there yet.
    fn texts(&mut self, key: &Key, value: Value, field: fn(&mut Config) -> &mut Vec<String>) {
        const MUST: &[u8] = b"a list of texts";
        let lone = (value.kind() == Json::Str).then_some(value);
        if lone.is_none() && value.kind() != Json::Array {
            return self.wrong([key.name, ""], value, MUST, b"");
        }
        let mut items = value.items();
        while let Some(item) = lone.or_else(|| items.next()) {
            let have = field(self.config);
            match item.string() {
                Some(s) if s.trim().is_empty() || have.contains(&s) => {}
                Some(s) => have.push(s),
                None => self.wrong([key.name, ""], item, MUST, b"the others"),
            }
            if lone.is_some() {
                break;
            }
        }
    }
}

/// A whole number in its limits; `1e3` and `5.0` are ones.
fn whole(value: Value, min: u32, max: u32) -> Option<u32> {
    let n = u32::try_from(value.u64()?).ok()?;
    let exact = value.milli()? == u64::from(n) * 1000;
    (exact && n >= min && n <= max).then_some(n)
}

/// Which of `words` the value is.
fn choice(value: Value, words: &[&str]) -> Option<usize> {
    let text = value.text()?;
    words.iter().position(|w| text.is(w))
}

fn key_strategy(layer: &mut Layer, value: Value) -> Result<(), Wrong> {
    layer.config.key_strategy = match choice(value, &["fill_first", "round_robin", "least_used"]) {
        Some(0) => KeyStrategy::FillFirst,
        Some(1) => KeyStrategy::RoundRobin,
        Some(_) => KeyStrategy::LeastUsed,
        None => return wrong("one of fill_first, round_robin, least_used"),
    };
    Ok(())
}

fn rules(layer: &mut Layer, value: Value) -> Result<(), Wrong> {
    match choice(value, &["nearest", "all"]) {
        Some(i) => layer.config.rules_all = i > 0,
        None => return wrong("one of nearest, all"),
    }
    Ok(())
}

fn wrong(must: &'static str) -> Result<(), Wrong> {
    Err((must, Vec::new()))
}

fn thinking(layer: &mut Layer, value: Value) -> Result<(), Wrong> {
    layer.config.thinking = value.bool() != Some(false);
    Ok(())
}

fn compact_threshold(layer: &mut Layer, value: Value) -> Result<(), Wrong> {
    match value.milli() {
        Some(n) if (100..=950).contains(&n) => {
            layer.config.compact_threshold = n;
            Ok(())
        }
        _ => {
            let mut using = b"0.".to_vec();
            push_dec(&mut using, layer.config.compact_threshold);
            while using.ends_with(b"0") {
                using.pop();
            }
            Err(("a number from 0.1 to 0.95", using))
        }
    }
}

fn guard(layer: &mut Layer, value: Value) -> Result<(), Wrong> {
    layer.config.guard = match (value.bool(), whole(value, 0, 3600)) {
        (Some(true), _) => super::GUARD_SECONDS,
        (Some(false), _) | (_, Some(0)) => 0,
        (_, Some(n)) if n >= 10 => u64::from(n),
        _ => {
            let mut using = Vec::new();
            push_dec(&mut using, layer.config.guard);
            let must = "true, false or a whole number of seconds from 10 to 3600";
            return Err((must, using));
        }
    };
    Ok(())
}

/// The members of an object but the unset ones, each with its name; `take` says what it must be when it is not.
fn members(
    layer: &mut Layer,
    value: Value,
    key: &str,
    take: fn(&mut Layer, &str, Value) -> Result<(), Wrong>,
) -> Result<(), Wrong> {
    if value.kind() != Json::Object {
        return wrong("an object");
    }
    for (name, value) in value.entries() {
        let name = name.string();
        if !value.is_null()
            && let Err((must, using)) = take(layer, &name, value)
        {
            layer.wrong([key, &name], value, must.as_bytes(), &using);
        }
    }
    Ok(())
}

fn models(layer: &mut Layer, value: Value) -> Result<(), Wrong> {
    members(layer, value, "models", |layer, name, value| {
        let Some(id) = value.string().filter(|id| !id.is_empty()) else {
            return wrong("a model's id");
        };
        let list = &mut layer.config.models;
        match list.iter_mut().find(|(n, _)| n == name) {
            Some((_, slot)) => *slot = id,
            None => list.push((name.to_owned(), id)),
        }
        Ok(())
    })
}

/// A level that can't be read counts as `ask`: whoever wrote a rule wanted one.
fn permissions(layer: &mut Layer, value: Value) -> Result<(), Wrong> {
    members(layer, value, "permissions", |layer, name, value| {
        let read = choice(value, &["allow", "ask", "deny"]);
        let tool = name.as_bytes().split(|&b| b == b'(').next();
        let tool = tool.and_then(|t| name.get(..t.len())).unwrap_or(name);
        let mut near = Near::to(tool.trim_ascii());
        TOOLS.iter().for_each(|t| near.offer(t.name));
        if near.found().is_some_and(|n| n != tool.trim_ascii()) {
            let mut what = filled("no tool is called \"%\"", &[tool.trim_ascii().as_bytes()]);
            near.push(&mut what, ["\""; 2]);
            layer.warn(value.raw(), &what);
        }
        let level = match read {
            Some(0) => Level::Allow,
            Some(2) => Level::Deny,
            _ => Level::Ask,
        };
        let list = &mut layer.config.permissions;
        match list.iter_mut().find(|(n, _)| n == name) {
            Some((_, slot)) => *slot = level,
            None => list.push((name.to_owned(), level)),
        }
        match read {
            Some(_) => Ok(()),
            None => Err(("\"allow\", \"ask\" or \"deny\"", b"ask".to_vec())),
        }
    })
}

fn fallback(layer: &mut Layer, value: Value) -> Result<(), Wrong> {
    if value.kind() != Json::Array {
        return wrong("a list of {base_url, model, api_key}");
    }
    layer.config.fallback.clear();
    for item in value.items() {
        let [base_url, model, api_key] = ["base_url", "model", "api_key"].map(|name| {
            let text = item.get_string(name).unwrap_or_default();
            text.trim().to_owned()
        });
        if base_url.is_empty() {
            let must = b"{base_url, model, api_key}";
            layer.wrong(["fallback", ""], item, must, b"the others");
            continue;
        }
        layer.config.fallback.push(Fallback {
            base_url,
            model,
            api_key,
        });
    }
    Ok(())
}

fn prices(layer: &mut Layer, value: Value) -> Result<(), Wrong> {
    members(layer, value, "prices", |layer, name, value| {
        let [input, output, cached] = ["input", "output", "cached"].map(|name| {
            let number = value.get(name)?;
            decimal(number.raw(), 6)
        });
        let (Some(input), Some(output)) = (input, output) else {
            return wrong("{input, output, cached}: prices a million tokens");
        };
        let list = &mut layer.config.prices;
        list.retain(|p| p.model != name);
        list.push(Price {
            model: name.to_owned(),
            input,
            output,
            cached: cached.unwrap_or(input),
        });
        Ok(())
    })
}

/// Sets the key `name` from what a user typed: JSON where the key wants it, else plain text.
///
/// # Errors
/// No such key, or what the value must be.
pub fn set(config: &mut Config, name: &str, typed: &str) -> Result<(), Vec<u8>> {
    let Some(key) = KEYS.iter().find(|k| k.name == name) else {
        return Err(unknown_key("", name));
    };
    let mut quoted = Vec::new();
    crate::json::write::push_string(&mut quoted, typed.as_bytes());
    let wants_text = matches!(key.kind, Kind::Text(..));
    let value = match parse(typed.as_bytes()) {
        Ok(v) if v.kind() == Json::Str || !wants_text => v,
        _ => parse(&quoted).map_err(|e| e.what.as_bytes().to_vec())?,
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
