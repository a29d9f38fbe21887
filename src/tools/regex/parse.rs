//! Pattern text to a syntax tree. What the engine does not do is refused here, by name.

/// Most repeats a counted repetition may ask for.
const MAX_COUNT: u32 = 1000;
/// Groups inside groups; bounds the recursion here and in the compiler.
const MAX_DEPTH: u32 = 100;
/// Longest pattern, in bytes.
const MAX_PATTERN: usize = 8192;
/// The last code point.
const LAST: u32 = 0x10_FFFF;
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
    /// Ranges of code points, inclusive; those of one class are sorted and apart.
    pub ranges: Vec<(u32, u32)>,
}

/// Reads `pattern`. The error names the construct that is wrong or not supported.
pub fn parse(pattern: &str, ignore_case: bool) -> Result<Tree, String> {
    if pattern.len() > MAX_PATTERN {
        return Err(format!("the pattern is longer than {MAX_PATTERN} bytes"));
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
    ("?=", "look-ahead"),
    ("?!", "look-ahead"),
    ("?<=", "look-behind"),
    ("?<!", "look-behind"),
    ("?>", "atomic group"),
    ("?#", "comment"),
    ("?P=", "back-reference"),
    ("?P<", "named group"),
    ("?<", "named group"),
];

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
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

    fn alternation(&mut self) -> Result<Node, String> {
        let mut branches = Vec::new();
        loop {
            let mut items = Vec::new();
            while !matches!(self.peek(), None | Some('|' | ')')) {
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
            return Err(format!(
                "nothing to repeat before {}",
                &from[..from.len() - self.rest.len()]
            ));
        }
        let node = self.atom()?;
        let Some((min, max)) = self.quantifier()? else {
            return Ok(node);
        };
        let greedy = !self.eat("?");
        let from = self.rest;
        if self.quantifier()?.is_some() {
            return Err(format!(
                "{} after a quantifier is not supported: group the repeated part as (?:…)",
                &from[..from.len() - self.rest.len()]
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
        let bytes = self.rest.as_bytes();
        let simple = match bytes.first() {
            Some(b'*') => (0, UNBOUNDED),
            Some(b'+') => (1, UNBOUNDED),
            Some(b'?') => (0, 1),
            Some(b'{') => return self.counted(),
            _ => return Ok(None),
        };
        self.bump();
        Ok(Some(simple))
    }

    fn counted(&mut self) -> Result<Option<(u32, u32)>, String> {
        let (mut bounds, mut which, mut len) = ([None, None], 0, 1);
        loop {
            match self.rest.as_bytes().get(len) {
                Some(&b @ b'0'..=b'9') => {
                    let n: u32 = bounds[which].unwrap_or(0);
                    bounds[which] = Some((n * 10 + u32::from(b - b'0')).min(MAX_COUNT + 1));
                }
                Some(b',') if which == 0 => which = 1,
                Some(b'}') if bounds[0].is_some() => break,
                _ => return Ok(None),
            }
            len += 1;
        }
        let text = &self.rest[..=len];
        self.rest = &self.rest[len + 1..];
        let min = bounds[0].unwrap_or(0);
        let max = bounds[which].unwrap_or(UNBOUNDED);
        if min > MAX_COUNT || max > MAX_COUNT && max != UNBOUNDED {
            return Err(format!("{text} repeats more than {MAX_COUNT} times"));
        }
        if min > max {
            return Err(format!("{text} has its bounds the wrong way round"));
        }
        Ok(Some((min, max)))
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
        if self.rest.starts_with('?') && !self.eat("?:") {
            let known = REFUSED.iter().find(|(p, _)| self.rest.starts_with(p));
            if let Some((prefix, name)) = known {
                return Err(format!("{name} ({prefix} is not supported"));
            }
            let shown: String = self.rest.chars().take(2).collect();
            return Err(format!(
                "({shown} is not supported: groups are ( and (?:, the only flag is (?i) at the very start"
            ));
        }
        if self.depth == MAX_DEPTH {
            return Err(format!("groups are nested more than {MAX_DEPTH} deep"));
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
        let Some(c) = self.bump() else {
            return Err("\\ at the end escapes nothing; write \\\\ for the character".into());
        };
        let what = match c {
            'd' | 's' | 'w' | 'D' | 'S' | 'W' => {
                let name = c.to_ascii_lowercase();
                let set = SETS.iter().find(|(n, _)| n.starts_with(name));
                self.push_set(set.map_or(b"", |s| s.1), c != name);
                return Ok(Escape::Set);
            }
            'b' => return Ok(Escape::Look(Look::Word)),
            'B' => return Ok(Escape::Look(Look::NotWord)),
            'A' => return Ok(Escape::Look(Look::Start)),
            'z' => return Ok(Escape::Look(Look::End)),
            'n' => return Ok(Escape::Char(10)),
            't' => return Ok(Escape::Char(9)),
            'r' => return Ok(Escape::Char(13)),
            'f' => return Ok(Escape::Char(12)),
            'v' => return Ok(Escape::Char(11)),
            'x' => return self.hex(2),
            'u' => return self.hex(4),
            '1'..='9' | 'k' => "back-reference",
            'p' | 'P' => "Unicode class",
            // GNU's word boundaries, other dialects' plain characters: the meaning can't be told.
            '<' | '>' => "word boundary",
            '0' | 'a'..='z' | 'A'..='Z' => "escape",
            c => return Ok(Escape::Char(c as u32)),
        };
        let hint = match c {
            '<' | '>' => ": use \\b, or the character without \\",
            _ => "",
        };
        Err(format!("{what} \\{c} is not supported{hint}"))
    }

    /// The number behind `\x` or `\u`: `digits` hexadecimal digits, or any number of them in braces.
    fn hex(&mut self, digits: usize) -> Result<Escape, String> {
        let braces = self.eat("{");
        let (mut code, mut count) = (0, 0);
        while let Some(d) = self.peek().and_then(|c| c.to_digit(16)) {
            if count == digits && !braces {
                break;
            }
            code = (code * 16 + d).min(LAST + 1);
            count += 1;
            self.bump();
        }
        let complete = if braces {
            count > 0 && self.eat("}")
        } else {
            count == digits
        };
        if complete && char::from_u32(code).is_some() {
            return Ok(Escape::Char(code));
        }
        Err("\\x and \\u need a character's number: \\x1b, \\u20ac or \\x{20ac}".into())
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
            if self.rest.starts_with('-') && !self.rest.starts_with("-]") {
                self.bump();
                let end = self.class_item()?;
                match end {
                    Some(end) if end >= lo => hi = end,
                    _ => {
                        let text = &from[..from.len() - self.rest.len()];
                        return Err(format!(
                            "{text} in a class is not a range from a lower to a higher character"
                        ));
                    }
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
            Some('[') if self.rest.starts_with(':') => self.posix(),
            Some(c) => Ok(Some(c as u32)),
        }
    }

    /// `[:name:]` inside a class, whose `[` is taken; a `[:` that isn't closed is a `[`.
    fn posix(&mut self) -> Result<Option<u32>, String> {
        let Some((name, rest)) = self.rest[1..].split_once(":]") else {
            return Ok(Some('[' as u32));
        };
        if !name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'^') {
            return Ok(Some('[' as u32));
        }
        let plain = name.strip_prefix('^');
        let Some(set) = SETS[3..].iter().find(|s| s.0 == plain.unwrap_or(name)) else {
            return Err(format!("class [:{name}:] is not supported"));
        };
        self.rest = rest;
        self.push_set(set.1, plain.is_some());
        Ok(None)
    }

    fn push(&mut self, lo: u32, hi: u32) {
        self.ranges.push((lo, hi));
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
                if way == 1 {
                    if a <= b {
                        self.push(a - ((a - first) & 1), b + ((last - b) & 1));
                    }
                    continue;
                }
                if a <= b {
                    self.push(a + way, b + way);
                }
                let (a, b) = (lo.max(first + way), hi.min(last + way));
                if a <= b {
                    self.push(a - way, b - way);
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
        let (end, mut kept, mut free) = (self.ranges.len(), mark, 0);
        for i in mark..end {
            let (lo, hi) = self.ranges[i];
            if negate {
                if lo > free {
                    self.push(free, lo - 1);
                }
                free = free.max(hi + 1);
            } else if kept > mark && lo <= self.ranges[kept - 1].1 + 1 {
                let last = &mut self.ranges[kept - 1].1;
                *last = hi.max(*last);
            } else {
                self.ranges[kept] = (lo, hi);
                kept += 1;
            }
        }
        if negate {
            if free <= LAST {
                self.push(free, LAST);
            }
            self.ranges.drain(mark..end);
        } else {
            self.ranges.truncate(kept);
        }
        Node::Class {
            off: mark,
            len: self.ranges.len() - mark,
        }
    }
}
