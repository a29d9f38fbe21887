//! Loading a session file in whatever state it is, and making its live part a conversation every server takes.

use super::conversation::Conversation;
use super::message::{self, Role};
use super::scan::{HEAD_MAX, Head, Kind, Lines, Trailer, find_trailer};
use crate::json::{self, Value, parse, parse_prefix};
use crate::provider::{Call, Reply};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Why a file must be written anew before it can be appended to.
pub struct Rewrite {
    /// Members of its own that are kept, each with a comma in front.
    pub extra: Vec<u8>,
    /// The old file holds something that the new one won't; it stays beside it.
    pub keep: bool,
}

/// A loaded file.
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
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Takes messages as they were stored and builds a valid conversation: calls without a result are answered, results
/// without a call and unreadable messages left out. It remembers which message of the file each one was.
#[derive(Default)]
pub struct Builder {
    /// The result.
    pub conversation: Conversation,
    /// From message `.0` of the conversation on, numbers in the file count up from `.1`.
    pub map: Vec<(u32, u32)>,
    /// Messages left out.
    pub dropped: u32,
    /// Calls answered here.
    pub answered: u32,
    open: Vec<String>,
    started: bool,
}

impl Builder {
    /// Adds a message, which is number `slot` in the file; `None` when it isn't in the file yet.
    pub fn add(&mut self, slot: Option<u32>, text: &[u8]) {
        let role = match parse(text) {
            Ok(_) => message::role(text),
            Err(_) => None,
        };
        let mut changed = Vec::new();
        let mut open = Vec::new();
        let fine = match role {
            None => false,
            Some(Role::System) if self.conversation.is_empty() => true,
            // Servers want one system message, at the start.
            Some(Role::System) => {
                message::user(&mut changed, &message::content(text));
                true
            }
            Some(Role::User) => has_content(text),
            Some(Role::Assistant) if self.started => {
                open = ids(text);
                repaired(text, &mut changed, &mut open)
            }
            Some(Role::Tool) => self.takes_result(text),
            Some(Role::Assistant) => false,
        };
        if !fine {
            self.dropped += 1;
            return;
        }
        if role != Some(Role::Tool) {
            self.finish();
            self.open = open;
        }
        self.started |=
            role == Some(Role::User) || role == Some(Role::System) && !changed.is_empty();
        if let Some(slot) = slot {
            self.place(slot);
        }
        let text = if changed.is_empty() { text } else { &changed };
        self.conversation.push(text);
    }

    /// Says that the next message is number `slot` in the file.
    pub fn place(&mut self, slot: u32) {
        let at = self.conversation.len() as u32;
        if file_index(&self.map, at) != slot {
            self.map.retain(|(from, _)| *from < at);
            self.map.push((at, slot));
        }
    }

    fn takes_result(&mut self, text: &[u8]) -> bool {
        let id = message::answers(text).unwrap_or_default();
        match self.open.iter().position(|o| *o == id) {
            Some(at) if has_content(text) => {
                self.open.remove(at);
                true
            }
            _ => false,
        }
    }

    /// Answers the calls that are still open.
    pub fn finish(&mut self) {
        for id in std::mem::take(&mut self.open) {
            let mut text = Vec::new();
            message::tool(&mut text, &id, message::INTERRUPTED);
            self.conversation.push(&text);
            self.answered += 1;
        }
    }
}

/// The number in the file of message `at` of the conversation.
pub fn file_index(map: &[(u32, u32)], at: u32) -> u32 {
    let (from, slot) = map
        .iter()
        .rev()
        .find(|(from, _)| *from <= at)
        .copied()
        .unwrap_or_default();
    slot.saturating_add(at - from)
}

fn has_content(text: &[u8]) -> bool {
    parse(text).is_ok_and(|v| v.get("content").is_some())
}

fn ids(text: &[u8]) -> Vec<String> {
    message::calls(text).into_iter().map(|c| c.id).collect()
}

/// Puts an assistant message that would make every request fail into order: `changed` gets the new text and `open`
/// its calls. False when nothing is left of it.
fn repaired(text: &[u8], changed: &mut Vec<u8>, open: &mut Vec<String>) -> bool {
    let calls = message::calls(text);
    let nameless = calls.iter().any(|c| c.id.is_empty() || c.name.is_empty());
    if !nameless && calls.iter().all(|c| parse(&c.arguments).is_ok()) {
        return true;
    }
    let mut reply = Reply {
        content: message::content(text),
        ..Reply::default()
    };
    if let Some(field) = parse(text).ok().and_then(|v| v.get("reasoning_content")) {
        reply.reasoning = field.text().map(|t| t.bytes()).unwrap_or_default();
        reply.reasoning_field = Some("reasoning_content");
    }
    if nameless {
        open.clear();
        if reply.content.is_empty() {
            return false;
        }
    } else {
        for c in calls {
            reply.calls.push(Call {
                id: c.id,
                name: c.name,
                arguments: c.arguments,
                ..Call::default()
            });
        }
    }
    message::assistant(changed, &reply);
    true
}

/// Loads `file`. Damage is repaired as far as it goes and told in the notes.
///
/// # Errors
/// The system's; `InvalidData` for a JSON document that is no session.
pub fn load(file: &File) -> io::Result<Loaded> {
    let mut lines = Lines::new(file, 0);
    let mut line = Vec::new();
    lines.next(&mut line, HEAD_MAX)?;
    match Head::read(&line) {
        Some(head) => {
            let end = line.len() as u64;
            by_lines(file, head, end, false)
        }
        None => other_layout(file),
    }
}

/// What a pass over a damaged file finds out: the last trailer that is whole, and where the context starts.
fn prescan(file: &File, end: u64) -> io::Result<Trailer> {
    let mut lines = Lines::new(file, end);
    let mut line = Vec::new();
    let mut trailer = Trailer::default();
    let (mut slot, mut broken, mut steps) = (0, 0, 0);
    while let Some(kind) = lines.next(&mut line, HEAD_MAX)? {
        match kind {
            Kind::Message { marked, .. } => {
                slot += broken;
                broken = 0;
                if marked {
                    trailer.context_from = slot;
                }
                steps += u64::from(message::role(&line) == Some(Role::Assistant));
                slot += 1;
            }
            Kind::Trailer => trailer = Trailer::read(&line).unwrap_or(trailer),
            Kind::Open | Kind::Garbage => broken += 1,
            Kind::Filler => {}
        }
    }
    trailer.steps = trailer.steps.max(steps);
    trailer.count = slot;
    // Counts again from what is there.
    trailer.context_tokens = 0;
    Ok(trailer)
}

/// Our layout from `start`, the end of the head. `everything` takes all messages for live, whatever the trailer says.
fn by_lines(file: &File, head: Head, start: u64, everything: bool) -> io::Result<Loaded> {
    let (trailer, clean) = match find_trailer(file)? {
        Some((trailer, at)) => (trailer, Some(at)),
        None => (prescan(file, start)?, None),
    };
    let from = if trailer.context_from > trailer.count || everything {
        0
    } else {
        trailer.context_from
    };
    let mut loaded = Loaded {
        head,
        trailer,
        builder: Builder::default(),
        slots: 0,
        end: start,
        any: false,
        torn: false,
        rewrite: None,
        notes: Vec::new(),
    };
    loaded.trailer.context_from = from;
    let mut lines = Lines::new(file, start);
    let mut line = Vec::new();
    let (mut broken, mut lost) = (0, 0);
    loop {
        let slot = loaded.slots.saturating_add(broken);
        let wanted = slot == 0 || u64::from(slot) >= from;
        let Some(kind) = lines.next(&mut line, if wanted { usize::MAX } else { 0 })? else {
            break;
        };
        match kind {
            Kind::Message { end, .. } => {
                lost += broken;
                broken = 0;
                (loaded.slots, loaded.end, loaded.any) = (slot.saturating_add(1), end, true);
                let outside = u64::from(slot) < from;
                if wanted && (!outside || message::role(&line) == Some(Role::System)) {
                    loaded.builder.add(Some(slot), &line);
                }
            }
            Kind::Open | Kind::Garbage => broken += 1,
            Kind::Trailer | Kind::Filler => {}
        }
    }
    // A context that starts behind everything: the trailer is wrong, the whole file is the context.
    let alive = loaded.builder.conversation.iter();
    if from > 0 && !alive.clone().any(|m| message::role(m) == Some(Role::User)) && loaded.any {
        let head = std::mem::take(&mut loaded.head);
        return by_lines(file, head, start, true);
    }
    loaded.torn = clean != Some(loaded.end);
    if lost > 0 {
        loaded.notes.push(format!(
            "{lost} unreadable lines of the session file were skipped"
        ));
    }
    if loaded.torn && loaded.any {
        loaded
            .notes
            .push("the end of the session file was cut off; what is whole was kept".into());
    }
    let slots = loaded.slots;
    loaded.trailer.count = u64::from(slots);
    Ok(loaded)
}

fn read_all(file: &File) -> io::Result<Vec<u8>> {
    let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    let mut text = Vec::new();
    if text.try_reserve_exact(len).is_err() {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    text.resize(len, 0);
    let mut done = 0;
    while let Some(rest) = text.get_mut(done..).filter(|r| !r.is_empty()) {
        match file.read_at(rest, done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    text.truncate(done);
    Ok(text)
}

/// Where the first element of the array `messages` starts in a text that may be cut.
fn find_messages(text: &[u8]) -> Option<usize> {
    let name = b"\"messages\"";
    let mut at = memchr::memmem::find(text, name)? + name.len();
    for wanted in [b':', b'['] {
        at += text
            .get(at..)?
            .iter()
            .position(|b| !b.is_ascii_whitespace())?;
        if text.get(at) != Some(&wanted) {
            return None;
        }
        at += 1;
    }
    Some(at)
}

/// Files of other programs: one JSON document in any layout; and files whose head is lost.
fn other_layout(file: &File) -> io::Result<Loaded> {
    let text = read_all(file)?;
    let whole = parse(&text).ok();
    let array = whole.and_then(|v| v.get("messages"));
    if whole.is_some() && array.is_none_or(|v| v.kind() != json::Kind::Array) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it has no messages: not a session file",
        ));
    }
    let object = whole.map_or(&b""[..], |v| v.raw());
    let found = find_messages(&text);
    if array.is_none() && found.is_none() {
        let mut loaded = by_lines(file, Head::default(), 0, false)?;
        loaded.rewrite = Some(Rewrite {
            extra: Vec::new(),
            keep: !text.is_empty(),
        });
        if !text.is_empty() {
            loaded.notes.push(
                "the start of the session file is damaged; readable messages were kept".into(),
            );
        }
        return Ok(loaded);
    }
    let mut loaded = Loaded {
        head: Head::from(object).unwrap_or_default(),
        trailer: Trailer::from(object),
        builder: Builder::default(),
        slots: 0,
        end: 0,
        any: false,
        torn: false,
        rewrite: None,
        notes: Vec::new(),
    };
    let mut add = |value: Value| {
        loaded.builder.add(Some(loaded.slots), value.raw());
        loaded.slots = loaded.slots.saturating_add(1);
        loaded.any = true;
    };
    match array {
        Some(array) => array.items().for_each(&mut add),
        None => salvage(text.get(found.unwrap_or(text.len())..), &mut add),
    }
    if whole.is_none() {
        loaded
            .notes
            .push("the session file is damaged; the messages that could be read were kept".into());
    }
    loaded.rewrite = Some(Rewrite {
        extra: other_members(whole),
        keep: whole.is_none() || loaded.builder.dropped > 0,
    });
    Ok(loaded)
}

/// Reads the elements of an array that may be cut anywhere, up to the first that isn't whole.
fn salvage(elements: Option<&[u8]>, each: &mut dyn FnMut(Value)) {
    let mut rest = elements.unwrap_or_default();
    loop {
        let gap = rest
            .iter()
            .position(|b| !b.is_ascii_whitespace() && *b != b',');
        rest = rest.get(gap.unwrap_or(rest.len())..).unwrap_or_default();
        let Ok((value, n)) = parse_prefix(rest) else {
            break;
        };
        each(value);
        rest = rest.get(n..).unwrap_or_default();
    }
}

/// Members that are not ours, as text to put into the new head.
fn other_members(document: Option<Value>) -> Vec<u8> {
    const OURS: [&str; 10] = [
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
    ];
    let mut out = Vec::new();
    for (key, value) in document.iter().flat_map(Value::entries) {
        if OURS.iter().any(|name| key.is(name)) || key.is("count") {
            continue;
        }
        out.extend_from_slice(b",\"");
        out.extend_from_slice(key.raw());
        out.extend_from_slice(b"\":");
        out.extend(
            value
                .raw()
                .iter()
                .map(|b| if *b < b' ' { b' ' } else { *b }),
        );
    }
    out
}
