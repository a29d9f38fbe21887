//! One text out of many string literals, as a stream sends it.

use super::tokenizer::Text;
use crate::text::complete_utf8_len;

/// Decodes pieces of a text that was cut without regard to characters: a surrogate pair or a UTF-8 sequence of which one
/// half ends a piece and the other begins the next becomes one character.
#[derive(Clone, Default)]
pub struct Joiner {
    /// What has been decoded: valid UTF-8 at every moment.
    pub out: Vec<u8>,
    /// The undecoded start of a character, at most six bytes.
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
    let Some((before, [b'\\', b'u', b'd' | b'D', kind, _, _])) = raw.split_last_chunk::<6>() else {
        return complete_utf8_len(raw);
    };
    let high = matches!(kind, b'8' | b'9' | b'a' | b'b' | b'A' | b'B');
    let slashes = before.iter().rev().take_while(|&&b| b == b'\\').count();
    if high && slashes % 2 == 0 { n - 6 } else { n }
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
