//! Loading a session file in whatever state it is, and making its live part a conversation every server takes.

use super::conversation::Conversation;
use super::message::{self, Role};
use super::scan::{Head, Kind, Reader, Trailer, find_trailer};
use crate::json::{self, Value, parse};
use crate::provider::{Call, Reply};
use std::fs::File;
use std::io;

/// Why a file must be written anew before it can be appended to.
pub struct Rewrite {
    /// Members of its own that are kept, each with a comma in front.
    pub extra: Vec<u8>,
    /// The old file holds something that the new one won't; it stays beside it.
    pub keep: bool,
}

/// A loaded file.
#[derive(Default)]
pub struct Loaded {
    /// The head; empty members when it was lost.
    pub head: Head,
    /// The trailer, or estimates.
    pub trailer: Trailer,
    /// The live messages.
    pub builder: Builder,
    /// Messages in the file, readable or not.
    pub slots: u32,
    /// Offset behind the last whole message, where the trailer goes.
    pub end: u64,
    /// Whether there is a whole message in the file.
    pub any: bool,
    /// What follows `end` is not a whole trailer.
    pub torn: bool,
    /// Set for other layouts and lost heads.
    pub rewrite: Option<Rewrite>,
    /// Something in the file couldn't be read.
    pub damaged: bool,
    /// The file ends with a whole trailer.
    clean: bool,
    /// Messages before this one are not loaded.
    skip: u32,
}

/// Takes messages as they were stored and builds a valid conversation: calls without a result are answered, results
/// without a call and unusable messages left out.
#[derive(Default)]
pub struct Builder {
    /// The result.
    pub conversation: Conversation,
    /// The numbers in the file of the messages that are there; the conversation may have more.
    pub numbers: Vec<u32>,
    /// Messages left out.
    pub dropped: u32,
    /// Assistant messages.
    pub replies: u32,
    open: Vec<String>,
    /// There is a user message.
    pub started: bool,
}

impl Builder {
    /// Adds a message, the text of a JSON object, which is number `slot` in the file; `None` when it isn't there yet.
    pub fn add(&mut self, slot: Option<u32>, text: &[u8]) {
        let role = message::role(text);
        let mut changed = Vec::new();
        let fine = match role {
            None => false,
            Some(Role::System) if self.conversation.is_empty() => true,
            // Servers want one system message, at the start.
            Some(Role::System) => {
                message::user(&mut changed, &message::content(text));
                self.started = true;
                true
            }
            Some(Role::User) => {
                self.started |= has_content(text);
                has_content(text)
            }
            Some(Role::Assistant) => {
                self.replies += u32::from(self.started);
                self.started
            }
            Some(Role::Tool) => {
                let id = message::answers(text);
                let at = self.open.iter().position(|o| Some(o) == id.as_ref());
                let at = at.filter(|_| has_content(text));
                at.map(|at| self.open.remove(at)).is_some()
            }
        };
        if !fine {
            self.dropped += 1;
            return;
        }
        if role != Some(Role::Tool) {
            self.finish(slot.is_some());
        }
        if role == Some(Role::Assistant) {
            for call in repaired(text, &mut changed) {
                self.open.push(call.id);
            }
        }
        let text = if changed.is_empty() { text } else { &changed };
        self.conversation.push(text);
        if let Some(slot) = slot {
            self.numbers.push(slot);
        }
    }

    /// Answers the calls that are still open. `numbered`: the answers stand among messages of the file.
    pub fn finish(&mut self, numbered: bool) {
        for id in std::mem::take(&mut self.open) {
            let mut text = Vec::new();
            message::tool(&mut text, &id, message::INTERRUPTED);
            self.conversation.push(&text);
            if numbered && let Some(&last) = self.numbers.last() {
                self.numbers.push(last);
            }
        }
    }

    /// Forgets all but the system message.
    fn restart(&mut self) {
        let old = std::mem::take(self);
        self.replies = old.replies;
        if let Some(system) = old.conversation.get(0)
            && message::role(system) == Some(Role::System)
        {
            self.add(old.numbers.first().copied(), system);
        }
    }
}

fn has_content(text: &[u8]) -> bool {
    message::member(text, "content").is_some()
}

/// The calls of an assistant message. One that would make every request fail is written anew into `changed`, as replies
/// are written.
fn repaired(text: &[u8], changed: &mut Vec<u8>) -> Vec<Call> {
    let calls = message::calls(text);
    let mut bad = false;
    for c in &calls {
        bad |= c.id.is_empty() || c.name.is_empty() || parse(&c.arguments).is_err();
    }
    if !bad {
        return calls;
    }
    let mut reply = Reply {
        content: message::content(text),
        calls,
        ..Reply::default()
    };
    if let Some(field) = message::member(text, "reasoning_content") {
        reply.reasoning = field.text().map(|t| t.bytes()).unwrap_or_default();
        reply.reasoning_field = Some("reasoning_content");
    }
    message::assistant(changed, &reply);
    message::calls(changed)
}

/// Loads `file`. Damage is repaired as far as it goes and told.
///
/// # Errors
/// The system's; `InvalidData` for a JSON document that is no session.
pub fn load(file: &File) -> io::Result<Loaded> {
    let mut loaded = Loaded::default();
    if !loaded.read(file, false)? {
        loaded = Loaded::default();
        loaded.read(file, true)?;
    }
    Ok(loaded)
}

impl Loaded {
    /// Reads a whole file, with `everything` also what lies before the context. False when nothing of the context is
    /// there: the trailer is wrong, the whole file is the context.
    fn read(&mut self, file: &File, everything: bool) -> io::Result<bool> {
        let mut clean = None;
        if let Some((mut trailer, at)) = find_trailer(file)? {
            if everything || trailer.context_from > trailer.count.min(u64::from(u32::MAX)) {
                trailer.context_from = 0;
            }
            self.skip = trailer.context_from as u32;
            self.trailer = trailer;
            self.clean = true;
            clean = Some(at);
        }
        let mut reader = Reader::new(file);
        reader.fetch()?;
        match Head::read(reader.line()) {
            Some(head) => {
                self.head = head;
                self.end = reader.line().len() as u64;
                reader.skip_line();
            }
            None => self.other_layout(&mut reader)?,
        }
        self.lines(&mut reader, None)?;
        self.torn = clean != Some(self.end);
        self.damaged |= self.torn && self.rewrite.is_none();
        if let Some(rewrite) = &mut self.rewrite {
            rewrite.keep |= self.damaged || self.builder.dropped > 0;
        }
        let replies = u64::from(self.builder.replies);
        self.trailer.steps = self.trailer.steps.max(replies);
        self.trailer.count = u64::from(self.slots);
        Ok(self.skip == 0 || self.builder.started || !self.any)
    }

    /// Takes the messages from the reader's position on. Of a journal, whose first one has number `journal`, those that
    /// the session file doesn't have, and the counters; false when it is of another life of that file.
    fn lines(&mut self, reader: &mut Reader, journal: Option<u32>) -> io::Result<bool> {
        let mut slot = journal.unwrap_or(0);
        let known = self.slots;
        let mut broken = 0;
        let mut taken = false;
        while let Some(kind) = reader.advance()? {
            let text = reader.piece();
            match kind {
                Kind::Message { marked } => {
                    self.damaged |= broken > 0;
                    slot = slot.saturating_add(broken);
                    broken = 0;
                    let number = journal.is_none().then_some(slot);
                    slot = slot.saturating_add(1);
                    if number.is_some() {
                        (self.slots, self.end, self.any) = (slot, reader.piece_end(), true);
                        let role = message::role(text);
                        if slot <= self.skip && (slot > 1 || role != Some(Role::System)) {
                            continue;
                        }
                        if marked && !self.clean && !reader.free && role == Some(Role::User) {
                            self.builder.restart();
                            self.trailer.context_from = u64::from(slot - 1);
                        }
                    } else if slot <= known {
                        let numbers = &self.builder.numbers;
                        let last = self.builder.conversation.get(numbers.len().wrapping_sub(1));
                        if slot == known
                            && numbers.last() == Some(&(slot - 1))
                            && last.is_some_and(|l| l != text)
                        {
                            return Ok(false);
                        }
                        continue;
                    }
                    taken = true;
                    self.builder.add(number, text);
                }
                Kind::Broken => broken += 1,
                // The end of an array whose start was seen.
                Kind::Trailer if reader.free && self.end > 0 => break,
                Kind::Trailer if journal.is_none() && self.clean => {}
                Kind::Trailer => {
                    if let Some(trailer) = Trailer::read(text)
                        && (journal.is_none() || taken && trailer.count >= u64::from(known))
                    {
                        self.trailer = trailer;
                    }
                }
                Kind::Filler => {}
            }
        }
        Ok(true)
    }

    /// Completes what was loaded from the journal in `file` and returns how many messages came from there. `None`: it is
    /// of another life of the session file.
    ///
    /// # Errors
    /// The system's.
    pub fn complete(&mut self, file: &File) -> io::Result<Option<usize>> {
        let mut reader = Reader::new(file);
        reader.fetch()?;
        let Some(head) = Head::read(reader.line()) else {
            return Ok(Some(0));
        };
        reader.skip_line();
        let before = self.builder.conversation.len();
        if !self.lines(&mut reader, Some(head.base))? {
            return Ok(None);
        }
        if self.head.created.is_empty() {
            self.head = head;
        }
        Ok(Some(self.builder.conversation.len() - before))
    }

    /// Files of other programs: one JSON document in any layout; and files whose head is lost.
    fn other_layout(&mut self, reader: &mut Reader) -> io::Result<()> {
        reader.all()?;
        let text = &reader.buffer[..];
        let mut extra = Vec::new();
        let start = match parse(text) {
            Ok(document) => {
                let array = document.get("messages");
                let Some(array) = array.filter(|v| v.kind() == json::Kind::Array) else {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "it has no messages: not a session file",
                    ));
                };
                self.head = Head::from(document);
                self.trailer = Trailer::from(document);
                self.skip = 0;
                other_members(document, &mut extra);
                Some(array.raw().as_ptr() as usize - text.as_ptr() as usize + 1)
            }
            Err(_) => {
                self.damaged = !text.is_empty();
                find_messages(text)
            }
        };
        let keep = false;
        self.rewrite = Some(Rewrite { extra, keep });
        reader.pos = start.unwrap_or(0);
        self.end = reader.pos as u64;
        Ok(())
    }
}

/// Where the first element of the array `messages` starts in a text that may be cut.
fn find_messages(text: &[u8]) -> Option<usize> {
    let name = b"\"messages\"";
    let mut at = text.windows(name.len()).position(|w| w == name)? + name.len();
    at += text
        .get(at..)?
        .iter()
        .position(|b| !b" \t\r\n:".contains(b))?;
    (text.get(at) == Some(&b'[')).then_some(at + 1)
}

/// Members that are not ours, as text to put into the new head.
fn other_members(document: Value, out: &mut Vec<u8>) {
    const OURS: &[&str] = &[
        "id",
        "cwd",
        "created",
        "version",
        "messages",
        "steps",
        "total_tokens",
        "context_tokens",
        "context_from",
        "origins",
        "count",
    ];
    for (key, value) in document.entries() {
        if OURS.iter().any(|name| key.is(name)) {
            continue;
        }
        out.extend_from_slice(b",\"");
        out.extend_from_slice(key.raw());
        out.extend_from_slice(b"\":");
        for b in value.raw() {
            out.push((*b).max(b' '));
        }
    }
}
