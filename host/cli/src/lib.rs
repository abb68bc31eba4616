//! The client side of the `mortise` command line. Every command is a file of [`commands`]. They share how the server is
//! reached (`connect`: [`Connect`], [`Session`]), how resources are named, shown and waited for (`resources`), how
//! files of them are read, ordered and compared with what is stored (`apply`), how output looks (`output`: [`Ui`],
//! [`Table`], [`Progress`]), and how a command fails ([`CliError`], [`Exit`]).
//!
//! It speaks gRPC and knows nothing of how a server works inside, so that it is quick to build and could be a program
//! of its own.

mod apply;
pub mod args;
pub mod commands;
mod connect;
mod env;
mod error;
mod interrupt;
mod output;
mod resources;

use std::{pin::Pin, process::ExitCode};

pub use commands::{Command, run};
pub use connect::{
    Connect,
    provider::ProviderConnector,
    session::{Authorized, Session, Token},
};
pub use error::{CliError, EXIT_CODES, Exit};
pub use interrupt::Shield;
pub use output::{
    progress::{Progress, Unit},
    table::{Cell, Table},
    ui::{self, Color, Style, Ui},
};
pub use resources::{catalog, tenancy::Tenancy};

/// A command that runs.
///
/// Boxed, because the compiler makes the code of an `async fn` in each crate that awaits it, and there once for each of
/// its codegen units: unboxed, all commands would be compiled over again in the binary, several times.
pub type CommandFuture = Pin<Box<dyn Future<Output = Result<Exit, CliError>>>>;

/// Runs a command on a runtime of its own until it ends or the user presses Ctrl-C, says on standard error what went
/// wrong, and answers the exit code.
pub fn block_on(command: CommandFuture) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return report(Err(CliError::failed("cannot start threads").caused_by(e))),
    };
    let ended: CommandFuture = Box::pin(async {
        tokio::select! {
            ended = command => ended,
            () = interrupt::interrupted() => Ok(Exit::Interrupted),
        }
    });
    let ended = runtime.block_on(ended);
    // Whatever still runs, a read of standard input for one, is not waited for.
    runtime.shutdown_background();
    report(ended)
}

/// Says on standard error what went wrong, and answers the exit code.
#[must_use]
pub fn report(ended: Result<Exit, CliError>) -> ExitCode {
    let exit = match ended {
        Ok(exit) => exit,
        Err(error) => {
            if error.exit != Exit::Closed {
                let ui = Ui::new(Color::Auto);
                ui.note(&format!("mortise: {error}"));
            }
            error.exit
        }
    };
    ExitCode::from(exit as u8)
}
