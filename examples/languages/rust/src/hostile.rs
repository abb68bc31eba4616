//! Faults on purpose, for .ci/languages: the model of a device chooses one.

/// Loops, takes memory, or traps.
pub(crate) fn act(model: &str) {
    match model {
        "hostile-loop" => loop {
            std::hint::black_box(());
        },
        "hostile-memory" => {
            let mut taken = Vec::new();
            loop {
                taken.push(std::hint::black_box(vec![1u8; 1 << 20]));
            }
        }
        "hostile-trap" => panic!("on purpose"),
        _ => {}
    }
}
