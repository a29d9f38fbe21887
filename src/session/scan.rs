//! Reading session files line by line in constant memory, whatever state they are in.
//!
//! The layout, shared by session files and journals: a head up to `"messages":[`, then one message a line, then a
//! trailer that starts with `]` on a line of its own and ends with `}` on another. That last line break is what makes
//! torn writes harmless: if the first bytes of an append are followed by what is left of the trailer before it, the
//! line of the message that was cut has no closing bracket and can't pass for a whole one.

use crate::json::{Writer, parse};
use crate::text::push_dec;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The head's last bytes.
pub const HEAD_END: &[u8] = b"\"messages\":[";

/// How much of a head or a trailer is looked at; a path of 4 KiB may take six times that in JSON.
pub const HEAD_MAX: usize = 32 * 1024;

/// How much is read from the file's end to find the trailer.
const TAIL: u64 = 16 * 1024;

/// Follows brackets and strings through a text that may come in pieces.
#[derive(Clone, Copy, Default)]
pub struct Brackets {
    /// Brackets open.
    pub depth: u32,
    string: bool,
    escape: bool,
}

impl Brackets {
    /// Reads one byte.
    pub fn step(&mut self, b: u8) {
        if self.escape {
            self.escape = false;
        } else if self.string {
            self.string = b != b'"';
            self.escape = b == b'\\';
        } else {
            match b {
                b'"' => self.string = true,
                b'{' | b'[' => self.depth = self.depth.saturating_add(1),
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// Reads `bytes` until no bracket is open any more and says how many it read then.
    fn close(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut i = 0;
        while let Some(&b) = bytes.get(i) {
            if self.string && !self.escape {
                i += memchr::memchr2(b'"', b'\\', bytes.get(i..)?)?;
                self.step(*bytes.get(i)?);
            } else {
                self.step(b);
                if self.depth == 0 {
                    return Some(i + 1);
                }
            }
            i += 1;
        }
        None
    }
}

/// What a line is by its first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A whole object: a message. `end` is the offset behind it; `marked` says that a blank stood in front.
    Message {
        /// File offset behind the closing bracket.
        end: u64,
        /// The context starts here, says the line itself.
        marked: bool,
    },
    /// Starts with `]`.
    Trailer,
    /// Starts with `{` and isn't whole: a head, or a message that was cut.
    Open,
    /// `}` alone, or nothing.
    Filler,
    /// Anything else.
    Garbage,
}

/// Reads a file's lines.
pub struct Lines<'f> {
    file: &'f File,
    buffer: Vec<u8>,
    pos: usize,
    filled: usize,
    /// File offset of the buffer's start.
    base: u64,
}

impl<'f> Lines<'f> {
    /// From `offset` on.
    pub fn new(file: &'f File, offset: u64) -> Self {
        Lines {
            file,
            buffer: vec![0; 8192],
            pos: 0,
            filled: 0,
            base: offset,
        }
    }

    /// The file offset of the next line.
    pub fn offset(&self) -> u64 {
        self.base + self.pos as u64
    }

    fn fill(&mut self) -> io::Result<bool> {
        self.base += self.filled as u64;
        (self.pos, self.filled) = (0, 0);
        loop {
            match self.file.read_at(&mut self.buffer, self.base) {
                Ok(n) => {
                    self.filled = n;
                    return Ok(n > 0);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Reads one line; `text` gets its first `keep` bytes: of a message without what stands around it.
    ///
    /// # Errors
    /// The system's.
    pub fn next(&mut self, text: &mut Vec<u8>, keep: usize) -> io::Result<Option<Kind>> {
        text.clear();
        let mut brackets = Brackets::default();
        let mut kind = Kind::Filler;
        let mut marked = false;
        let mut any = false;
        loop {
            if self.pos == self.filled && !self.fill()? {
                return Ok(any.then_some(kind));
            }
            any = true;
            let chunk = self.buffer.get(self.pos..self.filled).unwrap_or_default();
            let newline = memchr::memchr(b'\n', chunk);
            let mut line = chunk
                .get(..newline.unwrap_or(chunk.len()))
                .unwrap_or_default();
            let read = line.len() + usize::from(newline.is_some());
            let mut at = self.base + self.pos as u64;
            self.pos += read;
            if kind == Kind::Filler {
                if let [b' ', rest @ ..] = line {
                    (marked, line, at) = (true, rest, at + 1);
                }
                kind = match line {
                    [] | [b'}', ..] => Kind::Filler,
                    [b'{', ..] => Kind::Open,
                    [b']', ..] => Kind::Trailer,
                    _ => Kind::Garbage,
                };
            }
            if kind == Kind::Open {
                if memchr::memchr(0, line).is_some() {
                    // A page that never reached the medium.
                    kind = Kind::Garbage;
                } else if let Some(n) = brackets.close(line) {
                    line = line.get(..n).unwrap_or_default();
                    let end = at + n as u64;
                    kind = Kind::Message { end, marked };
                    push(text, line, keep);
                } else {
                    push(text, line, keep);
                }
            } else if kind == Kind::Trailer {
                push(text, line, keep);
            }
            if newline.is_some() {
                return Ok(Some(kind));
            }
        }
    }
}

fn push(text: &mut Vec<u8>, part: &[u8], keep: usize) {
    let room = keep.saturating_sub(text.len());
    text.extend_from_slice(part.get(..room).unwrap_or(part));
}

/// What the head says.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Head {
    /// Where the session was started; empty when unknown.
    pub cwd: String,
    /// When, as text.
    pub created: String,
    /// Journals: the number in the file of the first message that follows.
    pub base: u64,
    /// Journals: the session file's path.
    pub file: String,
}

impl Head {
    /// The head's text for session `id`. `extra` are further members, each with a comma in front.
    pub fn write(&self, id: &str, extra: &[u8]) -> Vec<u8> {
        let mut w = Writer::new();
        w.open(b'{').key("id").str(id).key("cwd").str(&self.cwd);
        w.key("created").str(&self.created).key("version").num(1);
        if !self.file.is_empty() {
            w.key("base").num(self.base).key("file").str(&self.file);
        }
        w.out.extend_from_slice(extra);
        w.out.push(b',');
        w.out.extend_from_slice(HEAD_END);
        w.out
    }

    /// Reads a head; `None` when the line is none.
    pub fn read(line: &[u8]) -> Option<Head> {
        if !line.starts_with(b"{\"id\":") || !line.ends_with(HEAD_END) {
            return None;
        }
        Head::from(&[line, b"]}"].concat())
    }

    /// Reads the members from a whole object.
    pub fn from(object: &[u8]) -> Option<Head> {
        let v = parse(object).ok()?;
        Some(Head {
            cwd: v.get_string("cwd").unwrap_or_default(),
            created: v.get_string("created").unwrap_or_default(),
            base: v.get_u64("base").unwrap_or(0),
            file: v.get_string("file").unwrap_or_default(),
        })
    }
}

/// What the trailer says.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Trailer {
    /// Requests made.
    pub steps: u64,
    /// Tokens of the whole session.
    pub total_tokens: u64,
    /// Tokens in the context.
    pub context_tokens: u64,
    /// Number in the file of the first message that is still sent.
    pub context_from: u64,
    /// Messages in the file.
    pub count: u64,
    /// From which message (number in the file) on which endpoint answered.
    pub origins: Vec<(u32, String)>,
}

impl Trailer {
    /// Appends the trailer, from the line break after the last message to the end of the file.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\n]");
        for (name, value) in [
            ("steps", self.steps),
            ("total_tokens", self.total_tokens),
            ("context_tokens", self.context_tokens),
            ("context_from", self.context_from),
            ("count", self.count),
        ] {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            push_dec(out, value);
        }
        let mut w = Writer::new();
        w.open(b'[');
        for (from, endpoint) in &self.origins {
            w.open(b'[').num(u64::from(*from)).str(endpoint).close(b']');
        }
        w.close(b']');
        out.extend_from_slice(b",\"origins\":");
        out.extend_from_slice(&w.out);
        out.extend_from_slice(b"\n}\n");
    }

    /// Reads the trailer's first line, which starts with `],`; `None` when it isn't whole.
    pub fn read(line: &[u8]) -> Option<Trailer> {
        let members = line.strip_prefix(b"],")?;
        let text = [b"{", members, b"}"].concat();
        let v = parse(&text).ok()?;
        v.get("origins")?;
        Some(Self::from(&text))
    }

    /// Reads the members from a whole object; what is missing is 0.
    pub fn from(object: &[u8]) -> Trailer {
        let Ok(v) = parse(object) else {
            return Trailer::default();
        };
        let number = |name| v.get_u64(name).unwrap_or(0);
        let mut origins = Vec::new();
        let list = v.get("origins");
        for pair in list.iter().flat_map(|v| v.items()) {
            let mut items = pair.items();
            if let (Some(from), Some(name)) = (items.next(), items.next())
                && let (Some(from), Some(name)) = (from.u64(), name.string())
                && let Ok(from) = u32::try_from(from)
            {
                origins.push((from, name));
            }
        }
        Trailer {
            steps: number("steps"),
            total_tokens: number("total_tokens"),
            context_tokens: number("context_tokens"),
            context_from: number("context_from"),
            count: number("count"),
            origins,
        }
    }
}

/// Finds the trailer at the end of a whole file, without reading the rest, and the offset where it starts.
///
/// # Errors
/// The system's.
pub fn find_trailer(file: &File) -> io::Result<Option<(Trailer, u64)>> {
    let len = file.metadata()?.len();
    let from = len.saturating_sub(TAIL);
    let mut tail = Vec::new();
    let mut chunk = [0u8; 2048];
    while (tail.len() as u64) < TAIL {
        match file.read_at(&mut chunk, from + tail.len() as u64) {
            Ok(0) => break,
            Ok(n) => tail.extend_from_slice(chunk.get(..n).unwrap_or_default()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    let Some(at) = memchr::memmem::rfind(&tail, b"\n],\"steps\":") else {
        return Ok(None);
    };
    let text = tail.get(at + 1..).unwrap_or_default();
    let line = memchr::memchr(b'\n', text).unwrap_or(text.len());
    let (line, end) = text.split_at(line);
    if end.trim_ascii() != b"}" {
        return Ok(None);
    }
    Ok(Trailer::read(line).map(|t| (t, from + at as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::testing::Dir;

    fn kinds(text: &[u8]) -> Vec<(Kind, String)> {
        let dir = Dir::new();
        let path = dir.path().join("f");
        std::fs::write(&path, text).unwrap();
        let file = File::open(&path).unwrap();
        let mut lines = Lines::new(&file, 0);
        let (mut list, mut line) = (Vec::new(), Vec::new());
        while let Some(kind) = lines.next(&mut line, usize::MAX).unwrap() {
            list.push((kind, String::from_utf8_lossy(&line).into_owned()));
        }
        assert_eq!(lines.offset(), text.len() as u64);
        list
    }

    fn message(end: u64, marked: bool) -> Kind {
        Kind::Message { end, marked }
    }

    #[test]
    fn lines_and_what_they_are() {
        let cases: &[(&str, &[(Kind, &str)])] = &[
            ("", &[]),
            ("\n", &[(Kind::Filler, "")]),
            (
                "{\"a\":[{\n{\"b\":\"}\\\"\"},\n ",
                &[
                    (Kind::Open, "{\"a\":[{"),
                    (message(19, false), "{\"b\":\"}\\\"\"}"),
                    (Kind::Filler, ""),
                ],
            ),
            (
                " {},],\"steps\":1\n],\"steps\":2\n}\n",
                &[
                    (message(3, true), "{}"),
                    (Kind::Trailer, "],\"steps\":2"),
                    (Kind::Filler, ""),
                ],
            ),
            (
                "{\"a\":\"\0\"}\nxyz\n",
                &[(Kind::Garbage, "{\"a\":\"\0\"}"), (Kind::Garbage, "")],
            ),
        ];
        for (text, want) in cases {
            let mut got = kinds(text.as_bytes());
            for (kind, line) in &mut got {
                if *kind == Kind::Garbage {
                    line.clear();
                }
            }
            let want: Vec<(Kind, String)> = want
                .iter()
                .map(|(k, s)| {
                    (
                        *k,
                        if *k == Kind::Garbage {
                            String::new()
                        } else {
                            s.to_string()
                        },
                    )
                })
                .collect();
            assert_eq!(got, want, "{text:?}");
        }
    }

    #[test]
    fn long_lines_cross_buffers() {
        for pad in [8180, 8190, 8191, 8192, 8193, 20_000] {
            let text = format!("{{\"a\":\"{}\\\"\"}}\n{{}}\n", "x".repeat(pad));
            let got = kinds(text.as_bytes());
            assert_eq!(got.len(), 2);
            let end = text.find('\n').unwrap();
            assert_eq!(
                got[0],
                (message(end as u64, false), text[..end].to_string())
            );
            assert_eq!(got[1].0, message(end as u64 + 3, false));
        }
    }

    #[test]
    fn heads_and_trailers_come_back() {
        let head = Head {
            cwd: "/a \"b\"".into(),
            created: "2026-05-29 20:16:30".into(),
            base: 7,
            file: "/s/x.json".into(),
        };
        assert_eq!(Head::read(&head.write("x", b"")), Some(head));
        assert_eq!(
            Head::read(b"{\"id\":\"x\",\"messages\":["),
            Some(Head::default())
        );
        assert_eq!(Head::read(b"{"), None);
        let trailer = Trailer {
            steps: 1,
            total_tokens: 12_345,
            context_tokens: 8200,
            context_from: 3,
            count: 9,
            origins: vec![(0, "http://a m".into()), (5, "http://b \"n\"".into())],
        };
        let mut text = b"{\"messages\":[".to_vec();
        trailer.write(&mut text);
        assert!(serde_json::from_slice::<serde_json::Value>(&text).is_ok());
        let line = text.split(|b| *b == b'\n').nth(1).unwrap();
        assert_eq!(Trailer::read(line), Some(trailer));
        for cut in 0..line.len() {
            assert_eq!(Trailer::read(&line[..cut]), None, "cut at {cut}");
        }
    }
}
