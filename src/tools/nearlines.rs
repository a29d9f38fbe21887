//! The lines of a file most like a text that isn't in it: what a model needs to correct an edit in one step.

use crate::sys::fs::File;
use crate::text::{complete_utf8_len, push_dec, push_utf8_lossy};
use memchr::memchr;
use std::io;

/// Lines named.
const COUNT: usize = 3;
/// Bytes of a line compared and shown.
const LINE_MAX: usize = 200;
/// Likeness from 0 to 1000 below which a line isn't named.
const LEAST: u32 = 150;

/// Looks for lines like the first line of a text that says something.
pub struct Nearest<'a> {
    wanted: &'a [u8],
    pairs: Pairs,
    best: Vec<(u32, u64, Vec<u8>)>,
}

/// Which pairs of neighbouring bytes occur, in 256 bits.
#[derive(Clone, Copy)]
struct Pairs([u32; 8]);

impl Pairs {
    fn of(text: &[u8]) -> Pairs {
        let mut bits = [0; 8];
        let mut last = 0u8;
        for &b in text.iter().take(LINE_MAX) {
            let i = last.wrapping_mul(37).wrapping_add(b);
            if let Some(word) = bits.get_mut(usize::from(i >> 5)) {
                *word |= 1u32 << (i & 31);
            }
            last = b;
        }
        Pairs(bits)
    }

    fn count(&self) -> u32 {
        self.0.iter().map(|w| w.count_ones()).sum()
    }

    /// 1000 for the same pairs, 0 for none in common.
    fn likeness(&self, other: &Pairs) -> u32 {
        let both = self.0.iter().zip(&other.0);
        let common: u32 = both.map(|(a, b)| (a & b).count_ones()).sum();
        2000 * common / (self.count() + other.count()).max(1)
    }
}

impl<'a> Nearest<'a> {
    /// A search for lines like those of `old`.
    pub fn new(old: &'a [u8]) -> Self {
        let lines = old.split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
        let wanted = lines.into_iter().find(|l| !l.is_empty()).unwrap_or(b"");
        Nearest {
            wanted,
            pairs: Pairs::of(wanted),
            best: Vec::new(),
        }
    }

    /// Looks at line `number`.
    pub fn line(&mut self, number: u64, line: &[u8]) {
        let text = line.trim_ascii();
        if text.is_empty() {
            return;
        }
        let score = if text == self.wanted {
            1001
        } else {
            self.pairs.likeness(&Pairs::of(text))
        };
        if score < LEAST {
            return;
        }
        let place = self.best.iter().take_while(|b| b.0 >= score).count();
        if place < COUNT {
            let line = line.get(..LINE_MAX.min(line.len())).unwrap_or(line);
            let line = line.get(..complete_utf8_len(line)).unwrap_or(line);
            self.best.insert(place, (score, number, line.to_vec()));
            self.best.truncate(COUNT);
        }
    }

    /// Looks at all lines of `text`.
    pub fn text(&mut self, text: &[u8]) {
        for (i, line) in text.split(|&b| b == b'\n').enumerate() {
            self.line(i as u64 + 1, line);
        }
    }

    /// Looks at all lines of a file, the first bytes of each.
    ///
    /// # Errors
    /// The system's.
    pub fn file(&mut self, file: &mut File) -> io::Result<()> {
        let mut buf = vec![0; 32 * 1024];
        let mut line = Vec::new();
        let mut number = 1;
        loop {
            let n = file.read(&mut buf)?;
            let mut rest = buf.get(..n).unwrap_or_default();
            if n == 0 {
                self.line(number, &line);
                return Ok(());
            }
            while !rest.is_empty() {
                let end = memchr(b'\n', rest);
                let (part, more) = rest.split_at(end.unwrap_or(rest.len()));
                let room = (4 * LINE_MAX).saturating_sub(line.len());
                line.extend_from_slice(part.get(..room.min(part.len())).unwrap_or_default());
                rest = more.get(1..).unwrap_or_default();
                if end.is_some() {
                    self.line(number, &line);
                    line.clear();
                    number += 1;
                }
            }
        }
    }

    /// Appends what was found, nearest first, each line with its number.
    pub fn report(&self, out: &mut Vec<u8>) {
        if self.best.is_empty() {
            out.extend_from_slice(b"; no line resembles it");
            return;
        }
        out.extend_from_slice(b". Nearest lines:");
        for (_, number, line) in &self.best {
            push_line(out, *number, line);
        }
    }
}

fn push_line(out: &mut Vec<u8>, number: u64, line: &[u8]) {
    out.push(b'\n');
    push_dec(out, number);
    out.extend_from_slice(b": ");
    push_utf8_lossy(out, line.strip_suffix(b"\r").unwrap_or(line));
}

/// When several lines of `old` stand in `text` (blanks around them ignored) and then one doesn't: appends which.
pub fn report_difference(text: &[u8], old: &[u8], out: &mut Vec<u8>) {
    let lines: Vec<&[u8]> = old.split(|&b| b == b'\n').map(<[u8]>::trim_ascii).collect();
    let blank = lines.iter().take_while(|l| l.is_empty()).count();
    let lines = lines.get(blank..).unwrap_or_default();
    let Some(first) = lines.first() else { return };
    let mut best: (usize, u64) = (0, 0);
    let mut at = 0;
    for number in 1.. {
        let Some(rest) = text.get(at..).filter(|r| !r.is_empty()) else {
            break;
        };
        at += memchr(b'\n', rest).map_or(rest.len(), |i| i + 1);
        let mut there = rest.split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
        if there.next() == Some(*first) {
            let more = lines.iter().skip(1).zip(there);
            let run = 1 + more.take_while(|(a, b)| *a == b).count();
            if run > best.0 {
                best = (run, number);
            }
        }
    }
    let (run, number) = best;
    let next = number + run as u64;
    let Some(wanted) = lines.get(run).filter(|_| run > 0) else {
        return;
    };
    let there = text.split(|&b| b == b'\n').nth(next as usize - 1);
    out.extend_from_slice(b"\nFrom line ");
    push_dec(out, number);
    out.extend_from_slice(b" on it matches until oldString has: ");
    push_utf8_lossy(
        out,
        wanted.get(..LINE_MAX.min(wanted.len())).unwrap_or(wanted),
    );
    out.extend_from_slice(b"\nwhere the file has:");
    let there = there.unwrap_or(b"(its end)");
    push_line(
        out,
        next,
        there.get(..LINE_MAX.min(there.len())).unwrap_or(there),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nearest(text: &str, old: &str) -> Vec<u64> {
        let mut n = Nearest::new(old.as_bytes());
        n.text(text.as_bytes());
        n.best.iter().map(|b| b.1).collect()
    }

    #[test]
    fn the_nearest_lines_come_first() {
        let text = "config interface 'lan'\n\toption device 'br-lan'\n\toption proto 'static'\n\
                    \toption ipaddr '192.168.1.1'\nconfig interface 'wan'\n\toption proto 'dhcp'\n\n# end\n";
        assert_eq!(nearest(text, "option proto 'statik'")[..2], [3, 6]);
        assert_eq!(nearest(text, "\n\n  option proto 'dhcp'\nfoo")[0], 6);
        assert_eq!(nearest(text, "config interface 'lam'")[0], 1);
        assert_eq!(nearest(text, "qqq"), [0u64; 0]);
        assert_eq!(nearest("", "x"), [0u64; 0]);
        assert_eq!(nearest("a\nb", "\n \n"), [0u64; 0]);
        // Equal ones in the order of the file.
        assert_eq!(nearest("foo\nfoo\nfoo\nfoo\n", "foo\nbar"), [1, 2, 3]);
    }

    #[test]
    fn where_it_differs() {
        let report = |text: &str, old: &str| {
            let mut out = Vec::new();
            report_difference(text.as_bytes(), old.as_bytes(), &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            report("a\nb\nx\na\n b\nc\nd\n", "\n a\nb\nc\nZ\n"),
            "\nFrom line 4 on it matches until oldString has: Z\nwhere the file has:\n7: d"
        );
        assert_eq!(
            report("a\nb", "a\nb\nc"),
            "\nFrom line 1 on it matches until oldString has: c\nwhere the file has:\n3: (its end)"
        );
        assert_eq!(report("a\nb\n", "c\nd"), "");
        assert_eq!(report("a\nb\n", "a"), "");
        assert_eq!(report("", "\n\n"), "");
    }
}
