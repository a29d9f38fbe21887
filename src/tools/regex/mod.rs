//! Regular expressions in time linear in the haystack, whatever the pattern.
//!
//! Literals, `.`, classes (`[a-z]`, `[^…]`, `[[:alpha:]]`), `\d \w \s \D \W \S`, `^ $ \b \B \A \z`, groups `(…)` and
//! `(?:…)`, alternation, greedy and lazy `* + ? {m} {m,} {m,n}`, `\n \t \r \f \v`, `(?i)` at the
//! start. A `{` that opens no repetition is itself, so is a `[` in a class and a `]` or `}` elsewhere. Anything else is
//! an error that names it: look-around, back-references, named groups, other flags, possessive quantifiers, `\p{…}`, `\x1b`.
//!
//! Haystacks are bytes. `.` and classes match whole characters in UTF-8, never an invalid byte; `.` does not match a
//! newline. `^` and `$` match at the ends of the haystack only. `\d \w \s \b` and the POSIX classes know ASCII only.
//! Ignoring case pairs ASCII, Latin, Greek and Cyrillic letters one to one: no `ß`/`ẞ`, no final sigma, no Kelvin sign.
//! Of several matches the leftmost counts, and from there the one Perl would prefer.

mod dfa;
mod parse;
mod prog;

use dfa::Dfa;
use memchr::memmem;
use parse::{Node, Tree};

/// A compiled pattern with what it has learnt about haystacks so far: searching changes it.
pub struct Regex {
    literal: Vec<u8>,
    exact: bool,
    /// Finds where a match ends.
    forward: Dfa,
    /// Finds where the match that ends there starts.
    reverse: Dfa,
}

impl Regex {
    /// Compiles `pattern`. The error is a phrase that names what is wrong or not supported.
    pub fn new(pattern: &str, ignore_case: bool) -> Result<Self, String> {
        let tree = parse::parse(pattern, ignore_case)?;
        let [Some(forward), Some(reverse)] = [false, true].map(|r| prog::compile(&tree, r)) else {
            let text = "the compiled pattern is too large: use smaller classes or lower {m,n}";
            return Err(text.into());
        };
        let mut literal = Literal {
            tree: &tree,
            run: Vec::new(),
            best: Vec::new(),
            exact: true,
        };
        literal.scan(tree.root);
        let exact = literal.exact && !literal.run.is_empty();
        literal.cut();
        literal.best.reverse();
        Ok(Regex {
            literal: literal.best,
            exact,
            forward: Dfa::new(forward),
            reverse: Dfa::new(reverse),
        })
    }

    /// For [`Regex::candidate`] and [`Regex::is_match`], `^` matches after each `\n`, too, and `$` before each `\n` and
    /// `\r`. To be called before the first search.
    pub fn by_lines(&mut self) {
        self.forward.lines = true;
    }

    /// A place in the first line at or after `start` that may have a match; `hay` may have many lines, and none before
    /// that one has a match.
    pub fn candidate(&mut self, hay: &[u8], start: usize) -> Option<usize> {
        match self.literal.is_empty() {
            // The match that ends first: every line before that end is out.
            true => self.forward.run(hay, start, hay.len(), true),
            false => Some(start + memmem::find(hay.get(start..)?, &self.literal)?),
        }
    }

    /// The leftmost match that starts at or after `start`, as the range of its bytes. Bytes before `start` decide what
    /// `^` and `\b` see there. An empty match may lie inside a character.
    pub fn find_at(&mut self, hay: &[u8], start: usize) -> Option<(usize, usize)> {
        let end = self.end(hay, start, false)?;
        let from = match self.exact {
            true => end - self.literal.len(),
            false => self.reverse.run(hay, end, start, false).unwrap_or(end),
        };
        Some((from, end))
    }

    /// Whether there is a match anywhere; stops at the first sign of one.
    pub fn is_match(&mut self, hay: &[u8]) -> bool {
        self.end(hay, 0, true).is_some()
    }

    /// Where the first match from `start` on ends, or, if `earliest`, a place that shows there is one.
    fn end(&mut self, hay: &[u8], start: usize, earliest: bool) -> Option<usize> {
        let rest = hay.get(start..)?;
        if !self.literal.is_empty() {
            let at = memmem::find(rest, &self.literal)?;
            if self.exact {
                return Some(start + at + self.literal.len());
            }
        }
        self.forward.run(hay, start, hay.len(), earliest)
    }

    /// A byte string that every match contains, to rule out whole buffers quickly.
    pub fn literal(&self) -> Option<&[u8]> {
        (!self.literal.is_empty()).then_some(&self.literal[..])
    }

    /// Whether the pattern matches exactly [`Regex::literal`] and nothing else.
    pub fn is_literal(&self) -> bool {
        self.exact
    }
}

/// The search for the longest string that every match contains. It goes from right to left, as lists lean to the left;
/// strings are built the wrong way round.
struct Literal<'a> {
    tree: &'a Tree,
    /// What every match contains just behind the node at hand.
    run: Vec<u8>,
    best: Vec<u8>,
    /// `run` is all there is so far.
    exact: bool,
}

impl Literal<'_> {
    fn scan(&mut self, mut node: u32) {
        let tree = self.tree;
        while let Node::Cat(before, last) = tree.nodes[node as usize] {
            self.scan(last);
            node = before;
        }
        match tree.nodes[node as usize] {
            Node::Empty => {}
            Node::Class(1, off) if tree.ranges[off as usize].0 == tree.ranges[off as usize].1 => {
                let mut c = tree.ranges[off as usize].0;
                // What the lead byte has room for, and its mark; none in ASCII.
                let (mut room, mut lead) = (0x80, 0);
                while c >= room {
                    self.run.push(0x80 | c as u8 & 0x3F);
                    c >>= 6;
                    (room, lead) = match lead {
                        0 => (0x20, 0xC0),
                        _ => (room >> 1, 0x80 | lead >> 1),
                    };
                }
                self.run.push(lead | c as u8);
            }
            Node::Look(_) => self.exact = false,
            Node::Repeat { node, min, .. } if min > 0 => {
                self.scan(node);
                self.cut();
            }
            _ => self.cut(),
        }
    }

    /// Something unknown comes before: ends the run.
    fn cut(&mut self) {
        self.exact = false;
        if self.run.len() > self.best.len() {
            std::mem::swap(&mut self.run, &mut self.best);
        }
        self.run.clear();
    }
}

#[cfg(test)]
mod differential;

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pattern: &str, hay: &[u8]) -> Vec<(usize, usize)> {
        let mut re = Regex::new(pattern, false).unwrap_or_else(|e| panic!("{pattern}: {e}"));
        let (mut spans, mut at) = (Vec::new(), 0);
        while let Some((s, e)) = re.find_at(hay, at) {
            spans.push((s, e));
            at = if e > s { e } else { e + 1 };
        }
        spans
    }

    #[test]
    fn spans() {
        type Row<'a> = (&'a str, &'a [u8], &'a [(usize, usize)]);
        let table: &[Row] = &[
            ("b", b"abcb", &[(1, 2), (3, 4)]),
            ("", b"ab", &[(0, 0), (1, 1), (2, 2)]),
            ("sam|samwise", b"samwise", &[(0, 3)]),
            ("samwise|sam", b"samwise", &[(0, 7)]),
            ("a*?b", b"aab b", &[(0, 3), (4, 5)]),
            ("a{2,3}", b"aaaaa", &[(0, 3), (3, 5)]),
            ("a{2,3}?", b"aaaaa", &[(0, 2), (2, 4)]),
            ("a{2,}", b"aaaaa a", &[(0, 5)]),
            ("(?:ab){2}", b"ababab", &[(0, 4)]),
            ("x{0}y", b"xy", &[(1, 2)]),
            (".", "é\n€😀".as_bytes(), &[(0, 2), (3, 6), (6, 10)]),
            (".", b"\xC3\xFF\xED\xA0\x80\xF4\x90\x80\x80a", &[(9, 10)]),
            ("[^a]", b"a\xC3\xA9\xC3\n", &[(1, 3), (4, 5)]),
            ("[α-ω]+", "Αβγ δ".as_bytes(), &[(2, 6), (7, 9)]),
            ("^a|b$", b"aabb", &[(0, 1), (3, 4)]),
            ("^", b"a\nb", &[(0, 0)]),
            ("$", b"a\n", &[(2, 2)]),
            (r"\bfoo\b", b"foo _foo foo-", &[(0, 3), (9, 12)]),
            (r"\B", b"ab", &[(1, 1)]),
            (r"\b", "aé".as_bytes(), &[(0, 0), (1, 1)]),
            (r"\d+\s\w+\D\S\W", b"12\tab_1.,;", &[(0, 10)]),
            (r"[\d\-x]+", b"a1-x", &[(1, 4)]),
            (r"[]a]+[^]a]", b"]a]b", &[(0, 4)]),
            (r"[a-]+[[]", b"-a[", &[(0, 3)]),
            (r"[[:alpha:]_]+[[:^digit:][:punct:]]", b"1a_b;", &[(1, 5)]),
            (r"\.\-\/\n\t\r", b".-/\n\t\r", &[(0, 6)]),
            ("fn main() {", b"", &[]),
            (r"main\(\) {", b"fn main() {", &[(3, 11)]),
            ("a{,2}{b}{1,2,3}", b"a{,2}{b}{1,2,3}", &[(0, 15)]),
            ("(?i)straße", "STRAßE".as_bytes(), &[(0, 7)]),
            ("(a*)*b", b"aab", &[(0, 3)]),
            ("(|a)*", b"aa", &[(0, 0), (1, 1), (2, 2)]),
            ("(|a)+b", b"aab", &[(0, 3)]),
            ("(?:a|)+?b|^*$", b"ab", &[(0, 2), (2, 2)]),
            (r"[^\d\D]|a", b"za", &[(1, 2)]),
        ];
        for (pattern, hay, right) in table {
            assert_eq!(all(pattern, hay), *right, "{pattern}");
        }
    }

    #[test]
    fn errors_name_the_construct() {
        let long = "a".repeat(9000);
        let deep = "(".repeat(200);
        let many = format!("(?:{}){{9}}", "[aα€]".repeat(700));
        let table: &[(&str, &str)] = &[
            ("(?=a)", "look-ahead (?= is not supported"),
            ("x(?!a)", "look-ahead (?! is not supported"),
            ("(?<=a)", "look-behind (?<= is not supported"),
            ("(?<!a)", "look-behind (?<! is not supported"),
            ("(?>a)", "atomic group (?> is not supported"),
            ("(?P<n>a)", "named group (?P< is not supported"),
            ("(?<n>a)", "named group (?< is not supported"),
            (
                "a(?i)b",
                "(?i is not supported: groups are ( and (?:, the only flag is (?i) at the very start",
            ),
            ("(?m)^a", "(?m is not supported"),
            (r"(a)\1", r"back-reference \1 is not supported"),
            (r"\k<n>", r"back-reference \k is not supported"),
            (r"\pL", r"Unicode class \p is not supported"),
            (r"\<a", r"word boundary \< is not supported: use \b"),
            (r"\Ka", r"escape \K is not supported"),
            ("*a", "nothing to repeat before *"),
            ("a|+", "nothing to repeat before +"),
            ("({2,3})", "nothing to repeat before {2,3}"),
            ("a++", "+ after a quantifier is not supported"),
            ("a**", "* after a quantifier is not supported"),
            ("a{2}{3}", "{3} after a quantifier is not supported"),
            ("a{3,2}", "{3,2} has its bounds the wrong way round"),
            ("a{5000}", "{5000} repeats more than 1000 times"),
            ("a{1,99999999999999999999}", "repeats more than 1000 times"),
            ("(a", "unbalanced ("),
            ("a)", "unbalanced )"),
            ("[a", "unbalanced ["),
            ("[]", "unbalanced ["),
            ("[^", "unbalanced ["),
            ("[z-a]", "z-a in a class is not a range"),
            (r"[a-\d]", r"a-\d in a class is not a range"),
            (r"[\b]", r"\b \B \A \z mean nothing inside a class"),
            ("[[:word:]]", "[[: opens no known class"),
            ("a\\", "\\ at the end"),
            (r"\x41", r"escape \x is not supported"),
            (&long, "longer than 8192 bytes"),
            (&deep, "nested more than 100 deep"),
            (&many, "too large"),
            ("((a{100}){100}){100}", "too large"),
            ("((((){1000}){1000}){1000}){1000}", "too large"),
        ];
        for (pattern, part) in table {
            match Regex::new(pattern, false) {
                Ok(_) => panic!("{pattern} was accepted"),
                Err(e) => assert!(e.contains(part), "{pattern}: {e}"),
            }
        }
    }

    #[test]
    fn lines_of_a_buffer() {
        for (pattern, hay, start, right) in [
            ("^[bx]$", "a\nb\r\nc", 0, Some(3)),
            ("^[bx]$", "ab\nbc\nc\rb", 0, None),
            ("c|^$", "a\n\nb", 0, Some(2)),
            ("c|^$", "a\n\nb", 3, None),
            (r"[^x]*\d", "a\nb\n1\n2", 0, Some(5)),
            (r"o+\b", "foo\n", 0, Some(3)),
            ("a[xy]bcd", "a\nbcd\nbcd", 3, Some(6)),
        ] {
            let mut re = Regex::new(pattern, false).unwrap();
            re.by_lines();
            let at = re.candidate(hay.as_bytes(), start);
            let line = |at: usize| hay[..at].matches('\n').count();
            assert_eq!(at.map(line), right.map(line), "{pattern} {hay:?}");
        }
        // Elsewhere a newline is no border.
        assert!(!Regex::new("^b", false).unwrap().is_match(b"a\nb"));
    }

    #[test]
    fn literals() {
        for (pattern, literal, exact) in [
            ("foo", "foo", true),
            ("f(?:o)ö", "foö", true),
            (r"a\.b", "a.b", true),
            ("(?i)foo1", "1", false),
            ("(?i)12", "12", true),
            ("", "", false),
            ("^foo$", "foo", false),
            ("x*foo|b", "", false),
            ("fo+bar[xy]zu?", "obar", false),
            ("(abc){2}d", "abcd", false),
            ("[a]b", "ab", true),
            ("ab{0}cde?", "cd", false),
        ] {
            let re = Regex::new(pattern, false).unwrap();
            let found = re.literal().unwrap_or_default();
            assert_eq!(
                (found, re.is_literal()),
                (literal.as_bytes(), exact),
                "{pattern}"
            );
        }
    }

    /// Ranges from and to characters where the lengths or the leading bytes of their UTF-8 change.
    #[test]
    fn utf8_ranges() {
        let mut chars: Vec<char> = (0..=0x10_FFFF)
            .filter(|c| matches!(c & 0xFFF, 0 | 0x3F | 0x40 | 0x7FF | 0x800 | 0xFC0 | 0xFFF))
            .chain([0x7F, 0x80, 0xD7FF])
            .filter_map(char::from_u32)
            .collect();
        chars.sort_unstable();
        let hay: String = chars.iter().collect();
        let place = |n: usize| chars[..n].iter().map(|c| c.len_utf8()).sum::<usize>();
        for lo in (0..chars.len()).step_by(7) {
            for hi in (lo..chars.len()).step_by(131) {
                let (a, b) = (place(lo), place(hi + 1));
                let range = format!("{}-{}", chars[lo], chars[hi]);
                let inside = all(&format!("[{range}]+"), hay.as_bytes());
                assert_eq!(inside, [(a, b)], "{range:?}");
                let mut outside = vec![(0, a), (b, hay.len())];
                outside.retain(|(s, e)| s < e);
                let found = all(&format!("[^{range}]+"), hay.as_bytes());
                assert_eq!(found, outside, "not {range:?}");
            }
        }
    }

    /// Every letter of the alphabets whose case is folded, against the reference. Left out: letters it also folds
    /// across alphabets or three ways.
    #[test]
    fn case() {
        let letters = (0x41..0x530).filter_map(char::from_u32);
        let odd = "ksåßµſDŽDždžLJLjljNJNjnjDZDzdzβεθικμπρςσφϐϑϕϖϰϱϵιϴBEΘIKMPΡΣΦΒΕΙΚΜΠΡωΩİı";
        let skip = |c: char| matches!(c as u32, 0x180..=0x385 | 0x3CF..=0x3FF | 0x3AA..=0x3B0 | 0x482..=0x489);
        let hay: String = letters.collect();
        for c in hay
            .chars()
            .filter(|&c| !skip(c) && !odd.to_uppercase().contains(c) && !odd.contains(c))
        {
            if !c.is_alphabetic() && c != '@' && c != '[' {
                continue;
            }
            let theirs =
                regex::bytes::Regex::new(&format!("(?i){}", regex::escape(&c.to_string())))
                    .unwrap();
            let right: Vec<_> = theirs
                .find_iter(hay.as_bytes())
                .map(|m| (m.start(), m.end()))
                .collect();
            let mine = all(&format!("(?i)[{c}]"), hay.as_bytes());
            assert_eq!(mine, right, "{c} {:x}", c as u32);
        }
        let mut re = Regex::new("[a-fα-γ]+X", true).unwrap();
        assert!(re.is_match("FaΑΓβx".as_bytes()));
        assert!(!Regex::new("[^a]", true).unwrap().is_match(b"aA"));
    }
}
