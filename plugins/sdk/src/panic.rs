//! Says what happened before a panic becomes a trap. WebAssembly has nowhere to print to: without this, all that
//! remains of a panic is the word `unreachable` and a backtrace.

use std::{panic, sync::Once};

use crate::log;

/// Sends panics to the log from now on. Called at every entry, since there is no start function; costs one load after
/// the first.
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
