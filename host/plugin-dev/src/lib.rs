//! The commands for plugin authors, from nothing to a served type: `mortise plugin new`, `build`, `test`, `bench`,
//! `dev`, `inspect`, `schema` and `compile`.
//!
//! Each command is a file. They work on a component, not on a server, in the sandbox that serves it
//! ([`mortise_plugin_host`]), with the loader's own checks and errors. Only `dev`, and `schema` for a type of a server,
//! talk to a server.
//!
//! # Contract
//! Every error names the next step. Exit codes are those of all commands ([`mortise_cli::Exit`]). The output of cargo
//! goes to standard error as it comes; results go to standard output.
//!
//! # Cost
//! The binary carries the SDK's sources and the template, about 0.6 MB. The first build of a new plugin compiles its
//! dependencies (under a minute on two cores); later ones take a second or two.
//!
//! # Limits
//! `test`, `bench` and `conformance` have a server's default limits, or those of its configuration (`--config`), except
//! for time (10 s for a request) and quarantine (after 10,000 faults).

mod bench;
mod build;
mod compile;
mod conformance;
mod dev;
mod external;
mod fault;
mod inspect;
mod languages;
mod lockfile;
mod names;
mod new;
mod offline;
mod report;
mod sample;
mod schema;
mod sdk;
mod sdk_upgrade;
mod server_settings;
mod source;
mod template;
mod test;

use clap::Subcommand;
use mortise_cli::{CommandFuture, commands::after};

pub use inspect::{Format, Inspect, is_file};
pub use server_settings::{ReadServerSettings, ServerSettings};

/// Commands for authors of plugins. `inspect` is apart ([`Inspect`]): operators have a command of the same name for
/// plugins of a server, and the argument decides ([`is_file`]).
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Makes a plugin in one of five languages, which builds and passes its own tests
    #[command(after_help = after(new::EXAMPLES))]
    New(new::New),
    /// Compiles a plugin to a component
    #[command(after_help = after(build::EXAMPLES))]
    Build(build::Build),
    /// Compiles components to machine code, for servers on machines too small to do it themselves
    #[command(after_help = after(compile::EXAMPLES))]
    Compile(compile::Compile),
    /// Runs a plugin's hooks and reconcilers against cases, offline
    #[command(after_help = after(test::EXAMPLES))]
    Test(test::Test),
    /// Checks that a component, in any language, keeps the rules of the contract
    #[command(after_help = after(conformance::EXAMPLES))]
    Conformance(conformance::Conformance),
    /// Measures a plugin's hooks: time, fuel, memory
    #[command(after_help = after(bench::EXAMPLES))]
    Bench(bench::Bench),
    /// Builds, installs and watches a plugin, each time that its sources change
    #[command(after_help = after(dev::EXAMPLES))]
    Dev(dev::Dev),
    /// The SDK in a plugin's folder: brings it to that of this binary
    #[command(after_help = after(sdk_upgrade::EXAMPLES))]
    Sdk(sdk_upgrade::Sdk),
    /// Shows the data of a type: JSON Schema, or a commented sample
    #[command(after_help = after(schema::EXAMPLES))]
    Schema(schema::Schema),
}

impl Command {
    /// Runs the command. `read` reads the configuration of a server that it is given.
    ///
    /// # Errors
    /// The failure with the next step, to print after "mortise: ".
    pub fn run(self, read: ReadServerSettings) -> CommandFuture {
        Box::pin(async move {
            match self {
                Self::New(new) => new.run(),
                Self::Build(build) => build.run().await,
                Self::Compile(compile) => compile.run(read),
                Self::Test(test) => test.run(read).await,
                Self::Conformance(conformance) => conformance.run(read).await,
                Self::Bench(bench) => bench.run(read).await,
                Self::Dev(dev) => dev.run().await,
                Self::Sdk(sdk) => sdk.run(),
                Self::Schema(schema) => schema.run().await,
            }
        })
    }
}
