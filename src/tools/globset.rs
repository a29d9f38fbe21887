//! Glob patterns over relative paths, run by the regex engine, so in linear time: `*` `?` `[a-z]` `[!a-z]` `{a,b}`, `**`
//! as a whole component for any number of directories, `\` before a character for itself. `*`, `?` and classes match
//! characters, hidden names too, and never `/`. A name that isn't UTF-8 is matched as it is shown, with U+FFFD.

use super::Output;
use super::found::wrong;
use super::regex::Regex;
use crate::text::push_utf8_lossy;

/// The characters that make a pattern more than a path.
pub const SPECIAL: &[u8] = b"*?[{\\";

/// A compiled pattern.
pub struct Glob {
    re: Regex,
    text: Vec<u8>,
    /// How many levels below the start it can match.
    pub depth: usize,
}

impl Glob {
    /// Compiles pattern `p`, the parameter `what`.
    ///
    /// # Errors
    /// For the model, naming what is wrong with it.
    pub fn new(what: &str, p: &[u8]) -> Result<Glob, Output> {
        Glob::compile(p).map_err(|e| wrong(what, &e))
    }

    fn compile(p: &[u8]) -> Result<Glob, String> {
        let (mut out, mut i, mut braces, mut depth) = (b"^".to_vec(), 0, 0u32, 0usize);
        let at = |i: usize| p.get(i).copied();
        while let Some(b) = at(i) {
            let before = i.checked_sub(1).and_then(at);
            i += 1;
            let piece: &[u8] = match b {
                b'*' => {
                    let mut stars = 1;
                    while at(i) == Some(b'*') {
                        stars += 1;
                        i += 1;
                    }
                    // A component, or an alternative, of its own.
                    let edge = |b: Option<u8>, other| {
                        b.is_none_or(|b| b == b'/' || braces > 0 && (b == b',' || b == other))
                    };
                    if stars == 2 && edge(before, b'{') && edge(at(i), b'}') {
                        depth = usize::MAX;
                        if at(i) == Some(b'/') {
                            i += 1;
                            b"(?:[^/]+/)*"
                        } else {
                            b"[^/]+(?:/[^/]+)*"
                        }
                    } else {
                        b"[^/]*"
                    }
                }
                b'?' => b"[^/]",
                b'[' => {
                    i = class(p, i, &mut out)?;
                    b"]"
                }
                b'{' => {
                    braces += 1;
                    b"(?:"
                }
                b',' if braces > 0 => b"|",
                b'}' if braces > 0 => {
                    braces -= 1;
                    b")"
                }
                b'\\' => {
                    literal(&mut out, at(i).ok_or("\\ at the end")?);
                    i += 1;
                    b""
                }
                _ => {
                    if b == b'/' {
                        depth = depth.saturating_add(1);
                    }
                    literal(&mut out, b);
                    b""
                }
            };
            out.extend_from_slice(piece);
        }
        if braces > 0 {
            return Err("unbalanced {".into());
        }
        out.push(b'$');
        Ok(Glob {
            re: Regex::new(&String::from_utf8_lossy(&out), false)?,
            text: Vec::new(),
            depth,
        })
    }

    /// Whether all of `path` matches.
    pub fn matches(&mut self, path: &[u8]) -> bool {
        self.text.clear();
        push_utf8_lossy(&mut self.text, path);
        self.re.is_match(&self.text)
    }
}

/// Appends the class that starts after the `[` before `i`, without its end; returns what follows that.
fn class(p: &[u8], mut i: usize, out: &mut Vec<u8>) -> Result<usize, &'static str> {
    // No path has a NUL: it keeps the class from being empty.
    let open: &[u8] = match p.get(i) {
        Some(b'!' | b'^') => {
            i += 1;
            b"[^/"
        }
        _ => b"[\0",
    };
    out.extend_from_slice(open);
    let first = i;
    loop {
        let b = *p
            .get(i)
            .ok_or("unbalanced [: write \\[ for the character")?;
        i += 1;
        match b {
            b']' if i > first + 1 => return Ok(i),
            b'/' => return Err("[...] never matches /"),
            b'-' if i > first + 1 && p.get(i).is_some_and(|&b| b != b']') => {
                // A range around `/` goes on behind it.
                let around = p.get(i - 2).is_some_and(|&b| b < b'/') && p.get(i) > Some(&b'/');
                out.extend_from_slice(if around { b"-.0-" } else { b"-" });
            }
            b'\\' => {
                literal(out, *p.get(i).ok_or("\\ at the end")?);
                i += 1;
            }
            _ => literal(out, b),
        }
    }
}

fn literal(out: &mut Vec<u8>, b: u8) {
    if b"\\.+*?()|[]{}^$-".contains(&b) {
        out.push(b'\\');
    }
    out.push(b);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &[u8]) -> bool {
        let glob = Glob::compile(pattern.as_bytes());
        glob.unwrap_or_else(|e| panic!("{pattern}: {e}"))
            .matches(path)
    }

    #[test]
    fn table() {
        for (pattern, yes, no) in [
            ("a.c", "a.c", "abc"),
            ("*.c", "a.c .c", "a.cc d/a.c"),
            ("*", "a .hidden ü", "a/b"),
            ("?", "a ü .", "ab /"),
            ("a?c", "abc a.c", "ac a/c abbc"),
            ("a*b*c", "abc aXbYc", "ac aXbY a/b/c"),
            ("**", "a a/b .x/y/z", ""),
            ("**/*.rs", "a.rs s/a.rs s/t/.rs", "a.rs/x s/a.r"),
            ("a/**", "a/b a/b/c", "a ab/c"),
            ("a/**/b", "a/b a/x/b a/x/y/b", "ab a/xb a/x/yb"),
            ("**/**/b", "b x/b x/y/b", "xb"),
            ("**/a/**/b", "a/b x/a/y/b", "a/xb b"),
            ("**.rs", "a.rs", "s/a.rs"),
            ("a**", "a ab", "a/b"),
            ("***", "abc", "a/b"),
            ("[abc]x", "ax cx", "dx x abx"),
            ("[a-c]", "a b c", "d -"),
            ("[!a-c]", "d -", "a / "),
            ("[^a]", "b", "a"),
            ("[]a]", "] a", "b"),
            ("[!]a]", "b", "] a"),
            ("[a-]", "a -", "b"),
            ("[-a]", "a -", "b"),
            ("[+-9]", "+ . 0 9", "/ :"),
            (r"[\]\-\\]", r"] - \", "a"),
            ("[[:x]", "[ : x", "y"),
            ("[α-γ]", "β", "δ"),
            ("{a,b}.c", "a.c b.c", "c.c {a,b}.c"),
            ("{a,b{c,d}}", "a bc bd", "b ac"),
            ("x{,y}", "x xy", "xz"),
            ("{a}", "a", "{a}"),
            (
                "{src,tests}/**/*.{rs,toml}",
                "src/a.rs tests/x/b.toml",
                "doc/a.rs src/a.c",
            ),
            ("{**/,}x", "x a/x a/b/x", "ax"),
            ("a}b,c", "a}b,c", "ab"),
            (r"\*\{\[\?\\", r"*{[?\", "a{[?"),
            ("a+(b)|c.d^e$f", "a+(b)|c.d^e$f", "aa(b)|c.d^e$f"),
            ("<a> b", "<a> b", "a"),
        ] {
            for path in yes
                .split(' ')
                .filter(|p| !p.is_empty() && pattern != "<a> b")
            {
                assert!(matches(pattern, path.as_bytes()), "{pattern} {path}");
            }
            for path in no.split(' ') {
                assert!(!matches(pattern, path.as_bytes()), "{pattern} {path}");
            }
        }
        assert!(matches("<a> b", b"<a> b"));
        assert!(matches("a?b*", b"a\xFFb\n\xE2\x82"));
        assert!(matches("a\u{FFFD}", b"a\xFF"));
        for (pattern, depth) in [("a", 0), ("*/{b,c/d}/e", 3), ("a/**", usize::MAX)] {
            assert_eq!(
                Glob::compile(pattern.as_bytes())
                    .unwrap_or_else(|e| panic!("{e}"))
                    .depth,
                depth
            );
        }
    }

    #[test]
    fn errors_name_the_fault() {
        for (pattern, part) in [
            ("a{b", "unbalanced {"),
            ("a[b", "unbalanced ["),
            ("[]", "unbalanced ["),
            ("a\\", "\\ at the end"),
            ("[\\", "\\ at the end"),
            ("[a/b]", "never matches /"),
            ("[z-a]", "z-a"),
            (&"{".repeat(200), "unbalanced {"),
            (&["{".repeat(200), "}".repeat(200)].concat(), "deep"),
            (&"a".repeat(9000), "longer than"),
        ] {
            match Glob::compile(pattern.as_bytes()) {
                Ok(_) => panic!("{pattern} was accepted"),
                Err(e) => assert!(e.contains(part), "{pattern}: {e}"),
            }
        }
    }

    #[test]
    fn time_is_linear() {
        let start = std::time::Instant::now();
        let name = "a".repeat(250);
        for pattern in [
            "**/*a*a*a*a*a*a*b",
            "*a*a*a*a*a*a*a*a*a*?b",
            "{a*,a*,a*}{a*,a*}{a*,a*}b",
        ] {
            for _ in 0..100 {
                assert!(!matches(pattern, name.as_bytes()));
            }
        }
        let deep = "a/".repeat(1000);
        assert!(!matches("**/a/**/a/**/a/**/b", deep.as_bytes()));
        assert!(start.elapsed().as_secs() < 20);
    }

    /// All patterns without braces that `pattern` stands for.
    fn expand(pattern: &str) -> Vec<String> {
        let Some(open) = pattern.find('{') else {
            return vec![pattern.to_string()];
        };
        let (mut depth, mut cuts) = (0, vec![open]);
        for (i, c) in pattern.char_indices().skip_while(|c| c.0 < open) {
            depth += i32::from(c == '{') - i32::from(c == '}');
            if depth == 1 && c == ',' || depth == 0 {
                cuts.push(i);
            }
            if depth == 0 {
                break;
            }
        }
        let (head, tail) = (&pattern[..open], &pattern[cuts[cuts.len() - 1] + 1..]);
        cuts.windows(2)
            .flat_map(|w| expand(&[head, &pattern[w[0] + 1..w[1]], tail].concat()))
            .collect()
    }

    fn component(p: &[char], name: &[char]) -> bool {
        match (p, name) {
            ([], _) => name.is_empty(),
            (['*', rest @ ..], _) => (0..=name.len()).any(|i| component(rest, &name[i..])),
            (_, []) => false,
            (['?', rest @ ..], [_, more @ ..]) => component(rest, more),
            (['[', '!', a, '-', b, ']', rest @ ..], [c, more @ ..]) => {
                !(a <= c && c <= b) && component(rest, more)
            }
            (['[', a, '-', b, ']', rest @ ..], [c, more @ ..]) => {
                a <= c && c <= b && component(rest, more)
            }
            ([a, rest @ ..], [c, more @ ..]) => a == c && component(rest, more),
        }
    }

    fn components(p: &[Vec<char>], path: &[Vec<char>]) -> bool {
        match p {
            [] => path.is_empty(),
            [all] if all[..] == ['*', '*'] => !path.is_empty(),
            [all, rest @ ..] if all[..] == ['*', '*'] => {
                (0..=path.len()).any(|i| components(rest, &path[i..]))
            }
            [first, rest @ ..] => {
                path.first().is_some_and(|n| component(first, n)) && components(rest, &path[1..])
            }
        }
    }

    #[test]
    fn agrees_with_a_naive_matcher() {
        let split = |s: &str| {
            s.split('/')
                .map(|c| c.chars().collect())
                .collect::<Vec<Vec<char>>>()
        };
        let mut seed = 7u32;
        let mut pick = |n: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % n
        };
        let parts = [
            "a",
            "b",
            ".",
            "ü",
            "a",
            "b",
            "*",
            "*",
            "?",
            "/",
            "/",
            "/**/",
            "**/",
            "/**",
            "[a-b]",
            "[!a-b]",
            "[+-9]",
            "{a,b}",
            "{a,b{.,ü}}",
            "{a/b,?}",
            "{ü,ab}",
        ];
        let mut hits = 0;
        for _ in 0..4000 {
            let pattern: String = (0..1 + pick(6)).map(|_| parts[pick(21) as usize]).collect();
            let mut glob =
                Glob::compile(pattern.as_bytes()).unwrap_or_else(|e| panic!("{pattern}: {e}"));
            let all = expand(&pattern);
            for _ in 0..20 {
                let path: String = (0..1 + pick(6))
                    .map(|_| ["a", "b", ".", "ü", "/", "0"][pick(6) as usize])
                    .collect();
                if path.contains("//") || path.starts_with('/') || path.ends_with('/') {
                    continue;
                }
                let right = all.iter().any(|p| components(&split(p), &split(&path)));
                assert_eq!(glob.matches(path.as_bytes()), right, "{pattern} {path}");
                hits += u32::from(right);
            }
        }
        assert!(hits > 1000, "{hits}");
    }
}
