//! Pattern text to a syntax tree. What the engine does not do is refused here, by name.

/// Most repeats a counted repetition may ask for.
const MAX_COUNT: u16 = 1000;
/// Groups inside groups; bounds the recursion here and in the compiler.
const MAX_DEPTH: u32 = 100;
/// Longest pattern, in bytes.
const MAX_PATTERN: usize = 8192;
/// The last code point.
const LAST: u32 = 0x10_FFFF;
/// A range without characters. What a complement leaves over at the ends is like this, not removed.
const EMPTY: (u32, u32) = (1, 0);
/// `max` of a repetition without an upper bound.
pub const UNBOUNDED: u16 = u16::MAX;

/// A condition on a place between two bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// The haystack starts here: `^`.
    Start,
    /// The haystack ends here: `$`.
    End,
    /// A word starts or ends here: `\b`.
    Word,
    /// Neither: `\B`.
    NotWord,
}

/// A part of a pattern; other parts by their index in [`Tree::nodes`].
#[derive(Clone, Copy)]
pub enum Node {
    /// The empty string.
    Empty,
    /// One character out of the ranges of the tree: how many they are, from which on.
    Class(u16, u32),
    /// A condition.
    Look(Look),
    /// One after the other. Lists lean to the left.
    Cat(u32, u32),
    /// The first, else the second. Lists lean to the left.
    Alt(u32, u32),
    /// At least `min` and at most `max` times ([`UNBOUNDED`]); preferably more if `greedy`.
    Repeat {
        /// What is repeated.
        node: u32,
        /// At least so often.
        min: u16,
        /// At most so often.
        max: u16,
        /// Prefer more to fewer.
        greedy: bool,
    },
}

/// A parsed pattern.
pub struct Tree {
    /// Its parts.
    pub nodes: Vec<Node>,
    /// The whole pattern.
    pub root: u32,
    /// Ranges of code points, inclusive, sorted in each class. One with its ends the wrong way round is empty.
    pub ranges: Vec<(u32, u32)>,
}

/// Reads `pattern`. The error names the construct that is wrong or not supported.
pub fn parse(pattern: &str, ignore_case: bool) -> Result<Tree, String> {
    let rest = pattern.strip_prefix("(?i)");
    let mut parser = Parser {
        rest: rest.unwrap_or(pattern),
        fold: ignore_case || rest.is_some(),
        depth: 0,
        nodes: vec![Node::Empty],
        ranges: Vec::new(),
        error: String::new(),
    };
    match parser.pattern() {
        Ok(root) => Ok(Tree {
            nodes: parser.nodes,
            root,
            ranges: parser.ranges,
        }),
        Err(Failed) => Err(parser.error),
    }
}

/// The index of the empty node, where lists start.
const NOTHING: u32 = 0;

/// The pattern is wrong; [`Parser::error`] says why.
struct Failed;

struct Parser<'a> {
    rest: &'a str,
    fold: bool,
    depth: u32,
    nodes: Vec<Node>,
    ranges: Vec<(u32, u32)>,
    error: String,
}

/// What an escape stands for.
enum Escape {
    Char(u32),
    /// Its ranges have been pushed.
    Set,
    Look(Look),
}

type Pairs = &'static [u8];

/// First and last characters of `\d`, `\s`, `\w`; in a class also by POSIX name.
const SETS: [(&str, Pairs); 14] = [
    ("d", b"09"),
    ("s", b"\t\r  "),
    ("w", b"09AZ__az"),
    ("alnum", b"09AZaz"),
    ("alpha", b"AZaz"),
    ("blank", b"\t\t  "),
    ("cntrl", b"\0\x1F\x7F\x7F"),
    ("digit", b"09"),
    ("lower", b"az"),
    ("print", b" ~"),
    ("punct", b"!/:@[`{~"),
    ("space", b"\t\r  "),
    ("upper", b"AZ"),
    ("xdigit", b"09AFaf"),
];

/// Upper-case letters (first, last) and the way to their lower case; 1 stands for pairs of neighbours.
const FOLDS: [(u16, u16, u16); 22] = [
    (0x41, 0x5A, 32),
    (0xC0, 0xD6, 32),
    (0xD8, 0xDE, 32),
    (0xFF, 0xFF, 0x79),
    (0x100, 0x12F, 1),
    (0x132, 0x137, 1),
    (0x139, 0x148, 1),
    (0x14A, 0x177, 1),
    (0x179, 0x17E, 1),
    (0x386, 0x386, 38),
    (0x388, 0x38A, 37),
    (0x38C, 0x38C, 64),
    (0x38E, 0x38F, 63),
    (0x391, 0x3A1, 32),
    (0x3A3, 0x3AB, 32),
    (0x400, 0x40F, 80),
    (0x410, 0x42F, 32),
    (0x460, 0x481, 1),
    (0x48A, 0x4BF, 1),
    (0x4C0, 0x4C0, 15),
    (0x4C1, 0x4CE, 1),
    (0x4D0, 0x52F, 1),
];

/// Group openings that are refused: what follows `(`, and its name.
const REFUSED: [(&str, &str); 9] = [
    ("?=", "look-ahead ("),
    ("?!", "look-ahead ("),
    ("?<=", "look-behind ("),
    ("?<!", "look-behind ("),
    ("?>", "atomic group ("),
    ("?#", "comment ("),
    ("?P=", "back-reference ("),
    ("?P<", "named group ("),
    ("?<", "named group ("),
];

impl Parser<'_> {
    /// An error of three parts, the middle one what has been taken of `from`, an earlier `rest`.
    fn fail(&mut self, before: &str, from: &str, after: &str) -> Failed {
        let taken = from.len().wrapping_sub(self.rest.len());
        self.error.push_str(before);
        self.error.push_str(from.get(..taken).unwrap_or(""));
        self.error.push_str(after);
        Failed
    }

    /// Adds a part; its index.
    fn add(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        (self.nodes.len() - 1) as u32
    }

    /// The next byte, 0 at the end. All syntax is ASCII.
    fn peek(&self) -> u8 {
        self.rest.as_bytes().first().copied().unwrap_or(0)
    }

    fn bump(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next();
        self.rest = chars.as_str();
        c
    }

    fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn pattern(&mut self) -> Result<u32, Failed> {
        if self.rest.len() > MAX_PATTERN {
            return Err(self.fail("the pattern is longer than 8192 bytes", "", ""));
        }
        let root = self.alternation()?;
        if self.rest.is_empty() {
            return Ok(root);
        }
        let text = "unbalanced ): no ( before it; write \\) for the character";
        Err(self.fail(text, "", ""))
    }

    fn alternation(&mut self) -> Result<u32, Failed> {
        let mut branches = None;
        loop {
            let mut list = NOTHING;
            while !self.rest.is_empty() && !matches!(self.peek(), b'|' | b')') {
                let item = self.repeated()?;
                list = self.add(Node::Cat(list, item));
            }
            let all = match branches {
                None => list,
                Some(before) => self.add(Node::Alt(before, list)),
            };
            if !self.eat("|") {
                return Ok(all);
            }
            branches = Some(all);
        }
    }

    /// An atom and the quantifier behind it.
    fn repeated(&mut self) -> Result<u32, Failed> {
        let mut from = self.rest;
        if self.quantifier()?.is_some() {
            return Err(self.fail("nothing to repeat before ", from, ""));
        }
        let node = self.atom()?;
        let Some((min, max)) = self.quantifier()? else {
            return Ok(node);
        };
        let greedy = !self.eat("?");
        from = self.rest;
        if self.quantifier()?.is_some() {
            let hint = " after a quantifier is not supported: group the repeated part as (?:…)";
            return Err(self.fail("", from, hint));
        }
        Ok(self.add(Node::Repeat {
            node,
            min,
            max,
            greedy,
        }))
    }

    /// Takes a quantifier, if one is next, and gives its bounds. A `{` that opens none is an ordinary character.
    fn quantifier(&mut self) -> Result<Option<(u16, u16)>, Failed> {
        let (mut min, mut max, mut len) = (0, UNBOUNDED, 1);
        match self.peek() {
            b'*' => {}
            b'+' => min = 1,
            b'?' => max = 1,
            b'{' => {
                let (mut bounds, mut which) = ([UNBOUNDED; 2], 0);
                loop {
                    match self.rest.as_bytes().get(len) {
                        Some(&b @ b'0'..=b'9') => {
                            let n = match bounds[which] {
                                UNBOUNDED => 0,
                                n => n,
                            };
                            bounds[which] = (n * 10 + u16::from(b - b'0')).min(MAX_COUNT + 1);
                        }
                        Some(b',') if which == 0 => which = 1,
                        Some(b'}') if bounds[0] != UNBOUNDED => break,
                        _ => return Ok(None),
                    }
                    len += 1;
                }
                len += 1;
                (min, max) = (bounds[0], bounds[which]);
            }
            _ => return Ok(None),
        }
        let from = self.rest;
        self.rest = &from[len..];
        let wrong = if min > MAX_COUNT || max == MAX_COUNT + 1 {
            " repeats more than 1000 times"
        } else if min > max {
            " has its bounds the wrong way round"
        } else {
            return Ok(Some((min, max)));
        };
        Err(self.fail("", from, wrong))
    }

    fn atom(&mut self) -> Result<u32, Failed> {
        let mark = self.ranges.len();
        match self.bump().unwrap_or('\0') {
            '(' => return self.group(),
            '[' => return self.class(),
            '^' => return Ok(self.add(Node::Look(Look::Start))),
            '$' => return Ok(self.add(Node::Look(Look::End))),
            '.' => {
                self.push(10, 10);
                return Ok(self.set(mark, true));
            }
            '\\' => match self.escape()? {
                Escape::Char(c) => self.push(c, c),
                Escape::Set => {}
                Escape::Look(look) => return Ok(self.add(Node::Look(look))),
            },
            c => self.push(c as u32, c as u32),
        }
        Ok(self.set(mark, false))
    }

    fn group(&mut self) -> Result<u32, Failed> {
        if self.peek() == b'?' && !self.eat("?:") {
            let from = self.rest;
            if let Some((_, name)) = REFUSED.iter().find(|r| self.eat(r.0)) {
                return Err(self.fail(name, from, " is not supported"));
            }
            self.bump();
            self.bump();
            let hint =
                " is not supported: groups are ( and (?:, the only flag is (?i) at the very start";
            return Err(self.fail("(", from, hint));
        }
        if self.depth == MAX_DEPTH {
            return Err(self.fail("groups are nested more than 100 deep", "", ""));
        }
        self.depth += 1;
        let node = self.alternation()?;
        self.depth -= 1;
        if !self.eat(")") {
            let text = "unbalanced (: no ) closes it; write \\( for the character";
            return Err(self.fail(text, "", ""));
        }
        Ok(node)
    }

    /// What follows a `\`.
    fn escape(&mut self) -> Result<Escape, Failed> {
        let from = self.rest;
        let Some(c) = self.bump() else {
            let text = "\\ at the end escapes nothing; write \\\\ for the character";
            return Err(self.fail(text, "", ""));
        };
        let place = |list: &[u8]| list.iter().position(|&b| u32::from(b) == c as u32);
        if let Some(i) = place(b"ntrfv") {
            return Ok(Escape::Char(u32::from(b"\n\t\r\x0C\x0B"[i])));
        }
        if let Some(i) = place(b"AzbB") {
            return Ok(Escape::Look(
                [Look::Start, Look::End, Look::Word, Look::NotWord][i],
            ));
        }
        if let Some(i) = place(b"dswDSW") {
            self.push_set(SETS[i % 3].1, i > 2);
            return Ok(Escape::Set);
        }
        let mut hint = " is not supported";
        let what = match c {
            '1'..='9' | 'k' => "back-reference \\",
            'p' | 'P' => "Unicode class \\",
            // GNU's word boundaries, other dialects' plain characters: the meaning can't be told.
            '<' | '>' => {
                hint = " is not supported: use \\b, or the character without \\";
                "word boundary \\"
            }
            c if c.is_ascii_alphanumeric() => "escape \\",
            c => return Ok(Escape::Char(c as u32)),
        };
        Err(self.fail(what, from, hint))
    }

    fn class(&mut self) -> Result<u32, Failed> {
        let mark = self.ranges.len();
        let negate = self.eat("^");
        let mut first = true;
        loop {
            if !first && self.eat("]") {
                break;
            }
            first = false;
            let from = self.rest;
            let Some(lo) = self.class_item()? else {
                continue;
            };
            let mut hi = lo;
            if self.peek() == b'-' && !self.rest.starts_with("-]") {
                self.bump();
                hi = self.class_item()?.unwrap_or(0);
                if hi < lo {
                    let text = " in a class is not a range from a lower to a higher character";
                    return Err(self.fail("", from, text));
                }
            }
            self.push(lo, hi);
        }
        Ok(self.set(mark, negate))
    }

    /// One member of a class; `None` when it was a set, which has been pushed.
    fn class_item(&mut self) -> Result<Option<u32>, Failed> {
        match self.bump() {
            None => {
                let text = "unbalanced [: no ] closes it; write \\[ for the character";
                Err(self.fail(text, "", ""))
            }
            Some('\\') => match self.escape()? {
                Escape::Char(c) => Ok(Some(c)),
                Escape::Set => Ok(None),
                Escape::Look(_) => {
                    Err(self.fail("\\b \\B \\A \\z mean nothing inside a class", "", ""))
                }
            },
            Some('[') if self.peek() == b':' => self.posix(),
            Some(c) => Ok(Some(c as u32)),
        }
    }

    /// `[:name:]` or `[:^name:]` inside a class, whose `[` is taken.
    fn posix(&mut self) -> Result<Option<u32>, Failed> {
        let inner = &self.rest[1..];
        let plain = inner.strip_prefix('^');
        for (name, set) in &SETS[3..] {
            let rest = plain.unwrap_or(inner).strip_prefix(name);
            if let Some(rest) = rest.and_then(|r| r.strip_prefix(":]")) {
                self.rest = rest;
                self.push_set(set, plain.is_some());
                return Ok(None);
            }
        }
        let text = "[[: opens no known class like [[:alpha:]]; write \\[ for the character";
        Err(self.fail(text, "", ""))
    }

    /// The class of the ranges from `mark` on.
    fn set(&mut self, mark: usize, negate: bool) -> u32 {
        self.fold(mark);
        self.finish(mark, negate);
        // At most twice the pattern's length.
        let len = self.ranges.len() - mark;
        self.add(Node::Class(len as u16, mark as u32))
    }

    /// Adds a range, unless it is empty.
    fn push(&mut self, lo: u32, hi: u32) {
        if lo <= hi {
            self.ranges.push((lo, hi));
        }
    }

    fn push_set(&mut self, pairs: &[u8], negate: bool) {
        let mark = self.ranges.len();
        for pair in pairs.chunks_exact(2) {
            self.push(u32::from(pair[0]), u32::from(pair[1]));
        }
        self.finish(mark, negate);
    }

    /// Adds the other case of every letter in the ranges from `mark` on, when case is ignored.
    fn fold(&mut self, mark: usize) {
        if !self.fold {
            return;
        }
        // Joined first: many overlapping ranges would become far more.
        self.finish(mark, false);
        for i in mark..self.ranges.len() {
            let (lo, hi) = self.ranges[i];
            for (first, last, way) in FOLDS {
                let [first, last, way] = [first, last, way].map(u32::from);
                let (a, b) = (lo.max(first), hi.min(last));
                if way != 1 {
                    self.push(a + way, b + way);
                    let (a, b) = (lo.max(first + way), hi.min(last + way));
                    self.push(a - way, b.saturating_sub(way));
                } else if a <= b {
                    self.push(a - ((a - first) & 1), b + ((last - b) & 1));
                }
            }
        }
    }

    /// Sorts and joins the ranges from `mark` on, or replaces them by what they leave out.
    fn finish(&mut self, mark: usize, negate: bool) {
        // Insertion sort: classes are short, and the library's sort is larger than this whole parser.
        for i in mark + 1..self.ranges.len() {
            let mut j = i;
            while j > mark && self.ranges[j - 1] > self.ranges[j] {
                self.ranges.swap(j - 1, j);
                j -= 1;
            }
        }
        let mut kept = mark;
        for i in mark..self.ranges.len() {
            let (lo, hi) = self.ranges[i];
            if kept > mark && lo <= self.ranges[kept - 1].1 + 1 {
                let last = &mut self.ranges[kept - 1].1;
                *last = hi.max(*last);
            } else {
                self.ranges[kept] = (lo, hi);
                kept += 1;
            }
        }
        self.ranges.truncate(kept);
        if negate {
            let mut free = 0;
            for range in &mut self.ranges[mark..] {
                let (lo, hi) = *range;
                *range = if lo == 0 { EMPTY } else { (free, lo - 1) };
                free = hi + 1;
            }
            self.push(free, LAST);
        }
    }
}
