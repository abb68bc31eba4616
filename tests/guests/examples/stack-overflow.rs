//! Calls itself endlessly, with a buffer on each frame: overflows the shadow stack, which lies at the bottom of memory.

mortise_test_guests::misbehaving!("stack-overflow", "stack_overflow", dive);

fn dive(_: i64) {
    std::hint::black_box(deeper(1));
}

#[inline(never)]
#[allow(unconditional_recursion, reason = "what this guest is for")]
fn deeper(depth: u8) -> u8 {
    let frame = std::hint::black_box([depth; 256]);
    deeper(depth.wrapping_add(1)).wrapping_add(frame.iter().fold(0, |sum, byte| sum ^ byte))
}
