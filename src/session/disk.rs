//! The session file being written: appends that leave a loadable file at every moment.

use super::conversation::{Conversation, SEPARATOR};
use super::load::Rewrite;
use crate::sys::storage;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Below this many free bytes nothing more is written to the file system of the sessions.
pub const LOW_SPACE: u64 = 256 * 1024;

/// Where a session is kept.
pub struct Disk {
    /// The session file, locked.
    pub file: File,
    /// Its path.
    pub path: PathBuf,
    /// Offset behind the last message.
    pub end: u64,
    /// The file's size.
    pub len: u64,
    /// There is a message in the file.
    pub any: bool,
    /// What follows `end` is not a trailer.
    pub torn: bool,
    /// The trailer at `end`.
    pub trailer: Vec<u8>,
    /// The file must be written anew first.
    pub rewrite: Option<Rewrite>,
    /// On scratch: each step goes to the file itself, and nothing is flushed.
    pub volatile: bool,
    /// It could only be opened for reading.
    pub read_only: bool,
    /// Made by this process and empty so far.
    pub fresh: bool,
    /// Where the session's id is to be left after the first save: the first place that takes it.
    pub pointers: Vec<PathBuf>,
    /// The session is only being completed: its id is left only in place of an older one.
    pub recovering: bool,
}

impl Disk {
    /// How much is free when that is too little to write; files on scratch may fill it.
    pub fn short_of_space(&self) -> Option<u64> {
        if self.volatile {
            return None;
        }
        storage::free_bytes(&self.file).filter(|free| *free < LOW_SPACE)
    }

    /// Appends the messages from `from` on and a new trailer over the old one, in one write, and flushes. When it fails
    /// the file is as it was, or has a torn end that loading repairs; calling again writes it all.
    ///
    /// # Errors
    /// The system's.
    pub fn append(
        &mut self,
        conversation: &Conversation,
        from: usize,
        context: usize,
        trailer: Vec<u8>,
    ) -> io::Result<()> {
        if self.read_only {
            return Err(io::Error::from_raw_os_error(libc::EROFS));
        }
        let new = from < conversation.len();
        let gap: &[u8] = match (new, self.any) {
            (false, _) => b"",
            (true, false) => b"\n",
            (true, true) => SEPARATOR,
        };
        if self.torn && storage::truncate(&self.file, self.end).is_ok() {
            self.len = self.end;
        }
        let [before, mark, after] = marked(conversation, from, context);
        let messages = (gap.len() + before.len() + mark.len() + after.len()) as u64;
        let whole = self.end + messages + trailer.len() as u64;
        // A file that gets shorter would end in the rest of the old trailer: blanks, which JSON ignores, cover it.
        let rest = usize::try_from(self.len.saturating_sub(whole)).unwrap_or(0);
        let pad = vec![b' '; rest];
        let parts = [gap, before, mark, after, &trailer, &pad];
        if let Err(error) = storage::write_at(&self.file, self.end, &parts) {
            self.torn = self.torn
                || storage::write_at(&self.file, self.end, &[&self.trailer]).is_err()
                || storage::truncate(&self.file, self.len).is_err();
            return Err(error);
        }
        self.len = self.len.max(whole);
        if !self.volatile
            && let Err(error) = storage::sync(&self.file)
        {
            self.torn = true;
            return Err(error);
        }
        self.end += messages;
        self.any |= new;
        (self.torn, self.fresh, self.trailer) = (false, false, trailer);
        Ok(())
    }

    /// Writes all messages to a new file and puts it in the place of the old one, which stays as `ID.damaged` if it
    /// held more.
    ///
    /// # Errors
    /// The system's; the old file is in its place then.
    pub fn replace(
        &mut self,
        head: &[u8],
        conversation: &Conversation,
        context: usize,
        trailer: Vec<u8>,
    ) -> io::Result<()> {
        let keep = self.rewrite.as_ref().is_some_and(|r| r.keep);
        let new = self.path.with_extension("new");
        let file = storage::create(&new, false)?;
        // Nobody can have this one.
        storage::lock(&file);
        let gap: &[u8] = if conversation.is_empty() { b"" } else { b"\n" };
        let [before, mark, after] = marked(conversation, 0, context);
        let parts = [head, gap, before, mark, after, &trailer];
        let done = storage::write_at(&file, 0, &parts)
            .and_then(|()| {
                if self.volatile {
                    Ok(())
                } else {
                    storage::sync(&file)
                }
            })
            .and_then(|()| self.swap(&new, keep));
        if let Err(error) = done {
            let _ = std::fs::remove_file(&new);
            return Err(error);
        }
        let total: usize = parts.iter().map(|p| p.len()).sum();
        self.len = total as u64;
        self.end = (total - trailer.len()) as u64;
        self.any = !conversation.is_empty();
        (self.file, self.trailer, self.rewrite) = (file, trailer, None);
        (self.torn, self.fresh, self.read_only) = (false, false, false);
        Ok(())
    }

    fn swap(&self, new: &Path, keep: bool) -> io::Result<()> {
        if !keep {
            return storage::rename(new, &self.path);
        }
        let aside = self.path.with_extension("damaged");
        storage::rename(&self.path, &aside)?;
        storage::rename(new, &self.path).inspect_err(|_| {
            let _ = std::fs::rename(&aside, &self.path);
        })
    }

    /// Leaves `id` in the first place that takes it, once; what later places say is outdated then.
    pub fn leave_pointer(&mut self, id: &str) {
        let mut left = false;
        for path in std::mem::take(&mut self.pointers) {
            if left {
                let _ = std::fs::remove_file(&path);
                continue;
            }
            let newer = |old: Vec<u8>| old.trim_ascii() > id.as_bytes();
            if self.recovering && std::fs::read(&path).is_ok_and(newer) {
                return;
            }
            left = write_pointer(&path, id).is_ok();
        }
    }
}

fn write_pointer(path: &Path, id: &str) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        storage::directory(dir)?;
    }
    let new = path.with_extension("new");
    let file = storage::create(&new, false)?;
    storage::write_at(&file, 0, &[id.as_bytes()])
        .and_then(|()| storage::rename(&new, path))
        .inspect_err(|_| {
            let _ = std::fs::remove_file(&new);
        })
}

/// The messages from `from` on, cut before the one the context starts with: it gets a blank in front, so that the start
/// is known when the trailer is lost.
fn marked(conversation: &Conversation, from: usize, context: usize) -> [&[u8]; 3] {
    let all = conversation.bytes_from(from);
    if context == 0 || context < from || context >= conversation.len() {
        return [all, b"", b""];
    }
    let at = conversation.start(context) - conversation.start(from);
    let (before, after) = all.split_at(at.min(all.len()));
    [before, b" ", after]
}
