//! Figures of this process from the system; 0 where the system has none.

use std::fs;

use mortise_resource::data::server_status_response::Process;

/// The most files that the process may have open; infinite without a limit.
pub(crate) fn max_open_files() -> f64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.map_or(f64::INFINITY, |limit| limit as f64)
}

/// The present figures of the process.
pub(crate) fn process() -> Process {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Process {
        pid: std::process::id(),
        resident_bytes: field("VmRSS") * 1024,
        threads: field("Threads"),
        open_files: fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64),
        cpu: Some(prost_types::Duration { seconds: cpu.tv_sec, nanos: i32::try_from(cpu.tv_nsec).unwrap_or(0) }),
    }
}
