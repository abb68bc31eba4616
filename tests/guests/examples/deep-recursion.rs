//! Calls itself endlessly, with an empty shadow stack: uses up the host's stack for wasm.

mortise_test_guests::misbehaving!("deep-recursion", "deep_recursion", dive);

fn dive(_: i64) {
    std::hint::black_box(deeper(std::hint::black_box(1)));
}

/// Work after the inner call keeps the compiler from making a loop of this.
#[inline(never)]
fn deeper(depth: u64) -> u64 {
    if depth == 0 { 0 } else { deeper(depth.wrapping_add(1)).rotate_left(7) ^ depth }
}
