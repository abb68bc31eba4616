//! The output of a run, as text and as JSON: every figure with its subject, its unit, the command and the machine.
//!
//! A line is made from its figures, so the text has nothing that the JSON lacks.

use std::{
    fmt,
    fs::File,
    io::Write as _,
    path::Path,
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};

use crate::Outcome;

/// Unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Unit {
    /// Operations a second.
    #[serde(rename = "/s")]
    PerSecond,
    /// Quotient of two figures.
    #[serde(rename = "ratio")]
    Ratio,
    #[serde(rename = "µs")]
    Microseconds,
    /// Processor time of the server for one operation, µs.
    #[serde(rename = "µs of the processor")]
    ProcessorMicroseconds,
    #[serde(rename = "ms")]
    Milliseconds,
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "s of the processor")]
    ProcessorSeconds,
    #[serde(rename = "MiB")]
    Mebibytes,
    #[serde(rename = "bytes")]
    Bytes,
    /// Percent of one core.
    #[serde(rename = "% of a core")]
    PercentOfCore,
    #[serde(rename = "instructions")]
    Instructions,
    #[serde(rename = "count")]
    Count,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PerSecond => "/s",
            Self::Ratio | Self::Count => "",
            Self::Microseconds => " µs",
            Self::ProcessorMicroseconds => " µs of the processor",
            Self::Milliseconds => " ms",
            Self::Seconds => " s",
            Self::ProcessorSeconds => " s of the processor",
            Self::Mebibytes => " MiB",
            Self::Bytes => " bytes",
            Self::PercentOfCore => " % of a core",
            Self::Instructions => " instructions",
        })
    }
}

/// Figure of a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// Subject of the figure, or its name among several of one unit.
    pub(crate) subject: String,
    pub(crate) value: f64,
    pub(crate) unit: Unit,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, value, unit } = self;
        let decimals = match value.abs() {
            _ if matches!(unit, Unit::Count | Unit::Bytes | Unit::Instructions) => 0,
            large if large >= 100.0 => 0,
            large if large >= 10.0 => 1,
            large if large >= 1.0 || *unit != Unit::Ratio => 2,
            _ => 3,
        };
        write!(f, "{subject} {value:.decimals$}{unit}")
    }
}

/// A line of results: the work, the number of clients, and the figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) work: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) clients: Option<usize>,
    pub(crate) figures: Vec<Figure>,
}

impl Line {
    /// Makes a line without figures.
    pub(crate) fn of(work: impl Into<String>) -> Self {
        Self { work: work.into(), clients: None, figures: Vec::new() }
    }

    pub(crate) fn clients(self, count: usize) -> Self {
        Self { clients: Some(count), ..self }
    }

    pub(crate) fn figure(mut self, subject: impl Into<String>, value: f64, unit: Unit) -> Self {
        self.figures.push(Figure { subject: subject.into(), value, unit });
        self
    }

    /// Prints the line at once, and keeps it for the JSON.
    pub(crate) fn print(self) -> Outcome<()> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{self}")?;
        out.flush()?;
        LINES.lock().unwrap_or_else(PoisonError::into_inner).push(self);
        Ok(())
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.work)?;
        if let Some(count) = self.clients {
            write!(f, ", {count} client(s)")?;
        }
        for (number, figure) in self.figures.iter().enumerate() {
            write!(f, "{} {figure}", if number == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

/// Prints a line without figures at once.
pub(crate) fn line(text: &str) -> Outcome<()> {
    Line::of(text).print()
}

/// The lines that this process has printed.
static LINES: Mutex<Vec<Line>> = Mutex::new(Vec::new());

/// The machine of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) processors: usize,
    pub(crate) architecture: String,
    pub(crate) memory_mib: u64,
    pub(crate) kernel: String,
}

impl Machine {
    fn of_this_process() -> Outcome<Self> {
        let field = |file: &str, name: &str| {
            let text = std::fs::read_to_string(file).ok()?;
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = field("/proc/meminfo", "MemTotal").ok_or("/proc/meminfo has no MemTotal")?;
        let kib: u64 = memory.trim_end_matches(" kB").parse()?;
        Ok(Self {
            // Not every architecture's kernel names the processor.
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned()),
            processors: std::thread::available_parallelism()?.get(),
            architecture: std::env::consts::ARCH.to_owned(),
            memory_mib: kib / 1024,
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
        })
    }
}

/// A run, as in its JSON file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The arguments, without `--json` and its file; of paths the last part.
    pub(crate) command: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) round_ms: u64,
    pub(crate) machine: Machine,
    pub(crate) lines: Vec<Line>,
}

impl Report {
    /// Reads a file that [`JsonFile::write`] wrote.
    pub(crate) fn read(path: &Path) -> Outcome<Self> {
        let bytes = std::fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        Ok(serde_json::from_slice(&bytes)
            .map_err(|e| format!("{} cannot be read as a report ({e}); make one with --json", path.display()))?)
    }
}

/// The file for the JSON of this run. It is opened at the start, so that a wrong path fails before an hour of
/// measuring.
pub(crate) struct JsonFile(File);

impl JsonFile {
    pub(crate) fn create(path: &Path) -> Outcome<Self> {
        let file = File::create(path).map_err(|e| format!("--json: cannot write {}: {e}", path.display()))?;
        Ok(Self(file))
    }

    /// Writes all lines printed so far.
    pub(crate) fn write(mut self, rounds: usize, round_ms: u64) -> Outcome<()> {
        let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let command = command(std::env::args().skip(1));
        let report = Report { command, rounds, round_ms, machine: Machine::of_this_process()?, lines };
        serde_json::to_writer_pretty(&mut self.0, &report)?;
        Ok(writeln!(self.0)?)
    }
}

/// The arguments without `--json FILE`, and without directories, which mean nothing elsewhere.
fn command(mut arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept = Vec::new();
    while let Some(argument) = arguments.next() {
        if argument == "--json" {
            arguments.next();
        } else if !argument.starts_with("--json=") {
            kept.push(argument.rsplit('/').next().unwrap_or_default().to_owned());
        }
    }
    kept
}

/// Returns the median.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the figure that `percent` percent of the sorted ones do not exceed.
pub(crate) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted.get(sorted.len() * percent / 100).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_as_its_figures() {
        let line = Line::of("Read")
            .clients(64)
            .figure("mortise", 47_000.4, Unit::PerSecond)
            .figure("mortise", 19.44, Unit::ProcessorMicroseconds)
            .figure("ratio", 0.9234, Unit::Ratio)
            .figure("refused", 3.0, Unit::Count);
        let text = "Read, 64 client(s): mortise 47000/s, mortise 19.4 µs of the processor, ratio 0.923, refused 3";
        assert_eq!(line.to_string(), text);
    }

    #[test]
    fn what_is_printed_is_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.json");
        let file = JsonFile::create(&path).unwrap();
        let printed = Line::of("Write").clients(1).figure("mortise", 329.0, Unit::ProcessorMicroseconds);
        printed.clone().print().unwrap();
        file.write(3, 1_000).unwrap();
        let report = Report::read(&path).unwrap();
        assert!(report.lines.contains(&printed), "{:?}", report.lines);
        assert_eq!((report.rounds, report.round_ms), (3, 1_000));
        assert!(report.machine.processors > 0 && report.machine.memory_mib > 0, "{:?}", report.machine);
    }

    #[test]
    fn the_command_has_no_directories_and_not_its_own_file() {
        let arguments = ["--rounds", "3", "--json", "/a/b.json", "against", "/c/mortise", "--json=/d"];
        assert_eq!(command(arguments.into_iter().map(String::from)), ["--rounds", "3", "against", "mortise"]);
    }
}
