//! Allocates memory until no more is available, and writes to all of it.

mortise_test_guests::misbehaving!("memory-bomb", "memory_bomb", hoard);

fn hoard(_: i64) {
    let mut hoard = Vec::new();
    loop {
        hoard.push(vec![1_u8; 1 << 20]);
        std::hint::black_box(&hoard);
    }
}
