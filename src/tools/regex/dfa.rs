//! Runs a program over bytes as an automaton whose states are made when first needed.
//!
//! A state is an ordered list of program addresses, not yet followed to where bytes are consumed, and the kind of byte
//! that came before. Following them waits until the next byte is known: then every condition can be decided, and a
//! match is noticed one byte late. A step costs at most one walk through the program, made states or not, so the time
//! is linear in the haystack even when the states never fit the cache.

use super::parse::Look;
use super::prog::{Inst, Prog};

/// Bytes a state takes besides its list and transitions.
const OVERHEAD: usize = size_of::<State>();

/// Kinds of neighbouring bytes: none, no word character, word character.
const EDGE: u8 = 0;
const OTHER: u8 = 1;
const WORD: u8 = 2;
/// In a state's flags: a match ended before the byte that led here.
const MATCH: u8 = 4;
/// In a state's flags: no match yet, so that one may start at every byte, less preferred than those under way.
const SEARCH: u8 = 8;
/// In a transition: look at the state, it has a match or is a dead end.
const SPECIAL: u16 = 0x8000;

#[derive(Default)]
struct State {
    /// Its list is `lists[off..off + len]`.
    off: u32,
    len: u16,
    /// The next state with the same hash.
    chain: u16,
    /// The kind of the byte before, MATCH, SEARCH.
    flags: u8,
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// An automaton.
pub struct Dfa {
    prog: Prog,
    /// Bytes that no instruction tells apart share a class.
    classes: Vec<u8>,
    /// A byte of each class.
    samples: Vec<u8>,
    /// State 0 is none.
    states: Vec<State>,
    lists: Vec<u16>,
    /// Next states by state and class, with a last class for the end; 0 is not known yet.
    table: Vec<u16>,
    buckets: Vec<u16>,
    /// The list being made.
    next: Vec<u16>,
    stack: Vec<u16>,
    /// Two bits an address: followed, listed in `next`.
    marks: Vec<u8>,
    /// `\n` counts as an end of the haystack and so does, for what comes before it, `\r`. To be set before the first run.
    pub lines: bool,
    /// Bytes of states kept; over it, all are forgotten and made again.
    pub cache: usize,
}

impl Dfa {
    /// An automaton without any states yet.
    pub fn new(prog: Prog) -> Self {
        // First where classes start, then their numbers.
        let (mut classes, mut samples) = (vec![0; 256], vec![0]);
        for edge in &prog.edges {
            classes[usize::from(edge.lo)] = 1;
            classes[usize::from(edge.hi.wrapping_add(1))] = 1;
        }
        for b in 1..=255 {
            let class = &mut classes[usize::from(b)];
            let line = prog.looks && matches!(b, b'\n' | 11 | b'\r' | 14);
            if *class == 1 || line || prog.words && is_word(b) != is_word(b - 1) {
                samples.push(b);
            }
            *class = (samples.len() - 1) as u8;
        }
        classes[0] = 0;
        let mut dfa = Dfa {
            marks: vec![0; prog.insts.len()],
            prog,
            classes,
            samples,
            states: Vec::new(),
            lists: Vec::new(),
            table: Vec::new(),
            buckets: vec![0; 256],
            next: Vec::new(),
            stack: Vec::new(),
            lines: false,
            cache: 64 * 1024,
        };
        dfa.flush();
        dfa
    }

    /// Runs from `from` towards `to` (lower when the program is a reverse one), both at most `hay.len()`. Where the
    /// match ends, in the direction of the run: the preferred one going forwards, the longest going backwards; with
    /// `earliest`, the first end met. Bytes of `hay` beyond both ends decide conditions but are not consumed.
    pub fn run(&mut self, hay: &[u8], from: usize, to: usize, earliest: bool) -> Option<usize> {
        let back = usize::from(self.prog.reverse);
        let delta = if back == 1 { usize::MAX } else { 1 };
        let behind = hay.get(from.wrapping_sub(1 - back));
        let search = match self.prog.reverse {
            true => 0,
            false => SEARCH,
        };
        self.next.clear();
        self.next.push(self.prog.entry);
        let mut state = self.intern(self.kind(behind.copied()) | search).0;
        let stride = self.samples.len() + 1;
        let (mut at, mut found) = (from, None);
        loop {
            let class = match hay.get(at.wrapping_sub(back)) {
                Some(&b) => usize::from(self.classes[usize::from(b)]),
                None => stride - 1,
            };
            let mut to_state = self.table[usize::from(state) * stride + class];
            if to_state == 0 {
                to_state = self.step(state, class);
            }
            state = to_state & !SPECIAL;
            if to_state & SPECIAL != 0 {
                let State { flags, len, .. } = self.states[usize::from(state)];
                if flags & MATCH != 0 {
                    found = Some(at);
                    if earliest {
                        break;
                    }
                }
                if len == 0 {
                    break;
                }
            }
            if at == to {
                break;
            }
            at = at.wrapping_add(delta);
        }
        found
    }

    /// The kind of byte `b`, as far as this program cares.
    fn kind(&self, b: Option<u8>) -> u8 {
        match b {
            None | Some(b'\n' | b'\r') if self.prog.looks && (self.lines || b.is_none()) => EDGE,
            Some(b) if self.prog.words && is_word(b) => WORD,
            _ => OTHER,
        }
    }

    /// Makes the transition from `state` along `class`: the state it leads to, perhaps with SPECIAL.
    fn step(&mut self, state: u16, class: usize) -> u16 {
        let byte = self.samples.get(class).copied();
        let ahead = self.kind(byte);
        let &State {
            off, len, flags, ..
        } = &self.states[usize::from(state)];
        let (behind, search) = (flags & 3, flags & SEARCH);
        let (left, right) = match self.prog.reverse {
            true => (ahead, behind),
            false => (behind, ahead),
        };
        self.next.clear();
        self.stack.clear();
        self.marks.fill(0);
        let passed = match byte {
            Some(b'\r') => OTHER,
            _ => ahead,
        };
        let mut after = passed | search;
        'list: for i in off as usize..off as usize + usize::from(len) {
            self.stack.push(self.lists[i]);
            while let Some(at) = self.stack.pop() {
                if self.marks[usize::from(at)] & 1 != 0 {
                    continue;
                }
                self.marks[usize::from(at)] |= 1;
                match self.prog.insts[usize::from(at)] {
                    Inst::Bytes { off, len } => {
                        let Some(byte) = byte else { continue };
                        let off = usize::from(off);
                        for edge in &self.prog.edges[off..off + usize::from(len)] {
                            if edge.lo <= byte && byte <= edge.hi {
                                let mark = &mut self.marks[usize::from(edge.to)];
                                if *mark & 2 == 0 {
                                    *mark |= 2;
                                    self.next.push(edge.to);
                                }
                            }
                        }
                    }
                    Inst::Split(a, b) => self.stack.extend_from_slice(&[b, a]),
                    Inst::Look(look, to) => {
                        let holds = match look {
                            Look::Start => left == EDGE,
                            Look::End => right == EDGE,
                            Look::Word => (left == WORD) != (right == WORD),
                            Look::NotWord => (left == WORD) == (right == WORD),
                        };
                        if holds {
                            self.stack.push(to);
                        }
                    }
                    Inst::Match => {
                        after = passed | MATCH;
                        // Whatever comes later in the list is less preferred; backwards, the longest is wanted.
                        if !self.prog.reverse {
                            break 'list;
                        }
                    }
                }
            }
        }
        let entry = self.prog.entry;
        if after & SEARCH != 0 && byte.is_some() && self.marks[usize::from(entry)] & 2 == 0 {
            self.next.push(entry);
        }
        let (to, kept) = self.intern(after);
        if kept {
            let stride = self.samples.len() + 1;
            self.table[usize::from(state) * stride + class] = to;
        }
        to
    }

    /// The state with list `next` and these flags, and whether the states before it are still there.
    fn intern(&mut self, mut flags: u8) -> (u16, bool) {
        if self.next.is_empty() {
            flags &= MATCH;
        }
        let special = match self.next.is_empty() || flags & MATCH != 0 {
            true => SPECIAL,
            false => 0,
        };
        let mut hash = u32::from(flags);
        for &at in &self.next {
            hash = (hash ^ u32::from(at)).wrapping_mul(0x0100_0193);
        }
        let bucket = usize::from((hash >> 8) as u8 ^ hash as u8);
        let mut id = self.buckets[bucket];
        while id != 0 {
            let s = &self.states[usize::from(id)];
            let off = s.off as usize;
            if s.flags == flags && self.lists[off..off + usize::from(s.len)] == self.next[..] {
                return (id | special, true);
            }
            id = s.chain;
        }
        let size = 2 * (self.table.len() + self.lists.len() + self.next.len())
            + OVERHEAD * self.states.len();
        let kept = size <= self.cache;
        if !kept {
            self.flush();
        }
        let id = self.states.len() as u16;
        self.states.push(State {
            off: self.lists.len() as u32,
            len: self.next.len() as u16,
            chain: self.buckets[bucket],
            flags,
        });
        self.buckets[bucket] = id;
        self.lists.extend_from_slice(&self.next);
        self.table
            .resize(self.table.len() + self.samples.len() + 1, 0);
        (id | special, kept)
    }

    /// Forgets all states but the one that stands for none.
    fn flush(&mut self) {
        self.states.clear();
        self.states.push(State::default());
        self.lists.clear();
        self.table.clear();
        self.table.resize(self.samples.len() + 1, 0);
        self.buckets.fill(0);
    }
}
