//! Merging the sources: defaults ← home file ← project file (if trusted) ← environment ← profile ← options.

use std::io::{self, Read};

use super::keys::{Layer, position};
use super::{Config, is_local_host};
use crate::cli::Args;
use crate::json::{Error, Value, parse};
use crate::policy::trust::{self, State};
use crate::provider::transport::url::Url;
use crate::sys::{fs, system};
use crate::text::nearest;

/// Largest config file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Looks up an environment variable; unset and empty are the same. [`crate::sys::fs::env`] outside of tests.
pub type Env<'a> = &'a dyn Fn(&[u8]) -> Option<Vec<u8>>;

/// What [`load`] found.
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// What the user should know, one line each; may hold text from files.
    pub warnings: Vec<String>,
    /// The program's home directory, absolute, whether it exists or not; `None` when the user has none.
    pub home: Option<Vec<u8>>,
    /// Whether hooks, tools and MCP servers of the project's `.cluade/` may be used; false when there are none.
    pub project_trusted: bool,
    /// The project's `.cluade/` that was left out because nobody agreed to it. A front end that can ask shows
    /// [`trust::Project::summary`] and, on a yes, loads again with [`Args::trust`] set.
    pub untrusted: Option<trust::Project>,
}

/// One config file that was read: its name for messages and its text.
struct Doc {
    name: String,
    text: Vec<u8>,
}

impl Doc {
    fn new(name: String, mut text: Vec<u8>) -> Self {
        if text.starts_with(b"\xEF\xBB\xBF") {
            text.drain(..3);
        }
        Doc { name, text }
    }

    fn parse(&self) -> Result<Value<'_>, String> {
        parse(&self.text).map_err(|e| {
            let (line, column) = position(&self.text, e.at);
            format!("{}:{line}:{column}: {}", self.name, explain(&self.text, e))
        })
    }

    /// Lays the part of the document that `pick` finds over `config`; false when there is none.
    fn apply(
        &self,
        config: &mut Config,
        warnings: &mut Vec<String>,
        profile: Option<&str>,
    ) -> bool {
        let Ok(whole) = self.parse() else {
            return false;
        };
        let (object, inside) = match profile {
            None => (Some(whole), String::new()),
            Some(name) => (
                whole.get("profiles").and_then(|p| p.get(name)),
                ["profiles.", name, "."].concat(),
            ),
        };
        let Some(object) = object else {
            return false;
        };
        let mut layer = Layer {
            config,
            file: &self.name,
            text: &self.text,
            inside: &inside,
            warnings,
        };
        layer.apply(object);
        true
    }
}

/// What the tokenizer says, and what usually is behind it.
fn explain(text: &[u8], e: Error) -> String {
    let before = text.get(..e.at).unwrap_or(text).trim_ascii_end().last();
    let more = match (text.get(e.at), before) {
        (Some(b'}' | b']'), Some(b',')) => " (a comma too many before it)",
        (Some(b'/' | b'#'), _) => " (JSON has no comments)",
        (Some(b'\''), _) => " (JSON wants double quotes)",
        (None, _) if text.trim_ascii().is_empty() => " (the file is empty)",
        _ => "",
    };
    [e.what, more].concat()
}

/// Loads the configuration for a run in `cwd` (absolute).
///
/// # Errors
/// A usage or configuration error as text for the user, the exit status is 2: a file named on the command line that
/// can't be read or is no JSON, a config file without read permission, an unknown profile, a key with line breaks.
pub fn load(args: &Args, cwd: &[u8], env: Env) -> Result<Loaded, String> {
    let mut warnings = Vec::new();
    let user_dir = env(b"HOME").or_else(passwd_home);
    let home = match (env(b"CLUADE_HOME"), &user_dir) {
        (Some(dir), _) => Some(fs::join(cwd, &dir)),
        (None, Some(dir)) => Some(fs::join(dir, b".cluade")),
        (None, None) => None,
    };
    let project = fs::join(cwd, b".cluade");
    let mut project_trusted = false;
    let mut untrusted = None;
    let mut docs = Vec::new();

    if let Some(path) = &args.config {
        let name = String::from_utf8_lossy(path).into_owned();
        let text = read_file(path).map_err(|e| [&name, ": ", &fs::os_text(&e)].concat())?;
        let doc = Doc::new(name, text);
        doc.parse()?;
        docs.push(doc);
    } else if let Some(home) = &home {
        docs.extend(read_optional(&fs::join(home, b"config.json"))?);
    }

    let is_home = home.as_deref().is_some_and(|h| same_place(h, &project));
    if is_home {
        // Read above, as the home file it is.
    } else if user_dir.as_deref().is_some_and(|d| same_place(d, cwd)) {
        // Only the user writes to the home directory: what is there is their own.
        project_trusted = true;
        if args.config.is_none() {
            docs.extend(read_optional(&fs::join(&project, b"config.json"))?);
        }
    } else {
        let mut state = trust::state(home.as_deref(), &project);
        if args.trust
            && let State::Untrusted(found) = state
        {
            state = agree(home.as_deref(), found, &mut warnings);
        }
        match state {
            State::Nothing => {}
            State::Trusted(found) => {
                project_trusted = true;
                if args.config.is_none()
                    && let Some(text) = found.config
                {
                    docs.push(Doc::new(".cluade/config.json".into(), text));
                }
            }
            State::Untrusted(found) => {
                warnings.push(
                    [
                        "this directory's .cluade/ is left out until you trust it (--trust): ",
                        &found.summary(),
                    ]
                    .concat(),
                );
                untrusted = Some(found);
            }
        }
    }

    let mut config = Config::default();
    docs.retain(|doc| match doc.parse() {
        Ok(_) => true,
        Err(text) => {
            warnings.push([&text, "; the file is left out"].concat());
            false
        }
    });
    for doc in &docs {
        doc.apply(&mut config, &mut warnings, None);
    }
    environment(&mut config, env);
    if let Some(name) = &args.profile {
        let mut found = false;
        for doc in &docs {
            found |= doc.apply(&mut config, &mut warnings, Some(name));
        }
        if !found {
            return Err(unknown_profile(name, &docs));
        }
    }
    options(&mut config, args)?;
    anthropic(&mut config, env);
    config.model = config.resolve_model(&config.model);
    config.compact_model = config.resolve_model(&config.compact_model);
    config.color = !args.no_color
        && env(b"NO_COLOR").is_none()
        && env(b"TERM").is_none_or(|term| term != b"dumb");
    check_keys(&mut config, &mut warnings)?;
    Ok(Loaded {
        config,
        warnings,
        home,
        project_trusted,
        untrusted,
    })
}

/// `--trust`: holds for this run even where it can't be written down.
fn agree(home: Option<&[u8]>, found: trust::Project, warnings: &mut Vec<String>) -> State {
    let result = match home {
        Some(home) => trust::remember(home, &found),
        None => Err("there is no home directory".into()),
    };
    if let Err(e) = result {
        warnings.push(["the trust can't be remembered: ", &e].concat());
    }
    if found.complete {
        State::Trusted(found)
    } else {
        State::Untrusted(found)
    }
}

fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

fn environment(config: &mut Config, env: Env) {
    if let Some(model) = env(b"CLUADE_MODEL") {
        config.model = text_of(model);
    }
    for name in ["CLUADE_BASE_URL", "OPENAI_BASE_URL"] {
        if let Some(url) = env(name.as_bytes()) {
            config.base_url = text_of(url);
            name.clone_into(&mut config.base_url_source);
            break;
        }
    }
    if let Some(key) = env(b"OPENAI_API_KEY") {
        config.api_key = text_of(key);
        config.api_key_source = "OPENAI_API_KEY".into();
    }
}

/// `ANTHROPIC_API_KEY` counts for Anthropic's own host, and when there is no other key, but never for the default base
/// URL: it would hand one provider's key to another.
fn anthropic(config: &mut Config, env: Env) {
    let own = Url::parse(&config.base_url)
        .is_ok_and(|url| url.host == "anthropic.com" || url.host.ends_with(".anthropic.com"));
    let free = !config.has_key() && config.base_url != super::DEFAULT_BASE_URL;
    if (own && config.api_key_source == "OPENAI_API_KEY" || free)
        && let Some(key) = env(b"ANTHROPIC_API_KEY")
    {
        config.api_key = text_of(key);
        config.api_key_source = "ANTHROPIC_API_KEY".into();
    }
}

fn options(config: &mut Config, args: &Args) -> Result<(), String> {
    if let Some(model) = &args.model {
        config.model.clone_from(model);
    }
    if let Some(url) = &args.base_url {
        url.trim().clone_into(&mut config.base_url);
        config.base_url_source = "--base-url".into();
    }
    if let Some(n) = args.max_steps {
        config.max_steps = u32::try_from(n).unwrap_or(u32::MAX);
    }
    if let Some(key) = &args.api_key {
        key.trim().clone_into(&mut config.api_key);
        config.api_key_source = "--api-key".into();
    }
    if let Some(path) = &args.api_key_file {
        let name = String::from_utf8_lossy(path).into_owned();
        let text = read_file(path)
            .map_err(|e| ["--api-key-file ", &name, ": ", &fs::os_text(&e)].concat())?;
        config.api_key = text_of(text);
        if config.api_key.is_empty() {
            return Err(["--api-key-file ", &name, ": the file is empty"].concat());
        }
        config.api_key_source = name;
    }
    Ok(())
}

/// A key becomes part of an HTTP header: spaces, line breaks and anything but ASCII would break the request, or worse,
/// add headers to it.
fn check_keys(config: &mut Config, warnings: &mut Vec<String>) -> Result<(), String> {
    let clean = |key: &str| key.bytes().all(|b| b.is_ascii_graphic());
    if !clean(&config.api_key) {
        return Err([
            "the API key from ",
            &config.api_key_source,
            " holds a space, a line break or a character no key has",
        ]
        .concat());
    }
    let before = config.api_keys.len() + config.fallback.len();
    config.api_keys.retain(|key| clean(key));
    config.fallback.retain(|f| clean(&f.api_key));
    if config.api_keys.len() + config.fallback.len() < before {
        warnings
            .push("a key of api_keys or fallback holds a space or a line break: left out".into());
    }
    let first = (&config.base_url, config.has_key());
    let others = config.fallback.iter();
    let others = others.map(|f| (&f.base_url, !f.api_key.is_empty()));
    for (url, has_key) in std::iter::once(first).chain(others) {
        if let Ok(url) = Url::parse(url)
            && has_key
            && !url.https
            && !is_local_host(&url.host)
        {
            warnings.push(
                [
                    "the API key goes to ",
                    &url.host,
                    " unencrypted: use https://",
                ]
                .concat(),
            );
        }
    }
    Ok(())
}

fn unknown_profile(name: &str, docs: &[Doc]) -> String {
    let mut names: Vec<String> = Vec::new();
    for doc in docs {
        if let Some(profiles) = doc.parse().ok().and_then(|v| v.get("profiles")) {
            names.extend(profiles.entries().map(|(key, _)| key.string()));
        }
    }
    let mut text = ["there is no profile \"", name, "\""].concat();
    match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => text.push_str(&["; did you mean \"", near, "\"?"].concat()),
        None if names.is_empty() => text.push_str("; the config has none (key \"profiles\")"),
        None => text.push_str(&["; there are: ", &names.join(", ")].concat()),
    }
    text
}

/// A config file that may be missing.
fn read_optional(path: &[u8]) -> Result<Option<Doc>, String> {
    let name = String::from_utf8_lossy(path).into_owned();
    match read_file(path) {
        Ok(text) => Ok(Some(Doc::new(name, text))),
        // Services run with HOME=/dev/null.
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(e) => Err([&name, ": ", &fs::os_text(&e)].concat()),
    }
}

/// Reads a whole file of at most [`MAX_FILE`] bytes. Pipes are fine, and waited for: `--config <(…)`.
fn read_file(path: &[u8]) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let file = std::fs::File::open(fs::path(path))?;
    file.take(MAX_FILE + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        return Err(io::Error::other("larger than 1 MiB"));
    }
    Ok(text)
}

/// Whether two paths are one place on disk.
fn same_place(a: &[u8], b: &[u8]) -> bool {
    matches!((fs::stat(a), fs::stat(b)), (Ok(a), Ok(b)) if a.id == b.id)
}

/// The user's directory from /etc/passwd, for services and cron jobs, which have no HOME on OpenWrt.
fn passwd_home() -> Option<Vec<u8>> {
    let uid = system::user_id();
    let passwd = read_file(b"/etc/passwd").unwrap_or_default();
    home_in(&passwd, uid).or_else(|| (uid == 0).then(|| b"/root".to_vec()))
}

/// The sixth field of the line whose third is `uid`.
pub(super) fn home_in(passwd: &[u8], uid: u32) -> Option<Vec<u8>> {
    let uid = uid.to_string();
    passwd.split(|&b| b == b'\n').find_map(|line| {
        let mut fields = line.split(|&b| b == b':');
        (fields.nth(2) == Some(uid.as_bytes())).then_some(())?;
        let home = fields.nth(2)?;
        home.starts_with(b"/").then(|| home.to_vec())
    })
}
