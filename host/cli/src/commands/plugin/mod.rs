//! `mortise plugin …`: what operators do with plugins of a running server.

mod commands;
mod inspect;
mod install;
mod keys;
mod list;
mod logs;
mod sign;
mod summary;
mod verify;

use clap::Subcommand;

pub use self::inspect::Inspect;
use crate::{CommandFuture, commands::after};

/// What is done with plugins that a server has.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// List the plugins that the server has, and how they fare
    #[command(visible_alias = "ls", after_help = after(list::EXAMPLES))]
    List(list::List),
    /// Put a component into the server's plugin folder, once it passed every check, and serve it
    #[command(after_help = after(install::EXAMPLES))]
    Install(install::Install),
    /// Take a plugin's file out of the folder; what is stored of its types stays
    #[command(visible_alias = "rm", after_help = after(commands::REMOVE))]
    Remove(commands::NamedCommand),
    /// Go back to the component before
    #[command(after_help = after(commands::ROLLBACK))]
    Rollback(commands::NamedCommand),
    /// Lift the quarantine of a plugin's hooks
    #[command(after_help = after(commands::RESET))]
    Reset(commands::NamedCommand),
    /// Switch a plugin on again
    #[command(after_help = after(commands::ENABLE))]
    Enable(commands::NamedCommand),
    /// Switch a plugin off, over restarts, as if it were removed
    #[command(after_help = after(commands::DISABLE))]
    Disable(commands::NamedCommand),
    /// Make a pair of keys for signing plugins
    #[command(after_help = after(keys::EXAMPLES))]
    Keygen(keys::Keygen),
    /// Sign a component: FILE.minisig beside it
    #[command(after_help = after(sign::EXAMPLES))]
    Sign(sign::Sign),
    /// Say who signed a component, if it is one of the keys given
    #[command(after_help = after(verify::EXAMPLES))]
    Verify(verify::Verify),
    /// Show what a plugin logged
    #[command(after_help = after(logs::EXAMPLES))]
    Logs(logs::Logs),
}

/// Runs one.
///
/// # Errors
/// What went wrong, to be shown after "mortise: ".
pub fn run(command: PluginCommand) -> CommandFuture {
    Box::pin(async move {
        match command {
            PluginCommand::List(list) => list.run().await,
            PluginCommand::Install(install) => install.run().await,
            PluginCommand::Remove(command) => command.remove().await,
            PluginCommand::Rollback(command) => command.rollback().await,
            PluginCommand::Reset(command) => command.reset().await,
            PluginCommand::Enable(command) => command.enable().await,
            PluginCommand::Disable(command) => command.disable().await,
            PluginCommand::Keygen(keygen) => keygen.run(),
            PluginCommand::Sign(sign) => sign.run(),
            PluginCommand::Verify(verify) => verify.run(),
            PluginCommand::Logs(logs) => logs.run().await,
        }
    })
}
