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
    name: u32,
    meta: Meta,
    size: u64,
    hash: Option<u32>,
}

impl Seen {
    /// The model knows the file `path`, which exists, in the state `meta` with `size` bytes of content. `hash` is that
    /// of the whole content, if it was computed.
    pub fn note(&mut self, path: &[u8], meta: &Meta, size: u64, hash: Option<u32>) {
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
            meta: *meta,
            size,
            hash,
        });
    }

    /// Whether the file `path`, in the state `meta`, has another content than the model saw. False for a file it never
    /// saw.
    ///
    /// # Errors
    /// The system's, when the content has to be looked at.
    pub fn is_stale(&self, path: &[u8], meta: &Meta) -> io::Result<bool> {
        let name = name(path);
        let mut known = false;
        let mut current = None;
        for entry in &self.entries {
            // Our own write through a hard link's other name is no surprise either.
            if entry.name != name && entry.meta.id != meta.id {
                continue;
            }
            known |= entry.name == name;
            if entry.size != meta.size {
                continue;
            }
            let same_time = entry.meta.mtime == meta.mtime;
            let same = match entry.hash {
                Some(hash) if !same_time || meta.size <= SMALL => {
                    if current.is_none() {
                        current = Some(Hash::of_file(path)?);
                    }
                    current == Some(hash)
                }
                _ => same_time,
            };
            if same {
                return Ok(false);
            }
        }
        Ok(known)
    }
}

fn name(path: &[u8]) -> u32 {
    let mut hash = Hash::new();
    hash.add(&fs::canonical(path));
    hash.0
}

/// FNV-1a of a stream of bytes, 32 bits: against accidents, not against attackers.
pub struct Hash(
    /// The hash of what was added.
    pub u32,
);

impl Hash {
    /// The hash of nothing.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Hash(0x811C_9DC5)
    }

    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.0 = (self.0 ^ u32::from(b)).wrapping_mul(0x0100_0193);
        }
    }

    fn of_file(path: &[u8]) -> io::Result<u32> {
        let mut hash = Hash::new();
        File::open(path)?.each_chunk(&mut |chunk| {
            hash.add(chunk);
            Ok(())
        })?;
        Ok(hash.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(parts: &[&[u8]]) -> u32 {
        let mut h = Hash::new();
        parts.iter().for_each(|p| h.add(p));
        h.0
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
