//! One session: its conversation and counters in memory, its file, its lock and its journal.

use super::conversation::Conversation;
use super::disk::Disk;
use super::journal::{self, Journal};
use super::load::{Builder, Loaded, file_index};
use super::message::{self, Role};
use super::scan::{Head, Trailer};
use crate::provider::Reply;
use crate::sys::storage;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Endpoints remembered; an older entry goes for a newer one.
const MAX_ORIGINS: usize = 32;

/// A session. Dropping it keeps in the journal what was not saved, and removes a new session's file when the user never
/// said anything.
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
    map: Vec<(u32, u32)>,
    saved: usize,
    slots: u32,
    disk: Option<Disk>,
    journal: Option<Journal>,
    journal_path: Option<PathBuf>,
}

impl Session {
    /// A session that leaves no trace: no file, no journal, no `last_session`.
    pub fn ephemeral(cwd: &[u8]) -> Session {
        Session {
            id: String::new(),
            cwd: cwd.to_vec(),
            created: String::new(),
            steps: 0,
            total_tokens: 0,
            context_tokens: 0,
            conversation: Conversation::new(),
            context_from: 0,
            origins: Vec::new(),
            map: Vec::new(),
            saved: 0,
            slots: 0,
            disk: None,
            journal: None,
            journal_path: None,
        }
    }

    /// A session from a loaded file, not yet bound to it.
    pub(super) fn loaded(id: &str, loaded: Loaded) -> (Session, Builder) {
        let mut session = Session::ephemeral(loaded.head.cwd.as_bytes());
        session.id = id.into();
        session.created = loaded.head.created;
        session.slots = loaded.slots;
        session.saved = loaded.builder.conversation.len();
        let mut builder = loaded.builder;
        builder.place(loaded.slots);
        session.map = builder.map.clone();
        session.adopt(loaded.trailer, &builder.conversation);
        (session, builder)
    }

    /// Takes the counters of a trailer; what it doesn't know is estimated.
    fn adopt(&mut self, trailer: Trailer, conversation: &Conversation) {
        self.steps = trailer.steps;
        self.total_tokens = trailer.total_tokens;
        self.origins = trailer.origins;
        let from = (0..conversation.len())
            .find(|i| u64::from(file_index(&self.map, *i as u32)) >= trailer.context_from)
            .unwrap_or(conversation.len());
        // Never into the middle of a turn: the context starts with what the user said.
        self.context_from = (1..=from)
            .rev()
            .find(|i| conversation.get(*i).and_then(message::role) == Some(Role::User))
            .unwrap_or(0);
        self.context_tokens = trailer.context_tokens;
        if trailer.context_tokens == 0 {
            // 3.5 bytes a token.
            self.context_tokens = conversation.bytes_from(self.context_from).len() as u64 * 2 / 7;
        }
    }

    /// Completes a loaded session from its journal and returns how many messages came from there. `None`: the journal
    /// is of another life of this file.
    pub(super) fn complete(
        &mut self,
        builder: &mut Builder,
        file: &File,
    ) -> io::Result<Option<u32>> {
        let Some(head) = journal::head(file)? else {
            return Ok(Some(0));
        };
        let slots = u64::from(self.slots);
        let last = (self.saved > 0)
            .then(|| self.saved - 1)
            .filter(|i| u64::from(self.file_number(*i)) + 1 == slots)
            .and_then(|i| builder.conversation.get(i))
            .map(<[u8]>::to_vec);
        let (mut taken, mut foreign) = (0, false);
        let trailer = journal::read(file, &mut |n, text| {
            let slot = head.base.saturating_add(n);
            if slot + 1 == slots {
                foreign |= last.as_ref().is_some_and(|l| l != text);
            }
            if slot >= slots && !foreign {
                builder.add(None, text);
                taken += 1;
            }
        })?;
        if foreign {
            return Ok(None);
        }
        if self.cwd.is_empty() {
            self.cwd = head.cwd.into_bytes();
        }
        if self.created.is_empty() {
            self.created = head.created;
        }
        if let Some(trailer) = trailer.filter(|t| taken > 0 && t.count >= slots) {
            self.adopt(trailer, &builder.conversation);
        }
        Ok(Some(taken))
    }

    /// Takes the conversation and the file.
    pub(super) fn bind(
        &mut self,
        conversation: Conversation,
        disk: Disk,
        journal: Option<PathBuf>,
    ) {
        self.conversation = conversation;
        self.disk = Some(disk);
        self.journal_path = journal;
    }

    /// Moves everything that is live into `into`, a new session: nothing of it is saved there yet.
    pub(super) fn copy_to(&self, into: &mut Session) {
        into.steps = self.steps;
        into.total_tokens = self.total_tokens;
        into.context_tokens = self.context_tokens;
        into.context_from = self.context_from;
        into.conversation = self.conversation.clone();
        into.origins = self.origins_here();
    }

    /// Where the session is kept; `None` when it isn't.
    pub fn path(&self) -> Option<&Path> {
        Some(&self.disk.as_ref()?.path)
    }

    /// The directory for what belongs to the session besides its file (checkpoints); not made here.
    pub fn directory(&self) -> Option<PathBuf> {
        Some(self.path()?.with_extension(""))
    }

    /// Index in [`Session::conversation`] of the first message that is still sent: 0, or a user message.
    pub fn context_from(&self) -> usize {
        self.context_from
    }

    /// Starts the context at message `i`, or at the first user message after it. False, and nothing changes, when there
    /// is none.
    pub fn set_context_from(&mut self, i: usize) -> bool {
        let found = (i..self.conversation.len())
            .find(|i| self.conversation.get(*i).and_then(message::role) == Some(Role::User));
        match found {
            Some(from) => self.context_from = from,
            None => return false,
        }
        true
    }

    fn file_number(&self, i: usize) -> u32 {
        file_index(&self.map, u32::try_from(i).unwrap_or(u32::MAX))
    }

    /// Says that `endpoint` (base URL, blank, model) makes the messages from here on: thinking and opaque members go
    /// back only to where they came from.
    pub fn set_origin(&mut self, endpoint: &str) {
        let from = self.file_number(self.conversation.len());
        match self.origins.last_mut() {
            Some((_, last)) if last == endpoint => return,
            Some((at, last)) if *at == from => {
                *last = endpoint.into();
                return;
            }
            _ => {}
        }
        if self.origins.len() == MAX_ORIGINS {
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

    /// The origins counted by messages in memory.
    fn origins_here(&self) -> Vec<(u32, String)> {
        let mut list = self.origins.clone();
        for (from, _) in &mut list {
            let here = (0..self.conversation.len()).find(|i| self.file_number(*i) >= *from);
            *from = here.unwrap_or(self.conversation.len()) as u32;
        }
        list
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

    /// Answers all calls that have no result yet with `text`, and says how many.
    pub fn answer_open_calls(&mut self, text: &[u8]) -> usize {
        let open = message::open_calls(&self.conversation);
        for id in &open {
            self.push_result(id, text);
        }
        open.len()
    }

    fn trailer(&self) -> Vec<u8> {
        let pending = self.conversation.len().saturating_sub(self.saved);
        let mut out = Vec::new();
        Trailer {
            steps: self.steps,
            total_tokens: self.total_tokens,
            context_tokens: self.context_tokens,
            context_from: u64::from(self.file_number(self.context_from)),
            count: u64::from(self.slots) + pending as u64,
            origins: self.origins.clone(),
        }
        .write(&mut out);
        out
    }

    /// Whether the user has said anything in this session.
    fn used(&self) -> bool {
        self.conversation
            .iter()
            .any(|m| message::role(m) != Some(Role::System))
    }

    /// Keeps what happened since the last step in the journal: a killed process loses no step. Nothing is flushed.
    /// Returns a warning when that failed.
    pub fn step(&mut self) -> Option<String> {
        if self.disk.as_ref()?.volatile {
            return self.save();
        }
        let error = self.keep().err()?;
        Some(format!(
            "the journal of this session can't be written ({error}): a crash would lose this turn"
        ))
    }

    fn keep(&mut self) -> io::Result<()> {
        let Some(path) = &self.journal_path else {
            return Ok(());
        };
        let len = self.conversation.len();
        let trailer = self.trailer();
        if let Some(journal) = &mut self.journal {
            if journal.upto < len || journal.trailer != trailer {
                journal.append(self.conversation.bytes_from(journal.upto), trailer)?;
                journal.upto = len;
            }
            return Ok(());
        }
        if self.saved == len || !self.used() {
            return Ok(());
        }
        let Some(disk) = &self.disk else {
            return Ok(());
        };
        let head = Head {
            cwd: String::from_utf8_lossy(&self.cwd).into_owned(),
            created: self.created.clone(),
            base: u64::from(self.slots),
            file: disk.path.to_string_lossy().into_owned(),
        };
        if let Some(dir) = path.parent() {
            storage::private_directory(dir)?;
        }
        let head = head.write(&self.id, b"");
        let messages = self.conversation.bytes_from(self.saved);
        let mut journal = Journal::start(path, &head, messages, trailer)?;
        journal.upto = len;
        self.journal = Some(journal);
        Ok(())
    }

    /// Writes what happened since the last commit to the session file: one append, flushed once. A turn that can't be
    /// written stays in memory and in the journal, and the next commit tries again; the warning says so.
    pub fn commit(&mut self) -> Option<String> {
        self.save()
    }

    fn save(&mut self) -> Option<String> {
        let trailer = self.trailer();
        let used = self.used();
        let pending = self.conversation.len() > self.saved;
        let disk = self.disk.as_ref()?;
        if !pending && (disk.rewrite.is_some() || disk.trailer == trailer) || disk.fresh && !used {
            return None;
        }
        if let Some(free) = disk.short_of_space()
            && self.journal_path.is_some()
            && self.keep().is_ok()
        {
            let why = format!("only {} KiB are free there", free / 1024);
            return Some(self.not_saved(&why, true));
        }
        if let Err(error) = self.write(trailer) {
            let kept = self.journal_path.is_some() && self.keep().is_ok();
            return Some(self.not_saved(&error.to_string(), kept));
        }
        let new = self.conversation.len() - self.saved;
        self.slots = self.slots.saturating_add(new as u32);
        self.saved = self.conversation.len();
        self.journal = None;
        if let Some(path) = &self.journal_path {
            let _ = std::fs::remove_file(path);
        }
        if let Some(disk) = &mut self.disk {
            disk.leave_pointer(&self.id);
        }
        None
    }

    fn write(&mut self, trailer: Vec<u8>) -> io::Result<()> {
        let Some(disk) = &mut self.disk else {
            return Ok(());
        };
        let Some(rewrite) = &disk.rewrite else {
            return disk.append(&self.conversation, self.saved, self.context_from, trailer);
        };
        let head = Head {
            cwd: String::from_utf8_lossy(&self.cwd).into_owned(),
            created: self.created.clone(),
            ..Head::default()
        };
        let head = head.write(&self.id, &rewrite.extra);
        // In the new file messages are numbered as in memory.
        let origins = self.origins_here();
        let before = (
            std::mem::replace(&mut self.origins, origins),
            std::mem::take(&mut self.map),
            std::mem::take(&mut self.slots),
            std::mem::take(&mut self.saved),
        );
        let trailer = self.trailer();
        let done = match &mut self.disk {
            Some(disk) => disk.replace(&head, &self.conversation, self.context_from, trailer),
            None => Ok(()),
        };
        if done.is_err() {
            (self.origins, self.map, self.slots, self.saved) = before;
        }
        done
    }

    fn not_saved(&self, why: &str, kept: bool) -> String {
        let place = self.path().map(Path::to_string_lossy).unwrap_or_default();
        let kept = match &self.journal_path {
            Some(path) if kept => format!("in {} (a reboot loses it)", path.to_string_lossy()),
            _ => "in memory".into(),
        };
        format!(
            "this turn is not saved in {place}: {why}; it is kept {kept} and saved as soon as possible"
        )
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
            Some(disk) if disk.fresh && !used => {
                let _ = std::fs::remove_file(&disk.path);
            }
            Some(_) => {
                let _ = self.step();
            }
            None => {}
        }
    }
}
