//! Stored messages on their way into a request. The usual message is copied byte for byte. A message is written anew
//! only when the endpoint's rules demand it, and the sequence is repaired only where a server would refuse it: open
//! calls get a result, results without a call and empty messages are left out, neighbours of one role are joined.

use super::endpoint::{
    BLANK_FILL, BRIDGE, FILL, FILL_REASONING, NULL_CONTENT, RENAME, Rules, SHORT_IDS, STRIP,
    STRIP_EXTRA,
};
use crate::json::{Text, Value, value::checked};

/// Fields servers send thinking in; the first is the one some demand back.
pub const REASONING: [&str; 2] = ["reasoning_content", "reasoning"];

/// A stored message.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    /// Its JSON text, valid, without line ends: `content` a string, `tool_calls` as on the wire, thinking under the
    /// name it came in. A tool's message is read fastest with `tool_call_id` before `content`.
    pub json: &'a [u8],
    /// The endpoint an assistant's message came from, by [`super::endpoint::origin`]: thinking and opaque members go back
    /// there and to no other place. 0: not known.
    pub origin: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Nothing written yet, or a role we don't know.
    Other,
    System,
    User,
    Assistant,
    Tool,
}

/// What a message holds, found in one pass.
struct Scan<'a> {
    role: Role,
    content: Option<Value<'a>>,
    /// The calls, when there is at least one.
    calls: Option<Value<'a>>,
    /// There is a member for calls, be it empty.
    lists_calls: bool,
    call_id: Option<Text<'a>>,
    /// By the order of [`REASONING`].
    reasoning: [Option<Value<'a>>; 2],
}

/// Reads a message. Unless `full`, it stops when a tool's id or the system role is known: long contents are not read.
fn scan(text: &[u8], full: bool) -> Scan<'_> {
    let mut s = Scan {
        role: Role::Other,
        content: None,
        calls: None,
        lists_calls: false,
        call_id: None,
        reasoning: [None; 2],
    };
    for (name, value) in checked(text).entries() {
        let some = Some(value).filter(|v| !v.is_null());
        match name.raw() {
            b"role" => {
                s.role = match value.raw() {
                    b"\"system\"" | b"\"developer\"" => Role::System,
                    b"\"user\"" => Role::User,
                    b"\"assistant\"" => Role::Assistant,
                    b"\"tool\"" => Role::Tool,
                    _ => Role::Other,
                }
            }
            b"content" => s.content = some,
            b"tool_calls" => {
                s.lists_calls = true;
                let inner = value.raw().strip_prefix(b"[").unwrap_or(b"]");
                s.calls = some.filter(|_| !inner.trim_ascii_start().starts_with(b"]"));
            }
            b"tool_call_id" => s.call_id = value.text(),
            b"reasoning_content" => s.reasoning[0] = some,
            b"reasoning" => s.reasoning[1] = some,
            _ => {}
        }
        let enough = match s.role {
            Role::Tool => s.call_id.is_some(),
            Role::System => s.content.is_some(),
            _ => false,
        };
        if enough && !full {
            break;
        }
    }
    s
}

/// Writes `messages` into `out`, joined by commas, as the endpoint `origin` with `rules` wants them.
pub fn push(out: &mut Vec<u8>, messages: &[Message], rules: &Rules, origin: u32) {
    let mut w = Writer {
        out,
        rules,
        origin,
        open: Vec::new(),
        last: Role::Other,
        at: 0,
        any: false,
    };
    for (i, m) in messages.iter().enumerate() {
        w.message(m, messages.get(i..).unwrap_or_default());
    }
    w.settle(&[]);
}

struct Writer<'a, 'o> {
    out: &'o mut Vec<u8>,
    rules: &'o Rules,
    origin: u32,
    /// Ids of the calls that have no result yet.
    open: Vec<Text<'a>>,
    /// The role of the message written last, and where it begins.
    last: Role,
    at: usize,
    any: bool,
}

impl<'a> Writer<'a, '_> {
    /// Writes the first of `rest`, which is `m`, or leaves it out.
    fn message(&mut self, m: &Message<'a>, rest: &[Message<'a>]) {
        let s = scan(m.json, self.rules.has(SHORT_IDS));
        if s.role == Role::Tool {
            if let Some(id) = s.call_id
                && let Some(i) = self.open.iter().position(|o| same(*o, id))
            {
                self.open.remove(i);
                self.tool(m.json, &s, id);
            }
            return;
        }
        self.settle(rest);
        let empty = match s.content.map(|c| c.text()) {
            None => true,
            Some(text) => text.is_some_and(|t| t.raw().trim_ascii().is_empty()),
        };
        match s.role {
            Role::Assistant if !empty || s.calls.is_some() => self.assistant(m, &s, empty),
            Role::User if !empty => self.plain(m.json, &s),
            Role::System => self.plain(m.json, &s),
            Role::Other => self.start(s.role, &[m.json]),
            _ => {}
        }
    }

    /// Puts the comma before a message, notes where it begins, and writes `parts` of it.
    fn start(&mut self, role: Role, parts: &[&[u8]]) {
        if self.any {
            self.out.push(b',');
        }
        self.any = true;
        self.at = self.out.len();
        self.last = role;
        put(self.out, parts);
    }

    /// Answers the calls still open: by a result that stands too late, before the next assistant's message, else by
    /// saying that nothing was run.
    fn settle(&mut self, rest: &[Message<'a>]) {
        for id in std::mem::take(&mut self.open) {
            let mut late = None;
            for m in rest {
                let s = scan(m.json, true);
                if s.role == Role::Assistant {
                    break;
                }
                if s.role == Role::Tool && s.call_id.is_some_and(|c| same(c, id)) {
                    late = Some((m, s));
                    break;
                }
            }
            match late {
                Some((m, s)) => self.tool(m.json, &s, id),
                None => self.result(id, b"\"error: not executed\""),
            }
        }
    }

    fn tool(&mut self, text: &[u8], s: &Scan, id: Text) {
        if self.rules.has(SHORT_IDS) {
            self.result(id, s.content.map_or(b"\"\"", |c| c.raw()));
        } else {
            self.start(Role::Tool, &[text]);
        }
    }

    /// Writes a tool's message.
    fn result(&mut self, id: Text, content: &[u8]) {
        self.start(Role::Tool, &[b"{\"role\":\"tool\",\"tool_call_id\":"]);
        push_id(self.out, id, self.rules.has(SHORT_IDS));
        put(self.out, &[b",\"content\":", content, b"}"]);
    }

    /// A system or user message. One that follows its like is joined to it; a system message that is not the first
    /// goes as the user's, since many templates take it nowhere else.
    fn plain(&mut self, text: &[u8], s: &Scan) {
        let system = s.role == Role::System && (!self.any || self.last == Role::System);
        let (role, head): (_, &[u8]) = if system {
            (Role::System, b"{\"role\":\"system\",\"content\":")
        } else {
            (Role::User, b"{\"role\":\"user\",\"content\":")
        };
        // Joined to the message written last, unless one of the two has no string for its content.
        if self.last == role
            && let Some(inner) = s.content.and_then(|c| c.text())
        {
            let before = self.out.split_off(self.at);
            if let Some(first) = scan(&before, true).content.and_then(|c| c.text()) {
                let parts = [head, b"\"", first.raw(), b"\\n\\n", inner.raw(), b"\"}"];
                return put(self.out, &parts);
            }
            self.out.extend_from_slice(&before);
        }
        if self.last == Role::Tool && self.rules.has(BRIDGE) {
            let bridge = b"{\"role\":\"assistant\",\"content\":\"(interrupted)\"}";
            self.start(Role::Assistant, &[bridge]);
        }
        match s.content {
            Some(content) if role != s.role => self.start(role, &[head, content.raw(), b"}"]),
            _ => self.start(role, &[text]),
        }
    }

    fn assistant(&mut self, m: &Message<'a>, s: &Scan<'a>, empty: bool) {
        let rules = self.rules;
        let own = self.origin != 0 && m.origin == self.origin;
        let short = rules.has(SHORT_IDS);
        let null = rules.has(NULL_CONTENT) && empty;
        let opaque = own && !rules.has(STRIP_EXTRA);
        let mut special = false;
        for call in s.calls.iter().flat_map(Value::items) {
            for (key, value) in call.entries() {
                special |= !is_plain(key);
                if key.raw() == b"id" {
                    self.open.extend(value.text());
                }
            }
        }
        let (field, thinking) = self.thinking(s, own);
        if field == AS_STORED
            && !null
            && !(short && s.calls.is_some())
            && (opaque || !special)
            && s.lists_calls == s.calls.is_some()
        {
            return self.start(Role::Assistant, &[m.json]);
        }
        let content = match s.content {
            _ if null => b"null",
            Some(content) => content.raw(),
            None => b"\"\"",
        };
        let head = b"{\"role\":\"assistant\",\"content\":";
        self.start(Role::Assistant, &[head, content]);
        for (i, name) in REASONING.iter().enumerate() {
            let stored = s.reasoning[i].filter(|_| field == AS_STORED);
            let text = if field == i {
                Some(thinking)
            } else {
                stored.map(|v| v.raw())
            };
            if let Some(text) = text {
                put(self.out, &[b",\"", name.as_bytes(), b"\":", text]);
            }
        }
        let mut comma: &[u8] = b",\"tool_calls\":[";
        for call in s.calls.iter().flat_map(Value::items) {
            put(self.out, &[comma, b"{"]);
            comma = b",";
            let mut between: &[u8] = b"\"";
            for (key, value) in call.entries() {
                if !opaque && !is_plain(key) {
                    continue;
                }
                put(self.out, &[between, key.raw(), b"\":"]);
                between = b",\"";
                match value.text() {
                    Some(id) if key.raw() == b"id" => push_id(self.out, id, short),
                    _ => put(self.out, &[value.raw()]),
                }
            }
            self.out.push(b'}');
        }
        put(self.out, &[if s.calls.is_some() { b"]}" } else { b"}" }]);
    }

    /// What becomes of a message's thinking: the field by its number in [`REASONING`] or one of the two below, and the
    /// value.
    fn thinking<'t>(&self, s: &Scan<'t>, own: bool) -> (usize, &'t [u8]) {
        let rules = self.rules;
        let any = s.reasoning != [None; 2];
        if rules.has(STRIP) || !own && !rules.has(FILL) {
            return (if any { NONE } else { AS_STORED }, b"");
        }
        if !rules.has(FILL) {
            return (AS_STORED, b"");
        }
        let blank = rules.has(BLANK_FILL);
        let wanted = usize::from(rules.has(FILL_REASONING));
        for i in [wanted, 1 - wanted] {
            let value = s.reasoning[i].filter(|_| own);
            if let Some(value) = value
                && value.text().is_some_and(|t| !blank || !t.raw().is_empty())
            {
                let moves = i != wanted && rules.has(RENAME);
                return (if moves { wanted } else { AS_STORED }, value.raw());
            }
        }
        (wanted, if blank { b"\" \"" } else { b"\"\"" })
    }
}

/// Thinking stays as it is.
const AS_STORED: usize = 2;
/// Thinking is left out.
const NONE: usize = 3;

/// Appends `parts`.
#[inline(never)]
pub(super) fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

fn same(a: Text, b: Text) -> bool {
    a.raw() == b.raw() || a.bytes() == b.bytes()
}

fn is_plain(key: Text) -> bool {
    matches!(key.raw(), b"id" | b"type" | b"function")
}

/// Writes an id in quotes. A `short` one has exactly nine letters and digits: the id itself when it is so, else nine
/// digits to the base of 62 of its hash (FNV-1a), so that call and result agree without a table.
fn push_id(out: &mut Vec<u8>, id: Text, short: bool) {
    out.push(b'"');
    let fits = id.raw().len() == 9 && id.raw().iter().all(u8::is_ascii_alphanumeric);
    if !short || fits {
        out.extend_from_slice(id.raw());
    } else {
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        for b in id.bytes() {
            hash = (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3);
        }
        for _ in 0..9 {
            let digit = (hash % 62) as u8;
            hash /= 62;
            out.push(match digit {
                0..10 => b'0' + digit,
                10..36 => b'A' + digit - 10,
                _ => b'a' + digit - 36,
            });
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests;
