//! The global allocator: a bump arena.
//!
//! # Contract
//! Allocating moves a pointer. The newest block can be freed, grown and shrunk in place, as a `Vec` that is being
//! filled needs; freeing any other block has no effect. The first 64 KiB are static, so that a small request never
//! calls `memory.grow`, which costs the host a system call and page faults; beyond them the memory grows by at least
//! 512 KiB at a time while the host allows that, and by just the needed size otherwise.
//!
//! # Limits
//! Memory is never given back. An instance lives for one request, after which the host takes all of it; an instance of
//! a reconciler lives for many calls, and the host retires it when its memory has grown. Resetting the arena at the end
//! of a call would be unsound: statics of the plugin may point into it.

#![allow(unsafe_code, reason = "an allocator hands out raw memory; the reasoning is at `Arena`")]

use core::{
    alloc::{GlobalAlloc, Layout},
    cell::{Cell, UnsafeCell},
    ptr,
};

/// Size of the static part of the arena, bytes.
const STATIC_ARENA_BYTES: usize = 64 * 1024;

/// Size of a page of linear memory, bytes.
const PAGE_BYTES: usize = 64 * 1024;

/// Growth step of the memory, bytes, if the host allows it.
const GROWTH_STEP_BYTES: usize = 8 * PAGE_BYTES;

#[cfg(target_arch = "wasm32")]
#[global_allocator]
static ARENA: Arena = Arena::new();

/// The arena: `next..end` is its free memory, addresses, both zero before the first allocation.
struct Arena {
    first: UnsafeCell<[u8; STATIC_ARENA_BYTES]>,
    next: Cell<usize>,
    end: Cell<usize>,
}

// SAFETY: a component's instance has one thread. The target has no threads (no `atomics` feature), and the component
// model does not let the host call into an instance that is running.
unsafe impl Sync for Arena {}

// SAFETY: every block is a range of `next..end` at the time, aligned by rounding `next` up, after which `next` is moved
// behind it. So blocks do not overlap, unless `dealloc` or `realloc` moves `next` back: they do so only when the block
// ends at `next`, that is, when no block was handed out after it, and only to where that block begins or newly ends.
// `next..end` lies either in `first`, which only the arena refers to, or in pages that `memory.grow` answered, which
// belong to the caller that grew the memory. No function here panics or allocates.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match self.place(layout) {
            Some(start) => ptr::with_exposed_provenance_mut(start),
            None => ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if self.is_newest(block, layout) {
            self.next.set(block.addr());
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if self.is_newest(block, layout) {
            if let Some(end) = block.addr().checked_add(new_size).filter(|end| *end <= self.end.get()) {
                self.next.set(end);
                return block;
            }
        } else if new_size <= layout.size() {
            return block;
        }
        // SAFETY: the caller promises that `new_size`, rounded up to the alignment, fits an isize.
        let new = unsafe { self.alloc(Layout::from_size_align_unchecked(new_size, layout.align())) };
        if !new.is_null() {
            // SAFETY: both blocks are at least this long. They do not overlap: the old one is still below `next`.
            unsafe { ptr::copy_nonoverlapping(block, new, layout.size().min(new_size)) };
        }
        new
    }
}

impl Arena {
    const fn new() -> Self {
        Self { first: UnsafeCell::new([0; STATIC_ARENA_BYTES]), next: Cell::new(0), end: Cell::new(0) }
    }

    fn is_newest(&self, block: *mut u8, layout: Layout) -> bool {
        block.addr().wrapping_add(layout.size()) == self.next.get()
    }

    /// Takes the block's address range from the free memory.
    fn place(&self, layout: Layout) -> Option<usize> {
        if let Some(start) = self.fit(layout) {
            return Some(start);
        }
        if self.end.get() == 0 {
            let start = self.first.get().expose_provenance();
            self.next.set(start);
            self.end.set(start.checked_add(STATIC_ARENA_BYTES)?);
        } else {
            self.grow(layout)?;
        }
        match self.fit(layout) {
            Some(start) => Some(start),
            None => self.grow(layout).and_then(|()| self.fit(layout)),
        }
    }

    fn fit(&self, layout: Layout) -> Option<usize> {
        let start = self.next.get().checked_next_multiple_of(layout.align())?;
        let end = start.checked_add(layout.size())?;
        (end <= self.end.get()).then(|| {
            self.next.set(end);
            start
        })
    }

    /// Adds memory for at least this block. New pages that do not follow the old ones replace them; the rest of the old
    /// ones is lost.
    fn grow(&self, layout: Layout) -> Option<()> {
        let need = layout.size().checked_add(layout.align())?;
        let (start, size) = grow_memory(need.max(GROWTH_STEP_BYTES)).or_else(|| grow_memory(need))?;
        if start != self.end.get() {
            self.next.set(start);
        }
        self.end.set(start.checked_add(size)?);
        Some(())
    }
}

/// Grows the memory; answers start and size of the new part.
#[cfg(target_arch = "wasm32")]
fn grow_memory(bytes: usize) -> Option<(usize, usize)> {
    let pages = bytes.div_ceil(PAGE_BYTES);
    let before = core::arch::wasm32::memory_grow::<0>(pages);
    (before != usize::MAX).then(|| (before.wrapping_mul(PAGE_BYTES), pages.wrapping_mul(PAGE_BYTES)))
}

/// Native version for the tests: a separate piece each time, and none beyond 4 MiB.
#[cfg(not(target_arch = "wasm32"))]
fn grow_memory(bytes: usize) -> Option<(usize, usize)> {
    let size = bytes.div_ceil(PAGE_BYTES).checked_mul(PAGE_BYTES).filter(|size| *size <= 64 * PAGE_BYTES)?;
    let piece = Box::leak(vec![0_u8; size].into_boxed_slice());
    Some((piece.as_mut_ptr().expose_provenance(), size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(size: usize) -> Layout {
        Layout::from_size_align(size, 1).unwrap()
    }

    #[test]
    fn blocks_are_aligned_and_apart() {
        let arena = Arena::new();
        let mut end = 0;
        for align in [1, 8, 2, 16, 64, 4096] {
            // SAFETY: the size is not zero.
            let block = unsafe { arena.alloc(Layout::from_size_align(24, align).unwrap()) };
            assert_eq!(block.addr() % align, 0);
            assert!(block.addr() >= end);
            end = block.addr() + 24;
        }
    }

    #[test]
    fn the_newest_block_is_reused() {
        let arena = Arena::new();
        // SAFETY: every block is freed once, with its layout.
        unsafe {
            let first = arena.alloc(bytes(100));
            let second = arena.alloc(bytes(100));
            arena.dealloc(second, bytes(100));
            assert_eq!(arena.alloc(bytes(50)), second);
            arena.dealloc(first, bytes(100));
            assert!(arena.alloc(bytes(10)) > second, "a block below the newest is not reused");
        }
    }

    #[test]
    fn the_newest_block_grows_in_place_and_others_move_with_their_content() {
        let arena = Arena::new();
        // SAFETY: blocks are used within their sizes, and given up when they move.
        unsafe {
            let first = arena.alloc(bytes(4));
            first.copy_from(b"abcd".as_ptr(), 4);
            assert_eq!(arena.realloc(first, bytes(4), 1000), first);
            let second = arena.alloc(bytes(1));
            let moved = arena.realloc(first, bytes(1000), 2000);
            assert!(moved > second);
            assert_eq!(std::slice::from_raw_parts(moved, 4), b"abcd");
            let _third = arena.alloc(bytes(1));
            assert_eq!(arena.realloc(moved, bytes(2000), 10), moved, "shrinking never moves");
        }
    }

    #[test]
    fn beyond_the_static_part_the_memory_grows_until_it_does_not() {
        let arena = Arena::new();
        // SAFETY: the sizes are not zero, and the block is used within its size.
        unsafe {
            assert!(!arena.alloc(bytes(STATIC_ARENA_BYTES)).is_null());
            let large = arena.alloc(bytes(3 << 20));
            large.write_bytes(1, 3 << 20);
            assert!(!large.is_null());
            assert!(arena.alloc(bytes(1 << 30)).is_null());
            assert!(!arena.alloc(bytes(10)).is_null(), "a refusal is not the end");
        }
    }
}
