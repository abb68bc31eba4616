//! The client side of the `mortise` command line. Every command is a file of [`commands`]. They share the connection to
//! the server (`connect`: [`Connect`], [`Session`]), names, views and waits of resources (`resources`), reading,
//! ordering and comparing of files (`apply`), output (`output`: [`Ui`], [`Table`], [`Progress`]), pages on a terminal
//! (`live`), words of other tools ([`words`]), the completion of words in a shell ([`completion`]), and failures
//! ([`CliError`], [`Exit`]).
//!
//! The crate speaks gRPC and knows nothing of the inside of a server, so that it is quick to build and could be a
//! program of its own.
//!
//! # Contract
//! Results go to standard output; failures, warnings and progress go to standard error. The exit code is an [`Exit`].
//! A failure names its subject, the fault and, where there is one, a remedy. A wait for an answer is bounded by
//! `--timeout`; commands that follow changes last until Ctrl-C, which ends every command at once, unless a
//! [`CriticalSection`] lasts.

mod apply;
pub mod args;
pub mod commands;
pub mod completion;
mod connect;
mod env;
mod error;
mod interrupt;
mod live;
mod output;
mod resources;
pub mod words;

use std::{ffi::OsString, io::Write as _, pin::Pin, process::ExitCode, time::Duration};

use tokio::sync::oneshot;

pub use commands::{Command, function::value as function_value, run};
pub use connect::{
    Connect,
    provider::ProviderConnector,
    session::{Authorized, Session, Token},
};
pub use env::{check_environment, misspelt_variables, warn_of_misspelt};
pub use error::{CliError, EXIT_CODES, Exit};
pub use interrupt::CriticalSection;
pub use output::{
    progress::{Progress, Unit},
    table::{Cell, Table},
    ui::{self, Color, Style, Ui},
};
pub use resources::{catalog, tenancy::Tenancy};
pub use words::letters::nearest;

/// Time after Ctrl-C in which a command may end by itself. Then the process exits, since a write to standard output
/// whose reader reads nothing would block it.
const BLOCKED_COMMAND_WAIT: Duration = Duration::from_millis(500);

/// A running command.
///
/// Boxed, because the compiler makes the code of an `async fn` in each crate that awaits it, and there once for each
/// codegen unit: unboxed, all commands would be compiled again in the binary, several times.
pub type CommandFuture = Pin<Box<dyn Future<Output = Result<Exit, CliError>>>>;

/// Runs a command on its own runtime until it ends or the user presses Ctrl-C, prints a failure on standard error, and
/// returns the exit code.
pub fn block_on(command: CommandFuture) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return report(Err(CliError::failed("cannot start threads").caused_by(e))),
    };
    let (interrupt, interrupted) = oneshot::channel();
    runtime.spawn(async {
        interrupt::interrupted().await;
        // An error means that the command has ended.
        let _ = interrupt.send(());
        tokio::time::sleep(BLOCKED_COMMAND_WAIT).await;
        std::process::exit(Exit::Interrupted as i32);
    });
    let ended: CommandFuture = Box::pin(async {
        tokio::select! {
            ended = command => ended,
            Ok(()) = interrupted => Ok(Exit::Interrupted),
        }
    });
    let ended = runtime.block_on(ended);
    // Tasks that still run, such as a read of standard input, are not awaited.
    runtime.shutdown_background();
    report(ended)
}

/// Prints help, the version or a fault of the command line, and returns the exit code. `arguments` are those that were
/// parsed, behind the program's name.
#[must_use]
pub fn report_unparsed(mut unparsed: clap::Error, arguments: &[OsString], program: clap::Command) -> ExitCode {
    if let Some(explained) = words::explain(&unparsed, arguments, program) {
        return report(Err(explained));
    }
    words::without_far_suggestion(&mut unparsed);
    let printed = unparsed.print().and_then(|()| std::io::stdout().flush());
    if unparsed.use_stderr() {
        // With standard error closed the message has no reader.
        return ExitCode::from(Exit::Usage as u8);
    }
    report(printed.map(|()| Exit::Done).map_err(CliError::from))
}

/// Prints a failure on standard error, and returns the exit code.
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
