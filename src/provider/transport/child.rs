//! What all transports share: a child that fetches, a head found in what it writes, clocks, and errors with their stage.

use super::{Error, Head, Job, Piece, Sink, TAIL_MS};
use crate::provider::Stage;
use crate::sys::process::{self, Cause, End, Limits, Spawn, Stream, Watch};
use crate::sys::time;
use std::cell::Cell;
use std::os::unix::ffi::OsStrExt;

/// A head longer than this is no head.
const MAX_HEAD: usize = 64 * 1024;

/// What is kept of a child's standard error: its beginning and its end.
const MAX_STDERR: usize = 16 * 1024;

/// 2024-01-01, in seconds since 1970: no device that runs this program lived before.
const CLOCK_FLOOR: u64 = 1_704_067_200;

/// Where the client writes the reply's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Heads {
    /// On standard output before the body (curl, ourselves).
    Stdout,
    /// On standard error, indented by two blanks (both wgets).
    Stderr,
    /// Nowhere: a body means status 200 (uclient-fetch).
    Implied,
}

/// What a child that ended by itself left behind.
pub(super) struct Ran {
    /// Its exit code; 128 + n when signal n ended it.
    pub code: i32,
    /// What it wrote on standard error, its middle cut out when it was long.
    pub stderr: Vec<u8>,
    /// The status it reported, 0 for none.
    pub status: u16,
    /// Where the reply stands: before its first byte, or in its body.
    pub stage: Stage,
}

impl Ran {
    /// The last line of standard error with `mark` in it; the last line that is not empty when there is none.
    pub fn line(&self, mark: &[u8]) -> String {
        let lines = || self.stderr.split(|b| b"\r\n".contains(b)).rev();
        let line = lines()
            .find(|l| memchr::memmem::find(l, mark).is_some())
            .or_else(|| lines().find(|l| !l.trim_ascii().is_empty()));
        String::from_utf8_lossy(line.unwrap_or_default().trim_ascii()).into_owned()
    }

    /// Whether standard error holds `text`.
    pub fn says(&self, text: &[u8]) -> bool {
        memchr::memmem::find(&self.stderr, text).is_some()
    }

    /// The exit code as a phrase, for children that ended without a word.
    pub fn ended(&self) -> String {
        if self.code > 128 {
            ["it was killed by signal ", &(self.code - 128).to_string()].concat()
        } else {
            ["it ended with code ", &self.code.to_string()].concat()
        }
    }
}

struct Reader<'a, 'b> {
    heads: Heads,
    sink: &'a mut Sink<'b>,
    stderr: Vec<u8>,
    /// Bytes of standard output that no head has come for yet.
    early: Vec<u8>,
    head: Option<Head>,
    body: u64,
    fault: Option<&'static str>,
}

impl Reader<'_, '_> {
    fn take(&mut self, stream: Stream, bytes: &[u8]) -> bool {
        if stream == Stream::Err {
            self.stderr.extend_from_slice(bytes);
            if let Some(cut) = self.stderr.len().checked_sub(MAX_STDERR) {
                self.stderr.drain(MAX_STDERR / 2..MAX_STDERR / 2 + cut);
            }
            return true;
        }
        if self.head.is_some() {
            return self.body(bytes);
        }
        self.early.extend_from_slice(bytes);
        if self.heads == Heads::Stdout {
            return self.head_on_stdout();
        }
        let head = match self.heads {
            Heads::Stderr => last_head(&self.stderr),
            _ => Some(Head {
                status: 200,
                headers: Vec::new(),
            }),
        };
        match head {
            Some(head) => self.begin(head),
            None => self.early.len() <= MAX_HEAD,
        }
    }

    /// Looks for a whole head in `early`. Interim ones (100 Continue, 103 Early Hints) are skipped.
    fn head_on_stdout(&mut self) -> bool {
        loop {
            let Some(len) = head_len(&self.early) else {
                let start = &self.early[..self.early.len().min(5)];
                if !b"HTTP/".starts_with(start) {
                    self.fault = Some("the reply is not HTTP");
                } else if self.early.len() > MAX_HEAD {
                    self.fault = Some("the reply's head is longer than 64 KiB");
                }
                return self.fault.is_none();
            };
            let Some(head) = parse_head(&self.early[..len]) else {
                self.fault = Some("the reply is not HTTP");
                return false;
            };
            self.early.drain(..len);
            if !matches!(head.status, 100 | 102..=199) {
                return self.begin(head);
            }
        }
    }

    fn begin(&mut self, head: Head) -> bool {
        let more = (self.sink)(Piece::Head(&head));
        self.head = Some(head);
        let early = std::mem::take(&mut self.early);
        more && self.body(&early)
    }

    fn body(&mut self, bytes: &[u8]) -> bool {
        self.body += bytes.len() as u64;
        bytes.is_empty() || (self.sink)(Piece::Body(bytes))
    }

    /// The announced length, when the body came out shorter.
    fn missing(&self) -> Option<u64> {
        let head = self.head.as_ref()?;
        if head.status == 204 || head.status == 304 || head.get("transfer-encoding").is_some() {
            return None;
        }
        let length = head.get("content-length")?.trim().parse().ok()?;
        (self.body < length).then_some(length)
    }
}

/// The caller's watch, with the shorter idle limit once the reply is complete in substance.
struct TailWatch<'a> {
    inner: &'a mut dyn Watch,
    tail: &'a Cell<bool>,
}

impl Watch for TailWatch<'_> {
    fn fd(&self) -> Option<i32> {
        self.inner.fd()
    }
    fn ready(&mut self) {
        self.inner.ready();
    }
    fn tick(&mut self) -> bool {
        self.inner.tick()
    }
    fn idle(&self) -> Option<u64> {
        if self.tail.get() {
            Some(TAIL_MS)
        } else {
            self.inner.idle()
        }
    }
}

/// Runs `spawn` and hands on the reply it writes. `None`: the caller has all it wanted.
///
/// # Errors
/// When the child can't be started, a clock ran out, the run was cancelled, or what came is no reply. What its exit code
/// means is left to the transport.
pub(super) fn run(
    spawn: &Spawn,
    heads: Heads,
    job: &Job,
    watch: &mut dyn Watch,
    sink: &mut Sink,
) -> Result<Option<Ran>, Error> {
    let hidden = hidden_variables();
    let hidden: Vec<&[u8]> = hidden.iter().map(Vec::as_slice).collect();
    let mut env = spawn.env.to_vec();
    // Messages are read by their English text.
    env.push((b"LC_ALL", b"C"));
    if let Some(proxy) = job.proxy {
        env.push((b"http_proxy", proxy));
    }
    let spawn = Spawn {
        argv: spawn.argv,
        env: &env,
        env_remove: &hidden,
        cwd: None,
        stdin: spawn.stdin,
        extra: spawn.extra,
        merge_stderr: false,
        die_with_us: true,
    };
    let limits = Limits {
        idle: Some(job.request.idle_ms).filter(|ms| *ms > 0),
        total: Some(job.total_ms).filter(|ms| *ms > 0),
        linger: 100,
    };
    let tail = job.request.tail;
    let mut reader = Reader {
        heads,
        sink,
        stderr: Vec::new(),
        early: Vec::new(),
        head: None,
        body: 0,
        fault: None,
    };
    let mut watch = TailWatch { inner: watch, tail };
    let outcome = process::run(&spawn, limits, &mut watch, &mut |stream, bytes| {
        reader.take(stream, bytes)
    });
    let outcome = outcome.map_err(|e| {
        let message = [
            "can't start ",
            &String::from_utf8_lossy(job.program),
            ": ",
            &e.to_string(),
        ];
        Error::fatal(Stage::Setup, message.concat())
    })?;
    let stage = match reader.head {
        Some(_) => Stage::Body,
        None => Stage::FirstByte,
    };
    if let Some(fault) = reader.fault {
        return Err(error(job, Stage::Status, false, fault));
    }
    match outcome.cause {
        Cause::Stopped => return Ok(None),
        Cause::Idle if tail.get() => return Ok(None),
        Cause::Idle => {
            let detail = silent("not a byte for ", job.request.idle_ms);
            return Err(error(job, stage, true, &detail));
        }
        Cause::Total => {
            let detail = silent("not complete within ", job.request.total_ms);
            return Err(error(job, stage, false, &detail));
        }
        Cause::Cancelled => {
            return Err(Error {
                stage,
                transient: false,
                cancelled: true,
                message: "cancelled".into(),
            });
        }
        Cause::Finished | Cause::Detached => {}
    }
    let code = match outcome.end {
        End::Code(code) => code,
        End::Signal(signal) => 128 + signal,
    };
    if heads == Heads::Stderr
        && reader.head.is_none()
        && let Some(head) = last_head(&reader.stderr)
        && !reader.begin(head)
    {
        return Ok(None);
    }
    if code == 0
        && let Some(length) = reader.missing()
    {
        let (came, all) = (reader.body.to_string(), length.to_string());
        let detail = ["only ", &came, " of ", &all, " bytes came"].concat();
        return Err(error(job, Stage::Body, true, &detail));
    }
    let head = reader.head.as_ref();
    Ok(Some(Ran {
        code,
        status: head.map_or(0, |h| h.status),
        stage: match head {
            Some(_) => Stage::Body,
            None => Stage::FirstByte,
        },
        stderr: reader.stderr,
    }))
}

fn silent(what: &str, ms: u64) -> String {
    let tenths = (ms % 1000) / 100;
    let seconds = (ms / 1000).to_string();
    if tenths == 0 {
        [what, &seconds, " s"].concat()
    } else {
        [what, &seconds, ".", &tenths.to_string(), " s"].concat()
    }
}

/// Our variables that hold keys (any `…API_KEY…`), and the one that would give minreq a clock of its own.
fn hidden_variables() -> Vec<Vec<u8>> {
    std::env::vars_os()
        .map(|(name, _)| name.as_bytes().to_vec())
        .filter(|n| memchr::memmem::find(n, b"API_KEY").is_some() || n == b"MINREQ_TIMEOUT")
        .collect()
}

/// An error whose message says which place failed at what, and for certificates on a device with a wrong clock, why.
pub(super) fn error(job: &Job, stage: Stage, transient: bool, detail: &str) -> Error {
    let place = job.url.place();
    let mut message = match stage {
        Stage::Setup => String::from_utf8_lossy(job.program).into_owned(),
        Stage::Lookup => ["can't find the address of ", &job.url.host].concat(),
        Stage::Connect => ["can't connect to ", &place].concat(),
        Stage::Tls => ["no safe TLS connection to ", &place].concat(),
        Stage::FirstByte => ["no reply from ", &place].concat(),
        Stage::Status => ["no usable reply from ", &place].concat(),
        Stage::Body => ["the reply of ", &place, " broke off"].concat(),
    };
    message.push_str(": ");
    message.push_str(detail);
    if stage == Stage::Tls {
        message.push_str(&clock_note(time::unix_seconds()));
    }
    Error {
        stage,
        transient,
        cancelled: false,
        message,
    }
}

/// What to say when the clock makes every certificate look invalid; empty when it does not.
fn clock_note(now: u64) -> String {
    if now >= CLOCK_FLOOR {
        return String::new();
    }
    let year = time::local(now).year.to_string();
    [
        "; the device's clock says ",
        &year,
        ", and no certificate is valid then: set it with `ntpd -q -n -p pool.ntp.org` or `date -s 'YYYY-MM-DD hh:mm:ss'`",
    ]
    .concat()
}

/// The length of the head at the start of `bytes`, its empty line included; `None` when it is not complete.
fn head_len(bytes: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'\n', bytes).find_map(|i| match bytes.get(i + 1..)? {
        [b'\n', ..] => Some(i + 2),
        [b'\r', b'\n', ..] => Some(i + 3),
        _ => None,
    })
}

/// Reads a head: a status line and header fields, lines ending in LF or CRLF, each maybe indented.
fn parse_head(text: &[u8]) -> Option<Head> {
    let mut lines = text.split(|&b| b == b'\n');
    let status = status_of(lines.next()?)?;
    let mut headers = Vec::new();
    for line in lines {
        if let Some(i) = memchr::memchr(b':', line) {
            let part = |b: &[u8]| String::from_utf8_lossy(b.trim_ascii()).into_owned();
            let name = part(&line[..i]).to_ascii_lowercase();
            headers.push((name, part(&line[i + 1..])));
        }
    }
    Some(Head { status, headers })
}

/// The status in a line such as `HTTP/1.1 200 OK`.
fn status_of(line: &[u8]) -> Option<u16> {
    let rest = line.trim_ascii().strip_prefix(b"HTTP/")?;
    let code = rest.split(|&b| b == b' ').nth(1)?;
    let code: u16 = std::str::from_utf8(code).ok()?.parse().ok()?;
    (100..1000).contains(&code).then_some(code)
}

/// The last head that wget wrote on standard error: a status line and fields, each line indented by two blanks.
fn last_head(stderr: &[u8]) -> Option<Head> {
    const MARK: &[u8] = b"  HTTP/";
    let start = memchr::memmem::rfind_iter(stderr, MARK)
        .find(|&i| i == 0 || stderr.get(i - 1) == Some(&b'\n'))?;
    let mut end = start;
    for line in stderr[start..].split_inclusive(|&b| b == b'\n') {
        if !line.starts_with(b"  ") || line.trim_ascii().is_empty() {
            break;
        }
        end += line.len();
    }
    parse_head(&stderr[start..end]).filter(|h| h.status >= 200)
}

/// A file that only we may read, gone when this value is.
pub(super) struct TempFile {
    /// Its path.
    pub path: Vec<u8>,
}

impl TempFile {
    /// Writes `content` to a new file under `TMPDIR` or /tmp.
    pub fn new(content: &[u8]) -> Result<TempFile, Error> {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let dir = crate::sys::fs::env(b"TMPDIR").unwrap_or_else(|| b"/tmp".to_vec());
        let complain = |e: std::io::Error| {
            let dir = String::from_utf8_lossy(&dir);
            let message = [
                "can't write a file for the request into ",
                &dir,
                ": ",
                &e.to_string(),
                " (TMPDIR chooses another directory)",
            ];
            Error::fatal(Stage::Setup, message.concat())
        };
        let mut n: u32 = 0;
        loop {
            let mut path = [&dir[..], b"/cluade-"].concat();
            crate::text::push_dec(&mut path, u64::from(std::process::id()));
            path.push(b'-');
            crate::text::push_dec(&mut path, u64::from(n));
            let file = std::fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(std::ffi::OsStr::from_bytes(&path));
            match file {
                Ok(mut file) => {
                    let temp = TempFile { path };
                    file.write_all(content).map_err(complain)?;
                    return Ok(temp);
                }
                // Somebody's leftover, or somebody's trap: both are left alone.
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && n < 1000 => n += 1,
                Err(e) => return Err(complain(e)),
            }
        }
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(std::ffi::OsStr::from_bytes(&self.path));
    }
}

/// Milliseconds as whole seconds for a client's option, at least 1, `more` added.
pub(super) fn seconds(ms: u64, more: u64) -> String {
    (ms / 1000).max(1).saturating_add(more).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(head: &Head) -> Vec<&str> {
        head.headers.iter().map(|(n, _)| n.as_str()).collect()
    }

    #[test]
    fn heads_are_read_in_every_spelling() {
        let text =
            b"HTTP/1.1 429 Too Many\r\nRetry-After:  7 \r\nX-\xff: \xff\r\nnonsense\r\n\r\nbody";
        let len = head_len(text).unwrap();
        assert_eq!(&text[len..], b"body");
        let head = parse_head(&text[..len]).unwrap();
        assert_eq!((head.status, head.get("retry-after")), (429, Some("7")));
        assert_eq!(head_len(b"HTTP/1.1 200 OK\nA: b\n\nx"), Some(22));
        assert_eq!(head_len(b"HTTP/1.1 200 OK\r\nA: b\r\n\r"), None);
        assert_eq!(parse_head(b"HTTP/2 200\r\n").unwrap().status, 200);
        for bad in [
            "",
            "HTTP/1.1",
            "HTTP/1.1 x",
            "HTTP/1.1 20",
            "HTTP/1.1 99999 x",
            "ICY 200 OK",
        ] {
            assert_eq!(parse_head(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn the_last_of_wgets_heads_counts() {
        let log = b"x  HTTP/1.1 500 no\n  HTTP/1.1 401 No\n  A: b\nRetry\n  HTTP/1.1 200 OK\n  C: d\n  \n  E: f\n";
        let head = last_head(log).unwrap();
        assert_eq!((head.status, names(&head)), (200, vec!["c"]));
        assert_eq!(last_head(b"  HTTP/1.1 103 Early\n  A: b\n"), None);
        assert_eq!(last_head(b"wget: server returned error"), None);
    }

    #[test]
    fn a_wrong_clock_is_named_with_its_remedy() {
        let note = clock_note(86_400 * 40);
        assert!(note.contains("1970") && note.contains("ntpd -q"), "{note}");
        assert_eq!(clock_note(CLOCK_FLOOR), "");
    }

    #[test]
    fn temporary_files_are_private_and_go_away() {
        use std::os::unix::fs::PermissionsExt;
        let (one, two) = (TempFile::new(b"a").unwrap(), TempFile::new(b"b").unwrap());
        let path = std::path::PathBuf::from(std::ffi::OsStr::from_bytes(&one.path));
        assert_ne!(one.path, two.path);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(one);
        assert!(!path.exists());
    }

    #[test]
    fn durations_for_people_and_options() {
        assert_eq!(silent("for ", 120_000), "for 120 s");
        assert_eq!(silent("for ", 1_500), "for 1.5 s");
        assert_eq!(
            (seconds(0, 2), seconds(90_400, 1)),
            ("3".into(), "91".into())
        );
    }
}
