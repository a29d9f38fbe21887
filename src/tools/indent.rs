//! Finding whole lines whose indentation differs by one rule from the text looked for: more or less of it, tabs for
//! spaces or spaces for tabs.

use super::textmatch::{FUEL, is_blank, pieces, trim_end};
use memchr::memchr;

/// A change of indentation: first tabs and spaces, then the leading part.
#[derive(Default, Clone)]
pub struct Shift {
    tabs: Tabs,
    from: Vec<u8>,
    to: Vec<u8>,
}

/// How the model's tabs and spaces become the file's.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Tabs {
    #[default]
    Same,
    /// So many spaces are a tab.
    FromSpaces(usize),
    /// A tab is so many spaces.
    ToSpaces(usize),
}

const TABS: [Tabs; 8] = [
    Tabs::FromSpaces(4),
    Tabs::FromSpaces(8),
    Tabs::FromSpaces(2),
    Tabs::FromSpaces(3),
    Tabs::ToSpaces(4),
    Tabs::ToSpaces(8),
    Tabs::ToSpaces(2),
    Tabs::ToSpaces(3),
];

impl Tabs {
    fn convert(self, indent: &[u8]) -> Vec<u8> {
        match self {
            Tabs::Same => indent.to_vec(),
            Tabs::FromSpaces(n) => {
                let spaces = indent.iter().take_while(|&&b| b == b' ').count();
                let mut out = vec![b'\t'; spaces / n];
                // Spaces that are no full tab, or follow one, stay.
                out.extend_from_slice(indent.get(spaces / n * n..).unwrap_or_default());
                out
            }
            Tabs::ToSpaces(n) => {
                let mut out = Vec::new();
                for &b in indent {
                    out.resize(out.len() + if b == b'\t' { n } else { 1 }, b' ');
                }
                out
            }
        }
    }
}

impl Shift {
    /// `new`, whose lines are indented like the text looked for, indented like the text found.
    pub fn apply(&self, new: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(new.len() + 64);
        for line in new.split_inclusive(|&b| b == b'\n') {
            let (indent, words) = split_indent(line);
            if words.trim_ascii().is_empty() {
                out.extend_from_slice(line);
                continue;
            }
            let indent = self.tabs.convert(indent);
            match indent.strip_prefix(self.from.as_slice()) {
                Some(more) => {
                    out.extend_from_slice(&self.to);
                    out.extend_from_slice(more);
                }
                // Less indented than anything in oldString: as much less than the file's lines.
                None => {
                    let less = self.from.len().saturating_sub(indent.len());
                    let keep = self.to.len().saturating_sub(less);
                    out.extend_from_slice(self.to.get(..keep).unwrap_or_default());
                }
            }
            out.extend_from_slice(words);
        }
        out
    }
}

fn split_indent(line: &[u8]) -> (&[u8], &[u8]) {
    line.split_at(line.iter().take_while(|&&b| is_blank(b)).count())
}

/// Places where all lines of `old` stand with another indentation, and the shift of the last. Of the rules that fit a
/// place, one that explains its indentation by tabs and spaces alone is taken first.
pub fn find(text: &[u8], old: &[u8]) -> (Vec<(usize, usize)>, Shift) {
    let mut lines = pieces(old);
    let whole = lines.len() > 1 && lines.last().is_some_and(|l| l.is_empty());
    if whole {
        lines.pop();
    }
    let lines: Vec<(&[u8], &[u8])> = lines
        .into_iter()
        .map(|l| split_indent(trim_end(l)))
        .collect();
    let mut spans = Vec::new();
    let mut found = Shift::default();
    // Most failures end here: no place has the same words.
    for start in same_words(text, &lines) {
        let rules = TABS.iter().map(|&t| (t, true));
        let rules = rules.chain([(Tabs::Same, false)]);
        for (tabs, in_place) in rules.chain(TABS.iter().map(|&t| (t, false))) {
            let indents: Vec<Vec<u8>> = lines.iter().map(|l| tabs.convert(l.0)).collect();
            if let Some((end, from, to)) = indented_at(text, start, &lines, &indents, whole)
                && (!in_place || from == to)
            {
                spans.push((start, end));
                found = Shift { tabs, from, to };
                break;
            }
        }
    }
    (spans, found)
}

/// A line of `text` from `at`: without its end, and where the next begins.
fn line_at(text: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = text.get(at..).filter(|r| !r.is_empty())?;
    match memchr(b'\n', rest) {
        Some(i) => {
            let line = rest.get(..i)?;
            Some((line.strip_suffix(b"\r").unwrap_or(line), at + i + 1))
        }
        None => Some((rest, text.len())),
    }
}

/// The starts of lines from which on all lines say the same but for blanks around them.
fn same_words(text: &[u8], lines: &[(&[u8], &[u8])]) -> Vec<usize> {
    let mut places = Vec::new();
    let mut fuel = FUEL;
    let mut start = 0;
    while let Some((_, next)) = line_at(text, start) {
        let mut at = start;
        let same = lines.iter().all(|want| match line_at(text, at) {
            Some((line, next)) if fuel > 0 => {
                fuel -= 1;
                at = next;
                split_indent(trim_end(line)).1 == want.1
            }
            _ => false,
        });
        if same {
            places.push(start);
        }
        start = next;
    }
    places
}

/// Whether one shift explains the indentation of all lines from `start` on: where they end, and what becomes what.
fn indented_at(
    text: &[u8],
    start: usize,
    lines: &[(&[u8], &[u8])],
    indents: &[Vec<u8>],
    whole: bool,
) -> Option<(usize, Vec<u8>, Vec<u8>)> {
    let filled = || lines.iter().enumerate().filter(|(_, l)| !l.1.is_empty());
    let least = filled().min_by_key(|&(i, _)| indents.get(i).map_or(0, Vec::len))?;
    let from = indents.get(least.0)?;
    let mut to: Option<&[u8]> = None;
    // The least indented line fixes the shift, so it is looked up first.
    let mut at = start;
    for i in 0..=least.0 {
        let (line, next) = line_at(text, at)?;
        if i == least.0 {
            to = Some(split_indent(line).0);
        }
        at = next;
    }
    let to = to?;
    let (mut at, mut end) = (start, start);
    for (i, (_, words)) in lines.iter().enumerate() {
        let (line, next) = line_at(text, at)?;
        let shown = trim_end(line);
        end = at + shown.len();
        if !words.is_empty() {
            let more = split_indent(shown).0.strip_prefix(to)?;
            if indents.get(i)?.strip_prefix(from.as_slice())? != more {
                return None;
            }
        }
        at = next;
    }
    if whole {
        // The last line end belongs to the match, so it must be there.
        if text.get(at.wrapping_sub(1)) != Some(&b'\n') {
            return None;
        }
        end = at;
    }
    Some((end, from.clone(), to.to_vec()))
}
