//! Levels of plugins' logs: numbers on the wire, names in settings.

/// Severity of a log line, the most severe first. The numbers are those of `mortise.v1.LogLine`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// A failure.
    Error = 1,
    /// A doubt.
    Warn,
    /// An event.
    Info,
    /// A detail.
    Debug,
    /// A step.
    Trace,
}

impl LogLevel {
    const NAMES: [(&str, Self); 5] = [
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];

    /// The level of a number; `None` for a number without one.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::NAMES.into_iter().map(|(_, level)| level).find(|level| *level as u32 == number)
    }
}

/// The least severe level of the accepted lines; `None` accepts none.
pub type LogThreshold = Option<LogLevel>;

/// Parses the threshold of a setting: `off`, or the name of a level. `None` for an unknown name.
#[must_use]
pub fn threshold(name: &str) -> Option<LogThreshold> {
    match name {
        "off" => Some(None),
        name => LogLevel::NAMES.into_iter().find(|(known, _)| *known == name).map(|(_, level)| Some(level)),
    }
}
