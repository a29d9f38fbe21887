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

/// Takes the bytes of the new content.
pub type Sink<'a> = dyn FnMut(&[u8]) -> io::Result<()> + 'a;

/// The search for one edit's text.
struct Search<'a> {
    finder: memmem::Finder<'a>,
    from: usize,
    /// The first place from `from` on, beyond the end when there is none; `None` when not looked for yet.
    next: Option<usize>,
}

/// Reads the file once and puts into `found` where each edit's text stands; of an edit that wants one place, overlapping
/// ones count, too. With a sink, writes the new content to it. Returns whether places overlap.
///
/// # Errors
/// The system's and those of the sink; `Interrupted` after Ctrl-C.
pub fn pass(
    file: &mut File,
    edits: &[Edit],
    found: &mut Vec<Found>,
    mut out: Option<&mut Sink>,
) -> io::Result<bool> {
    let longest = edits.iter().map(|e| e.old.len()).max().unwrap_or(1);
    let mut searches = Vec::new();
    for edit in edits {
        searches.push(Search {
            finder: memmem::Finder::new(&edit.old),
            from: 0,
            next: None,
        });
        found.push(Found::default());
    }
    let mut buf = Vec::new();
    let mut new = Vec::new();
    // Done up to here; the line number of here.
    let (mut copied, mut counted, mut line) = (0, 0, 1);
    let (mut crlf, mut overlap) = (false, false);
    loop {
        if signal::cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let len = buf.len();
        buf.resize(len + CHUNK, 0);
        let n = file.read(buf.get_mut(len..).unwrap_or_default())?;
        buf.truncate(len + n);
        let ended = n < CHUNK;
        // Every match that starts before this is in the buffer as a whole, whichever edit's.
        let safe = match ended {
            true => buf.len(),
            false => (buf.len() + 1).saturating_sub(longest),
        };
        loop {
            let mut first = (safe, 0);
            for (i, search) in searches.iter_mut().enumerate() {
                let at = *search.next.get_or_insert_with(|| {
                    let rest = buf.get(search.from..).unwrap_or_default();
                    let at = search.finder.find(rest);
                    at.map_or(usize::MAX, |at| search.from + at)
                });
                if at < first.0 {
                    first = (at, i);
                }
            }
            let (at, i) = first;
            let (Some(edit), Some(search), Some(found), true) = (
                edits.get(i),
                searches.get_mut(i),
                found.get_mut(i),
                at < safe,
            ) else {
                break;
            };
            found.count += 1;
            if found.lines.len() < LINES_NAMED {
                line += memchr_iter(b'\n', buf.get(counted..at).unwrap_or_default()).count() as u64;
                counted = at;
                found.lines.push(line);
            }
            let many = edit.all || found.count > 1;
            search.from = at + if many { edit.old.len() } else { 1 };
            search.next = None;
            overlap |= at < copied;
            if let Some(out) = &mut out {
                new.extend_from_slice(buf.get(copied..at).unwrap_or_default());
                let crlf = crlf_at(&buf, at, crlf);
                fit_newlines(&edit.new, Level::Exact, &edit.old, crlf, &mut new);
                if new.len() > CHUNK {
                    out(&new)?;
                    new.clear();
                }
            }
            copied = at + edit.old.len();
        }
        if let Some(out) = &mut out {
            new.extend_from_slice(buf.get(copied..safe).unwrap_or_default());
            out(&new)?;
            new.clear();
        }
        copied = copied.max(safe);
        if ended {
            return Ok(overlap);
        }
        crlf = crlf_at(&buf, buf.len(), crlf);
        // One byte stays, so that a CR before the next LF is seen.
        let done = safe.saturating_sub(1);
        line += memchr_iter(b'\n', buf.get(counted..done).unwrap_or_default()).count() as u64;
        counted = counted.saturating_sub(done);
        copied -= done;
        for search in &mut searches {
            search.from = search.from.max(safe) - done;
            search.next = None;
        }
        buf.drain(..done);
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
    type Done = (Vec<(usize, Vec<u64>)>, Vec<usize>, Vec<u8>);

    fn run(content: &[u8], edits: &[Edit]) -> Done {
        let scene = Scene::new();
        let path = scene.put("f", content);
        let open = || File::open(path.as_os_str().as_bytes()).unwrap();
        let mut found = Vec::new();
        pass(&mut open(), edits, &mut found, None).unwrap();
        let mut out = Vec::new();
        let mut again = Vec::new();
        let mut sink = |bytes: &[u8]| {
            out.extend_from_slice(bytes);
            Ok(())
        };
        pass(&mut open(), edits, &mut again, Some(&mut sink)).unwrap();
        let counts = again.into_iter().map(|f| f.count).collect();
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
            let count = text.matches(&old_text).count();
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
        let (found, _, _) = run(b"aaa", &[edit(b"aa", b"b", false)]);
        assert_eq!(found[0].0, 2);
        let (found, counts, out) = run(b"aaaa", &[edit(b"aa", b"b", true)]);
        assert_eq!((found[0].0, counts[0]), (2, 2));
        assert_eq!(out, b"bb");
        let (found, _, out) = run(b"", &[edit(b"aa", b"b", true)]);
        assert_eq!((found[0].0, out), (0, vec![]));
    }
}
