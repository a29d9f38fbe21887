//! The one rule by which the indentation of all lines of a place differs from that of the text looked for: something in
//! front more or less, or so many of one blank for so many of another.

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

/// The lines of `text` as indentation and the rest, with its line end.
fn lines(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = text.split_inclusive(|&b| b == b'\n');
    lines.map(|line| line.split_at(blanks(line)))
}

impl Shift {
    /// The rule by which the indentation of `old` becomes that of `there`, which has the same words. `None` when there is
    /// no such rule.
    pub fn between(old: &[u8], there: &[u8]) -> Option<Shift> {
        let pairs = || {
            let filled = lines(old).zip(lines(there));
            filled.filter(|(old, _)| !old.1.trim_ascii().is_empty())
        };
        let mut shift = Shift::default();
        let (first, (to, _)) = pairs().find(|(old, there)| old.0 != there.0)?;
        let (mut from, mut to) = (first.0, to);
        while let ([f @ .., a], [t @ .., b]) = (from, to)
            && a == b
        {
            (from, to) = (f, t);
        }
        if from.len().max(to.len()) > MAX {
            return None;
        }
        shift.from.extend_from_slice(from);
        shift.to.extend_from_slice(to);
        pairs()
            .all(|(old, there)| shift.convert(old.0).is_some_and(|c| c == there.0))
            .then_some(shift)
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
        for (indent, words) in lines(new) {
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
