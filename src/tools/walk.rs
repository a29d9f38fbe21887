//! A walk through a directory tree, in the order of names, a directory before what is in it. Links are not followed but
//! for the root; memory goes by the entries of the directories on the way down.

use crate::sys::fs::{self, Kind};
use crate::sys::{dir, signal};

/// An entry not reached yet: its name is `names[at..at + len]`.
struct Entry {
    at: u32,
    len: u16,
    kind: Kind,
}

/// A directory on the way: how long its path, the names and the entries were when it was entered.
struct Level {
    path: usize,
    names: usize,
    entries: usize,
}

/// A walk.
pub struct Walk {
    /// The path of the entry last returned.
    pub path: Vec<u8>,
    /// Levels below the root that are entered.
    pub depth: usize,
    /// Enter `.git`, too.
    pub git: bool,
    /// Directories that could not be read.
    pub unreadable: u64,
    base: usize,
    /// The root is `/`, where the kernel's filesystems are left out.
    system: bool,
    enter: bool,
    names: Vec<u8>,
    entries: Vec<Entry>,
    levels: Vec<Level>,
}

impl Walk {
    /// A walk through everything below `root`, except `.git` and, from `/`, the kernel's `/proc`, `/sys` and `/dev`.
    pub fn new(root: &[u8]) -> Self {
        let mut path = root;
        while let Some(shorter) = path.strip_suffix(b"/").or(path.strip_suffix(b"/.")) {
            path = shorter;
        }
        Walk {
            path: path.to_vec(),
            depth: usize::MAX,
            git: false,
            unreadable: 0,
            base: path.len() + 1,
            system: fs::canonical(root) == b"/",
            enter: true,
            names: Vec::new(),
            entries: Vec::new(),
            levels: Vec::new(),
        }
    }

    /// Goes on to the next entry, whose path is then in `path`. `None` at the end and when the run is cancelled.
    pub fn next(&mut self) -> Option<Kind> {
        if std::mem::take(&mut self.enter) {
            self.open();
        }
        while let Some(level) = self.levels.last()
            && !signal::cancelled()
        {
            self.path.truncate(level.path);
            if self.entries.len() > level.entries
                && let Some(entry) = self.entries.pop()
            {
                let name = name(&self.names, &entry);
                self.path.extend_from_slice(name);
                let depth = self.levels.len();
                self.enter = entry.kind == Kind::Dir
                    && depth <= self.depth
                    && (self.git || name != b".git")
                    && !(self.system && depth == 1 && matches!(name, b"proc" | b"sys" | b"dev"));
                return Some(entry.kind);
            }
            self.names.truncate(level.names);
            self.levels.pop();
        }
        None
    }

    /// The path of the entry last returned, from the root.
    pub fn relative(&self) -> &[u8] {
        self.path.get(self.base..).unwrap_or_default()
    }

    /// Enters the directory at `path`.
    fn open(&mut self) {
        self.path.push(b'/');
        let first = self.entries.len();
        self.levels.push(Level {
            path: self.path.len(),
            names: self.names.len(),
            entries: first,
        });
        let (names, entries) = (&mut self.names, &mut self.entries);
        let read = dir::each(&self.path, &mut |name, kind| {
            entries.push(Entry {
                at: names.len() as u32,
                len: name.len() as u16,
                kind,
            });
            names.extend_from_slice(name);
        });
        // What went away meanwhile is not unreadable.
        if read.is_err_and(|e| e.kind() != std::io::ErrorKind::NotFound) {
            self.unreadable += 1;
        }
        if let Some(new) = entries.get_mut(first..) {
            new.sort_unstable_by(|a, b| name(names, b).cmp(name(names, a)));
        }
    }
}

fn name<'a>(names: &'a [u8], entry: &Entry) -> &'a [u8] {
    let at = entry.at as usize;
    names
        .get(at..at + usize::from(entry.len))
        .unwrap_or_default()
}
