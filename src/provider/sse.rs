//! Server-sent events: bytes → events, however the reads are cut. Source: WHATWG HTML, §9.2 "Server-sent events".
//!
//! More lenient than the standard in three points: what the last line holds is an event even when the stream ends without
//! the empty line behind it; a `data` line that begins another JSON document begins another event, since some servers
//! forget the empty line; and a field `error` (old llama.cpp) is reported. `id` and `retry` are not: nothing here reconnects.

/// The largest event accepted, in bytes. A chunk of a chat is some hundred; a whole reply in one event some thousand.
pub const MAX_EVENT: usize = 8 << 20;

/// One event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event<'a> {
    /// The field `event`; empty when there was none.
    pub name: &'a [u8],
    /// The lines of `data`, joined by newlines.
    pub data: &'a [u8],
    /// The field `error`; empty when there was none.
    pub error: &'a [u8],
}

/// An event is larger than [`MAX_EVENT`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLarge;

/// The parser's state between two reads.
#[derive(Default)]
pub struct Parser {
    /// The line that is not whole yet.
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    error: Vec<u8>,
    /// A `data` line came, if only an empty one.
    has_data: bool,
    /// The last line ended with CR: an LF right behind it belongs to it.
    skip_lf: bool,
    /// The first line has been read.
    begun: bool,
}

impl Parser {
    /// A parser at the start of a stream.
    pub fn new() -> Parser {
        Parser::default()
    }

    /// Takes the next bytes and hands each event they complete to `on`, which says whether to go on. Returns false when
    /// `on` did; the rest of `bytes` is then dropped.
    ///
    /// # Errors
    /// [`TooLarge`]; the parser is of no more use then.
    pub fn push(
        &mut self,
        bytes: &[u8],
        on: &mut dyn FnMut(Event) -> bool,
    ) -> Result<bool, TooLarge> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if std::mem::take(&mut self.skip_lf) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let end = memchr::memchr2(b'\r', b'\n', rest);
            let piece = &rest[..end.unwrap_or(rest.len())];
            if self.line.len() + self.data.len() + piece.len() > MAX_EVENT {
                return Err(TooLarge);
            }
            let Some(end) = end else {
                self.line.extend_from_slice(piece);
                break;
            };
            self.skip_lf = rest[end] == b'\r';
            rest = &rest[end + 1..];
            let go_on = if self.line.is_empty() {
                self.end_line(piece, on)
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(piece);
                let go_on = self.end_line(&line, on);
                line.clear();
                self.line = line;
                go_on
            };
            if !go_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The stream has ended: what is there is the last event.
    pub fn flush(&mut self, on: &mut dyn FnMut(Event) -> bool) -> bool {
        let line = std::mem::take(&mut self.line);
        (line.is_empty() || self.end_line(&line, on)) && self.end_line(b"", on)
    }

    fn end_line(&mut self, line: &[u8], on: &mut dyn FnMut(Event) -> bool) -> bool {
        let mut line = line;
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(on);
        }
        let colon = memchr::memchr(b':', line);
        let (field, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                let next = matches!(value.first(), Some(b'{' | b'['));
                if next && self.data.ends_with(b"}") && !self.dispatch(on) {
                    return false;
                }
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => value.clone_into(&mut self.name),
            b"error" => value.clone_into(&mut self.error),
            // An empty field is a comment; any other is nobody's.
            _ => {}
        }
        true
    }

    fn dispatch(&mut self, on: &mut dyn FnMut(Event) -> bool) -> bool {
        let event = Event {
            name: &self.name,
            data: &self.data,
            error: &self.error,
        };
        let go_on = (!self.has_data && self.error.is_empty()) || on(event);
        self.has_data = false;
        self.name.clear();
        self.data.clear();
        self.error.clear();
        go_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of `stream` read in pieces of `step` bytes, as `name|data|error`.
    fn events(stream: &[u8], step: usize) -> Vec<String> {
        let mut out = Vec::new();
        let mut on = |e: Event| {
            let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
            out.push([text(e.name), text(e.data), text(e.error)].join("|"));
            true
        };
        let mut parser = Parser::new();
        for piece in stream.chunks(step) {
            assert_eq!(parser.push(piece, &mut on), Ok(true));
        }
        assert!(parser.flush(&mut on));
        out
    }

    #[test]
    fn streams_cut_anywhere() {
        let cases: [(&[u8], &[&str]); 17] = [
            (
                b"data: {}\ndata: {1}\ndata: [DONE]\n",
                &["|{}|", "|{1}|", "|[DONE]|"],
            ),
            (
                b"data: {\ndata: {}\ndata: ,{}\ndata: }\n\n",
                &["|{\n{}\n,{}\n}|"],
            ),
            (b"data: a\n\ndata: b\n\n", &["|a|", "|b|"]),
            (b"data:a\r\n\r\ndata:  b\r\n\r\n", &["|a|", "| b|"]),
            (b"data: a\r\rdata: b\r\r", &["|a|", "|b|"]),
            (b"data: a\n\r\ndata: b\r\n\n", &["|a|", "|b|"]),
            (b"data: a\r\ndata: b\rdata: c\n\n", &["|a\nb\nc|"]),
            (b"\xEF\xBB\xBFdata: a\n\n", &["|a|"]),
            (b"\xEF\xBB\xBF\ndata: a\n\n", &["|a|"]),
            (b"\n\n\n: ping\n\n:\n\ndata: a\n\n", &["|a|"]),
            (b"retry: 1\n\nid: 7\n\nevent: x\n\ndata: a\n\n", &["|a|"]),
            (
                b"event: error\ndata: e\n\ndata: f\n\n",
                &["error|e|", "|f|"],
            ),
            (b"error: {\"code\":4}\n\n", &["||{\"code\":4}"]),
            (b"data\n\ndata:\n\ndata:\ndata:\n\n", &["||", "||", "|\n|"]),
            (b"data: a\n\ndata: [DONE]", &["|a|", "|[DONE]|"]),
            (b"datum: a\nDATA: a\n data: a\n\n", &[]),
            ("data: é🙂\n\n".as_bytes(), &["|é🙂|"]),
        ];
        for (stream, want) in cases {
            for step in 1..=stream.len() {
                let show = String::from_utf8_lossy(stream);
                assert_eq!(events(stream, step), want, "{show:?} in steps of {step}");
            }
        }
    }

    #[test]
    fn an_event_comes_with_its_cr() {
        // Waiting for the byte after CR would hold the last event of a stream that stays open.
        let mut seen = 0;
        let mut parser = Parser::new();
        let mut on = |_: Event| {
            seen += 1;
            true
        };
        parser.push(b"data: a\r\r", &mut on).unwrap();
        assert_eq!(seen, 1);
    }

    #[test]
    fn the_consumer_can_stop() {
        let mut seen = Vec::new();
        let mut on = |e: Event| {
            seen.push(e.data.to_vec());
            e.data != b"b"
        };
        let mut parser = Parser::new();
        let stream = b"data: a\n\ndata: b\n\ndata: c\n\n";
        assert_eq!(parser.push(stream, &mut on), Ok(false));
        assert_eq!(seen, [b"a", b"b"]);
    }

    #[test]
    fn memory_is_bounded() {
        let mib = vec![b'x'; 1 << 20];
        let feed = |start: &[u8], piece: &[u8]| {
            let mut parser = Parser::new();
            parser.push(start, &mut |_| true).unwrap();
            (0..20).find(|_| parser.push(piece, &mut |_| true).is_err())
        };
        assert_eq!(feed(b"data: ", &mib), Some(7), "one endless line");
        let line = [b"data: ", mib.as_slice(), b"\n"].concat();
        assert_eq!(feed(b"", &line), Some(7), "endless lines");
        let comment = [b": ", mib.as_slice(), b"\n"].concat();
        assert_eq!(feed(b"", &comment), None, "comments are not kept");
    }
}
