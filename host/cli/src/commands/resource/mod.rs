//! `mortise resource …`: the commands of `consul resource`, so that scripts written for it keep working. Arguments,
//! output, wording and exit codes (0, and 1 for every failure) are Consul's, from its documentation and behaviour. All
//! of them speak gRPC here, even those that use HTTP in Consul.

mod command;
mod error;
mod flags;
mod input;
mod server;
mod verb;

use clap::{Args, Subcommand};

use self::{
    command::ConsulCommand,
    error::ConsulError,
    flags::Flags,
    verb::{Family, Verb},
};
use crate::{CliError, Exit, output::ui};

pub(super) const EXAMPLES: &str = "\
mortise resource apply -f artist.hcl
mortise resource read demo.v2.Artist korn -namespace default
mortise resource list demo.v2.Artist
mortise resource delete demo.v2.Artist korn";

/// Arguments of `resource`.
#[derive(Debug, Args)]
pub struct Resource {
    #[command(subcommand)]
    command: ResourceCommand,
}

/// Flags as in Consul, with one dash; see docs/cli.md.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
struct RawArguments {
    /// The arguments of `consul resource`, then flags: -f, -namespace, -partition, -stale, -token, -token-file,
    /// -grpc-addr, -grpc-tls, -ca-file, -ca-path, -client-cert, -client-key; -p PREFIX in list-grpc
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

#[derive(Debug, Subcommand)]
enum ResourceCommand {
    /// Writes a resource from a file, as `consul resource apply`
    #[command(after_help = after("mortise resource apply -f artist.hcl"))]
    Apply(RawArguments),
    /// Reads a resource, as `consul resource read`
    #[command(after_help = after("mortise resource read demo.v2.Artist korn -partition default"))]
    Read(RawArguments),
    /// Lists resources of a type, as `consul resource list`
    #[command(after_help = after("mortise resource list demo.v2.Artist -namespace default"))]
    List(RawArguments),
    /// Deletes a resource, as `consul resource delete`
    #[command(after_help = after("mortise resource delete demo.v2.Artist korn"))]
    Delete(RawArguments),
    /// Writes a resource from a file, as `consul resource apply-grpc`
    #[command(after_help = after("mortise resource apply-grpc -f artist.json"))]
    ApplyGrpc(RawArguments),
    /// Reads a resource, as `consul resource read-grpc`
    #[command(after_help = after("mortise resource read-grpc executive ceo"))]
    ReadGrpc(RawArguments),
    /// Lists resources of a type, as `consul resource list-grpc`
    #[command(after_help = after("mortise resource list-grpc demo.v2.Artist -p korn"))]
    ListGrpc(RawArguments),
    /// Deletes a resource, as `consul resource delete-grpc`
    #[command(after_help = after("mortise resource delete-grpc executive ceo"))]
    DeleteGrpc(RawArguments),
}

fn after(example: &str) -> String {
    format!("Example:\n  {example}\n\nExit codes: 0 done, 1 anything else")
}

impl Resource {
    pub(super) async fn run(self, program: clap::Command) -> Result<Exit, CliError> {
        let (verb, family, raw) = match self.command {
            ResourceCommand::Apply(raw) => (Verb::Apply, Family::Http, raw),
            ResourceCommand::Read(raw) => (Verb::Read, Family::Http, raw),
            ResourceCommand::List(raw) => (Verb::List, Family::Http, raw),
            ResourceCommand::Delete(raw) => (Verb::Delete, Family::Http, raw),
            ResourceCommand::ApplyGrpc(raw) => (Verb::Apply, Family::Grpc, raw),
            ResourceCommand::ReadGrpc(raw) => (Verb::Read, Family::Grpc, raw),
            ResourceCommand::ListGrpc(raw) => (Verb::List, Family::Grpc, raw),
            ResourceCommand::DeleteGrpc(raw) => (Verb::Delete, Family::Grpc, raw),
        };
        let call = ConsulCommand { verb, family, flags: Flags::default() };
        match call.run(&raw.arguments).await {
            Ok(()) => Ok(Exit::Done),
            Err(ConsulError::Help) => {
                ui::print(help(program, verb, family))?;
                Ok(Exit::Done)
            }
            Err(ConsulError::Wrong(text)) => {
                crate::Ui::new(crate::Color::Never).note(&text);
                Ok(Exit::Failed)
            }
            Err(ConsulError::Output(error)) => Err(error),
        }
    }
}

fn help(program: clap::Command, verb: Verb, family: Family) -> String {
    let name = match verb {
        Verb::Apply => "apply",
        Verb::Read => "read",
        Verb::List => "list",
        Verb::Delete => "delete",
    };
    let name = if family == Family::Grpc { format!("{name}-grpc") } else { name.to_owned() };
    let mut program = program;
    program.build();
    let own = program.find_subcommand_mut("resource").and_then(|resource| resource.find_subcommand_mut(&name));
    own.map(|own| own.render_help().to_string()).unwrap_or_default()
}
