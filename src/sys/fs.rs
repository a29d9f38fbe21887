//! Files: a thin layer in bytes over the system. Everything a tool does to a file goes through here, so that tests can
//! make the n-th call fail (see `fault`); [`super::replace`] builds safe replacement on top.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
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
    /// What `call` fills in.
    // The widths differ between machines.
    #[allow(clippy::unnecessary_cast)]
    fn of(call: &mut dyn FnMut(*mut libc::stat) -> libc::c_int) -> io::Result<Self> {
        // SAFETY: integers only, for which zero is a value.
        let mut m: libc::stat = unsafe { std::mem::zeroed() };
        if call(&raw mut m) != 0 {
            return Err(io::Error::last_os_error());
        }
        let kind = match m.st_mode & libc::S_IFMT {
            libc::S_IFREG => Kind::File,
            libc::S_IFDIR => Kind::Dir,
            libc::S_IFLNK => Kind::Link,
            libc::S_IFIFO => Kind::Fifo,
            libc::S_IFSOCK => Kind::Socket,
            _ => Kind::Device,
        };
        Ok(Meta {
            kind,
            size: m.st_size as u64,
            mode: m.st_mode as u32 & 0o7777,
            uid: m.st_uid,
            gid: m.st_gid,
            links: m.st_nlink as u64,
            mtime: (m.st_mtime as i64, m.st_mtime_nsec as i64),
            id: (m.st_dev as u64, m.st_ino as u64),
        })
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

/// The result of a system call on the path `p`.
#[inline(never)]
fn call(
    p: &[u8],
    f: &mut dyn FnMut(*const libc::c_char) -> libc::c_int,
) -> io::Result<libc::c_int> {
    let Ok(name) = CString::new(p) else {
        let text = "file name contained an unexpected NUL byte";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    };
    loop {
        let n = f(name.as_ptr());
        if n >= 0 {
            return Ok(n);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(error);
        }
    }
}

pub(crate) fn open(p: &[u8], flags: libc::c_int, mode: u32) -> io::Result<std::fs::File> {
    // SAFETY: a NUL-terminated string.
    let fd = call(p, &mut |name| unsafe {
        libc::open(name, flags | libc::O_CLOEXEC, mode)
    })?;
    // SAFETY: just opened, nobody else's.
    Ok(unsafe { std::fs::File::from_raw_fd(fd) })
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

fn look(
    p: &[u8],
    how: unsafe extern "C" fn(*const libc::c_char, *mut libc::stat) -> libc::c_int,
) -> io::Result<Meta> {
    let mut broken = None;
    let meta = Meta::of(&mut |m| {
        // SAFETY: a NUL-terminated string and room for the answer.
        let done = call(p, &mut |name| unsafe { how(name, m) });
        done.unwrap_or_else(|e| {
            broken = Some(e);
            -1
        })
    });
    match broken {
        Some(e) => Err(e),
        None => meta,
    }
}

/// What `path` names, links followed.
///
/// # Errors
/// The system's.
pub fn stat(p: &[u8]) -> io::Result<Meta> {
    look(p, libc::stat)
}

/// What `path` names, a link as itself.
///
/// # Errors
/// The system's.
pub fn lstat(p: &[u8]) -> io::Result<Meta> {
    look(p, libc::lstat)
}

/// What the descriptor `fd` is.
///
/// # Errors
/// The system's, when it is closed.
pub fn stat_fd(fd: i32) -> io::Result<Meta> {
    // SAFETY: any number will do, and there is room for the answer.
    Meta::of(&mut |m| unsafe { libc::fstat(fd, m) })
}

/// The text of a symbolic link.
///
/// # Errors
/// The system's; `InvalidInput` when it is no link.
pub fn read_link(p: &[u8]) -> io::Result<Vec<u8>> {
    let mut buf = [0u8; libc::PATH_MAX as usize];
    // SAFETY: a NUL-terminated string and room for as many bytes as said.
    let n = call(p, &mut |name| unsafe {
        libc::readlink(name, buf.as_mut_ptr().cast(), buf.len()) as libc::c_int
    })?;
    Ok(buf.get(..n as usize).unwrap_or_default().to_vec())
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
    let mut buf = [0u8; libc::PATH_MAX as usize];
    // SAFETY: a NUL-terminated string and the room realpath asks for.
    let done = call(p, &mut |name| unsafe {
        -libc::c_int::from(libc::realpath(name, buf.as_mut_ptr().cast()).is_null())
    });
    match CStr::from_bytes_until_nul(&buf) {
        Ok(real) if done.is_ok() => real.to_bytes().to_vec(),
        _ => p.to_vec(),
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

/// The first `limit` bytes of a file; pipes are waited for.
///
/// # Errors
/// The system's.
pub fn read_small(p: &[u8], limit: usize) -> io::Result<Vec<u8>> {
    let mut file = File::open_waiting(p)?;
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
    let old = stat(&target).ok();
    if old.is_none_or(|m| m.kind == Kind::File) {
        let mode = old.map_or(0o666, |m| m.mode);
        if let Ok((mut file, temporary)) =
            File::create_unique(parent(&target), b".cluade-out", mode)
        {
            let mut written = file.write(bytes);
            if written.is_ok() {
                written = rename(&temporary, &target);
            }
            if written.is_err() {
                let _ = remove(&temporary);
            }
            return written;
        }
    }
    // A directory we may not add to can still hold a file we may write.
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
    open(&target, flags, 0o666)?.write_all(bytes)
}

/// Whether this process may write to `p`, by its mode.
///
/// # Errors
/// The system's reason why not.
pub fn check_writable(p: &[u8]) -> io::Result<()> {
    // SAFETY: a NUL-terminated string.
    call(p, &mut |name| unsafe { libc::access(name, libc::W_OK) }).map(drop)
}

/// Bytes free for us on the filesystem that holds `p` (or, when it doesn't exist, its directory). `None` when unknown.
pub fn free_bytes(p: &[u8]) -> Option<u64> {
    let file = open(p, libc::O_RDONLY, 0).or_else(|_| open(parent(p), libc::O_RDONLY, 0));
    super::storage::free_bytes(&file.ok()?)
}

/// Removes a file.
///
/// # Errors
/// The system's.
pub fn remove(p: &[u8]) -> io::Result<()> {
    gate(Op::Remove)?;
    // SAFETY: a NUL-terminated string.
    call(p, &mut |name| unsafe { libc::unlink(name) }).map(drop)
}

/// Gives `from` the name `to`, in place of what had it.
///
/// # Errors
/// The system's.
pub fn rename(from: &[u8], to: &[u8]) -> io::Result<()> {
    gate(Op::Rename)?;
    let mut failed = None;
    call(from, &mut |from| {
        // SAFETY: NUL-terminated strings.
        call(to, &mut |to| unsafe { libc::rename(from, to) }).unwrap_or_else(|e| {
            failed = Some(e);
            0
        })
    })?;
    failed.map_or(Ok(()), Err)
}

pub(super) fn make_dir(p: &[u8], mode: u32) -> io::Result<()> {
    gate(Op::Mkdir)?;
    // SAFETY: a NUL-terminated string.
    call(p, &mut |name| unsafe {
        libc::mkdir(name, mode as libc::mode_t)
    })
    .map(drop)
}

/// Makes `dir` and the directories above it. Returns how many bytes of `dir` name the outermost that was made, more than
/// it has when none was.
///
/// # Errors
/// The system's, after removing again what was made.
pub fn make_dirs(dir: &[u8]) -> io::Result<usize> {
    let mut top = usize::MAX;
    let mut made = make_dir(dir, 0o777);
    let up = parent(dir);
    if made
        .as_ref()
        .is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
        && up.len() < dir.len()
    {
        top = make_dirs(up)?;
        made = make_dir(dir, 0o777);
    }
    match made {
        Ok(()) => Ok(top.min(dir.len())),
        // Also when another process was faster.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(top),
        Err(e) => {
            remove_dirs(up, top);
            Err(e)
        }
    }
}

/// Removes the directories for `dir` that [`make_dirs`] made, as far as they are empty.
pub fn remove_dirs(mut dir: &[u8], top: usize) {
    // SAFETY: a NUL-terminated string.
    while dir.len() >= top && call(dir, &mut |name| unsafe { libc::rmdir(name) }).is_ok() {
        dir = parent(dir);
    }
}

/// Replaces the file `p` by one with `bytes` that the user alone may read, written beside it as `stem` and something.
///
/// # Errors
/// The system's; the old file is untouched then.
pub fn replace_private(p: &[u8], stem: &[u8], bytes: &[u8]) -> io::Result<()> {
    let (mut file, temporary) = File::create_unique(parent(p), stem, 0o600)?;
    let written = file.write(bytes).and_then(|()| file.sync());
    let result = written.and_then(|()| rename(&temporary, p));
    if result.is_err() {
        let _ = remove(&temporary);
    }
    result
}

/// Makes sure `dir` is a directory of ours that nobody else can read; for scratch space under a shared /tmp.
///
/// # Errors
/// The system's; `PermissionDenied` when something else has that name.
pub fn private_dir(dir: &[u8]) -> io::Result<()> {
    let mut made = make_dir(dir, 0o700);
    if made
        .as_ref()
        .is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
    {
        make_dirs(parent(dir))?;
        made = make_dir(dir, 0o700);
    }
    if made
        .as_ref()
        .is_err_and(|e| e.kind() == io::ErrorKind::AlreadyExists)
    {
        let meta = lstat(dir)?;
        // SAFETY: no arguments, can't fail.
        if meta.kind != Kind::Dir || meta.uid != unsafe { libc::geteuid() } {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        return Ok(());
    }
    made
}

/// An open file.
pub struct File {
    inner: std::fs::File,
}

impl File {
    /// Never takes a terminal.
    fn open_with(p: &[u8], flags: libc::c_int) -> io::Result<File> {
        gate(Op::Open)?;
        let inner = open(p, flags | libc::O_NOCTTY, 0)?;
        Ok(File { inner })
    }

    /// Opens for reading, and waits for what a pipe has to say: for files the user names.
    ///
    /// # Errors
    /// The system's.
    pub fn open_waiting(p: &[u8]) -> io::Result<File> {
        File::open_with(p, libc::O_RDONLY)
    }

    /// Opens for reading.
    ///
    /// # Errors
    /// The system's.
    pub fn open(p: &[u8]) -> io::Result<File> {
        // Never waits for the other end of a fifo.
        File::open_with(p, libc::O_RDONLY | libc::O_NONBLOCK)
    }

    /// Opens for reading and writing, leaving the content.
    ///
    /// # Errors
    /// The system's.
    pub fn open_rw(p: &[u8]) -> io::Result<File> {
        File::open_with(p, libc::O_RDWR | libc::O_NONBLOCK)
    }

    /// Creates a file that was not there. The mode is cut by the umask.
    ///
    /// # Errors
    /// The system's; `AlreadyExists`.
    pub fn create_new(p: &[u8], mode: u32) -> io::Result<File> {
        gate(Op::Create)?;
        let inner = open(p, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, mode)?;
        Ok(File { inner })
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
        stat_fd(self.inner.as_raw_fd())
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

    /// Gives it the owner and mode in `meta`.
    ///
    /// # Errors
    /// The system's.
    pub fn give_owner_and_mode(&mut self, meta: &Meta) -> io::Result<()> {
        gate(Op::Change)?;
        let fd = self.inner.as_raw_fd();
        // In this order, because chown clears set-user-id bits.
        // SAFETY: a descriptor of ours.
        let done = unsafe {
            libc::fchown(fd, meta.uid, meta.gid) == 0
                && libc::fchmod(fd, meta.mode as libc::mode_t) == 0
        };
        if done {
            return Ok(());
        }
        Err(io::Error::last_os_error())
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
