//! Exact edits of files too large for memory: one pass finds and counts, one copies with the replacements. All edits are
//! matched against the file as it is.

use super::edit::{Edit, Found, LINES_NAMED};
use super::textmatch::{Level, crlf_at, fit_newlines};
use crate::sys::fs::File;
use crate::sys::signal;
use memchr::{memchr_iter, memmem};
use std::io;

/// Bytes read at once.
const CHUNK: usize = 64 * 1024;

/// A part of the file in memory.
struct Window<'a> {
    file: &'a mut File,
    buf: Vec<u8>,
    ended: bool,
}

impl<'a> Window<'a> {
    fn new(file: &'a mut File) -> Self {
        Window {
            file,
            buf: Vec::new(),
            ended: false,
        }
    }

    /// Drops the first `done` bytes and reads more.
    fn advance(&mut self, done: usize) -> io::Result<()> {
        if signal::cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.buf.drain(..done.min(self.buf.len()));
        let len = self.buf.len();
        self.buf.resize(len + CHUNK, 0);
        let room = self.buf.get_mut(len..).unwrap_or_default();
        let n = self.file.read(room)?;
        self.buf.truncate(len + n);
        self.ended = n < CHUNK;
        Ok(())
    }
}

/// Where each edit's text stands. Overlapping places count for an edit that wants one.
///
/// # Errors
/// The system's; `Interrupted` after Ctrl-C.
pub fn find(file: &mut File, edits: &[Edit]) -> io::Result<Vec<Found>> {
    let mut searches: Vec<(memmem::Finder, usize, Found)> = edits
        .iter()
        .map(|e| (memmem::Finder::new(&e.old), 0, Found::default()))
        .collect();
    let mut window = Window::new(file);
    let mut line = 1;
    window.advance(0)?;
    loop {
        let buf = window.buf.as_slice();
        for (edit, (finder, from, found)) in edits.iter().zip(&mut searches) {
            while let Some(i) = buf.get(*from..).and_then(|rest| finder.find(rest)) {
                let start = *from + i;
                found.count += 1;
                if found.lines.len() < LINES_NAMED {
                    let before = buf.get(..start).unwrap_or_default();
                    found
                        .lines
                        .push(line + memchr_iter(b'\n', before).count() as u64);
                }
                *from = start + if edit.all { edit.old.len() } else { 1 };
            }
            // What is left may be the start of a match.
            *from = (*from).max((buf.len() + 1).saturating_sub(edit.old.len()));
        }
        if window.ended {
            return Ok(searches.into_iter().map(|s| s.2).collect());
        }
        let done = searches
            .iter()
            .map(|s| s.1)
            .min()
            .unwrap_or(0)
            .min(buf.len());
        line += memchr_iter(b'\n', buf.get(..done).unwrap_or_default()).count() as u64;
        for search in &mut searches {
            search.1 -= done;
        }
        window.advance(done)?;
    }
}

/// Copies the file to `out` with the edits made; returns how many places of each were replaced. Of places that overlap
/// only the first is.
///
/// # Errors
/// The system's and those of `out`; `Interrupted` after Ctrl-C.
pub fn rewrite(
    file: &mut File,
    edits: &[Edit],
    out: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<Vec<u64>> {
    let finders: Vec<memmem::Finder> = edits.iter().map(|e| memmem::Finder::new(&e.old)).collect();
    let longest = edits.iter().map(|e| e.old.len()).max().unwrap_or(1);
    let mut counts = vec![0; edits.len()];
    let mut window = Window::new(file);
    let mut crlf = false;
    let mut from = 0;
    window.advance(0)?;
    loop {
        let buf = window.buf.as_slice();
        // Every match that starts before this is in the window as a whole, whichever edit's.
        let safe = match window.ended {
            true => buf.len(),
            false => (buf.len() + 1).saturating_sub(longest).max(from),
        };
        let mut next: Vec<Option<usize>> = vec![Some(from); edits.len()];
        loop {
            for (finder, next) in finders.iter().zip(&mut next) {
                // A place passed over is looked for again, one not there isn't.
                if let Some(at) = *next
                    && (at <= from)
                {
                    let rest = buf.get(from..).unwrap_or_default();
                    *next = finder.find(rest).map(|i| from + i);
                }
            }
            let places = next.iter().enumerate();
            let first = places.filter_map(|(i, at)| Some(((*at)?, i))).min();
            let Some((at, edit, i)) = first
                .filter(|f| f.0 < safe)
                .and_then(|(at, i)| Some((at, edits.get(i)?, i)))
            else {
                break;
            };
            out(buf.get(from..at).unwrap_or_default())?;
            let here = match memchr::memchr(b'\n', buf) {
                Some(_) => crlf_at(buf, at),
                None => crlf,
            };
            out(&fit_newlines(&edit.new, Level::Exact, &edit.old, here))?;
            if let Some(count) = counts.get_mut(i) {
                *count += 1;
            }
            from = at + edit.old.len();
        }
        let rest = buf.get(from..safe.max(from)).unwrap_or_default();
        out(rest)?;
        from = safe.max(from);
        if window.ended {
            return Ok(counts);
        }
        if memchr::memchr(b'\n', buf).is_some() {
            crlf = crlf_at(buf, buf.len());
        }
        // One byte stays, so that a CR before the next LF is seen.
        let done = from.saturating_sub(1);
        from -= done;
        window.advance(done)?;
    }
}
