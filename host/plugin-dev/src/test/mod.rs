//! `mortise plugin test`: runs the hooks and reconcilers of a built component against cases, offline, in the sandbox
//! that serves it.
//!
//! A case is a YAML document in `tests/cases/` ([`case`]). Its calls are real ones, with the default limits of a server
//! except for time ([`crate::offline`]); host calls of a reconciler are answered in memory ([`memory`]) or from a
//! recording ([`record`]).

mod case;
mod changes;
mod codec;
mod error;
mod exchange;
mod expect;
mod function;
mod harness;
mod hooks;
mod memory;
mod outside;
mod private_bytes;
mod problems;
mod reconcile;
mod record;
mod reuse;
mod stored;
mod suite;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mortise_cli::{CliError, Connect, Exit, ui};

pub(crate) use harness::{HostCalls, ReconcileHarness};
pub(crate) use reconcile::granted;
pub(crate) use stored::StoredResources;
pub(crate) use suite::{Suite, grouped};

use crate::{
    fault,
    server_settings::{ReadServerSettings, ServerConfig},
    source::Source,
};

pub(crate) const EXAMPLES: &str = "\
mortise plugin test
mortise plugin test target/plugins/guest-book.wasm --cases tests/cases --filter title
mortise plugin test --record
mortise plugin test --reuse
mortise plugin test --config /etc/mortise/config.toml";

/// Arguments of `plugin test`.
#[derive(Debug, Args)]
pub struct Test {
    #[command(flatten)]
    source: Source,
    /// Folder of cases, or one file of them [default: tests/cases in --path]
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
    /// Only cases with this text in their name or their file's name
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Records the host calls of reconcilers beside the cases; later runs compare with the recording
    #[arg(long)]
    record: bool,
    /// Runs the cases of hooks also in instances that served other cases, in random orders, and compares the answers
    #[arg(long)]
    reuse: bool,
    /// Seed of the random orders
    #[arg(long, value_name = "NUMBER", requires = "reuse")]
    seed: Option<u64>,
    #[command(flatten)]
    config: ServerConfig,
    /// Another plugin's component, with types that appear in cases
    #[arg(long, value_name = "FILE.wasm")]
    with: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Text, as `cargo test` shows it
    Text,
    /// A JSON document
    Json,
}

impl Test {
    pub(crate) async fn run(self, read: ReadServerSettings) -> Result<Exit, CliError> {
        let server = self.config.read(read)?;
        let component = self.source.component().await?;
        let cases = self.cases.clone().unwrap_or_else(|| self.source.package.within("tests/cases"));
        let suite = Suite {
            component,
            cases,
            filter: self.filter.clone(),
            record: self.record,
            with: self.with.clone(),
            server,
            reuse: self.reuse.then(|| self.seed.unwrap_or_else(|| fastrand::u64(..))),
        };
        let quiet = self.format == Format::Json;
        let summary = suite.run(|line| if quiet { Ok(()) } else { ui::line(line) }).await?;
        if quiet {
            ui::line(format!("{:#}", summary.json()))?;
        } else {
            ui::print(summary.text(&Connect::default().ui()))?;
        }
        match summary.first_failure() {
            None => Ok(Exit::Done),
            Some(name) => Err(fault::failed(
                format!("{} of {} cases failed", summary.failed(), summary.ran()),
                format!("fix the plugin or the case; `mortise plugin test --filter {name:?}` runs the first alone"),
            )),
        }
    }
}
