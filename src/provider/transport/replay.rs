//! Recording exchanges and playing them back. A recording is one exchange a line:
//!
//! `{"method":"POST","url":"…","request":{…},"status":200,"headers":{"name":"value"},"pieces":["…",{"base64":"…"}],
//! "error":{"stage":"body","transient":true,"message":"…"}}`
//!
//! Every field is optional when it is played, and `body` may stand for `pieces`: `{"body":"hello"}` is a whole exchange.
//! Secrets are cut out before anything is written.

use super::{Error, Head, Piece, Request, Sink};
use crate::json::{self, Kind, Value, Writer};
use crate::policy::redact::redact;
use crate::provider::Stage;
use crate::sys::{out, process::Watch, signal};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
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

/// Longest line of a recording that is played, in bytes.
const MAX_LINE: usize = 64 * 1024 * 1024;

/// Where requests go: to the network or to a recording, and whether they are recorded.
#[derive(Default)]
pub struct Transport {
    replay: Option<Player>,
    record: Option<File>,
}

struct Player {
    lines: BufReader<File>,
    number: u64,
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
    /// When the file can't be opened.
    pub fn replay(path: &Path) -> Result<Transport, Error> {
        let file = File::open(path).map_err(|e| file_error("read the recording ", path, &e))?;
        Ok(Transport {
            replay: Some(Player {
                lines: BufReader::new(file),
                number: 0,
                path: path.to_string_lossy().into_owned(),
            }),
            record: None,
        })
    }

    /// Appends every exchange to the file at `path`, which is made for us alone when it is not there.
    ///
    /// # Errors
    /// When the file can't be opened.
    pub fn record(mut self, path: &Path) -> Result<Transport, Error> {
        let file = File::options()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path);
        self.record = Some(file.map_err(|e| file_error("write the recording ", path, &e))?);
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
        let Transport { replay, record } = self;
        let mut go = |sink: &mut Sink| match replay {
            Some(player) => player.play(sink),
            None => super::send(request, watch, sink),
        };
        let Some(file) = record else {
            return go(sink);
        };
        let mut line = Recorded::new(request);
        let result = go(&mut |piece| {
            line.piece(&piece);
            sink(piece)
        });
        if let Err(e) = file.write_all(&line.finish(&result)) {
            // The reply is worth more than its recording.
            out::stderr(
                ["recording failed: ", &e.to_string(), "\n"]
                    .concat()
                    .as_bytes(),
            );
            self.record = None;
        }
        result
    }
}

fn file_error(what: &str, path: &Path, e: &std::io::Error) -> Error {
    let path = path.to_string_lossy();
    let message = ["can't ", what, &path, ": ", &e.to_string()];
    Error::fatal(Stage::Setup, message.concat())
}

impl Player {
    fn play(&mut self, sink: &mut Sink) -> Result<(), Error> {
        let line = self.next_line()?;
        let value = json::parse(&line)
            .ok()
            .filter(|v| v.kind() == Kind::Object)
            .ok_or_else(|| self.complain(" is not a JSON object"))?;
        let error = value.get("error");
        let status = match value.get("status") {
            Some(v) => v.u64().and_then(|s| u16::try_from(s).ok()).unwrap_or(0),
            None if error.is_some() && value.get("pieces").or(value.get("body")).is_none() => 0,
            None => 200,
        };
        if status != 0 || error.is_none() {
            let mut head = Head {
                status,
                headers: Vec::new(),
            };
            for (name, text) in value.get("headers").iter().flat_map(Value::entries) {
                let name = name.string().to_ascii_lowercase();
                head.headers.push((name, text.string().unwrap_or_default()));
            }
            if !sink(Piece::Head(&head)) || !self.pieces(&value, sink)? {
                return Ok(());
            }
        }
        let Some(error) = error else { return Ok(()) };
        let stage = error.get_string("stage");
        let flag = |name| error.get(name).and_then(|v| v.bool()).unwrap_or(false);
        let named = STAGES.iter().find(|(_, n)| Some(*n) == stage.as_deref());
        Err(Error {
            stage: named.map_or(Stage::Body, |(s, _)| *s),
            transient: flag("transient"),
            cancelled: flag("cancelled"),
            message: error.get_string("message").unwrap_or_default(),
        })
    }

    /// Hands on the body; false when the caller has enough.
    fn pieces(&self, value: &Value, sink: &mut Sink) -> Result<bool, Error> {
        let single = value.get("body");
        let pieces = value.get("pieces");
        for piece in pieces.iter().flat_map(Value::items).chain(single) {
            if signal::cancelled() {
                return Err(Error {
                    cancelled: true,
                    ..Error::fatal(Stage::Body, "cancelled")
                });
            }
            let bytes = match (piece.string(), piece.get_string("base64")) {
                (Some(text), _) => text.into_bytes(),
                (None, Some(code)) => decode(code.as_bytes())
                    .ok_or_else(|| self.complain(" has a piece that is not base64"))?,
                // A body written as JSON, for people.
                (None, None) => piece.raw().to_vec(),
            };
            if !bytes.is_empty() && !sink(Piece::Body(&bytes)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The next line that is not empty.
    fn next_line(&mut self) -> Result<Vec<u8>, Error> {
        use std::io::Read;
        loop {
            let mut line = Vec::new();
            self.number += 1;
            let mut limited = (&mut self.lines).take(MAX_LINE as u64);
            match limited.read_until(b'\n', &mut line) {
                Ok(0) => return Err(self.complain(" is missing: the recording is over")),
                Ok(_) if line.trim_ascii().is_empty() => {}
                Ok(_) => return Ok(line),
                Err(e) => return Err(self.complain(&[" can't be read: ", &e.to_string()].concat())),
            }
        }
    }

    fn complain(&self, what: &str) -> Error {
        let message = ["line ", &self.number.to_string(), " of ", &self.path, what];
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
        let secrets = super::secrets(request);
        let mut line = Writer::new();
        line.open(b'{').key("method").str(request.method);
        line.key("url")
            .str(redact(request.url.as_bytes(), &secrets));
        if !request.body.is_empty() {
            let clean = redact(request.body, &secrets);
            line.key("request");
            if !clean.contains(&b'\n') && json::parse(&clean).is_ok() {
                line.raw(&clean);
            } else {
                line.str(&clean);
            }
        }
        Recorded {
            secrets,
            line,
            pieces: false,
        }
    }

    fn piece(&mut self, piece: &Piece) {
        match piece {
            Piece::Head(head) => {
                let line = &mut self.line;
                line.key("status").num(u64::from(head.status));
                line.key("headers").open(b'{');
                for (name, value) in &head.headers {
                    line.key(name).str(redact(value.as_bytes(), &self.secrets));
                }
                line.close(b'}').key("pieces").open(b'[');
                self.pieces = true;
            }
            Piece::Body(bytes) => {
                let clean = redact(bytes, &self.secrets);
                if std::str::from_utf8(&clean).is_ok() {
                    self.line.str(&clean);
                } else {
                    let code = encode(&clean);
                    self.line.open(b'{').key("base64").str(code).close(b'}');
                }
            }
        }
    }

    fn finish(mut self, result: &Result<(), Error>) -> Vec<u8> {
        if self.pieces {
            self.line.close(b']');
        }
        if let Err(error) = result {
            let named = STAGES.iter().find(|(s, _)| *s == error.stage);
            let line = self.line.key("error").open(b'{');
            line.key("stage").str(named.map_or("", |(_, n)| n));
            line.key("transient").bool(error.transient);
            line.key("cancelled").bool(error.cancelled);
            line.key("message").str(&error.message).close(b'}');
        }
        self.line.close(b'}');
        self.line.out.push(b'\n');
        self.line.out
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 with padding. Source: RFC 4648 §4.
fn encode(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let word = at(0) << 16 | at(1) << 8 | at(2);
        for i in 0..4 {
            out.push(if i > chunk.len() {
                b'='
            } else {
                ALPHABET[(word >> (18 - 6 * i) & 63) as usize]
            });
        }
    }
    out
}

/// The bytes of a base64 text; `None` when it is none.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut word, mut bits) = (0u32, 0);
    for &b in text
        .strip_suffix(b"==")
        .or(text.strip_suffix(b"="))
        .unwrap_or(text)
    {
        let digit = ALPHABET.iter().position(|&a| a == b)? as u32;
        word = word << 6 | digit;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((word >> bits) as u8);
        }
    }
    (bits < 6).then_some(out)
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
                Piece::Head(h) => heads.push((h.status, h.headers.len())),
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
        for (plain, code) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
        ] {
            assert_eq!(encode(plain.as_bytes()), code.as_bytes());
            assert_eq!(decode(code.as_bytes()).unwrap(), plain.as_bytes());
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)).unwrap(), all);
        assert_eq!((decode(b"Z"), decode(b"Z!==")), (None, None));
    }
}
