//! Reading session files piece by piece in constant memory, whatever state they are in.
//!
//! The layout, shared by session files and journals: a head up to `"messages":[`, then one message a line, then a
//! trailer that starts with `]` on a line of its own and ends with `}` on another. That last line break is what makes
//! torn writes harmless: if the first bytes of an append are followed by what is left of the trailer before it, the
//! line of the message that was cut has no closing bracket and can't pass for a whole one.

use crate::json::{Value, Writer, parse, parse_prefix};
use crate::sys::storage;
use std::fs::File;
use std::io;

/// The head's last bytes.
pub const HEAD_END: &[u8] = b"\"messages\":[";

/// How much is read at once.
const CHUNK: usize = 8192;

/// How much is read from the file's end to find the trailer.
const TAIL: u64 = 16 * 1024;

/// What a piece of a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A whole object: a message. `marked` says that a blank stood in front: the context starts here.
    Message {
        /// The mark.
        marked: bool,
    },
    /// Starts with `]`.
    Trailer,
    /// `}` alone, or nothing.
    Filler,
    /// Anything else: damage.
    Broken,
}

/// Reads a file's lines, or the elements of an array that may lie over several.
pub struct Reader<'f> {
    file: &'f File,
    /// What was read and isn't done with.
    pub buffer: Vec<u8>,
    /// Where in the buffer the next piece starts.
    pub pos: usize,
    /// Where the line ends that `pos` is in, behind its line break.
    line_end: usize,
    /// File offset of the buffer's start.
    base: u64,
    ended: bool,
    /// Elements may lie over several lines, several in one: another program's layout. All of the file is in `buffer`.
    pub free: bool,
    start: usize,
    end: usize,
}

impl<'f> Reader<'f> {
    /// From the start.
    pub fn new(file: &'f File) -> Self {
        Reader {
            file,
            buffer: Vec::new(),
            pos: 0,
            line_end: 0,
            base: 0,
            ended: false,
            free: false,
            start: 0,
            end: 0,
        }
    }

    /// Reads the rest of the file into the buffer and takes it for another program's from here on.
    ///
    /// # Errors
    /// The system's.
    pub fn all(&mut self) -> io::Result<()> {
        self.free = true;
        while !self.ended {
            self.fill()?;
        }
        Ok(())
    }

    fn fill(&mut self) -> io::Result<()> {
        let done = self.pos;
        if done > 0 && !self.free {
            self.buffer.copy_within(done.., 0);
            self.buffer.truncate(self.buffer.len() - done);
            self.base += done as u64;
            (self.pos, self.line_end) = (0, 0);
        }
        let before = self.buffer.len();
        let at = self.base + before as u64;
        storage::read_at(self.file, at, CHUNK, &mut self.buffer)?;
        self.ended = self.buffer.len() - before < CHUNK;
        Ok(())
    }

    /// Makes sure that the line at `pos` is in the buffer; false at the end of the file.
    ///
    /// # Errors
    /// The system's.
    pub fn fetch(&mut self) -> io::Result<bool> {
        let mut seen = 0;
        while self.pos >= self.line_end {
            let rest = self.buffer.get(self.pos..).unwrap_or_default();
            let more = rest.get(seen..).unwrap_or_default();
            if let Some(i) = memchr::memchr(b'\n', more) {
                self.line_end = self.pos + seen + i + 1;
            } else if !self.ended {
                seen = rest.len();
                self.fill()?;
            } else if rest.is_empty() {
                return Ok(false);
            } else {
                self.line_end = self.buffer.len();
            }
        }
        Ok(true)
    }

    /// The line at `pos`, from there on, without its line break.
    pub fn line(&self) -> &[u8] {
        let line = self.buffer.get(self.pos..self.line_end);
        let line = line.unwrap_or_default();
        line.strip_suffix(b"\n").unwrap_or(line)
    }

    /// Goes to the next line.
    pub fn skip_line(&mut self) {
        self.pos = self.line_end;
    }

    /// The piece found last.
    pub fn piece(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// File offset behind the piece found last.
    pub fn piece_end(&self) -> u64 {
        self.base + self.end as u64
    }

    /// Finds the next piece.
    ///
    /// # Errors
    /// The system's.
    pub fn advance(&mut self) -> io::Result<Option<Kind>> {
        if !self.fetch()? {
            return Ok(None);
        }
        let line = self.line();
        let marked = line.first() == Some(&b' ');
        let gap = line.iter().position(|b| !b" \t\r,".contains(b));
        let gap = gap.unwrap_or(line.len());
        let len = line.len();
        let text = line.get(gap..).unwrap_or_default();
        let first = text.first().copied();
        let mut n = len - gap;
        let mut next = self.line_end;
        let mut kind = match first {
            None | Some(b'}') => Kind::Filler,
            Some(b']') => Kind::Trailer,
            _ => Kind::Broken,
        };
        if first == Some(b'{') || self.free && kind == Kind::Broken {
            let mut found = parse_prefix(text).map(|v| v.1);
            if self.free && found.is_err() {
                let rest = self.buffer.get(self.pos + gap..).unwrap_or_default();
                found = parse_prefix(rest).map(|v| v.1);
            }
            if let Ok(whole) = found {
                n = whole;
                if self.free {
                    next = self.pos + gap + n;
                }
                let text = self.buffer.get(self.pos + gap..).unwrap_or_default();
                // A zero is in a page that never reached the medium.
                let zero = text.get(..n).is_none_or(|t| memchr::memchr(0, t).is_some());
                if first == Some(b'{') && !zero {
                    kind = Kind::Message { marked };
                }
            }
        }
        self.start = self.pos + gap;
        self.end = self.start + n;
        self.pos = next;
        Ok(Some(kind))
    }
}

/// What the head says.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Head {
    /// Where the session was started; empty when unknown.
    pub cwd: String,
    /// When, as text.
    pub created: String,
    /// Journals: the number in the file of the first message that follows.
    pub base: u32,
    /// Journals: the session file's path.
    pub file: String,
}

impl Head {
    /// Reads a head; `None` when the line is none.
    pub fn read(line: &[u8]) -> Option<Head> {
        if !line.starts_with(b"{\"id\":") || !line.ends_with(HEAD_END) {
            return None;
        }
        let text = [line, b"]}"].concat();
        Some(Head::from(parse(&text).ok()?))
    }

    /// Reads the members of an object.
    pub fn from(v: Value) -> Head {
        let text = |name| v.get_string(name).unwrap_or_default();
        let base = v.get_u64("base").and_then(|n| u32::try_from(n).ok());
        Head {
            cwd: text("cwd"),
            created: text("created"),
            base: base.unwrap_or(0),
            file: text("file"),
        }
    }
}

/// The head's text for session `id`. For a journal, `file` and `base` say where it belongs; `extra` are further members,
/// each with a comma in front.
pub fn write_head(
    id: &str,
    cwd: &[u8],
    created: &str,
    journal: Option<(u32, &[u8])>,
    extra: &[u8],
) -> Vec<u8> {
    let mut w = Writer::new();
    w.open(b'{').key("id").str(id).key("cwd").str(cwd);
    w.key("created").str(created).key("version").num(1);
    if let Some((base, file)) = journal {
        w.key("base").num(base.into()).key("file").str(file);
    }
    w.out.extend_from_slice(extra);
    w.out.push(b',');
    w.out.extend_from_slice(HEAD_END);
    w.out
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
    #[inline(never)]
    fn numbers(&mut self) -> [(&'static str, &mut u64); 5] {
        [
            ("steps", &mut self.steps),
            ("total_tokens", &mut self.total_tokens),
            ("context_tokens", &mut self.context_tokens),
            ("context_from", &mut self.context_from),
            ("count", &mut self.count),
        ]
    }

    /// The trailer's text, from the line break after the last message to the end of the file.
    pub fn text(&mut self) -> Vec<u8> {
        let mut w = Writer::new();
        w.open(b'\n').close(b']');
        for (name, value) in self.numbers() {
            w.key(name).num(*value);
        }
        w.key("origins").open(b'[');
        for (from, endpoint) in &self.origins {
            w.open(b'[').num(u64::from(*from)).str(endpoint).close(b']');
        }
        w.close(b']').close(b'\n').close(b'}').close(b'\n');
        w.out
    }

    /// Reads the trailer's first line, which starts with `],`; `None` when it isn't whole.
    pub fn read(line: &[u8]) -> Option<Trailer> {
        let members = line.strip_prefix(b"],")?;
        let text = [b"{", members, b"}"].concat();
        let v = parse(&text).ok()?;
        v.get("origins")?;
        Some(Self::from(v))
    }

    /// Reads the members of an object; what is missing is 0.
    pub fn from(v: Value) -> Trailer {
        let mut trailer = Trailer::default();
        for (name, value) in trailer.numbers() {
            *value = v.get_u64(name).unwrap_or(0);
        }
        for pair in v.get("origins").iter().flat_map(Value::items) {
            let mut items = pair.items();
            if let Some(from) = items.next().and_then(|n| n.u64())
                && let Some(name) = items.next().and_then(|n| n.string())
                && let Ok(from) = u32::try_from(from)
            {
                trailer.origins.push((from, name));
            }
        }
        trailer
    }
}

/// Finds the trailer at the end of a whole file, without reading the rest, and the offset where it starts.
///
/// # Errors
/// The system's.
pub fn find_trailer(file: &File) -> io::Result<Option<(Trailer, u64)>> {
    let from = file.metadata()?.len().saturating_sub(TAIL);
    let mut tail = Vec::new();
    storage::read_at(file, from, TAIL as usize, &mut tail)?;
    let start = b"\n],\"steps\":";
    let mut at = tail.len();
    while !tail.get(at..).unwrap_or_default().starts_with(start) {
        match memchr::memrchr(b'\n', tail.get(..at).unwrap_or_default()) {
            Some(before) => at = before,
            None => return Ok(None),
        }
    }
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

    type Piece<'a> = (Kind, u64, &'a str);

    fn kinds(text: &[u8]) -> Vec<(Kind, u64, String)> {
        let dir = Dir::new();
        let path = dir.path().join("f");
        std::fs::write(&path, text).unwrap();
        let file = File::open(&path).unwrap();
        let mut reader = Reader::new(&file);
        let mut list = Vec::new();
        while let Some(kind) = reader.advance().unwrap() {
            let text = String::from_utf8_lossy(reader.piece()).into_owned();
            list.push((kind, reader.piece_end(), text));
        }
        list
    }

    const PLAIN: Kind = Kind::Message { marked: false };
    const MARKED: Kind = Kind::Message { marked: true };

    #[test]
    fn lines_and_what_they_are() {
        let cases: &[(&str, &[Piece])] = &[
            ("", &[]),
            ("\n", &[(Kind::Filler, 0, "")]),
            (
                "{\"a\":[{\n{\"b\":\"}\\\"\"},\n ",
                &[
                    (Kind::Broken, 7, "{\"a\":[{"),
                    (PLAIN, 19, "{\"b\":\"}\\\"\"}"),
                    (Kind::Filler, 22, ""),
                ],
            ),
            (
                " {},],\"steps\":1\n],\"steps\":2\n}\n",
                &[
                    (MARKED, 3, "{}"),
                    (Kind::Trailer, 27, "],\"steps\":2"),
                    (Kind::Filler, 29, "}"),
                ],
            ),
            (
                "{\"a\":\"\0\"}\n\"y\":{}\n",
                &[
                    (Kind::Broken, 9, "{\"a\":\"\0\"}"),
                    (Kind::Broken, 16, "\"y\":{}"),
                ],
            ),
        ];
        for (text, want) in cases {
            let got = kinds(text.as_bytes());
            let got: Vec<_> = got.iter().map(|(k, n, s)| (*k, *n, s.as_str())).collect();
            assert_eq!(got, *want, "{text:?}");
        }
    }

    #[test]
    fn long_lines_cross_buffers() {
        for pad in [8180, 8190, 8191, 8192, 8193, 20_000] {
            let text = format!("{{\"a\":\"{}\\\"\"}}\n{{}}\n", "x".repeat(pad));
            let got = kinds(text.as_bytes());
            let end = text.find('\n').unwrap();
            assert_eq!(got.len(), 2);
            assert_eq!(got[0], (PLAIN, end as u64, text[..end].to_string()));
            assert_eq!((got[1].0, got[1].1), (PLAIN, end as u64 + 3));
        }
    }

    #[test]
    fn elements_of_other_layouts() {
        let dir = Dir::new();
        let path = dir.path().join("f");
        std::fs::write(&path, b"{\"a\":1}, {\n \"b\":\n2},7,\n{\"c\":\n {}] x").unwrap();
        let file = File::open(&path).unwrap();
        let mut reader = Reader::new(&file);
        reader.all().unwrap();
        let mut list = Vec::new();
        while let Some(kind) = reader.advance().unwrap() {
            list.push((kind, reader.piece().to_vec()));
        }
        let want: &[(Kind, &[u8])] = &[
            (PLAIN, b"{\"a\":1}"),
            (PLAIN, b"{\n \"b\":\n2}"),
            (Kind::Broken, b"7"),
            (Kind::Filler, b""),
            (Kind::Broken, b"{\"c\":"),
            (MARKED, b"{}"),
            (Kind::Trailer, b"] x"),
        ];
        let got: Vec<(Kind, &[u8])> = list.iter().map(|(k, t)| (*k, &t[..])).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn heads_and_trailers_come_back() {
        let head = Head {
            cwd: "/a \"b\"".into(),
            created: "2026-05-29 20:16:30".into(),
            base: 7,
            file: "/s/x.json".into(),
        };
        let text = write_head(
            "x",
            head.cwd.as_bytes(),
            &head.created,
            Some((7, b"/s/x.json")),
            b",\"y\":[]",
        );
        assert_eq!(Head::read(&text), Some(head));
        assert_eq!(
            Head::read(b"{\"id\":\"x\",\"messages\":["),
            Some(Head::default())
        );
        assert_eq!(Head::read(b"{"), None);
        let mut trailer = Trailer {
            steps: 1,
            total_tokens: 12_345,
            context_tokens: 8200,
            context_from: 3,
            count: 9,
            origins: vec![(0, "http://a m".into()), (5, "http://b \"n\"".into())],
        };
        let mut text = b"{\"messages\":[".to_vec();
        text.extend(trailer.text());
        assert!(serde_json::from_slice::<serde_json::Value>(&text).is_ok());
        let line = text.split(|b| *b == b'\n').nth(1).unwrap();
        assert_eq!(Trailer::read(line), Some(trailer));
        for cut in 0..line.len() {
            assert_eq!(Trailer::read(&line[..cut]), None, "cut at {cut}");
        }
    }
}
