//! Which paths the danger gate guards: system directories, homes, raw devices.

use super::shell::{Kind, Word};

/// Whether `name` is one of the words of `list`.
pub(super) fn listed(list: &str, name: &[u8]) -> bool {
    list.split(' ').any(|word| word.as_bytes() == name)
}

/// What is lost with a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hazard {
    /// The system or a part of it.
    System,
    /// A whole home directory.
    Home,
    /// The working directory or one above it.
    Here,
}

/// Top directories that are guarded with all below them.
const WITH_CONTENT: &str = "bin boot dev etc overlay proc rom sbin sys usr lib lib32 lib64 libx32";
/// Top directories that are guarded themselves: what is below them comes and goes.
const THEMSELVES: &str = "home media mnt opt root run srv var www";

/// What removing `word` with all below would destroy; `None` for nothing that is guarded, and for what can't be known.
/// `cwd` is `None` when the command may have left it.
pub(super) fn hazard(word: &Word, cwd: Option<&[u8]>, home: &[u8]) -> Option<Hazard> {
    let path = expand(word, home)?;
    let absolute = path.first()? == &b'/';
    let mut parts = components(&path);
    while word.globs() && parts.last().is_some_and(|p| is_everything(p)) {
        parts.pop();
    }
    if absolute {
        return classify(&parts, home, true);
    }
    let whole = cwd.and_then(|cwd| {
        let joined = [cwd, b"/", &parts.join(&b'/')].concat();
        classify(&components(&joined), home, false)
    });
    let above = parts.iter().all(|p| *p == b"..");
    whole.or(above.then_some(Hazard::Here))
}

/// The path `word` stands for: `~`, `$HOME` and `$PWD` in front are put in, the last as `.`.
fn expand(word: &Word, home: &[u8]) -> Option<Vec<u8>> {
    let home = if home.is_empty() { b"/root" } else { home };
    let mut path = Vec::new();
    let mut rest = 0;
    for mark in &word.marks {
        let raw = word.text.get(mark.start..mark.end)?;
        match mark.kind {
            Kind::Glob => {}
            Kind::Tilde => {
                let name = word.text.get(1..)?;
                let name = name.split(|b| *b == b'/').next()?;
                match name {
                    b"" => path.extend_from_slice(home),
                    b"+" => path.push(b'.'),
                    b"-" => return None,
                    b"root" => path.extend_from_slice(b"/root"),
                    _ => path = [b"/home/", name].concat(),
                }
                rest = 1 + name.len();
            }
            Kind::Value if mark.start == 0 => {
                if is_variable(raw, b"HOME") {
                    path.extend_from_slice(home);
                } else if is_variable(raw, b"PWD") {
                    path.push(b'.');
                } else {
                    return None;
                }
                rest = mark.end;
            }
            _ => return None,
        }
    }
    path.extend_from_slice(word.text.get(rest..)?);
    Some(path)
}

/// Whether an expansion gives the value of `name`: `$name`, `${name}`, `${name:-…}`, `${name:?…}`.
fn is_variable(raw: &[u8], name: &[u8]) -> bool {
    let raw = raw.strip_prefix(b"$").unwrap_or(raw);
    let raw = raw.strip_prefix(b"{").unwrap_or(raw);
    let Some(rest) = raw.strip_prefix(name) else {
        return false;
    };
    rest.is_empty() || rest == b"}" || rest.starts_with(b":-") || rest.starts_with(b":?")
}

/// The components of a path with `.`, `..` and empty ones worked out. `..` stays only in front of a relative path.
pub(super) fn components(path: &[u8]) -> Vec<&[u8]> {
    let absolute = path.first() == Some(&b'/');
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." if parts.last().is_some_and(|p| *p != b"..") => {
                parts.pop();
            }
            b".." if absolute => {}
            _ => parts.push(part),
        }
    }
    parts
}

/// Whether a component matches all entries of a directory, or all hidden ones.
fn is_everything(part: &[u8]) -> bool {
    listed("* ** .* *.* .[!.]* .??* ..?*", part)
}

fn classify(parts: &[&[u8]], home: &[u8], below: bool) -> Option<Hazard> {
    let Some((top, rest)) = parts.split_first() else {
        return Some(Hazard::System);
    };
    let home = components(home);
    if home.starts_with(parts) {
        return Some(if home.len() == parts.len() {
            Hazard::Home
        } else {
            Hazard::System
        });
    }
    if !home.is_empty() && parts.starts_with(&home) {
        return None;
    }
    let content = listed(WITH_CONTENT, top);
    match (*top, rest) {
        (b"root", []) | (b"home", [_]) => Some(Hazard::Home),
        (_, []) => (content || listed(THEMSELVES, top)).then_some(Hazard::System),
        (b"var", [b"lib"]) => Some(Hazard::System),
        (b"dev", [b"shm", _, ..]) | (b"usr", [b"src", _, ..] | [b"local", _, _, ..]) => None,
        _ => (below && content).then_some(Hazard::System),
    }
}

/// Whether `path` names a raw block or flash device: `/dev/sda1`, `/dev/mtd0`, `/dev/disk/by-id/…`.
pub(super) fn raw_device(path: &[u8]) -> bool {
    let Some((name, more)) = device(path) else {
        return false;
    };
    if more {
        return listed("disk mapper block mtd md", name);
    }
    let follows = |prefixes: &str, test: fn(u8) -> bool| {
        prefixes.split(' ').any(|prefix| {
            let rest = name.strip_prefix(prefix.as_bytes());
            rest.and_then(|r| r.first()).is_some_and(|b| test(*b))
        })
    };
    follows("sd hd vd xvd", |b| b.is_ascii_lowercase() || b == b'*')
        || follows(
            "mmcblk nvme mtd mtdblock ubi ubiblock dm- md loop nbd",
            |b| b.is_ascii_digit() || b == b'*',
        )
}

/// Whether writing blocks to `path` is writing to a device that is more than a terminal or a bottomless pit.
pub(super) fn block_target(path: &[u8]) -> bool {
    let harmless = |name: &[u8]| {
        listed(
            "null zero full random urandom stdin stdout stderr console kmsg ptmx",
            name,
        ) || name.starts_with(b"tty")
    };
    match device(path) {
        Some((name, false)) => !harmless(name),
        Some((name, true)) => !listed("fd pts shm tcp udp", name),
        None => false,
    }
}

/// The name below `/dev`, and whether the path goes on behind it.
fn device(path: &[u8]) -> Option<(&[u8], bool)> {
    if path.first() != Some(&b'/') {
        return None;
    }
    match components(path).as_slice() {
        [b"dev", name] => Some((name, false)),
        [b"dev", name, _, ..] => Some((name, true)),
        _ => None,
    }
}
