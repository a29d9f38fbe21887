//! Exact edits of files too large for memory: one pass finds and counts, one copies with the replacements. All edits are
//! matched against the file as it is.

use super::editcall::{Edit, Found, LINES_NAMED};
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::scene::Scene;
    use std::os::unix::ffi::OsStrExt;

    fn edit(old: &[u8], new: &[u8], all: bool) -> Edit {
        Edit {
            old: old.to_vec(),
            new: new.to_vec(),
            all,
        }
    }

    /// Per edit the places found with their lines; per edit those replaced; the new content.
    type Done = (Vec<(u64, Vec<u64>)>, Vec<u64>, Vec<u8>);

    fn run(content: &[u8], edits: &[Edit]) -> Done {
        let scene = Scene::new();
        let path = scene.put("f", content);
        let open = || File::open(path.as_os_str().as_bytes()).unwrap();
        let found = find(&mut open(), edits).unwrap();
        let mut out = Vec::new();
        let counts = rewrite(&mut open(), edits, &mut |bytes| {
            out.extend_from_slice(bytes);
            Ok(())
        })
        .unwrap();
        let found = found.into_iter().map(|f| (f.count, f.lines)).collect();
        (found, counts, out)
    }

    #[test]
    fn matches_across_the_borders_of_chunks() {
        for shift in 0..12 {
            let mut content = vec![b'.'; CHUNK - 6 + shift];
            content.extend_from_slice(b"\nabcABC\n");
            content.resize(2 * CHUNK - 3 + shift, b'.');
            content.extend_from_slice(b"abcdef");
            let edits = [edit(b"abcABC", b"1", false), edit(b"abcdef", b"", false)];
            let (found, counts, out) = run(&content, &edits);
            assert_eq!(found, [(1, vec![2]), (1, vec![3])], "shift {shift}");
            assert_eq!(counts, [1, 1]);
            let text = String::from_utf8(content).unwrap();
            let want = text.replace("abcABC", "1").replace("abcdef", "");
            assert!(out == want.as_bytes(), "shift {shift}");
        }
    }

    #[test]
    fn line_ends_are_known_across_the_borders_of_chunks() {
        for shift in 0..8 {
            let mut content = b"x\r\n".to_vec();
            content.resize(CHUNK - 4 + shift, b'.');
            content.extend_from_slice(b"MARK");
            content.resize(3 * CHUNK, b'.');
            let (_, _, out) = run(&content, &[edit(b"MARK", b"a\nb", false)]);
            let at = CHUNK - 4 + shift;
            assert_eq!(&out[at - 1..at + 5], b".a\r\nb.", "shift {shift}");
        }
    }

    /// Against the obvious way, over pseudo-random texts of few letters.
    #[test]
    fn like_the_obvious_way() {
        let mut state = 1u32;
        let mut random = move |n: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % n
        };
        for _ in 0..40 {
            let len = CHUNK as u32 + random(200_000);
            let content: Vec<u8> = (0..len).map(|_| b"ab\n"[random(3) as usize]).collect();
            let old: Vec<u8> = (0..1 + random(12))
                .map(|_| b"ab"[random(2) as usize])
                .collect();
            let text = String::from_utf8(content.clone()).unwrap();
            let old_text = String::from_utf8(old.clone()).unwrap();
            let (found, counts, out) = run(&content, &[edit(&old, b"<>", true)]);
            let count = text.matches(&old_text).count() as u64;
            assert_eq!((found[0].0, counts[0]), (count, count));
            let first = text.match_indices(&old_text).take(LINES_NAMED);
            let lines: Vec<u64> = first
                .map(|(i, _)| text[..i].matches('\n').count() as u64 + 1)
                .collect();
            assert_eq!(found[0].1, lines);
            assert!(out == text.replace(&old_text, "<>").as_bytes());
        }
    }

    #[test]
    fn overlapping_places_are_counted_when_one_is_wanted() {
        let (found, counts, _) = run(b"aaa", &[edit(b"aa", b"b", false)]);
        assert_eq!((found[0].0, counts[0]), (2, 1));
        let (found, counts, out) = run(b"aaaa", &[edit(b"aa", b"b", true)]);
        assert_eq!((found[0].0, counts[0]), (2, 2));
        assert_eq!(out, b"bb");
        let (found, _, out) = run(b"", &[edit(b"aa", b"b", true)]);
        assert_eq!((found[0].0, out), (0, vec![]));
    }
}
