//! One text out of many string literals, as a stream sends it.

use super::tokenizer::Text;
use crate::text::complete_utf8_len;

/// Decodes pieces of a text that was cut anywhere: an escape, a surrogate pair or a UTF-8 sequence of which one part ends
/// a piece and the other begins the next becomes one character.
#[derive(Clone, Default)]
pub struct Joiner {
    /// What has been decoded: valid UTF-8 at every moment.
    pub out: Vec<u8>,
    /// The undecoded start of a character, at most eleven bytes.
    carry: Vec<u8>,
}

impl Joiner {
    /// Appends a piece.
    pub fn push(&mut self, piece: Text) {
        let joined;
        let mut raw = piece.raw();
        if !self.carry.is_empty() {
            joined = [&self.carry, raw].concat();
            raw = &joined;
        }
        let (now, later) = raw.split_at(whole_len(raw));
        decode(now, &mut self.out);
        self.carry = later.to_vec();
    }

    /// Appends text that is no string literal.
    pub fn push_plain(&mut self, text: &[u8]) {
        self.flush();
        crate::text::push_utf8_lossy(&mut self.out, text);
    }

    /// Ends the text: half a character becomes U+FFFD.
    pub fn flush(&mut self) {
        decode(&self.carry, &mut self.out);
        self.carry.clear();
    }
}

fn decode(raw: &[u8], out: &mut Vec<u8>) {
    Text::new(raw, memchr::memchr(b'\\', raw).is_some()).push_to(out);
}

/// The length of `raw` without the half character at its end.
fn whole_len(raw: &[u8]) -> usize {
    let n = raw.len();
    let mut end = n;
    let tail = n.saturating_sub(5);
    if let Some(i) = raw[tail..].iter().rposition(|&b| b == b'\\') {
        let at = tail + i;
        let need = if raw.get(at + 1) == Some(&b'u') { 6 } else { 2 };
        if slashes(&raw[..=at]) % 2 == 1 && at + need > n {
            end = at;
        }
    }
    if let Some((before, [b'\\', b'u', b'd' | b'D', kind, _, _])) = raw[..end].split_last_chunk()
        && matches!(kind, b'8' | b'9' | b'a' | b'b' | b'A' | b'B')
        && slashes(before).is_multiple_of(2)
    {
        return end - 6;
    }
    if end < n { end } else { complete_utf8_len(raw) }
}

/// How many backslashes end `raw`.
fn slashes(raw: &[u8]) -> usize {
    raw.iter().rev().take_while(|&&b| b == b'\\').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(pieces: &[&[u8]]) -> String {
        let mut joiner = Joiner::default();
        for piece in pieces {
            decode_piece(&mut joiner, piece);
        }
        joiner.flush();
        String::from_utf8(joiner.out).unwrap()
    }

    fn decode_piece(joiner: &mut Joiner, raw: &[u8]) {
        joiner.push(Text::new(raw, raw.contains(&b'\\')));
        assert!(std::str::from_utf8(&joiner.out).is_ok());
    }

    #[test]
    fn a_text_cut_into_bytes_stays_the_same() {
        let raw = br#"\\\\a\n\u00e9\ud83d\ude42\\ud83d\\\ud83d\\\"\ud83d\ud83d\ude42"#;
        let raw = [raw.as_slice(), "é🙂".as_bytes()].concat();
        let want = Text::new(&raw, true).string();
        assert_eq!(want, "\\\\a\né🙂\\ud83d\\\u{FFFD}\\\"\u{FFFD}🙂é🙂");
        for step in 1..raw.len() {
            assert_eq!(join(&raw.chunks(step).collect::<Vec<_>>()), want, "{step}");
        }
    }

    #[test]
    fn halves_of_characters_are_joined() {
        let cases: [(&[&[u8]], &str); 10] = [
            (&[br"a\ud83d", br"\ude42b"], "a🙂b"),
            (&[br"a\ud83d", b"", br"\ude42b"], "a🙂b"),
            (&[br"\uD83D", br"x"], "\u{FFFD}x"),
            (&[br"\ud83d", br"\ud83d", br"\ude42"], "\u{FFFD}🙂"),
            (&[br"\ud83d"], "\u{FFFD}"),
            (&[br"\ude42", br"\ud83d"], "\u{FFFD}\u{FFFD}"),
            (&[br"\\ud83d", br"\ude42"], "\\ud83d\u{FFFD}"),
            (&[br"\\\ud83d", br"\ude42"], "\\🙂"),
            (&[b"\xf0\x9f", b"\x99", b"\x82!"], "🙂!"),
            (&[b"\xf0\x9f", b"!"], "\u{FFFD}!"),
        ];
        for (pieces, want) in cases {
            assert_eq!(join(pieces), want, "{pieces:?}");
        }
    }
}
