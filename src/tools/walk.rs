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
    pub unreadable: usize,
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
    pub fn advance(&mut self) -> Option<Kind> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::scene::Scene;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::os::unix::fs::symlink;
    use std::path::Path;

    fn all(root: &Path) -> (Vec<String>, usize) {
        let mut walk = Walk::new(root.as_os_str().as_bytes());
        let mut names = Vec::new();
        while let Some(kind) = walk.advance() {
            let name = String::from_utf8_lossy(walk.relative());
            let mark = match kind {
                Kind::Dir => "/",
                Kind::Link => "@",
                Kind::Fifo => "|",
                Kind::Socket => "=",
                Kind::File => "",
                Kind::Device => "%",
            };
            names.push(format!("{name}{mark}"));
        }
        (names, walk.unreadable)
    }

    #[test]
    fn order_kinds_and_what_is_left_out() {
        let scene = Scene::new();
        for dir in ["b/.git/x", "b/proc", "b.d", "a", ".h"] {
            std::fs::create_dir_all(scene.path(dir)).unwrap();
        }
        for file in [
            "b/z",
            "b/.git/HEAD",
            "b.d/f",
            "B",
            ".gitignore",
            "c",
            "b/proc/1",
        ] {
            scene.put(file, "");
        }
        symlink("..", scene.path("b/up")).unwrap();
        symlink("loop", scene.path("loop")).unwrap();
        symlink("c", scene.path("l")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(scene.path("s")).unwrap();
        std::fs::write(scene.path("n").join("").with_file_name("x\ny"), "").unwrap();
        let odd = std::ffi::OsString::from_vec(b"\xFF".to_vec());
        std::fs::write(scene.dir.join(odd), "").unwrap();
        let want = [
            ".gitignore",
            ".h/",
            "B",
            "a/",
            "b/",
            "b/.git/",
            "b/proc/",
            "b/proc/1",
            "b/up@",
            "b/z",
            "b.d/",
            "b.d/f",
            "c",
            "l@",
            "loop@",
            "s=",
            "x\ny",
            "\u{FFFD}",
        ];
        assert_eq!(all(&scene.dir), (want.map(String::from).to_vec(), 0));
        // A link or .git named as the root is entered; so is a path that ends in dots or slashes.
        assert_eq!(all(&scene.path("b/.git")).0, ["HEAD", "x/"]);
        assert_eq!(all(&scene.path("b/up/b.d/.//")).0, ["f"]);
        assert_eq!(all(&scene.path("b/up")).0.len(), want.len());
    }

    #[test]
    fn the_kernels_filesystems_are_left_out_from_the_root_only() {
        let mut walk = Walk::new(b"/tmp/../");
        walk.depth = 1;
        let mut seen = 0;
        while walk.advance().is_some() {
            let name = walk.relative();
            assert!(
                ![&b"proc/"[..], b"sys/", b"dev/"]
                    .iter()
                    .any(|d| name.starts_with(d))
            );
            seen += u32::from(name == b"proc");
        }
        assert_eq!(seen, 1);
        let mut walk = Walk::new(b"/proc/self");
        walk.depth = 0;
        let mut status = 0;
        while walk.advance().is_some() {
            status += u32::from(walk.path == b"/proc/self/status");
        }
        assert_eq!(status, 1);
    }

    #[test]
    fn a_deep_tree() {
        let scene = Scene::new();
        let mut path = scene.path("d");
        for _ in 1..1990 {
            path.push("d");
        }
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("f"), "").unwrap();
        let (names, unreadable) = all(&scene.dir);
        assert_eq!((names.len(), unreadable), (1991, 0));
        assert!(names[1990].ends_with("/d/d/f"));
    }

    /// Two trees of paths that just fit, one moved to the end of the other: its lower part has no name the system takes.
    #[test]
    fn directories_that_cannot_be_read_are_counted() {
        let scene = Scene::new();
        let part = "x".repeat(200);
        let long = |name: &str| (0..15).fold(scene.path(name), |p, _| p.join(&part));
        std::fs::create_dir_all(long("a")).unwrap();
        std::fs::create_dir_all(long("b")).unwrap();
        scene.put("c", "");
        std::fs::rename(scene.path("b"), long("a").join("b")).unwrap();
        let (names, unreadable) = all(&scene.dir);
        assert_eq!(unreadable, 1);
        assert_eq!(names.last().map(String::as_str), Some("c"));
        // Nobody else could remove it either.
        std::fs::rename(long("a").join("b"), scene.path("b")).unwrap();
        assert_eq!(all(&scene.path("nowhere")), (vec![], 0));
    }

    #[test]
    fn levels_are_entered_as_deep_as_asked() {
        let scene = Scene::new();
        std::fs::create_dir_all(scene.path("a/b/c")).unwrap();
        for (depth, n) in [(0, 1), (1, 2), (2, 3), (9, 3)] {
            let mut walk = Walk::new(scene.dir.as_os_str().as_bytes());
            walk.depth = depth;
            assert_eq!(std::iter::from_fn(|| walk.advance()).count(), n);
        }
    }
}
