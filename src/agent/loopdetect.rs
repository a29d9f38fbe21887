//! Loop detection: two runaway patterns, each a plain count of consecutive repeats, so that any change of behaviour
//! resets it. It never blocks or alters a call: it warns the model once, then stops the turn.

use crate::json::{Kind, Value, Writer, parse};
use crate::sys::hash::fnv64;

/// What the caller should do after a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Nothing.
    Fine,
    /// Tell the model it looks stuck.
    Warn(Pattern),
    /// End the turn.
    Halt(Pattern),
}

/// Which pattern tripped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// The same tool with the same arguments.
    Repeat,
    /// One error after another.
    Errors,
}

/// The detector's counts. They last over steps and compactions, and start anew with each user prompt.
#[derive(Default)]
pub struct LoopDetect {
    last: u64,
    repeats: u32,
    errors: u32,
    warned: bool,
}

impl LoopDetect {
    /// Counts one call and its result.
    pub fn record(&mut self, name: &str, arguments: &[u8], is_error: bool) {
        let signature = signature(name, arguments);
        self.repeats = if signature == self.last {
            self.repeats + 1
        } else {
            1
        };
        self.last = signature;
        self.errors = if is_error { self.errors + 1 } else { 0 };
    }

    /// Consulted after each step's calls. A threshold of 0 switches its pattern off.
    pub fn check(&mut self, repeat_threshold: u32, error_threshold: u32) -> Verdict {
        let over = |count: u32, threshold: u32| threshold > 0 && count >= threshold;
        let pattern = if over(self.repeats, repeat_threshold) {
            Pattern::Repeat
        } else if over(self.errors, error_threshold) {
            Pattern::Errors
        } else {
            self.warned = false;
            return Verdict::Fine;
        };
        if std::mem::replace(&mut self.warned, true) {
            Verdict::Halt(pattern)
        } else {
            Verdict::Warn(pattern)
        }
    }
}

/// A call's identity: name and arguments with the keys of every object sorted and white space gone; array order counts.
/// Arguments that are no JSON stand for themselves.
fn signature(name: &str, arguments: &[u8]) -> u64 {
    let mut w = Writer::new();
    match parse(arguments) {
        Ok(value) => canonical(value, &mut w),
        Err(_) => w.out.extend_from_slice(arguments),
    }
    fnv64(&[name.as_bytes(), b"\0", &w.out])
}

/// Of an object so many members are sorted.
const MAX_SORTED: usize = 500;

/// Writes `value` with the keys of every object sorted. The tokenizer caps the nesting at 512, so the recursion is bounded.
pub fn canonical(value: Value, w: &mut Writer) {
    match value.kind() {
        Kind::Object => {
            // Few members, and the library's sort costs four kilobytes; an object of thousands keeps its order behind
            // the first ones.
            let mut entries: Vec<(Vec<u8>, Value)> = Vec::new();
            for (key, member) in value.entries() {
                let key = key.bytes();
                let mut at = entries.len();
                while at > 0 && at <= MAX_SORTED && entries[at - 1].0 > key {
                    at -= 1;
                }
                entries.insert(at, (key, member));
            }
            w.open(b'{');
            for (key, member) in entries {
                w.key(&crate::text::lossy(&key));
                canonical(member, w);
            }
            w.close(b'}');
        }
        Kind::Array => {
            w.open(b'[');
            value.items().for_each(|item| canonical(item, w));
            w.close(b']');
        }
        Kind::Str => {
            w.str(value.text().map(|t| t.bytes()).unwrap_or_default());
        }
        _ => {
            w.raw(value.raw());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(d: &mut LoopDetect, args: &str, error: bool) -> Verdict {
        d.record("bash", args.as_bytes(), error);
        d.check(3, 4)
    }

    #[test]
    fn three_equal_calls_warn_then_halt() {
        let mut d = LoopDetect::default();
        let seen = [
            "{\"a\":1,\"b\":[1,2]}",
            "{ \"b\": [1, 2], \"a\": 1 }",
            "{\"a\":1,\"b\":[1,2]}",
            "{\"a\":1,\"b\":[1,2]}",
        ]
        .map(|a| step(&mut d, a, false));
        assert_eq!(
            seen,
            [
                Verdict::Fine,
                Verdict::Fine,
                Verdict::Warn(Pattern::Repeat),
                Verdict::Halt(Pattern::Repeat)
            ]
        );
    }

    #[test]
    fn a_change_disarms() {
        let mut d = LoopDetect::default();
        for _ in 0..2 {
            step(&mut d, "{}", false);
        }
        assert_eq!(step(&mut d, "{}", false), Verdict::Warn(Pattern::Repeat));
        assert_eq!(step(&mut d, "{\"x\":1}", false), Verdict::Fine);
        for _ in 0..2 {
            assert_eq!(step(&mut d, "{\"x\":2}", false), Verdict::Fine);
        }
        assert_eq!(
            step(&mut d, "{\"x\":2}", false),
            Verdict::Warn(Pattern::Repeat)
        );
    }

    #[test]
    fn array_order_and_raw_text_count() {
        assert_ne!(signature("t", b"[1,2]"), signature("t", b"[2,1]"));
        assert_ne!(signature("t", b"{cut"), signature("t", b"{cut "));
        assert_eq!(
            signature("t", b"{\"a\":\"\\u0041\"}"),
            signature("t", b"{\"a\":\"A\"}")
        );
    }

    #[test]
    fn four_errors_in_a_row() {
        let mut d = LoopDetect::default();
        let verdicts: Vec<_> = (0..5)
            .map(|i| step(&mut d, &format!("{{\"n\":{i}}}"), true))
            .collect();
        assert_eq!(verdicts[2], Verdict::Fine);
        assert_eq!(
            verdicts[3..],
            [
                Verdict::Warn(Pattern::Errors),
                Verdict::Halt(Pattern::Errors)
            ]
        );
        assert_eq!(step(&mut d, "{\"n\":9}", false), Verdict::Fine);
    }

    #[test]
    fn repeats_inside_one_step_count() {
        let mut d = LoopDetect::default();
        for _ in 0..3 {
            d.record("read", b"{}", false);
        }
        assert_eq!(d.check(3, 4), Verdict::Warn(Pattern::Repeat));
    }
}
