//! Recording exchanges and playing them back. A recording is one exchange a line:
//!
//! `{"method":"POST","url":"…","request":{…},"status":200,"headers":{"name":"value"},"pieces":["…",{"base64":"…"}],
//! "error":{"stage":"body","transient":true,"message":"…"}}`
//!
//! Every field is optional when it is played, and `body` may stand for `pieces`: `{"body":"hello"}` is a whole exchange.
//! Secrets are cut out before anything is written.

use super::child::owned;
use super::{Error, Head, Piece, Request, Sink};
use crate::json::{self, Kind, Value, Writer};
use crate::policy::redact::redact;
use crate::provider::Stage;
use crate::sys::fs::{self, os_text};
use crate::sys::{out, process::Watch, signal};
use crate::text::push_visible;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Stages and what recordings call them.
const STAGES: [(Stage, &str); 7] = [
    (Stage::Setup, "setup"),
    (Stage::Lookup, "lookup"),
    (Stage::Connect, "connect"),
    (Stage::Tls, "tls"),
    (Stage::FirstByte, "first_byte"),
    (Stage::Status, "status"),
    (Stage::Body, "body"),
];

/// Largest recording that is played, in bytes.
const MAX_SIZE: usize = 64 * 1024 * 1024;

/// Where requests go: to the network or to a recording, and whether they are recorded.
#[derive(Default)]
pub struct Transport {
    replay: Option<Player>,
    record: Option<File>,
    /// Bodies go to standard error as they come, secrets taken out (`--show-tools-json`).
    pub echo: bool,
}

struct Player {
    text: Vec<u8>,
    at: usize,
    number: u32,
    path: String,
}

impl Transport {
    /// Over the network.
    pub fn live() -> Transport {
        Transport::default()
    }

    /// From the recording at `path`, without any network.
    ///
    /// # Errors
    /// When the file can't be read or is larger than 64 MiB.
    pub fn replay(path: &Path) -> Result<Transport, Error> {
        let path = path.as_os_str().as_bytes();
        let text = match fs::read_small(path, MAX_SIZE + 1) {
            Ok(text) if text.len() > MAX_SIZE => Err("it is larger than 64 MiB".into()),
            Ok(text) => Ok(text),
            Err(e) => Err(os_text(&e)),
        };
        let text = text.map_err(|why| file_error("read the recording ", path, &why))?;
        Ok(Transport {
            replay: Some(Player {
                text,
                at: 0,
                number: 0,
                path: owned(path),
            }),
            ..Transport::default()
        })
    }

    /// Appends every exchange to the file at `path`, which is made for us alone when it is not there.
    ///
    /// # Errors
    /// When the file can't be opened.
    pub fn record(mut self, path: &Path) -> Result<Transport, Error> {
        let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT;
        let file = fs::open(path.as_os_str().as_bytes(), flags, 0o600);
        match file {
            Ok(file) => self.record = Some(file),
            Err(e) => {
                let path = path.as_os_str().as_bytes();
                return Err(file_error("write the recording ", path, &os_text(&e)));
            }
        }
        Ok(self)
    }

    /// Sends `request` as [`super::send`] does, or plays the next exchange of the recording for it.
    ///
    /// # Errors
    /// As [`super::send`]; from a recording also when it is over or a line of it is not understood.
    pub fn send(
        &mut self,
        request: &Request,
        watch: &mut dyn Watch,
        sink: &mut Sink,
    ) -> Result<(), Error> {
        let mut line = self.record.is_some().then(|| Recorded::new(request));
        let echo = self.echo;
        let mut both = |piece: Piece| {
            if let (true, Piece::Body(bytes)) = (echo, &piece) {
                let mut visible = Vec::new();
                push_visible(&mut visible, &redact(bytes, &[]));
                out::stderr(&visible);
            }
            if let Some(line) = &mut line {
                line.piece(&piece);
            }
            sink(piece)
        };
        let result = match &mut self.replay {
            Some(player) => player.play(&mut both),
            None => super::send(request, watch, &mut both),
        };
        if let (Some(file), Some(line)) = (&mut self.record, line)
            && let Err(e) = file.write_all(&line.finish(&result))
        {
            // The reply is worth more than its recording.
            let text = ["recording failed: ", &os_text(&e), "\n"].concat();
            out::stderr(text.as_bytes());
            self.record = None;
        }
        result
    }
}

fn file_error(what: &str, path: &[u8], why: &str) -> Error {
    let message = ["can't ", what, &owned(path), ": ", why];
    Error::fatal(Stage::Setup, message.concat())
}

impl Player {
    fn play(&mut self, sink: &mut Sink) -> Result<(), Error> {
        let mut line = &b""[..];
        while line.is_empty() {
            let rest = self.text.get(self.at..).unwrap_or_default();
            self.number += 1;
            if rest.is_empty() {
                return Err(self.complain(" is missing: the recording is over"));
            }
            let len = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            self.at += len + 1;
            line = rest[..len].trim_ascii();
        }
        let value = match json::parse(line) {
            Ok(value) if value.kind() == Kind::Object => value,
            _ => return Err(self.complain(" is not a JSON object")),
        };
        let error = value.get("error");
        let pieces = value.get("pieces");
        let single = value.get("body");
        let status = match value.get_u64("status") {
            Some(status) => u16::try_from(status).unwrap_or(0),
            None if error.is_some() && pieces.or(single).is_none() => 0,
            None => 200,
        };
        if status != 0 || error.is_none() {
            let mut head = Head {
                status,
                headers: String::new(),
            };
            if let Some(headers) = value.get("headers") {
                for (name, text) in headers.entries() {
                    let name = name.string().to_ascii_lowercase();
                    head.add(&name, &text.string().unwrap_or_default());
                }
            }
            if !sink(Piece::Head(&head)) {
                return Ok(());
            }
            if let Some(piece) = single
                && !self.piece(piece, sink)?
            {
                return Ok(());
            }
            if let Some(pieces) = pieces {
                for piece in pieces.items() {
                    if !self.piece(piece, sink)? {
                        return Ok(());
                    }
                }
            }
        }
        let Some(error) = error else { return Ok(()) };
        let mut failed = Error::fatal(Stage::Body, error.get_string("message").unwrap_or_default());
        let set = |name| error.get(name).is_some_and(|v| v.raw() == b"true");
        (failed.transient, failed.cancelled) = (set("transient"), set("cancelled"));
        let name = error.get("stage").and_then(|v| v.text());
        for (stage, known) in STAGES {
            if name.is_some_and(|n| n.is(known)) {
                failed.stage = stage;
            }
        }
        Err(failed)
    }

    /// Hands on a piece of the body; false when the caller has enough.
    fn piece(&self, piece: Value, sink: &mut Sink) -> Result<bool, Error> {
        if signal::cancelled() {
            let mut error = Error::fatal(Stage::Body, "cancelled");
            error.cancelled = true;
            return Err(error);
        }
        let mut bytes = Vec::new();
        if let Some(text) = piece.text() {
            text.push_to(&mut bytes);
        } else if let Some(code) = piece.get_string("base64") {
            if !decode(code.as_bytes(), &mut bytes) {
                return Err(self.complain(" has a piece that is not base64"));
            }
        } else {
            // A body written as JSON, for people.
            bytes.extend_from_slice(piece.raw());
        }
        Ok(bytes.is_empty() || sink(Piece::Body(&bytes)))
    }

    fn complain(&self, what: &str) -> Error {
        let number = crate::provider::attempt::dec(u64::from(self.number));
        let message = ["line ", &number, " of ", &self.path, what];
        Error::fatal(Stage::Setup, message.concat())
    }
}

/// One line of a recording in the making.
struct Recorded<'a> {
    secrets: Vec<&'a [u8]>,
    line: Writer,
    pieces: bool,
}

impl<'a> Recorded<'a> {
    fn new(request: &Request<'a>) -> Recorded<'a> {
        let mut new = Recorded {
            secrets: super::secrets(request),
            line: Writer::new(),
            pieces: false,
        };
        new.line.open(b'{').key("method").str(request.method);
        new.text("url", request.url.as_bytes());
        if !request.body.is_empty() {
            new.text("request", request.body);
        }
        new
    }

    /// Writes a member, cleaned; a JSON object as itself.
    fn text(&mut self, name: &str, value: &[u8]) {
        let clean = redact(value, &self.secrets);
        self.line.key(name);
        let is_json =
            clean.first() == Some(&b'{') && !clean.contains(&b'\n') && json::parse(&clean).is_ok();
        if is_json {
            self.line.raw(&clean);
        } else {
            self.line.str(&clean);
        }
    }

    fn piece(&mut self, piece: &Piece) {
        match piece {
            Piece::Head(head) => {
                self.line.key("status").num(u64::from(head.status));
                self.line.key("headers").open(b'{');
                for (name, value) in head.fields() {
                    let clean = redact(value.as_bytes(), &self.secrets);
                    self.line.key(name).str(&clean);
                }
                self.line.close(b'}').key("pieces").open(b'[');
                self.pieces = true;
            }
            Piece::Body(bytes) => {
                let clean = redact(bytes, &self.secrets);
                if std::str::from_utf8(&clean).is_ok() {
                    self.line.str(&clean);
                } else {
                    let code = encode(&clean);
                    self.line.open(b'{').key("base64").str(&code).close(b'}');
                }
            }
        }
    }

    fn finish(mut self, result: &Result<(), Error>) -> Vec<u8> {
        let line = &mut self.line;
        if self.pieces {
            line.close(b']');
        }
        if let Err(error) = result {
            line.key("error").open(b'{');
            for (stage, name) in STAGES {
                if stage == error.stage {
                    line.key("stage").str(name.as_bytes());
                }
            }
            line.key("transient").bool(error.transient);
            line.key("cancelled").bool(error.cancelled);
            line.key("message").str(error.message.as_bytes());
            line.close(b'}');
        }
        line.close(b'}').out.push(b'\n');
        self.line.out
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 with padding. Source: RFC 4648 §4.
fn encode(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut word, mut bits) = (0u32, 0);
    for &b in bytes {
        word = word << 8 | u32::from(b);
        bits += 8;
        while bits >= 6 {
            bits -= 6;
            out.push(ALPHABET[(word >> bits & 63) as usize]);
        }
    }
    if bits > 0 {
        out.push(ALPHABET[(word << (6 - bits) & 63) as usize]);
    }
    while !out.len().is_multiple_of(4) {
        out.push(b'=');
    }
    out
}

/// Appends the bytes of a base64 text; false when it is none.
fn decode(text: &[u8], out: &mut Vec<u8>) -> bool {
    let (mut word, mut bits, mut pad) = (0u32, 0, 0);
    for &b in text {
        if b == b'=' {
            pad += 1;
            continue;
        }
        let Some(digit) = ALPHABET.iter().position(|&a| a == b) else {
            return false;
        };
        word = word << 6 | digit as u32;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((word >> bits) as u8);
        }
    }
    bits < 6 && pad <= 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::process::NoWatch;
    use std::cell::Cell;

    struct Temp(std::path::PathBuf);
    impl Temp {
        fn new(name: &str, content: &str) -> Temp {
            let path =
                std::env::temp_dir().join(format!("cluade-replay-{}-{name}", std::process::id()));
            let _ = std::fs::remove_file(&path);
            if !content.is_empty() {
                std::fs::write(&path, content).unwrap();
            }
            Temp(path)
        }
    }
    impl Drop for Temp {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    type Got = (Vec<(u16, usize)>, Vec<Vec<u8>>, Result<(), Error>);

    fn play(transport: &mut Transport, key: &str, enough: usize) -> Got {
        let tail = Cell::new(false);
        let bearer = ["Bearer ", key].concat();
        let request = Request {
            method: "POST",
            url: "http://h/",
            headers: &[("Authorization", &bearer)],
            body: b"{\"q\":\"my key hunter22\"}",
            idle_ms: 0,
            total_ms: 0,
            tail: &tail,
        };
        let (mut heads, mut pieces) = (Vec::new(), Vec::new());
        let result = transport.send(&request, &mut NoWatch, &mut |piece| {
            match piece {
                Piece::Head(h) => heads.push((h.status, h.fields().count())),
                Piece::Body(b) => pieces.push(b.to_vec()),
            }
            pieces.len() < enough
        });
        (heads, pieces, result)
    }

    #[test]
    fn lines_written_by_hand() {
        let file = Temp::new(
            "hand",
            concat!(
                "{\"body\":\"hello\"}\n\n",
                "{\"status\":429,\"headers\":{\"Retry-After\":\"7\"},\"body\":{\"error\": 1}}\n",
                "{\"pieces\":[\"a\",{\"base64\":\"/wA=\"},\"\",\"c\"]}\n",
                "{\"pieces\":[\"a\"],\"error\":{\"stage\":\"body\",\"transient\":true,\"message\":\"cut\"}}\n",
                "{\"error\":{\"stage\":\"lookup\",\"message\":\"no dns\"}}\n",
                "{\"pieces\":[\"1\",\"2\",\"3\"]}\n",
                "[1]\n",
                "{\"pieces\":[{\"base64\":\"a\"}]}",
            ),
        );
        let t = &mut Transport::replay(&file.0).unwrap();
        assert_eq!(
            play(t, "k", 9),
            (vec![(200, 0)], vec![b"hello".to_vec()], Ok(()))
        );
        let (heads, body, _) = play(t, "k", 9);
        assert_eq!(
            (heads, body),
            (vec![(429, 1)], vec![b"{\"error\": 1}".to_vec()])
        );
        assert_eq!(
            play(t, "k", 9).1,
            [b"a".to_vec(), vec![255, 0], b"c".to_vec()]
        );
        let (_, body, result) = play(t, "k", 9);
        let error = result.unwrap_err();
        assert_eq!(
            (body.len(), error.stage, error.transient),
            (1, Stage::Body, true)
        );
        let (heads, _, result) = play(t, "k", 9);
        assert_eq!((heads.len(), result.unwrap_err().stage), (0, Stage::Lookup));
        assert_eq!(
            play(t, "k", 2),
            (vec![(200, 0)], vec![b"1".to_vec(), b"2".to_vec()], Ok(()))
        );
        for part in ["line 8", "line 9", "recording is over"] {
            let error = play(t, "k", 9).2.unwrap_err();
            assert_eq!(error.stage, Stage::Setup);
            assert!(error.message.contains(part), "{}", error.message);
        }
    }

    #[test]
    fn a_recording_plays_as_it_came_and_holds_no_key() {
        let source = Temp::new(
            "source",
            "{\"status\":401,\"headers\":{\"a\":\"b\"},\"pieces\":[\"your hunter22 \",{\"base64\":\"/w==\"}],\"error\":{\"stage\":\"body\",\"transient\":true,\"message\":\"m\"}}\n{\"error\":{\"stage\":\"tls\"}}\n",
        );
        let copy = Temp::new("copy", "");
        let mut first = Transport::replay(&source.0)
            .unwrap()
            .record(&copy.0)
            .unwrap();
        let original = [
            play(&mut first, "hunter22", 9),
            play(&mut first, "hunter22", 9),
        ];
        let text = std::fs::read_to_string(&copy.0).unwrap();
        assert!(
            !text.contains("hunter22") && text.contains("your [redacted] "),
            "{text}"
        );
        assert!(
            text.contains("\"request\":{\"q\":\"my key [redacted]\"}"),
            "{text}"
        );
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&copy.0).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut second = Transport::replay(&copy.0).unwrap();
        let again = [play(&mut second, "x", 9), play(&mut second, "x", 9)];
        assert_eq!(again[0].0, original[0].0);
        assert_eq!(again[0].1, [b"your [redacted] ".to_vec(), vec![255]]);
        assert_eq!([&again[0].2, &again[1].2], [&original[0].2, &original[1].2]);
    }

    #[test]
    fn base64_round_trip() {
        let decoded = |code: &[u8]| {
            let mut out = Vec::new();
            decode(code, &mut out).then_some(out)
        };
        for (plain, code) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
        ] {
            assert_eq!(encode(plain.as_bytes()), code.as_bytes());
            assert_eq!(decoded(code.as_bytes()).unwrap(), plain.as_bytes());
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decoded(&encode(&all)).unwrap(), all);
        assert_eq!((decoded(b"Z"), decoded(b"Z!==")), (None, None));
    }
}
