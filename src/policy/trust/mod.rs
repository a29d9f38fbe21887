//! Whether a project's `.cluade/` may do more than be read. Its config, hooks, tools and MCP servers could send the key
//! elsewhere or run commands, so they count only after the user agreed once; the agreement holds for one real path and
//! exactly these contents.
//!
//! The digest is SHA-256 and not a quick checksum: whoever can push to a repository must not be able to craft a second
//! version that passes for the agreed one. Skills and rules are text for the model and need no trust.

mod sha256;

use nanoserde::SerJson;

use crate::config::make_home;
use crate::json::parse;
use crate::sys::dir;
use crate::sys::fs::{self, File, Kind};
use crate::text::{filled, push_dec, push_filled};
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
    /// Whether the user agreed to exactly this.
    pub agreed: bool,
    /// SHA-256 of it all, in hexadecimal.
    digest: String,
}

/// Looks at `dir`, a project's `.cluade/`, and into `home`/trust.json; `None` when nothing in it needs trust.
pub fn look(home: Option<&[u8]>, dir: &[u8]) -> Option<Project> {
    let mut project = inspect(dir)?;
    if let (true, Some(home)) = (project.complete, home) {
        let entries = read(home).projects;
        project.agreed = entries.iter().any(|e| e.sha256 == project.digest);
    }
    Some(project)
}

/// Remembers in `home`/trust.json that the user agreed to `project` as it was looked at.
///
/// # Errors
/// It could not be read completely, there is no home directory, or the file can't be written.
pub fn remember(home: Option<&[u8]>, project: &Project) -> Result<(), Vec<u8>> {
    if !project.complete {
        return Err(filled(
            "% holds files that can't be read, or more than 512 files or 4 MiB: too much to vouch for",
            &[&project.path],
        ));
    }
    let Some(home) = home else {
        return Err(b"there is no home directory".to_vec());
    };
    let path = String::from_utf8_lossy(&project.path).into_owned();
    let mut store = read(home);
    store.projects.retain(|e| e.path != path);
    let excess = (store.projects.len() + 1).saturating_sub(MAX_REMEMBERED);
    store.projects.drain(..excess);
    store.projects.push(Entry {
        path,
        sha256: project.digest.clone(),
    });
    write(home, store.serialize_json().as_bytes())
        .map_err(|e| filled("%/trust.json: %", &[home, fs::os_text(&e).as_bytes()]))
}

fn write(home: &[u8], text: &[u8]) -> std::io::Result<()> {
    make_home(home)?;
    fs::replace_private(&fs::join(home, b"trust.json"), b".trust-", text)
}

impl Project {
    /// What trusting it would change, in one line for the question: `config.json (base_url "http://…", permissions),
    /// hooks/pre.sh`. It holds text from the project.
    pub fn summary(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(config) = &self.config {
            out.extend_from_slice(b"config.json (");
            push_config(&mut out, config);
            out.push(b')');
        }
        for (i, file) in self.files.iter().enumerate() {
            if !out.is_empty() {
                out.extend_from_slice(b", ");
            }
            if i == 8 {
                push_dec(&mut out, (self.files.len() - i) as u64);
                out.extend_from_slice(b" more files");
                break;
            }
            out.extend_from_slice(file);
        }
        out
    }
}

/// The keys a config sets; where it would send the conversation is shown in full.
fn push_config(out: &mut Vec<u8>, text: &[u8]) {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let Ok(value) = parse(text) else {
        return out.extend_from_slice(b"not valid JSON");
    };
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for (name, v) in value.entries() {
        let mut part = name.bytes();
        if part == b"base_url"
            && let Some(url) = v.text()
        {
            push_filled(&mut part, " \"%\"", &[&url.bytes()]);
        }
        if !parts.contains(&part) {
            if !parts.is_empty() {
                out.extend_from_slice(b", ");
            }
            out.extend_from_slice(&part);
            parts.push(part);
        }
    }
    if parts.is_empty() {
        out.extend_from_slice(b"nothing");
    }
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
            agreed: false,
            digest: String::new(),
        },
    };
    record(&mut look.hash, &look.project.path, 0);
    for name in MATTERS {
        look.entry(name.as_bytes().to_vec(), 0);
    }
    look.project.digest = look.hash.finish();
    let project = look.project;
    (project.config.is_some() || !project.files.is_empty()).then_some(project)
}

/// What stands in front of `size` bytes of content. Each part has its length in front, so that no two trees give the
/// same bytes.
fn record(hash: &mut Sha256, name: &[u8], size: u64) {
    hash.update(&(name.len() as u32).to_be_bytes());
    hash.update(name);
    hash.update(&size.to_be_bytes());
}

struct Look {
    hash: Sha256,
    left: u64,
    visited: usize,
    project: Project,
}

impl Look {
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
            let mut names: Vec<Vec<u8>> = Vec::new();
            let listed = dir::each(&path, &mut |entry, _| {
                if names.len() <= MAX_ENTRIES {
                    let entry = fs::join(&name, entry);
                    names.insert(names.partition_point(|n| *n < entry), entry);
                }
            });
            for name in names {
                self.entry(name, depth + 1);
            }
            if listed.is_ok() {
                return;
            }
            self.project.complete = false;
        } else {
            if name == b"config.json" {
                self.project.config = Some(Vec::new());
            }
            if self.file(&path, &name).is_none() {
                self.project.complete = false;
            }
        }
        if name != b"config.json" || self.project.config.is_none() {
            self.project.files.push(name);
        }
    }

    /// Takes in a regular file; `None` when it can't be read as the size it has, is no file, or the limit is reached.
    /// The text of the config is kept.
    fn file(&mut self, path: &[u8], name: &[u8]) -> Option<()> {
        let is_config = name == b"config.json";
        // Nothing that took its place since it was looked at.
        let mut file = File::open(path).ok()?;
        let meta = file.meta().ok()?;
        if meta.kind != Kind::File {
            return None;
        }
        self.left = self.left.checked_sub(meta.size)?;
        record(&mut self.hash, name, meta.size);
        let mut rest = meta.size;
        let mut buffer = [0; 4096];
        loop {
            let n = file.read(&mut buffer).ok()?;
            if n == 0 {
                break;
            }
            rest = rest.checked_sub(n as u64)?;
            self.hash.update(&buffer[..n]);
            if let (true, Some(config)) = (is_config, &mut self.project.config) {
                config.extend_from_slice(&buffer[..n]);
            }
        }
        (rest == 0).then_some(())
    }
}

#[derive(Default, SerJson)]
struct Store {
    projects: Vec<Entry>,
}

#[derive(SerJson)]
struct Entry {
    path: String,
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
        if let (Some(path), Some(sha256)) = (entry.get_string("path"), entry.get_string("sha256")) {
            store.projects.push(Entry { path, sha256 });
        }
    }
    store
}

#[cfg(test)]
mod tests;
