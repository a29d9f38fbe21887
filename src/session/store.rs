//! The place where sessions are kept: making, finding, opening, forking them, and completing those of killed runs.

use super::conversation::Conversation;
use super::disk::{Disk, LOW_SPACE};
use super::record::Session;
use super::scan::{Head, Trailer};
use super::{id, journal, load};
use crate::sys::{fs, storage, time};
use crate::text::distance;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The directory of the sessions in the home directory and in scratch.
const SESSIONS: &str = "sessions";

/// The file with the id of the session used last.
const LAST: &str = "last_session";

/// Where sessions are.
pub struct Store {
    home: Option<PathBuf>,
    dir: Option<PathBuf>,
    scratch: PathBuf,
}

/// Why a session can't be had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// There is no session at all.
    Empty,
    /// None has this name; these are near.
    Missing(String, Vec<String>),
    /// Several begin so.
    Ambiguous(String, Vec<String>),
    /// Another process has it open.
    InUse(String),
    /// The file can't be read: path and reason.
    Unreadable(String, String),
}

impl Error {
    /// One line for the user.
    pub fn text(&self) -> String {
        let (mut out, list) = match self {
            Error::Empty => return "there is no session to continue yet".into(),
            Error::Missing(name, near) if near.is_empty() => {
                return format!("no session '{name}': there are no sessions yet");
            }
            Error::Missing(name, near) => (format!("no session '{name}'; there are "), near),
            Error::Ambiguous(name, ids) => (format!("'{name}' could be "), ids),
            Error::InUse(id) => {
                return format!(
                    "session {id} is in use by another cluade: end that one, or start a new session"
                );
            }
            Error::Unreadable(path, why) => return format!("can't read {path}: {why}"),
        };
        out.push_str(&list.join(", "));
        out
    }
}

/// The default home: `$CLUADE_HOME`, else `.cluade` in `$HOME`.
pub fn default_home() -> Option<Vec<u8>> {
    fs::env(b"CLUADE_HOME").or_else(|| Some([&fs::env(b"HOME")?[..], b"/.cluade"].concat()))
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

fn unreadable(path: &Path, error: &io::Error) -> Error {
    Error::Unreadable(path.to_string_lossy().into_owned(), error.to_string())
}

impl Store {
    /// Names the places; nothing is touched. `home` is the program's home, see [`default_home`]; `session_dir` is used
    /// instead of `sessions` in it; `scratch` must be the same for all runs of this user.
    pub fn new(home: Option<&[u8]>, session_dir: Option<&str>, scratch: &[u8]) -> Store {
        let home = home.map(path_of);
        let dir = match session_dir {
            Some(dir) => Some(PathBuf::from(dir)),
            None => home.as_ref().map(|h| h.join(SESSIONS)),
        };
        Store {
            home,
            dir,
            scratch: path_of(scratch),
        }
    }

    /// The directories that may hold sessions, the permanent one first.
    pub(super) fn dirs(&self) -> Vec<PathBuf> {
        let mut list = Vec::new();
        list.extend(self.dir.clone());
        list.push(self.scratch.join(SESSIONS));
        list
    }

    fn pointers(&self) -> Vec<PathBuf> {
        let mut list = Vec::new();
        list.extend(self.home.as_ref().map(|h| h.join(LAST)));
        list.push(self.scratch.join(LAST));
        list
    }

    fn is_scratch(&self, path: &Path) -> bool {
        path.parent() == Some(&self.scratch.join(SESSIONS))
    }

    pub(super) fn journal(&self, id: &str, path: &Path) -> PathBuf {
        journal::path(&self.scratch, id, path)
    }

    /// The names of all sessions, the oldest first.
    pub fn ids(&self) -> Vec<String> {
        let mut list = Vec::new();
        for dir in self.dirs() {
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                let name = entry.file_name().into_vec();
                if let Some(stem) = name.strip_suffix(b".json")
                    && !stem.is_empty()
                    && !stem.starts_with(b".")
                    && let Ok(stem) = std::str::from_utf8(stem)
                {
                    list.push(stem.to_string());
                }
            }
        }
        list.sort_unstable();
        list.dedup();
        list
    }

    /// The path of the session called exactly `id`.
    pub(super) fn path(&self, id: &str) -> Option<PathBuf> {
        let name = [id, ".json"].concat();
        self.dirs()
            .into_iter()
            .map(|d| d.join(&name))
            .find(|p| p.is_file())
    }

    /// The id that `name` means: the id itself, or the beginning of just one; `.json` at its end doesn't count.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Ambiguous`].
    pub fn find(&self, name: &str) -> Result<String, Error> {
        let name = name.strip_suffix(".json").unwrap_or(name);
        let mut ids = self.ids();
        if ids.iter().any(|id| id == name) {
            return Ok(name.into());
        }
        let mut fitting: Vec<String> = ids
            .iter()
            .filter(|id| !name.is_empty() && id.starts_with(name))
            .cloned()
            .collect();
        if fitting.len() > 1 {
            fitting.reverse();
            fitting.truncate(5);
            return Err(Error::Ambiguous(name.into(), fitting));
        }
        fitting.pop().ok_or_else(|| {
            ids.reverse();
            ids.truncate(200);
            ids.sort_by_key(|id| distance(id.as_bytes(), name.as_bytes()));
            ids.truncate(3);
            Error::Missing(name.into(), ids)
        })
    }

    /// A new session, and what the user should be told. It never fails: without a place on permanent storage the
    /// session goes to scratch, and without that it lives in memory only. Sessions of killed runs are completed first.
    pub fn create(&self, cwd: &[u8]) -> (Session, Vec<String>) {
        let mut warnings = self.recover();
        let session = self.make(cwd, &mut warnings);
        (session, warnings)
    }

    fn make(&self, cwd: &[u8], warnings: &mut Vec<String>) -> Session {
        let ids = self.ids();
        let mut why = String::from("there is no home directory");
        if let Some(dir) = &self.dir {
            match self.make_in(dir, false, cwd, &ids) {
                Ok(session) => return session,
                Err(error) => {
                    why = format!("can't write to {}: {error}", dir.to_string_lossy());
                }
            }
        }
        let dir = self.scratch.join(SESSIONS);
        let made = storage::private_directory(&self.scratch)
            .and_then(|()| self.make_in(&dir, true, cwd, &ids));
        match made {
            Ok(session) => {
                let dir = dir.to_string_lossy();
                warnings.push(format!(
                    "{why}; this session goes to {dir}, which a reboot empties"
                ));
                session
            }
            Err(error) => {
                let dir = dir.to_string_lossy();
                warnings.push(format!(
                    "{why}, nor to {dir}: {error}; this session is not saved"
                ));
                Session::ephemeral(cwd)
            }
        }
    }

    fn make_in(
        &self,
        dir: &Path,
        volatile: bool,
        cwd: &[u8],
        ids: &[String],
    ) -> io::Result<Session> {
        storage::directory(dir)?;
        let free = storage::free_bytes(&File::open(dir)?);
        if !volatile && free.is_some_and(|free| free < LOW_SPACE) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let now = time::unix_seconds();
        let mut id = id::choose(now, ids);
        let (file, path) = loop {
            let path = dir.join([&id, ".json"].concat());
            match storage::create(&path, true) {
                Ok(file) => break (file, path),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => id = id::after(&id),
                Err(e) => return Err(e),
            }
        };
        storage::lock(&file);
        let mut session = Session::ephemeral(cwd);
        session.created = id::created(now);
        let head = Head {
            cwd: String::from_utf8_lossy(cwd).into_owned(),
            created: session.created.clone(),
            ..Head::default()
        };
        let head = head.write(&id, b"");
        let mut trailer = Vec::new();
        Trailer::default().write(&mut trailer);
        if let Err(error) = storage::write_at(&file, 0, &[&head, &trailer]) {
            let _ = std::fs::remove_file(&path);
            return Err(error);
        }
        let disk = Disk {
            end: head.len() as u64,
            len: (head.len() + trailer.len()) as u64,
            file,
            any: false,
            torn: false,
            trailer,
            rewrite: None,
            volatile,
            read_only: false,
            fresh: true,
            pointers: self.pointers(),
            recovering: false,
            path,
        };
        let journal = (!volatile).then(|| journal::path(&self.scratch, &id, &disk.path));
        session.id = id;
        session.bind(Conversation::new(), disk, journal);
        Ok(session)
    }

    /// Opens the session that `name` means, see [`Store::find`], and completes it from the journal of a killed run.
    /// Besides the session: what the user should be told.
    ///
    /// # Errors
    /// Those of [`Store::find`]; [`Error::InUse`] when another process has it open; [`Error::Unreadable`].
    pub fn open(&self, name: &str) -> Result<(Session, Vec<String>), Error> {
        let id = self.find(name)?;
        match self.path(&id) {
            Some(path) => self.open_path(&path, &id, false),
            None => Err(Error::Missing(id, Vec::new())),
        }
    }

    /// Opens the session used last; when that is gone, the newest one with a message. Killed runs are completed first.
    ///
    /// # Errors
    /// [`Error::Empty`] when there is none; those of [`Store::open`].
    pub fn last(&self) -> Result<(Session, Vec<String>), Error> {
        let mut warnings = self.recover();
        let used = self.pointers().into_iter().rev().find_map(|p| {
            let text = std::fs::read(p).ok()?;
            let id = std::str::from_utf8(text.trim_ascii()).ok()?.to_string();
            self.path(&id).is_some().then_some(id)
        });
        let newest = || {
            self.ids()
                .into_iter()
                .rev()
                .find(|id| self.entry(id).is_some_and(|e| e.messages > 0))
        };
        let id = used.or_else(newest).ok_or(Error::Empty)?;
        let (session, more) = self.open(&id)?;
        warnings.extend(more);
        Ok((session, warnings))
    }

    /// A new session that begins with what is live in the one that `name` means, which may be in use elsewhere.
    ///
    /// # Errors
    /// Those of [`Store::find`]; [`Error::Unreadable`].
    pub fn fork(&self, name: &str) -> Result<(Session, Vec<String>), Error> {
        let id = self.find(name)?;
        let path = self
            .path(&id)
            .ok_or_else(|| Error::Missing(id.clone(), Vec::new()))?;
        let file = File::open(&path).map_err(|e| unreadable(&path, &e))?;
        let loaded = load::load(&file).map_err(|e| unreadable(&path, &e))?;
        let (mut old, mut builder) = Session::loaded(&id, loaded);
        builder.finish();
        old.conversation = builder.conversation;
        let (mut session, warnings) = self.create(&old.cwd);
        old.copy_to(&mut session);
        Ok((session, warnings))
    }

    fn open_path(
        &self,
        path: &Path,
        id: &str,
        recovering: bool,
    ) -> Result<(Session, Vec<String>), Error> {
        let fail = |e: io::Error| unreadable(path, &e);
        let (file, read_only) = open_locked(path, id)?;
        let loaded = load::load(&file).map_err(fail)?;
        let mut warnings = Vec::new();
        for note in &loaded.notes {
            warnings.push(format!("session {id}: {note}"));
        }
        let volatile = self.is_scratch(path);
        let len = file.metadata().map_err(fail)?.len();
        let mut trailer = Vec::new();
        if !loaded.torn && loaded.rewrite.is_none() {
            trailer.resize(usize::try_from(len - loaded.end.min(len)).unwrap_or(0), 0);
            file.read_exact_at(&mut trailer, loaded.end).map_err(fail)?;
        }
        let mut disk = Disk {
            file,
            path: path.into(),
            end: loaded.end,
            len,
            any: loaded.any,
            torn: loaded.torn,
            trailer,
            rewrite: None,
            volatile,
            read_only,
            fresh: false,
            pointers: self.pointers(),
            recovering,
        };
        let mut loaded = loaded;
        disk.rewrite = loaded.rewrite.take();
        let (mut session, mut builder) = Session::loaded(id, loaded);
        let journal = (!volatile).then(|| journal::path(&self.scratch, id, path));
        let mut taken = 0;
        if let Some(journal) = &journal
            && let Ok(old) = File::open(journal)
        {
            match session.complete(&mut builder, &old).map_err(fail)? {
                Some(n) => taken = n,
                None => {
                    let aside = journal::beside(journal, ".stale");
                    let _ = std::fs::rename(journal, &aside);
                    warnings.push(format!(
                        "session {id}: a journal doesn't fit the session file; it is left in {}",
                        aside.to_string_lossy()
                    ));
                }
            }
            if taken == 0 {
                let _ = std::fs::remove_file(journal);
            }
        }
        builder.finish();
        session.bind(builder.conversation, disk, journal);
        if taken > 0 {
            warnings.push(format!(
                "session {id}: {taken} messages of an interrupted run were recovered"
            ));
            warnings.extend(session.commit());
        }
        Ok((session, warnings))
    }

    /// Completes the sessions of killed runs from their journals. Sessions that are in use are left alone. Returns what
    /// the user should be told.
    pub fn recover(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for entry in std::fs::read_dir(&self.scratch)
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = entry.file_name();
            if !name.as_bytes().starts_with(journal::PREFIX.as_bytes()) {
                continue;
            }
            let Some((id, path)) = self.owner(&entry.path()) else {
                continue;
            };
            if !path.exists() && storage::create(&path, true).is_err() {
                continue;
            }
            match self.open_path(&path, &id, true) {
                Ok((_, more)) => warnings.extend(more),
                Err(Error::InUse(_)) => {}
                Err(error) => warnings.push(error.text()),
            }
        }
        warnings
    }

    /// The session a journal belongs to, when it is one of this store's.
    fn owner(&self, journal: &Path) -> Option<(String, PathBuf)> {
        let file = File::open(journal).ok()?;
        let path = PathBuf::from(journal::head(&file).ok()??.file);
        let id = path.file_stem()?.to_str()?.to_string();
        let ours = self.dir.as_deref() == path.parent()
            && journal::path(&self.scratch, &id, &path) == journal;
        ours.then_some((id, path))
    }
}

/// Opens a session file, for reading only where writing isn't allowed, and locks it.
fn open_locked(path: &Path, id: &str) -> Result<(File, bool), Error> {
    // The file may be replaced between opening and locking.
    for _ in 0..5 {
        let (file, read_only) = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => (file, false),
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                (File::open(path).map_err(|e| unreadable(path, &e))?, true)
            }
            Err(e) => return Err(unreadable(path, &e)),
        };
        if storage::lock(&file) == storage::Lock::Busy {
            break;
        }
        let same =
            |a: std::fs::Metadata, b: std::fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        if let (Ok(ours), Ok(named)) = (file.metadata(), std::fs::metadata(path))
            && same(ours, named)
        {
            return Ok((file, read_only));
        }
    }
    Err(Error::InUse(id.into()))
}
