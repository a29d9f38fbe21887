//! Whether a project's `.cluade/` may do more than be read. Its config, hooks, tools and MCP servers could send the key
//! elsewhere or run commands, so they count only after the user agreed once; the agreement holds for one real path and
//! exactly these contents.
//!
//! The digest is SHA-256 and not a quick checksum: whoever can push to a repository must not be able to craft a second
//! version that passes for the agreed one. Skills and rules are text for the model and need no trust.

mod sha256;

use std::os::unix::ffi::OsStrExt;

use nanoserde::SerJson;

use crate::config::make_home;
use crate::json::parse;
use crate::sys::fs::{self, File, Kind};
use sha256::Sha256;

/// What in a project's `.cluade/` needs trust. A feature that reads another file there adds it here.
const MATTERS: &[&str] = &["config.json", "hooks", "hooks.json", "mcp.json", "tools"];

/// More than this is not looked at, and so never trusted: bytes in all, entries, directories inside of each other.
const MAX_BYTES: u64 = 4 << 20;
const MAX_ENTRIES: usize = 512;
const MAX_DEPTH: usize = 6;

/// Largest trust.json that is read; [`MAX_REMEMBERED`] agreements fit.
const MAX_STORE: usize = 1 << 20;

/// Agreements kept; the oldest go.
const MAX_REMEMBERED: usize = 200;

/// A project's `.cluade/` as it was when looked at.
#[derive(Clone)]
pub struct Project {
    /// Its real path.
    pub path: Vec<u8>,
    /// The text of its config.json, the very bytes the digest covers; `None` when there is none.
    pub config: Option<Vec<u8>>,
    /// Paths below [`Project::path`] of the other files that matter, sorted.
    pub files: Vec<Vec<u8>>,
    /// Whether everything was read. What was not can't be trusted.
    pub complete: bool,
    size: u64,
    digest: [u8; 32],
}

/// What is to be thought of a project's `.cluade/`.
pub enum State {
    /// There is nothing in it that needs trust.
    Nothing,
    /// The user agreed to exactly this.
    Trusted(Project),
    /// The user did not, or it changed since.
    Untrusted(Project),
}

/// Looks at `dir`, a project's `.cluade/`, and into `home`/trust.json.
pub fn state(home: Option<&[u8]>, dir: &[u8]) -> State {
    let Some(project) = inspect(dir) else {
        return State::Nothing;
    };
    let hex = project.hex();
    let agreed = home.is_some_and(|home| {
        let entries = read(home).projects;
        entries
            .iter()
            .any(|e| e.sha256 == hex && e.size == project.size)
    });
    if agreed && project.complete {
        State::Trusted(project)
    } else {
        State::Untrusted(project)
    }
}

/// Remembers in `home`/trust.json that the user agreed to `project` as it was looked at.
///
/// # Errors
/// It could not be read completely, or the file can't be written.
pub fn remember(home: &[u8], project: &Project) -> Result<(), String> {
    let shown = String::from_utf8_lossy(&project.path).into_owned();
    if !project.complete {
        return Err([
            &shown,
            " holds files that can't be read, or more than 512 files or 4 MiB: too much to vouch for",
        ]
        .concat());
    }
    let mut store = read(home);
    store.projects.retain(|e| e.path != shown);
    let excess = (store.projects.len() + 1).saturating_sub(MAX_REMEMBERED);
    store.projects.drain(..excess);
    store.projects.push(Entry {
        path: shown,
        size: project.size,
        sha256: project.hex(),
    });
    write(home, store.serialize_json().as_bytes()).map_err(|e| {
        [
            &String::from_utf8_lossy(home),
            "/trust.json: ",
            &fs::os_text(&e),
        ]
        .concat()
    })
}

fn write(home: &[u8], text: &[u8]) -> std::io::Result<()> {
    make_home(home)?;
    let (mut file, temporary) = File::create_unique(home, b".trust-", 0o600)?;
    let result = file
        .write(text)
        .and_then(|()| file.sync())
        .and_then(|()| fs::rename(&temporary, &fs::join(home, b"trust.json")));
    if result.is_err() {
        let _ = fs::remove(&temporary);
    }
    result
}

impl Project {
    /// What trusting it would change, in one line for the question: `config.json (base_url "http://…", permissions),
    /// hooks/pre.sh`. It holds text from the project.
    pub fn summary(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        if let Some(config) = &self.config {
            parts.push(["config.json (", &config_summary(config), ")"].concat());
        }
        let shown = 8;
        for file in self.files.iter().take(shown) {
            parts.push(String::from_utf8_lossy(file).into_owned());
        }
        if self.files.len() > shown {
            parts.push(format!("{} more files", self.files.len() - shown));
        }
        parts.join(", ")
    }

    fn hex(&self) -> String {
        let digits = b"0123456789abcdef";
        let mut out = String::with_capacity(64);
        for byte in self.digest {
            out.push(char::from(digits[usize::from(byte >> 4)]));
            out.push(char::from(digits[usize::from(byte & 15)]));
        }
        out
    }
}

/// The keys a config sets; where it would send the conversation is shown in full.
fn config_summary(text: &[u8]) -> String {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let Ok(value) = parse(text) else {
        return "not valid JSON".into();
    };
    let mut parts: Vec<String> = Vec::new();
    for (name, v) in value.entries() {
        let mut part = name.string();
        if part == "base_url"
            && let Some(url) = v.string()
        {
            part.push_str(&[" \"", &url, "\""].concat());
        }
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    if parts.is_empty() {
        return "nothing".into();
    }
    parts.join(", ")
}

/// Reads what matters in `dir`; `None` when there is nothing of it.
fn inspect(dir: &[u8]) -> Option<Project> {
    if !fs::is_dir(dir) {
        return None;
    }
    let mut look = Look {
        hash: Sha256::new(),
        left: MAX_BYTES,
        visited: 0,
        project: Project {
            path: fs::canonical(dir),
            config: None,
            files: Vec::new(),
            complete: true,
            size: 0,
            digest: [0; 32],
        },
    };
    let real = look.project.path.clone();
    look.record(b'P', &real, 0, &[]);
    for name in MATTERS {
        look.entry(name.as_bytes().to_vec(), 0);
    }
    let mut project = look.project;
    project.digest = look.hash.finish();
    (project.config.is_some() || !project.files.is_empty()).then_some(project)
}

struct Look {
    hash: Sha256,
    left: u64,
    visited: usize,
    project: Project,
}

impl Look {
    /// Each part has its length in front, so that no two trees give the same bytes.
    fn record(&mut self, kind: u8, name: &[u8], size: u64, digest: &[u8]) {
        self.hash.update(&[kind]);
        self.hash.update(&(name.len() as u64).to_be_bytes());
        self.hash.update(name);
        self.hash.update(&size.to_be_bytes());
        self.hash.update(digest);
    }

    /// Looks at `name`, a path below the project's directory. Links are followed: what counts is what would be read.
    fn entry(&mut self, name: Vec<u8>, depth: usize) {
        if !self.project.complete {
            return;
        }
        let path = fs::join(&self.project.path, &name);
        let Ok(meta) = fs::stat(&path) else {
            // A link that leads nowhere may lead somewhere tomorrow, and is a change then.
            return;
        };
        self.visited += 1;
        if self.visited > MAX_ENTRIES || depth > MAX_DEPTH {
            self.project.complete = false;
            return;
        }
        if meta.kind == Kind::Dir {
            return self.directory(&path, &name, depth);
        }
        let is_config = name == b"config.json";
        match self.file(&path, is_config) {
            Some((size, digest)) => self.record(b'F', &name, size, &digest),
            None => self.project.complete = false,
        }
        if !is_config {
            self.project.files.push(name);
        }
    }

    fn directory(&mut self, path: &[u8], name: &[u8], depth: usize) {
        let Ok(entries) = std::fs::read_dir(fs::path(path)) else {
            self.project.complete = false;
            self.project.files.push(name.to_vec());
            return;
        };
        let mut names: Vec<Vec<u8>> = Vec::new();
        for entry in entries {
            match entry {
                Ok(e) if names.len() <= MAX_ENTRIES => {
                    names.push(fs::join(name, e.file_name().as_bytes()));
                }
                _ => {
                    self.project.complete = false;
                    break;
                }
            }
        }
        names.sort_unstable();
        for name in names {
            self.entry(name, depth + 1);
        }
    }

    /// Size and digest of a regular file; `None` when it can't be read, is no file, or the limit is reached. The text
    /// is kept when `keep` says so.
    fn file(&mut self, path: &[u8], keep: bool) -> Option<(u64, [u8; 32])> {
        let mut text = Vec::new();
        let read = open_regular(path).and_then(|mut file| {
            let mut hash = Sha256::new();
            let mut size = 0;
            let mut buffer = [0; 4096];
            loop {
                let n = file.read(&mut buffer).ok()?;
                if n == 0 {
                    return Some((size, hash.finish()));
                }
                size += n as u64;
                self.left = self.left.checked_sub(n as u64)?;
                hash.update(&buffer[..n]);
                if keep {
                    text.extend_from_slice(&buffer[..n]);
                }
            }
        });
        if keep {
            self.project.config = Some(text);
        }
        self.project.size += read.map_or(0, |(size, _)| size);
        read
    }
}

/// Opens a regular file, and nothing that took its place since it was looked at.
fn open_regular(path: &[u8]) -> Option<File> {
    let file = File::open(path).ok()?;
    (file.meta().ok()?.kind == Kind::File).then_some(file)
}

#[derive(Default, SerJson)]
struct Store {
    projects: Vec<Entry>,
}

#[derive(SerJson)]
struct Entry {
    path: String,
    size: u64,
    sha256: String,
}

/// Reads `home`/trust.json. One that is missing or damaged trusts nothing. nanoserde only writes it: its reader panics
/// or hangs on some damaged texts, and costs 20 KiB of floating point.
fn read(home: &[u8]) -> Store {
    let mut store = Store::default();
    let path = fs::join(home, b"trust.json");
    let text = fs::read_small(&path, MAX_STORE).unwrap_or_default();
    let Ok(whole) = parse(&text) else {
        return store;
    };
    let Some(projects) = whole.get("projects") else {
        return store;
    };
    for entry in projects.items() {
        if let (Some(path), Some(size), Some(sha256)) = (
            entry.get_string("path"),
            entry.get_u64("size"),
            entry.get_string("sha256"),
        ) {
            store.projects.push(Entry { path, size, sha256 });
        }
    }
    store
}

#[cfg(test)]
mod tests;
