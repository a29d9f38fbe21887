//! The one rule by which the indentation of all lines of a place differs from that of the text looked for: something in
//! front more or less, or so many of one blank for so many of another.

use memchr::memchr;

/// Bytes of an indentation that may be explained.
const MAX: usize = 256;

/// A change of indentation.
#[derive(Default)]
pub struct Shift {
    from: Vec<u8>,
    to: Vec<u8>,
}

/// How many blanks `line` begins with.
pub fn blanks(line: &[u8]) -> usize {
    line.iter()
        .take_while(|&&b| b == b' ' || b == b'\t')
        .count()
}

/// Takes a line off the front of `text`: its indentation, and the rest with its line end.
fn take_line<'a>(text: &mut &'a [u8]) -> (&'a [u8], &'a [u8]) {
    let end = memchr(b'\n', text).map_or(text.len(), |i| i + 1);
    let (line, rest) = text.split_at(end);
    *text = rest;
    line.split_at(blanks(line))
}

impl Shift {
    /// The rule by which the indentation of `old` becomes that of `there`, which has the same words. `None` when there is
    /// no such rule.
    pub fn between(old: &[u8], there: &[u8]) -> Option<Shift> {
        let mut shift: Option<Shift> = None;
        // The first line that differs gives the rule, then all must obey it.
        for _ in 0..2 {
            let (mut old, mut there) = (old, there);
            while !old.is_empty() {
                let ((mut from, words), (mut to, _)) = (take_line(&mut old), take_line(&mut there));
                if words.trim_ascii().is_empty() {
                    continue;
                }
                if let Some(shift) = &shift {
                    if shift.convert(from)? != to {
                        return None;
                    }
                } else if from != to {
                    while let ([f @ .., a], [t @ .., b]) = (from, to)
                        && a == b
                    {
                        (from, to) = (f, t);
                    }
                    if from.len().max(to.len()) > MAX {
                        return None;
                    }
                    shift = Some(Shift {
                        from: from.to_vec(),
                        to: to.to_vec(),
                    });
                    break;
                }
            }
        }
        shift
    }

    /// An indentation of the model's as one of the file's. `None` when it is less than the rule takes away.
    fn convert(&self, indent: &[u8]) -> Option<Vec<u8>> {
        if let (Some(&f), Some(&t)) = (self.from.first(), self.to.first())
            && f != t
            && self.from.iter().all(|&b| b == f)
            && self.to.iter().all(|&b| b == t)
        {
            let count = indent.iter().take(MAX).take_while(|&&b| b == f).count();
            let mut out = vec![t; count * self.to.len() / self.from.len()];
            // Spaces that are no full tab stay.
            let used = out.len() * self.from.len() / self.to.len();
            out.extend_from_slice(indent.get(used..)?);
            return Some(out);
        }
        let more = indent.strip_prefix(self.from.as_slice())?;
        Some([&self.to, more].concat())
    }

    /// `new`, whose lines are indented like the text looked for, indented like the text found.
    pub fn apply(&self, new: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(new.len() + 64);
        let mut rest = new;
        while !rest.is_empty() {
            let (indent, words) = take_line(&mut rest);
            if words.trim_ascii().is_empty() {
                out.extend_from_slice(indent);
            } else {
                out.extend_from_slice(&self.convert(indent).unwrap_or_default());
            }
            out.extend_from_slice(words);
        }
        out
    }
}
