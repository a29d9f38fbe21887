//! The place where sessions are kept: making, finding, opening them, and completing those of killed runs.

use super::disk::{Disk, LOW_SPACE, Part};
use super::record::Session;
use super::scan::{Trailer, write_head};
use super::{id, load};
use crate::sys::{dir, fs, hash, storage, time};
use crate::text::{distance, push_dec};
use std::fs::File;
use std::io;

/// The directory of the sessions in the home directory and in scratch.
const SESSIONS: &[u8] = b"sessions";

/// The file with the id of the session used last.
const LAST: &[u8] = b"last_session";

/// First part of a journal's name.
const JOURNAL: &[u8] = b"journal-";

/// Where sessions are. Paths that are empty don't exist.
pub struct Store {
    home: Vec<u8>,
    dir: Vec<u8>,
    scratch: Vec<u8>,
    /// The sessions' directory in scratch.
    volatile: Vec<u8>,
}

/// Why a session can't be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// There is no session at all.
    Empty,
    /// None has this name.
    Missing,
    /// Several begin so.
    Ambiguous,
    /// Another process has it open.
    InUse,
    /// The file can't be read.
    Unreadable,
}

/// Why a session can't be had, and a line for the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// Why.
    pub what: What,
    text: String,
}

impl Error {
    /// One line for the user.
    pub fn text(&self) -> String {
        self.text.clone()
    }
}

#[inline(never)]
fn error(what: What, parts: &[&str]) -> Error {
    Error {
        what,
        text: parts.concat(),
    }
}

#[inline(never)]
fn add(text: &mut String, parts: &[&str]) {
    for part in parts {
        text.push_str(part);
    }
}

#[inline(never)]
fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// Two parts of a path, the second of which may be a part of a name only.
fn file_in(dir: &[u8], name: &[u8], end: &[u8]) -> Vec<u8> {
    [dir, b"/", name, end].concat()
}

impl Store {
    /// Names the places; nothing is touched. `home` is the program's home; `session_dir` is used instead of `sessions`
    /// in it; `scratch` must be the same for all runs of this user.
    pub fn new(home: Option<&[u8]>, session_dir: Option<&str>, scratch: &[u8]) -> Store {
        let home = home.unwrap_or_default();
        let dir = match session_dir {
            Some(dir) => dir.as_bytes().to_vec(),
            None if home.is_empty() => Vec::new(),
            None => file_in(home, SESSIONS, b""),
        };
        Store {
            home: home.to_vec(),
            dir,
            scratch: scratch.to_vec(),
            volatile: file_in(scratch, SESSIONS, b""),
        }
    }

    /// The directories that may hold sessions, the permanent one first.
    fn dirs(&self) -> [&[u8]; 2] {
        let scratch: &[u8] = if self.trusted() { &self.volatile } else { b"" };
        [&self.dir, scratch]
    }

    /// Scratch is there and nobody else can have put anything into it.
    fn trusted(&self) -> bool {
        storage::is_private(&self.scratch).is_ok()
    }

    /// Where the id of the session used last is left.
    fn pointers(&self) -> Vec<Vec<u8>> {
        let mut list = Vec::new();
        for dir in [&self.home, &self.scratch] {
            if !dir.is_empty() {
                list.push(file_in(dir, LAST, b""));
            }
        }
        list
    }

    /// Where the journal of the session in `file` is. The number tells sessions of different homes apart.
    pub(super) fn journal(&self, id: &str, file: &[u8]) -> Vec<u8> {
        let mut path = file_in(&self.scratch, JOURNAL, id.as_bytes());
        path.push(b'-');
        push_dec(&mut path, hash::fnv64(&[file]));
        path
    }

    /// The names of all sessions, the oldest first.
    pub fn ids(&self) -> Vec<String> {
        let mut list: Vec<String> = Vec::new();
        for place in self.dirs() {
            let _ = dir::each(place, &mut |name, _| {
                if let Some(stem) = name.strip_suffix(b".json")
                    && !matches!(stem, [] | [b'.', ..])
                    && let Ok(stem) = std::str::from_utf8(stem)
                    && let Err(at) = list.binary_search_by(|id| id.as_str().cmp(stem))
                {
                    list.insert(at, stem.into());
                }
            });
        }
        list
    }

    /// The path of the session called exactly `id`.
    pub(super) fn path(&self, id: &str) -> Option<Vec<u8>> {
        for dir in self.dirs() {
            let path = file_in(dir, id.as_bytes(), b".json");
            if !dir.is_empty() && fs::is_file(&path) {
                return Some(path);
            }
        }
        None
    }

    /// The id that `name` means: the id itself, or the beginning of just one; `.json` at its end doesn't count.
    ///
    /// # Errors
    /// [`What::Missing`], [`What::Ambiguous`].
    pub fn find(&self, name: &str) -> Result<String, Error> {
        let name = name.strip_suffix(".json").unwrap_or(name);
        let ids = self.ids();
        let mut fitting = 0;
        let mut found = String::new();
        let (mut near, mut nearest) = ("", usize::MAX);
        // The newest first.
        for id in ids.iter().rev() {
            if id == name {
                return Ok(name.into());
            }
            if !name.is_empty() && id.as_bytes().starts_with(name.as_bytes()) {
                fitting += 1;
                if fitting <= 5 {
                    if fitting > 1 {
                        found.push_str(", ");
                    }
                    found.push_str(id);
                }
            }
            let edits = distance(id.as_bytes(), name.as_bytes());
            if near.is_empty() || edits < nearest {
                (near, nearest) = (id, edits);
            }
        }
        match fitting {
            1 => Ok(found),
            0 if near.is_empty() => Err(error(
                What::Missing,
                &["no session '", name, "': there are no sessions yet"],
            )),
            0 => Err(error(
                What::Missing,
                &["no session '", name, "'; the nearest is ", near],
            )),
            _ => Err(error(What::Ambiguous, &["'", name, "' could be ", &found])),
        }
    }

    /// A new session, and what the user should be told. It never fails: without a place on permanent storage the
    /// session goes to scratch, and without that it lives in memory only. Sessions of killed runs are completed first.
    pub fn create(&self, cwd: &[u8]) -> (Session, Vec<String>) {
        let mut warnings = self.recover();
        let mut session = Session::ephemeral(cwd);
        let mut why = String::new();
        if self.dir.is_empty() {
            add(&mut why, &["there is no home directory"]);
        }
        for (dir, flush) in [(&self.dir, true), (&self.volatile, false)] {
            if dir.is_empty() {
                continue;
            }
            match self.make_in(dir, flush, &mut session) {
                Ok(()) if flush => return (session, warnings),
                Ok(()) => {
                    let place = shown(dir);
                    add(
                        &mut why,
                        &[
                            "; this session goes to ",
                            &place,
                            ", which a reboot empties",
                        ],
                    );
                    warnings.push(why);
                    return (session, warnings);
                }
                Err(e) => {
                    let gap = if why.is_empty() { "" } else { "; " };
                    let (place, text) = (shown(dir), fs::os_text(&e));
                    add(&mut why, &[gap, "can't write to ", &place, ": ", &text]);
                }
            }
        }
        add(&mut why, &["; this session is not saved"]);
        warnings.push(why);
        (session, warnings)
    }

    fn make_in(&self, dir: &[u8], flush: bool, session: &mut Session) -> io::Result<()> {
        if !flush {
            storage::private_directory(&self.scratch)?;
        }
        storage::directory(dir)?;
        let free = storage::free_bytes(&storage::open(dir, false)?);
        if flush && free.is_some_and(|free| free < LOW_SPACE) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let now = time::unix_seconds();
        let mut id = id::choose(now, &self.ids());
        let (file, path) = loop {
            let path = file_in(dir, id.as_bytes(), b".json");
            match storage::create(&path, true) {
                Ok(file) => break (file, path),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => id = id::after(&id),
                Err(e) => return Err(e),
            }
        };
        storage::lock(&file);
        session.created = id::created(now);
        let mut disk = Disk::empty(file, &path, false);
        let part = Part {
            head: &write_head(&id, &session.cwd, &session.created, None, b""),
            conversation: &session.conversation,
            context: 0,
            trailer: &Trailer::default().text(),
        };
        if let Err(error) = disk.append(&part) {
            let _ = fs::remove(&path);
            return Err(error);
        }
        disk.flush = flush;
        session.fresh = true;
        session.id = id;
        self.bind(session, disk);
        Ok(())
    }

    fn bind(&self, session: &mut Session, disk: Disk) {
        if disk.flush {
            session.journal_path = self.journal(&session.id, &disk.path);
        }
        session.pointers = self.pointers();
        session.disk = Some(disk);
    }

    /// Opens the session that `name` means, see [`Store::find`], and completes it from the journal of a killed run.
    /// Besides the session: what the user should be told.
    ///
    /// # Errors
    /// Those of [`Store::find`]; [`What::InUse`] when another process has it open; [`What::Unreadable`].
    pub fn open(&self, name: &str) -> Result<(Session, Vec<String>), Error> {
        let id = self.find(name)?;
        let path = self.path(&id).unwrap_or_default();
        let mut warnings = Vec::new();
        let session = self.open_path(path, id, false, &mut warnings)?;
        Ok((session, warnings))
    }

    /// Opens the session used last; when that is gone, the newest one with a message. Killed runs are completed first.
    ///
    /// # Errors
    /// [`What::Empty`] when there is none; those of [`Store::open`].
    pub fn last(&self) -> Result<(Session, Vec<String>), Error> {
        let mut warnings = self.recover();
        let mut found = None;
        for pointer in self.pointers().iter().rev() {
            let foreign = fs::parent(pointer) == self.scratch && !self.trusted();
            if let Ok(text) = fs::read_small(pointer, 256)
                && let Ok(id) = std::str::from_utf8(text.trim_ascii())
                && !foreign
                && self.path(id).is_some()
            {
                found = Some(id.to_string());
                break;
            }
        }
        if found.is_none() {
            let mut ids = self.ids();
            while let Some(id) = ids.pop() {
                if self.entry(&id).is_some_and(|e| e.messages > 0) {
                    found = Some(id);
                    break;
                }
            }
        }
        let Some(id) = found else {
            return Err(error(What::Empty, &["there is no session to continue yet"]));
        };
        let path = self.path(&id).unwrap_or_default();
        let session = self.open_path(path, id, false, &mut warnings)?;
        Ok((session, warnings))
    }

    fn open_path(
        &self,
        path: Vec<u8>,
        id: String,
        recovering: bool,
        warnings: &mut Vec<String>,
    ) -> Result<Session, Error> {
        let mut session = Session::default();
        session.recovering = recovering;
        session.id = id;
        let filled = self.fill(&mut session, &path, warnings);
        if filled.is_err() {
            // Nothing of a session that isn't there goes into its file.
            session.disk = None;
        }
        match filled {
            Ok(()) => Ok(session),
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => Err(error(
                What::InUse,
                &[
                    "session ",
                    &session.id,
                    " is in use by another cluade: end that one, or start a new session",
                ],
            )),
            Err(e) => Err(error(
                What::Unreadable,
                &["can't read ", &shown(&path), ": ", &fs::os_text(&e)],
            )),
        }
    }

    fn fill(
        &self,
        session: &mut Session,
        path: &[u8],
        warnings: &mut Vec<String>,
    ) -> io::Result<()> {
        let (file, read_only) = open_locked(path)?;
        session.read_only = read_only;
        let loaded = &mut load::load(&file)?;
        let flush = fs::parent(path) != self.volatile;
        let mut disk = Disk::empty(file, path, flush);
        disk.end = loaded.end;
        disk.len = disk.file.metadata()?.len();
        (disk.any, disk.torn) = (loaded.any, loaded.torn);
        disk.upto = loaded.builder.numbers.len();
        if !loaded.torn {
            disk.trailer = loaded.trailer.text();
        }
        let mut write = disk.torn && disk.any && loaded.rewrite.is_none();
        self.bind(session, disk);
        let mut taken = 0;
        let id = session.id.clone();
        let mut warn = |what: &str, more: &str| {
            let mut text = String::new();
            add(&mut text, &["session ", &id, ": ", what, more]);
            warnings.push(text);
        };
        if loaded.damaged && loaded.any {
            warn("its file was damaged; what can be read is kept", "");
        }
        let journal = &session.journal_path;
        if self.trusted()
            && let Ok(old) = storage::open(journal, false)
        {
            match loaded.complete(&old)? {
                Some(n) => taken = n,
                None => {
                    let aside = [journal, &b".stale"[..]].concat();
                    let _ = fs::rename(journal, &aside);
                    let place = shown(&aside);
                    warn("its journal is of another file; it is now ", &place);
                }
            }
            if taken == 0 {
                let _ = fs::remove(journal);
            }
        }
        loaded.builder.finish(false);
        session.loaded(loaded);
        if taken > 0 {
            let mut text = Vec::new();
            push_dec(&mut text, taken as u64);
            let more = " messages of an interrupted run were recovered";
            warn(&shown(&text), more);
            write = true;
        }
        if write {
            warnings.extend(session.commit());
        }
        Ok(())
    }

    /// Completes the sessions of killed runs from their journals. Sessions that are in use are left alone. Returns what
    /// the user should be told.
    pub fn recover(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut journals = Vec::new();
        if self.trusted() {
            let _ = dir::each(&self.scratch, &mut |name, _| {
                if name.starts_with(JOURNAL) {
                    journals.push(file_in(&self.scratch, name, b""));
                }
            });
        }
        for journal in journals {
            let Some((id, path)) = self.owner(&journal) else {
                continue;
            };
            if !fs::exists(&path) && storage::create(&path, true).is_err() {
                continue;
            }
            if let Err(error) = self.open_path(path, id, true, &mut warnings)
                && error.what != What::InUse
            {
                warnings.push(error.text);
            }
        }
        warnings
    }

    /// The session a journal belongs to by its name, when it is one of this store's.
    fn owner(&self, journal: &[u8]) -> Option<(String, Vec<u8>)> {
        let name = journal.get(self.scratch.len() + 1 + JOURNAL.len()..)?;
        let dash = memchr::memrchr(b'-', name)?;
        let id = std::str::from_utf8(name.get(..dash)?).ok()?;
        let path = file_in(&self.dir, id.as_bytes(), b".json");
        (self.journal(id, &path) == journal).then(|| (id.to_string(), path))
    }
}

/// Opens a session file, for reading only where writing isn't allowed, and locks it; `ResourceBusy` when another process
/// has it.
fn open_locked(path: &[u8]) -> io::Result<(File, bool)> {
    // The file may be replaced between opening and locking.
    for _ in 0..5 {
        let mut read_only = false;
        let mut file = storage::open(path, true);
        if let Err(e) = &file
            && matches!(
                e.raw_os_error(),
                Some(libc::EACCES | libc::EPERM | libc::EROFS)
            )
        {
            read_only = true;
            file = storage::open(path, false);
        }
        let file = file?;
        if !storage::lock(&file) {
            break;
        }
        if storage::is_at(&file, path) {
            return Ok((file, read_only));
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}
