//! The window of a file that read shows: numbered lines, and remarks after them where something isn't as it seems.

use super::Output;
use super::read::{NOTES, Source};
use super::target::{Target, push_count};
use crate::text::{complete_utf8_len, push_dec, push_utf8_lossy};
use memchr::{memchr, memchr_iter};

/// Bytes of a line shown.
const LINE_MAX: usize = 2000;

/// The lines from `offset` up to `end` as far as `budget` lets them in; all lines are counted.
#[derive(Default)]
pub struct Window {
    offset: u64,
    end: u64,
    budget: usize,
    out: Vec<u8>,
    /// Complete lines so far.
    lines: u64,
    shown: u64,
    /// No line is shown any more.
    pub closed: bool,
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
    /// Lines `offset`, from 1, to before `end`, of `budget` bytes at most.
    pub fn new(offset: u64, end: u64, budget: usize) -> Self {
        Window {
            offset,
            end,
            budget,
            ..Window::default()
        }
    }

    /// Takes more text.
    pub fn push(&mut self, mut text: &[u8]) {
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

    /// There is no more text.
    pub fn end_of_text(&mut self) {
        if self.len > 0 {
            if self.closed || self.lines + 1 < self.offset {
                self.lines += 1;
            } else {
                self.line(false);
            }
        }
    }

    /// The result for the model.
    ///
    /// # Errors
    /// When nothing can be shown.
    pub fn finish(mut self, target: &Target, source: &Source) -> Result<Output, Output> {
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
