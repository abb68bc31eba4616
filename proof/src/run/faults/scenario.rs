//! The faults of the machine, each with the promise about it.

use std::time::Duration;

use tonic::Code;

use super::shim::{Rule, calls, errors};

/// A fault of the machine, with its expected effect.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) cause: Cause,
    /// Work that meets the fault, besides the calls of clients.
    pub(crate) work: Work,
    /// Time before the fault. The runtime of the server ends idle threads after ten seconds.
    pub(crate) idle: Duration,
    pub(crate) writes: Writes,
    /// Parts of lines that the log of the server must have.
    pub(crate) log: &'static [&'static str],
    pub(crate) recovery: Recovery,
    /// Whether it is among the quick ones that each run of the tests has.
    pub(crate) is_quick: bool,
}

/// The fault.
#[derive(Clone, Copy)]
pub(crate) enum Cause {
    /// Calls that fail.
    Calls(&'static [Rule]),
    /// Opening a further file fails.
    Descriptors,
    /// Memory beyond that in use is refused.
    Memory,
    /// The process is stopped for some seconds.
    Stopped,
}

/// Work during the fault.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Calls alone.
    Calls,
    /// A new file of the plugin, which serves once the fault is gone.
    Reload,
    /// A backup, which fails with this text; another one is complete once the fault is gone.
    Backup(&'static str),
    /// A start, which fails.
    Start,
}

/// Answers to writes during the fault. Reads are answered in any case.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writes {
    /// Each write is done.
    Done,
    /// Writes are refused with this code, and a text with this part.
    Refused(Code, &'static str),
    /// The server may end.
    MayEnd,
}

/// End of the effect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// All work goes on by itself once the fault is gone.
    ByItself,
    /// Writes are refused until a restart.
    Restart,
}

const NORMAL: Scenario = Scenario {
    name: "",
    cause: Cause::Stopped,
    work: Work::Calls,
    idle: Duration::ZERO,
    writes: Writes::Done,
    log: &[],
    recovery: Recovery::ByItself,
    is_quick: false,
};

const fn failing(calls: u32, error: i32, path: &'static str) -> Rule {
    Rule { calls, error, count: None, path }
}

const POISONED: &str = "the store refuses writes";
const ON_TREE: &str = "/store/db: flush: Input/output error (os error 5)";
/// The write-ahead log, the tree, the audit log, compiled code, kept components, the plugin folder, the token.
const LOG: &str = "/store/wal.";
const TREE: &str = "/store/db";
const AUDIT: &str = "/audit/audit.jsonl";
const CACHE: &str = "/cache/";
const COMPONENTS: &str = "/data/plugins/";
const PLUGIN: &str = "/plugins/demo.wasm";
/// Files that are written beside the file that they replace.
const TEMPORARY: &str = "/.mortise-";

/// The faults, in the order of the table.
pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "log-write-eio",
        cause: Cause::Calls(&[failing(calls::WRITE, errors::EIO, LOG)]),
        writes: Writes::Refused(Code::Unavailable, POISONED),
        recovery: Recovery::Restart,
        ..NORMAL
    },
    Scenario {
        name: "log-sync-eio-once",
        cause: Cause::Calls(&[Rule { count: Some(1), ..failing(calls::SYNC, errors::EIO, LOG) }]),
        writes: Writes::Refused(Code::Unavailable, POISONED),
        recovery: Recovery::Restart,
        is_quick: true,
        ..NORMAL
    },
    Scenario {
        name: "log-short-writes",
        cause: Cause::Calls(&[failing(calls::WRITE, errors::SHORT, LOG)]),
        is_quick: true,
        ..NORMAL
    },
    Scenario {
        name: "log-write-enospc",
        cause: Cause::Calls(&[failing(calls::WRITE, errors::ENOSPC, LOG)]),
        writes: Writes::Refused(Code::Unavailable, POISONED),
        recovery: Recovery::Restart,
        ..NORMAL
    },
    Scenario {
        name: "tree-write-eio",
        cause: Cause::Calls(&[failing(calls::WRITE, errors::EIO, TREE)]),
        writes: Writes::Refused(Code::Unavailable, ON_TREE),
        recovery: Recovery::Restart,
        ..NORMAL
    },
    Scenario {
        name: "tree-sync-eio-once",
        cause: Cause::Calls(&[Rule { count: Some(1), ..failing(calls::SYNC, errors::EIO, TREE) }]),
        writes: Writes::Refused(Code::Unavailable, ON_TREE),
        recovery: Recovery::Restart,
        ..NORMAL
    },
    Scenario {
        name: "tree-short-writes",
        cause: Cause::Calls(&[failing(calls::WRITE, errors::SHORT, TREE)]),
        ..NORMAL
    },
    Scenario {
        name: "audit-write-enospc",
        cause: Cause::Calls(&[failing(calls::WRITE, errors::ENOSPC, AUDIT)]),
        log: &["the audit log cannot be written", "No space left on device"],
        is_quick: true,
        ..NORMAL
    },
    Scenario {
        name: "audit-sync-eio",
        cause: Cause::Calls(&[failing(calls::SYNC, errors::EIO, AUDIT)]),
        log: &["the audit log cannot be written", "Input/output error"],
        ..NORMAL
    },
    Scenario {
        name: "cache-write-enospc",
        cause: Cause::Calls(&[failing(calls::WRITE, errors::ENOSPC, CACHE)]),
        work: Work::Reload,
        ..NORMAL
    },
    Scenario {
        name: "cache-read-eio",
        cause: Cause::Calls(&[failing(calls::READ | calls::OPEN, errors::EIO, CACHE)]),
        work: Work::Reload,
        ..NORMAL
    },
    Scenario {
        name: "component-copy-enospc",
        cause: Cause::Calls(&[failing(calls::WRITE, errors::ENOSPC, COMPONENTS)]),
        work: Work::Reload,
        log: &["No space left on device"],
        ..NORMAL
    },
    Scenario {
        name: "plugin-read-eio",
        cause: Cause::Calls(&[failing(calls::READ, errors::EIO, PLUGIN)]),
        work: Work::Reload,
        log: &["Input/output error", "it is tried again"],
        ..NORMAL
    },
    Scenario {
        name: "backup-write-enospc",
        cause: Cause::Calls(&[failing(calls::WRITE, errors::ENOSPC, TEMPORARY)]),
        work: Work::Backup("No space left on device"),
        is_quick: true,
        ..NORMAL
    },
    Scenario {
        name: "backup-sync-eio",
        cause: Cause::Calls(&[failing(calls::SYNC, errors::EIO, TEMPORARY)]),
        work: Work::Backup("Input/output error"),
        ..NORMAL
    },
    Scenario {
        name: "start-tree-read-eio",
        cause: Cause::Calls(&[failing(calls::READ, errors::EIO, TREE)]),
        work: Work::Start,
        log: &["Input/output error"],
        ..NORMAL
    },
    Scenario {
        name: "start-log-read-eio",
        cause: Cause::Calls(&[failing(calls::READ, errors::EIO, LOG)]),
        work: Work::Start,
        log: &["Input/output error"],
        is_quick: true,
        ..NORMAL
    },
    Scenario {
        name: "start-snapshot-read-eio",
        cause: Cause::Calls(&[failing(calls::READ, errors::EIO, "/store/snap.")]),
        work: Work::Start,
        log: &["Input/output error"],
        ..NORMAL
    },
    Scenario {
        name: "start-format-open-eio",
        cause: Cause::Calls(&[failing(calls::OPEN, errors::EIO, "/store/format")]),
        work: Work::Start,
        log: &["Input/output error"],
        ..NORMAL
    },
    Scenario {
        name: "start-audit-open-eio",
        cause: Cause::Calls(&[failing(calls::OPEN, errors::EIO, AUDIT)]),
        work: Work::Start,
        log: &["Input/output error"],
        ..NORMAL
    },
    Scenario {
        name: "start-token-open-eio",
        cause: Cause::Calls(&[failing(calls::OPEN, errors::EIO, "/bootstrap-token")]),
        work: Work::Start,
        log: &["bootstrap-token", "Input/output error"],
        ..NORMAL
    },
    Scenario {
        name: "descriptors-process",
        cause: Cause::Descriptors,
        work: Work::Reload,
        log: &["Too many open files"],
        is_quick: true,
        ..NORMAL
    },
    Scenario {
        name: "descriptors-system",
        cause: Cause::Calls(&[failing(calls::OPEN | calls::ACCEPT, errors::ENFILE, "")]),
        work: Work::Reload,
        log: &["Too many open files in system"],
        ..NORMAL
    },
    Scenario {
        name: "threads-refused",
        cause: Cause::Calls(&[failing(calls::THREAD, errors::EAGAIN, "")]),
        work: Work::Reload,
        log: &["starting a process that compiles"],
        is_quick: true,
        ..NORMAL
    },
    Scenario {
        name: "threads-refused-when-idle",
        cause: Cause::Calls(&[failing(calls::THREAD, errors::EAGAIN, "")]),
        work: Work::Reload,
        idle: Duration::from_secs(11),
        ..NORMAL
    },
    Scenario { name: "memory-refused", cause: Cause::Memory, work: Work::Reload, writes: Writes::MayEnd, ..NORMAL },
    Scenario {
        name: "clock-back-an-hour",
        cause: Cause::Calls(&[failing(calls::CLOCK, -3_600, "")]),
        is_quick: true,
        ..NORMAL
    },
    Scenario { name: "stopped", cause: Cause::Stopped, is_quick: true, ..NORMAL },
];
