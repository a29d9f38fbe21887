//! Finding the text an edit names, also when the model got its line ends, trailing blanks or indentation wrong: four
//! levels, each only when the one before found nothing, and never a guess between two places.

use super::indent::{self, Shift};
use memchr::{memchr, memchr_iter, memmem, memrchr};

/// Comparisons of lines after which a search gives up: thousands of equal lines in both texts would take minutes.
pub(super) const FUEL: u32 = 20_000_000;

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

impl Level {
    /// What to tell the model; nothing for an exact match.
    pub fn note(self) -> &'static str {
        match self {
            Level::Exact => "",
            Level::Newlines => "matched ignoring CRLF and LF",
            Level::Blanks => "matched ignoring trailing blanks",
            Level::Indent => "matched with other indentation, newString indented likewise",
        }
    }
}

/// Places found: byte ranges in ascending order, not overlapping.
pub struct Matches {
    /// How.
    pub level: Level,
    /// Where.
    pub spans: Vec<(usize, usize)>,
    /// What indentation to change in the new text.
    shift: Shift,
}

/// Why there is no match.
#[derive(Debug, PartialEq, Eq)]
pub enum Miss {
    /// At no level.
    Nowhere,
    /// In several places, when it must be one: how, how often, the lines of the first ten.
    Several(Level, usize, Vec<u64>),
}

/// Finds `old`, which is not empty, in `text`. With `all` any number of places will do for an exact match and one that
/// differs in line ends only; everything else must be unique.
///
/// # Errors
/// [`Miss`].
pub fn find(text: &[u8], old: &[u8], all: bool) -> Result<Matches, Miss> {
    let spans = exact(text, old, all);
    if !spans.is_empty() {
        return unique(text, Level::Exact, spans, all, Shift::default());
    }
    let spans = by_lines(text, old, false, all);
    if !spans.is_empty() {
        return unique(text, Level::Newlines, spans, all, Shift::default());
    }
    if old.trim_ascii().is_empty() {
        return Err(Miss::Nowhere);
    }
    let spans = by_lines(text, old, true, false);
    if !spans.is_empty() {
        return unique(text, Level::Blanks, spans, false, Shift::default());
    }
    let (spans, shift) = indent::find(text, old);
    if !spans.is_empty() {
        return unique(text, Level::Indent, spans, false, shift);
    }
    Err(Miss::Nowhere)
}

fn unique(
    text: &[u8],
    level: Level,
    spans: Vec<(usize, usize)>,
    all: bool,
    shift: Shift,
) -> Result<Matches, Miss> {
    if spans.len() > 1 && !all {
        let lines = spans.iter().take(10).map(|s| line_of(text, s.0)).collect();
        return Err(Miss::Several(level, spans.len(), lines));
    }
    Ok(Matches {
        level,
        spans,
        shift,
    })
}

/// The number, from 1, of the line byte `at` is in.
pub fn line_of(text: &[u8], at: usize) -> u64 {
    memchr_iter(b'\n', text.get(..at).unwrap_or(text)).count() as u64 + 1
}

/// Overlapping places count when one is wanted: `aa` in `aaa` is ambiguous.
fn exact(text: &[u8], old: &[u8], all: bool) -> Vec<(usize, usize)> {
    let finder = memmem::Finder::new(old);
    let mut spans = Vec::new();
    let mut from = 0;
    while let Some(i) = text.get(from..).and_then(|rest| finder.find(rest)) {
        let start = from + i;
        spans.push((start, start + old.len()));
        from = if all { start + old.len() } else { start + 1 };
    }
    spans
}

pub(super) fn is_blank(b: u8) -> bool {
    b == b' ' || b == b'\t'
}

pub(super) fn trim_end(line: &[u8]) -> &[u8] {
    let blanks = line.iter().rev().take_while(|&&b| is_blank(b)).count();
    line.get(..line.len() - blanks).unwrap_or(line)
}

/// The lines of `text`, without their LF or CRLF; what follows the last line end comes last, even if empty.
pub(super) fn pieces(text: &[u8]) -> Vec<&[u8]> {
    let mut all: Vec<&[u8]> = text.split(|&b| b == b'\n').collect();
    let n = all.len() - 1;
    for piece in all.iter_mut().take(n) {
        *piece = piece.strip_suffix(b"\r").unwrap_or(piece);
    }
    all
}

/// Places where `old` stands when CRLF is LF and, with `blanks`, blanks at lines' ends are nothing.
fn by_lines(text: &[u8], old: &[u8], blanks: bool, all: bool) -> Vec<(usize, usize)> {
    let pieces = pieces(old);
    let first = pieces.first().copied().unwrap_or_default();
    let first = if blanks && pieces.len() > 1 {
        trim_end(first)
    } else {
        first
    };
    if pieces.len() == 1 && !blanks {
        return Vec::new();
    }
    // Without text in its first line, a match starts where a line of the file ends.
    let needle = match first {
        [] => b"\n",
        _ if pieces.len() == 1 => trim_end(first),
        first => first,
    };
    let finder = memmem::Finder::new(needle);
    let mut fuel = FUEL;
    let mut spans = Vec::new();
    let mut from = 0;
    while let Some(i) = text.get(from..).and_then(|rest| finder.find(rest)) {
        let mut start = from + i;
        from = start + 1;
        if first.is_empty() {
            let line = text.get(..start).unwrap_or_default();
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            start = if blanks { trim_end(line) } else { line }.len();
        }
        if let Some(end) = match_at(text, start, &pieces, blanks, &mut fuel) {
            spans.push((start, end));
            if all {
                from = from.max(end);
            }
        }
    }
    spans
}

/// Where the match of `pieces` at `start` ends, if there is one.
fn match_at(
    text: &[u8],
    start: usize,
    pieces: &[&[u8]],
    blanks: bool,
    fuel: &mut u32,
) -> Option<usize> {
    let mut rest = text.get(start..)?;
    let skip = |rest: &[u8]| rest.iter().take_while(|&&b| is_blank(b)).count();
    for (i, piece) in pieces.iter().enumerate() {
        *fuel = fuel.checked_sub(1)?;
        let last = i + 1 == pieces.len();
        let wanted = if blanks { trim_end(piece) } else { piece };
        rest = rest.strip_prefix(wanted)?;
        if blanks && (!last || wanted.len() < piece.len()) {
            rest = rest.get(skip(rest)..)?;
        }
        if !last {
            let line_end = rest.strip_prefix(b"\r").unwrap_or(rest);
            rest = line_end.strip_prefix(b"\n")?;
        } else if wanted.len() < piece.len()
            && !(rest.is_empty() || rest.starts_with(b"\n") || rest.starts_with(b"\r\n"))
        {
            return None;
        }
    }
    Some(text.len() - rest.len())
}

impl Matches {
    /// `new` as it goes into the file in place of `old` at a match that starts at byte `start`: indented like the match,
    /// with the line ends used there.
    pub fn fit(&self, text: &[u8], start: usize, old: &[u8], new: &[u8]) -> Vec<u8> {
        let crlf = crlf_at(text, start);
        if self.level != Level::Indent {
            return fit_newlines(new, self.level, old, crlf);
        }
        let out = self.shift.apply(new);
        fit_newlines(&out, self.level, old, crlf)
    }
}

/// Gives the lines of `new` the line ends of the place it goes to. A model that names CR itself in an exact match means
/// what it says.
pub fn fit_newlines(new: &[u8], level: Level, old: &[u8], crlf: bool) -> Vec<u8> {
    let exact = level == Level::Exact;
    if exact && (!crlf || memchr(b'\r', old).is_some()) {
        return new.to_vec();
    }
    let mut out = Vec::with_capacity(new.len() + 16);
    for line in new.split_inclusive(|&b| b == b'\n') {
        match line.strip_suffix(b"\n") {
            Some(words) => {
                out.extend_from_slice(words.strip_suffix(b"\r").unwrap_or(words));
                out.extend_from_slice(if crlf { b"\r\n" } else { b"\n" });
            }
            None => out.extend_from_slice(line),
        }
    }
    out
}

/// Whether lines end in CRLF at byte `at`: the line that holds it, or the one before if it has no end.
pub fn crlf_at(text: &[u8], at: usize) -> bool {
    let (before, after) = text.split_at(at.min(text.len()));
    let end = match memchr(b'\n', after) {
        Some(i) => at + i,
        None => match memrchr(b'\n', before) {
            Some(i) => i,
            None => return false,
        },
    };
    end > 0 && text.get(end - 1) == Some(&b'\r')
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
        let m = find(text, old, all).map_err(|miss| match miss {
            Miss::Nowhere => "-".to_string(),
            Miss::Several(_, n, lines) => format!("{n}{lines:?}"),
        })?;
        let mut out = Vec::new();
        let mut from = 0;
        for &(start, end) in &m.spans {
            out.extend_from_slice(&text[from..start]);
            out.extend_from_slice(&m.fit(text, start, old, new.as_bytes()));
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
                    if let Ok(m) = find(&text, &old, all) {
                        let mut last = 0;
                        for &(start, end) in &m.spans {
                            assert!(last <= start && start < end && end <= text.len());
                            last = end;
                            m.fit(&text, start, &old, &text);
                        }
                    }
                }
            }
        }
    }
}
