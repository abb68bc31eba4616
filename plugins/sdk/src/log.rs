//! The plugin's log: `log::info!("{} tracks", count)`, or [`write()`] with fields.
//!
//! The host bounds it, drops the excess of a request, and reports the number. In native tests
//! [`crate::testing::take_log`] answers the lines.

pub use crate::level::Level;

/// Writes a line with fields, which are names and values.
pub fn write(level: Level, message: &str, fields: &[(&str, &str)]) {
    #[cfg(target_arch = "wasm32")]
    crate::bindings::log(level as u8, message, fields);
    #[cfg(not(target_arch = "wasm32"))]
    crate::testing::log(level, message, fields);
}

/// Writes a line at level error.
pub fn error(message: &str) {
    write(Level::Error, message, &[]);
}

/// Writes a line at level warn.
pub fn warn(message: &str) {
    write(Level::Warn, message, &[]);
}

/// Writes a line at level info.
pub fn info(message: &str) {
    write(Level::Info, message, &[]);
}

/// Writes a line at level debug.
pub fn debug(message: &str) {
    write(Level::Debug, message, &[]);
}

/// Writes a line at level trace.
pub fn trace(message: &str) {
    write(Level::Trace, message, &[]);
}

#[doc(hidden)]
#[macro_export]
macro_rules! __log_error { ($($format:tt)+) => { $crate::log::error(&::std::format!($($format)+)) } }
#[doc(hidden)]
#[macro_export]
macro_rules! __log_warn { ($($format:tt)+) => { $crate::log::warn(&::std::format!($($format)+)) } }
#[doc(hidden)]
#[macro_export]
macro_rules! __log_info { ($($format:tt)+) => { $crate::log::info(&::std::format!($($format)+)) } }
#[doc(hidden)]
#[macro_export]
macro_rules! __log_debug { ($($format:tt)+) => { $crate::log::debug(&::std::format!($($format)+)) } }
#[doc(hidden)]
#[macro_export]
macro_rules! __log_trace { ($($format:tt)+) => { $crate::log::trace(&::std::format!($($format)+)) } }

/// Writes a line at level debug, with a format.
pub use __log_debug as debug;
/// Writes a line at level error, with a format.
pub use __log_error as error;
/// Writes a line at level info, with a format.
pub use __log_info as info;
/// Writes a line at level trace, with a format.
pub use __log_trace as trace;
/// Writes a line at level warn, with a format.
pub use __log_warn as warn;
