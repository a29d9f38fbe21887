//! Child processes: one function runs them all, be it a tool's shell, curl or ourselves as an HTTP client. It feeds
//! them, reads them with bounded memory, watches an idle and a total clock, obeys Ctrl-C, and ends the whole process
//! group when it must.
#![allow(unsafe_code)]

use super::{signal, time};
use std::ffi::CString;
use std::io;

/// Descriptor on which a child reads [`Spawn::extra`].
pub const EXTRA_FD: i32 = 3;

/// How long a group gets between TERM and KILL, in ms.
const TERM_GRACE: u64 = 200;

/// Most a pipe can hold (Linux's limit for unprivileged processes), in bytes.
const PIPE_MAX: usize = 1 << 20;

/// What to start.
#[derive(Default)]
pub struct Spawn<'a> {
    /// Program and arguments. A program without a slash is looked up in PATH.
    pub argv: &'a [&'a [u8]],
    /// Variables set for the child, on top of ours.
    pub env: &'a [(&'a [u8], &'a [u8])],
    /// Names of our variables the child does not get.
    pub env_remove: &'a [&'a [u8]],
    /// Its working directory, if not ours.
    pub cwd: Option<&'a [u8]>,
    /// What it reads on standard input; `None` is /dev/null.
    pub stdin: Option<&'a [u8]>,
    /// What it reads on descriptor [`EXTRA_FD`]: a pipe, so that a secret is in no argument and no file.
    pub extra: Option<&'a [u8]>,
    /// Standard error goes into standard output's pipe, in order of arrival.
    pub merge_stderr: bool,
    /// The kernel kills the child when we die, however we die: nobody would read what it fetches.
    pub die_with_us: bool,
}

/// When to give up on a child, in ms. `None` is never.
#[derive(Clone, Copy, Default)]
pub struct Limits {
    /// Without a byte on its standard output. Standard error does not count: progress meters write there.
    pub idle: Option<u64>,
    /// Since its start.
    pub total: Option<u64>,
    /// After its exit, while something still holds its output open.
    pub linger: u64,
}

/// Which stream bytes came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// Standard output, and standard error when merged.
    Out,
    /// Standard error.
    Err,
}

/// How a child ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// Why the run is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The child ended and its output is complete.
    Finished,
    /// The child ended; something it started still holds its output open and lives on.
    Detached,
    /// [`Limits::idle`] passed.
    Idle,
    /// [`Limits::total`] passed.
    Total,
    /// Ctrl-C, SIGTERM or SIGHUP.
    Cancelled,
    /// The sink had enough.
    Stopped,
}

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// How the child ended.
    pub end: End,
    /// Why we stopped reading.
    pub cause: Cause,
}

/// What else goes on while we wait: a spinner, typed-ahead keys.
pub trait Watch {
    /// A descriptor to wait on too.
    fn fd(&self) -> Option<i32> {
        None
    }
    /// That descriptor is readable.
    fn ready(&mut self) {}
    /// Called at least every 100 ms when this returns true.
    fn tick(&mut self) -> bool {
        false
    }
    /// Takes the place of [`Limits::idle`] while it is there; asked before each wait.
    fn idle(&self) -> Option<u64> {
        None
    }
}

/// Nothing else goes on.
#[derive(Default)]
pub struct NoWatch;
impl Watch for NoWatch {}

struct Fd(i32);
impl Fd {
    fn close(&mut self) {
        if self.0 >= 0 {
            // SAFETY: the descriptor is ours and closed once.
            unsafe { libc::close(self.0) };
            self.0 = -1;
        }
    }
}
impl Drop for Fd {
    fn drop(&mut self) {
        self.close();
    }
}

/// A close-on-exec pipe: (read end, write end).
fn pipe() -> io::Result<(Fd, Fd)> {
    let mut fds = [0; 2];
    // SAFETY: room for two descriptors.
    if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((Fd(fds[0]), Fd(fds[1])))
}

fn nonblocking(fd: &Fd) {
    // SAFETY: plain fcntl on our descriptor.
    unsafe {
        let flags = libc::fcntl(fd.0, libc::F_GETFL);
        libc::fcntl(fd.0, libc::F_SETFL, flags | libc::O_NONBLOCK);
    }
}

fn c_string(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "a NUL byte in a program argument",
        )
    })
}

/// The full path of `program` by PATH, or itself when it has a slash. `None` when nothing executable is there.
pub fn find_program(program: &[u8]) -> Option<Vec<u8>> {
    let usable = |path: &[u8]| {
        // SAFETY: a NUL-terminated string.
        c_string(path).is_ok_and(|c| unsafe { libc::access(c.as_ptr(), libc::X_OK) == 0 })
    };
    if program.contains(&b'/') {
        return usable(program).then(|| program.to_vec());
    }
    let path = super::fs::env(b"PATH").unwrap_or_else(|| b"/usr/sbin:/usr/bin:/sbin:/bin".to_vec());
    path.split(|&b| b == b':')
        .map(|dir| [dir, b"/", program].concat())
        .find(|p| usable(p))
}

/// Runs a child to its end. `sink` gets its output as it comes and says whether to go on.
///
/// The child leads a session of its own, so it has no controlling terminal and can be ended with everything it started:
/// when a clock runs out, on Ctrl-C or when the sink has enough, its process group gets TERM and 200 ms later KILL.
///
/// # Errors
/// When the child can't be started (no such program, no such directory, no memory).
pub fn run(
    spawn: &Spawn,
    limits: Limits,
    watch: &mut dyn Watch,
    sink: &mut dyn FnMut(Stream, &[u8]) -> bool,
) -> io::Result<Outcome> {
    let mut child = start(spawn)?;
    let started = time::monotonic_ms();
    let mut last_byte = started;
    let mut exited: Option<(End, u64)> = None;
    let mut after_exit = 0;
    let mut buf = [0u8; 16 * 1024];
    let cause = loop {
        let now = time::monotonic_ms();
        if exited.is_none() {
            exited = child.reap(libc::WNOHANG).map(|end| (end, now));
        }
        let open = child.out.0 >= 0 || child.err.0 >= 0;
        let deadline = |since: u64, limit: Option<u64>| limit.map(|l| since.saturating_add(l));
        let (wake, why) = match exited {
            Some(_) if !open => break Cause::Finished,
            Some((_, at)) => (Some(at + limits.linger), Cause::Detached),
            None => match (
                deadline(last_byte, watch.idle().or(limits.idle)),
                deadline(started, limits.total),
            ) {
                (Some(idle), total) if total.is_none_or(|t| idle < t) => (Some(idle), Cause::Idle),
                (_, total) => (total, Cause::Total),
            },
        };
        let expired = wake.is_some_and(|w| now >= w);
        // What the child itself wrote is in the pipe and still to be read, however late we are.
        let leftover = expired && why == Cause::Detached && after_exit <= PIPE_MAX;
        if expired && !leftover {
            break why;
        }
        if signal::cancelled() {
            break Cause::Cancelled;
        }
        let mut wait = wake.map(|w| w.saturating_sub(now));
        if watch.tick() {
            wait = Some(wait.map_or(100, |w| w.min(100)));
        }
        let slot = |fd: i32, events| libc::pollfd {
            fd,
            events,
            revents: 0,
        };
        let mut fds = [
            slot(child.out.0, libc::POLLIN),
            slot(child.err.0, libc::POLLIN),
            slot(child.stdin.0, libc::POLLOUT),
            slot(child.extra.0, libc::POLLOUT),
            slot(watch.fd().unwrap_or(-1), libc::POLLIN),
        ];
        let ready = signal::wait(&mut fds, wait, &mut || {
            exited.is_none() && {
                exited = child.reap(libc::WNOHANG).map(|end| (end, now));
                exited.is_some()
            } || signal::cancelled()
        });
        if leftover && fds[0].revents == 0 && fds[1].revents == 0 {
            break why;
        }
        if !ready {
            continue;
        }
        if fds[4].revents != 0 {
            watch.ready();
        }
        if fds[2].revents != 0 {
            feed(&mut child.stdin, &mut child.stdin_left);
        }
        if fds[3].revents != 0 {
            feed(&mut child.extra, &mut child.extra_left);
        }
        let mut enough = false;
        // Standard error first: what a child said there before it wrote a body (a reply's head) is then known.
        for (i, stream) in [(1, Stream::Err), (0, Stream::Out)] {
            if fds[i].revents == 0 {
                continue;
            }
            let from = if i == 0 {
                &mut child.out
            } else {
                &mut child.err
            };
            // SAFETY: reads into our buffer.
            let n = unsafe { libc::read(from.0, buf.as_mut_ptr().cast(), buf.len()) };
            if n > 0 {
                if i == 0 {
                    last_byte = time::monotonic_ms();
                }
                if leftover {
                    after_exit += n as usize;
                }
                enough |= !sink(stream, &buf[..n as usize]);
            } else if n == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                from.close();
            }
        }
        if enough {
            break Cause::Stopped;
        }
    };
    let end = match exited {
        Some((end, _)) if cause != Cause::Stopped => end,
        _ => child.kill(),
    };
    Ok(Outcome { end, cause })
}

fn feed(fd: &mut Fd, left: &mut &[u8]) {
    // SAFETY: writes from a live slice.
    let n = unsafe { libc::write(fd.0, left.as_ptr().cast(), left.len()) };
    if n > 0 {
        *left = &left[(n as usize).min(left.len())..];
    }
    let again = n < 0
        && matches!(
            io::Error::last_os_error().kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
        );
    // A child that stops reading is its own affair: its exit status tells.
    if left.is_empty() || n < 0 && !again {
        fd.close();
    }
}

struct Child<'a> {
    pid: libc::pid_t,
    ended: Option<End>,
    out: Fd,
    err: Fd,
    stdin: Fd,
    stdin_left: &'a [u8],
    extra: Fd,
    extra_left: &'a [u8],
}

impl Child<'_> {
    fn reap(&mut self, flags: libc::c_int) -> Option<End> {
        if self.ended.is_none() {
            let mut status = 0;
            // SAFETY: waits for our own child.
            let got = unsafe { libc::waitpid(self.pid, &mut status, flags) };
            if got == self.pid {
                self.ended = Some(if libc::WIFSIGNALED(status) {
                    End::Signal(libc::WTERMSIG(status))
                } else {
                    End::Code(libc::WEXITSTATUS(status))
                });
            } else if got < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD) {
                self.ended = Some(End::Code(0));
            }
        }
        self.ended
    }

    /// Ends the whole group and waits for the child.
    fn kill(&mut self) -> End {
        // SAFETY: signals go to the group our child leads; its pid is not reaped yet or the group still holds it.
        unsafe { libc::kill(-self.pid, libc::SIGTERM) };
        let end = time::monotonic_ms() + TERM_GRACE;
        while self.reap(libc::WNOHANG).is_none() {
            let left = end.saturating_sub(time::monotonic_ms());
            if left == 0 {
                break;
            }
            // SIGCHLD ends the wait.
            signal::wait(&mut [], Some(left), &mut || {
                self.reap(libc::WNOHANG).is_some()
            });
        }
        // Members that outlive the leader (a trap, a slow flush) are ended as well.
        // SAFETY: as above.
        unsafe { libc::kill(-self.pid, libc::SIGKILL) };
        loop {
            if let Some(end) = self.reap(0) {
                return end;
            }
        }
    }
}

fn start<'a>(spawn: &Spawn<'a>) -> io::Result<Child<'a>> {
    let program = spawn.argv.first().copied().unwrap_or_default();
    let path = find_program(program).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
    let path = c_string(&path)?;
    let argv = spawn
        .argv
        .iter()
        .map(|a| c_string(a))
        .collect::<io::Result<Vec<_>>>()?;
    let env = environment(spawn)?;
    let pointers = |list: &[CString]| {
        let mut p: Vec<*const libc::c_char> = list.iter().map(|c| c.as_ptr()).collect();
        p.push(std::ptr::null());
        p
    };
    let (argv_p, env_p) = (pointers(&argv), pointers(&env));
    let cwd = spawn.cwd.map(c_string).transpose()?;

    let (out_r, out_w) = pipe()?;
    let (err_r, err_w) = if spawn.merge_stderr {
        (Fd(-1), Fd(-1))
    } else {
        pipe()?
    };
    let (in_r, in_w) = if spawn.stdin.is_some() {
        pipe()?
    } else {
        (Fd(-1), Fd(-1))
    };
    let (extra_r, extra_w) = if spawn.extra.is_some() {
        pipe()?
    } else {
        (Fd(-1), Fd(-1))
    };
    // The child reports a failed exec here; a successful one closes it.
    let (status_r, status_w) = pipe()?;

    // SAFETY: the program has one thread. The child calls only async-signal-safe functions before exec or _exit.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    if pid == 0 {
        // SAFETY: as above; all pointers were made before the fork.
        unsafe {
            let fail = |status: i32| -> ! {
                let code = *libc::__errno_location();
                libc::write(status, (&raw const code).cast(), 4);
                libc::_exit(127)
            };
            libc::setsid();
            if spawn.die_with_us {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            }
            signal::reset_in_child();
            // Our ends may sit on the very numbers 0..=3 (a caller may start us with those closed): first move all up.
            let up = |fd: i32| {
                if fd < 0 {
                    fd
                } else {
                    libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 10)
                }
            };
            let (i, o, e, x, s) = (
                up(in_r.0),
                up(out_w.0),
                up(err_w.0),
                up(extra_r.0),
                up(status_w.0),
            );
            let i = if i >= 0 {
                i
            } else {
                libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC)
            };
            let place = |from: i32, to: i32| {
                if from == to {
                    libc::fcntl(to, libc::F_SETFD, 0)
                } else {
                    libc::dup2(from, to)
                }
            };
            if place(i, 0) < 0 || place(o, 1) < 0 || place(if e >= 0 { e } else { o }, 2) < 0 {
                fail(s);
            }
            if x >= 0 && place(x, EXTRA_FD) < 0 {
                fail(s);
            }
            if let Some(cwd) = &cwd
                && libc::chdir(cwd.as_ptr()) != 0
            {
                fail(s);
            }
            libc::execve(path.as_ptr(), argv_p.as_ptr(), env_p.as_ptr());
            fail(s)
        }
    }
    drop((out_w, err_w, in_r, extra_r, status_w));
    let mut code = [0u8; 4];
    // SAFETY: reads at most four bytes; zero bytes mean exec worked.
    let failed = loop {
        let n = unsafe { libc::read(status_r.0, code.as_mut_ptr().cast(), 4) };
        if n >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            break n == 4;
        }
    };
    let mut child = Child {
        pid,
        ended: None,
        out: out_r,
        err: err_r,
        stdin: in_w,
        stdin_left: spawn.stdin.unwrap_or_default(),
        extra: extra_w,
        extra_left: spawn.extra.unwrap_or_default(),
    };
    if failed {
        child.reap(0);
        return Err(io::Error::from_raw_os_error(i32::from_ne_bytes(code)));
    }
    for fd in [&child.stdin, &child.extra] {
        if fd.0 >= 0 {
            nonblocking(fd);
        }
    }
    if child.stdin_left.is_empty() {
        child.stdin.close();
    }
    if child.extra_left.is_empty() {
        child.extra.close();
    }
    Ok(child)
}

fn environment(spawn: &Spawn) -> io::Result<Vec<CString>> {
    use std::os::unix::ffi::OsStrExt;
    let mut list = Vec::new();
    for (name, value) in std::env::vars_os() {
        let name = name.as_bytes();
        if !spawn.env_remove.contains(&name) && !spawn.env.iter().any(|(n, _)| *n == name) {
            list.push(c_string(&[name, b"=", value.as_bytes()].concat())?);
        }
    }
    for (name, value) in spawn.env {
        list.push(c_string(&[*name, b"=", *value].concat())?);
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limits: Limits) -> (Outcome, Vec<u8>) {
        signal::install();
        let mut got = Vec::new();
        let spawn = Spawn {
            argv: &[b"sh", b"-c", script.as_bytes()],
            merge_stderr: true,
            ..Spawn::default()
        };
        let outcome = run(&spawn, limits, &mut NoWatch, &mut |_, b| {
            got.extend_from_slice(b);
            true
        })
        .unwrap_or_else(|e| panic!("{e}"));
        (outcome, got)
    }

    #[test]
    fn output_in_order_and_exit_code() {
        let (o, got) = sh("echo a; echo b >&2; echo c; exit 7", Limits::default());
        assert_eq!(
            (o.end, o.cause, got),
            (End::Code(7), Cause::Finished, b"a\nb\nc\n".to_vec())
        );
    }

    #[test]
    fn killed_by_a_signal() {
        assert_eq!(sh("kill -9 $$", Limits::default()).0.end, End::Signal(9));
    }

    #[test]
    fn a_stubborn_group_ends_in_time() {
        let start = time::monotonic_ms();
        let script = "trap '' TERM; (trap '' TERM; sleep 60) & echo up; sleep 60";
        let (o, got) = sh(
            script,
            Limits {
                total: Some(300),
                ..Limits::default()
            },
        );
        assert_eq!((o.cause, got), (Cause::Total, b"up\n".to_vec()));
        assert!(time::monotonic_ms() - start < 3000);
    }

    #[test]
    fn a_background_child_does_not_hold_us() {
        let (o, got) = sh(
            "sleep 2 & echo x",
            Limits {
                linger: 50,
                ..Limits::default()
            },
        );
        assert_eq!(
            (o.cause, o.end, got),
            (Cause::Detached, End::Code(0), b"x\n".to_vec())
        );
    }

    #[test]
    fn feeds_stdin_and_the_extra_pipe() {
        signal::install();
        let big = vec![b'x'; 300_000];
        let spawn = Spawn {
            argv: &[b"sh", b"-c", b"wc -c; wc -c <&3"],
            stdin: Some(&big),
            extra: Some(b"secret"),
            ..Spawn::default()
        };
        let mut got = Vec::new();
        let o = run(&spawn, Limits::default(), &mut NoWatch, &mut |_, b| {
            got.extend_from_slice(b);
            true
        });
        assert!(o.is_ok_and(|o| o.end == End::Code(0)));
        assert_eq!(got, b"300000\n6\n");
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let spawn = Spawn {
            argv: &[b"/no/such/program"],
            ..Spawn::default()
        };
        let e = run(&spawn, Limits::default(), &mut NoWatch, &mut |_, _| true).err();
        assert_eq!(e.and_then(|e| e.raw_os_error()), Some(libc::ENOENT));
    }
}
