//! Levels of the log.

/// Importance of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// A fault.
    Error = 1,
    /// An oddity.
    Warn = 2,
    /// A fact worth knowing.
    Info = 3,
    /// A detail for finding a fault.
    Debug = 4,
    /// A step of the work.
    Trace = 5,
}
