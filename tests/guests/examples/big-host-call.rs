//! Hands 5 MiB to the host in one call, more than the default limit of 4 MiB.

mortise_test_guests::misbehaving!("big-host-call", "big_host_call", shout);

fn shout(_: i64) {
    mortise_plugin::log::info(&"x".repeat(5 << 20));
}
