//! Stored messages on their way into a request. The usual message is copied byte for byte. A message is written anew
//! only when the endpoint's rules demand it, and the sequence is repaired only where a server would refuse it: open
//! calls get a result, results without a call and empty messages are left out, neighbours of one role are joined.

use super::endpoint::{
    BLANK_FILL, BRIDGE, FILL, FILL_REASONING, NULL_CONTENT, RENAME, Rules, SHORT_IDS, STRIP,
    STRIP_EXTRA,
};
use crate::json::{self, Text, Value};

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
#[derive(Clone, Copy)]
struct Scan<'a> {
    role: Role,
    content: Option<Value<'a>>,
    /// The calls, when there is at least one.
    calls: Option<Value<'a>>,
    /// There is a member for calls, be it empty.
    lists_calls: bool,
    /// A call has members of its own kind.
    opaque: bool,
    call_id: Option<Text<'a>>,
    /// By the order of [`REASONING`].
    reasoning: [Option<Value<'a>>; 2],
}

/// Reads a message member by member and adds the ids of its calls to `ids`. Unless `full`, it stops when a tool's id or the
/// system role is known: long contents are not read.
fn scan<'a>(text: &'a [u8], full: bool, ids: &mut Vec<Text<'a>>) -> Scan<'a> {
    let mut s = Scan {
        role: Role::Other,
        content: None,
        calls: None,
        lists_calls: false,
        opaque: false,
        call_id: None,
        reasoning: [None; 2],
    };
    for (name, value) in json::value::checked(text).entries() {
        let mut items = false;
        if name.raw() == b"tool_calls" {
            for call in value.items() {
                items = true;
                for (key, member) in call.entries() {
                    s.opaque |= !is_plain(key);
                    if key.raw() == b"id" {
                        ids.extend(member.text());
                    }
                }
            }
        }
        s.member(name.raw(), value, items);
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

impl<'a> Scan<'a> {
    /// Takes in a member of the message; `items` says whether calls have been seen.
    fn member(&mut self, name: &[u8], value: Value<'a>, items: bool) {
        let some = Some(value).filter(|v| !v.is_null());
        match name {
            b"role" => {
                self.role = match value.raw() {
                    b"\"system\"" | b"\"developer\"" => Role::System,
                    b"\"user\"" => Role::User,
                    b"\"assistant\"" => Role::Assistant,
                    b"\"tool\"" => Role::Tool,
                    _ => Role::Other,
                }
            }
            b"content" => self.content = some,
            b"tool_calls" => {
                self.lists_calls = true;
                self.calls = some.filter(|_| items);
            }
            b"tool_call_id" => self.call_id = value.text(),
            b"reasoning_content" => self.reasoning[0] = some,
            b"reasoning" => self.reasoning[1] = some,
            _ => {}
        }
    }
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
        let mut ids = Vec::new();
        let s = scan(m.json, self.rules.has(SHORT_IDS), &mut ids);
        if s.role == Role::Tool {
            if self.take(s.call_id) {
                self.tool(m.json, &s);
            }
            return;
        }
        self.settle(rest);
        let empty = s
            .content
            .is_none_or(|c| c.text().is_some_and(|t| t.raw().trim_ascii().is_empty()));
        match s.role {
            Role::Assistant if empty && s.calls.is_none() => {}
            Role::Assistant => {
                self.assistant(m, &s, empty);
                self.open = ids;
            }
            Role::User if empty => {}
            Role::User | Role::System => self.plain(m.json, &s),
            _ => self.start(s.role).extend_from_slice(m.json),
        }
    }

    /// Puts the comma before a message and notes where it begins.
    fn start(&mut self, role: Role) -> &mut Vec<u8> {
        if self.any {
            self.out.push(b',');
        }
        self.any = true;
        self.at = self.out.len();
        self.last = role;
        self.out
    }

    /// Whether a call with this id is open; it no longer is.
    fn take(&mut self, id: Option<Text>) -> bool {
        let Some(id) = id else { return false };
        let found = self.open.iter().position(|o| same(*o, id));
        if let Some(i) = found {
            self.open.remove(i);
        }
        found.is_some()
    }

    /// Answers the calls still open: by a result that stands too late, before the next assistant's message, else by
    /// saying that nothing was run.
    fn settle(&mut self, rest: &[Message<'a>]) {
        for id in std::mem::take(&mut self.open) {
            let late = rest
                .iter()
                .map(|m| (m, scan(m.json, true, &mut Vec::new())))
                .take_while(|(_, s)| s.role != Role::Assistant)
                .find(|(_, s)| s.role == Role::Tool && s.call_id.is_some_and(|c| same(c, id)));
            if let Some((m, s)) = late {
                self.tool(m.json, &s);
                continue;
            }
            let short = self.rules.has(SHORT_IDS);
            let out = self.start(Role::Tool);
            out.extend_from_slice(b"{\"role\":\"tool\",\"tool_call_id\":");
            push_id(out, id, short);
            out.extend_from_slice(b",\"content\":\"error: not executed\"}");
        }
    }

    fn tool(&mut self, text: &[u8], s: &Scan) {
        let short = self.rules.has(SHORT_IDS);
        let out = self.start(Role::Tool);
        let (true, Some(id)) = (short, s.call_id) else {
            return out.extend_from_slice(text);
        };
        out.extend_from_slice(b"{\"role\":\"tool\",\"tool_call_id\":");
        push_id(out, id, true);
        out.extend_from_slice(b",\"content\":");
        out.extend_from_slice(s.content.map_or(b"\"\"", |c| c.raw()));
        out.push(b'}');
    }

    /// A system or user message. One that follows its like is joined to it; a system message that is not the first
    /// goes as the user's, since many templates take it nowhere else.
    fn plain(&mut self, text: &[u8], s: &Scan) {
        let system = s.role == Role::System && (!self.any || self.last == Role::System);
        let role = if system { Role::System } else { Role::User };
        let inner = s.content.and_then(|c| c.text());
        if self.last == role
            && let Some(inner) = inner
            && self.join(role, inner)
        {
            return;
        }
        if self.last == Role::Tool && self.rules.has(BRIDGE) {
            self.start(Role::Assistant)
                .extend_from_slice(b"{\"role\":\"assistant\",\"content\":\"(interrupted)\"}");
        }
        let rewritten = role != s.role;
        let out = self.start(role);
        match s.content {
            Some(content) if rewritten => {
                out.extend_from_slice(b"{\"role\":\"user\",\"content\":");
                out.extend_from_slice(content.raw());
                out.push(b'}');
            }
            _ => out.extend_from_slice(text),
        }
    }

    /// Appends a text to the message written last; false when that one's content is no string.
    fn join(&mut self, role: Role, inner: Text) -> bool {
        let before = self.out.split_off(self.at);
        let Some(first) = scan(&before, true, &mut Vec::new())
            .content
            .and_then(|c| c.text())
        else {
            self.out.extend_from_slice(&before);
            return false;
        };
        self.out.extend_from_slice(if role == Role::System {
            b"{\"role\":\"system\",\"content\":\""
        } else {
            b"{\"role\":\"user\",\"content\":\""
        });
        self.out.extend_from_slice(first.raw());
        self.out.extend_from_slice(b"\\n\\n");
        self.out.extend_from_slice(inner.raw());
        self.out.extend_from_slice(b"\"}");
        true
    }

    fn assistant(&mut self, m: &Message<'a>, s: &Scan<'a>, empty: bool) {
        let rules = self.rules;
        let own = self.origin != 0 && m.origin == self.origin;
        let short = rules.has(SHORT_IDS);
        let null = rules.has(NULL_CONTENT) && empty;
        let thinking = self.thinking(s, own);
        let opaque = own && !rules.has(STRIP_EXTRA);
        let out = self.start(Role::Assistant);
        if let Thinking::AsStored = thinking
            && !null
            && !(short && s.calls.is_some())
            && (opaque || !s.opaque)
            && s.lists_calls == s.calls.is_some()
        {
            out.extend_from_slice(m.json);
        } else {
            out.extend_from_slice(b"{\"role\":\"assistant\",\"content\":");
            out.extend_from_slice(match s.content {
                _ if null => b"null",
                Some(content) => content.raw(),
                None => b"\"\"",
            });
            let (field, text) = match thinking {
                Thinking::None => ("", &b""[..]),
                Thinking::Field(i, text) => (REASONING.get(i).copied().unwrap_or_default(), text),
                Thinking::AsStored => match s.reasoning {
                    [Some(v), _] => (REASONING[0], v.raw()),
                    [_, Some(v)] => (REASONING[1], v.raw()),
                    _ => ("", &b""[..]),
                },
            };
            if !field.is_empty() {
                for part in [b",\"", field.as_bytes(), b"\":", text] {
                    out.extend_from_slice(part);
                }
            }
            let mut comma: &[u8] = b",\"tool_calls\":[";
            for call in s.calls.iter().flat_map(|c| c.items()) {
                out.extend_from_slice(comma);
                comma = b",";
                push_call(out, call, short, opaque);
            }
            if s.calls.is_some() {
                out.push(b']');
            }
            out.push(b'}');
        }
    }

    /// What becomes of a message's thinking.
    fn thinking<'t>(&self, s: &Scan<'t>, own: bool) -> Thinking<'t> {
        let rules = self.rules;
        let any = s.reasoning.iter().any(|r| r.is_some());
        if rules.has(STRIP) || !own && any && !rules.has(FILL) {
            return if any {
                Thinking::None
            } else {
                Thinking::AsStored
            };
        }
        if !rules.has(FILL) {
            return Thinking::AsStored;
        }
        let blank = rules.has(BLANK_FILL);
        let wanted = usize::from(rules.has(FILL_REASONING));
        let full = |v: &Value| v.text().is_some_and(|t| !blank || !t.raw().is_empty());
        let stored = s.reasoning.get(wanted).copied().flatten();
        if own && stored.is_some_and(|v| full(&v)) {
            return Thinking::AsStored;
        }
        let other = s.reasoning.get(1 - wanted).copied().flatten();
        if own && let Some(other) = other.filter(full) {
            return if rules.has(RENAME) {
                Thinking::Field(wanted, other.raw())
            } else {
                Thinking::AsStored
            };
        }
        Thinking::Field(wanted, if blank { b"\" \"" } else { b"\"\"" })
    }
}

enum Thinking<'a> {
    AsStored,
    None,
    /// This value in the field of this number in [`REASONING`].
    Field(usize, &'a [u8]),
}

fn same(a: Text, b: Text) -> bool {
    a.raw() == b.raw() || a.bytes() == b.bytes()
}

fn is_plain(key: Text) -> bool {
    matches!(key.raw(), b"id" | b"type" | b"function")
}

fn push_call(out: &mut Vec<u8>, call: Value, short: bool, opaque: bool) {
    let mut comma = b'{';
    for (key, value) in call.entries() {
        if !opaque && !is_plain(key) {
            continue;
        }
        out.push(comma);
        comma = b',';
        out.push(b'"');
        out.extend_from_slice(key.raw());
        out.extend_from_slice(b"\":");
        match value.text() {
            Some(id) if key.raw() == b"id" => push_id(out, id, short),
            _ => out.extend_from_slice(value.raw()),
        }
    }
    if comma == b'{' {
        out.push(b'{');
    }
    out.push(b'}');
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
