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
    let mut best: Option<(usize, &str)> = None;
    for name in names {
        let edits = distance(word.as_bytes(), name.as_bytes());
        if edits > 2 || edits * 2 >= word.len().max(2) {
            continue;
        }
        let rank = edits * 2 + usize::from(name.len() != word.len());
        if best.is_none_or(|(b, _)| rank < b) {
            best = Some((rank, name));
        }
    }
    best.map(|(_, name)| name)
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
    fn decimals() {
        let mut out = Vec::new();
        push_dec(&mut out, 0);
        push_dec(&mut out, u64::MAX);
        assert_eq!(out, b"018446744073709551615");
    }
}
