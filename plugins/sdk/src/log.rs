//! The plugin's log: `log::info!("{} tracks", count)`, or [`write()`] with fields.
//!
//! Bounded by the host; what exceeds the limit of a request is dropped, and the host says so. Natively, lines are kept
//! for [`crate::testing::take_log`].

pub use crate::level::Level;

/// Writes a line with fields, which are names and values.
pub fn write(level: Level, message: &str, fields: &[(&str, &str)]) {
    #[cfg(target_arch = "wasm32")]
    crate::bindings::log(level as u8, message, fields);
    #[cfg(not(target_arch = "wasm32"))]
    crate::testing::log(level, message, fields);
}

/// A line at level error.
pub fn error(message: &str) {
    write(Level::Error, message, &[]);
}

/// A line at level warn.
pub fn warn(message: &str) {
    write(Level::Warn, message, &[]);
}

/// A line at level info.
pub fn info(message: &str) {
    write(Level::Info, message, &[]);
}

/// A line at level debug.
pub fn debug(message: &str) {
    write(Level::Debug, message, &[]);
}

/// A line at level trace.
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

/// As [`debug()`], with a format.
pub use __log_debug as debug;
/// As [`error()`], with a format.
pub use __log_error as error;
/// As [`info()`], with a format.
pub use __log_info as info;
/// As [`trace()`], with a format.
pub use __log_trace as trace;
/// As [`warn()`], with a format.
pub use __log_warn as warn;
