//! What the model has seen of which file, so that a write over somebody else's change is refused. Content decides, not
//! the time of the last change: a `touch`, or a copy of the same bytes, is no change.

use crate::sys::fs::{self, File, Meta};
use std::io;

/// Files remembered; the oldest is forgotten first.
const MAX_FILES: usize = 256;

/// Up to this size the content alone decides. Above it the same size and time are taken for the same content, and the
/// content is looked at only when they differ.
const SMALL: u64 = 1 << 20;

/// Above this size there is no hash at all: computing it would cost seconds on a router.
pub const HASH_MAX: u64 = 32 << 20;

/// The files the model has read or written.
#[derive(Default)]
pub struct Seen {
    entries: Vec<Entry>,
}

struct Entry {
    name: u64,
    id: (u64, u64),
    size: u64,
    mtime: (i64, i64),
    hash: Option<u64>,
}

impl Seen {
    /// The model knows the file `path`, which exists, in the state `meta` with `size` bytes of content. `hash` is that
    /// of the whole content, if it was computed.
    pub fn note(&mut self, path: &[u8], meta: &Meta, size: u64, hash: Option<u64>) {
        // A file of the kernel has another content each time, and a size only when read.
        if meta.size == 0 && size > 0 {
            return;
        }
        let name = name(path);
        self.entries.retain(|e| e.name != name);
        if self.entries.len() >= MAX_FILES {
            self.entries.remove(0);
        }
        self.entries.push(Entry {
            name,
            id: meta.id,
            size,
            mtime: meta.mtime,
            hash,
        });
    }

    /// Whether the file `path`, in the state `meta`, has another content than the model saw. False for a file it never
    /// saw. `hash` computes the content's hash; it is called only when that decides.
    ///
    /// # Errors
    /// Those of `hash`.
    pub fn is_stale(
        &self,
        path: &[u8],
        meta: &Meta,
        hash: &mut dyn FnMut() -> io::Result<u64>,
    ) -> io::Result<bool> {
        if self.entries.is_empty() {
            return Ok(false);
        }
        let name = name(path);
        let Some(entry) = self.entries.iter().find(|e| e.name == name) else {
            return Ok(false);
        };
        // Our own write through a hard link's other name is no surprise either.
        let others = self.entries.iter();
        let others = others.filter(|e| e.id == meta.id && e.name != name);
        let mut current = None;
        for entry in std::iter::once(entry).chain(others) {
            let same_time = entry.mtime == meta.mtime;
            if entry.size != meta.size {
                continue;
            }
            let same = match entry.hash {
                None => same_time,
                Some(_) if same_time && meta.size > SMALL => true,
                Some(known) => {
                    let now = match current {
                        Some(now) => now,
                        None => *current.insert(hash()?),
                    };
                    now == known
                }
            };
            if same {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn name(path: &[u8]) -> u64 {
    let mut hash = Hash::new();
    hash.add(&fs::canonical(path));
    hash.finish()
}

/// A 64-bit hash of a stream of bytes: FNV-1a over little-endian words, with a shift that brings high bits, which the
/// multiplication leaves high, back down. Against accidents, not against attackers.
pub struct Hash {
    state: u64,
    rest: [u8; 8],
    filled: usize,
}

impl Hash {
    /// The hash of nothing.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Hash {
            state: 0xCBF2_9CE4_8422_2325,
            rest: [0; 8],
            filled: 0,
        }
    }

    fn word(&mut self, word: [u8; 8]) {
        let x = self.state ^ u64::from_le_bytes(word);
        let x = x.wrapping_mul(0x0000_0100_0000_01B3);
        self.state = x ^ (x >> 29);
    }

    /// Adds bytes.
    pub fn add(&mut self, mut bytes: &[u8]) {
        while self.filled > 0 || bytes.len() < 8 {
            let Some((&first, more)) = bytes.split_first() else {
                return;
            };
            bytes = more;
            if let Some(slot) = self.rest.get_mut(self.filled) {
                *slot = first;
            }
            self.filled += 1;
            if self.filled == 8 {
                self.filled = 0;
                self.word(self.rest);
            }
        }
        let (words, rest) = bytes.as_chunks::<8>();
        for &word in words {
            self.word(word);
        }
        if !rest.is_empty() {
            self.add(rest);
        }
    }

    /// The hash of what was added.
    pub fn finish(mut self) -> u64 {
        let mut last = [0; 8];
        for (to, &from) in last.iter_mut().zip(self.rest.iter().take(self.filled)) {
            *to = from;
        }
        self.word(last);
        self.word([self.filled as u8; 8]);
        self.state
    }

    /// The hash of all that is left in `file`.
    ///
    /// # Errors
    /// The system's.
    pub fn of_file(file: &mut File) -> io::Result<u64> {
        let mut hash = Hash::new();
        let mut buf = vec![0; 32 * 1024];
        loop {
            let n = file.read(&mut buf)?;
            if n == 0 {
                return Ok(hash.finish());
            }
            hash.add(buf.get(..n).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(parts: &[&[u8]]) -> u64 {
        let mut h = Hash::new();
        parts.iter().for_each(|p| h.add(p));
        h.finish()
    }

    #[test]
    fn pieces_hash_like_the_whole() {
        let text: Vec<u8> = (0..100).collect();
        for cut in 0..100 {
            let (a, b) = text.split_at(cut);
            assert_eq!(hash(&[a, b]), hash(&[&text]), "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(hash(&bytes), hash(&[&text]));
    }

    #[test]
    fn small_differences_show() {
        let base = b"option proto 'static'\n".to_vec();
        let mut hashes = vec![hash(&[&base])];
        for i in 0..base.len() {
            for bit in 0..8 {
                let mut other = base.clone();
                other[i] ^= 1 << bit;
                hashes.push(hash(&[&other]));
            }
        }
        hashes.push(hash(&[b""]));
        hashes.push(hash(&[b"\0"]));
        hashes.push(hash(&[&[0; 8]]));
        hashes.push(hash(&[&[0; 16]]));
        hashes.push(hash(&[&base, b"\0"]));
        let n = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), n);
    }

    #[test]
    fn it_never_grows_without_bound() {
        let meta = fs::stat(b"/").unwrap();
        let mut seen = Seen::default();
        for i in 0..1000u32 {
            seen.note(format!("/{i}").as_bytes(), &meta, 1, Some(1));
        }
        assert_eq!(seen.entries.len(), MAX_FILES);
    }
}
