//! Stored messages on their way into a request. The usual message is copied byte for byte. A message is written anew
//! only when the endpoint's rules demand it, and the sequence is repaired only where a server would refuse it: open
//! calls get a result, results without a call and empty messages are left out, neighbours of one role are joined.

use super::endpoint::{
    BLANK_FILL, BRIDGE, FILL, FILL_REASONING, NULL_CONTENT, RENAME, Rules, SHORT_IDS, STRIP,
    STRIP_EXTRA,
};
use crate::json::{self, Text, Token, Tokenizer, Value};

/// Fields servers send thinking in; the first is the one some demand back.
pub const REASONING: [&str; 2] = ["reasoning_content", "reasoning"];

/// A stored message.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    /// Its JSON text, valid, without line ends: `content` a string, `tool_calls` as on the wire, thinking under the
    /// name it came in. A tool's message is read fastest with `tool_call_id` before `content`.
    pub json: &'a [u8],
    /// For an assistant's message [`super::client::Client::origin`] of the reply it was made from: thinking and opaque
    /// members go back to the endpoint they came from and to no other. 0: not known.
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

/// Reads a message token by token and adds the ids of its calls to `ids`. Unless `full`, it stops when a tool's id or the
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
    let mut tokens = Tokenizer::new();
    let (mut pos, mut start) = (0, 0);
    let (mut name, mut member): (&[u8], &[u8]) = (b"", b"");
    let mut items = false;
    while let Ok(Some(token)) = tokens.next(text, &mut pos, true) {
        let in_calls = name == b"tool_calls";
        match (tokens.depth(), token) {
            (1, Token::Key(key)) => (name, start) = (key.raw(), pos),
            (2, Token::ArrayStart) => {}
            (1, _) => {
                let value = text.get(start..pos).unwrap_or_default().trim_ascii_start();
                let value = value.strip_prefix(b":").unwrap_or_default();
                s.member(name, json::value::checked(value), items);
                let enough = match s.role {
                    Role::Tool => s.call_id.is_some(),
                    Role::System => s.content.is_some(),
                    _ => false,
                };
                if enough && !full {
                    break;
                }
            }
            (depth, token) if in_calls => {
                items = true;
                match token {
                    Token::Key(key) if depth == 3 => {
                        member = key.raw();
                        s.opaque |= !is_plain(key);
                    }
                    Token::Str(id) if depth == 3 && member == b"id" => ids.push(id),
                    _ => {}
                }
            }
            _ => {}
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
mod tests {
    use super::*;
    use crate::provider::Adapt;

    const HERE: u32 = 7;

    const SYS: &str = r#"{"role":"system","content":"S"}"#;
    const U1: &str = r#"{"role":"user","content":"one \"1\"\n"}"#;
    const U2: &str = r#"{"content":"two é","role":"user"}"#;
    const A: &str = r#"{"role":"assistant","content":"ok"}"#;
    const A_THINK: &str = r#"{"role":"assistant","content":"ok","reasoning_content":"hm"}"#;
    const A_VLLM: &str = r#"{"role":"assistant","content":"ok","reasoning":"hm"}"#;
    const A_NOTHOUGHT: &str = r#"{"role":"assistant","content":"ok","reasoning_content":""}"#;
    const C: &str = r#"{"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"filePath\":\"a\"}"}},{"id":"call_2","type":"function","function":{"name":"bash","arguments":"{}"}}]}"#;
    const R1: &str = r#"{"role":"tool","tool_call_id":"call_1","content":"one\ttwo"}"#;
    const R2: &str = r#"{"role":"tool","tool_call_id":"call_2","content":"2"}"#;
    const NOT_RUN: &str =
        r#"{"role":"tool","tool_call_id":"call_2","content":"error: not executed"}"#;
    const C_EXTRA: &str = r#"{"role":"assistant","content":"","tool_calls":[{"id":"g","type":"function","function":{"name":"read","arguments":"{}"},"extra_content":{"google":{"thought_signature":"x=="}}}]}"#;
    const RG: &str = r#"{"role":"tool","tool_call_id":"g","content":"r"}"#;

    fn with(rules: &Rules, list: &[&str], origin: u32) -> String {
        let messages: Vec<Message> = list
            .iter()
            .map(|m| Message {
                json: m.as_bytes(),
                origin,
            })
            .collect();
        let mut out = Vec::new();
        push(&mut out, &messages, rules, HERE);
        let text = String::from_utf8(out).unwrap();
        serde_json::from_str::<serde_json::Value>(&["[", &text, "]"].concat()).unwrap();
        text
    }

    fn flags(flags: u16) -> Rules {
        let mut rules = Rules::default();
        rules.set(flags);
        rules
    }

    #[test]
    fn a_sound_conversation_is_copied() {
        let list = [SYS, U1, C, R2, R1, A_THINK, U2, A_VLLM, U1, C_EXTRA, RG, A];
        assert_eq!(with(&Rules::default(), &list, HERE), list.join(","));
        assert_eq!(with(&Rules::default(), &[], HERE), "");
    }

    #[test]
    fn broken_sequences_are_repaired() {
        let joined = r#"{"role":"user","content":"one \"1\"\n\n\ntwo é"}"#;
        let late_system = r#"{"role":"user","content":"S"}"#;
        let two_systems = r#"{"role":"system","content":"S\n\nS"}"#;
        let empty_user = r#"{"role":"user","content":""}"#;
        let blank_user = r#"{"role":"user","content":"  "}"#;
        let nothing = r#"{"role":"assistant","content":"","reasoning_content":"only thought"}"#;
        let null = r#"{"role":"assistant","content":null,"tool_calls":[]}"#;
        let parts = r#"{"role":"user","content":[{"type":"text","text":"x"}]}"#;
        for (given, wanted) in [
            // Calls without results, wherever the gap is.
            (vec![U1, C, R1, U2], vec![U1, C, R1, NOT_RUN, U2]),
            (vec![U1, C, R1], vec![U1, C, R1, NOT_RUN]),
            (vec![U1, C, R1, A], vec![U1, C, R1, NOT_RUN, A]),
            // A result that comes too late is still the result; not one that belongs to a later call of that id.
            (vec![C, R1, U1, R2, A], vec![C, R1, R2, U1, A]),
            (vec![C, R1, C, R1, R2], vec![C, R1, NOT_RUN, C, R1, R2]),
            // Results without a call, twice the same.
            (vec![R1, U1, A, R2], vec![U1, A]),
            (vec![U1, C, R1, R1, R2, R2, A], vec![U1, C, R1, R2, A]),
            (vec![U1, r#"{"role":"tool","content":"x"}"#, A], vec![U1, A]),
            // Empty messages.
            (
                vec![SYS, empty_user, U1, nothing, blank_user, null],
                vec![SYS, U1],
            ),
            // Neighbours, also such as emptiness made.
            (vec![SYS, U1, U2], vec![SYS, joined]),
            (vec![U1, nothing, U2, A], vec![joined, A]),
            (vec![SYS, SYS, U1], vec![two_systems, U1]),
            (vec![U1, A, SYS], vec![U1, A, late_system]),
            (vec![parts, U1], vec![parts, U1]),
            (vec![U1, parts], vec![U1, parts]),
        ] {
            assert_eq!(
                with(&Rules::default(), &given, HERE),
                wanted.join(","),
                "{given:?}"
            );
        }
        let three = with(&Rules::default(), &[U2, U2, SYS, U2], HERE);
        let wanted = r#"{"role":"user","content":"two é\n\ntwo é\n\nS\n\ntwo é"}"#;
        assert_eq!(three, wanted);
    }

    #[test]
    fn hostile_messages_do_no_harm() {
        for text in [
            "",
            "{",
            "null",
            "[1]",
            "{\"role\":",
            "{\"role\":3}",
            "\u{FFFD}",
        ] {
            let m = [Message {
                json: text.as_bytes(),
                origin: 0,
            }; 2];
            for f in [0, u16::MAX] {
                push(&mut Vec::new(), &m, &flags(f), HERE);
            }
        }
        let odd = r#"{"role":"assistant","tool_calls":[1,{"id":3},{},{"id":"x"}]}"#;
        assert_eq!(
            with(&Rules::default(), &[odd], 0),
            [
                r#"{"role":"assistant","tool_calls":[1,{"id":3},{},{"id":"x"}]}"#,
                r#"{"role":"tool","tool_call_id":"x","content":"error: not executed"}"#
            ]
            .join(",")
        );
        with(&flags(SHORT_IDS | NULL_CONTENT), &[odd], 0);
    }

    #[test]
    fn thinking_goes_where_it_came_from() {
        let bare = A;
        let blank = r#"{"role":"assistant","content":"ok","reasoning_content":" "}"#;
        let empty_vllm = r#"{"role":"assistant","content":"ok","reasoning":""}"#;
        for (f, message, own, foreign) in [
            (0, A_THINK, A_THINK, bare),
            (0, A_NOTHOUGHT, A_NOTHOUGHT, bare),
            (0, A_VLLM, A_VLLM, bare),
            (0, A, A, A),
            (STRIP, A_THINK, bare, bare),
            (STRIP, A_VLLM, bare, bare),
            (STRIP, A, A, A),
            (FILL, A_THINK, A_THINK, A_NOTHOUGHT),
            (FILL, A, A_NOTHOUGHT, A_NOTHOUGHT),
            (FILL, A_NOTHOUGHT, A_NOTHOUGHT, A_NOTHOUGHT),
            (FILL, A_VLLM, A_VLLM, A_NOTHOUGHT),
            (FILL | RENAME, A_VLLM, A_THINK, A_NOTHOUGHT),
            (FILL | BLANK_FILL, A_THINK, A_THINK, blank),
            (FILL | BLANK_FILL, A_NOTHOUGHT, blank, blank),
            (FILL | BLANK_FILL, A, blank, blank),
            (FILL | FILL_REASONING | RENAME, A_THINK, A_VLLM, empty_vllm),
            (FILL | FILL_REASONING, A_VLLM, A_VLLM, empty_vllm),
        ] {
            assert_eq!(with(&flags(f), &[message], HERE), own, "{f} {message}");
            assert_eq!(with(&flags(f), &[message], 0), foreign, "{f} {message}");
            assert_eq!(with(&flags(f), &[message], 8), foreign, "{f} {message}");
        }
        // Only the assistant's messages are touched.
        assert_eq!(with(&flags(FILL), &[SYS, U1], 0), [SYS, U1].join(","));
    }

    #[test]
    fn opaque_members_go_back_to_their_sender_only() {
        let plain = r#"{"role":"assistant","content":"","tool_calls":[{"id":"g","type":"function","function":{"name":"read","arguments":"{}"}}]}"#;
        let list = [C_EXTRA, RG];
        assert_eq!(with(&Rules::default(), &list, HERE), list.join(","));
        assert_eq!(with(&Rules::default(), &list, 0), [plain, RG].join(","));
        assert_eq!(
            with(&flags(STRIP_EXTRA), &list, HERE),
            [plain, RG].join(",")
        );
    }

    #[test]
    fn null_content() {
        let list = [U1, C, R1, R2, A];
        let got = with(&flags(NULL_CONTENT), &list, HERE);
        assert_eq!(
            got,
            list.join(",")
                .replace(r#""content":"","#, r#""content":null,"#)
        );
    }

    #[test]
    fn ids_of_nine_letters_and_digits() {
        let nine = r#"{"role":"assistant","content":"x","tool_calls":[{"id":"abcDEF123","type":"function","function":{"name":"read","arguments":"{}"}}]}"#;
        let result =
            r#"{"role":"tool","tool_call_id":"abcDEF123","content":"\"id\":\"abcDEF123\""}"#;
        let list = [nine, result];
        assert_eq!(with(&flags(SHORT_IDS), &list, HERE), list.join(","));

        let got = with(&flags(SHORT_IDS), &[U1, C, R2], HERE);
        let got: serde_json::Value = serde_json::from_str(&["[", &got, "]"].concat()).unwrap();
        let calls = &got[1]["tool_calls"];
        let ids = [
            &calls[0]["id"],
            &calls[1]["id"],
            &got[2]["tool_call_id"],
            &got[3]["tool_call_id"],
        ]
        .map(|v| v.as_str().unwrap().to_string());
        for id in &ids {
            assert!(
                id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()),
                "{id}"
            );
        }
        assert_eq!((&ids[2], &ids[3]), (&ids[1], &ids[0]));
        assert_ne!(ids[0], ids[1]);
        assert_eq!(calls[0]["function"]["arguments"], r#"{"filePath":"a"}"#);
    }

    #[test]
    fn a_bridge_between_tool_and_user() {
        let between = r#"{"role":"assistant","content":"(interrupted)"}"#;
        let got = with(&flags(BRIDGE), &[U1, C, R1, R2, U2], HERE);
        assert_eq!(got, [U1, C, R1, R2, between, U2].join(","));
        assert_eq!(
            with(&flags(BRIDGE), &[U1, A, U2], HERE),
            [U1, A, U2].join(",")
        );
    }

    #[test]
    fn a_learned_field_is_filled_and_then_blanked() {
        let mut rules = Rules::default();
        let add = Adapt::AddMessageField("reasoning_content".into());
        assert!(rules.apply(&add));
        assert_eq!(with(&rules, &[A], 0), A_NOTHOUGHT);
        assert!(rules.apply(&add));
        assert!(with(&rules, &[A], 0).contains(r#""reasoning_content":" ""#));
        assert!(!rules.apply(&add));
    }
}
