//! One session: its conversation and counters in memory, its file, its lock and its journal.
//!
//! The journal keeps, in scratch (tmpfs on a router), what happened since the last write to permanent storage: a process
//! that is killed loses no step, the next start completes the session from it. It is a session file whose head says
//! where it belongs and which message it begins with.

use super::conversation::Conversation;
use super::disk::{Disk, LOW_SPACE, Part, write_small};
use super::load::{Loaded, Rewrite};
use super::message::{self, Role};
use super::scan::{Trailer, write_head};
use crate::provider::Reply;
use crate::sys::{fs, storage};
use crate::text::push_dec;
use std::io;
use std::path::{Path, PathBuf};

/// Endpoints remembered; an older entry goes for a newer one.
const MAX_ORIGINS: usize = 32;

/// A session. Dropping it keeps in the journal what was not saved, and removes a new session's file when the user never
/// said anything.
#[derive(Default)]
pub struct Session {
    /// Its id; empty when nothing is saved.
    pub id: String,
    /// Where it was started.
    pub cwd: Vec<u8>,
    /// When it was started: `YYYY-MM-DD HH:MM:SS` local time.
    pub created: String,
    /// Requests made.
    pub steps: u64,
    /// Tokens of all requests and replies so far.
    pub total_tokens: u64,
    /// Tokens in the context.
    pub context_tokens: u64,
    /// The messages: the system message, if one is stored, and those from the context's start on; earlier ones may be
    /// in the file only.
    pub conversation: Conversation,
    context_from: usize,
    /// Endpoints by the first message (number in the file) that was made with them.
    origins: Vec<(u32, String)>,
    /// The numbers in the file of the messages saved there.
    numbers: Vec<u32>,
    /// The number of the next one.
    slots: u32,
    /// The session's file; one that is not flushed is on scratch, and each step goes to it.
    pub(super) disk: Option<Disk>,
    journal: Option<Disk>,
    /// Where the journal goes; empty for none.
    pub(super) journal_path: Vec<u8>,
    /// The file must be written anew first.
    pub(super) rewrite: Option<Rewrite>,
    /// It could only be opened for reading.
    pub(super) read_only: bool,
    /// Made by this process and empty so far.
    pub(super) fresh: bool,
    /// Where the session's id is to be left after the first save: the first place that takes it.
    pub(super) pointers: Vec<Vec<u8>>,
    /// The session is only being completed: its id is left only in place of an older one.
    pub(super) recovering: bool,
}

impl Session {
    /// A session that leaves no trace: no file, no journal, no `last_session`.
    pub fn ephemeral(cwd: &[u8]) -> Session {
        let mut session = Session::default();
        session.cwd.extend_from_slice(cwd);
        session
    }

    /// Takes what was loaded; what the trailer doesn't know is estimated.
    pub(super) fn loaded(&mut self, loaded: &mut Loaded) {
        self.cwd = std::mem::take(&mut loaded.head.cwd).into();
        std::mem::swap(&mut self.created, &mut loaded.head.created);
        self.slots = loaded.slots;
        std::mem::swap(&mut self.numbers, &mut loaded.builder.numbers);
        std::mem::swap(&mut self.conversation, &mut loaded.builder.conversation);
        self.rewrite = loaded.rewrite.take();
        let trailer = &mut loaded.trailer;
        self.steps = trailer.steps;
        self.total_tokens = trailer.total_tokens;
        std::mem::swap(&mut self.origins, &mut trailer.origins);
        // Never into the middle of a turn: the context starts with what the user said.
        for i in 1..self.conversation.len() {
            if u64::from(self.file_number(i)) <= trailer.context_from && self.is_user(i) {
                self.context_from = i;
            }
        }
        self.context_tokens = trailer.context_tokens;
        if trailer.context_tokens == 0 {
            // 3.5 bytes a token.
            let bytes = self.conversation.bytes_from(self.context_from).len() / 7 * 2;
            self.context_tokens = bytes as u64;
        }
    }

    /// Where the session is kept; `None` when it isn't.
    pub fn path(&self) -> Option<&Path> {
        Some(fs::path(&self.disk.as_ref()?.path))
    }

    /// The directory for what belongs to the session besides its file (checkpoints); not made here.
    pub fn directory(&self) -> Option<PathBuf> {
        Some(self.path()?.with_extension(""))
    }

    /// Index in [`Session::conversation`] of the first message that is still sent: 0, or a user message.
    pub fn context_from(&self) -> usize {
        self.context_from
    }

    fn is_user(&self, i: usize) -> bool {
        self.conversation.get(i).and_then(message::role) == Some(Role::User)
    }

    /// Starts the context at message `i`, or at the first user message after it. False, and nothing changes, when there
    /// is none.
    pub fn set_context_from(&mut self, i: usize) -> bool {
        for i in i..self.conversation.len() {
            if self.is_user(i) {
                self.context_from = i;
                return true;
            }
        }
        false
    }

    /// The number of message `i` in the file, or the one it will get.
    fn file_number(&self, i: usize) -> u32 {
        match self.numbers.get(i) {
            Some(number) => *number,
            None => self.slots.saturating_add((i - self.numbers.len()) as u32),
        }
    }

    /// Says that `endpoint` (base URL, blank, model) makes the messages from here on: thinking and opaque members go
    /// back only to where they came from.
    pub fn set_origin(&mut self, endpoint: &str) {
        let from = self.file_number(self.conversation.len());
        if let Some((at, last)) = self.origins.last_mut() {
            if last == endpoint {
                return;
            }
            if *at == from {
                self.origins.pop();
            }
        }
        if self.origins.len() >= MAX_ORIGINS {
            self.origins.remove(0);
        }
        self.origins.push((from, endpoint.into()));
    }

    /// The endpoint that made message `i`, if known.
    pub fn origin(&self, i: usize) -> Option<&str> {
        let at = self.file_number(i);
        let found = self.origins.iter().rev().find(|(from, _)| *from <= at)?;
        Some(&found.1)
    }

    /// Appends a message, the text of a JSON object, in memory.
    pub fn push(&mut self, message: &[u8]) {
        self.conversation.push(message);
    }

    /// Appends a user message.
    pub fn push_user(&mut self, text: &[u8]) {
        let mut out = Vec::new();
        message::user(&mut out, text);
        self.push(&out);
    }

    /// Appends a reply.
    pub fn push_reply(&mut self, reply: &Reply) {
        let mut out = Vec::new();
        message::assistant(&mut out, reply);
        self.push(&out);
    }

    /// Appends the result of the call `id`.
    pub fn push_result(&mut self, id: &str, text: &[u8]) {
        let mut out = Vec::new();
        message::tool(&mut out, id, text);
        self.push(&out);
    }

    fn trailer(&mut self) -> Vec<u8> {
        let mut trailer = Trailer {
            steps: self.steps,
            total_tokens: self.total_tokens,
            context_tokens: self.context_tokens,
            context_from: self.file_number(self.context_from).into(),
            count: self.file_number(self.conversation.len()).into(),
            origins: std::mem::take(&mut self.origins),
        };
        let text = trailer.text();
        self.origins = trailer.origins;
        text
    }

    /// Whether the user has said anything in this session.
    fn used(&self) -> bool {
        // Only the first message may be the system's.
        let first = self.conversation.get(0).and_then(message::role);
        self.conversation.len() > usize::from(first == Some(Role::System))
    }

    /// Keeps what happened since the last step in the journal: a killed process loses no step. Nothing is flushed.
    /// Returns a warning when that failed.
    pub fn step(&mut self) -> Option<String> {
        if !self.disk.as_ref()?.flush {
            return self.commit();
        }
        let error = fs::os_text(&self.keep().err()?);
        Some(
            [
                "the journal of this session can't be written (",
                &error,
                "): a crash would lose this turn",
            ]
            .concat(),
        )
    }

    fn keep(&mut self) -> io::Result<()> {
        let trailer = self.trailer();
        let used = self.used();
        let Some(disk) = &self.disk else {
            return Ok(());
        };
        let mut part = Part {
            head: b"",
            conversation: &self.conversation,
            context: self.context_from,
            trailer: &trailer,
        };
        if let Some(journal) = &mut self.journal {
            if journal.upto < self.conversation.len() || journal.trailer != trailer {
                journal.append(&part)?;
            }
            return Ok(());
        }
        let saved = self.numbers.len();
        if saved == self.conversation.len() || !used {
            return Ok(());
        }
        storage::private_directory(fs::parent(&self.journal_path))?;
        let owner = Some((self.slots, &disk.path[..]));
        let head = write_head(&self.id, &self.cwd, &self.created, owner, b"");
        part.head = &head;
        self.journal = Some(Disk::replace(
            &self.journal_path,
            false,
            false,
            saved,
            &part,
        )?);
        Ok(())
    }

    /// Writes what happened since the last commit to the session file: one append, flushed once. A turn that can't be
    /// written stays in memory and in the journal, and the next commit tries again; the warning says so.
    pub fn commit(&mut self) -> Option<String> {
        let trailer = self.trailer();
        let used = self.used();
        let pending = self.conversation.len() > self.numbers.len();
        let disk = self.disk.as_ref()?;
        if !pending && (self.rewrite.is_some() || disk.trailer == trailer) || self.fresh && !used {
            return None;
        }
        // Files on scratch may fill it.
        let free = if disk.flush {
            storage::free_bytes(&disk.file)
        } else {
            None
        };
        let (mut why, mut kept) = (String::new(), false);
        if let Some(free) = free.filter(|free| *free < LOW_SPACE) {
            let mut text = b"only ".to_vec();
            push_dec(&mut text, free / 1024);
            text.extend_from_slice(b" KiB are free there");
            why = String::from_utf8(text).unwrap_or_default();
            kept = self.keep().is_ok();
        }
        if !kept {
            let Err(error) = self.write(&trailer) else {
                self.saved();
                return None;
            };
            why = fs::os_text(&error);
            kept = !self.journal_path.is_empty() && self.keep().is_ok();
        }
        let place = self.path().map(Path::to_string_lossy).unwrap_or_default();
        let journal = String::from_utf8_lossy(&self.journal_path);
        let kept = if kept { &journal[..] } else { "memory" };
        Some(
            [
                "this turn is not saved in ",
                &place,
                ": ",
                &why,
                "; it is kept in ",
                kept,
                " and saved as soon as possible",
            ]
            .concat(),
        )
    }

    /// All messages are in the file.
    fn saved(&mut self) {
        for _ in self.numbers.len()..self.conversation.len() {
            self.numbers.push(self.slots);
            self.slots = self.slots.saturating_add(1);
        }
        self.fresh = false;
        self.journal = None;
        let _ = fs::remove(&self.journal_path);
        // The id is left in the first place that takes it, once; what later places say is outdated then.
        let mut left = false;
        for path in std::mem::take(&mut self.pointers) {
            let id = self.id.as_bytes();
            if left {
                let _ = fs::remove(&path);
            } else if self.recovering
                && fs::read_small(&path, 64).is_ok_and(|old| old.trim_ascii() > id)
            {
                return;
            } else {
                left = write_small(&path, id).is_ok();
            }
        }
    }

    fn write(&mut self, trailer: &[u8]) -> io::Result<()> {
        let Some(disk) = &mut self.disk else {
            return Ok(());
        };
        let mut part = Part {
            head: b"",
            conversation: &self.conversation,
            context: self.context_from,
            trailer,
        };
        let Some(rewrite) = &self.rewrite else {
            if self.read_only {
                return Err(io::Error::from_raw_os_error(libc::EROFS));
            }
            return disk.append(&part);
        };
        let head = write_head(&self.id, &self.cwd, &self.created, None, &rewrite.extra);
        // In the new file messages are numbered as in memory.
        let mut trailer = Trailer {
            steps: self.steps,
            total_tokens: self.total_tokens,
            context_tokens: self.context_tokens,
            context_from: self.context_from as u64,
            count: self.conversation.len() as u64,
            origins: self.origins.clone(),
        };
        for (from, _) in &mut trailer.origins {
            let saved = self.numbers.iter().filter(|n| *n < from).count() as u32;
            *from = saved + from.saturating_sub(self.slots);
        }
        let text = trailer.text();
        (part.head, part.trailer) = (&head, &text);
        *disk = Disk::replace(&disk.path, disk.flush, rewrite.keep, 0, &part)?;
        (self.rewrite, self.read_only, self.slots) = (None, false, 0);
        self.numbers.clear();
        self.origins = trailer.origins;
        Ok(())
    }

    /// Lets go of the file and the journal as a killed process does.
    #[cfg(test)]
    pub(super) fn kill(mut self) {
        self.disk = None;
        self.journal = None;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let used = self.used();
        match &self.disk {
            Some(disk) if self.fresh && !used => {
                let _ = fs::remove(&disk.path);
            }
            Some(_) => {
                let _ = self.step();
            }
            None => {}
        }
    }
}
