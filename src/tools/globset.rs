//! Glob patterns over relative paths, run by the regex engine, so in linear time: `*` `?` `[a-z]` `[!a-z]` `{a,b}`, `**`
//! as a whole component for any number of directories, `\` before a character for itself. `*`, `?` and classes match
//! characters, hidden names too, and never `/`. A name that isn't UTF-8 is matched as it is shown, with U+FFFD.

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
    /// Compiles `pattern`. The error is a phrase that names what is wrong.
    pub fn new(pattern: &str) -> Result<Glob, String> {
        let p = pattern.as_bytes();
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
                    let edge = |b| match b {
                        None | Some(b'/') => true,
                        Some(b'{' | b',' | b'}') => braces > 0,
                        _ => false,
                    };
                    if stars == 2 && edge(before) && edge(at(i)) {
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
