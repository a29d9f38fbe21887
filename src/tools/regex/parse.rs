//! Pattern text to a syntax tree. What the engine does not do is refused here, by name.

/// Most repeats a counted repetition may ask for.
const MAX_COUNT: u32 = 1000;
/// Groups inside groups; bounds the recursion here and in the compiler.
const MAX_DEPTH: u32 = 100;
/// Longest pattern, in bytes.
const MAX_PATTERN: usize = 8192;
/// The last code point.
const LAST: u32 = 0x10_FFFF;
/// A range without characters. What a complement leaves over at the ends is like this, not removed.
const EMPTY: (u32, u32) = (1, 0);
/// `max` of a repetition without an upper bound.
pub const UNBOUNDED: u32 = u32::MAX;

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

/// A part of a pattern.
pub enum Node {
    /// One character out of `ranges[off..off + len]` of the tree.
    Class {
        /// First range.
        off: usize,
        /// How many; none matches nothing.
        len: usize,
    },
    /// A condition.
    Look(Look),
    /// One after the other; without parts, the empty string.
    Cat(Vec<Node>),
    /// The first that leads to a match.
    Alt(Vec<Node>),
    /// `min` to `max` times.
    Repeat {
        /// What is repeated.
        node: Box<Node>,
        /// At least so often.
        min: u32,
        /// At most so often, or [`UNBOUNDED`].
        max: u32,
        /// Prefer more to fewer.
        greedy: bool,
    },
}

/// A parsed pattern.
pub struct Tree {
    /// The whole pattern.
    pub root: Node,
    /// Ranges of code points, inclusive, sorted in each class. One with its ends the wrong way round is empty.
    pub ranges: Vec<(u32, u32)>,
}

/// Reads `pattern`. The error names the construct that is wrong or not supported.
pub fn parse(pattern: &str, ignore_case: bool) -> Result<Tree, String> {
    if pattern.len() > MAX_PATTERN {
        return Err("the pattern is longer than 8192 bytes".into());
    }
    let rest = pattern.strip_prefix("(?i)");
    let mut parser = Parser {
        rest: rest.unwrap_or(pattern),
        fold: ignore_case || rest.is_some(),
        depth: 0,
        ranges: Vec::new(),
    };
    let root = parser.alternation()?;
    if !parser.rest.is_empty() {
        return Err("unbalanced ): no ( before it; write \\) for the character".into());
    }
    Ok(Tree {
        root,
        ranges: parser.ranges,
    })
}

struct Parser<'a> {
    rest: &'a str,
    fold: bool,
    depth: u32,
    ranges: Vec<(u32, u32)>,
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

/// An error of three parts.
fn say(a: &str, b: &str, c: &str) -> String {
    [a, b, c].concat()
}

impl Parser<'_> {
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

    /// What has been taken of `from`, an earlier `rest`.
    fn since<'b>(&self, from: &'b str) -> &'b str {
        from.get(..from.len() - self.rest.len()).unwrap_or("")
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

    fn alternation(&mut self) -> Result<Node, String> {
        let mut branches = Vec::new();
        loop {
            let mut items = Vec::new();
            while !self.rest.is_empty() && !matches!(self.peek(), b'|' | b')') {
                items.push(self.repeated()?);
            }
            branches.push(Node::Cat(items));
            if !self.eat("|") {
                return Ok(Node::Alt(branches));
            }
        }
    }

    /// An atom and the quantifier behind it.
    fn repeated(&mut self) -> Result<Node, String> {
        let from = self.rest;
        if self.quantifier()?.is_some() {
            return Err(say("nothing to repeat before ", self.since(from), ""));
        }
        let node = self.atom()?;
        let Some((min, max)) = self.quantifier()? else {
            return Ok(node);
        };
        let greedy = !self.eat("?");
        let from = self.rest;
        if self.quantifier()?.is_some() {
            return Err(say(
                "",
                self.since(from),
                " after a quantifier is not supported: group the repeated part as (?:…)",
            ));
        }
        Ok(Node::Repeat {
            node: Box::new(node),
            min,
            max,
            greedy,
        })
    }

    /// Takes a quantifier, if one is next, and gives its bounds. A `{` that opens none is an ordinary character.
    fn quantifier(&mut self) -> Result<Option<(u32, u32)>, String> {
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
                            bounds[which] = (n * 10 + u32::from(b - b'0')).min(MAX_COUNT + 1);
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
        let (text, rest) = self.rest.split_at(len);
        self.rest = rest;
        let wrong = if min > MAX_COUNT || max == MAX_COUNT + 1 {
            " repeats more than 1000 times"
        } else if min > max {
            " has its bounds the wrong way round"
        } else {
            return Ok(Some((min, max)));
        };
        Err(say(text, wrong, ""))
    }

    fn atom(&mut self) -> Result<Node, String> {
        let mark = self.ranges.len();
        match self.bump().unwrap_or('\0') {
            '(' => return self.group(),
            '[' => return self.class(),
            '^' => return Ok(Node::Look(Look::Start)),
            '$' => return Ok(Node::Look(Look::End)),
            '.' => {
                self.push(10, 10);
                return Ok(self.finish(mark, true));
            }
            '\\' => match self.escape()? {
                Escape::Char(c) => self.push(c, c),
                Escape::Set => {}
                Escape::Look(look) => return Ok(Node::Look(look)),
            },
            c => self.push(c as u32, c as u32),
        }
        self.fold(mark);
        Ok(self.finish(mark, false))
    }

    fn group(&mut self) -> Result<Node, String> {
        if self.peek() == b'?' && !self.eat("?:") {
            let known = REFUSED.iter().find(|(p, _)| self.rest.starts_with(p));
            if let Some((prefix, name)) = known {
                return Err(say(name, prefix, " is not supported"));
            }
            let from = self.rest;
            self.bump();
            self.bump();
            return Err(say(
                "(",
                self.since(from),
                " is not supported: groups are ( and (?:, the only flag is (?i) at the very start",
            ));
        }
        if self.depth == MAX_DEPTH {
            return Err("groups are nested more than 100 deep".into());
        }
        self.depth += 1;
        let node = self.alternation()?;
        self.depth -= 1;
        if !self.eat(")") {
            return Err("unbalanced (: no ) closes it; write \\( for the character".into());
        }
        Ok(node)
    }

    /// What follows a `\`.
    fn escape(&mut self) -> Result<Escape, String> {
        let from = self.rest;
        let Some(c) = self.bump() else {
            return Err("\\ at the end escapes nothing; write \\\\ for the character".into());
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
        Err(say(what, self.since(from), hint))
    }

    fn class(&mut self) -> Result<Node, String> {
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
                    return Err(say(
                        self.since(from),
                        " in a class is not a range from a lower to a higher character",
                        "",
                    ));
                }
            }
            self.push(lo, hi);
        }
        self.fold(mark);
        Ok(self.finish(mark, negate))
    }

    /// One member of a class; `None` when it was a set, which has been pushed.
    fn class_item(&mut self) -> Result<Option<u32>, String> {
        match self.bump() {
            None => Err("unbalanced [: no ] closes it; write \\[ for the character".into()),
            Some('\\') => match self.escape()? {
                Escape::Char(c) => Ok(Some(c)),
                Escape::Set => Ok(None),
                Escape::Look(_) => Err("\\b \\B \\A \\z mean nothing inside a class".into()),
            },
            Some('[') if self.peek() == b':' => self.posix(),
            Some(c) => Ok(Some(c as u32)),
        }
    }

    /// `[:name:]` or `[:^name:]` inside a class, whose `[` is taken.
    fn posix(&mut self) -> Result<Option<u32>, String> {
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
        Err("[[: opens no known class like [[:alpha:]]; write \\[ for the character".into())
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
    fn finish(&mut self, mark: usize, negate: bool) -> Node {
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
        Node::Class {
            off: mark,
            len: self.ranges.len() - mark,
        }
    }
}
