//! Never returns: burns fuel.

mortise_test_guests::misbehaving!("infinite-loop", "infinite_loop", spin);

fn spin(_: i64) {
    let mut turns = 0_u64;
    loop {
        turns = std::hint::black_box(turns.wrapping_add(1));
    }
}
