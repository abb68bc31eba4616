//! `mortise plugin …`: commands of operators for the plugins of a running server, and for registries of plugins.

mod commands;
mod inspect;
mod install;
mod keys;
mod list;
mod logs;
mod registry;
pub(crate) mod rollout;
mod sign;
mod summary;
mod verify;

use clap::Subcommand;

pub use self::inspect::Inspect;
pub(crate) use self::{logs::log_line, summary::PluginSummary};
use crate::{CommandFuture, commands::after};

/// Commands for the plugins of a server.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// Lists the server's plugins and their state
    #[command(visible_alias = "ls", after_help = after(list::EXAMPLES))]
    List(list::List),
    /// Checks a component, puts it into the server's plugin folder, and serves it
    #[command(after_help = after(install::EXAMPLES))]
    Install(install::Install),
    /// Removes a plugin's file from the folder; stored resources of its types stay
    #[command(visible_alias = "rm", after_help = after(commands::REMOVE))]
    Remove(commands::NamedCommand),
    /// Returns to the previous component
    #[command(after_help = after(commands::ROLLBACK))]
    Rollback(commands::NamedCommand),
    /// Lifts the quarantine of a plugin's hooks
    #[command(after_help = after(commands::RESET))]
    Reset(commands::NamedCommand),
    /// Enables a disabled plugin
    #[command(after_help = after(commands::ENABLE))]
    Enable(commands::NamedCommand),
    /// Disables a plugin, across restarts, as if it were removed
    #[command(after_help = after(commands::DISABLE))]
    Disable(commands::NamedCommand),
    /// Makes a pair of keys for signing plugins
    #[command(after_help = after(keys::EXAMPLES))]
    Keygen(keys::Keygen),
    /// Signs a component; writes FILE.minisig beside it
    #[command(after_help = after(sign::EXAMPLES))]
    Sign(sign::Sign),
    /// Shows the signer of a component, if it is one of the given keys
    #[command(after_help = after(verify::EXAMPLES))]
    Verify(verify::Verify),
    /// Shows the log of a plugin
    #[command(after_help = after(logs::EXAMPLES))]
    Logs(logs::Logs),
    /// Puts a component, and its signature, into a registry
    #[command(after_help = after(registry::PUSH))]
    Push(registry::Push),
    /// Writes a component from a registry into a file, with its signature beside it
    #[command(after_help = after(registry::PULL))]
    Pull(registry::Pull),
    /// Lists the plugins and the versions in a registry
    #[command(after_help = after(registry::SEARCH))]
    Search(registry::Search),
    /// Compares the versions that a server has with those in registries
    #[command(after_help = after(registry::OUTDATED))]
    Outdated(registry::Outdated),
    /// Puts plugins of registries, with their signatures, into one file for a network without a way out
    #[command(after_help = after(registry::EXPORT))]
    Export(registry::Export),
    /// Takes the plugins of such a file into a registry or a folder
    #[command(after_help = after(registry::IMPORT))]
    Import(registry::Import),
}

/// Runs a command.
///
/// # Errors
/// The failure, to be shown after "mortise: ".
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
            PluginCommand::Push(push) => push.run().await,
            PluginCommand::Pull(pull) => pull.run().await,
            PluginCommand::Search(search) => search.run().await,
            PluginCommand::Outdated(outdated) => outdated.run().await,
            PluginCommand::Export(export) => export.run().await,
            PluginCommand::Import(import) => import.run().await,
        }
    })
}
