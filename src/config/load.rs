//! Merging the sources: defaults ← home file ← project file (if trusted) ← environment ← profile ← options.

use std::io;

use super::keys::{Layer, position};
use super::{Config, is_local_host};
use crate::cli::{Args, Opt};
use crate::json::{Error, Value, parse};
use crate::policy::trust;
use crate::provider::transport::url::Url;
use crate::sys::{fs, system};
use crate::text::{Near, filled, push_dec};

/// Largest config file that is read, in bytes.
const MAX_FILE: usize = 1 << 20;

/// Looks up an environment variable; unset and empty are the same. [`crate::sys::fs::env`] outside of tests.
pub type Env<'a> = &'a dyn Fn(&[u8]) -> Option<Vec<u8>>;

/// What [`load`] found.
#[derive(Default)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// What the user should know, one line each; may hold text from files.
    pub warnings: Vec<Vec<u8>>,
    /// The program's home directory, absolute, whether it exists or not; `None` when the user has none.
    pub home: Option<Vec<u8>>,
    /// Whether hooks, tools and MCP servers of the project's `.cluade/` may be used; false when there are none.
    pub project_trusted: bool,
    /// The project's `.cluade/` that was left out because nobody agreed to it. A front end that can ask shows
    /// [`trust::Project::summary`] and, on a yes, loads again with [`Opt::Trust`] given.
    pub untrusted: Option<trust::Project>,
}

/// One config file that was read: its name for messages and its text.
struct Doc {
    name: String,
    text: Vec<u8>,
}

/// The documents, from the lowest layer to the highest.
type Docs = Vec<Doc>;

impl Doc {
    fn parse(&self) -> Result<Value<'_>, Vec<u8>> {
        parse(&self.text).map_err(|e| {
            let (line, column) = position(&self.text, e.at);
            let mut text = self.name.as_bytes().to_vec();
            for n in [line, column] {
                text.push(b':');
                push_dec(&mut text, u64::from(n));
            }
            let parts = [e.what, explain(&self.text, e)].map(str::as_bytes);
            crate::text::push_filled(&mut text, ": %%", &parts);
            text
        })
    }

    /// Lays `object`, a part of the document that is `inside` of something, over the configuration.
    fn apply(&self, object: Value, inside: &str, out: &mut Loaded) {
        let mut layer = Layer {
            config: &mut out.config,
            file: &self.name,
            text: &self.text,
            inside,
            warnings: &mut out.warnings,
        };
        layer.apply(object);
    }

    /// The profiles the document has.
    fn profiles(&self) -> Option<Value<'_>> {
        self.parse().ok()?.get("profiles")
    }
}

/// What usually is behind an error of the tokenizer.
fn explain(text: &[u8], e: Error) -> &'static str {
    let before = text.get(..e.at).unwrap_or(text).trim_ascii_end().last();
    match (text.get(e.at), before) {
        (Some(b'}' | b']'), Some(b',')) => " (a comma too many before it)",
        (Some(b'/' | b'#'), _) => " (JSON has no comments)",
        (Some(b'\''), _) => " (JSON wants double quotes)",
        (None, None) => " (the file is empty)",
        _ => "",
    }
}

/// Loads the configuration for a run in `cwd` (absolute) into `out`, which is new.
///
/// # Errors
/// A usage or configuration error as text for the user, the exit status is 2: a file named on the command line that
/// can't be read or is no JSON, a config file without read permission, an unknown profile, a key with line breaks.
pub fn load(args: &Args, cwd: &[u8], env: Env, out: &mut Loaded) -> Result<(), Vec<u8>> {
    let mut docs = Vec::new();
    // One owner of the documents, so that no way out below has to drop them.
    merge(args, cwd, env, out, &mut docs)
}

fn merge(
    args: &Args,
    cwd: &[u8],
    env: Env,
    out: &mut Loaded,
    docs: &mut Docs,
) -> Result<(), Vec<u8>> {
    files(args, cwd, env, out, docs)?;
    docs.retain(|doc| match doc.parse() {
        Ok(object) => {
            doc.apply(object, "", out);
            true
        }
        Err(mut text) => {
            text.extend_from_slice(b"; the file is left out");
            out.warnings.push(text);
            false
        }
    });
    environment(&mut out.config, env);
    if let Some(name) = args.text(Opt::Profile) {
        profile(name, docs, out)?;
    }
    options(&mut out.config, args)?;
    let config = &mut out.config;
    anthropic(config, env);
    config.model = config.resolve_model(&config.model);
    config.compact_model = config.resolve_model(&config.compact_model);
    config.color = !args.has(Opt::NoColor)
        && env(b"NO_COLOR").is_none()
        && env(b"TERM").is_none_or(|term| term != b"dumb");
    check_keys(config, &mut out.warnings)
}

/// Reads the files that count.
fn files(
    args: &Args,
    cwd: &[u8],
    env: Env,
    out: &mut Loaded,
    docs: &mut Docs,
) -> Result<(), Vec<u8>> {
    let user_dir = env(b"HOME").or_else(passwd_home);
    out.home = match (env(b"CLUADE_HOME"), &user_dir) {
        (Some(dir), _) => Some(fs::join(cwd, &dir)),
        (None, Some(dir)) => Some(fs::join(dir, b".cluade")),
        (None, None) => None,
    };
    let home = out.home.as_deref();
    let given = args.bytes(Opt::Config);
    if let Some(path) = given {
        read(path, docs, false)?;
        if let Some(doc) = docs.last() {
            doc.parse()?;
        }
    } else if let Some(home) = home {
        read(&fs::join(home, b"config.json"), docs, true)?;
    }
    let project = fs::join(cwd, b".cluade");
    if home.is_some_and(|h| same_place(h, &project)) {
        // Read above, as the home file it is.
        return Ok(());
    }
    if user_dir.as_deref().is_some_and(|d| same_place(d, cwd)) {
        // Only the user writes to the home directory: what is there is their own.
        out.project_trusted = true;
        if given.is_none() {
            read(&fs::join(&project, b"config.json"), docs, true)?;
        }
        return Ok(());
    }
    let Some(mut found) = trust::look(home, &project) else {
        return Ok(());
    };
    if args.has(Opt::Trust) && !found.agreed {
        // Holds for this run even where it can't be written down.
        found.agreed = found.complete;
        if let Err(e) = trust::remember(home, &found) {
            let text = filled("the trust can't be remembered: %", &[&e]);
            out.warnings.push(text);
        }
    }
    if !found.agreed {
        let text = "this directory's .cluade/ is left out until you trust it (--trust): %";
        out.warnings.push(filled(text, &[&found.summary()]));
        out.untrusted = Some(found);
        return Ok(());
    }
    out.project_trusted = true;
    if let (None, Some(text)) = (given, &found.config) {
        add(docs, b".cluade/config.json", text.clone());
    }
    Ok(())
}

/// Another document, without its byte order mark.
fn add(docs: &mut Docs, name: &[u8], mut text: Vec<u8>) {
    if text.starts_with(b"\xEF\xBB\xBF") {
        text.drain(..3);
    }
    let name = String::from_utf8_lossy(name).into_owned();
    docs.push(Doc { name, text });
}

/// Lays the profile `name` of each file over the configuration.
fn profile(name: &str, docs: &Docs, out: &mut Loaded) -> Result<(), Vec<u8>> {
    let inside = ["profiles.", name, "."].concat();
    let mut found = false;
    for doc in docs {
        if let Some(object) = doc.profiles().and_then(|p| p.get(name)) {
            doc.apply(object, &inside, out);
            found = true;
        }
    }
    if found {
        return Ok(());
    }
    let mut names: Vec<String> = Vec::new();
    for profiles in docs.iter().filter_map(Doc::profiles) {
        names.extend(profiles.entries().map(|(key, _)| key.string()));
    }
    let mut text = filled("there is no profile \"%\"", &[name.as_bytes()]);
    let mut near = Near::to(name);
    names.iter().for_each(|n| near.offer(n));
    if near.push(&mut text, ["\""; 2]) {
        return Err(text);
    }
    let mut before: &[u8] = b"; there are: ";
    for name in &names {
        text.extend_from_slice(before);
        text.extend_from_slice(name.as_bytes());
        before = b", ";
    }
    if names.is_empty() {
        text.extend_from_slice(b"; the config has none (key \"profiles\")");
    }
    Err(text)
}

/// Sets `place` to a variable's or a file's text, without the blanks around it.
fn set_trimmed(place: &mut String, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    text.trim().clone_into(place);
}

/// Sets `place` from the first of `names` that is set, and keeps its name.
fn set_from(place: &mut String, source: &mut String, env: Env, names: &[&str]) {
    for name in names {
        if let Some(value) = env(name.as_bytes()) {
            set_trimmed(place, &value);
            (*name).clone_into(source);
            return;
        }
    }
}

fn environment(config: &mut Config, env: Env) {
    let c = config;
    set_from(&mut c.model, &mut String::new(), env, &["CLUADE_MODEL"]);
    let names = ["CLUADE_BASE_URL", "OPENAI_BASE_URL"];
    set_from(&mut c.base_url, &mut c.base_url_source, env, &names);
    let names = ["OPENAI_API_KEY"];
    set_from(&mut c.api_key, &mut c.api_key_source, env, &names);
}

/// `ANTHROPIC_API_KEY` counts for Anthropic's own host, and when there is no other key, but never for the default base
/// URL: it would hand one provider's key to another.
fn anthropic(config: &mut Config, env: Env) {
    let own = Url::parse(&config.base_url)
        .is_ok_and(|url| url.host == "anthropic.com" || url.host.ends_with(".anthropic.com"));
    let free = !config.has_key() && config.base_url != super::DEFAULT_BASE_URL;
    if own && config.api_key_source == "OPENAI_API_KEY" || free {
        let c = config;
        let names = ["ANTHROPIC_API_KEY"];
        set_from(&mut c.api_key, &mut c.api_key_source, env, &names);
    }
}

fn options(config: &mut Config, args: &Args) -> Result<(), Vec<u8>> {
    if let Some(model) = args.text(Opt::Model) {
        model.clone_into(&mut config.model);
    }
    if let Some(url) = args.bytes(Opt::BaseUrl) {
        set_trimmed(&mut config.base_url, url);
        "--base-url".clone_into(&mut config.base_url_source);
    }
    if let Some(n) = args.number(Opt::MaxSteps) {
        config.max_steps = n;
    }
    if let Some(key) = args.bytes(Opt::ApiKey) {
        set_trimmed(&mut config.api_key, key);
        "--api-key".clone_into(&mut config.api_key_source);
    }
    if let Some(path) = args.bytes(Opt::ApiKeyFile) {
        let say = |what: &str| filled("--api-key-file %: %", &[path, what.as_bytes()]);
        let text = read_file(path).map_err(|e| say(&fs::os_text(&e)))?;
        set_trimmed(&mut config.api_key, &text);
        if config.api_key.is_empty() {
            return Err(say("the file is empty"));
        }
        set_trimmed(&mut config.api_key_source, path);
    }
    Ok(())
}

/// A key becomes part of an HTTP header: spaces, line breaks and anything but ASCII would break the request, or worse,
/// add headers to it.
fn check_keys(config: &mut Config, warnings: &mut Vec<Vec<u8>>) -> Result<(), Vec<u8>> {
    fn clean(key: &str) -> bool {
        key.bytes().all(|b| b.is_ascii_graphic())
    }
    if !clean(&config.api_key) {
        return Err(filled(
            "the API key from % holds a space, a line break or a character no key has",
            &[config.api_key_source.as_bytes()],
        ));
    }
    let before = config.api_keys.len() + config.fallback.len();
    config.api_keys.retain(|key| clean(key));
    config.fallback.retain(|f| clean(&f.api_key));
    if config.api_keys.len() + config.fallback.len() < before {
        let text = b"a key of api_keys or fallback holds a space or a line break: left out";
        warnings.push(text.to_vec());
    }
    if config.has_key() {
        check_place(&config.base_url, warnings);
    }
    for f in &config.fallback {
        if !f.api_key.is_empty() {
            check_place(&f.base_url, warnings);
        }
    }
    Ok(())
}

/// Warns when a key would go to `url` for everyone on the way to read.
fn check_place(url: &str, warnings: &mut Vec<Vec<u8>>) {
    if let Ok(url) = Url::parse(url)
        && !url.https
        && !is_local_host(&url.host)
    {
        let text = "the API key goes to % unencrypted: use https://";
        warnings.push(filled(text, &[url.host.as_bytes()]));
    }
}

/// Reads a config file, which may be missing when it is `optional`.
fn read(path: &[u8], docs: &mut Docs, optional: bool) -> Result<(), Vec<u8>> {
    match read_file(path) {
        Ok(text) => add(docs, path, text),
        // Services run with HOME=/dev/null.
        Err(e)
            if optional
                && matches!(
                    e.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) => {}
        Err(e) => return Err(filled("%: %", &[path, fs::os_text(&e).as_bytes()])),
    }
    Ok(())
}

/// Reads a whole file of at most [`MAX_FILE`] bytes. Pipes are fine, and waited for: `--config <(…)`.
fn read_file(path: &[u8]) -> io::Result<Vec<u8>> {
    let text = fs::read_small(path, MAX_FILE + 1)?;
    if text.len() > MAX_FILE {
        return Err(io::ErrorKind::FileTooLarge.into());
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
    for line in passwd.split(|&b| b == b'\n') {
        let mut fields = line.split(|&b| b == b':');
        if fields.nth(2).and_then(crate::text::whole) == Some(uid)
            && let Some(home) = fields.nth(2).filter(|h| h.starts_with(b"/"))
        {
            return Some(home.to_vec());
        }
    }
    None
}
