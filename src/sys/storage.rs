//! Permanent storage: locks, free space, gathered writes, flushing, private directories.
#![allow(unsafe_code)]

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// What the system says about taking a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lock {
    /// It is ours until the file is closed.
    Taken,
    /// Another process (or another open of the file) has it.
    Busy,
    /// This file system has no locks.
    Unsupported,
}

/// Takes the exclusive lock (flock) of `file` without waiting.
pub fn lock(file: &File) -> Lock {
    loop {
        // SAFETY: a plain call on a descriptor that is open as long as `file` lives.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Lock::Taken;
        }
        match io::Error::last_os_error().kind() {
            io::ErrorKind::Interrupted => {}
            io::ErrorKind::WouldBlock => return Lock::Busy,
            _ => return Lock::Unsupported,
        }
    }
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
    let (blocks, free) = (stat.f_blocks as u64, stat.f_bavail as u64);
    (blocks > 0).then(|| free.saturating_mul(stat.f_frsize as u64))
}

/// Most parts one call of [`write_at`] takes.
pub const MAX_PARTS: usize = 8;

/// Writes `parts` one after the other at `offset`, in one system call unless the system takes less. Parts beyond
/// [`MAX_PARTS`] are an error.
///
/// # Errors
/// The system's error; some of the bytes may have been written then.
pub fn write_at(file: &File, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
    #[cfg(test)]
    let cut;
    #[cfg(test)]
    let parts: &[&[u8]] = match fault::write(parts) {
        fault::Verdict::Pass => parts,
        fault::Verdict::Fail => return Err(fault::error()),
        fault::Verdict::Cut(text) => {
            cut = text;
            &[&cut]
        }
    };
    if parts.len() > MAX_PARTS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut done: usize = 0;
    loop {
        let mut list = [libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        }; MAX_PARTS];
        let (mut count, mut skip) = (0, done);
        for part in parts {
            let rest = part.get(skip..).unwrap_or_default();
            skip = skip.saturating_sub(part.len());
            if !rest.is_empty() {
                list[count] = libc::iovec {
                    iov_base: rest.as_ptr() as *mut libc::c_void,
                    iov_len: rest.len(),
                };
                count += 1;
            }
        }
        if count == 0 {
            break;
        }
        let Ok(at) = libc::off_t::try_from(offset.saturating_add(done as u64)) else {
            return Err(io::ErrorKind::FileTooLarge.into());
        };
        // SAFETY: the first `count` entries of `list` describe live slices, which the call only reads.
        let n = unsafe { libc::pwritev(file.as_raw_fd(), list.as_ptr(), count as i32, at) };
        if n > 0 {
            done += n as usize;
        } else if n == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        } else {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
    #[cfg(test)]
    if fault::was_cut() {
        return Err(fault::error());
    }
    Ok(())
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

/// Makes a new file of mode 0600 for reading and writing. An existing one is emptied, or with `exclusive` an error.
///
/// # Errors
/// The system's.
pub fn create(path: &Path, exclusive: bool) -> io::Result<File> {
    #[cfg(test)]
    fault::operation()?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    if exclusive {
        options.create_new(true);
    } else {
        options.create(true).truncate(true);
    }
    options.open(path)
}

/// Renames a file, replacing what has the new name.
///
/// # Errors
/// The system's.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(test)]
    fault::operation()?;
    std::fs::rename(from, to)
}

/// Makes `dir` and what is missing above it, of mode 0700, unless it is there.
///
/// # Errors
/// The system's.
pub fn directory(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    #[cfg(test)]
    fault::operation()?;
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// As [`directory`], for a place below one where everybody can write: an existing one must be a real directory of this
/// user in which nobody else can write.
///
/// # Errors
/// The system's; `NotADirectory` for a link, `PermissionDenied` for a directory that is somebody else's or open to
/// others.
pub fn private_directory(dir: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => directory(dir),
        Err(e) => Err(e),
        Ok(meta) => {
            // SAFETY: takes nothing and can't fail.
            let me = unsafe { libc::geteuid() };
            if !meta.is_dir() {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            if meta.uid() != me || meta.mode() & 0o022 != 0 {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            Ok(())
        }
    }
}

/// Faults for tests, counted on the calling thread: the n-th changing operation fails, or all from it on.
#[cfg(test)]
pub mod fault {
    use std::cell::Cell;
    use std::io;

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
        static CUT: Cell<bool> = const { Cell::new(false) };
        static BYTES: Cell<u64> = const { Cell::new(0) };
        static SYNCS: Cell<u32> = const { Cell::new(0) };
        static FREE: Cell<Option<u64>> = const { Cell::new(None) };
    }

    pub(super) enum Verdict {
        Pass,
        Fail,
        Cut(Vec<u8>),
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
        CUT.set(false);
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

    pub(super) fn error() -> io::Error {
        io::Error::from_raw_os_error(libc::ENOSPC)
    }

    fn due() -> Option<How> {
        let n = SEEN.get() + 1;
        SEEN.set(n);
        let plan = PLAN.get()?;
        (n == plan.at || plan.forever && n > plan.at).then_some(plan.how)
    }

    pub(super) fn operation() -> io::Result<()> {
        SYNCS.set(SYNCS.get() + 1);
        due().map_or(Ok(()), |_| Err(error()))
    }

    pub(super) fn write(parts: &[&[u8]]) -> Verdict {
        let mut text = parts.concat();
        BYTES.set(BYTES.get() + text.len() as u64);
        match due() {
            None => Verdict::Pass,
            Some(How::Whole) => Verdict::Fail,
            Some(How::Half) => {
                text.truncate(text.len() / 2);
                CUT.set(true);
                Verdict::Cut(text)
            }
        }
    }

    pub(super) fn was_cut() -> bool {
        CUT.replace(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::testing::Dir;

    #[test]
    fn parts_are_written_in_order_at_the_offset() {
        let dir = Dir::new();
        let path = dir.path().join("f");
        let file = create(&path, true).unwrap();
        write_at(&file, 0, &[b"0123456789"]).unwrap();
        write_at(&file, 4, &[b"", b"ab", b"", b"c"]).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"0123abc789");
        let many: [&[u8]; MAX_PARTS + 1] = [b"x"; MAX_PARTS + 1];
        assert!(write_at(&file, 0, &many).is_err());
        assert_eq!(
            create(&path, true).unwrap_err().kind(),
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
        let first = create(&path, true).unwrap();
        let second = File::open(&path).unwrap();
        assert_eq!(lock(&first), Lock::Taken);
        assert_eq!(lock(&second), Lock::Busy);
        drop(first);
        assert_eq!(lock(&second), Lock::Taken);
    }

    #[test]
    fn private_directories() {
        use std::os::unix::fs::PermissionsExt;
        let dir = Dir::new();
        let deep = dir.path().join("a/b");
        private_directory(&deep).unwrap();
        assert_eq!(std::fs::metadata(&deep).unwrap().mode() & 0o777, 0o700);
        private_directory(&deep).unwrap();
        std::fs::set_permissions(&deep, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(
            private_directory(&deep).unwrap_err().kind(),
            io::ErrorKind::PermissionDenied
        );
        let link = dir.path().join("l");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        assert!(private_directory(&link).is_err());
        std::fs::write(dir.path().join("f"), b"").unwrap();
        assert!(private_directory(&dir.path().join("f/g")).is_err());
    }

    #[test]
    fn faults_hit_the_operation_they_are_planned_for() {
        let dir = Dir::new();
        let path = dir.path().join("f");
        let file = create(&path, true).unwrap();
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
