//! Cutting long output for the model: head and tail are kept, on line borders where they are near, with a note between
//! them; the whole goes to a file whose path the note gives. Memory stays bounded whatever comes.

use crate::sys::fs::{self, File};
use crate::text::{complete_utf8_len, push_dec, push_utf8_lossy};
use memchr::{memchr, memrchr};

/// Bytes a spill file may have, and the part of the free space there it may take: on a router that space is memory.
const SPILL_MAX: u64 = 8 << 20;
const SPILL_PART: u64 = 4;

/// Room for the note between head and tail, but for the path in it.
const NOTE: usize = 120;

/// `text` as valid UTF-8 of at most about `limit` bytes. What is longer loses its middle; nothing is stored.
pub fn clip(text: &[u8], limit: usize) -> Vec<u8> {
    spill(b"", text, limit)
}

/// As [`clip`], with the whole of what is longer in a file under `scratch` (made if needed, mode 0600), whose path the
/// note gives.
pub fn spill(scratch: &[u8], text: &[u8], limit: usize) -> Vec<u8> {
    let mut all = Collector::new(limit, scratch);
    all.push(text);
    all.finish()
}

/// Takes output as it comes and keeps what the model will get.
pub struct Collector {
    limit: usize,
    scratch: Vec<u8>,
    /// Everything until `limit` is passed, then the head.
    head: Vec<u8>,
    /// The newest bytes once `limit` is passed: the tail to be and up to as much before it.
    tail: Vec<u8>,
    total: u64,
    spill: Option<Spill>,
    over: bool,
}

struct Spill {
    file: File,
    path: Vec<u8>,
    written: u64,
    max: u64,
    full: bool,
}

impl Collector {
    /// A collector of a text of at most about `limit` bytes. `scratch` is the directory for the whole output of what is
    /// longer; it is made on first use. An empty one keeps nothing.
    pub fn new(limit: usize, scratch: &[u8]) -> Self {
        Collector {
            limit: limit.max(2 * NOTE),
            scratch: scratch.to_vec(),
            head: Vec::new(),
            tail: Vec::new(),
            total: 0,
            spill: None,
            over: false,
        }
    }

    /// Bytes pushed so far.
    pub fn total(&self) -> u64 {
        self.total
    }

    fn room(&self) -> usize {
        self.limit
            .saturating_sub(NOTE + self.scratch.len())
            .max(NOTE)
    }

    fn head_room(&self) -> usize {
        // The end of a build or a log says more than its start.
        self.room() / 5 * 2
    }

    fn tail_room(&self) -> usize {
        self.room() - self.head_room()
    }

    /// Adds output.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        if !self.over {
            if self.head.len() + bytes.len() <= self.limit {
                self.head.extend_from_slice(bytes);
                return;
            }
            self.overflow();
        }
        if let Some(spill) = &mut self.spill {
            spill.push(bytes);
        }
        self.keep(bytes);
    }

    /// The limit is passed: what was kept goes to the file and is split into head and tail.
    fn overflow(&mut self) {
        self.over = true;
        self.spill = Spill::start(&self.scratch);
        let all = std::mem::take(&mut self.head);
        if let Some(spill) = &mut self.spill {
            spill.push(&all);
        }
        let (head, tail) = all.split_at(self.head_room().min(all.len()));
        self.head = head.to_vec();
        self.keep(tail);
    }

    fn keep(&mut self, bytes: &[u8]) {
        let missing = self.head_room().saturating_sub(self.head.len());
        let (head, bytes) = bytes.split_at(missing.min(bytes.len()));
        self.head.extend_from_slice(head);
        let room = self.tail_room();
        let newest = bytes
            .get(bytes.len().saturating_sub(room)..)
            .unwrap_or_default();
        if self.tail.len() + newest.len() > 2 * room {
            let drop = (self.tail.len() + newest.len()).saturating_sub(room);
            self.tail.drain(..drop.min(self.tail.len()));
        }
        self.tail.extend_from_slice(newest);
    }

    /// The text for the model: valid UTF-8, bytes that are not become U+FFFD.
    pub fn finish(mut self) -> Vec<u8> {
        if !self.over {
            let mut text = Vec::with_capacity(self.head.len());
            push_utf8_lossy(&mut text, &self.head);
            // U+FFFD is three bytes: what is not text grows.
            if text.len() <= self.limit {
                return text;
            }
            self.overflow();
        }
        let mut out = Vec::new();
        let head = self.head.get(..complete_utf8_len(&self.head));
        push_utf8_lossy(&mut out, head.unwrap_or_default());
        out.truncate(front(&out, self.head_room()));
        let mut kept = out.len();
        if !matches!(out.last(), None | Some(b'\n')) {
            out.push(b'\n');
        }
        let skip = self.tail.len().saturating_sub(self.tail_room());
        let mut tail = Vec::new();
        // A character cut at the front would show as one that was broken.
        push_utf8_lossy(&mut tail, whole(self.tail.get(skip..).unwrap_or_default()));
        let tail = back(&tail, self.tail_room());
        kept += tail.len();
        out.extend_from_slice(b"[... ");
        push_dec(&mut out, self.total.saturating_sub(kept as u64));
        out.extend_from_slice(b" of ");
        push_dec(&mut out, self.total);
        out.extend_from_slice(b" bytes left out");
        if let Some(spill) = self.spill
            && spill.written > 0
        {
            if spill.full {
                out.extend_from_slice(b"; the first ");
                push_dec(&mut out, spill.written);
                out.extend_from_slice(b" bytes are in ");
            } else {
                out.extend_from_slice(b"; all of it is in ");
            }
            push_utf8_lossy(&mut out, &spill.path);
        }
        out.extend_from_slice(b" ...]\n");
        out.extend_from_slice(tail);
        out
    }
}

/// How much of a text of at most `room` bytes to keep: back to a line's end if that costs less than half, else to a
/// character's.
fn front(text: &[u8], room: usize) -> usize {
    let cut = text.get(..room).unwrap_or(text);
    match memrchr(b'\n', cut) {
        Some(i) if i >= room / 2 => i + 1,
        _ => complete_utf8_len(cut),
    }
}

/// The last `room` bytes, as [`front`].
fn back(text: &[u8], room: usize) -> &[u8] {
    let skip = text.len().saturating_sub(room);
    let cut = text.get(skip..).unwrap_or_default();
    match memchr(b'\n', cut) {
        Some(i) if i < room / 2 => cut.get(i + 1..).unwrap_or_default(),
        _ => whole(cut),
    }
}

/// `text` without the end of a character that begins before it.
fn whole(mut text: &[u8]) -> &[u8] {
    for _ in 0..3 {
        if let [0x80..=0xBF, rest @ ..] = text {
            text = rest;
        }
    }
    text
}

impl Spill {
    fn start(scratch: &[u8]) -> Option<Spill> {
        if scratch.is_empty() {
            return None;
        }
        fs::private_dir(scratch).ok()?;
        let (file, path) = File::create_unique(scratch, b"out-", 0o600).ok()?;
        let max = fs::free_bytes(scratch).map_or(SPILL_MAX, |free| free / SPILL_PART);
        Some(Spill {
            file,
            path,
            written: 0,
            max: max.min(SPILL_MAX),
            full: false,
        })
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.full {
            return;
        }
        let room = usize::try_from(self.max - self.written).unwrap_or(usize::MAX);
        let part = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        self.full = part.len() < bytes.len();
        match self.file.write(part) {
            Ok(()) => self.written += part.len() as u64,
            Err(_) => {
                self.full = true;
                self.written = self.file.position().unwrap_or(self.written);
                if self.written == 0 {
                    let _ = fs::remove(&self.path);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::scene::Scene;
    use std::os::unix::fs::PermissionsExt;

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    fn lines(n: usize) -> Vec<u8> {
        (1..=n)
            .flat_map(|i| format!("line {i}\n").into_bytes())
            .collect()
    }

    /// The path a note names.
    fn path_in(text: &str) -> &str {
        let from = text.find(" in /").unwrap() + 4;
        &text[from..from + text[from..].find(" ...]").unwrap()]
    }

    #[test]
    fn what_fits_stays() {
        let exact = vec![b'x'; 1000];
        assert_eq!(clip(&exact, 1000), exact);
        assert_eq!(clip(b"", 1000), b"");
        assert_eq!(clip(b"a\xffb", 1000), "a\u{FFFD}b".as_bytes());
    }

    #[test]
    fn the_middle_goes_on_line_borders() {
        let got = text(clip(&lines(1000), 1000));
        let (head, rest) = got.split_once("[... ").unwrap();
        let (note, tail) = rest.split_once(" ...]\n").unwrap();
        assert!(got.len() <= 1000, "{}", got.len());
        assert!(got.len() > 800, "{}", got.len());
        assert!(head.starts_with("line 1\nline 2\n") && head.ends_with('\n'));
        assert!(tail.starts_with("line 9") && tail.ends_with("line 999\nline 1000\n"));
        let bytes = lines(1000).len();
        let out = bytes - head.len() - tail.len();
        assert_eq!(note, format!("{out} of {bytes} bytes left out"));
    }

    #[test]
    fn one_endless_line_is_cut_between_characters() {
        let got = text(clip("é".repeat(5000).as_bytes(), 1001));
        assert!(!got.contains('\u{FFFD}'), "{got}");
        assert!(got.len() <= 1001 && got.contains("bytes left out"));
    }

    #[test]
    fn bytes_that_are_no_text_stay_within_the_limit() {
        let scene = Scene::new();
        let got = text(spill(&scene.scratch(), &[0xFF; 900], 1000));
        assert!(got.len() <= 1000, "{}", got.len());
        let whole = std::fs::read(path_in(&got)).unwrap();
        assert_eq!(whole, vec![0xFF; 900]);
    }

    #[test]
    fn pushing_in_pieces_gives_the_same() {
        let all = lines(3000);
        let whole = clip(&all, 2000);
        for size in [1, 7, 1999, 2001, 5000] {
            let mut c = Collector::new(2000, b"");
            all.chunks(size).for_each(|part| c.push(part));
            assert_eq!(text(c.finish()), text(whole.clone()), "in pieces of {size}");
        }
    }

    #[test]
    fn the_whole_is_in_a_private_file() {
        let scene = Scene::new();
        let all = lines(3000);
        let got = text(spill(&scene.scratch(), &all, 2000));
        let path = path_in(&got);
        assert!(got.contains("; all of it is in "));
        assert_eq!(std::fs::read(path).unwrap(), all);
        let mode = |p: &str| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(path), 0o600);
        assert_eq!(mode(&String::from_utf8(scene.scratch()).unwrap()), 0o700);
        spill(&scene.scratch(), b"short", 2000);
        assert_eq!(
            std::fs::read_dir(std::str::from_utf8(&scene.scratch()).unwrap())
                .unwrap()
                .count(),
            1
        );
    }

    #[test]
    fn output_without_end_needs_little() {
        let scene = Scene::new();
        let mut c = Collector::new(16_000, &scene.scratch());
        let part = lines(2000);
        for _ in 0..(256 << 20) / part.len() {
            c.push(&part);
            assert!(c.head.capacity() + c.tail.capacity() < 64 * 1024);
        }
        let got = text(c.finish());
        assert!(got.len() <= 16_000);
        assert!(got.contains("; the first 8388608 bytes are in /"), "{got}");
        assert_eq!(std::fs::metadata(path_in(&got)).unwrap().len(), 8 << 20);
    }

    #[test]
    fn no_room_for_the_file_is_no_error() {
        use crate::sys::fs::{Op, fault};
        let scene = Scene::new();
        for (only, want) in [
            (Op::Write, "first 1000 bytes"),
            (Op::Create, "left out ...]"),
            (Op::Mkdir, "left out ...]"),
        ] {
            let plan = fault::Plan {
                at: 1,
                only: Some(only),
                errno: libc::ENOSPC,
                forever: false,
            };
            let mut c = Collector::new(2000, &scene.scratch());
            let (got, failed) = fault::during(plan, || {
                c.push(&[b'x'; 2000]);
                c.push(&[b'y'; 3000]);
                text(c.finish())
            });
            assert!(failed && got.contains(want), "{only:?}: {got}");
            assert!(got.starts_with("xxx") && got.ends_with("yyy"));
        }
    }
}
