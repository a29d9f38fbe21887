//! Files: a thin layer in bytes over the system. Everything a tool does to a file goes through here, so that tests can
//! make the n-th call fail (see `fault`); [`super::replace`] builds safe replacement on top.
#![allow(unsafe_code)]

use std::ffi::{CString, OsStr};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The environment variable `name`, when it is set and not empty.
pub fn env(name: &[u8]) -> Option<Vec<u8>> {
    let value = std::env::var_os(OsStr::from_bytes(name))?;
    (!value.is_empty()).then(|| value.as_bytes().to_vec())
}

/// The kinds of calls, for tests that make one of them fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Opening a file that is there.
    Open,
    /// Creating a file.
    Create,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Flushing to the medium.
    Sync,
    /// Changing length, mode or owner.
    Change,
    /// Renaming.
    Rename,
    /// Removing.
    Remove,
    /// Making a directory.
    Mkdir,
}

/// Where a test makes calls fail; nothing in a program that isn't a test.
#[inline(always)]
fn gate(_op: Op) -> io::Result<()> {
    #[cfg(test)]
    fault::check(_op)?;
    Ok(())
}

/// What a path names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link (only from [`lstat`]).
    Link,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character or block device.
    Device,
}

/// What the system knows of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meta {
    /// What it is.
    pub kind: Kind,
    /// Bytes; 0 for the files of /proc and many of /sys, whatever reading them gives.
    pub size: u64,
    /// Permission bits, `0o7777` at most.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names it has.
    pub links: u64,
    /// Last change of the content: seconds and nanoseconds.
    pub mtime: (i64, i64),
    /// Device and inode: which file it is, whatever its name.
    pub id: (u64, u64),
}

impl Meta {
    fn new(m: &std::fs::Metadata) -> Self {
        let t = m.file_type();
        let kind = if t.is_file() {
            Kind::File
        } else if t.is_dir() {
            Kind::Dir
        } else if t.is_symlink() {
            Kind::Link
        } else if t.is_fifo() {
            Kind::Fifo
        } else if t.is_socket() {
            Kind::Socket
        } else {
            Kind::Device
        };
        Meta {
            kind,
            size: m.size(),
            mode: m.mode() & 0o7777,
            uid: m.uid(),
            gid: m.gid(),
            links: m.nlink(),
            mtime: (m.mtime(), m.mtime_nsec()),
            id: (m.dev(), m.ino()),
        }
    }

    /// Whether this is the same file in the same state as `other`: identity, size and time of the last change.
    pub fn same_state(&self, other: &Meta) -> bool {
        self.id == other.id && self.size == other.size && self.mtime == other.mtime
    }
}

/// Bytes as a path of the standard library.
pub fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// The directory part of `path`: `/` for what is in the root, `.` for a bare name.
pub fn parent(path: &[u8]) -> &[u8] {
    match memchr::memrchr(b'/', path) {
        Some(0) => b"/",
        Some(i) => path.get(..i).unwrap_or(path),
        None => b".",
    }
}

/// `name` inside `dir`; `name` itself when it is absolute.
pub fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if name.first() == Some(&b'/') || dir.is_empty() {
        return name.to_vec();
    }
    let slash: &[u8] = if dir.last() == Some(&b'/') { b"" } else { b"/" };
    [dir, slash, name].concat()
}

/// The system's text for an error, without the number Rust appends.
pub fn os_text(error: &io::Error) -> String {
    let mut text = error.to_string();
    if let Some(i) = text.find(" (os error") {
        text.truncate(i);
    }
    text
}

/// What `path` names, links followed.
///
/// # Errors
/// The system's.
pub fn stat(p: &[u8]) -> io::Result<Meta> {
    std::fs::metadata(path(p)).map(|m| Meta::new(&m))
}

/// What `path` names, a link as itself.
///
/// # Errors
/// The system's.
pub fn lstat(p: &[u8]) -> io::Result<Meta> {
    std::fs::symlink_metadata(path(p)).map(|m| Meta::new(&m))
}

/// The text of a symbolic link.
///
/// # Errors
/// The system's; `InvalidInput` when it is no link.
pub fn read_link(p: &[u8]) -> io::Result<Vec<u8>> {
    Ok(std::fs::read_link(path(p))?.into_os_string().into_vec())
}

/// Follows the symbolic links `p` itself may be to the name of the real file, which need not exist. Links among its
/// directories are left to the system.
///
/// # Errors
/// ELOOP after 40 links.
pub fn resolve(p: &[u8]) -> io::Result<Vec<u8>> {
    let mut name = p.to_vec();
    for _ in 0..40 {
        match read_link(&name) {
            Ok(target) => name = join(parent(&name), &target),
            Err(_) => return Ok(name),
        }
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

/// One name for a file that exists, whatever links and dots lead to it; `p` itself when it doesn't.
pub fn canonical(p: &[u8]) -> Vec<u8> {
    match std::fs::canonicalize(path(p)) {
        Ok(real) => real.into_os_string().into_vec(),
        Err(_) => p.to_vec(),
    }
}

/// Whether `p` names a directory, links followed.
pub fn is_dir(p: &[u8]) -> bool {
    stat(p).is_ok_and(|m| m.kind == Kind::Dir)
}

/// Whether `p` names a regular file, links followed.
pub fn is_file(p: &[u8]) -> bool {
    stat(p).is_ok_and(|m| m.kind == Kind::File)
}

/// Whether something is at `p`.
pub fn exists(p: &[u8]) -> bool {
    lstat(p).is_ok()
}

/// The first `limit` bytes of a file.
///
/// # Errors
/// The system's.
pub fn read_small(p: &[u8], limit: usize) -> io::Result<Vec<u8>> {
    let mut file = File::open(p)?;
    let mut out = Vec::new();
    let mut buf = [0; 4096];
    while out.len() < limit {
        match file.read(&mut buf)? {
            0 => break,
            n => out.extend_from_slice(&buf[..n.min(limit - out.len())]),
        }
    }
    Ok(out)
}

/// The file a write to `p` would change, which need not exist: links and dots resolved.
pub fn real_target(p: &[u8]) -> Vec<u8> {
    let target = resolve(p).unwrap_or_else(|_| p.to_vec());
    let name = target.rsplit(|&b| b == b'/').next().unwrap_or_default();
    if matches!(name, b"" | b"." | b"..") {
        return canonical(&target);
    }
    join(&canonical(parent(&target)), name)
}

/// Writes a user's output file: a regular one is replaced as a whole, anything else (a fifo, /dev/stderr) is written to.
///
/// # Errors
/// The system's.
pub fn write_output(p: &[u8], bytes: &[u8]) -> io::Result<()> {
    let target = resolve(p)?;
    let mode = match stat(&target) {
        Ok(m) if m.kind != Kind::File => {
            return std::fs::OpenOptions::new()
                .write(true)
                .open(path(&target))
                .and_then(|mut f| io::Write::write_all(&mut f, bytes));
        }
        Ok(m) => m.mode,
        Err(_) => 0o666,
    };
    match File::create_unique(parent(&target), b".cluade-out", mode) {
        Ok((mut file, temporary)) => {
            let written = file.write(bytes).and_then(|()| rename(&temporary, &target));
            if written.is_err() {
                let _ = remove(&temporary);
            }
            written
        }
        // A directory we may not add to can still hold a file we may write.
        Err(_) => std::fs::write(path(&target), bytes),
    }
}

/// Whether this process may write to `p`, by its mode.
///
/// # Errors
/// The system's reason why not.
pub fn check_writable(p: &[u8]) -> io::Result<()> {
    let name = CString::new(p).map_err(io::Error::from)?;
    // SAFETY: a NUL-terminated string.
    if unsafe { libc::access(name.as_ptr(), libc::W_OK) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

/// Bytes free for us on the filesystem that holds `p` (or, when it doesn't exist, its directory). `None` when unknown.
#[allow(clippy::unnecessary_cast)] // the fields' widths differ between targets
pub fn free_bytes(p: &[u8]) -> Option<u64> {
    [p, parent(p)].into_iter().find_map(|p| {
        let name = CString::new(p).ok()?;
        // SAFETY: an all-zero statvfs is a valid value, filled in by the call when it returns 0.
        let mut info: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: a NUL-terminated string and a live struct.
        let done = unsafe { libc::statvfs(name.as_ptr(), &mut info) } == 0;
        done.then(|| (info.f_bavail as u64).saturating_mul(info.f_frsize as u64))
    })
}

/// Removes a file.
///
/// # Errors
/// The system's.
pub fn remove(p: &[u8]) -> io::Result<()> {
    gate(Op::Remove)?;
    std::fs::remove_file(path(p))
}

/// Gives `from` the name `to`, in place of what had it.
///
/// # Errors
/// The system's.
pub fn rename(from: &[u8], to: &[u8]) -> io::Result<()> {
    gate(Op::Rename)?;
    std::fs::rename(path(from), path(to))
}

/// Removes an empty directory.
///
/// # Errors
/// The system's.
pub fn remove_dir(p: &[u8]) -> io::Result<()> {
    std::fs::remove_dir(path(p))
}

/// Makes `dir` and the directories above it; returns those that were made, outermost first.
///
/// # Errors
/// The system's, after removing again what was made.
pub fn make_dirs(dir: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut missing = Vec::new();
    let mut at = dir;
    while at != b"/" && at != b"." && stat(at).is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
        missing.push(at.to_vec());
        at = parent(at);
    }
    let mut made = Vec::new();
    while let Some(dir) = missing.pop() {
        let result = gate(Op::Mkdir).and_then(|()| std::fs::create_dir(path(&dir)));
        match result {
            Ok(()) => made.push(dir),
            // Another process was faster, or the path says `..` and the directory is there by now.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => {
                remove_dirs(&made);
                return Err(e);
            }
        }
    }
    Ok(made)
}

/// Removes the directories [`make_dirs`] made, as far as they are empty.
pub fn remove_dirs(made: &[Vec<u8>]) {
    for dir in made.iter().rev() {
        let _ = remove_dir(dir);
    }
}

/// Makes sure `dir` is a directory of ours that nobody else can read; for scratch space under a shared /tmp.
///
/// # Errors
/// The system's; `PermissionDenied` when something else has that name.
pub fn private_dir(dir: &[u8]) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.mode(0o700);
    match gate(Op::Mkdir).and_then(|()| builder.create(path(dir))) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            make_dirs(parent(dir))?;
            builder.create(path(dir))
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            let meta = lstat(dir)?;
            // SAFETY: no arguments, can't fail.
            let me = unsafe { libc::geteuid() };
            if meta.kind == Kind::Dir && meta.uid == me {
                return Ok(());
            }
            Err(io::ErrorKind::PermissionDenied.into())
        }
        other => other,
    }
}

/// An open file.
pub struct File {
    inner: std::fs::File,
}

impl File {
    fn open_with(p: &[u8], write: bool) -> io::Result<File> {
        gate(Op::Open)?;
        let mut options = std::fs::OpenOptions::new();
        options
            .read(true)
            .write(write)
            // Never wait for the other end of a fifo, never take a terminal.
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        Ok(File {
            inner: options.open(path(p))?,
        })
    }

    /// Opens for reading.
    ///
    /// # Errors
    /// The system's.
    pub fn open(p: &[u8]) -> io::Result<File> {
        File::open_with(p, false)
    }

    /// Opens for reading and writing, leaving the content.
    ///
    /// # Errors
    /// The system's.
    pub fn open_rw(p: &[u8]) -> io::Result<File> {
        File::open_with(p, true)
    }

    /// Creates a file that was not there. The mode is cut by the umask.
    ///
    /// # Errors
    /// The system's; `AlreadyExists`.
    pub fn create_new(p: &[u8], mode: u32) -> io::Result<File> {
        gate(Op::Create)?;
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(mode);
        Ok(File {
            inner: options.open(path(p))?,
        })
    }

    /// Creates a file of a name not in use in `dir`: `stem`, this process's number and a counter. Returns it with its
    /// path.
    ///
    /// # Errors
    /// The system's.
    pub fn create_unique(dir: &[u8], stem: &[u8], mode: u32) -> io::Result<(File, Vec<u8>)> {
        static COUNTER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let mut tries = 0;
        loop {
            let n = COUNTER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let mut name = stem.to_vec();
            crate::text::push_dec(&mut name, u64::from(std::process::id()));
            name.push(b'-');
            crate::text::push_dec(&mut name, u64::from(n));
            let p = join(dir, &name);
            match File::create_new(&p, mode) {
                // Left by a process that was killed.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && tries < 1000 => tries += 1,
                Err(e) => return Err(e),
                Ok(file) => return Ok((file, p)),
            }
        }
    }

    /// What the system knows of it.
    ///
    /// # Errors
    /// The system's.
    pub fn meta(&self) -> io::Result<Meta> {
        self.inner.metadata().map(|m| Meta::new(&m))
    }

    /// Reads until `buf` is full or the file ends. A file that would make us wait (/proc/kmsg) counts as ended.
    ///
    /// # Errors
    /// The system's.
    pub fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        gate(Op::Read)?;
        let mut n = 0;
        while let Some(room) = buf.get_mut(n..)
            && !room.is_empty()
        {
            match self.inner.read(room) {
                Ok(0) => break,
                Ok(more) => n += more,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        Ok(n)
    }

    /// Gives all that is left to `take`, piece by piece.
    ///
    /// # Errors
    /// The system's and those of `take`.
    pub fn each_chunk(&mut self, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut buf = vec![0; 32 * 1024];
        loop {
            let n = self.read(&mut buf)?;
            if n == 0 {
                return Ok(());
            }
            take(buf.get(..n).unwrap_or_default())?;
        }
    }

    /// Writes all of `bytes` at the current position.
    ///
    /// # Errors
    /// The system's; part may have been written.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Err(e) = gate(Op::Write) {
            // A full disk takes what fits before it says so.
            let _ = self
                .inner
                .write_all(bytes.get(..bytes.len() / 2).unwrap_or_default());
            return Err(e);
        }
        self.inner.write_all(bytes)
    }

    /// Goes to byte `position`.
    ///
    /// # Errors
    /// The system's.
    pub fn seek(&mut self, position: u64) -> io::Result<()> {
        self.inner.seek(io::SeekFrom::Start(position)).map(|_| ())
    }

    /// The current position.
    ///
    /// # Errors
    /// The system's.
    pub fn position(&mut self) -> io::Result<u64> {
        self.inner.stream_position()
    }

    /// Cuts or extends the file to `len` bytes.
    ///
    /// # Errors
    /// The system's.
    pub fn set_len(&mut self, len: u64) -> io::Result<()> {
        gate(Op::Change)?;
        self.inner.set_len(len)
    }

    /// Flushes the content to the medium. Filesystems that have none (/proc) are no error.
    ///
    /// # Errors
    /// The system's.
    pub fn sync(&mut self) -> io::Result<()> {
        gate(Op::Sync)?;
        match self.inner.sync_all() {
            Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::EROFS)) => Ok(()),
            other => other,
        }
    }

    /// Gives it the owner, mode and, as far as the system lets us, the extended attributes of `from`.
    ///
    /// # Errors
    /// The system's, when owner or mode can't be given.
    pub fn take_owner_and_mode(&mut self, from: &File) -> io::Result<()> {
        gate(Op::Change)?;
        let (ours, theirs) = (self.meta()?, from.meta()?);
        let (fd, from) = (self.inner.as_raw_fd(), from.inner.as_raw_fd());
        if (ours.uid, ours.gid) != (theirs.uid, theirs.gid) {
            // SAFETY: a descriptor of ours.
            if unsafe { libc::fchown(fd, theirs.uid, theirs.gid) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        copy_xattrs(from, fd);
        // After chown, which clears set-user-id bits; after ACLs, which change the group bits.
        // SAFETY: a descriptor of ours.
        if unsafe { libc::fchmod(fd, theirs.mode as libc::mode_t) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// Copies extended attributes (ACLs, capabilities, labels) of up to 4 KiB, those that can be copied.
fn copy_xattrs(from: i32, to: i32) {
    let mut names = [0u8; 1024];
    // SAFETY: a descriptor of ours and room for as many bytes as said.
    let n = unsafe { libc::flistxattr(from, names.as_mut_ptr().cast(), names.len()) };
    let Some(names) = usize::try_from(n).ok().and_then(|n| names.get(..n)) else {
        return;
    };
    let mut value = [0u8; 4096];
    for name in names.split_inclusive(|&b| b == 0) {
        let Ok(name) = std::ffi::CStr::from_bytes_with_nul(name) else {
            continue;
        };
        // SAFETY: as above, with a NUL-terminated name.
        let n =
            unsafe { libc::fgetxattr(from, name.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
        if let Some(value) = usize::try_from(n).ok().and_then(|n| value.get(..n)) {
            // SAFETY: pointer and length of a live slice, a NUL-terminated name.
            unsafe {
                libc::fsetxattr(to, name.as_ptr(), value.as_ptr().cast(), value.len(), 0);
            }
        }
    }
}

/// Makes calls of this layer fail on demand, per thread.
#[cfg(test)]
pub mod fault {
    use super::Op;
    use std::cell::RefCell;
    use std::io;

    /// Which calls fail.
    #[derive(Clone, Copy)]
    pub struct Plan {
        /// The n-th of the calls looked at fails, from 1.
        pub at: u32,
        /// Only these calls are looked at; none means all but removing.
        pub only: Option<Op>,
        /// With this error number.
        pub errno: i32,
        /// And so does every call after it, removing included: power is gone.
        pub forever: bool,
    }

    thread_local! {
        static PLAN: RefCell<(Option<Plan>, u32)> = const { RefCell::new((None, 0)) };
    }

    /// Runs `f` under `plan` and returns its result and whether a call failed.
    pub fn during<T>(plan: Plan, f: impl FnOnce() -> T) -> (T, bool) {
        PLAN.set((Some(plan), 0));
        let result = f();
        let (_, seen) = PLAN.replace((None, 0));
        (result, seen >= plan.at)
    }

    pub(super) fn check(op: Op) -> io::Result<()> {
        PLAN.with_borrow_mut(|(plan, seen)| {
            let Some(plan) = *plan else { return Ok(()) };
            let dead = plan.forever && *seen >= plan.at;
            if dead || plan.only.map_or(op != Op::Remove, |only| only == op) {
                *seen += 1;
                if dead || *seen == plan.at {
                    return Err(io::Error::from_raw_os_error(plan.errno));
                }
            }
            Ok(())
        })
    }
}
