//! Faults of plugins: while loading, and in a hook. Each names the plugin.

use std::{fmt, io, path::PathBuf, time::Duration};

use mortise_resource::{Code, Error, error::PluginFault};

use crate::{load::grants_check::NotGranted, manifest::error::ManifestError};

/// A limit that a component exceeds when it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExceededLimit {
    /// The need and its amount, such as `3 memories`.
    pub what: String,
    /// The limit.
    pub limit: usize,
    /// The setting in config.toml; `None` for a fixed limit.
    pub setting: Option<&'static str>,
}

/// Text of all exceeded limits.
fn exceeded(limits: &[ExceededLimit]) -> String {
    let mut text = String::from("needs ");
    for (place, ExceededLimit { what, limit, setting }) in limits.iter().enumerate() {
        let (before, after) = if place == 0 { ("", " to start") } else { (", and ", "") };
        let setting = setting.unwrap_or("a fixed limit");
        text.push_str(&format!("{before}{what}{after}, more than the limit of {limit} ({setting})"));
    }
    text
}

/// Reason that a component cannot be loaded as a plugin.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The file is over the limit.
    #[error("the component takes {size} bytes, more than the limit of {limit} (sandbox.component_bytes)")]
    TooLarge {
        /// Its size, bytes.
        size: usize,
        /// The limit, bytes.
        limit: usize,
    },
    /// The bytes are not a WebAssembly component.
    #[error("not a WebAssembly component: {what}")]
    NotAComponent {
        /// The kind of the bytes, and the next step.
        what: String,
    },
    /// An import that this host does not offer.
    #[error("imports {import}, which this host does not offer: {remedy}")]
    UnknownImport {
        /// Its name.
        import: String,
        /// The next step.
        remedy: String,
    },
    /// A required export is missing, or has another type than the contract's.
    #[error("does not fit the plugin contract {version}: {what}")]
    Contract {
        /// The contract's version.
        version: &'static str,
        /// The mismatch, and the next step.
        what: String,
    },
    /// The component starts with more memory or tables than the sandbox allows.
    #[error("{}", exceeded(.0))]
    ExceedsLimit(Vec<ExceededLimit>),
    /// The compiler needed more than it may have for a component of this size.
    #[error("compiling it takes more than {what}; make it smaller")]
    TooCostly {
        /// The limit, such as `90 s of processor time`.
        what: String,
    },
    /// `describe` failed, or the plugin's check of its settings did.
    #[error("{0}")]
    Describe(HookError),
    /// The plugin refuses its settings, or they are too large.
    #[error("settings {key}: {what}")]
    Settings {
        /// The key in config.toml, such as `plugin.demo.settings.colour`.
        key: String,
        /// The fault.
        what: String,
    },
    /// The manifest has a fault.
    #[error("manifest: {0}")]
    Manifest(#[from] ManifestError),
    /// The manifest's controllers need what the operator did not grant.
    #[error("grants: {0}")]
    NotGranted(#[from] NotGranted),
    /// The host could not set up its own machinery.
    #[error("{what}: {source}")]
    Host {
        /// The step that failed.
        what: &'static str,
        /// Cause.
        source: wasmtime::Error,
    },
}

/// Failure of a hook to give a usable answer.
#[derive(Debug, Clone)]
pub struct HookError {
    /// The plugin's name; its file's name until the manifest is known.
    pub plugin: String,
    /// The plugin's version.
    pub version: String,
    /// The export, such as `mutate`.
    pub hook: &'static str,
    /// The fault.
    pub fault: HookFault,
    /// Whether the fault counts against the plugin: not if the host caused it, or if the call got its turn too late.
    pub counts: bool,
}

/// Fault that ended a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookFault {
    /// The guest trapped; a panic traps too.
    Trap {
        /// The trap.
        trap: String,
        /// The last error that the guest logged in the call, such as the text of a panic; empty without one. It may have
        /// data of the caller, so it is for operators alone.
        logged: String,
    },
    /// Out of fuel.
    Fuel {
        /// The limit, units.
        limit: u64,
        /// Source of the limit: the setting in config.toml, or the field of the plugin's manifest.
        setting: &'static str,
    },
    /// Out of own time: processor time, for a controller with its waits for the host.
    Deadline {
        /// The limit, milliseconds.
        limit_ms: u64,
        /// Source of the limit: the setting in config.toml, or the field of the plugin's manifest.
        setting: &'static str,
    },
    /// Asked for more linear memory than allowed.
    Memory {
        /// The limit, bytes.
        limit: usize,
        /// Source of the limit: the setting in config.toml, or the field of the plugin's manifest.
        setting: &'static str,
    },
    /// Asked for a larger table than allowed.
    Table {
        /// The limit, elements.
        limit: usize,
    },
    /// Recursed too deep.
    Stack,
    /// Passed more bytes to the host than allowed.
    Reply {
        /// The limit, bytes.
        limit: usize,
    },
    /// Called the host more often than allowed.
    HostCalls {
        /// The limit.
        limit: u32,
        /// The setting in config.toml.
        setting: &'static str,
    },
    /// Holds more handles to host resources than allowed.
    Handles {
        /// The limit.
        limit: usize,
    },
    /// Called `exit`, which ends a process; a plugin has no process.
    Exit {
        /// Status that it passed.
        status: u8,
    },
    /// The answer is malformed, or breaks a rule of the contract.
    Answer(String),
    /// Other work kept it from the processors, or a search from its end, until the bound on its whole time.
    Starved {
        /// The bound, milliseconds.
        whole_ms: u64,
    },
    /// Other calls of the plugin kept it from the processors, until the bound on its whole time.
    Crowded {
        /// The bound, milliseconds.
        whole_ms: u64,
        /// Source of the limit on the own time of each call.
        setting: &'static str,
    },
    /// Every slot stayed taken until the deadline.
    Busy {
        /// Calls that may run at once.
        limit: usize,
        /// The setting in config.toml.
        setting: &'static str,
    },
    /// A search failed, for lack of room or time.
    Search {
        /// The code of the search.
        code: Code,
        /// Cause, and the next step.
        what: String,
    },
    /// The host could not start it, for a reason of its own.
    Host(String),
    /// The hook was not called because it failed too often recently.
    Quarantined {
        /// Time until a retry may succeed.
        retry_in: Duration,
        /// The most recent fault.
        last: String,
    },
}

impl HookFault {
    /// Returns the text for operators, which has more than that for callers.
    #[must_use]
    pub fn for_operators(&self) -> String {
        match self {
            Self::Trap { logged, .. } if !logged.is_empty() => format!("{self}; it logged: {logged}"),
            _ => self.to_string(),
        }
    }

    /// Name of the kind of fault, for metrics and machines.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Trap { .. } => "trap",
            Self::Fuel { .. } => "fuel",
            Self::Deadline { .. } => "deadline",
            Self::Memory { .. } => "memory",
            Self::Table { .. } => "table",
            Self::Stack => "stack",
            Self::Reply { .. } => "reply",
            Self::HostCalls { .. } => "host-calls",
            Self::Handles { .. } => "handles",
            Self::Exit { .. } => "exit",
            Self::Answer(_) => "answer",
            Self::Starved { .. } => "starved",
            Self::Crowded { .. } => "crowded",
            Self::Busy { .. } => "busy",
            Self::Search { .. } => "search",
            Self::Host(_) => "host",
            Self::Quarantined { .. } => "quarantined",
        }
    }

    /// Whether the plugin caused the fault; other faults never lead to quarantine.
    #[must_use]
    pub fn is_of_the_plugin(&self) -> bool {
        !matches!(
            self,
            Self::Starved { .. } | Self::Busy { .. } | Self::Search { .. } | Self::Host(_) | Self::Quarantined { .. }
        )
    }

    /// The code for callers; it never blames the caller.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Deadline { .. } => Code::DeadlineExceeded,
            Self::Fuel { .. }
            | Self::Memory { .. }
            | Self::Table { .. }
            | Self::Reply { .. }
            | Self::HostCalls { .. }
            | Self::Handles { .. }
            | Self::Starved { .. }
            | Self::Crowded { .. }
            | Self::Busy { .. } => Code::ResourceExhausted,
            Self::Trap { .. } | Self::Stack | Self::Exit { .. } | Self::Answer(_) | Self::Host(_) => Code::Internal,
            Self::Search { code, .. } => *code,
            Self::Quarantined { .. } => Code::Unavailable,
        }
    }
}

impl std::error::Error for HookFault {}

impl fmt::Display for HookFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trap { trap, .. } => write!(f, "trapped: {trap}"),
            Self::Fuel { limit, setting } => write!(f, "used up its fuel of {limit} units (limit {setting})"),
            Self::Deadline { limit_ms, setting } => {
                let time =
                    if setting.starts_with("controllers.") { "processor time and waits" } else { "processor time" };
                write!(f, "did not finish within {limit_ms} ms of {time} (limit {setting})")
            }
            Self::Starved { whole_ms } => {
                write!(f, "was kept from the processors by other work for {whole_ms} ms; try again")
            }
            Self::Crowded { whole_ms, setting } => write!(
                f,
                "was kept from the processors by other calls of the plugin for {whole_ms} ms; make its calls shorter, or \
                 lower {setting}"
            ),
            Self::Memory { limit, setting } => {
                write!(f, "asked for more memory than its {limit} bytes (limit {setting})")
            }
            Self::Table { limit } => {
                write!(f, "asked for a table of more than {limit} elements (a fixed limit)")
            }
            Self::Stack => f.write_str("recursed deeper than its stack allows"),
            Self::Reply { limit } => {
                write!(f, "handed over more than {limit} bytes (limit sandbox.reply_bytes)")
            }
            Self::HostCalls { limit, setting } => {
                write!(f, "called the host more than {limit} times (limit {setting})")
            }
            Self::Handles { limit } => {
                write!(f, "held more than {limit} handles to host resources (a fixed limit)")
            }
            Self::Exit { status } => {
                write!(f, "called exit with status {status}; a hook must return an answer, and not end itself")
            }
            Self::Answer(what) => write!(f, "gave an unusable answer: {what}"),
            Self::Busy { limit, setting } => {
                write!(f, "was not started in time, {limit} calls already running (limit {setting})")
            }
            Self::Search { what, .. } => write!(f, "could not search: {what}"),
            Self::Host(what) => write!(f, "was not started by the host: {what}"),
            Self::Quarantined { retry_in, last } => {
                let ms = retry_in.as_millis();
                write!(f, "is quarantined after repeated faults, and will be tried again in {ms} ms; the last: {last}")
            }
        }
    }
}

impl fmt::Display for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plugin {} {}: hook {} {}", self.plugin, self.version, self.hook, self.fault)
    }
}

impl std::error::Error for HookError {}

impl HookError {
    /// Returns the text for operators, which has more than that for callers.
    #[must_use]
    pub fn for_operators(&self) -> String {
        format!("plugin {} {}: hook {} {}", self.plugin, self.version, self.hook, self.fault.for_operators())
    }
}

impl From<HookError> for Error {
    fn from(error: HookError) -> Self {
        let mut out = Self::new(error.fault.code(), error.to_string());
        let retry_after = match &error.fault {
            HookFault::Quarantined { retry_in, .. } => Some(*retry_in),
            _ => None,
        };
        out.plugin = Some(Box::new(PluginFault {
            plugin: error.plugin,
            version: error.version,
            hook: error.hook.to_owned(),
            kind: error.fault.kind().to_owned(),
            retry_after,
        }));
        out
    }
}
