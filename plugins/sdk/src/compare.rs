//! Comparison of bytes, eight at a time.
//!
//! `compiler_builtins` compares byte by byte on wasm32, and WebAssembly has no instruction for it: comparing the keys
//! of maps and the names of types took a sixth of a guest's time, of 16 to 19 µs for the three hooks of one write
//! (`mortise-bench hooks`). This function replaces `memcmp` in every plugin, for all comparisons in it. The core module
//! exports the symbol, like any with a C name; the component around it does not.
//!
//! No library does this: libraries with wider comparisons have functions of their own, and the compiler calls `memcmp`.

#![allow(unsafe_code, reason = "memcmp takes raw pointers; the reasoning is at `compare`")]

use core::cmp::Ordering;

/// Bytes compared at once.
const BYTES_AT_ONCE: usize = size_of::<u64>();

#[cfg(target_arch = "wasm32")]
// SAFETY: the contract is that of C's `memcmp`, whose name it has. `compiler_builtins` has its own as a weak symbol,
// which this one replaces.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, length: usize) -> i32 {
    // SAFETY: the caller promises that this many bytes can be read at both.
    unsafe { compare(left, right, length) as i32 }
}

/// Order of the first bytes that differ.
///
/// # Safety
/// Both pointers must be readable for `length` bytes.
unsafe fn compare(left: *const u8, right: *const u8, length: usize) -> Ordering {
    let mut at = 0;
    while length - at >= BYTES_AT_ONCE {
        // SAFETY: `at + BYTES_AT_ONCE` is at most `length`; unaligned reads need nothing else.
        let (a, b) =
            unsafe { (left.add(at).cast::<u64>().read_unaligned(), right.add(at).cast::<u64>().read_unaligned()) };
        if a != b {
            // Big-endian numbers are ordered like their bytes.
            return u64::from_be(a).cmp(&u64::from_be(b));
        }
        at += BYTES_AT_ONCE;
    }
    while at < length {
        // SAFETY: `at` is below `length`.
        let (a, b) = unsafe { (left.add(at).read(), right.add(at).read()) };
        if a != b {
            return a.cmp(&b);
        }
        at += 1;
    }
    Ordering::Equal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_as_slices_are_ordered() {
        let pattern: Vec<u8> = (0..64_u8).map(|n| n.wrapping_mul(37)).collect();
        for length in 0..=40 {
            for start in 0..3 {
                let left = &pattern[start..start + length];
                let same = left.to_vec();
                // SAFETY: both have this many bytes.
                assert_eq!(unsafe { compare(left.as_ptr(), same.as_ptr(), length) }, Ordering::Equal);
                for at in 0..length {
                    for changed in [0, 1, left[at] ^ 0x80, 0xff] {
                        let mut right = same.clone();
                        right[at] = changed;
                        // SAFETY: both have this many bytes.
                        let found = unsafe { compare(left.as_ptr(), right.as_ptr(), length) };
                        assert_eq!(found, left.cmp(right.as_slice()), "{left:?} {right:?}");
                    }
                }
            }
        }
    }
}
