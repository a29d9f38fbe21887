//! The engine against the `regex` crate: random patterns on random haystacks, every span from every start. More cases
//! with `CLUADE_REGEX_CASES=20000`.

use super::Regex;

struct Rng(u64);

impl Rng {
    /// A number below `n`.
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// A pattern in both dialects: ours knows ASCII sets, the crate's sets know all of Unicode unless spelt out.
#[derive(Default)]
struct Pattern {
    ours: String,
    theirs: String,
}

impl Pattern {
    fn both(&mut self, text: &str) {
        self.ours += text;
        self.theirs += text;
    }

    fn pair(&mut self, (ours, theirs): (&str, &str)) {
        self.ours += ours;
        self.theirs += theirs;
    }
}

const LITERALS: [&str; 14] = [
    "a", "b", "c", "A", "_", "1", " ", r"\n", r"\.", r"\{", "é", "λ", "€", "😀",
];
const SETS: [(&str, &str); 9] = [
    (r"\d", "[0-9]"),
    (r"\D", "[^0-9]"),
    (r"\w", "[0-9A-Za-z_]"),
    (r"\W", "[^0-9A-Za-z_]"),
    (r"\s", r"[\t-\r ]"),
    (r"\S", r"[^\t-\r ]"),
    ("[[:alpha:]]", "[[:alpha:]]"),
    (".", "."),
    (".", "."),
];
const LOOKS: [(&str, &str); 6] = [
    ("^", "^"),
    ("$", "$"),
    (r"\b", r"(?-u:\b)"),
    (r"\B", r"(?-u:\B)"),
    (r"\A", r"\A"),
    (r"\z", r"\z"),
];
const RANGES: [&str; 12] = [
    "a-c",
    "B-z",
    "0-9",
    "é-λ",
    "λ-€",
    "a-😀",
    "€",
    "😀",
    "_",
    "b",
    r"\n",
    "\0-\u{ffff}",
];
const QUANTIFIERS: [&str; 10] = [
    "*", "+", "?", "*", "+", "{2}", "{0,2}", "{1,3}", "{2,}", "{0}",
];
const HAY: [&[u8]; 18] = [
    b"a",
    b"b",
    b"c",
    b"A",
    b"a",
    b"b",
    b"_",
    b"1",
    b" ",
    b"\n",
    b".",
    b"{",
    b"\xC3\xA9",
    b"\xCE\xBB",
    b"\xE2\x82\xAC",
    b"\xF0\x9F\x98\x80",
    b"\xFF",
    b"\xE2\x82",
];

fn class(r: &mut Rng, p: &mut Pattern) {
    p.both(["[", "[^"][r.below(2)]);
    for _ in 0..=r.below(3) {
        match r.below(5) {
            0 => p.pair(SETS[r.below(6)]),
            _ => p.both(r.pick(&RANGES)),
        }
    }
    p.both("]");
}

fn node(r: &mut Rng, depth: usize, p: &mut Pattern) {
    let inner = depth.saturating_sub(1);
    match r.below(if depth == 0 { 7 } else { 14 }) {
        0..=3 => p.both(r.pick(&LITERALS)),
        4 => p.pair(SETS[r.below(SETS.len())]),
        5 => class(r, p),
        6 => p.pair(LOOKS[r.below(LOOKS.len())]),
        7..=8 => {
            for _ in 0..r.below(4) {
                node(r, inner, p);
            }
        }
        9..=10 => {
            p.both(["(", "(?:"][r.below(2)]);
            for i in 0..=r.below(3) {
                p.both(["", "|"][i.min(1)]);
                if r.below(6) > 0 {
                    node(r, inner, p);
                }
            }
            p.both(")");
        }
        _ => {
            p.both("(?:");
            node(r, inner, p);
            p.both(")");
            p.both(r.pick(&QUANTIFIERS));
            p.both(["", "?"][r.below(3) / 2]);
        }
    }
}

#[test]
fn agrees_with_the_reference() {
    let cases = std::env::var("CLUADE_REGEX_CASES").map_or(1000, |n| n.parse().unwrap());
    let (mut matches, mut flushed) = (0, 0);
    for case in 0..cases {
        let mut r = Rng(0x9E37_79B9_7F4A_7C15 ^ (case << 20) ^ 1);
        for _ in 0..10 {
            r.below(2);
        }
        let mut p = Pattern::default();
        let fold = r.below(5) == 0;
        p.both(if fold { "(?i)" } else { "" });
        for i in 0..=r.below(3) {
            p.both(["", "|"][usize::from(i > 0 && r.below(3) == 0)]);
            node(&mut r, 4, &mut p);
        }
        let theirs = regex::bytes::Regex::new(&p.theirs).unwrap();
        let mut ours = match Regex::new(&p.ours, false) {
            Ok(ours) => ours,
            Err(e) => panic!("case {case}: {:?}: {e}", p.ours),
        };
        // A tiny cache forgets its states all the time, which must not show.
        if case % 3 == 0 {
            ours.forward.cache = r.below(300);
            flushed += 1;
        }
        for _ in 0..4 {
            let hay: Vec<u8> = (0..r.below(24))
                .flat_map(|_| HAY[r.below(HAY.len())])
                .copied()
                .collect();
            let context = || {
                format!(
                    "case {case}: {:?} on {:?}",
                    p.ours,
                    hay.escape_ascii().to_string()
                )
            };
            assert_eq!(ours.is_match(&hay), theirs.is_match(&hay), "{}", context());
            for start in 0..=hay.len() {
                let right = theirs.find_at(&hay, start).map(|m| (m.start(), m.end()));
                let found = ours.find_at(&hay, start);
                assert_eq!(found, right, "from {start}, {}", context());
                let Some((s, e)) = found else { break };
                matches += 1;
                if let Some(literal) = ours.literal() {
                    let part = &hay[s..e];
                    assert!(
                        memchr::memmem::find(part, literal).is_some(),
                        "literal, {}",
                        context()
                    );
                    assert!(
                        !ours.is_literal() || part == literal,
                        "exact, {}",
                        context()
                    );
                }
            }
            assert_eq!(ours.find_at(&hay, hay.len() + 1), None);
        }
    }
    assert!(
        matches > cases && flushed > 0,
        "{matches} matches prove little"
    );
}

/// Patterns whose states outgrow the cache, on more text than a line.
#[test]
fn large_automata_stay_right() {
    let mut r = Rng(7);
    let hay: Vec<u8> = (0..20_000)
        .flat_map(|_| HAY[[0, 1, 0, 1, 12, 9][r.below(6)]])
        .copied()
        .collect();
    for pattern in [
        "[ab]*a[ab]{9}é",
        "(?:a|é).{6,12}?\n.{3}a{4}|b{9}",
        "(?:[ab]{3}|[abé]{4}){5,9}\n",
        r"\n[^\n]{20,}é[^b]{4}",
    ] {
        let theirs = regex::bytes::Regex::new(pattern).unwrap();
        let mut ours = Regex::new(pattern, false).unwrap();
        let mut at = 0;
        loop {
            let right = theirs.find_at(&hay, at).map(|m| (m.start(), m.end()));
            assert_eq!(ours.find_at(&hay, at), right, "{pattern} from {at}");
            match right {
                Some((_, e)) => at = e,
                None => break,
            }
        }
        assert!(at > 0, "{pattern} never matches");
    }
}

/// What takes exponential time elsewhere.
#[test]
fn hostile_patterns_take_linear_time() {
    let hay = vec![b'a'; 1 << 20];
    for (pattern, right) in [
        ("(a*)*b", None),
        ("(?:a|a)*b", None),
        ("(?:a|aa)+$", Some((0, 1 << 20))),
        ("(?:a?){30}a{30}[^a]", None),
        ("(?:(?:a*)*)*", Some((0, 1 << 20))),
        (r"\b(?:\w+\s?)*\.", None),
    ] {
        let begin = std::time::Instant::now();
        assert_eq!(
            Regex::new(pattern, false).unwrap().find_at(&hay, 0),
            right,
            "{pattern}"
        );
        assert!(begin.elapsed().as_secs() < 5, "{pattern}");
    }
}

/// Any text is a pattern or an error, never a panic.
#[test]
fn no_pattern_panics() {
    let mut r = Rng(99);
    let parts = [
        "(", ")", "[", "]", "^", "-", "\\", "{", "}", ",", "1", "9", "*", "?", "|", ":", "d", "x",
        "u", "i", "=", "é", "\0", "a", "[:", ":]", "alpha", "\\x{", ".",
    ];
    for _ in 0..20_000 {
        let pattern: String = (0..r.below(12)).map(|_| r.pick(&parts)).collect();
        if let Ok(mut re) = Regex::new(&pattern, r.below(2) == 0) {
            re.find_at(b"a-19\xC3\xA9[x]", 1);
        }
    }
}
