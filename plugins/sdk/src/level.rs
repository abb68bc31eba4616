//! Levels of the log.

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Something is broken.
    Error = 1,
    /// Something is odd.
    Warn = 2,
    /// Worth knowing.
    Info = 3,
    /// For whoever looks for a fault.
    Debug = 4,
    /// Every step.
    Trace = 5,
}
