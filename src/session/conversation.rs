//! The conversation in memory: one byte arena and the places where messages end.

use crate::text::push_utf8_lossy;

/// What stands between two messages in the arena, in the session file and in a request: a slice of the arena can be
/// sent or saved as it is.
pub const SEPARATOR: &[u8] = b",\n";

/// The arena grows by this much, or by a sixteenth of its size when that is more: doubling 200 KB would cost a router
/// more than the copies do.
const STEP: usize = 16 * 1024;

/// Messages as JSON text, exactly as they go on the wire.
#[derive(Clone, Default)]
pub struct Conversation {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Conversation {
    /// An empty conversation.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends one message: the text of a JSON object. Control characters in it, which valid JSON only has between its
    /// members, become blanks: a message is one line of the session file. Bytes that are not UTF-8 become U+FFFD. The
    /// arena ends at 4 GiB; a message that doesn't fit any more is not taken.
    pub fn push(&mut self, message: &[u8]) {
        if std::str::from_utf8(message).is_err() {
            let mut repaired = Vec::with_capacity(message.len() + 16);
            push_utf8_lossy(&mut repaired, message);
            return self.push(&repaired);
        }
        let gap = if self.ends.is_empty() {
            0
        } else {
            SEPARATOR.len()
        };
        let need = message.len().saturating_add(gap);
        let Ok(end) = u32::try_from(self.bytes.len().saturating_add(need)) else {
            return;
        };
        if self.bytes.capacity() - self.bytes.len() < need {
            let step = STEP.max(self.bytes.len() / 16);
            self.bytes
                .reserve_exact(need.div_ceil(step).saturating_mul(step));
        }
        if gap > 0 {
            self.bytes.extend_from_slice(SEPARATOR);
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message);
        for b in self.bytes.iter_mut().skip(start) {
            if *b < b' ' {
                *b = b' ';
            }
        }
        self.ends.push(end);
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Where message `i` starts in the arena; for `len()` and beyond, the arena's end.
    pub fn start(&self, i: usize) -> usize {
        if i >= self.ends.len() {
            return self.bytes.len();
        }
        match i.checked_sub(1).and_then(|before| self.ends.get(before)) {
            Some(&end) => end as usize + SEPARATOR.len(),
            None => 0,
        }
    }

    /// Message `i`.
    pub fn get(&self, i: usize) -> Option<&[u8]> {
        let end = *self.ends.get(i)? as usize;
        self.bytes.get(self.start(i)..end)
    }

    /// The messages in order.
    pub fn iter(&self) -> Iter<'_> {
        self.iter_from(0)
    }

    /// The messages from `i` on.
    pub fn iter_from(&self, i: usize) -> Iter<'_> {
        Iter { all: self, next: i }
    }

    /// All messages with [`SEPARATOR`] between them: the inside of a JSON array.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The messages from `i` on, with [`SEPARATOR`] between them.
    pub fn bytes_from(&self, i: usize) -> &[u8] {
        self.bytes.get(self.start(i)..).unwrap_or_default()
    }
}

/// Iterator over messages.
#[derive(Clone)]
pub struct Iter<'a> {
    all: &'a Conversation,
    next: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let message = self.all.get(self.next)?;
        self.next += 1;
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_went_in() {
        let mut c = Conversation::new();
        assert!(c.is_empty() && c.get(0).is_none() && c.bytes().is_empty());
        for m in ["{\"a\":1}", "{}", "{\"b\":\n\"x\"}\r\0"] {
            c.push(m.as_bytes());
        }
        assert_eq!(c.len(), 3);
        assert_eq!(c.get(0), Some(&b"{\"a\":1}"[..]));
        assert_eq!(c.get(2), Some(&b"{\"b\": \"x\"}  "[..]));
        assert_eq!(c.get(3), None);
        assert_eq!(c.iter_from(1).count(), 2);
        assert_eq!(c.bytes(), b"{\"a\":1},\n{},\n{\"b\": \"x\"}  ");
        assert_eq!(c.bytes_from(1), b"{},\n{\"b\": \"x\"}  ");
        assert_eq!(c.bytes_from(3), b"");
        assert_eq!([0, 1, 2, 3, 9].map(|i| c.start(i)), [0, 9, 13, 25, 25]);
        c.push(b"{\"\xff\":1}");
        assert_eq!(c.get(3), Some("{\"\u{FFFD}\":1}".as_bytes()));
    }

    #[test]
    fn growth_is_in_small_steps() {
        let mut c = Conversation::new();
        let message = [b'x'; 1000];
        for _ in 0..300 {
            c.push(&message);
            assert!(c.bytes.capacity() <= c.bytes.len() + STEP + c.bytes.len() / 16);
        }
        c.push(&[b'y'; 100_000]);
        assert_eq!(c.get(300).unwrap().len(), 100_000);
        assert!(c.bytes.capacity() <= c.bytes.len() + STEP + c.bytes.len() / 16);
    }
}
