//! The pool of keys of one endpoint: which one a request takes, which are cooling off.

use crate::config::KeyStrategy;

/// A key that has no money left: as good as never.
pub const SPENT: u64 = u64::MAX;

#[derive(Default)]
struct Key {
    value: String,
    /// Where it came from, for messages.
    source: String,
    /// Not before this time, in ms of the caller's clock.
    until: u64,
    /// Requests made with it.
    uses: u32,
}

/// Keys in order; there is always at least one, which may be empty.
pub struct Pool {
    keys: Vec<Key>,
    strategy: KeyStrategy,
    at: usize,
}

impl Pool {
    /// A pool of `first`, which came from `source`, and `more`. Empty and repeated keys don't count.
    pub fn new(first: &str, source: &str, more: &[String], strategy: KeyStrategy) -> Pool {
        let mut keys: Vec<Key> = Vec::new();
        for i in 0..=more.len() {
            let (value, source) = match i.checked_sub(1).and_then(|i| more.get(i)) {
                None => (first, source),
                Some(value) => (value.as_str(), ""),
            };
            let value = value.trim();
            if value.is_empty() || keys.iter().any(|k| k.value == value) {
                continue;
            }
            let number = super::attempt::dec(i as u64);
            let source = match (i, source) {
                (0, "") => ["the configuration", ""],
                (0, source) => [source, ""],
                _ => ["api_keys, number ", &number],
            };
            keys.push(Key {
                value: value.into(),
                source: source.concat(),
                until: 0,
                uses: 0,
            });
        }
        if keys.is_empty() {
            keys.push(Key::default());
        }
        // So that the first turn of a round begins with the first key.
        let at = keys.len() - 1;
        Pool { keys, strategy, at }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Never: see [`Pool::new`].
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Chooses the key for a new request at the time `now`. When all are cooling off, the one that is ready first.
    pub fn choose(&mut self, now: u64) {
        if !self.next(now) {
            let mut first = u64::MAX;
            self.at = 0;
            for (i, key) in self.keys.iter().enumerate() {
                if key.until < first {
                    (first, self.at) = (key.until, i);
                }
            }
        }
    }

    /// Goes to a key that may be used at the time `now`; false when there is none.
    pub fn next(&mut self, now: u64) -> bool {
        let mut best = None;
        let start = match self.strategy {
            KeyStrategy::RoundRobin => self.at + 1,
            _ => 0,
        };
        let mut fewest = u32::MAX;
        for i in 0..self.keys.len() {
            let i = (start + i) % self.keys.len();
            let Some(key) = self.keys.get(i).filter(|k| k.until <= now) else {
                continue;
            };
            let uses = match self.strategy {
                KeyStrategy::LeastUsed => key.uses,
                _ => 0,
            };
            if uses < fewest {
                (best, fewest) = (Some(i), uses);
            }
        }
        if let Some(i) = best {
            self.at = i;
        }
        best.is_some()
    }

    /// Whether a key other than the current one may be used at the time `now`.
    pub fn has_other(&self, now: u64) -> bool {
        let mut all = self.keys.iter().enumerate();
        all.any(|(i, k)| i != self.at && k.until <= now)
    }

    /// Puts the current key aside until the time `until`.
    pub fn put_aside(&mut self, until: u64) {
        if let Some(key) = self.keys.get_mut(self.at) {
            key.until = until;
        }
    }

    /// The current key, counted as used once more.
    pub fn take(&mut self) -> &str {
        match self.keys.get_mut(self.at) {
            Some(key) => {
                key.uses = key.uses.saturating_add(1);
                &key.value
            }
            None => "",
        }
    }

    /// The current key's place in the pool from 1, and where it came from. Empty when there is no key.
    pub fn current(&self) -> (usize, &str) {
        let source = self.keys.get(self.at).map_or("", |k| &k.source);
        (self.at + 1, source)
    }

    /// Cuts every key of the pool, and what looks like one, out of `text`: a server may quote what it refuses.
    pub fn redact(&self, text: &mut String) {
        let keys: Vec<&[u8]> = self.keys.iter().map(|k| k.value.as_bytes()).collect();
        let clean = crate::policy::redact::redact(text.as_bytes(), &keys);
        *text = super::transport::owned(&clean);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(strategy: KeyStrategy) -> Pool {
        let more = ["", "bbbbbbbb", " aaaaaaaa ", "cccccccc"].map(String::from);
        Pool::new("aaaaaaaa\n", "OPENAI_API_KEY", &more, strategy)
    }

    fn used(p: &mut Pool, times: usize) -> String {
        let mut out = String::new();
        for _ in 0..times {
            p.choose(10);
            out.push_str(&p.take()[..1]);
        }
        out
    }

    #[test]
    fn strategies() {
        assert_eq!(used(&mut pool(KeyStrategy::FillFirst), 4), "aaaa");
        assert_eq!(used(&mut pool(KeyStrategy::RoundRobin), 5), "abcab");
        assert_eq!(used(&mut pool(KeyStrategy::LeastUsed), 5), "abcab");
        let mut p = pool(KeyStrategy::FillFirst);
        p.choose(10);
        p.put_aside(20);
        assert_eq!(used(&mut p, 2), "bb");
        p.choose(20);
        assert_eq!(p.take(), "aaaaaaaa");
    }

    #[test]
    fn all_put_aside_still_gives_one() {
        let mut p = pool(KeyStrategy::RoundRobin);
        for until in [SPENT, 500, 400] {
            p.choose(0);
            assert_eq!(p.has_other(0), until != 400);
            p.put_aside(until);
        }
        assert!(!p.next(0));
        p.choose(0);
        assert_eq!(p.current(), (3, "api_keys, number 4"));
    }

    #[test]
    fn no_keys_is_one_empty_key() {
        let mut p = Pool::new(" ", "x", &[], KeyStrategy::FillFirst);
        p.choose(0);
        assert_eq!((p.len(), p.take().len(), p.current()), (1, 0, (1, "")));
    }

    #[test]
    fn keys_are_redacted() {
        let mut text = String::from("bad key bbbbbbbb, not aaaaaaaa");
        pool(KeyStrategy::FillFirst).redact(&mut text);
        assert_eq!(text, "bad key [redacted], not [redacted]");
    }
}
