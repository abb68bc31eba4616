//! Panics with a text.

mortise_test_guests::misbehaving!("panic", "panicking", give_up);

#[allow(clippy::panic, reason = "what this guest is for")]
fn give_up(number: i64) {
    panic!("the guest was asked to panic, number {number}");
}
