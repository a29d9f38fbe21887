//! What all transports share: a child that fetches, a head found in what it writes, clocks, and errors with their stage.

use super::{Error, Head, Job, Piece, Sink, TAIL_MS};
use crate::json::value::decimal;
use crate::provider::Stage;
use crate::provider::attempt::duration;
use crate::sys::process::{self, Cause, End, Limits, Spawn, Stream, Watch};
use crate::sys::{fs, time};
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
    /// The status it reported, 0 before a head came.
    pub status: u16,
}

impl Ran {
    /// The last line of standard error with `mark` in it; the last line that is not empty when there is none.
    pub fn line(&self, mark: &str) -> String {
        let (mut marked, mut last) = (&b""[..], &b""[..]);
        for line in self.stderr.split(|&b| b == b'\n' || b == b'\r') {
            let line = line.trim_ascii();
            if !line.is_empty() {
                last = line;
                if memchr::memmem::find(line, mark.as_bytes()).is_some() {
                    marked = line;
                }
            }
        }
        owned(if marked.is_empty() { last } else { marked })
    }

    /// The exit code as a phrase, for children that ended without a word.
    pub fn ended(&self) -> String {
        let code = u64::from(self.code.unsigned_abs());
        phrase("it ended with code ", code, "")
    }
}

/// `before`, a number, `after`.
fn phrase(before: &str, n: u64, after: &str) -> String {
    [before, &crate::provider::attempt::dec(n), after].concat()
}

/// Bytes from outside as a string.
pub(in crate::provider) fn owned(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

struct Reader<'a, 'b> {
    heads: Heads,
    sink: &'a mut Sink<'b>,
    stderr: Vec<u8>,
    /// Bytes of standard output that no head has come for yet.
    early: Vec<u8>,
    /// Its status is 0 until it came.
    head: Head,
    body: u64,
    fault: bool,
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
        if self.head.status != 0 {
            return self.body(bytes);
        }
        self.early.extend_from_slice(bytes);
        match self.heads {
            Heads::Stderr => self.last_head(),
            Heads::Implied => {
                self.head.status = 200;
                self.begin(0)
            }
            Heads::Stdout => match read_head(&self.early, b"", &mut self.head) {
                Some(len) => self.begin(len),
                None => {
                    let start = self.early.get(..5).unwrap_or(&self.early);
                    self.fault = !b"HTTP/".starts_with(start) || self.early.len() > MAX_HEAD;
                    !self.fault
                }
            },
        }
    }

    /// Looks for the head that wget wrote last on standard error.
    fn last_head(&mut self) -> bool {
        read_head(&self.stderr, b"  ", &mut self.head);
        if self.head.status >= 200 {
            return self.begin(0);
        }
        self.head.status = 0;
        self.early.len() <= MAX_HEAD
    }

    /// The head has come, of which `len` bytes stand before the body.
    fn begin(&mut self, len: usize) -> bool {
        let early = std::mem::take(&mut self.early);
        self.fault = self.head.status == 0;
        !self.fault
            && (self.sink)(Piece::Head(&self.head))
            && self.body(early.get(len..).unwrap_or_default())
    }

    fn body(&mut self, bytes: &[u8]) -> bool {
        self.body += bytes.len() as u64;
        bytes.is_empty() || (self.sink)(Piece::Body(bytes))
    }

    /// The announced length, when the body came out shorter.
    fn missing(&self) -> Option<u64> {
        let head = &self.head;
        if matches!(head.status, 0 | 204 | 304) || head.get("transfer-encoding").is_some() {
            return None;
        }
        let length = decimal(head.get("content-length")?.as_bytes(), 0)?;
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

/// Runs `argv` with `input` on its standard input and hands on the reply it writes. With an input it also gets the body of
/// a POST, on [`process::EXTRA_FD`]. `None`: the caller has all it wanted.
///
/// # Errors
/// When the child can't be started, a clock ran out, the run was cancelled, or what came is no reply. What its exit code
/// means is left to the caller.
pub(super) fn run(
    job: &Job,
    argv: &[&[u8]],
    input: Option<&[u8]>,
    heads: Heads,
    watch: &mut dyn Watch,
    sink: &mut Sink,
) -> Result<Option<Ran>, Error> {
    let request = job.request;
    // Variables that hold keys (any `…API_KEY…`), and the one that would give minreq a clock of its own.
    let mut hidden = Vec::new();
    for (name, _) in std::env::vars_os() {
        let bytes = name.as_bytes();
        if memchr::memmem::find(bytes, b"API_KEY").is_some() || bytes == b"MINREQ_TIMEOUT" {
            hidden.push(name);
        }
    }
    let hidden: Vec<&[u8]> = hidden.iter().map(|n| n.as_bytes()).collect();
    // Messages are read by their English text. Without a home wget neither reads .netrc nor writes .wget-hsts.
    let env: [(&[u8], &[u8]); 3] = [
        (b"LC_ALL", b"C"),
        (b"HOME", b"/dev/null"),
        (b"http_proxy", job.proxy.unwrap_or_default()),
    ];
    let spawn = Spawn {
        argv,
        env: &env[..2 + usize::from(job.proxy.is_some())],
        env_remove: &hidden,
        stdin: input,
        extra: input.and(Some(request.body).filter(|_| job.is_post())),
        die_with_us: true,
        ..Spawn::default()
    };
    let limits = Limits {
        idle: Some(request.idle_ms).filter(|ms| *ms > 0),
        total: Some(job.total_ms).filter(|ms| *ms > 0),
        linger: 100,
    };
    let mut reader = Reader {
        heads,
        sink,
        stderr: Vec::new(),
        early: Vec::new(),
        head: Head::default(),
        body: 0,
        fault: false,
    };
    let tail = request.tail;
    let mut watch = TailWatch { inner: watch, tail };
    let outcome = process::run(&spawn, limits, &mut watch, &mut |stream, bytes| {
        reader.take(stream, bytes)
    });
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(e) => {
            let why = ["it can't be started: ", &fs::os_text(&e)].concat();
            return Err(error(job, Stage::Setup, false, &why));
        }
    };
    let stage = match reader.head.status {
        0 => Stage::FirstByte,
        _ => Stage::Body,
    };
    if reader.fault {
        return Err(error(job, Stage::Status, false, "the reply is not HTTP"));
    }
    match outcome.cause {
        Cause::Stopped => return Ok(None),
        Cause::Idle if tail.get() => return Ok(None),
        Cause::Idle => {
            let detail = ["not a byte for ", &duration(request.idle_ms)].concat();
            return Err(error(job, stage, true, &detail));
        }
        Cause::Total => {
            let detail = ["not complete within ", &duration(job.total_ms)].concat();
            return Err(error(job, stage, false, &detail));
        }
        Cause::Cancelled => {
            let mut error = Error::fatal(stage, "cancelled");
            error.cancelled = true;
            return Err(error);
        }
        Cause::Finished | Cause::Detached => {}
    }
    if heads == Heads::Stderr && reader.head.status == 0 && !reader.last_head() {
        return Ok(None);
    }
    let code = match outcome.end {
        End::Code(code) => code,
        End::Signal(signal) => 128 + signal,
    };
    if code == 0
        && let Some(length) = reader.missing()
    {
        let detail = phrase("less than the ", length, " bytes announced came");
        return Err(error(job, Stage::Body, true, &detail));
    }
    Ok(Some(Ran {
        code,
        status: reader.head.status,
        stderr: reader.stderr,
    }))
}

/// What is said of a failure at each stage, by the order of [`Stage`]; the place or the program follows.
const SAID: [&str; 7] = [
    "",
    "can't find the address of ",
    "can't connect to ",
    "no safe TLS connection to ",
    "no reply from ",
    "no usable reply from ",
    "the reply broke off from ",
];

/// An error whose message says which place failed at what, and for certificates on a device with a wrong clock, why.
pub(super) fn error(job: &Job, stage: Stage, transient: bool, detail: &str) -> Error {
    let what = match stage {
        Stage::Setup => owned(job.program),
        Stage::Lookup => job.url.host.clone(),
        _ => job.url.place(),
    };
    let note = match stage {
        Stage::Tls => clock_note(time::unix_seconds()),
        _ => "",
    };
    Error {
        stage,
        transient,
        cancelled: false,
        message: [SAID[stage as usize], &what, ": ", detail, note].concat(),
    }
}

/// What to say when the clock makes every certificate look invalid; empty when it does not.
fn clock_note(now: u64) -> &'static str {
    if now >= CLOCK_FLOOR {
        return "";
    }
    "; the device's clock is set to before 2024, and no certificate is valid then: \
        set it with `ntpd -q -n -p pool.ntp.org` or `date -s 'YYYY-MM-DD hh:mm:ss'`"
}

/// Reads the last head in `text` that is complete: a status line and header fields, each behind `indent`. Interim ones
/// (100 Continue, 103 Early Hints) don't count.
///
/// Without an indent, `text` begins with the head and the body follows: returns where, with the status 0 when that is no
/// head, and `None` when more must come first.
fn read_head(text: &[u8], indent: &[u8], head: &mut Head) -> Option<usize> {
    let (mut at, mut inside) = (0, false);
    head.status = 0;
    while let Some(line) = memchr::memchr(b'\n', &text[at..]).map(|i| &text[at..at + i]) {
        at += line.len() + 1;
        let stripped = line.strip_prefix(indent).unwrap_or_default().trim_ascii();
        let status = status_of(stripped);
        if status != 0 {
            head.status = status;
            head.headers.clear();
            inside = true;
        } else if stripped.is_empty() {
            if indent.is_empty() && !(inside && matches!(head.status, 100 | 102..=199)) {
                return Some(at);
            }
            inside = false;
        } else if inside {
            if let Some(i) = memchr::memchr(b':', stripped) {
                let name = owned(&stripped[..i].to_ascii_lowercase());
                let value = owned(stripped[i + 1..].trim_ascii());
                head.add(&name, &value);
            }
        } else if indent.is_empty() {
            head.status = 0;
            return Some(at);
        }
    }
    if indent.is_empty() {
        head.status = 0;
    }
    None
}

/// The status in a line such as `HTTP/1.1 200 OK`, 0 when there is none.
fn status_of(line: &[u8]) -> u16 {
    let rest = line.strip_prefix(b"HTTP/").unwrap_or_default();
    let start = memchr::memchr(b' ', rest).map_or(rest.len(), |i| i + 1);
    match number(&rest[start..]) {
        code @ 100..1000 => code,
        _ => 0,
    }
}

/// The number at the start of `text`, which saturates.
pub(super) fn number(text: &[u8]) -> u16 {
    let digits = text.iter().take_while(|b| b.is_ascii_digit());
    digits.fold(0, |n: u16, b| {
        n.saturating_mul(10).saturating_add(u16::from(b - b'0'))
    })
}

/// The path of a file that only we may read, gone when this value is. Empty for none.
pub(super) struct TempFile(pub Vec<u8>);

impl TempFile {
    /// Writes `content` to a new file under `TMPDIR` or /tmp when one is `wanted`.
    pub fn new(wanted: bool, content: &[u8]) -> Result<TempFile, Error> {
        let mut temp = TempFile(Vec::new());
        if wanted {
            let dir = fs::env(b"TMPDIR").unwrap_or_else(|| b"/tmp".to_vec());
            let written = match fs::File::create_unique(&dir, b"cluade-", 0o600) {
                Ok((mut file, path)) => {
                    temp.0 = path;
                    file.write(content)
                }
                Err(e) => Err(e),
            };
            if let Err(e) = written {
                let (dir, why) = (owned(&dir), fs::os_text(&e));
                let message = [
                    "can't write a file for the request into ",
                    &dir,
                    ": ",
                    &why,
                    " (TMPDIR chooses another directory)",
                ];
                return Err(Error::fatal(Stage::Setup, message.concat()));
            }
        }
        Ok(temp)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            let _ = fs::remove(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_in_every_spelling() {
        fn read(text: &str) -> (Option<&str>, Head) {
            let mut head = Head::default();
            let len = read_head(text.as_bytes(), b"", &mut head);
            (len.map(|len| &text[len..]), head)
        }
        let (rest, head) =
            read("HTTP/1.1 429 Too Many\r\nRetry-After:  7 \r\nX-A: é\r\nnonsense\r\n\r\nbody");
        assert_eq!((rest, head.status), (Some("body"), 429));
        assert_eq!(
            (head.get("retry-after"), head.get("x-a")),
            (Some("7"), Some("é"))
        );
        for (text, rest, status) in [
            ("HTTP/1.1 200 OK\nA: b\n\nx", Some("x"), 200),
            ("HTTP/1.1 200 OK\r\nA: b\r\n\r", None, 0),
            ("HTTP/2 200\r\n\r\n", Some(""), 200),
            (
                "HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 204\r\n\r\n",
                Some(""),
                204,
            ),
            ("HTTP/1.1 100 Continue\r\n\r\n", None, 0),
            ("HTTP/1.1\n\n", Some("\n"), 0),
            ("HTTP/1.1 x\n", Some(""), 0),
            ("HTTP/1.1 20\n", Some(""), 0),
            ("HTTP/1.1 99999 x\n", Some(""), 0),
            ("ICY 200 OK\n", Some(""), 0),
        ] {
            let (got, head) = read(text);
            assert_eq!((got, head.status), (rest, status), "{text}");
        }
    }

    #[test]
    fn the_last_of_wgets_heads_counts() {
        let mut head = Head::default();
        let log = b"x  HTTP/1.1 500 no\n  HTTP/1.1 401 No\n  A: b\nRetry\n  HTTP/1.1 200 OK\n  C: d\n  \n  E: f\n";
        read_head(log, b"  ", &mut head);
        assert_eq!((head.status, head.fields().count()), (200, 1));
        assert_eq!(head.get("c"), Some("d"));
        read_head(b"wget: server returned error\n", b"  ", &mut head);
        assert_eq!(head.status, 0);
    }

    #[test]
    fn the_line_that_says_it() {
        let ran = |stderr: &[u8]| Ran {
            code: 130,
            stderr: stderr.to_vec(),
            status: 0,
        };
        let log = ran(b"a: x\r\n b: y \nmeter\r\n\n");
        assert_eq!(
            (log.line("b:"), log.line("q")),
            ("b: y".into(), "meter".into())
        );
        assert_eq!(ran(b"\n").line(""), "");
        assert_eq!(log.ended(), "it ended with code 130");
        for (text, n) in [("429 x", 429), ("", 0), ("x", 0), ("99999999", u16::MAX)] {
            assert_eq!(number(text.as_bytes()), n);
        }
    }

    #[test]
    fn a_wrong_clock_is_named_with_its_remedy() {
        assert!(clock_note(86_400 * 40).contains("ntpd -q"));
        assert_eq!(clock_note(CLOCK_FLOOR), "");
    }

    #[test]
    fn temporary_files_are_private_and_go_away() {
        use std::os::unix::fs::PermissionsExt;
        let (one, two) = (
            TempFile::new(true, b"a").unwrap(),
            TempFile::new(true, b"b").unwrap(),
        );
        let path = fs::path(&one.0).to_path_buf();
        assert_ne!(one.0, two.0);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(one);
        assert!(!path.exists());
        assert!(TempFile::new(false, b"a").unwrap().0.is_empty());
    }
}
