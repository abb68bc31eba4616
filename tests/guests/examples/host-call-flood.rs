//! Calls the host endlessly, with tiny arguments.

mortise_test_guests::misbehaving!("host-call-flood", "host_call_flood", flood);

fn flood(_: i64) {
    loop {
        mortise_plugin::log::trace("");
    }
}
