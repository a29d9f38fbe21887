//! The lines of a file most like a text that isn't in it: what a model needs to correct an edit in one step.

use super::window::{Take, feed};
use crate::sys::fs::File;
use crate::text::{complete_utf8_len, push_dec, push_utf8_lossy};

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
    number: u32,
    best: Vec<(u32, u32, Vec<u8>)>,
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

impl Take for Nearest<'_> {
    fn line(&mut self, line: &[u8], _: usize, _: bool) {
        self.number = self.number.saturating_add(1);
        let text = line.trim_ascii();
        let mut score = self.pairs.likeness(&Pairs::of(text));
        if text == self.wanted {
            score += 1;
        }
        if text.is_empty() || score < LEAST {
            return;
        }
        let place = self.best.iter().take_while(|b| b.0 >= score).count();
        if place < COUNT {
            let line = line.get(..complete_utf8_len(line)).unwrap_or(line);
            self.best.insert(place, (score, self.number, line.to_vec()));
            self.best.truncate(COUNT);
        }
    }
}

impl<'a> Nearest<'a> {
    fn new(old: &'a [u8]) -> Self {
        let mut lines = old.split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
        let wanted = lines.find(|l| !l.is_empty()).unwrap_or_default();
        Nearest {
            wanted,
            pairs: Pairs::of(wanted),
            number: 0,
            best: Vec::new(),
        }
    }

    /// Appends the lines of the file `path` most like the first of `old`, nearest first, each with its number.
    pub fn report(path: &[u8], old: &[u8], out: &mut Vec<u8>) {
        let mut nearest = Nearest::new(old);
        if let Ok(mut file) = File::open(path) {
            let _ = feed(&mut file, LINE_MAX, &mut nearest);
        }
        if nearest.best.is_empty() {
            out.extend_from_slice(b"; no line resembles it");
            return;
        }
        out.extend_from_slice(b". Nearest lines:");
        for (_, number, line) in &nearest.best {
            out.push(b'\n');
            push_dec(out, u64::from(*number));
            out.extend_from_slice(b": ");
            push_utf8_lossy(out, line.strip_suffix(b"\r").unwrap_or(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    fn nearest(text: &str, old: &str) -> Vec<u32> {
        let mut n = Nearest::new(old.as_bytes());
        let scene = crate::tools::scene::Scene::new();
        let path = scene.put("f", text);
        let mut file = File::open(path.as_os_str().as_bytes()).unwrap();
        feed(&mut file, LINE_MAX, &mut n).unwrap();
        n.best.iter().map(|b| b.1).collect()
    }

    #[test]
    fn the_nearest_lines_come_first() {
        let text = "config interface 'lan'\n\toption device 'br-lan'\n\toption proto 'static'\n\
                    \toption ipaddr '192.168.1.1'\nconfig interface 'wan'\n\toption proto 'dhcp'\n\n# end\n";
        assert_eq!(nearest(text, "option proto 'statik'")[..2], [3, 6]);
        assert_eq!(nearest(text, "\n\n  option proto 'dhcp'\nfoo")[0], 6);
        assert_eq!(nearest(text, "config interface 'lam'")[0], 1);
        assert_eq!(nearest(text, "qqq"), [0u32; 0]);
        assert_eq!(nearest("", "x"), [0u32; 0]);
        assert_eq!(nearest("a\nb", "\n \n"), [0u32; 0]);
        // Equal ones in the order of the file.
        assert_eq!(nearest("foo\nfoo\nfoo\nfoo\n", "foo\nbar"), [1, 2, 3]);
    }
}
