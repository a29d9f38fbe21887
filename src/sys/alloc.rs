//! The heap of the program: about a kilobyte of code and no memory in reserve, where a general allocator brings 40 KB of
//! slabs for threads we don't have.
//!
//! Three kinds of blocks. Small ones (up to [`SMALL`] bytes) have a list of free blocks per size. Those from [`BIG`] bytes
//! on are mappings of their own: they grow without a copy and go back to the system at once. What is between lies on the
//! break; its free blocks are one list, ordered by address, whose neighbours are joined. Nothing has a header: Rust tells
//! the size when it frees.
#![allow(unsafe_code)]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::{copy_nonoverlapping, null_mut, write_bytes};

/// Sizes are rounded up to this; it holds a free block's two words, and every alignment up to it is met.
const GRAIN: usize = 2 * size_of::<usize>();
/// The largest block with a list for its size.
const SMALL: usize = 16 * GRAIN;
/// The smallest block that is a mapping.
const BIG: usize = 32 * 1024;
/// By how much the break moves at least.
const STEP: usize = 32 * 1024;

/// A free block, at its own beginning.
struct Free {
    next: *mut Free,
    size: usize,
}

struct State {
    small: [*mut Free; SMALL / GRAIN],
    list: *mut Free,
    /// End of the break as we moved it last; 0 before that.
    end: usize,
}

/// The allocator. For a program with one thread only.
pub struct Heap(UnsafeCell<State>);

// SAFETY: the program has one thread, and its signal handlers don't allocate.
unsafe impl Sync for Heap {}

impl Heap {
    /// An empty heap.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Heap(UnsafeCell::new(State {
            small: [null_mut(); SMALL / GRAIN],
            list: null_mut(),
            end: 0,
        }))
    }
}

/// The size a block really has. Alignments above [`GRAIN`] are met by mappings only.
fn rounded(layout: Layout) -> usize {
    if layout.align() > GRAIN {
        return layout.size().max(BIG);
    }
    // Layouts are at most isize::MAX, so that this can't overflow.
    (layout.size().max(1) + GRAIN - 1) & !(GRAIN - 1)
}

fn map(size: usize) -> *mut u8 {
    // SAFETY: a new private mapping touches nothing that is there.
    let p = unsafe {
        libc::mmap(
            null_mut(),
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if p == libc::MAP_FAILED {
        null_mut()
    } else {
        p.cast()
    }
}

/// Moves the break; what it then is. In tests it belongs to the C library: mappings take its place.
fn set_break(to: usize) -> usize {
    if cfg!(test) {
        return 0;
    }
    // SAFETY: nobody else uses the break: this heap takes the place of the C library's.
    unsafe { libc::syscall(libc::SYS_brk, to) as usize }
}

impl State {
    /// Puts a block into the list, joined with free neighbours.
    ///
    /// # Safety
    /// The block is ours and unused.
    #[inline(never)]
    unsafe fn give(&mut self, p: *mut u8, size: usize) {
        // SAFETY: the list holds free blocks of ours, in the order of their addresses.
        unsafe {
            let mut link: *mut *mut Free = &mut self.list;
            let mut before: *mut Free = null_mut();
            while !(*link).is_null() && (*link).cast::<u8>() < p {
                before = *link;
                link = &raw mut (*before).next;
            }
            let mut block = p.cast::<Free>();
            let after = *link;
            (*block).next = after;
            (*block).size = size;
            if !before.is_null() && before.cast::<u8>().add((*before).size) == p {
                (*before).size += size;
                (*before).next = after;
                block = before;
            } else {
                *link = block;
            }
            if block.cast::<u8>().add((*block).size) == after.cast() {
                (*block).size += (*after).size;
                (*block).next = (*after).next;
            }
        }
    }

    /// Takes `size` bytes out of the list: at `at` when that isn't null, else the first that fit.
    #[inline(never)]
    fn take(&mut self, size: usize, at: *mut u8) -> *mut u8 {
        // SAFETY: as in `give`; what is left over of a block has room for its two words, as sizes are multiples of GRAIN.
        unsafe {
            let mut link: *mut *mut Free = &mut self.list;
            while !(*link).is_null() {
                let block = *link;
                if (*block).size >= size && (at.is_null() || at == block.cast()) {
                    let rest = (*block).size - size;
                    if rest == 0 {
                        *link = (*block).next;
                    } else {
                        let tail = block.cast::<u8>().add(size).cast::<Free>();
                        (*tail).next = (*block).next;
                        (*tail).size = rest;
                        *link = tail;
                    }
                    return block.cast();
                }
                link = &raw mut (*block).next;
            }
        }
        null_mut()
    }

    /// More memory for the list.
    fn grow(&mut self, size: usize) -> bool {
        let more = size.max(STEP);
        let mut from = set_break(0);
        // Where somebody moved the break, or at first, it may lie anywhere.
        if from != self.end {
            from = (from + GRAIN - 1) & !(GRAIN - 1);
        }
        let mut p = from as *mut u8;
        if set_break(from + more) == from + more {
            self.end = from + more;
        } else {
            p = map(more);
            if p.is_null() {
                return false;
            }
        }
        // SAFETY: new memory.
        unsafe { self.give(p, more) };
        true
    }

    fn block(&mut self, size: usize) -> *mut u8 {
        if let Some(first) = self.small.get_mut(size / GRAIN - 1)
            && !first.is_null()
        {
            let p = *first;
            // SAFETY: a free block of this size.
            *first = unsafe { (*p).next };
            return p.cast();
        }
        loop {
            let p = self.take(size, null_mut());
            if !p.is_null() || !self.grow(size) {
                return p;
            }
        }
    }
}

// SAFETY: blocks don't overlap, are as long as asked and aligned to GRAIN, mappings to a page (at least 4096; no type here
// wants more). Sizes come back as they went out, so that the kind of a block is known from them.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = rounded(layout);
        if size >= BIG {
            return map(size);
        }
        // SAFETY: one thread, and nothing below calls back.
        unsafe { (*self.0.get()).block(size) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller vouches; mappings are zero already.
        unsafe {
            let p = self.alloc(layout);
            if !p.is_null() && rounded(layout) < BIG {
                write_bytes(p, 0, layout.size());
            }
            p
        }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        let size = rounded(layout);
        // SAFETY: the block is unused from here on; see above for the rest.
        unsafe {
            if size >= BIG {
                libc::munmap(p.cast(), size);
                return;
            }
            let state = &mut *self.0.get();
            match state.small.get_mut(size / GRAIN - 1) {
                Some(first) => {
                    let block = p.cast::<Free>();
                    (*block).next = *first;
                    *first = block;
                }
                None => state.give(p, size),
            }
        }
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller vouches for the new size.
        let wanted = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        let (old, new) = (rounded(layout), rounded(wanted));
        if old == new {
            return p;
        }
        // SAFETY: the block is ours and `old` bytes long.
        unsafe {
            if old >= BIG && new >= BIG {
                let p = libc::mremap(p.cast(), old, new, libc::MREMAP_MAYMOVE);
                return if p == libc::MAP_FAILED {
                    null_mut()
                } else {
                    p.cast()
                };
            }
            if old > SMALL && new > SMALL && old < BIG && new < BIG {
                let state = &mut *self.0.get();
                if new < old {
                    state.give(p.add(new), old - new);
                    return p;
                }
                if !state.take(new - old, p.add(old)).is_null() {
                    return p;
                }
            }
            let q = self.alloc(wanted);
            if !q.is_null() {
                copy_nonoverlapping(p, q, layout.size().min(new_size));
                self.dealloc(p, layout);
            }
            q
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 1).unwrap()
    }

    #[test]
    fn blocks_are_apart_and_keep_their_bytes() {
        let heap = Heap::new();
        let mut state = 12345u32;
        let mut next = |n: usize| {
            state = state.wrapping_mul(1_103_515_245).wrapping_add(12345);
            (state >> 8) as usize % n
        };
        let mut live: Vec<(*mut u8, usize, u8)> = Vec::new();
        for round in 0..20_000 {
            let size = match next(20) {
                0 => next(200_000),
                1..=4 => next(9000),
                _ => next(300),
            } + 1;
            let mark = round as u8;
            // SAFETY: every block is freed once, with the size it was last given.
            unsafe {
                if live.len() < 100 {
                    let zeroed = next(2) == 0;
                    let p = if zeroed {
                        heap.alloc_zeroed(layout(size))
                    } else {
                        heap.alloc(layout(size))
                    };
                    assert!(!p.is_null() && (p as usize).is_multiple_of(GRAIN));
                    if zeroed {
                        assert!((0..size).all(|i| *p.add(i) == 0));
                    }
                    write_bytes(p, mark, size);
                    live.push((p, size, mark));
                    continue;
                }
                let (p, old, mark) = live.swap_remove(next(100));
                assert!((0..old).all(|i| *p.add(i) == mark), "round {round}");
                if next(2) == 0 {
                    heap.dealloc(p, layout(old));
                    continue;
                }
                let q = heap.realloc(p, layout(old), size);
                assert!((0..old.min(size)).all(|i| *q.add(i) == mark));
                write_bytes(q, mark, size);
                live.push((q, size, mark));
            }
        }
        for (p, size, _) in live {
            // SAFETY: as above.
            unsafe { heap.dealloc(p, layout(size)) };
        }
        // All is free: what lies on the break is whole again but for the small blocks.
        let state = heap.0.get();
        // SAFETY: nobody else has this heap.
        let (mut block, mut last) = unsafe { ((*state).list, null_mut::<u8>()) };
        while !block.is_null() {
            // SAFETY: a free block of the list.
            unsafe {
                assert!(last < block.cast(), "in order and apart");
                last = block.cast::<u8>().add((*block).size);
                block = (*block).next;
            }
        }
    }

    #[test]
    fn what_ends_at_free_memory_grows_in_place() {
        let heap = Heap::new();
        // SAFETY: as above.
        unsafe {
            let p = heap.alloc(layout(1000));
            let q = heap.realloc(p, layout(1000), 9000);
            assert_eq!(p, q);
            let q = heap.realloc(q, layout(9000), 600);
            assert_eq!(p, q);
            let next = heap.alloc(layout(1000));
            assert_eq!(next, p.add(608));
            heap.dealloc(p, layout(600));
            heap.dealloc(next, layout(1000));
        }
    }

    #[test]
    fn wide_alignments_are_met() {
        let heap = Heap::new();
        let wide = Layout::from_size_align(64, 64).unwrap();
        // SAFETY: as above.
        unsafe {
            let p = heap.alloc(wide);
            assert!((p as usize).is_multiple_of(64));
            heap.dealloc(p, wide);
        }
    }

    #[test]
    fn more_than_there_is_is_refused() {
        let heap = Heap::new();
        let huge = layout(isize::MAX as usize / 2);
        // SAFETY: as above.
        unsafe { assert!(heap.alloc(huge).is_null()) };
    }
}
