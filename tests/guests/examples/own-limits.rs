//! Asks for lower limits than the host's (1 MiB, 2 million fuel, 20 ms), and allocates as many bytes as the resource's
//! number, or spins without a number.

use mortise_plugin::manifest::Limits;

mortise_test_guests::misbehaving!(
    "own-limits",
    "own_limits",
    exceed,
    Limits { memory_bytes: 1 << 20, fuel: 2_000_000, deadline_ms: 20 }
);

fn exceed(bytes: i64) {
    if bytes == 0 {
        let mut turns = 0_u64;
        loop {
            turns = std::hint::black_box(turns.wrapping_add(1));
        }
    }
    std::hint::black_box(vec![1_u8; usize::try_from(bytes).unwrap_or(usize::MAX)]);
}
