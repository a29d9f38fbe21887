//! A syntax tree to a program over bytes: characters become UTF-8 sequences, so that running it needs no decoding.
//! A program is compiled forwards, to find where a match ends, or backwards, to find where that match starts.

use super::parse::{Look, Node, Tree, UNBOUNDED};

/// Most instructions of a program (8 bytes each).
const MAX_INSTS: usize = 10_000;
/// Most byte ranges of a program (4 bytes each).
const MAX_EDGES: usize = 30_000;
/// Most byte ranges of one class; building its graph takes time in their square.
const MAX_ARCS: usize = 1000;
/// Most nodes visited: nested repetitions of nothing emit nothing, but take time.
const MAX_VISITS: u32 = 100_000;

/// An instruction. Addresses are indices into [`Prog::insts`].
#[derive(Clone, Copy)]
pub enum Inst {
    /// Consume a byte along each of `edges[off..off + len]` that has it. Several may: their ways never lead to two
    /// different matches, so their order does not matter.
    Bytes {
        /// First edge.
        off: u16,
        /// How many.
        len: u16,
    },
    /// Try the first address, then the second.
    Split(u16, u16),
    /// Go on at the address when the condition holds.
    Look(Look, u16),
    /// A match ends here.
    Match,
}

/// A range of bytes and the address behind it.
#[derive(Clone, Copy)]
pub struct Edge {
    /// Lowest byte.
    pub lo: u8,
    /// Highest byte.
    pub hi: u8,
    /// Where to go on.
    pub to: u16,
}

/// A compiled pattern.
pub struct Prog {
    /// Instructions.
    pub insts: Vec<Inst>,
    /// The ranges of all [`Inst::Bytes`].
    pub edges: Vec<Edge>,
    /// Where to start.
    pub entry: u16,
    /// Runs from right to left.
    pub reverse: bool,
    /// Has conditions of any kind.
    pub looks: bool,
    /// Has `\b` or `\B`.
    pub words: bool,
}

/// Compiles `tree`. Fails when the program would be too large, which depends on the tree and not on `reverse`.
pub fn compile(tree: &Tree, reverse: bool) -> Option<Prog> {
    let mut c = Compiler {
        prog: Prog {
            insts: vec![Inst::Match],
            edges: Vec::new(),
            entry: 0,
            reverse,
            looks: false,
            words: false,
        },
        tree,
        list: Vec::new(),
        local: Vec::new(),
        visits: 0,
    };
    c.prog.entry = c.node(tree.root, 0)?;
    Some(c.prog)
}

struct Compiler<'a> {
    prog: Prog,
    tree: &'a Tree,
    /// Parts of the lists being compiled, of each list the last part first.
    list: Vec<u32>,
    /// The class being compiled, as a graph from `HEAD` to `EXIT`.
    local: Vec<Arc>,
    visits: u32,
}

/// From, lowest byte, highest byte, to.
#[derive(Clone, Copy, PartialEq)]
struct Arc(u16, u8, u8, u16);

const HEAD: u16 = 0;
const EXIT: u16 = 1;

impl Compiler<'_> {
    /// Emits `inst`; its address.
    fn emit(&mut self, inst: Inst) -> Option<u16> {
        let at = self.prog.insts.len();
        if at >= MAX_INSTS {
            return None;
        }
        self.prog.insts.push(inst);
        Some(at as u16)
    }

    /// Emits `node` so that it goes on at `next`; its entry. Compiling from the end leaves nothing to patch but loops.
    fn node(&mut self, mut node: u32, next: u16) -> Option<u16> {
        self.visits += 1;
        if self.visits > MAX_VISITS {
            return None;
        }
        let mut at = next;
        let tree = self.tree;
        match tree.nodes[node as usize] {
            Node::Empty => {}
            Node::Class(len, off) => {
                let ranges = &tree.ranges[off as usize..][..usize::from(len)];
                return self.class(ranges, next);
            }
            Node::Look(look) => {
                self.prog.looks = true;
                self.prog.words |= matches!(look, Look::Word | Look::NotWord);
                return self.emit(Inst::Look(look, next));
            }
            Node::Cat(..) => {
                let mark = self.list.len();
                while let Node::Cat(before, last) = tree.nodes[node as usize] {
                    self.list.push(last);
                    node = before;
                }
                let end = self.list.len();
                for i in mark..end {
                    let i = match self.prog.reverse {
                        true => mark + end - 1 - i,
                        false => i,
                    };
                    at = self.node(self.list[i], at)?;
                }
                self.list.truncate(mark);
            }
            Node::Alt(mut before, last) => {
                at = self.node(last, next)?;
                loop {
                    let (more, branch) = match tree.nodes[before as usize] {
                        Node::Alt(more, branch) => (Some(more), branch),
                        _ => (None, before),
                    };
                    let entry = self.node(branch, next)?;
                    at = self.emit(Inst::Split(entry, at))?;
                    match more {
                        Some(more) => before = more,
                        None => break,
                    }
                }
            }
            Node::Repeat {
                node,
                min,
                max,
                greedy,
            } => {
                let split = |body| match greedy {
                    true => Inst::Split(body, next),
                    false => Inst::Split(next, body),
                };
                let mut count = min;
                if max == UNBOUNDED {
                    let again = self.emit(Inst::Match)?;
                    at = self.node(node, again)?;
                    self.prog.insts[usize::from(again)] = split(at);
                    // x* is (x+)?: one split at the loop's head would rank the ways wrong when x can be empty.
                    if count == 0 {
                        at = self.emit(split(at))?;
                    }
                    count = count.saturating_sub(1);
                } else {
                    for _ in min..max {
                        at = self.node(node, at)?;
                        at = self.emit(split(at))?;
                    }
                }
                for _ in 0..count {
                    at = self.node(node, at)?;
                }
            }
        }
        Some(at)
    }

    fn class(&mut self, ranges: &[(u32, u32)], next: u16) -> Option<u16> {
        self.local.clear();
        let mut nodes = 2;
        for &(lo, hi) in ranges {
            if lo <= hi {
                self.utf8(lo, hi, &mut nodes);
            }
            if self.local.len() > MAX_ARCS {
                return None;
            }
        }
        // Backwards the same graph is walked from its exit to its head. All nodes but the last one walked to become
        // instructions, the first one the entry.
        let back = self.prog.reverse;
        let sink = if back { HEAD } else { EXIT };
        let base = self.prog.insts.len() as u16;
        for node in (0..nodes).filter(|&n| n != sink) {
            let off = self.prog.edges.len();
            for &Arc(from, lo, hi, to) in &self.local {
                let (from, to) = if back { (to, from) } else { (from, to) };
                if from == node {
                    let to = match to {
                        HEAD | EXIT => next,
                        inner => base + inner - 1,
                    };
                    self.prog.edges.push(Edge { lo, hi, to });
                }
            }
            let len = self.prog.edges.len() - off;
            if off + len > MAX_EDGES {
                return None;
            }
            self.emit(Inst::Bytes {
                off: off as u16,
                len: len as u16,
            })?;
        }
        Some(base)
    }

    /// Adds the UTF-8 sequences of the characters `lo..=hi` to the graph, common ends shared. Surrogates are none.
    fn utf8(&mut self, lo: u32, hi: u32, nodes: &mut u16) {
        let mut cut = hi;
        for limit in [0x7F, 0x7FF, 0xD7FF, 0xFFFF] {
            if lo <= limit && limit < cut {
                cut = limit;
            }
        }
        let len = match cut {
            0..=0x7F => 1,
            0x80..=0x7FF => 2,
            0x800..=0xFFFF => 3,
            _ => 4,
        };
        // Where leading bytes differ, the bytes behind them must run through all their values.
        for shift in 1..len {
            let low = (1 << (6 * shift)) - 1;
            if lo | low < cut {
                if lo & low != 0 {
                    cut = lo | low;
                } else if cut & low != low {
                    cut = (cut & !low) - 1;
                }
            }
        }
        if cut < hi {
            self.utf8(cut + 1, hi, nodes);
        }
        // The rule on leading bytes has cut behind the last surrogate.
        if lo & !0x7FF == 0xD800 {
            return;
        }
        let hi = cut;
        let mut to = EXIT;
        for shift in 0..len - 1 {
            let byte = |c: u32| 0x80 | (c >> (6 * shift)) as u8 & 0x3F;
            let mut arc = Arc(*nodes, byte(lo), byte(hi), to);
            let twin = |a: &&Arc| a.0 > EXIT && Arc(arc.0, a.1, a.2, a.3) == arc;
            match self.local.iter().find(twin) {
                Some(shared) => arc.0 = shared.0,
                None => {
                    *nodes += 1;
                    self.local.push(arc);
                }
            }
            to = arc.0;
        }
        let mark = if len == 1 { 0 } else { !(0xFF >> len) };
        let lead = |c: u32| mark | (c >> (6 * (len - 1))) as u8;
        self.local.push(Arc(HEAD, lead(lo), lead(hi), to));
    }
}
