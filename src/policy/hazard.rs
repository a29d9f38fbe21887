//! Which paths the danger gate guards: system directories, homes, raw devices.

use super::shell::{Kind, Word};

/// Takes the next word off `list`; empty at its end.
#[inline(never)]
pub(super) fn next_word<'a>(list: &mut &'a [u8]) -> &'a [u8] {
    let n = memchr::memchr(b' ', list).unwrap_or(list.len());
    let (word, rest) = list.split_at_checked(n).unwrap_or((list, b""));
    *list = rest.get(1..).unwrap_or(b"");
    word
}

/// Whether `name` is one of the words of `list`.
#[inline(never)]
pub(super) fn listed(list: &str, name: &[u8]) -> bool {
    let mut list = list.as_bytes();
    while !list.is_empty() {
        if next_word(&mut list) == name {
            return true;
        }
    }
    false
}

/// What is lost with a path.
#[derive(Clone, Copy, PartialEq, Eq)]
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
    let mut path = clean(&path);
    loop {
        let n = path.iter().rposition(|b| *b == b'/').map_or(0, |n| n + 1);
        // All entries of a directory, or all hidden ones.
        let last = path.get(n..).unwrap_or(b"");
        if !word.globs || !listed("* ** .* *.* .[!.]* .??* ..?*", last) {
            break;
        }
        path.truncate(n.saturating_sub(1));
    }
    if absolute {
        return classify(&path, home, true);
    }
    let above = path.iter().all(|b| matches!(b, b'.' | b'/'));
    let joined = cwd.map(|cwd| clean(&[cwd, b"/", &path].concat()));
    joined
        .and_then(|path| classify(&path, home, false))
        .or(above.then_some(Hazard::Here))
}

/// The path `word` stands for: `~`, `$HOME` and `$PWD` in front are put in, the last as `.`.
fn expand(word: &Word, home: &[u8]) -> Option<Vec<u8>> {
    let home = if home.is_empty() { b"/root" } else { home };
    let text = word.text.as_slice();
    let mut front: &[u8] = b"";
    let mut rest = 0;
    if word.unknown > 1 {
        return None;
    }
    if word.unknown == 1 && word.kind == Kind::Tilde {
        rest = 1;
        front = match text.get(1) {
            None | Some(b'/') => home,
            _ if text.starts_with(b"~root") => b"/",
            _ => b"/home/",
        };
    } else if word.unknown == 1 && (word.start != 6 || !text.starts_with(b"/home/$")) {
        // Behind `/home/` it is some home, whoever it is.
        let name = text.get(1..word.end).filter(|_| word.start == 0)?;
        let name = name.strip_prefix(b"{").unwrap_or(name);
        let name = name.strip_suffix(b"}").unwrap_or(name);
        let n = memchr::memchr(b':', name).unwrap_or(name.len());
        front = match name.get(..n)? {
            b"HOME" => home,
            b"PWD" => b".",
            _ => return None,
        };
        rest = word.end;
    }
    Some([front, text.get(rest..)?].concat())
}

/// A path with `.`, `..` and empty components worked out: `/a/b`, `a/b`, nothing for `/` and `.`. `..` stays only in
/// front of a relative path.
pub(super) fn clean(path: &[u8]) -> Vec<u8> {
    let absolute = path.first() == Some(&b'/');
    let mut out = Vec::new();
    for part in path.split(|b| *b == b'/') {
        if part.is_empty() || part == b"." {
            continue;
        }
        if part == b".." && (absolute || !out.is_empty() && !out.ends_with(b"..")) {
            let n = out.iter().rposition(|b| *b == b'/');
            out.truncate(n.unwrap_or(0));
            continue;
        }
        if absolute || !out.is_empty() {
            out.push(b'/');
        }
        out.extend_from_slice(part);
    }
    out
}

/// `path` is absolute and clean.
fn classify(path: &[u8], home: &[u8], below: bool) -> Option<Hazard> {
    let home = clean(home);
    let is_below = |path: &[u8], dir: &[u8]| {
        let rest = path.strip_prefix(dir);
        rest.is_some_and(|rest| rest.starts_with(b"/"))
    };
    if is_below(&home, path) || path.is_empty() {
        return Some(Hazard::System);
    }
    if path == home {
        return Some(Hazard::Home);
    }
    if !home.is_empty() && is_below(path, &home) {
        return None;
    }
    let path = path.get(1..)?;
    let n = memchr::memchr(b'/', path).unwrap_or(path.len());
    let top = path.get(..n)?;
    let depth = path.iter().filter(|b| **b == b'/').count();
    if depth == 0 && top == b"root" || depth == 1 && top == b"home" {
        return Some(Hazard::Home);
    }
    let content = listed(WITH_CONTENT, top);
    let loose = path.starts_with(b"dev/shm/")
        || path.starts_with(b"usr/src/")
        || path.starts_with(b"usr/local/") && depth > 2;
    let guarded = match depth {
        0 => content || listed(THEMSELVES, top),
        _ => below && content && !loose || path == b"var/lib",
    };
    guarded.then_some(Hazard::System)
}

/// Names below `/dev` of block and flash devices. The last letter stands for what follows: `a` for a letter, `0` for a
/// digit (or a star each), `/` for a directory of devices.
const RAW: &str = "sda hda vda xvda mmcblk0 nvme0 mtd0 mtdblock0 ubi0 ubiblock0 dm-0 md0 loop0 nbd0 \
    disk/ mapper/ block/ mtd/ md/";
/// The same for what `dd` may write to.
const HARMLESS: &str = "tty0 ttya fd/ pts/ shm/ tcp/ udp/";

/// Whether `path` names a raw block or flash device: `/dev/sda1`, `/dev/mtd0`, `/dev/disk/by-id/…`. For `dd`: any that
/// is more than a terminal or a bottomless pit.
pub(super) fn is_device(path: &[u8], dd: bool) -> bool {
    let path = clean(path);
    let Some(name) = path.strip_prefix(b"/dev/") else {
        return false;
    };
    let mut list = if dd { HARMLESS } else { RAW }.as_bytes();
    while let Some((class, prefix)) = next_word(&mut list).split_last() {
        let next = name.strip_prefix(prefix).and_then(|rest| rest.first());
        let fits = next.is_some_and(|next| match class {
            b'a' => next.is_ascii_alphabetic() || *next == b'*',
            b'0' => next.is_ascii_digit() || *next == b'*',
            _ => next == class,
        });
        if fits && (*class == b'/' || !name.contains(&b'/')) {
            return !dd;
        }
    }
    dd && !listed(
        "null zero full random urandom stdin stdout stderr console kmsg ptmx tty",
        name,
    )
}
