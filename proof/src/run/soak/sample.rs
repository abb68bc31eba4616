//! Samples of a server process.

use std::{path::Path, time::Duration};

use mortise_test_process::Outcome;

use super::{super::server::Server, load::Load};

/// A sampled figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    Memory,
    Descriptors,
    Threads,
    Disk,
    Latency,
}

impl Figure {
    pub(crate) const ALL: [Self; 5] = [Self::Memory, Self::Descriptors, Self::Threads, Self::Disk, Self::Latency];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory, MiB",
            Self::Descriptors => "open files",
            Self::Threads => "threads",
            Self::Disk => "disk, MiB",
            Self::Latency => "mean latency of a write, ms",
        }
    }

    /// Allowed growth over the whole soak.
    pub(crate) const fn growth(self) -> f64 {
        match self {
            Self::Memory => 12.0,
            Self::Descriptors | Self::Threads => 4.0,
            Self::Disk => 8.0,
            Self::Latency => 5.0,
        }
    }
}

/// Samples of one life: minutes, and a value for each figure.
#[derive(Debug, Default)]
pub(crate) struct Samples(Vec<(f64, [f64; 5])>);

impl Samples {
    /// Takes a sample.
    pub(crate) fn take(&mut self, time: Duration, server: &mut Server, load: &Load) -> Outcome<()> {
        let process = server.process()?;
        let (pid, memory) = (process.pid()?, process.resident_mib()?);
        let count =
            |name: &str| -> Outcome<f64> { Ok(std::fs::read_dir(format!("/proc/{pid}/{name}"))?.count() as f64) };
        let (descriptors, threads) = (count("fd")?, count("task")?);
        let disk = blocks(&server.dir().join("data"))? as f64 / 2048.0;
        // Without a write since the last sample, the last latency counts again.
        let before = self.0.last().map_or(0.0, |(_, values)| values[4]);
        let latency = load.take_latency().unwrap_or(before);
        self.0.push((time.as_secs_f64() / 60.0, [memory, descriptors, threads, disk, latency]));
        Ok(())
    }

    /// Drops the samples of the first time.
    pub(crate) fn forget(&mut self, time: Duration) {
        self.0.retain(|(minutes, _)| *minutes >= time.as_secs_f64() / 60.0);
    }

    /// Returns the series of a figure.
    pub(crate) fn of(&self, figure: Figure) -> Vec<(f64, f64)> {
        let place = Figure::ALL.iter().position(|other| *other == figure);
        let value = |values: &[f64; 5]| place.and_then(|place| values.get(place)).copied().unwrap_or_default();
        self.0.iter().map(|(minutes, values)| (*minutes, value(values))).collect()
    }
}

/// Returns the blocks of 512 bytes below a folder. Files that are removed meanwhile do not count.
fn blocks(dir: &Path) -> std::io::Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut sum = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(found) = entry.metadata() else { continue };
        sum += if found.is_dir() { blocks(&entry.path()).unwrap_or(0) } else { found.blocks() };
    }
    Ok(sum)
}
