//! Small pieces of text handling shared by every layer: UTF-8 repair, control characters, numbers, near spellings.

/// Appends `bytes` to `out` as valid UTF-8: each maximal invalid part becomes U+FFFD, as Unicode 15 §3.9 recommends.
pub fn push_utf8_lossy(out: &mut Vec<u8>, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        out.extend_from_slice(chunk.valid().as_bytes());
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{FFFD}".as_bytes());
        }
    }
}

/// The length of the longest prefix of `bytes` that does not end inside a UTF-8 sequence which more bytes could
/// complete. Bytes that are invalid whatever follows count as complete.
pub fn complete_utf8_len(bytes: &[u8]) -> usize {
    let n = bytes.len();
    for back in 1..=3.min(n) {
        let b = bytes[n - back];
        let need = match b {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            0x80..=0xBF => continue,
            _ => return n,
        };
        return if need > back { n - back } else { n };
    }
    n
}

/// Appends `n` in decimal.
pub fn push_dec(out: &mut Vec<u8>, mut n: u64) {
    let mut buf = [0u8; 20];
    let mut i = buf.len();
    loop {
        i -= 1;
        buf[i] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&buf[i..]);
}

/// Appends `text` for a terminal: control characters other than newline and tab, DEL, C1 controls and the Unicode
/// bidirectional and invisible controls are made visible (`^[`, `\u{202e}`), bytes that are not UTF-8 become U+FFFD.
/// No escape sequence from outside is ever executed.
pub fn push_visible(out: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text;
    while !rest.is_empty() {
        let plain = rest
            .iter()
            .position(|&b| b < 0x20 && b != b'\n' && b != b'\t' || b >= 0x7F)
            .unwrap_or(rest.len());
        out.extend_from_slice(&rest[..plain]);
        rest = &rest[plain..];
        let Some(&b) = rest.first() else { break };
        if b < 0x80 {
            out.extend_from_slice(&[b'^', (b ^ 0x40) & 0x7F]);
            rest = &rest[1..];
            continue;
        }
        let head = &rest[..rest.len().min(4)];
        let chunk = head.utf8_chunks().next();
        match chunk.as_ref().and_then(|c| c.valid().chars().next()) {
            Some(c) => {
                if is_invisible(c) {
                    push_escape(out, c as u32);
                } else {
                    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                rest = &rest[c.len_utf8()..];
            }
            None => {
                out.extend_from_slice("\u{FFFD}".as_bytes());
                let bad = chunk.map_or(1, |c| c.invalid().len().max(1));
                rest = &rest[bad..];
            }
        }
    }
}

/// Characters that change how other text shows without showing themselves: C1 controls, line and paragraph
/// separators, bidirectional controls, zero-width characters outside emoji sequences, tag characters.
pub fn is_invisible(c: char) -> bool {
    matches!(c as u32, 0x80..=0x9F | 0x200B | 0x200E | 0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0xFEFF | 0xE0000..=0xE007F)
}

fn push_escape(out: &mut Vec<u8>, code: u32) {
    out.extend_from_slice(b"\\u{");
    let digits = (32 - code.leading_zeros()).div_ceil(4).max(1);
    for i in (0..digits).rev() {
        let d = (code >> (4 * i)) & 0xF;
        out.push(b"0123456789abcdef"[d as usize]);
    }
    out.push(b'}');
}

/// How many edits turn `a` into `b`: insert, delete, replace, swap two neighbours (optimal string alignment). Strings over
/// 64 bytes count as infinitely far.
pub fn distance(a: &[u8], b: &[u8]) -> usize {
    if a.len() > 64 || b.len() > 64 {
        return usize::MAX;
    }
    let (mut before, mut last) = ([0u8; 65], [0u8; 65]);
    for (j, cell) in last.iter_mut().enumerate() {
        *cell = j as u8;
    }
    for i in 0..a.len() {
        let mut row = [0u8; 65];
        row[0] = i as u8 + 1;
        for j in 0..b.len() {
            let mut best = (last[j] + u8::from(a[i] != b[j]))
                .min(last[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                best = best.min(before[j - 1] + 1);
            }
            row[j + 1] = best;
        }
        (before, last) = (last, row);
    }
    usize::from(last[b.len()])
}

/// The entry of `names` nearest to `word`, when it is near enough to be what was meant: at most two edits and less than
/// half of the word. Of two as near, the one of the same length.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut near = Near::to(word);
    for name in names {
        near.offer(name);
    }
    near.found()
}

/// [`nearest`] for names that come one by one.
pub struct Near<'w, 'a> {
    word: &'w str,
    rank: usize,
    name: &'a str,
}

impl<'w, 'a> Near<'w, 'a> {
    /// Nothing is near `word` yet.
    pub fn to(word: &'w str) -> Self {
        Near {
            word,
            rank: usize::MAX,
            name: "",
        }
    }

    /// Another name.
    #[inline(never)]
    pub fn offer(&mut self, name: &'a str) {
        let word = self.word;
        let edits = distance(word.as_bytes(), name.as_bytes());
        if edits > 2 || edits * 2 >= word.len().max(2) {
            return;
        }
        let rank = edits * 2 + usize::from(name.len() != word.len());
        if rank < self.rank {
            (self.rank, self.name) = (rank, name);
        }
    }

    /// The nearest of them.
    pub fn found(&self) -> Option<&'a str> {
        (self.rank < usize::MAX).then_some(self.name)
    }

    /// Appends `; did you mean …?` with `quotes` around the nearest; false when none is near.
    pub fn push(&self, out: &mut Vec<u8>, quotes: [&str; 2]) -> bool {
        let Some(name) = self.found() else {
            return false;
        };
        let parts = [quotes[0], name, quotes[1]].map(str::as_bytes);
        push_filled(out, "; did you mean %%%?", &parts);
        true
    }
}

/// `template` with each `%` replaced by the next of `parts`.
pub fn filled(template: &str, parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    push_filled(&mut out, template, parts);
    out
}

/// [`filled`] for text.
#[inline(never)]
pub fn said(template: &str, parts: &[&str]) -> String {
    let mut out = String::new();
    let mut rest = template;
    for part in parts {
        let Some((before, after)) = rest.split_once('%') else {
            break;
        };
        out.push_str(before);
        out.push_str(part);
        rest = after;
    }
    out.push_str(rest);
    out
}

/// `bytes` as [`push_utf8_lossy`] repairs them.
#[inline(never)]
pub fn lossy(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    push_utf8_lossy(&mut out, bytes);
    String::from_utf8(out).unwrap_or_default()
}

/// `n` in decimal.
#[inline(never)]
pub fn dec(n: u64) -> String {
    let mut out = Vec::new();
    push_dec(&mut out, n);
    String::from_utf8(out).unwrap_or_default()
}

/// The words of a list with `between` between them.
#[inline(never)]
pub fn listed(between: &str, words: &mut dyn Iterator<Item = &str>) -> String {
    let mut out = String::new();
    for word in words {
        if !out.is_empty() {
            out.push_str(between);
        }
        out.push_str(word);
    }
    out
}

/// Appends [`filled`].
#[inline(never)]
pub fn push_filled(out: &mut Vec<u8>, template: &str, parts: &[&[u8]]) {
    let mut parts = parts.iter();
    for &b in template.as_bytes() {
        match b {
            b'%' => out.extend_from_slice(parts.next().copied().unwrap_or_default()),
            _ => out.push(b),
        }
    }
}

/// Reads a whole number of 32 bits: digits and nothing else.
pub fn whole(text: &[u8]) -> Option<u32> {
    let mut n = 0u32;
    for b in text {
        let digit = u32::from(b.wrapping_sub(b'0'));
        if digit > 9 {
            return None;
        }
        n = n.checked_mul(10)?.checked_add(digit)?;
    }
    (!text.is_empty()).then_some(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visible(text: &[u8]) -> String {
        let mut out = Vec::new();
        push_visible(&mut out, text);
        String::from_utf8(out).unwrap_or_else(|e| panic!("not UTF-8: {e}"))
    }

    #[test]
    fn control_characters_become_visible() {
        assert_eq!(visible(b"a\tb\nc"), "a\tb\nc");
        assert_eq!(visible(b"\x1b[31mred\x07\x7f\r"), "^[[31mred^G^?^M");
        assert_eq!(
            visible("é\u{85}\u{202e}\u{e0041}".as_bytes()),
            "é\\u{85}\\u{202e}\\u{e0041}"
        );
        assert_eq!(visible(b"\xff\xc3(\xe2\x82"), "\u{FFFD}\u{FFFD}(\u{FFFD}");
    }

    #[test]
    fn utf8_is_repaired_and_cut_at_sequences() {
        let mut out = Vec::new();
        push_utf8_lossy(&mut out, b"a\xf0\x9f\x98b");
        assert_eq!(out, "a\u{FFFD}b".as_bytes());
        let smile = "x😀".as_bytes();
        assert_eq!(
            [1, 2, 3, 4, 5].map(|n| complete_utf8_len(&smile[..n])),
            [1, 1, 1, 1, 5]
        );
        assert_eq!(complete_utf8_len(b"\x80\x80\x80"), 3);
    }

    #[test]
    fn near_spellings() {
        assert_eq!(nearest("--modle", ["--mode", "--model"]), Some("--model"));
        assert_eq!(nearest("x", ["y"]), None);
        assert_eq!(distance(b"kitten", b"sitting"), 3);
    }

    #[test]
    fn templates_and_numbers() {
        assert_eq!(filled("a % b %%", &[b"1", b"%"]), b"a 1 b %");
        assert_eq!(said("a % b %.", &["%", &dec(7)]), "a % b 7.");
        assert_eq!(lossy(b"x\xff"), "x\u{FFFD}");
        assert_eq!(listed(", ", &mut ["a", "b"].into_iter()), "a, b");
        let table: &[(&[u8], Option<u32>)] = &[
            (b"007", Some(7)),
            (b"4294967295", Some(u32::MAX)),
            (b"4294967296", None),
            (b"", None),
            (b"+1", None),
            (b"1 ", None),
            (b":", None),
        ];
        for (text, n) in table {
            assert_eq!(whole(text), *n);
        }
    }

    #[test]
    fn decimals() {
        let mut out = Vec::new();
        push_dec(&mut out, 0);
        push_dec(&mut out, u64::MAX);
        assert_eq!(out, b"018446744073709551615");
    }
}
