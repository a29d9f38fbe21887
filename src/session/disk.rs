//! A session file or a journal being written: appends that leave a loadable file at every moment.

use super::conversation::{Conversation, SEPARATOR};
use crate::sys::{fs, storage};
use std::fs::File;
use std::io;

/// Below this many free bytes nothing more is written to the file system of the sessions.
pub const LOW_SPACE: u64 = 256 * 1024;

/// An open file in the layout of sessions.
pub struct Disk {
    /// The file, locked.
    pub file: File,
    /// Its path.
    pub path: Vec<u8>,
    /// Offset behind the last message.
    pub end: u64,
    /// The file's size, as far as it matters.
    pub len: u64,
    /// There is a message in the file.
    pub any: bool,
    /// What follows `end` is not a trailer.
    pub torn: bool,
    /// The trailer at `end`.
    pub trailer: Vec<u8>,
    /// Messages of the conversation that are in it, or needn't be.
    pub upto: usize,
    /// What is written is brought onto the medium.
    pub flush: bool,
}

impl Disk {
    /// A file with nothing in it.
    pub fn empty(file: File, path: &[u8], flush: bool) -> Disk {
        Disk {
            file,
            path: path.to_vec(),
            end: 0,
            len: 0,
            any: false,
            torn: false,
            trailer: Vec::new(),
            upto: 0,
            flush,
        }
    }

    /// Makes a file at `path` with `head` and the messages from `from` on. What was there stays until this one is whole;
    /// with `keep` it gets the name `ID.damaged` then.
    ///
    /// # Errors
    /// The system's; the old file is in its place then.
    pub fn replace(
        path: &[u8],
        flush: bool,
        keep: bool,
        from: usize,
        part: &Part,
    ) -> io::Result<Disk> {
        let stem = path.strip_suffix(b".json").unwrap_or(path);
        let new = [stem, b".new"].concat();
        let mut disk = Disk::empty(storage::create(&new, false)?, path, flush);
        // Nobody can have this one.
        storage::lock(&disk.file);
        disk.upto = from;
        let mut done = disk.append(part);
        if done.is_ok() && keep {
            let aside = [stem, b".damaged"].concat();
            done = storage::rename(path, &aside);
            if done.is_ok() {
                done = storage::rename(&new, path);
                if done.is_err() {
                    let _ = fs::rename(&aside, path);
                }
            }
        } else if done.is_ok() {
            done = storage::rename(&new, path);
        }
        if let Err(error) = done {
            let _ = fs::remove(&new);
            return Err(error);
        }
        Ok(disk)
    }

    /// Appends the messages that are not in the file and a new trailer over the old one, and flushes if that is to be.
    /// When it fails the file is as it was, or has a torn end that loading repairs; calling again writes it all.
    ///
    /// # Errors
    /// The system's.
    pub fn append(&mut self, part: &Part) -> io::Result<()> {
        let conversation = part.conversation;
        let all = conversation.bytes_from(self.upto);
        let new = !all.is_empty();
        let gap: &[u8] = match (new, self.any) {
            (false, _) => b"",
            (true, false) => b"\n",
            (true, true) => SEPARATOR,
        };
        if self.torn && storage::truncate(&self.file, self.end).is_ok() {
            self.len = self.end;
        }
        // The message the context starts with gets a blank in front, so that the start is known when the trailer is lost.
        let (mut before, mut mark, mut after): (_, &[u8], &[u8]) = (all, b"", b"");
        if part.context > 0 && (self.upto..conversation.len()).contains(&part.context) {
            let at = conversation.start(part.context) - conversation.start(self.upto);
            (before, after) = all.split_at(at.min(all.len()));
            mark = b" ";
        }
        let messages = part.head.len() + gap.len() + all.len() + mark.len();
        let end = self.end + messages as u64;
        let whole = end + part.trailer.len() as u64;
        // A file that gets shorter would end in the rest of the old trailer: blanks, which JSON ignores, cover it.
        let mut last = part.trailer.to_vec();
        let rest = usize::try_from(self.len.saturating_sub(whole)).unwrap_or(0);
        last.resize(last.len() + rest, b' ');
        let parts = [part.head, gap, before, mark, after, &last];
        match storage::write_at(&self.file, self.end, &parts) {
            Ok(len) => self.len = len,
            Err(error) => {
                self.torn |= match storage::write_at(&self.file, self.end, &[&self.trailer]) {
                    Ok(len) => storage::truncate(&self.file, len).is_err(),
                    Err(_) => true,
                };
                return Err(error);
            }
        }
        if self.flush
            && let Err(error) = storage::sync(&self.file)
        {
            self.torn = true;
            return Err(error);
        }
        last.truncate(part.trailer.len());
        (self.end, self.trailer, self.torn) = (end, last, false);
        self.any |= new;
        self.upto = conversation.len();
        Ok(())
    }
}

/// What is to be written.
pub struct Part<'a> {
    /// The head, for a new file.
    pub head: &'a [u8],
    /// The messages.
    pub conversation: &'a Conversation,
    /// Which one the context starts with.
    pub context: usize,
    /// The trailer.
    pub trailer: &'a [u8],
}

/// Writes `text` to `path`, which has the old text or the new one at every moment.
///
/// # Errors
/// The system's.
pub fn write_small(path: &[u8], text: &[u8]) -> io::Result<()> {
    storage::directory(fs::parent(path))?;
    let new = [path, b".new"].concat();
    let file = storage::create(&new, false)?;
    let done = storage::write_at(&file, 0, &[text]).and_then(|_| storage::rename(&new, path));
    if done.is_err() {
        let _ = fs::remove(&new);
    }
    done
}
