//! Permanent storage: locks, free space, writes, flushing, private directories. Paths are bytes.
#![allow(unsafe_code)]

use super::fs::{self, Kind};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

/// Takes the exclusive lock (flock) of `file` without waiting; it is ours until the file is closed. False when another
/// process (or another open of the file) has it; a file system without locks never says so.
pub fn lock(file: &File) -> bool {
    // A process that was killed just as it started a child leaves its lock to that child until the child's exec.
    for _ in 0..30 {
        // SAFETY: a plain call on a descriptor that is open as long as `file` lives.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return true;
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EWOULDBLOCK) => super::time::pause(10),
            _ => return true,
        }
    }
    false
}

/// Bytes an unprivileged writer can still put on the file system `file` (or directory) is on. `None` when the file
/// system doesn't count them.
#[allow(clippy::unnecessary_cast)] // the fields' widths differ between targets
pub fn free_bytes(file: &File) -> Option<u64> {
    #[cfg(test)]
    if let Some(free) = fault::free() {
        return Some(free);
    }
    // SAFETY: a zeroed statvfs is valid, the pointer lives through the call, the descriptor is open.
    let stat = unsafe {
        let mut stat: libc::statvfs = std::mem::zeroed();
        if libc::fstatvfs(file.as_raw_fd(), &mut stat) != 0 {
            return None;
        }
        stat
    };
    let free = (stat.f_bavail as u64).saturating_mul(stat.f_frsize as u64);
    (stat.f_blocks > 0).then_some(free)
}

/// Whether `file` is (still) what `path` names.
pub fn is_at(file: &File, path: &[u8]) -> bool {
    let named = fs::stat(path).map(|m| m.id);
    let ours = file.metadata().map(|m| (m.dev(), m.ino()));
    matches!((named, ours), (Ok(a), Ok(b)) if a == b)
}

/// Appends to `out` what `file` has at `offset`, `n` bytes unless it ends before.
///
/// # Errors
/// The system's; `OutOfMemory` when there is no room for so much.
pub fn read_at(file: &File, offset: u64, n: usize, out: &mut Vec<u8>) -> io::Result<()> {
    if out.try_reserve(n).is_err() {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let (mut offset, mut left) = (offset, n);
    while left > 0 {
        let start = out.len();
        // SAFETY: room for `left` bytes behind the end was reserved; the call writes there only.
        let got = unsafe {
            let to = out.as_mut_ptr().add(start).cast();
            libc::pread(file.as_raw_fd(), to, left, offset as libc::off_t)
        };
        if got == 0 {
            break;
        }
        let Some(got) = passed(got)? else { continue };
        // SAFETY: so many bytes were filled in, at most `left`.
        unsafe { out.set_len(start + got) };
        left = left.saturating_sub(got);
        offset += got as u64;
    }
    Ok(())
}

/// What a call of the system passed; `None` when it was interrupted.
fn passed(n: isize) -> io::Result<Option<usize>> {
    if let Ok(n) = usize::try_from(n) {
        return Ok(Some(n));
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EINTR) {
        return Ok(None);
    }
    Err(error)
}

/// Writes `parts` one after the other at `offset` and returns where they end.
///
/// # Errors
/// The system's error; some of the bytes may have been written then.
pub fn write_at(file: &File, mut offset: u64, parts: &[&[u8]]) -> io::Result<u64> {
    #[cfg(test)]
    fault::write(file, offset, parts)?;
    for part in parts {
        let mut rest = *part;
        while !rest.is_empty() {
            // SAFETY: a live slice, which the call only reads.
            let n = unsafe {
                let from = rest.as_ptr().cast();
                libc::pwrite(file.as_raw_fd(), from, rest.len(), offset as libc::off_t)
            };
            if n == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            let Some(n) = passed(n)? else { continue };
            rest = rest.get(n..).unwrap_or_default();
            offset += n as u64;
        }
    }
    Ok(offset)
}

/// Brings what was written to `file` onto the medium.
///
/// # Errors
/// The system's.
pub fn sync(file: &File) -> io::Result<()> {
    #[cfg(test)]
    fault::operation()?;
    file.sync_all()
}

/// Cuts `file` to `len` bytes.
///
/// # Errors
/// The system's.
pub fn truncate(file: &File, len: u64) -> io::Result<()> {
    #[cfg(test)]
    fault::operation()?;
    file.set_len(len)
}

/// Opens a file that is there, for reading and with `write` for writing too.
///
/// # Errors
/// The system's.
pub fn open(path: &[u8], write: bool) -> io::Result<File> {
    fs::open(path, if write { libc::O_RDWR } else { libc::O_RDONLY }, 0)
}

/// Makes a new file of mode 0600 for reading and writing. An existing one is emptied, or with `exclusive` an error.
///
/// # Errors
/// The system's.
pub fn create(path: &[u8], exclusive: bool) -> io::Result<File> {
    #[cfg(test)]
    fault::operation()?;
    let how = if exclusive {
        libc::O_EXCL
    } else {
        libc::O_TRUNC
    };
    fs::open(path, libc::O_RDWR | libc::O_CREAT | how, 0o600)
}

/// Renames a file, replacing what has the new name.
///
/// # Errors
/// The system's.
pub fn rename(from: &[u8], to: &[u8]) -> io::Result<()> {
    #[cfg(test)]
    fault::operation()?;
    fs::rename(from, to)
}

/// Makes `dir` and what is missing above it, of mode 0700, unless it is there.
///
/// # Errors
/// The system's.
pub fn directory(dir: &[u8]) -> io::Result<()> {
    if fs::is_dir(dir) {
        return Ok(());
    }
    let above = fs::parent(dir);
    if above != dir {
        directory(above)?;
    }
    #[cfg(test)]
    fault::operation()?;
    match fs::make_dir(dir, 0o700) {
        // Another process was faster, or the path ends in a slash.
        Err(_) if fs::is_dir(dir) => Ok(()),
        done => done,
    }
}

/// As [`directory`], for a place below one where everybody can write; see [`is_private`].
///
/// # Errors
/// The system's; those of [`is_private`].
pub fn private_directory(dir: &[u8]) -> io::Result<()> {
    if !fs::exists(dir) {
        directory(dir)?;
    }
    is_private(dir)
}

/// Makes sure that `dir` is a real directory of this user in which nobody else can write.
///
/// # Errors
/// The system's; `PermissionDenied` for anything else.
pub fn is_private(dir: &[u8]) -> io::Result<()> {
    let meta = fs::lstat(dir)?;
    // SAFETY: takes nothing and can't fail.
    let me = unsafe { libc::geteuid() };
    if meta.kind != Kind::Dir || meta.uid != me || meta.mode & 0o022 != 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(())
}

/// Faults for tests, counted on the calling thread: the n-th changing operation fails, or all from it on.
#[cfg(test)]
pub mod fault {
    use std::cell::Cell;
    use std::fs::File;
    use std::io;
    use std::os::unix::fs::FileExt;

    /// How a write fails.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub enum How {
        /// Nothing of it arrives.
        Whole,
        /// The first half arrives.
        Half,
    }

    #[derive(Clone, Copy)]
    struct Plan {
        at: u32,
        forever: bool,
        how: How,
    }

    thread_local! {
        static PLAN: Cell<Option<Plan>> = const { Cell::new(None) };
        static SEEN: Cell<u32> = const { Cell::new(0) };
        static BYTES: Cell<u64> = const { Cell::new(0) };
        static SYNCS: Cell<u32> = const { Cell::new(0) };
        static FREE: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// From here on the operation number `at` (from 1) fails with ENOSPC, with `forever` all later ones too.
    pub fn plan(at: u32, forever: bool, how: How) {
        clear();
        PLAN.set(Some(Plan { at, forever, how }));
    }

    /// No more faults; counters start again.
    pub fn clear() {
        PLAN.set(None);
        SEEN.set(0);
        BYTES.set(0);
        SYNCS.set(0);
        FREE.set(None);
    }

    /// Operations since the last [`plan`] or [`clear`].
    pub fn operations() -> u32 {
        SEEN.get()
    }

    /// Bytes asked to be written since then.
    pub fn bytes() -> u64 {
        BYTES.get()
    }

    /// Operations that were not writes (flushing, renaming, creating) since then.
    pub fn others() -> u32 {
        SYNCS.get()
    }

    /// What [`super::free_bytes`] answers.
    pub fn set_free(free: Option<u64>) {
        FREE.set(free);
    }

    pub(super) fn free() -> Option<u64> {
        FREE.get()
    }

    fn due() -> Option<How> {
        let n = SEEN.get() + 1;
        SEEN.set(n);
        let plan = PLAN.get()?;
        (n == plan.at || plan.forever && n > plan.at).then_some(plan.how)
    }

    pub(super) fn operation() -> io::Result<()> {
        SYNCS.set(SYNCS.get() + 1);
        due().map_or(Ok(()), |_| Err(io::Error::from_raw_os_error(libc::ENOSPC)))
    }

    pub(super) fn write(file: &File, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        let text = parts.concat();
        BYTES.set(BYTES.get() + text.len() as u64);
        match due() {
            None => Ok(()),
            Some(how) => {
                let cut = if how == How::Half { text.len() / 2 } else { 0 };
                file.write_all_at(&text[..cut], offset)?;
                Err(io::Error::from_raw_os_error(libc::ENOSPC))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::testing::Dir;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    fn bytes(path: &Path) -> &[u8] {
        path.as_os_str().as_bytes()
    }

    #[test]
    fn parts_are_written_in_order_at_the_offset() {
        let dir = Dir::new();
        let path = dir.path().join("f");
        let file = create(bytes(&path), true).unwrap();
        write_at(&file, 0, &[b"0123456789"]).unwrap();
        assert_eq!(write_at(&file, 4, &[b"", b"ab", b"", b"c"]).unwrap(), 7);
        assert_eq!(std::fs::read(&path).unwrap(), b"0123abc789");
        let mut back = b"-".to_vec();
        read_at(&file, 3, 4, &mut back).unwrap();
        read_at(&file, 8, 100, &mut back).unwrap();
        assert_eq!(back, b"-3abc89");
        assert_eq!(
            create(bytes(&path), true).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(
            std::fs::metadata(&path).unwrap().mode() & 0o777,
            0o600,
            "nobody else reads it"
        );
    }

    #[test]
    fn a_lock_keeps_others_out_until_the_file_is_closed() {
        let dir = Dir::new();
        let path = dir.path().join("f");
        let first = create(bytes(&path), true).unwrap();
        let second = File::open(&path).unwrap();
        assert!(lock(&first));
        assert!(!lock(&second));
        drop(first);
        assert!(lock(&second));
        assert!(is_at(&second, bytes(&path)));
        std::fs::rename(&path, dir.path().join("g")).unwrap();
        assert!(!is_at(&second, bytes(&path)));
        std::fs::write(&path, b"").unwrap();
        assert!(!is_at(&second, bytes(&path)));
    }

    #[test]
    fn private_directories() {
        use std::os::unix::fs::PermissionsExt;
        let dir = Dir::new();
        let deep = dir.path().join("a/b");
        private_directory(bytes(&deep)).unwrap();
        assert_eq!(std::fs::metadata(&deep).unwrap().mode() & 0o777, 0o700);
        private_directory(bytes(&deep)).unwrap();
        std::fs::set_permissions(&deep, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(
            private_directory(bytes(&deep)).unwrap_err().kind(),
            io::ErrorKind::PermissionDenied
        );
        let link = dir.path().join("l");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        assert!(private_directory(bytes(&link)).is_err());
        std::fs::write(dir.path().join("f"), b"").unwrap();
        assert!(private_directory(bytes(&dir.path().join("f/g"))).is_err());
    }

    #[test]
    fn faults_hit_the_operation_they_are_planned_for() {
        let dir = Dir::new();
        let path = dir.path().join("f");
        let file = create(bytes(&path), true).unwrap();
        fault::plan(2, false, fault::How::Half);
        write_at(&file, 0, &[b"abcd"]).unwrap();
        assert!(write_at(&file, 4, &[b"ef", b"gh"]).is_err());
        sync(&file).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"abcdef");
        assert_eq!((fault::operations(), fault::bytes()), (3, 8));
        fault::clear();
        assert!(free_bytes(&file).is_none_or(|n| n > 0));
        fault::set_free(Some(7));
        assert_eq!(free_bytes(&file), Some(7));
        fault::clear();
    }
}
