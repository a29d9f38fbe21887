//! Finding the text an edit names, also when the model got its line ends, trailing blanks or indentation wrong: four
//! levels, each only when the one before found nothing, and never a guess between two places. The levels after the first
//! search a copy of the text without what they ignore, and look up where that was.

use super::indent::{Shift, blanks};
use memchr::{memchr, memchr_iter, memmem, memrchr};

/// Bytes compared in places that turn out wrong, after which a search gives up: repetitive texts would take minutes.
const WORK: usize = 1 << 28;

/// How a text was found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Byte for byte.
    Exact,
    /// CRLF and LF taken for the same.
    Newlines,
    /// Blanks before a line's end ignored, too.
    Blanks,
    /// Whole lines, all indented otherwise by the same rule.
    Indent,
}

/// What to tell the model about each level.
pub static NOTES: [&str; 4] = [
    "",
    "matched ignoring CRLF and LF",
    "matched ignoring trailing blanks",
    "matched with other indentation, newString indented likewise",
];

/// Places found.
pub struct Matches {
    /// How.
    pub level: Level,
    /// Where: byte ranges in ascending order. When there are several but one is wanted, they may overlap.
    pub spans: Vec<(usize, usize)>,
    /// What indentation to change in the new text.
    shift: Shift,
}

/// Finds `old`, which is not empty, in `text`. Without `all` overlapping places count: `aa` in `aaa` is ambiguous.
pub fn find(text: &[u8], old: &[u8], all: bool) -> Matches {
    let mut m = Matches {
        level: Level::Exact,
        spans: Vec::new(),
        shift: Shift::default(),
    };
    m.places(text, old, all, &mut |_, start, end| Some((start, end)));
    for level in [Level::Newlines, Level::Blanks, Level::Indent] {
        // Nothing but blanks would match anywhere.
        if !m.spans.is_empty() || level > Level::Newlines && old.trim_ascii().is_empty() {
            break;
        }
        m.level = level;
        m.folded(text, old, all);
    }
    m
}

impl Matches {
    /// Whether there are several places where one is wanted. Only exact places, and those that differ in line ends
    /// alone, may be replaced all at once.
    pub fn ambiguous(&self, all: bool) -> bool {
        self.spans.len() > 1 && !(all && self.level <= Level::Newlines)
    }

    /// Collects where `old` stands in `text`, as far and in the way `accept` says.
    fn places(&mut self, text: &[u8], old: &[u8], all: bool, accept: Accept) {
        let finder = memmem::Finder::new(old);
        let (mut from, mut work) = (0, 0);
        while let Some(i) = text.get(from..).and_then(|rest| finder.find(rest)) {
            let start = from + i;
            from = start + 1;
            if let Some(span) = accept(self, start, start + old.len()) {
                self.spans.push(span);
                if all || self.spans.len() > 1 {
                    from = start + old.len().max(1);
                }
                continue;
            }
            work += old.len();
            if work > WORK {
                self.spans.clear();
                return;
            }
        }
    }

    /// Collects the places at `self.level`.
    fn folded(&mut self, text: &[u8], old: &[u8], all: bool) {
        let level = self.level;
        let (have, want) = (Fold::new(text, level), Fold::new(old, level));
        // Blanks at the end of `old` mean the end of a line, with its blanks.
        let blank_end = level >= Level::Blanks && matches!(old.last(), Some(b' ' | b'\t'));
        let closed = blank_end || level == Level::Indent && old.last() != Some(&b'\n');
        self.places(&have.text, &want.text, all, &mut |m, start, end| {
            let inside = level == Level::Indent
                && start
                    .checked_sub(1)
                    .and_then(|i| have.text.get(i))
                    .is_some_and(|&b| b != b'\n');
            let open = closed && have.text.get(end).is_some_and(|&b| b != b'\n');
            if inside || open {
                return None;
            }
            let (start, mut end) = (have.source(start), have.source(end));
            if blank_end {
                end += blanks(text.get(end..)?);
            }
            if level == Level::Indent {
                m.shift = Shift::between(old, text.get(start..end)?)?;
            }
            Some((start, end))
        });
    }

    /// Appends `new` as it goes into the file in place of `old` at a match that starts at byte `start`: indented like the
    /// match, with the line ends used there.
    pub fn fit(&self, text: &[u8], start: usize, old: &[u8], new: &[u8], out: &mut Vec<u8>) {
        let crlf = crlf_at(text, start, false);
        if self.level == Level::Indent {
            fit_newlines(&self.shift.apply(new), self.level, old, crlf, out);
        } else {
            fit_newlines(new, self.level, old, crlf, out);
        }
    }
}

/// Turns a place in the text searched into the one it stands for, if it is one.
type Accept<'a> = &'a mut dyn FnMut(&mut Matches, usize, usize) -> Option<(usize, usize)>;

/// A text without what a level ignores.
struct Fold {
    text: Vec<u8>,
    /// Where parts of `text` begin, in it and in the source.
    parts: Vec<(usize, usize)>,
    /// Where the last part ends in the source.
    end: usize,
}

impl Fold {
    fn new(source: &[u8], level: Level) -> Fold {
        let mut fold = Fold {
            text: Vec::with_capacity(source.len()),
            parts: Vec::new(),
            end: 0,
        };
        let mut at = 0;
        for line in source.split_inclusive(|&b| b == b'\n') {
            let next = at + line.len();
            let mut words = line;
            let newline = words.strip_suffix(b"\n");
            if let Some(rest) = newline {
                words = rest.strip_suffix(b"\r").unwrap_or(rest);
            }
            if level >= Level::Blanks {
                while let [rest @ .., b' ' | b'\t'] = words {
                    words = rest;
                }
            }
            if level == Level::Indent {
                let indent = blanks(words);
                words = words.get(indent..).unwrap_or_default();
                at += indent;
            }
            fold.keep(at, words);
            if newline.is_some() {
                fold.keep(next - 1, b"\n");
            }
            at = next;
        }
        fold
    }

    /// Appends what stands at `at` in the source.
    fn keep(&mut self, at: usize, part: &[u8]) {
        if part.is_empty() {
            return;
        }
        if at != self.end {
            self.parts.push((self.text.len(), at));
        }
        self.text.extend_from_slice(part);
        self.end = at + part.len();
    }

    /// Where byte `at` is in the source; before what is left out there.
    fn source(&self, at: usize) -> usize {
        let part = self.parts.partition_point(|p| p.0 < at).checked_sub(1);
        let (start, source) = part.and_then(|i| self.parts.get(i)).unwrap_or(&(0, 0));
        source + (at - start)
    }
}

/// The number, from 1, of the line byte `at` is in.
pub fn line_of(text: &[u8], at: usize) -> u64 {
    memchr_iter(b'\n', text.get(..at).unwrap_or(text)).count() as u64 + 1
}

/// Appends `new` with the line ends of the place it goes to. A model that names CR itself in an exact match means what it
/// says.
pub fn fit_newlines(new: &[u8], level: Level, old: &[u8], crlf: bool, out: &mut Vec<u8>) {
    if level == Level::Exact && (!crlf || memchr(b'\r', old).is_some()) {
        out.extend_from_slice(new);
        return;
    }
    for line in new.split_inclusive(|&b| b == b'\n') {
        match line.strip_suffix(b"\n") {
            Some(words) => {
                out.extend_from_slice(words.strip_suffix(b"\r").unwrap_or(words));
                out.extend_from_slice(if crlf { b"\r\n" } else { b"\n" });
            }
            None => out.extend_from_slice(line),
        }
    }
}

/// Whether lines end in CRLF at byte `at`: the line that holds it, or the one before if it has no end, or else `before`.
pub fn crlf_at(text: &[u8], at: usize, before: bool) -> bool {
    let (head, tail) = text.split_at(at.min(text.len()));
    let end = match memchr(b'\n', tail) {
        Some(i) => Some(head.len() + i),
        None => memrchr(b'\n', head),
    };
    match end {
        Some(end) => end.checked_sub(1).and_then(|i| text.get(i)) == Some(&b'\r'),
        None => before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one edit makes of `text`, or why not: `-` nowhere, a number for so many places.
    fn edit(text: &str, old: &str, new: &str) -> Result<(Level, String), String> {
        apply(text, old, new, false)
    }

    fn apply(text: &str, old: &str, new: &str, all: bool) -> Result<(Level, String), String> {
        let (text, old) = (text.as_bytes(), old.as_bytes());
        let m = find(text, old, all);
        if m.spans.is_empty() {
            return Err("-".to_string());
        }
        if m.ambiguous(all) {
            let lines: Vec<u64> = m.spans.iter().map(|s| line_of(text, s.0)).collect();
            return Err(format!("{}{lines:?}", m.spans.len()));
        }
        let mut out = Vec::new();
        let mut from = 0;
        for &(start, end) in &m.spans {
            out.extend_from_slice(&text[from..start]);
            m.fit(text, start, old, new.as_bytes(), &mut out);
            from = end;
        }
        out.extend_from_slice(&text[from..]);
        Ok((m.level, String::from_utf8(out).unwrap()))
    }

    fn check(cases: &[(&str, &str, &str, &str)], level: Level) {
        for &(text, old, new, want) in cases {
            assert_eq!(
                edit(text, old, new),
                Ok((level, want.to_string())),
                "{old:?} in {text:?}"
            );
        }
    }

    #[test]
    fn exact_bytes() {
        check(
            &[
                ("abc", "b", "x", "axc"),
                ("a\r\nb\r\n", "a\r\nb", "x", "x\r\n"),
                ("one two", "one two", "", ""),
                ("\u{FEFF}a\n", "a", "b", "\u{FEFF}b\n"),
                ("a\rb\rc", "b\rc", "x", "a\rx"),
                ("a  \nb\n", "a  \nb", "c", "c\n"),
                // The first level that finds anything counts: the other place differs in blanks.
                ("a\nb\na \nb\n", "a\nb", "x", "x\na \nb\n"),
            ],
            Level::Exact,
        );
    }

    #[test]
    fn added_lines_end_like_their_neighbours() {
        check(
            &[
                ("a\r\nb\r\n", "a", "a\nx", "a\r\nx\r\nb\r\n"),
                ("a\r\nb\r\n", "a", "a\r\nx", "a\r\nx\r\nb\r\n"),
                ("a\nb\n", "a", "a\nx", "a\nx\nb\n"),
                // At the end of a file without a last line end.
                ("a\r\nb", "b", "b\nc", "a\r\nb\r\nc"),
                ("a", "a", "a\nb", "a\nb"),
                // Mixed: only the lines at the place count, and one stray LF flips nothing.
                ("a\r\nb\nc\r\n", "b", "b\nx", "a\r\nb\nx\nc\r\n"),
                ("a\r\nb\nc\r\n", "c", "x\ny", "a\r\nb\nx\r\ny\r\n"),
                // Changing line ends on purpose.
                ("a\r\nb\r\n", "a\r\n", "a\n", "a\nb\r\n"),
                ("a\nb\n", "a\n", "a\r\n", "a\r\nb\n"),
            ],
            Level::Exact,
        );
    }

    #[test]
    fn newline_style_folded() {
        check(
            &[
                ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n"),
                ("a\r\nb\r\nc\r\n", "a\nb\n", "x\n", "x\r\nc\r\n"),
                ("a\r\nb\r\nc", "b\nc", "x", "a\r\nx"),
                ("a\nb\nc\n", "a\r\nb\r\n", "x\r\ny\r\n", "x\ny\nc\n"),
                ("a\r\nb\nc\r\n", "a\nb\nc", "x", "x\r\n"),
                ("a\r\n\r\nb\r\n", "\n\nb", "\nb", "a\r\nb\r\n"),
                ("xa\r\nby\r\n", "a\nb", "-", "x-y\r\n"),
            ],
            Level::Newlines,
        );
        // A bare CR is data, not a line end.
        assert_eq!(edit("a\rb\n", "a\nb", "x"), Err("-".into()));
        assert_eq!(
            edit("a\r\nb\r\na\r\nb\r\n", "a\nb", "x"),
            Err("2[1, 3]".into())
        );
        assert_eq!(
            apply("a\r\nb\r\na\r\nb", "a\nb", "x\ny", true),
            Ok((Level::Newlines, "x\r\ny\r\nx\r\ny".into()))
        );
    }

    #[test]
    fn trailing_blanks_ignored() {
        check(
            &[
                ("a  \nb\t\nc\n", "a\nb\nc", "x", "x\n"),
                ("a\nb\n", "a  \nb", "x", "x\n"),
                ("a\nb\n", "a\nb  ", "x\ny", "x\ny\n"),
                ("a \r\nb\r\n", "a\nb", "x\ny", "x\r\ny\r\n"),
                ("a \n\t\nb\n", "a\n\nb", "x", "x\n"),
                ("a\n  \nb\n", "\n\nb", "\nb", "a\nb\n"),
                ("foo \n", "foo   ", "bar", "bar\n"),
                // Blanks of lines outside the match stay.
                ("z \na \nb \nc \n", "a\nb\n", "x\n", "z \nx\nc \n"),
            ],
            Level::Blanks,
        );
        // Blanks within a line count.
        assert_eq!(edit("foo bar\n", "foo  ", "x"), Err("-".into()));
        assert_eq!(edit("a b\n", "a  b", "x"), Err("-".into()));
        assert_eq!(
            apply("a \nb\na  \nb\n", "a\nb", "x", true),
            Err("2[1, 3]".into())
        );
        // Nothing but blanks would match anywhere.
        assert_eq!(edit("a\n\nb\n", " \n \n", "x"), Err("-".into()));
    }

    #[test]
    fn uniform_indentation() {
        check(
            &[
                // Too little, too much.
                (
                    "if x {\n    a;\n      b;\n}\n",
                    "a;\n  b;",
                    "c;\n  d;\n    e;",
                    "if x {\n    c;\n      d;\n        e;\n}\n",
                ),
                (
                    "  a:\n    b\n",
                    "      a:\n        b\n",
                    "      c:\n        d\n",
                    "  c:\n    d\n",
                ),
                // The new text is less indented than all of the old.
                (
                    "    a\n    b\n",
                    "  a\n  b\n",
                    "  a\nend\n",
                    "    a\n  end\n",
                ),
                // Spaces for tabs and back, at any depth.
                (
                    "f() {\n\tif x; then\n\t\ty\n\tfi\n}\n",
                    "    if x; then\n        y\n",
                    "    if z; then\n        if w; then\n            y\n",
                    "f() {\n\tif z; then\n\t\tif w; then\n\t\t\ty\n\tfi\n}\n",
                ),
                (
                    "\tfoo\n",
                    "        foo",
                    "        bar\n                baz",
                    "\tbar\n\t\tbaz\n",
                ),
                (
                    "  a\n    b\n",
                    "\ta\n\t\tb\n",
                    "\ta\n\t\tc\n",
                    "  a\n    c\n",
                ),
                // Also when the first line has no indentation.
                (
                    "f() {\n\tx\n}\n",
                    "f() {\n    x\n}\n",
                    "f() {\n    y\n        z\n}\n",
                    "f() {\n\ty\n\t\tz\n}\n",
                ),
                // Spaces that are no full tab stay.
                (
                    "\ta\n\t  b\n",
                    "    a\n      b\n",
                    "    c\n      d\n",
                    "\tc\n\t  d\n",
                ),
                // Blank lines match blank lines; those of the new text stay as they are.
                ("\ta\n\n\tb\n", "a\n  \nb\n", "a\n\nc\n", "\ta\n\n\tc\n"),
                // CRLF with both.
                (
                    "\ta\r\n\tb\r\n",
                    "  a\n  b\n",
                    "  c\n  d\n",
                    "\tc\r\n\td\r\n",
                ),
            ],
            Level::Indent,
        );
        // Not uniform: the lines differ in depth.
        assert_eq!(edit("  a\n    b\n", "a\nb\n", "x\n"), Err("-".into()));
        // Only whole lines.
        assert_eq!(
            edit("\tfoo(1)\n\tbar\n", "  foo(\n  bar", "x"),
            Err("-".into())
        );
        assert_eq!(
            edit("  a\n  b\n    a\n    b\n", "\ta\n\tb\n", "x\n"),
            Err("2[1, 3]".into())
        );
    }

    #[test]
    fn ambiguity_is_never_resolved_by_a_guess() {
        assert_eq!(edit("a\na\n", "a", "b"), Err("2[1, 2]".into()));
        assert_eq!(edit("aaa", "aa", "b"), Err("2[1, 1]".into()));
        assert_eq!(
            apply("aaaa", "aa", "b", true),
            Ok((Level::Exact, "bb".into()))
        );
    }

    #[test]
    fn repetition_is_given_up_not_guessed() {
        let text = b"a\n".repeat(1 << 19);
        // Every line would do as a start, and each place fails at its end.
        let old = [&b"  a\n".repeat(1 << 15)[..], b"a"].concat();
        assert!(find(&text, &old, false).spans.is_empty());
        let many = find(&[b'0'; 1 << 20], &[b'0'; 1 << 10], false);
        assert!(many.ambiguous(false) && many.level == Level::Exact);
    }

    #[test]
    fn hostile_input_is_survived() {
        let parts: [&[u8]; 9] = [
            b"",
            b"\n",
            b"\r",
            b"\r\n",
            b" ",
            b"\t",
            b"a",
            b"\xff",
            b"a \r\n\tb",
        ];
        for text in parts.iter().flat_map(|a| parts.map(|b| [a, b].concat())) {
            for old in parts.iter().flat_map(|a| parts.map(|b| [a, b].concat())) {
                if old.is_empty() {
                    continue;
                }
                for all in [false, true] {
                    let m = find(&text, &old, all);
                    let mut last = 0;
                    for &(start, end) in &m.spans {
                        assert!(start < end && end <= text.len());
                        assert!(last <= start || m.ambiguous(all));
                        last = end;
                        m.fit(&text, start, &old, &text, &mut Vec::new());
                    }
                }
            }
        }
    }
}
