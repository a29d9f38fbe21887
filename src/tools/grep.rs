//! The grep tool: lines by regular expression, as `file:line:text`. Whole buffers are searched, lines are looked at only
//! where the engine sees a chance of a match.

use super::found::{Found, push_path, root, wrong};
use super::globset::Glob;
use super::regex::Regex;
use super::target::{flag, number, text};
use super::walk::Walk;
use super::{Class, Ctx, Level, Output, Tool};
use crate::json::Value;
use crate::sys::fs::{File, Kind};
use crate::text::{complete_utf8_len, push_dec, push_utf8_lossy};
use memchr::{memchr, memchr_iter, memrchr};
use std::io;

/// The table's row.
pub static TOOL: Tool = Tool {
    name: "grep",
    description: "Search files for lines that match a regular expression. At most 100 lines.",
    properties: r#"{"pattern":{"type":"string"},"path":{"type":"string","description":"file or directory"},"include":{"type":"string","description":"glob of file names"},"context":{"type":"integer","description":"lines around each match"},"ignoreCase":{"type":"boolean"}}"#,
    required: &["pattern"],
    class: Class::ReadOnly,
    level: Level::Allow,
    writes: None,
    label: "pattern",
    run: Some(run),
};

/// Bytes read at a time.
const BUF: usize = 64 * 1024;
/// Bytes of a line held at once; a longer one is searched in pieces that overlap.
const LINE_MAX: usize = 1 << 20;
const OVERLAP: usize = 8 * 1024;
/// Bytes looked at to tell text from other data.
const PROBE: usize = 8 * 1024;
/// Bytes of a line shown.
const WIDTH: usize = 500;

fn run(ctx: &mut Ctx, args: &Value) -> Output {
    grep(ctx, args).unwrap_or_else(|refused| refused)
}

fn grep(ctx: &mut Ctx, args: &Value) -> Result<Output, Output> {
    let context = number(args, "context")?.unwrap_or(0).min(1000) as usize;
    let target = root(args, ctx.cwd)?;
    let dir = target.stat(true)?.kind == Kind::Dir;
    let mut glob = text(args, "include").unwrap_or_default();
    if glob.is_empty() {
        glob.push(b'*');
    }
    let whole = memchr(b'/', &glob).is_some();
    let mut include = Glob::new("include", &glob)?;
    let pattern = args.get_string("pattern").unwrap_or_default();
    let re = Regex::new(&pattern, flag(args, "ignoreCase")).map_err(|e| wrong("pattern", &e))?;
    let mut search = Search::new(re, context, ctx.output_limit);
    let mut unreadable = 0;
    if dir {
        let mut walk = Walk::new(&target.path);
        while let Some(kind) = walk.advance() {
            let path = walk.relative();
            let name = match memrchr(b'/', path) {
                Some(i) if !whole => path.get(i + 1..).unwrap_or_default(),
                _ => path,
            };
            if kind != Kind::File || !include.matches(name) {
                continue;
            }
            if search.path(&walk.path, ctx.cwd).is_err() {
                unreadable += 1;
            }
            if search.found.stop() {
                break;
            }
        }
        unreadable += walk.unreadable;
    } else {
        let searched = search.path(&target.path, ctx.cwd);
        searched.map_err(|e| target.os_error(&e))?;
    }
    search.found.stop();
    let skipped = [
        (search.binary, "binary file"),
        (unreadable, "unreadable path"),
    ];
    Ok(search.found.finish("more matching line", &skipped))
}

struct Search {
    re: Regex,
    context: usize,
    found: Found,
    binary: usize,
    /// The file's path as shown.
    name: Vec<u8>,
    buf: Vec<u8>,
    /// The number of the line that `buf[counted..]` is in.
    line: usize,
    counted: usize,
    /// Where what was shown last ends, and whether that was of this file and is still in the buffer.
    printed: usize,
    open: bool,
    /// Lines to show after it.
    after: usize,
}

/// `buf[from..to]`; nothing when that isn't there.
fn part(buf: &[u8], from: usize, to: usize) -> &[u8] {
    buf.get(from..to).unwrap_or_default()
}

/// The start of the line that `to` is in or just behind the end of, not before `from`.
fn line_start(buf: &[u8], from: usize, to: usize) -> usize {
    memrchr(b'\n', part(buf, from, to)).map_or(from, |i| from + i + 1)
}

/// The end of the line that `from` is in, at most `to`.
fn line_end(buf: &[u8], from: usize, to: usize) -> usize {
    memchr(b'\n', part(buf, from, to)).map_or(to, |i| from + i)
}

impl Search {
    fn new(mut re: Regex, context: usize, limit: usize) -> Self {
        re.by_lines();
        Search {
            re,
            context,
            found: Found::new(limit),
            binary: 0,
            name: Vec::new(),
            buf: vec![0; BUF],
            line: 1,
            counted: 0,
            printed: 0,
            open: false,
            after: 0,
        }
    }

    /// Searches a file.
    fn path(&mut self, path: &[u8], cwd: &[u8]) -> io::Result<()> {
        self.name.clear();
        push_path(&mut self.name, path, cwd);
        let mut file = File::open(path)?;
        (self.line, self.counted, self.printed) = (1, 0, 0);
        (self.open, self.after) = (false, 0);
        // The search goes on at `pos`, the buffer is filled up to `len`; `skip`: in a long line that matched.
        let (mut pos, mut len, mut skip, mut first) = (0, 0, false, true);
        loop {
            let room = self.buf.get_mut(len..).unwrap_or_default();
            let size = room.len();
            let n = file.read(room)?;
            len += n;
            let last = n < size;
            if std::mem::take(&mut first) {
                if memchr(0, part(&self.buf, 0, n.min(PROBE))).is_some() {
                    self.binary += 1;
                    return Ok(());
                }
                if self.buf.starts_with(b"\xEF\xBB\xBF") && n >= 3 {
                    self.buf.copy_within(3..n, 0);
                    len -= 3;
                }
            }
            if skip {
                let end = line_end(&self.buf, pos, len);
                skip = end == len;
                if skip {
                    len = pos;
                } else {
                    pos = end + 1;
                    self.printed = pos;
                }
            }
            let mut end = if last {
                len
            } else {
                line_start(&self.buf, pos, len)
            };
            // A line longer than the buffer.
            let long = end == pos && !last && !skip;
            if long {
                if self.buf.len() < LINE_MAX {
                    self.buf.resize(2 * self.buf.len(), 0);
                    continue;
                }
                end = len;
            }
            let before = self.found.total;
            self.lines(pos, end);
            if last || self.found.stop() {
                return Ok(());
            }
            if long {
                skip = self.found.total > before;
                if !skip {
                    end -= OVERLAP;
                }
            }
            // Lines for the context of the next match stay.
            let mut keep = end;
            for _ in 0..self.context {
                let from = line_start(&self.buf, 0, keep.saturating_sub(1));
                if end - from > BUF / 2 {
                    break;
                }
                keep = from;
            }
            keep = keep.max(self.counted);
            self.count_to(keep);
            self.counted = 0;
            self.open &= self.printed >= keep;
            self.printed = self.printed.saturating_sub(keep);
            self.buf.copy_within(keep..len, 0);
            (pos, len) = (end - keep, len - keep);
        }
    }

    /// Searches the lines of `buf[pos..end]`.
    fn lines(&mut self, mut pos: usize, end: usize) {
        while pos < end
            && let Some(at) = self.re.candidate(part(&self.buf, 0, end), pos)
        {
            let from = line_start(&self.buf, pos, at);
            let to = line_end(&self.buf, at, end);
            pos = to + 1;
            if from < end && self.re.is_match(part(&self.buf, from, to)) {
                self.found.total += 1;
                self.trail(from);
                self.after = 0;
                if !self.found.full {
                    self.show(from, to);
                }
            }
        }
        self.trail(end);
    }

    /// Shows a matching line and what is to be shown before it.
    fn show(&mut self, from: usize, to: usize) {
        let mut start = from;
        for _ in 0..self.context {
            if start <= self.printed {
                break;
            }
            start = line_start(&self.buf, self.printed, start - 1);
        }
        let touches = self.open && start == self.printed;
        if self.context > 0 && !self.found.out.is_empty() && !touches {
            self.found.out.extend_from_slice(b"--\n");
        }
        while start < from {
            let end = line_end(&self.buf, start, from);
            self.push(start, end, b'-');
            start = end + 1;
        }
        if self.push(from, to, b':') {
            self.after = self.context;
        }
    }

    /// Shows the lines up to `to` that are still to follow the last match.
    fn trail(&mut self, to: usize) {
        while self.after > 0 && self.printed < to {
            self.after -= 1;
            let end = line_end(&self.buf, self.printed, to);
            if !self.push(self.printed, end, b'-') {
                self.after = 0;
            }
        }
    }

    /// Shows the line `buf[from..to]`; false when there is no room.
    fn push(&mut self, from: usize, to: usize, mark: u8) -> bool {
        self.count_to(from);
        (self.printed, self.open) = (to + 1, true);
        let mut line = part(&self.buf, from, to);
        line = line.strip_suffix(b"\r").unwrap_or(line);
        let (mut head, mut tail) = ("", "");
        if let Some(over) = line.len().checked_sub(WIDTH + 1) {
            let mut start = 0;
            if mark == b':'
                && let Some((at, _)) = self.re.find_at(line, 0)
            {
                start = at.saturating_sub(WIDTH / 4).min(over + 1);
            }
            if start > 0 {
                head = "…";
            }
            if start <= over {
                tail = "…";
            }
            line = part(line, start, start + WIDTH);
            // No character is cut.
            while start > 0
                && let [0x80..=0xBF, rest @ ..] = line
            {
                line = rest;
            }
            line = part(line, 0, complete_utf8_len(line));
        }
        let out = &mut self.found.out;
        let before = out.len();
        out.extend_from_slice(&self.name);
        out.push(mark);
        push_dec(out, self.line as u64);
        out.push(mark);
        out.extend_from_slice(head.as_bytes());
        push_utf8_lossy(out, line);
        out.extend_from_slice(tail.as_bytes());
        self.found.end_line(before, mark == b':')
    }

    /// Counts lines up to `to`.
    fn count_to(&mut self, to: usize) {
        self.line += memchr_iter(b'\n', part(&self.buf, self.counted, to)).count();
        self.counted = to;
    }
}

#[cfg(test)]
#[path = "grep_tests.rs"]
mod tests;
