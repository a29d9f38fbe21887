//! Tool calls out of fragments. Servers disagree about `index`, `id` and `name`; only `arguments` is ever appended, and
//! nothing is judged before the end of the stream.

use super::Call;
use crate::json::lenient::{Fault, arguments, strict};
use crate::json::{Joiner, Value};
use crate::sys::time;

/// Calls beyond this are dropped: no model means them.
const MAX_CALLS: usize = 128;

/// The calls of a reply while it arrives.
#[derive(Default)]
pub struct Calls {
    /// In boxes, since they are swapped and moved by code that is larger the larger they are.
    #[allow(clippy::vec_box)]
    parts: Vec<Box<Part>>,
    /// A call was dropped because of [`MAX_CALLS`].
    too_many: bool,
}

/// One call as far as it is known.
#[derive(Default)]
struct Part {
    /// As the server numbered it.
    index: Option<u64>,
    /// Its place among the others.
    order: u64,
    id: String,
    name: String,
    text: Joiner,
    /// How far `text` has been looked at for its end.
    scan: Scan,
    extra: Vec<u8>,
    /// It came as text that could not be read.
    leaked: bool,
}

/// Finds where a JSON value ends by counting brackets, a byte at a time.
#[derive(Clone, Copy, Default)]
pub struct Scan {
    depth: u32,
    in_string: bool,
    escape: bool,
    begun: bool,
}

impl Scan {
    /// Whether at least one value has begun and none is open.
    pub fn is_whole(&self) -> bool {
        self.begun && self.depth == 0 && !self.in_string
    }

    /// Looks at more bytes. The offset behind the byte that completed the first value, when one of these did.
    pub fn feed(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut end = None;
        for (i, &b) in bytes.iter().enumerate() {
            let before = self.is_whole();
            if self.in_string {
                match b {
                    _ if self.escape => self.escape = false,
                    b'\\' => self.escape = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
            } else {
                match b {
                    b'"' => self.in_string = true,
                    b'{' | b'[' => self.depth = self.depth.saturating_add(1),
                    b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                    b' ' | b'\t' | b'\r' | b'\n' => continue,
                    _ => {}
                }
                self.begun = true;
            }
            if end.is_none() && !before && self.is_whole() {
                end = Some(i + 1);
            }
        }
        end
    }
}

/// A fragment's members; null and empty count as absent.
struct Fragment<'a> {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: Option<Value<'a>>,
    extra: Option<Value<'a>>,
}

impl<'a> Fragment<'a> {
    fn read(value: Value<'a>) -> Fragment<'a> {
        let mut found = [None; 6];
        let names = "function|index|id|name|arguments|extra_content";
        value.pick(names, &mut found);
        if let Some(function) = found[0] {
            function.pick(names, &mut found);
        }
        let [_, index, id, name, arguments, extra] = found;
        Fragment {
            index: index.and_then(|v| v.u64()),
            id: text(id),
            name: text(name),
            arguments,
            extra,
        }
    }
}

fn text(value: Option<Value>) -> String {
    value.and_then(|v| v.string()).unwrap_or_default()
}

/// Whether a tool of that name was offered.
#[inline(never)]
pub fn known(tools: &[String], name: &str) -> bool {
    tools.iter().any(|t| t == name)
}

impl Calls {
    /// Whether no call has begun.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Bytes held.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|p| p.text.out.len()).sum()
    }

    /// Takes one element of `tool_calls`. `whole`: it comes from a message that is not streamed, so it is a call of its own.
    pub fn push(&mut self, value: Value, whole: bool, tools: &[String]) {
        let f = Fragment::read(value);
        let found = if whole { None } else { self.find(&f, tools) };
        let at = match found {
            Some(at) => at,
            None if self.parts.len() >= MAX_CALLS => {
                self.too_many = true;
                return;
            }
            None => {
                let last = self.parts.iter().map(|p| p.order).max();
                let mut part = Box::<Part>::default();
                // Without a number a call stands behind those that came before it.
                (part.index, part.order) = (f.index, f.index.or(last).unwrap_or(0));
                self.parts.push(part);
                self.parts.len() - 1
            }
        };
        let Some(part) = self.parts.get_mut(at) else {
            return;
        };
        if part.id.is_empty() {
            part.id = f.id;
        }
        part.name(&f.name, tools);
        if let Some(extra) = f.extra {
            part.extra = [b"\"extra_content\":", strict(extra).as_slice()].concat();
        }
        let Some(arguments) = f.arguments else { return };
        let before = part.text.out.len();
        match arguments.text() {
            Some(text) => part.text.push(text),
            None => part.text.push_plain(arguments.raw()),
        }
        part.scan
            .feed(part.text.out.get(before..).unwrap_or_default());
    }

    /// Adds a call that was found in text, with its arguments when they could be read.
    pub fn push_found(&mut self, name: String, arguments: Option<&[u8]>) {
        let mut part = Box::<Part>::default();
        (part.name, part.leaked) = (name, arguments.is_none());
        let arguments = arguments.unwrap_or_default();
        part.text.push_plain(arguments);
        self.parts.push(part);
    }

    /// The call a fragment continues; `None` when it begins one.
    fn find(&self, f: &Fragment, tools: &[String]) -> Option<usize> {
        // By id and number; by the number alone; by the id alone, when the number runs on although it is the same call.
        // Without a number by the id; without both it is the last.
        let (mut best, mut at) = (1, None);
        for (i, p) in self.parts.iter().enumerate() {
            let id = !f.id.is_empty() && p.id == f.id;
            let rank = match f.index {
                Some(_) if p.index == f.index => 2 + u32::from(id),
                Some(_) => u32::from(id && f.name.is_empty()),
                None => u32::from(id || f.id.is_empty()),
            };
            if rank >= best {
                (best, at) = (rank, Some(i));
            }
        }
        let at = at?;
        let part = self.parts.get(at)?;
        let whole = part.scan.is_whole();
        // Another id under the same number is another call, unless an unfinished one just got a new id with more of its
        // arguments.
        let other_id = !f.id.is_empty() && !part.id.is_empty() && f.id != part.id;
        if other_id && (whole || !f.name.is_empty()) {
            return None;
        }
        if f.name.is_empty() || part.name.is_empty() {
            return Some(at);
        }
        if f.name != part.name {
            let begun = !part.text.out.is_empty();
            let other = whole || known(tools, &f.name) && (begun || known(tools, &part.name));
            let other = other && joined(&part.name, &f.name, tools).is_none();
            return (!other).then_some(at);
        }
        // The same name once more with no id to tell: a second call, if the first is whole and this one begins an object
        // that is not the same again.
        let anonymous = f.id.is_empty() && part.id.is_empty();
        let another =
            anonymous && whole && part.text.out != b"{}" && begins_another(f.arguments, part);
        (!another).then_some(at)
    }

    /// The calls in order, each with a name, an id that is unique among them, and arguments that are one object, or a
    /// fault. `stopped`: why none of them may run whatever it looks like.
    pub fn finish(&mut self, stopped: &str, tools: &[String]) -> Vec<Call> {
        let mut parts = std::mem::take(&mut self.parts);
        // Nearly always in order already, and few: the library's sort would cost four kilobytes.
        for i in 1..parts.len() {
            let mut j = i;
            while j > 0 && parts[j - 1].order > parts[j].order {
                parts.swap(j - 1, j);
                j -= 1;
            }
        }
        let seed = time::monotonic_ms() as u32 ^ (time::unix_seconds() as u32).rotate_left(20);
        let mut out: Vec<Call> = Vec::with_capacity(parts.len());
        for (i, part) in parts.iter_mut().enumerate() {
            part.text.flush();
            let name = clean_name(&part.name, tools);
            let raw = std::mem::take(&mut part.text.out);
            if name.is_empty() && raw.is_empty() {
                continue;
            }
            let mut call = Call::default();
            call.name.push_str(name);
            std::mem::swap(&mut call.id, &mut part.id);
            std::mem::swap(&mut call.extra, &mut part.extra);
            if call.id.is_empty() || out.iter().any(|c| c.id == call.id) {
                let mut n = seed.wrapping_add(i as u32);
                loop {
                    call.id = made_up_id(n);
                    if !out.iter().any(|c| c.id == call.id) {
                        break;
                    }
                    n = n.wrapping_add(1);
                }
            }
            let mut fault = match arguments(&raw) {
                Err(why) if stopped.is_empty() || why == Fault::Cut => why.phrase(),
                Err(_) => stopped.to_string(),
                Ok(object) => {
                    call.arguments = object;
                    stopped.to_string()
                }
            };
            let mut what = "";
            if part.leaked {
                what = "this call came as text and could not be read; make it again as a tool call";
            }
            if call.name.is_empty() {
                call.name.push_str("unnamed");
                what = "the call has no tool name";
            }
            if !what.is_empty() {
                fault = what.to_string();
            }
            if !fault.is_empty() {
                call.fault = Some(fault);
                call.arguments = raw;
            }
            out.push(call);
        }
        if self.too_many
            && let Some(last) = out.last_mut()
        {
            last.fault =
                Some("too many calls in one reply; the calls after this one were dropped".into());
        }
        out
    }
}

impl Part {
    /// Takes a name: the first, the next piece of one, or the same one again.
    fn name(&mut self, name: &str, tools: &[String]) {
        if self.name.is_empty() || name.starts_with(self.name.as_str()) {
            if !name.is_empty() {
                self.name = name.to_string();
            }
        } else if let Some(joined) = joined(&self.name, name, tools) {
            self.name = joined;
        } else if !name.is_empty() && self.text.out.is_empty() && !self.name.ends_with(name) {
            // Pieces of a name no tool has: the model should read it whole in the answer.
            self.name.push_str(name);
        }
    }
}

/// Whether a fragment's arguments begin an object that is not the one `part` holds.
fn begins_another(arguments: Option<Value>, part: &Part) -> bool {
    let Some(value) = arguments else { return false };
    let mut text = Vec::new();
    value.push_to(&mut text);
    let text = text.trim_ascii();
    matches!(text.first(), Some(b'{' | b'"')) && text != part.text.out.trim_ascii()
}

/// `head` + `piece`, when that begins the name of a tool and the two are not tools of their own.
fn joined(head: &str, piece: &str, tools: &[String]) -> Option<String> {
    if piece.is_empty() || known(tools, head) && known(tools, piece) {
        return None;
    }
    let whole = [head, piece].concat();
    tools.iter().any(|t| t.starts_with(&whole)).then_some(whole)
}

/// The name without what a template left around it (`read<|channel|>commentary`, `functions.read`).
fn clean_name<'a>(name: &'a str, tools: &[String]) -> &'a str {
    let end = super::said::find(name.as_bytes(), b"<|").unwrap_or(name.len());
    let name = name.get(..end).unwrap_or(name).trim_ascii();
    let dot = name.bytes().rposition(|b| b == b'.' || b == b':');
    let bare = name.get(dot.map_or(0, |i| i + 1)..).unwrap_or(name);
    if !known(tools, name) && known(tools, bare) {
        bare
    } else {
        name
    }
}

/// Nine letters and digits, as the strictest server wants them.
fn made_up_id(seed: u32) -> String {
    let mut n = seed.wrapping_mul(0x9E37_79B1);
    let mut id = String::from("c");
    for _ in 0..8 {
        id.push(char::from(b"0123456789abcdef"[(n >> 28) as usize]));
        n <<= 4;
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn tools() -> Vec<String> {
        ["read", "glob", "bash", "mcp_read", "web_fetch"]
            .map(String::from)
            .to_vec()
    }

    /// The calls out of fragments written as `index id name arguments`, `-` for what is absent.
    fn assemble(fragments: &[&str]) -> Vec<Call> {
        let tools = tools();
        let mut calls = Calls::default();
        for fragment in fragments {
            let mut parts = fragment.splitn(4, ' ');
            let mut next = || parts.next().filter(|p| *p != "-");
            let mut w = crate::json::Writer::new();
            w.open(b'{');
            if let Some(index) = next() {
                w.key("index").raw(index.as_bytes());
            }
            if let Some(id) = next() {
                w.key("id").str(id);
            }
            w.key("function").open(b'{');
            if let Some(name) = next() {
                w.key("name").str(name);
            }
            if let Some(arguments) = next() {
                w.key("arguments").str(arguments);
            }
            w.close(b'}').close(b'}');
            calls.push(parse(&w.out).unwrap(), false, &tools);
        }
        calls.finish("", &tools)
    }

    fn shown(fragments: &[&str]) -> String {
        let calls = assemble(fragments);
        let mut ids: Vec<_> = calls.iter().map(|c| c.id.clone()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), calls.len(), "ids are unique");
        let one = |c: &Call| {
            let text = String::from_utf8_lossy(&c.arguments);
            let fault = if c.fault.is_some() { "!" } else { "" };
            format!("{fault}{}{text}", c.name)
        };
        calls.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn fragments_find_their_call() {
        let cases: [(&[&str], &str); 23] = [
            (&["0 a read {\"x\":", "0 - - 1}"], r#"read{"x":1}"#),
            // Numbers.
            (&["1 a read {}", "0 b glob {}"], "glob{} read{}"),
            (&["0 a read {}", "0 b glob {}"], "read{} glob{}"),
            (
                &[
                    "0 a read {\"x",
                    "0 b glob {\"y",
                    "0 a - \":1}",
                    "0 b - \":2}",
                ],
                r#"read{"x":1} glob{"y":2}"#,
            ),
            (&["0 a read {\"x\":", "1 a - 1}"], r#"read{"x":1}"#),
            (&["0 a read {}", "1 a glob {}"], "read{} glob{}"),
            (
                &["5 a read {}", "- b glob {}", "0 c bash {}"],
                "bash{} read{} glob{}",
            ),
            // No numbers.
            (
                &["- a read {\"x\":", "- - - 1}", "- b glob {}"],
                r#"read{"x":1} glob{}"#,
            ),
            (
                &["- - read {\"x\":1}", "- - read {\"x\":2}"],
                r#"read{"x":1} read{"x":2}"#,
            ),
            (
                &["- - read {\"x\":1}", "- - read {\"x\":", "- - - 2}"],
                r#"read{"x":1} read{"x":2}"#,
            ),
            // Once more the same.
            (
                &["0 a read {\"x\":1}", "0 a read {\"x\":1}"],
                r#"read{"x":1}"#,
            ),
            (
                &["0 - read {\"x\":1}", "0 - read {\"x\":1}"],
                r#"read{"x":1}"#,
            ),
            (&["0 a read {\"x\":1}", "0 a read "], r#"read{"x":1}"#),
            (
                &["0 a read {\"x\":1}", "0 a read {\"x\":2}"],
                r#"!read{"x":1}{"x":2}"#,
            ),
            // Names.
            (&["0 a gl -", "0 a ob {}"], "glob{}"),
            (&["0 a mcp_ -", "0 a read {}"], "mcp_read{}"),
            (&["0 a web -", "0 - _fe -", "0 - tch {}"], "web_fetch{}"),
            (&["0 a read -", "0 a read -", "0 a read {}"], "read{}"),
            (&["0 a read -", "0 a glob {}"], "read{} glob{}"),
            (&["0 a sea -", "0 a rch {}"], "search{}"),
            (&["0 a read<|channel|>x {}"], "read{}"),
            (&["0 a - {\"x\":1}"], r#"!unnamed{"x":1}"#),
            (&["0 a - -"], ""),
        ];
        for (fragments, want) in cases {
            assert_eq!(shown(fragments), want, "{fragments:?}");
        }
    }

    #[test]
    fn a_flood_of_fragments_takes_linear_time() {
        let tools = tools();
        let mut calls = Calls::default();
        let piece =
            br#"{"index":0,"id":"a","function":{"name":"read","arguments":"xxxxxxxxxxxxxxxx"}}"#;
        let open = br#"{"index":0,"id":"a","function":{"name":"read","arguments":"{\"x\":\""}}"#;
        calls.push(parse(open).unwrap(), false, &tools);
        for _ in 0..100_000 {
            calls.push(parse(piece).unwrap(), false, &tools);
        }
        assert!(calls.len() > 1_600_000);
        let call = &calls.finish("", &tools)[0];
        assert!(call.fault.as_deref().unwrap().contains("cut"));
        let mut calls = Calls::default();
        for i in 0..10_000 {
            let one = format!(
                "{{\"index\":{i},\"id\":\"i{i}\",\"function\":{{\"name\":\"read\",\"arguments\":\"{{}}\"}}}}"
            );
            calls.push(parse(one.as_bytes()).unwrap(), false, &tools);
        }
        let calls = calls.finish("", &tools);
        assert_eq!(calls.len(), MAX_CALLS);
        assert!(calls[MAX_CALLS - 1].fault.is_some());
    }

    #[test]
    fn the_end_of_a_value_is_found() {
        let end = |text: &str| Scan::default().feed(text.as_bytes());
        assert_eq!(end(r#" {"a":"}\"]","b":[1]} x"#), Some(21));
        assert_eq!(end(r#"{"a":[}"#), None);
        let text = br#"[{"a":"\\"},"]"]  "#;
        for cut in 0..text.len() {
            let mut scan = Scan::default();
            let first = scan.feed(&text[..cut]);
            let second = scan.feed(&text[cut..]);
            assert_eq!(first.or(second.map(|n| n + cut)), Some(16), "{cut}");
        }
    }

    #[test]
    fn made_up_ids_suit_the_strictest_server() {
        for seed in [0, 1, u32::MAX] {
            let id = made_up_id(seed);
            assert!(
                id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()),
                "{id}"
            );
        }
        assert_ne!(made_up_id(1), made_up_id(2));
    }
}
