//! Logs lines of 1 KiB, as many as the resource's number (ten thousand by default), and then continues normally.

mortise_test_guests::misbehaving!("log-flood", "log_flood", flood);

fn flood(lines: i64) {
    let text = "flood ".repeat(170);
    for line in 0..if lines > 0 { lines } else { 10_000 } {
        mortise_plugin::log::write(mortise_plugin::log::Level::Info, &text, &[("line", &line.to_string())]);
    }
}
