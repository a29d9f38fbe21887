//! The pool of keys of one endpoint: which one a request takes, which are cooling off.

use crate::config::KeyStrategy;

/// A key that has no money left: as good as never.
pub const SPENT: u64 = u64::MAX;

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
        let all = std::iter::once(first).chain(more.iter().map(String::as_str));
        for (i, value) in all.enumerate() {
            let value = value.trim();
            if value.is_empty() || keys.iter().any(|k| k.value == value) {
                continue;
            }
            let source = match i {
                0 if source.is_empty() => "the configuration".into(),
                0 => source.into(),
                _ => ["api_keys, number ", super::attempt::dec(i as u64).as_str()].concat(),
            };
            keys.push(Key {
                value: value.into(),
                source,
                until: 0,
                uses: 0,
            });
        }
        if keys.is_empty() {
            keys.push(Key {
                value: String::new(),
                source: String::new(),
                until: 0,
                uses: 0,
            });
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
            let first = (0..self.keys.len()).min_by_key(|i| self.keys.get(*i).map(|k| k.until));
            self.at = first.unwrap_or(0);
        }
    }

    /// Goes to a key that may be used at the time `now`; false when there is none.
    pub fn next(&mut self, now: u64) -> bool {
        let n = self.keys.len();
        let order = (0..n).map(|i| match self.strategy {
            KeyStrategy::RoundRobin => (self.at + 1 + i) % n,
            _ => i,
        });
        let usable = order.filter(|i| self.keys.get(*i).is_some_and(|k| k.until <= now));
        let best = match self.strategy {
            KeyStrategy::LeastUsed => usable.min_by_key(|i| self.keys.get(*i).map(|k| k.uses)),
            _ => usable.into_iter().next(),
        };
        if let Some(i) = best {
            self.at = i;
        }
        best.is_some()
    }

    /// Whether a key other than the current one may be used at the time `now`.
    pub fn has_other(&self, now: u64) -> bool {
        let others = self.keys.iter().enumerate().filter(|(i, _)| *i != self.at);
        others.into_iter().any(|(_, k)| k.until <= now)
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

    /// Replaces every key of the pool in `text`: a server may quote what it refuses.
    pub fn redact(&self, text: &mut String) {
        for key in &self.keys {
            if key.value.len() >= 6 && text.contains(&key.value) {
                *text = text.replace(&key.value, "[key]");
            }
        }
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
        assert_eq!(text, "bad key [key], not [key]");
    }
}
