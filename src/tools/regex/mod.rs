//! Regular expressions in time linear in the haystack, whatever the pattern.
//!
//! Literals, `.`, classes (`[a-z]`, `[^…]`, `[[:alpha:]]`), `\d \w \s \D \W \S`, `^ $ \b \B \A \z`, groups `(…)` and
//! `(?:…)`, alternation, greedy and lazy `* + ? {m} {m,} {m,n}`, `\n \t \r \f \v \x1b \x{20ac} \u20ac`, `(?i)` at the
//! start. A `{` that opens no repetition is itself, so is a `[` in a class and a `]` or `}` elsewhere. Anything else is
//! an error that names it: look-around, back-references, named groups, other flags, possessive quantifiers, `\p{…}`.
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
    tree: Tree,
    literal: Vec<u8>,
    exact: bool,
    forward: Dfa,
    /// Made when the first start of a match is asked for.
    reverse: Option<Dfa>,
}

impl Regex {
    /// Compiles `pattern`. The error is a phrase that names what is wrong or not supported.
    pub fn new(pattern: &str, ignore_case: bool) -> Result<Self, String> {
        let tree = parse::parse(pattern, ignore_case)?;
        let Some(prog) = prog::compile(&tree, false) else {
            return Err(
                "the compiled pattern is too large: lower its counted repetitions {m,n}".into(),
            );
        };
        let mut literal = Literal {
            ranges: &tree.ranges,
            run: Vec::new(),
            best: Vec::new(),
            exact: true,
        };
        literal.scan(&tree.root);
        let exact = literal.exact && !literal.run.is_empty();
        literal.cut();
        Ok(Regex {
            exact,
            literal: literal.best,
            tree,
            forward: Dfa::new(prog),
            reverse: None,
        })
    }

    /// The leftmost match that starts at or after `start`, as the range of its bytes. Bytes before `start` decide what
    /// `^` and `\b` see there. An empty match may lie inside a character.
    pub fn find_at(&mut self, hay: &[u8], start: usize) -> Option<(usize, usize)> {
        let first = start + self.prefilter(hay.get(start..)?)?;
        if self.exact {
            return Some((first, first + self.literal.len()));
        }
        let end = self.forward.run(hay, start, hay.len(), false)?;
        if self.reverse.is_none() {
            // As large as the forward program, so it can't fail.
            self.reverse = prog::compile(&self.tree, true).map(Dfa::new);
        }
        let from = match &mut self.reverse {
            Some(reverse) => reverse.run(hay, end, start, false),
            None => None,
        };
        Some((from.unwrap_or(end), end))
    }

    /// Whether there is a match anywhere; stops at the first sign of one.
    pub fn is_match(&mut self, hay: &[u8]) -> bool {
        self.prefilter(hay).is_some()
            && (self.exact || self.forward.run(hay, 0, hay.len(), true).is_some())
    }

    /// Where `hay` may have a match at all: the first place of the literal, or 0 without one.
    fn prefilter(&self, hay: &[u8]) -> Option<usize> {
        match self.literal() {
            Some(literal) => memmem::find(hay, literal),
            None => Some(0),
        }
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

/// The search for the longest string that every match contains.
struct Literal<'a> {
    ranges: &'a [(u32, u32)],
    /// What every match contains just before the node at hand.
    run: Vec<u8>,
    best: Vec<u8>,
    /// `run` is all there is so far.
    exact: bool,
}

impl Literal<'_> {
    fn scan(&mut self, node: &Node) {
        match node {
            Node::Class { off, len: 1 } if self.ranges[*off].0 == self.ranges[*off].1 => {
                let c = char::from_u32(self.ranges[*off].0).unwrap_or('\0');
                self.run
                    .extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            Node::Cat(items) => items.iter().for_each(|item| self.scan(item)),
            Node::Alt(branches) if branches.len() == 1 => self.scan(&branches[0]),
            Node::Look(_) => self.exact = false,
            Node::Repeat { node, min, .. } if *min > 0 => {
                self.scan(node);
                self.cut();
            }
            _ => self.cut(),
        }
    }

    /// Something unknown follows: ends the run.
    fn cut(&mut self) {
        self.exact = false;
        if self.run.len() > self.best.len() {
            std::mem::swap(&mut self.run, &mut self.best);
        }
        self.run.clear();
    }
}
