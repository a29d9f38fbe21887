//! The window of a file that read shows: numbered lines, and remarks after them where something isn't as it seems.

use super::Output;
use super::seen::{HASH_MAX, Hash};
use super::target::{Target, push_count};
use crate::sys::fs::File;
use crate::sys::{signal, time};
use crate::text::{complete_utf8_len, push_dec, push_utf8_lossy};
use memchr::memchr;
use std::io;

/// Bytes of a line shown.
const LINE_MAX: usize = 2000;
/// Bytes of a line kept: more than are shown, to tell a long line from one of just that length.
pub const LINE_KEPT: usize = LINE_MAX + 4;
/// Bytes looked at to tell text from other data.
const PROBE: usize = 8 * 1024;
/// How long lines beyond the window are counted, in ms.
const COUNT_TIME: u64 = 1000;
/// Room for the notes at the end.
pub const NOTES: usize = 240;

/// Takes a file line by line.
pub trait Take {
    /// A chunk was read; an empty one is the end. Returns how many of its first bytes are no text, `None` to stop.
    fn chunk(&mut self, _chunk: &[u8]) -> Option<usize> {
        Some(0)
    }

    /// The first bytes of a line, its whole length, and whether it has an end.
    fn line(&mut self, line: &[u8], len: usize, newline: bool);
}

/// Gives all lines of `file` to `take`, up to `keep` bytes of each.
///
/// # Errors
/// The system's.
pub fn feed(file: &mut File, keep: usize, take: &mut dyn Take) -> io::Result<()> {
    let mut buf = vec![0; 64 * 1024];
    let mut kept = Vec::new();
    let mut len: usize = 0;
    loop {
        let n = file.read(&mut buf)?;
        let chunk = buf.get(..n).unwrap_or_default();
        let Some(skip) = take.chunk(chunk) else {
            return Ok(());
        };
        if n == 0 {
            if len > 0 {
                take.line(&kept, len, false);
            }
            return Ok(());
        }
        let mut text = chunk.get(skip..).unwrap_or_default();
        while !text.is_empty() {
            let end = memchr(b'\n', text);
            let (part, rest) = text.split_at(end.unwrap_or(text.len()));
            let room = keep.saturating_sub(kept.len()).min(part.len());
            kept.extend_from_slice(part.get(..room).unwrap_or_default());
            len = len.saturating_add(part.len());
            text = rest.get(1..).unwrap_or_default();
            if end.is_some() {
                take.line(&kept, len, true);
                kept.clear();
                len = 0;
            }
        }
    }
}

/// What is remarkable about the lines shown, as bits of [`Window::marks`].
const CUT: u8 = 1;
const CRLF: u8 = 2;
const LF: u8 = 4;
const BOM: u8 = 8;
const INVALID: u8 = 16;
const NUL: u8 = 32;

/// Bits, what they must be, and the note then.
static MARKS: [(u8, u8, &str); 6] = [
    (CUT, CUT, "lines over 2000 bytes are cut: [+N bytes]"),
    (CRLF | LF, CRLF, "lines end in CRLF"),
    (
        CRLF | LF,
        CRLF | LF,
        "some of these lines end in CRLF, some in LF",
    ),
    (BOM, BOM, "starts with a UTF-8 byte order mark"),
    (
        INVALID,
        INVALID,
        "not UTF-8: other bytes are shown as \u{FFFD}",
    ),
    (NUL, NUL, "NUL bytes are shown as ␀"),
];

/// The lines from `offset` up to `end` as far as `budget` lets them in; all lines are counted.
pub struct Window {
    offset: u32,
    end: u32,
    budget: usize,
    out: Vec<u8>,
    /// Lines so far.
    lines: u32,
    shown: u32,
    /// No line is shown any more.
    closed: bool,
    /// The budget closed it.
    full: bool,
    marks: u8,
    /// When counting lines ends, in ms.
    give_up: u64,
    /// Bytes read.
    pub bytes: u64,
    hash: Hash,
    /// Read to the end.
    pub complete: bool,
    /// Given up on Ctrl-C.
    cancelled: bool,
    /// It is no text, and wasn't read further.
    pub binary: bool,
}

impl Take for Window {
    fn chunk(&mut self, chunk: &[u8]) -> Option<usize> {
        let mut skip = 0;
        if self.bytes == 0 {
            let head = chunk.get(..PROBE.min(chunk.len())).unwrap_or_default();
            // /proc/1/cmdline and the device tree separate words by NUL: short and otherwise text.
            let control = |&b: &u8| b < b'\t' && b != 0 || b > b'\r' && b < 0x20;
            let words = head.len() <= 4096
                && std::str::from_utf8(head).is_ok()
                && !head.iter().any(control);
            self.binary = memchr(0, head).is_some() && !words;
            if head.starts_with(b"\xEF\xBB\xBF") {
                self.marks = BOM;
                skip = 3;
            }
        }
        self.bytes += chunk.len() as u64;
        if self.bytes <= HASH_MAX {
            self.hash.add(chunk);
        }
        self.complete = chunk.is_empty();
        self.cancelled = signal::cancelled();
        let mut stop = self.binary || self.cancelled;
        if self.closed {
            let now = time::monotonic_ms();
            if self.give_up == 0 {
                self.give_up = now + COUNT_TIME;
            }
            stop |= now >= self.give_up;
        }
        (!stop || self.complete).then_some(skip)
    }

    fn line(&mut self, line: &[u8], len: usize, newline: bool) {
        self.lines = self.lines.saturating_add(1);
        if self.closed || self.lines < self.offset {
            return;
        }
        let mut show = line;
        let mut marks = 0;
        if newline {
            marks = LF;
            if len == line.len()
                && let Some(rest) = line.strip_suffix(b"\r")
            {
                show = rest;
                marks = CRLF;
            }
        }
        let len = len - (line.len() - show.len());
        if show.len() > LINE_MAX {
            show = show.get(..LINE_MAX).unwrap_or(show);
            show = show.get(..complete_utf8_len(show)).unwrap_or(show);
            marks |= CUT;
        }
        if std::str::from_utf8(show).is_err() {
            marks |= INVALID;
        }
        let before = self.out.len();
        push_dec(&mut self.out, u64::from(self.lines));
        self.out.extend_from_slice(b": ");
        for (i, part) in show.split(|&b| b == 0).enumerate() {
            if i > 0 {
                marks |= NUL;
                self.out.extend_from_slice("␀".as_bytes());
            }
            push_utf8_lossy(&mut self.out, part);
        }
        if marks & CUT != 0 {
            self.out.extend_from_slice(b" [+");
            push_count(&mut self.out, (len - show.len()) as u64, "byte");
            self.out.push(b']');
        }
        self.out.push(b'\n');
        if self.out.len() > self.budget && self.shown > 0 {
            self.out.truncate(before);
            self.closed = true;
            self.full = true;
            return;
        }
        self.marks |= marks;
        self.shown += 1;
        self.closed = self.lines.saturating_add(1) >= self.end;
    }
}

impl Window {
    /// Lines `offset`, from 1, to before `end`, of `budget` bytes at most.
    pub fn new(offset: u32, end: u32, budget: usize) -> Self {
        Window {
            offset,
            end,
            budget: budget.saturating_sub(NOTES),
            out: Vec::new(),
            lines: 0,
            shown: 0,
            closed: false,
            full: false,
            marks: 0,
            give_up: 0,
            bytes: 0,
            hash: Hash::new(),
            complete: false,
            cancelled: false,
            binary: false,
        }
    }

    /// The hash of the whole content, if it is known.
    pub fn hash(&self) -> Option<u32> {
        (self.complete && self.bytes <= HASH_MAX).then_some(self.hash.0)
    }

    /// The result for the model.
    ///
    /// # Errors
    /// When nothing can be shown.
    pub fn finish(self, target: &Target) -> Result<Output, Output> {
        if self.cancelled {
            return Err(target.error(b"reading was cancelled"));
        }
        if self.shown == 0 {
            if self.lines == 0 {
                return Ok(Output::ok(&b"(empty file)"[..]));
            }
            let mut text = b"has only ".to_vec();
            push_count(&mut text, u64::from(self.lines), "line");
            return Err(target.error(&text));
        }
        let last = self.offset + self.shown - 1;
        let mut notes = Notes { out: self.out };
        if self.shown < self.lines || !self.complete {
            let n = notes.start("lines ");
            push_dec(n, u64::from(self.offset));
            n.push(b'-');
            push_dec(n, u64::from(last));
            n.extend_from_slice(b" of ");
            if !self.complete {
                n.extend_from_slice(b"more than ");
            }
            push_dec(n, u64::from(self.lines));
            if self.full {
                n.extend_from_slice(b", cut at ");
                push_count(n, (self.budget + NOTES) as u64, "byte");
            }
            if last < self.lines {
                n.extend_from_slice(b"; go on with offset ");
                push_dec(n, u64::from(last + 1));
            }
            n.push(b']');
        }
        for &(bits, want, note) in &MARKS {
            if self.marks & bits == want {
                notes.start(note).push(b']');
            }
        }
        if notes.out.last() == Some(&b'\n') {
            notes.out.pop();
        }
        Ok(Output::ok(notes.out))
    }
}

/// Remarks after the text, each a line in brackets.
pub struct Notes {
    /// The text so far.
    pub out: Vec<u8>,
}

impl Notes {
    /// Begins a remark; the caller goes on and closes the bracket.
    pub fn start(&mut self, text: &str) -> &mut Vec<u8> {
        if self.out.last() != Some(&b'\n') {
            self.out.push(b'\n');
        }
        self.out.push(b'[');
        self.out.extend_from_slice(text.as_bytes());
        &mut self.out
    }

    /// A whole remark.
    pub fn add(&mut self, text: &str) {
        self.start(text).push(b']');
    }
}
