//! Listing and pruning. A whole file costs two reads; only damaged files and those of other programs are read through,
//! in constant memory.

use super::id::CLOCK_SET;
use super::scan::{Brackets, HEAD_MAX, Head, Kind, Lines, find_trailer};
use super::store::Store;
use crate::sys::{storage, time};
use crate::text::{push_dec, push_visible};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// What a list shows of a session.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its id.
    pub id: String,
    /// When it was started; empty when the file doesn't say.
    pub created: String,
    /// Where it was started; empty when the file doesn't say.
    pub cwd: String,
    /// Messages in the file.
    pub messages: u64,
}

/// What [`Store::prune`] did.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Pruned {
    /// Sessions deleted.
    pub deleted: u32,
    /// Bytes of their files.
    pub bytes: u64,
    /// Sessions that are old enough but in use, or couldn't be deleted.
    pub kept: u32,
}

impl Store {
    /// Hands every session with a message to `each`, the newest first, until it returns false.
    pub fn list(&self, each: &mut dyn FnMut(&Entry) -> bool) {
        for id in self.ids().iter().rev() {
            if let Some(entry) = self.entry(id).filter(|e| e.messages > 0)
                && !each(&entry)
            {
                return;
            }
        }
    }

    /// Appends the list as text for a terminal: id, created, messages, directory, one session a line.
    pub fn list_text(&self, out: &mut Vec<u8>) {
        let before = out.len();
        self.list(&mut |e| {
            push_visible(out, e.id.as_bytes());
            out.extend_from_slice(b"  ");
            push_visible(
                out,
                if e.created.is_empty() {
                    b"-"
                } else {
                    e.created.as_bytes()
                },
            );
            out.extend_from_slice(b"  ");
            push_dec(out, e.messages);
            out.extend_from_slice(if e.messages == 1 {
                b" message  "
            } else {
                b" messages  "
            });
            push_visible(out, e.cwd.as_bytes());
            out.push(b'\n');
            true
        });
        if out.len() == before {
            out.extend_from_slice(b"No sessions yet: the first prompt starts one.\n");
        }
    }

    /// What the list shows of one session; `None` when its file can't be read.
    pub fn entry(&self, id: &str) -> Option<Entry> {
        let file = File::open(self.path(id)?).ok()?;
        let mut entry = read_entry(&file).unwrap_or_default();
        entry.id = id.into();
        Some(entry)
    }

    /// Deletes the sessions not used for more than `days` days, with what belongs to them.
    ///
    /// # Errors
    /// A phrase for the user when the device's clock isn't set: ages mean nothing then.
    pub fn prune(&self, days: u32) -> Result<Pruned, &'static str> {
        let now = time::unix_seconds();
        if now < CLOCK_SET {
            return Err(
                "the device's clock is not set, so no session's age is known: set it first",
            );
        }
        let oldest = now.saturating_sub(u64::from(days) * 86_400);
        let mut sum = Pruned::default();
        for id in self.ids() {
            let Some(path) = self.path(&id) else { continue };
            let Ok(meta) = std::fs::metadata(&path) else {
                continue;
            };
            if u64::try_from(meta.mtime()).unwrap_or(0) >= oldest {
                continue;
            }
            if self.delete(&id, &path) {
                sum.deleted += 1;
                sum.bytes += meta.len();
            } else {
                sum.kept += 1;
            }
        }
        Ok(sum)
    }

    fn delete(&self, id: &str, path: &Path) -> bool {
        let Ok(file) = File::open(path) else {
            return false;
        };
        if storage::lock(&file) == storage::Lock::Busy || std::fs::remove_file(path).is_err() {
            return false;
        }
        let _ = std::fs::remove_file(self.journal(id, path));
        let _ = std::fs::remove_dir_all(path.with_extension(""));
        true
    }
}

fn read_entry(file: &File) -> Option<Entry> {
    let mut line = Vec::new();
    let mut lines = Lines::new(file, 0);
    let found = find_trailer(file).ok()?;
    // A file of another program may be one line of megabytes: its head isn't where ours is.
    let mut start = [0u8; 6];
    let n = file.read_at(&mut start, 0).ok()?;
    if !start.get(..n)?.starts_with(b"{\"id\":") {
        return skeleton(file);
    }
    lines.next(&mut line, HEAD_MAX).ok()?;
    let Some(head) = Head::read(&line) else {
        return skeleton(file);
    };
    let mut entry = Entry {
        id: String::new(),
        created: head.created,
        cwd: head.cwd,
        messages: 0,
    };
    if let Some((trailer, _)) = found {
        entry.messages = trailer.count;
        return Some(entry);
    }
    let mut broken = 0;
    while let Some(kind) = lines.next(&mut line, 0).ok()? {
        match kind {
            Kind::Message { .. } => {
                entry.messages += broken + 1;
                broken = 0;
            }
            Kind::Open | Kind::Garbage => broken += 1,
            Kind::Trailer | Kind::Filler => {}
        }
    }
    Some(entry)
}

/// Reads a document of any layout: keeps its outermost members, empties what is nested in them, and counts the objects
/// in its arrays.
fn skeleton(file: &File) -> Option<Entry> {
    let mut brackets = Brackets::default();
    let mut top = Vec::new();
    let mut messages = 0;
    let mut chunk = [0u8; 4096];
    let mut at = 0;
    loop {
        let n = file.read_at(&mut chunk, at).ok()?;
        if n == 0 {
            break;
        }
        at += n as u64;
        for &b in chunk.get(..n)? {
            let before = brackets.depth;
            brackets.step(b);
            if before.min(brackets.depth) <= 1 && top.len() < HEAD_MAX {
                top.push(b);
            }
            messages += u64::from(before == 2 && brackets.depth == 3 && b == b'{');
        }
    }
    let head = Head::from(&top).unwrap_or_default();
    Some(Entry {
        id: String::new(),
        created: head.created,
        cwd: head.cwd,
        messages,
    })
}
