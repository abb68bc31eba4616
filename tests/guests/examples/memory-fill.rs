//! Fills all memory that it can get, again and again, by one instruction each time. An engine that counts instructions
//! needs its deadline for this; wasmtime 48 also charges fuel for each byte.

mortise_test_guests::misbehaving!("memory-fill", "memory_fill", fill);

fn fill(_: i64) {
    let mut buffer: Vec<u8> = Vec::new();
    let mut size = 1_usize << 30;
    while buffer.try_reserve_exact(size).is_err() && size > 1 << 16 {
        size /= 2;
    }
    buffer.resize(size, 0);
    let mut byte = 0_u8;
    loop {
        // Compiles to one `memory.fill`.
        std::hint::black_box(&mut buffer).fill(byte);
        byte = byte.wrapping_add(1);
    }
}
