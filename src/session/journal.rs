//! The journal: what happened since the last write to permanent storage, in scratch (tmpfs on a router). A process that
//! is killed loses no step: the next start completes the session from it. It has the layout of a session file, with the
//! trailer repeated after each step, and its head says where it belongs and which message it begins with.

use super::scan::{HEAD_MAX, Head, Kind, Lines, Trailer};
use crate::sys::storage;
use crate::text::push_dec;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// First part of a journal's name.
pub const PREFIX: &str = "journal-";

/// Where the journal of the session in `file` is. The number tells sessions of different homes apart.
pub fn path(scratch: &Path, id: &str, file: &Path) -> PathBuf {
    let mut hash: u32 = 0x811c_9dc5;
    for b in file.as_os_str().as_bytes() {
        hash = (hash ^ u32::from(*b)).wrapping_mul(0x0100_0193);
    }
    let mut name = [PREFIX.as_bytes(), id.as_bytes(), b"-"].concat();
    push_dec(&mut name, u64::from(hash));
    scratch.join(std::ffi::OsStr::from_bytes(&name))
}

/// `path` with `suffix` at its end.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    PathBuf::from(name)
}

/// A journal being written.
pub struct Journal {
    file: File,
    len: u64,
    /// Messages of the conversation that are in it or in the session file.
    pub upto: usize,
    /// Its last trailer.
    pub trailer: Vec<u8>,
}

impl Journal {
    /// Starts a journal at `path` with everything that is not in the session file. An older one is replaced only when
    /// this one is whole.
    ///
    /// # Errors
    /// The system's.
    pub fn start(path: &Path, head: &[u8], messages: &[u8], trailer: Vec<u8>) -> io::Result<Self> {
        let new = beside(path, ".new");
        let file = storage::create(&new, false)?;
        let mut journal = Journal {
            file,
            len: 0,
            upto: 0,
            trailer: Vec::new(),
        };
        let gap: &[u8] = if messages.is_empty() { b"" } else { b"\n" };
        journal
            .write(&[head, gap, messages], trailer)
            .and_then(|()| storage::rename(&new, path))
            .inspect_err(|_| {
                let _ = std::fs::remove_file(&new);
            })?;
        Ok(journal)
    }

    /// Appends messages, as they are separated in the arena, and a trailer.
    ///
    /// # Errors
    /// The system's; what arrived of it is overwritten by the next call.
    pub fn append(&mut self, messages: &[u8], trailer: Vec<u8>) -> io::Result<()> {
        self.write(&[messages], trailer)
    }

    fn write(&mut self, parts: &[&[u8]], trailer: Vec<u8>) -> io::Result<()> {
        let mut list: [&[u8]; 4] = [b""; 4];
        for (slot, part) in list.iter_mut().zip(parts.iter().chain([&&trailer[..]])) {
            *slot = part;
        }
        storage::write_at(&self.file, self.len, &list)?;
        self.len += list.iter().map(|p| p.len() as u64).sum::<u64>();
        self.trailer = trailer;
        Ok(())
    }
}

/// Reads the head of a journal and says where it ends; `None` when it is none.
///
/// # Errors
/// The system's.
pub fn head(file: &File) -> io::Result<Option<Head>> {
    let mut line = Vec::new();
    Lines::new(file, 0).next(&mut line, HEAD_MAX)?;
    Ok(Head::read(&line).filter(|h| !h.file.is_empty()))
}

/// Hands the whole messages of a journal to `each`, counted from 0, and returns the last whole trailer.
///
/// # Errors
/// The system's.
pub fn read(file: &File, each: &mut dyn FnMut(u64, &[u8])) -> io::Result<Option<Trailer>> {
    let mut lines = Lines::new(file, 0);
    let mut line = Vec::new();
    lines.next(&mut line, 0)?;
    let mut trailer = None;
    let mut n = 0;
    while let Some(kind) = lines.next(&mut line, usize::MAX)? {
        match kind {
            Kind::Message { .. } => {
                each(n, &line);
                n += 1;
            }
            Kind::Trailer => trailer = Trailer::read(&line).or(trailer),
            // What is cut is followed by nothing: a killed process writes no more.
            Kind::Open | Kind::Garbage | Kind::Filler => {}
        }
    }
    Ok(trailer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::testing::Dir;

    fn trailer(steps: u64) -> Vec<u8> {
        let mut out = Vec::new();
        Trailer {
            steps,
            ..Trailer::default()
        }
        .write(&mut out);
        out
    }

    #[test]
    fn every_step_is_there_wherever_the_file_is_cut() {
        let dir = Dir::new();
        let path = path(dir.path(), "x", Path::new("/s/x.json"));
        let h = Head {
            base: 3,
            file: "/s/x.json".into(),
            ..Head::default()
        };
        let mut journal = Journal::start(
            &path,
            &h.write("x", b""),
            b"{\"a\":1},\n{\"a\":2}",
            trailer(1),
        )
        .unwrap();
        let first = journal.len;
        journal.append(b"{\"a\":3}", trailer(2)).unwrap();
        assert!(!beside(&path, ".new").exists());
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(whole.len() as u64, journal.len);
        let cut_path = dir.path().join("cut");
        for cut in 0..=whole.len() {
            std::fs::write(&cut_path, &whole[..cut]).unwrap();
            let file = File::open(&cut_path).unwrap();
            let mut seen = Vec::new();
            let last = read(&file, &mut |n, m| seen.push((n, m.to_vec()))).unwrap();
            if cut as u64 >= first {
                assert!(head(&file).unwrap().as_ref() == Some(&h));
                assert!(seen.len() >= 2 && last.is_some());
            }
            if cut == whole.len() {
                assert_eq!(seen.len(), 3);
                assert_eq!(seen[2], (2, b"{\"a\":3}".to_vec()));
                assert_eq!(last.map(|t| t.steps), Some(2));
            }
        }
    }

    #[test]
    fn homes_do_not_mix() {
        let a = path(Path::new("/t"), "x", Path::new("/a/x.json"));
        assert_ne!(a, path(Path::new("/t"), "x", Path::new("/b/x.json")));
        assert_eq!(a.parent(), Some(Path::new("/t")));
    }
}
