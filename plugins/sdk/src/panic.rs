//! Logs a panic before it becomes a trap. WebAssembly has no standard error: otherwise only the word `unreachable` and
//! a backtrace would remain of a panic.

use std::{panic, sync::Once};

use crate::log;

/// Sends panics to the log from now on. Called at every entry, since a plugin does not run at its start; costs one load
/// after the first call.
pub(crate) fn report() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        panic::set_hook(Box::new(|panic| {
            let text = panic.payload_as_str().unwrap_or("(no text)");
            match panic.location() {
                Some(place) => log::error(&format!("panicked at {place}: {text}")),
                None => log::error(&format!("panicked: {text}")),
            }
        }));
    });
}
