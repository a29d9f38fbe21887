//! Listing and pruning. A whole file costs two reads; only damaged files and those of other programs are loaded.

use super::id::CLOCK_SET;
use super::load;
use super::scan::{Head, Reader, find_trailer};
use super::store::Store;
use crate::sys::{dir, fs, storage, time};
use crate::text::{push_dec, push_visible};
use std::fs::File;

/// What a list shows of a session.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Entry {
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
    /// Appends the list as text for a terminal: id, created, messages, directory, one session a line, the newest first;
    /// sessions without a message are left out.
    pub fn list_text(&self, out: &mut Vec<u8>) {
        let before = out.len();
        for id in self.ids().iter().rev() {
            let Some(e) = self.entry(id).filter(|e| e.messages > 0) else {
                continue;
            };
            push_visible(out, id.as_bytes());
            out.extend_from_slice(b"  ");
            let unknown = if e.created.is_empty() { "-" } else { "" };
            push_visible(out, e.created.as_bytes());
            out.extend_from_slice(unknown.as_bytes());
            out.extend_from_slice(b"  ");
            push_dec(out, e.messages);
            let plural: &[u8] = if e.messages == 1 { b"" } else { b"s" };
            out.extend_from_slice(b" message");
            out.extend_from_slice(plural);
            out.extend_from_slice(b"  ");
            push_visible(out, e.cwd.as_bytes());
            out.push(b'\n');
        }
        if out.len() == before {
            out.extend_from_slice(b"No sessions yet: the first prompt starts one.\n");
        }
    }

    /// What the list shows of one session; `None` when its file can't be read.
    pub fn entry(&self, id: &str) -> Option<Entry> {
        read_entry(&storage::open(&self.path(id)?, false).ok()?)
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
            let Ok(meta) = fs::stat(&path) else { continue };
            if meta.mtime.0 >= oldest as i64 {
                continue;
            }
            if self.delete(&id, &path) {
                sum.deleted += 1;
                sum.bytes += meta.size;
            } else {
                sum.kept += 1;
            }
        }
        Ok(sum)
    }

    fn delete(&self, id: &str, path: &[u8]) -> bool {
        let Ok(file) = storage::open(path, false) else {
            return false;
        };
        if !storage::lock(&file) || fs::remove(path).is_err() {
            return false;
        }
        let _ = fs::remove(&self.journal(id, path));
        // What belongs to it: a directory of files.
        let directory = path.strip_suffix(b".json").unwrap_or(path);
        let _ = dir::each(directory, &mut |name, _| {
            let _ = fs::remove(&fs::join(directory, name));
        });
        let _ = std::fs::remove_dir(fs::path(directory));
        true
    }
}

fn read_entry(file: &File) -> Option<Entry> {
    if let Some((trailer, _)) = find_trailer(file).ok()? {
        let mut reader = Reader::new(file);
        reader.fetch().ok()?;
        if let Some(head) = Head::read(reader.line()) {
            return Some(Entry {
                created: head.created,
                cwd: head.cwd,
                messages: trailer.count,
            });
        }
    }
    let loaded = load::load(file).ok()?;
    Some(Entry {
        created: loaded.head.created,
        cwd: loaded.head.cwd,
        messages: loaded.slots.into(),
    })
}
