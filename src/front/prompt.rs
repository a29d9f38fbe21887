//! What the model is asked: the prompt, the files attached, and standard input by the rules of the command line.

use super::quiet::note;
use crate::sys::{fs, out, signal, time, tty};
use crate::text::{lossy, said};
use crate::tools::output::Collector;

/// Milliseconds of silence on a pipe before we say what we wait for.
const SAY_AFTER: u64 = 1_000;

/// What standard input is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stdin {
    /// A terminal.
    Tty,
    /// A regular file.
    File,
    /// A pipe, a fifo or a socket.
    Pipe,
    /// Closed, /dev/null or another device: never read.
    Nothing,
}

/// Finds out.
pub fn stdin_kind() -> Stdin {
    if tty::is_tty(0) {
        return Stdin::Tty;
    }
    match fs::stat_fd(0).map(|m| m.kind) {
        Ok(fs::Kind::File) => Stdin::File,
        Ok(fs::Kind::Fifo | fs::Kind::Socket) => Stdin::Pipe,
        _ => Stdin::Nothing,
    }
}

/// How reading an attachment ended.
pub enum Stopped {
    /// Ctrl-C or a signal.
    Interrupted,
    /// An error, as text.
    Failed(String),
}

/// Reads standard input to its end, or gives up when its first byte does not come in `wait` seconds (0: never).
///
/// # Errors
/// When interrupted or when reading fails.
pub fn read_stdin(kind: Stdin, wait: u64, keep: &mut Collector) -> Result<(), Stopped> {
    let started = time::monotonic_ms();
    let mut said = false;
    let mut any = false;
    let mut buf = [0; 16 * 1024];
    loop {
        if signal::cancelled() {
            return Err(Stopped::Interrupted);
        }
        let limit = if any || kind != Stdin::Pipe {
            None
        } else if !said {
            Some(SAY_AFTER)
        } else if wait == 0 {
            None
        } else {
            Some((started + wait * 1000).saturating_sub(time::monotonic_ms()))
        };
        let mut fds = [out::readable(0)];
        if !signal::wait(&mut fds, limit, &mut signal::cancelled) {
            let waited = time::monotonic_ms() - started;
            if !said && waited >= SAY_AFTER {
                said = true;
                note("", b"waiting for standard input, a pipe on which nothing came yet; </dev/null skips it");
            }
            if wait > 0 && waited >= wait * 1000 {
                note("warning: ", b"nothing came on standard input in time; going on without it (config: stdin_wait)");
                return Ok(());
            }
            continue;
        }
        match out::read(0, &mut buf) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                any = true;
                keep.push(&buf[..n]);
            }
            Err(e) => {
                return Err(Stopped::Failed(crate::text::said(
                    "standard input: %",
                    &[&fs::os_text(&e)],
                )));
            }
        }
    }
}

/// Reads the attached file `path` into `keep`.
///
/// # Errors
/// As text naming the file.
pub fn read_file(path: &[u8], keep: &mut Collector) -> Result<(), String> {
    let fail = |e: std::io::Error| said("%: %", &[&lossy(path), &fs::os_text(&e)]);
    if fs::is_dir(path) {
        return Err(said("% is a directory; -f takes files", &[&lossy(path)]));
    }
    let mut file = fs::File::open_waiting(path).map_err(fail)?;
    let mut buf = [0; 16 * 1024];
    loop {
        match file.read(&mut buf).map_err(fail)? {
            0 => return Ok(()),
            n => keep.push(&buf[..n]),
        }
    }
}

/// Appends an attachment to a prompt, between marks that name it.
pub fn attach(prompt: &mut Vec<u8>, name: &[u8], text: &[u8]) {
    if !prompt.is_empty() {
        prompt.extend_from_slice(b"\n\n");
    }
    prompt.extend_from_slice(b"--- begin ");
    prompt.extend_from_slice(name);
    prompt.extend_from_slice(b" ---\n");
    prompt.extend_from_slice(text);
    if !text.ends_with(b"\n") {
        prompt.push(b'\n');
    }
    prompt.extend_from_slice(b"--- end ");
    prompt.extend_from_slice(name);
    prompt.extend_from_slice(b" ---");
}
