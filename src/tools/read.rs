//! read: a window of a file as numbered lines, or a directory's entries. Streams: any size costs the same memory.

use super::target::{Target, number, push_count};
use super::{Class, Ctx, Level, Output, Tool, seen};
use crate::json::Value;
use crate::sys::fs::{self, File, Kind, Meta};
use crate::sys::{signal, time};
use crate::text::{complete_utf8_len, push_dec, push_utf8_lossy};
use memchr::{memchr, memchr_iter};

/// The tool.
pub static TOOL: Tool = Tool {
    name: "read",
    description: "Read a file as numbered lines (N: text), or list a directory.",
    properties: r#"{"filePath":{"type":"string"},"offset":{"type":"integer","description":"first line, from 1"},"limit":{"type":"integer","description":"number of lines"}}"#,
    required: &["filePath"],
    class: Class::ReadOnly,
    level: Level::Allow,
    writes: None,
    label: "filePath",
    run: Some(run),
};

/// Lines shown unless `limit` says otherwise.
const LINES: u64 = 2000;
/// Bytes shown when `limit` is given.
const BYTES_ASKED: usize = 64 * 1024;
/// Bytes of a line shown.
const LINE_MAX: usize = 2000;
/// Bytes looked at to tell text from other data.
const PROBE: usize = 8 * 1024;
/// How long lines beyond the window are counted, in ms.
const COUNT_TIME: u64 = 2000;
/// Entries of a directory shown.
const ENTRIES: usize = 1000;
/// Room for the notes at the end.
const NOTES: usize = 240;

fn run(ctx: &mut Ctx, args: &Value) -> Output {
    read(ctx, args).unwrap_or_else(|refused| refused)
}

fn read(ctx: &mut Ctx, args: &Value) -> Result<Output, Output> {
    let target = Target::new(args, "filePath", ctx.cwd)?;
    let offset = number(args, "offset")?.unwrap_or(1).max(1);
    let limit = number(args, "limit")?.filter(|&n| n > 0);
    // Asked before opening: opening a device may already do something.
    let meta = target.stat(true)?;
    if meta.kind == Kind::Dir {
        return list(&target, ctx.output_limit);
    }
    let mut file = File::open(&target.path).map_err(|e| target.os_error(&e))?;
    let budget = match limit {
        Some(_) => ctx.output_limit.max(BYTES_ASKED),
        None => ctx.output_limit,
    };
    let mut window = Window {
        offset,
        end: offset.saturating_add(limit.unwrap_or(LINES)),
        budget: budget.saturating_sub(NOTES),
        ..Window::default()
    };
    let mut source = Source::default();
    source
        .run(&mut file, &meta, &mut window)
        .map_err(|e| target.os_error(&e))?;
    if source.binary {
        let mut text = b"is a binary file, ".to_vec();
        push_count(&mut text, meta.size.max(source.bytes), "byte");
        return Err(target.error(text));
    }
    // A pseudo file has another content each time.
    if meta.size > 0 {
        let hash = (source.complete && source.bytes <= seen::HASH_MAX)
            .then(|| std::mem::replace(&mut source.hash, seen::Hash::new()).finish());
        ctx.seen.note(&target.path, &meta, meta.size, hash);
    }
    window.finish(&target, &source)
}

/// The bytes of a file on their way to the window.
struct Source {
    bytes: u64,
    hash: seen::Hash,
    /// Read to the end.
    complete: bool,
    cancelled: bool,
    binary: bool,
    utf16: Option<Utf16>,
    bom: bool,
}

impl Default for Source {
    fn default() -> Self {
        Source {
            bytes: 0,
            hash: seen::Hash::new(),
            complete: false,
            cancelled: false,
            binary: false,
            utf16: None,
            bom: false,
        }
    }
}

impl Source {
    fn run(&mut self, file: &mut File, meta: &Meta, window: &mut Window) -> std::io::Result<()> {
        let mut buf = vec![0; 64 * 1024];
        let mut decoded = Vec::new();
        let mut give_up = None;
        loop {
            let n = file.read(&mut buf)?;
            let chunk = buf.get(..n).unwrap_or_default();
            let mut text = chunk;
            if self.bytes == 0 {
                text = self.probe(chunk, meta);
                if self.binary {
                    self.bytes = n as u64;
                    return Ok(());
                }
            }
            self.bytes += n as u64;
            if self.bytes <= seen::HASH_MAX {
                self.hash.add(chunk);
            }
            if let Some(utf16) = &mut self.utf16 {
                decoded.clear();
                utf16.push(text, n == 0, &mut decoded);
                text = &decoded;
            }
            window.push(text);
            if n == 0 {
                window.end_of_text();
                self.complete = true;
                return Ok(());
            }
            if window.closed {
                let now = time::monotonic_ms();
                if now >= *give_up.get_or_insert(now + COUNT_TIME) {
                    return Ok(());
                }
            }
            if signal::cancelled() {
                self.cancelled = true;
                return Ok(());
            }
        }
    }

    /// Looks at the first bytes; returns them without the byte order mark.
    fn probe<'a>(&mut self, chunk: &'a [u8], meta: &Meta) -> &'a [u8] {
        if let Some(rest) = chunk.strip_prefix(b"\xEF\xBB\xBF") {
            self.bom = true;
            return rest;
        }
        for (mark, big) in [(b"\xFF\xFE", false), (b"\xFE\xFF", true)] {
            if let Some(rest) = chunk.strip_prefix(mark) {
                self.utf16 = Some(Utf16 {
                    big,
                    rest: Vec::new(),
                });
                return rest;
            }
        }
        let head = chunk.get(..PROBE.min(chunk.len())).unwrap_or_default();
        // /proc/1/cmdline and the device tree separate words by NUL: short and otherwise text.
        let words = meta.size <= 4096
            && head.len() <= 4096
            && std::str::from_utf8(head).is_ok()
            && !head
                .iter()
                .any(|&b| b < 0x20 && b != 0 && !(b'\t'..=b'\r').contains(&b));
        self.binary = memchr(0, head).is_some() && !words;
        chunk
    }
}

/// Decodes UTF-16 that comes in pieces.
struct Utf16 {
    big: bool,
    rest: Vec<u8>,
}

impl Utf16 {
    fn push(&mut self, bytes: &[u8], last: bool, out: &mut Vec<u8>) {
        let mut all = std::mem::take(&mut self.rest);
        all.extend_from_slice(bytes);
        let (pairs, odd) = all.as_chunks::<2>();
        let unit = |pair: &[u8; 2]| match self.big {
            true => u16::from_be_bytes(*pair),
            false => u16::from_le_bytes(*pair),
        };
        let mut pairs = pairs;
        if !last {
            self.rest = odd.to_vec();
            // The first half of a surrogate pair waits for the second.
            if let Some((half, before)) = pairs.split_last()
                && unit(half) & 0xFC00 == 0xD800
            {
                pairs = before;
                self.rest = [&half[..], odd].concat();
            }
        }
        for c in char::decode_utf16(pairs.iter().map(unit)) {
            let c = c.unwrap_or(char::REPLACEMENT_CHARACTER);
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
        if last && !odd.is_empty() {
            out.extend_from_slice("\u{FFFD}".as_bytes());
        }
    }
}

/// The lines from `offset` up to `end` as far as `budget` lets them in; all lines are counted.
#[derive(Default)]
struct Window {
    offset: u64,
    end: u64,
    budget: usize,
    out: Vec<u8>,
    /// Complete lines so far.
    lines: u64,
    shown: u64,
    /// No line is shown any more.
    closed: bool,
    /// The budget closed it.
    full: bool,
    /// The line at hand: its first bytes, its length, its last byte.
    kept: Vec<u8>,
    len: u64,
    last: u8,
    crlf: u64,
    lf: u64,
    cut: bool,
    invalid: bool,
    nul: bool,
}

impl Window {
    fn push(&mut self, mut text: &[u8]) {
        while !text.is_empty() {
            if self.closed || self.lines + 1 < self.offset {
                text = self.skip(text);
                continue;
            }
            let end = memchr(b'\n', text);
            let (part, rest) = text.split_at(end.unwrap_or(text.len()));
            let room = (LINE_MAX + 4).saturating_sub(self.kept.len());
            self.kept
                .extend_from_slice(part.get(..room.min(part.len())).unwrap_or_default());
            self.len += part.len() as u64;
            self.last = part.last().copied().unwrap_or(self.last);
            text = rest;
            if end.is_some() {
                text = rest.get(1..).unwrap_or_default();
                self.line(true);
            }
        }
    }

    /// Passes over text that isn't shown, up to the line `offset` begins with.
    fn skip<'a>(&mut self, text: &'a [u8]) -> &'a [u8] {
        let wanted = match self.closed {
            true => usize::MAX,
            false => usize::try_from(self.offset - 1 - self.lines).unwrap_or(usize::MAX),
        };
        let found = memchr_iter(b'\n', text).count();
        let mut rest: &[u8] = b"";
        if found < wanted {
            self.lines += found as u64;
        } else {
            self.lines += wanted as u64;
            let at = memchr_iter(b'\n', text).nth(wanted.saturating_sub(1));
            rest = at.and_then(|i| text.get(i + 1..)).unwrap_or_default();
        }
        let passed = text.len() - rest.len();
        self.len = match text.get(..passed).and_then(<[u8]>::last) {
            Some(b'\n') | None => 0,
            Some(_) => 1,
        };
        rest
    }

    /// The line at hand is complete.
    fn line(&mut self, newline: bool) {
        let crlf = newline && self.last == b'\r' && self.len > 0;
        let len = self.len - u64::from(crlf);
        let mut show = self.kept.as_slice();
        if len < show.len() as u64 {
            show = show.get(..len as usize).unwrap_or(show);
        }
        let cut = show.len() > LINE_MAX;
        if cut {
            let head = show.get(..LINE_MAX).unwrap_or(show);
            show = head.get(..complete_utf8_len(head)).unwrap_or(head);
        }
        let before = self.out.len();
        push_dec(&mut self.out, self.lines + 1);
        self.out.extend_from_slice(b": ");
        self.invalid |= std::str::from_utf8(show).is_err();
        for (i, part) in show.split(|&b| b == 0).enumerate() {
            if i > 0 {
                self.nul = true;
                self.out.extend_from_slice("␀".as_bytes());
            }
            push_utf8_lossy(&mut self.out, part);
        }
        if cut {
            self.out.extend_from_slice(b" [+");
            push_count(&mut self.out, len - show.len() as u64, "byte");
            self.out.push(b']');
        }
        self.out.push(b'\n');
        if self.out.len() > self.budget && self.shown > 0 {
            self.out.truncate(before);
            self.closed = true;
            self.full = true;
        } else {
            self.cut |= cut;
            self.shown += 1;
            self.crlf += u64::from(crlf);
            self.lf += u64::from(newline && !crlf);
            self.closed = self.lines + 2 >= self.end;
        }
        self.lines += 1;
        self.kept.clear();
        self.len = 0;
        self.last = 0;
    }

    fn end_of_text(&mut self) {
        if self.len > 0 {
            if self.closed || self.lines + 1 < self.offset {
                self.lines += 1;
            } else {
                self.line(false);
            }
        }
    }

    fn finish(mut self, target: &Target, source: &Source) -> Result<Output, Output> {
        if source.cancelled {
            return Err(target.error("reading was cancelled"));
        }
        if self.shown == 0 {
            if self.lines == 0 {
                return Ok(Output::ok(&b"(empty file)"[..]));
            }
            let mut text = b"has only ".to_vec();
            push_count(&mut text, self.lines, "line");
            return Err(target.error(text));
        }
        let last = self.offset + self.shown - 1;
        let mut notes = Notes {
            out: std::mem::take(&mut self.out),
        };
        if self.shown < self.lines || !source.complete {
            let n = notes.start("lines ");
            push_dec(n, self.offset);
            n.push(b'-');
            push_dec(n, last);
            n.extend_from_slice(if source.complete {
                b" of "
            } else {
                b" of more than "
            });
            push_dec(n, self.lines);
            if self.full {
                n.extend_from_slice(b", cut at ");
                push_count(n, (self.budget + NOTES) as u64, "byte");
            }
            if last < self.lines {
                n.extend_from_slice(b"; go on with offset ");
                push_dec(n, last + 1);
            }
            n.push(b']');
        }
        if self.cut {
            notes.add("lines over 2000 bytes are cut: [+N bytes]");
        }
        if self.crlf > 0 && self.lf == 0 {
            notes.add("lines end in CRLF");
        } else if self.crlf > 0 {
            let n = notes.start("mixed line ends: ");
            push_dec(n, self.crlf);
            n.extend_from_slice(b" of these lines end in CRLF, ");
            push_dec(n, self.lf);
            n.extend_from_slice(b" in LF]");
        }
        if source.bom {
            notes.add("starts with a UTF-8 byte order mark");
        }
        if source.utf16.is_some() {
            notes.add("decoded from UTF-16: edit can't change it");
        } else if self.invalid {
            notes.add("not UTF-8: other bytes are shown as \u{FFFD}");
        }
        if self.nul {
            notes.add("NUL bytes are shown as ␀");
        }
        if notes.out.last() == Some(&b'\n') {
            notes.out.pop();
        }
        Ok(Output::ok(notes.out))
    }
}

/// Remarks after the text, each a line in brackets.
struct Notes {
    out: Vec<u8>,
}

impl Notes {
    fn start(&mut self, text: &str) -> &mut Vec<u8> {
        if self.out.last() != Some(&b'\n') {
            self.out.push(b'\n');
        }
        self.out.push(b'[');
        self.out.extend_from_slice(text.as_bytes());
        &mut self.out
    }

    fn add(&mut self, text: &str) {
        self.start(text).push(b']');
    }
}

/// The entries of a directory: sorted, directories with a slash, links with where they lead.
fn list(target: &Target, limit: usize) -> Result<Output, Output> {
    let entries = std::fs::read_dir(fs::path(&target.path)).map_err(|e| target.os_error(&e))?;
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut total: u64 = 0;
    for entry in entries {
        let entry = entry.map_err(|e| target.os_error(&e))?;
        let mut name = entry.file_name().into_encoded_bytes();
        let kind = entry.file_type();
        if kind.as_ref().is_ok_and(|t| t.is_dir()) {
            name.push(b'/');
        } else if kind.is_ok_and(|t| t.is_symlink()) {
            name.push(0);
        }
        total += 1;
        names.push(name);
        // Of a huge directory only the first names are kept.
        if names.len() >= 4 * ENTRIES {
            names.sort_unstable();
            names.truncate(ENTRIES);
        }
    }
    if total == 0 {
        return Ok(Output::ok(&b"(empty directory)"[..]));
    }
    names.sort_unstable();
    names.truncate(ENTRIES);
    let mut out = Vec::new();
    let mut shown: u64 = 0;
    for name in &names {
        let before = out.len();
        match name.strip_suffix(b"\0") {
            Some(link) => {
                push_utf8_lossy(&mut out, link);
                out.extend_from_slice(b" -> ");
                let to = fs::read_link(&fs::join(&target.path, link)).unwrap_or_default();
                push_utf8_lossy(&mut out, &to);
            }
            None => push_utf8_lossy(&mut out, name),
        }
        out.push(b'\n');
        if out.len() + NOTES > limit && shown > 0 {
            out.truncate(before);
            break;
        }
        shown += 1;
    }
    let mut notes = Notes { out };
    let n = notes.start("directory, ");
    if shown < total {
        n.extend_from_slice(b"the first ");
        push_dec(n, shown);
        n.extend_from_slice(b" of ");
    }
    push_dec(n, total);
    n.extend_from_slice(if total == 1 { b" entry]" } else { b" entries]" });
    Ok(Output::ok(notes.out))
}
