//! The commands, one in each file or folder.
//!
//! A command is a struct of arguments with a `run`. Its doc comment is its help, and `after_help` gives examples and
//! the exit codes. A new command is a file, a variant of [`Command`], an arm of [`run`], and a transcript of its output
//! and its errors in `tests/cli`.

mod access;
mod adopt;
mod annotate;
mod apply;
pub mod backup;
mod catalog;
mod completions;
mod context;
mod controllers;
mod create;
mod debug;
mod delete;
mod describe;
mod diff;
mod edit;
mod events;
mod explain;
mod export;
pub(crate) mod function;
mod get;
mod import;
mod info;
mod label;
mod man;
mod members;
mod move_resources;
mod only;
mod patch;
mod plan;
pub mod plugin;
mod protect;
pub mod provider;
mod prune;
mod regions;
mod reload;
mod replace;
mod resource;
mod server_status;
mod status;
mod tls;
mod top;
mod tree;
mod types;
mod version;
mod wait;

use clap::Subcommand;

use crate::CommandFuture;

/// Every command that talks to a server, or about it.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Creates or updates resources as files describe them
    #[command(after_help = after(apply::EXAMPLES))]
    Apply(Box<apply::Apply>),
    /// Creates resources, and fails if one exists
    #[command(after_help = after(create::EXAMPLES))]
    Create(Box<create::Create>),
    /// Replaces resources that exist, as files describe them
    #[command(after_help = after(replace::EXAMPLES))]
    Replace(Box<replace::Replace>),
    /// Changes fields of a resource by a patch
    #[command(after_help = after(patch::EXAMPLES))]
    Patch(Box<patch::Patch>),
    /// Shows resources
    #[command(visible_alias = "list", alias = "ls", after_help = after(get::EXAMPLES))]
    Get(Box<get::Get>),
    /// Shows everything about a resource
    #[command(after_help = after(describe::EXAMPLES))]
    Describe(describe::Describe),
    /// Shows the events of resources: writes, conditions, failures of controllers
    #[command(after_help = after(events::EXAMPLES))]
    Events(Box<events::Events>),
    /// Deletes resources
    #[command(alias = "rm", after_help = after(delete::EXAMPLES))]
    Delete(Box<delete::Delete>),
    /// Protects a resource from deletion
    #[command(after_help = after(protect::EXAMPLES))]
    Protect(protect::Protect),
    /// Changes a resource in an editor
    #[command(after_help = after(edit::EXAMPLES))]
    Edit(edit::Edit),
    /// Sets and removes labels, which selectors and queries use
    #[command(after_help = after(label::EXAMPLES))]
    Label(label::Label),
    /// Sets and removes annotations
    #[command(after_help = after(annotate::EXAMPLES))]
    Annotate(annotate::Annotate),
    /// Shows what apply would change
    #[command(after_help = after(diff::EXAMPLES))]
    Diff(diff::Diff),
    /// Shows the result of apply in advance, as the types' plugins predict it
    #[command(after_help = after(plan::EXAMPLES))]
    Plan(plan::PlanCommand),
    /// Changes the type of resources, such as after a kind was renamed
    #[command(alias = "mv", after_help = after(move_resources::EXAMPLES))]
    Move(move_resources::Move),
    /// Makes a resource of something that exists outside, as its type's plugin describes it
    #[command(after_help = after(adopt::EXAMPLES))]
    Adopt(adopt::Adopt),
    /// Shows the state of the server, or of a resource by its controllers
    #[command(after_help = after(status::EXAMPLES))]
    Status(status::Status),
    /// Waits until resources have a condition or a value, exist, or are gone
    #[command(after_help = after(wait::EXAMPLES))]
    Wait(Box<wait::Wait>),
    /// Shows the versions of this program and of the server
    #[command(after_help = after(version::EXAMPLES))]
    Version(Box<version::Version>),
    /// Shows the server that commands reach, the caller and the place
    #[command(visible_alias = "cluster-info", after_help = after(info::EXAMPLES))]
    Info(Box<info::Info>),
    /// Versions of a plugin: waits for a load, shows the versions, returns to the previous one
    #[command(after_help = after(plugin::rollout::EXAMPLES))]
    Rollout(plugin::rollout::Rollout),
    /// Shows the server's activity, refreshed at intervals
    #[command(after_help = after(top::EXAMPLES))]
    Top(top::Top),
    /// Shows activity and failures of controllers
    #[command(after_help = after(controllers::EXAMPLES))]
    Controllers(controllers::Controllers),
    /// Shows what the server has of other regions, and what is missing
    #[command(after_help = after(regions::EXAMPLES))]
    Regions(Box<regions::Regions>),
    /// Shows the running servers that share the store
    #[command(after_help = after(members::EXAMPLES))]
    Members(Box<members::Members>),
    /// Makes the server read its configuration, and the files that it names, again
    #[command(after_help = after(reload::EXAMPLES))]
    Reload(Box<reload::Reload>),
    /// Collects figures, metrics, settings, and the state and logs of plugins in one archive
    #[command(after_help = after(debug::EXAMPLES))]
    Debug(Box<debug::Debug>),
    /// Writes resources as text, for import and apply
    #[command(after_help = after(export::EXAMPLES))]
    Export(export::Export),
    /// Reads resources from text and stores them, in any number
    #[command(after_help = after(import::EXAMPLES))]
    Import(import::Import),
    /// Service discovery: loads services, shows what proxies see
    #[command(after_help = after(catalog::EXAMPLES))]
    Catalog(catalog::Catalog),
    /// Shows the owners of a resource, and what it owns
    #[command(after_help = after(tree::EXAMPLES))]
    Tree(tree::Tree),
    /// Lists the types of the server
    #[command(visible_alias = "api-resources", after_help = after(types::EXAMPLES))]
    Types(types::Types),
    /// Shows the fields of a type
    #[command(after_help = after(explain::EXAMPLES))]
    Explain(explain::Explain),
    /// The commands of `consul resource`, with its arguments and its output
    #[command(after_help = after(resource::EXAMPLES))]
    Resource(resource::Resource),
    /// Functions of plugins: lists and calls them
    #[command(visible_alias = "functions", after_help = after(function::EXAMPLES))]
    Function(function::FunctionCommand),
    /// Tokens: the callers that the server knows
    #[command(after_help = after(access::token::EXAMPLES))]
    Token(access::token::Token),
    /// Policies: the rules that tokens name
    #[command(after_help = after(access::policy::EXAMPLES))]
    Policy(access::policy::Policy),
    /// Shows the caller's identity and rights
    #[command(after_help = after(access::auth::EXAMPLES))]
    Auth(access::auth::Auth),
    /// Stores a server's address and a token in a context, for later commands
    #[command(after_help = after(access::login::EXAMPLES))]
    Login(Box<access::login::Login>),
    /// Terraform and OpenTofu: the server's types as resources
    #[command(after_help = after(provider::EXAMPLES))]
    Provider(provider::Provider),
    /// Contexts: named servers with their settings
    #[command(visible_alias = "config", after_help = after(context::EXAMPLES))]
    Context(context::Context),
    /// TLS: makes certificates, shows when they expire
    #[command(after_help = after(tls::EXAMPLES))]
    Tls(tls::Tls),
    /// Writes a script that completes commands in a shell
    #[command(visible_alias = "completion", after_help = after(completions::EXAMPLES))]
    Completions(completions::Completions),
    /// Writes manual pages
    #[command(after_help = after(man::EXAMPLES))]
    Man(man::Man),
}

/// Builds the end of a command's help: examples, one a line, and the exit codes.
#[must_use]
pub fn after(examples: &str) -> String {
    let many = if examples.trim_end().lines().count() > 1 { "Examples" } else { "Example" };
    let examples: Vec<_> = examples.trim_end().lines().map(|line| format!("  {line}")).collect();
    format!("{many}:\n{}\n\n{}", examples.join("\n"), crate::EXIT_CODES)
}

/// Runs a command. `program` is the whole command line, from which manual pages are made.
///
/// # Errors
/// The failure, to be shown after "mortise: ".
pub fn run(command: Command, program: clap::Command) -> CommandFuture {
    Box::pin(async move {
        match command {
            Command::Apply(apply) => apply.run().await,
            Command::Create(create) => create.run().await,
            Command::Replace(replace) => replace.run().await,
            Command::Patch(patch) => patch.run().await,
            Command::Get(get) => get.run().await,
            Command::Describe(describe) => describe.run().await,
            Command::Events(events) => events.run().await,
            Command::Delete(delete) => delete.run().await,
            Command::Edit(edit) => edit.run().await,
            Command::Label(label) => label.run().await,
            Command::Annotate(annotate) => annotate.run().await,
            Command::Diff(diff) => diff.run().await,
            Command::Plan(plan) => plan.run().await,
            Command::Move(moves) => moves.run().await,
            Command::Adopt(adopt) => adopt.run().await,
            Command::Function(function) => function.run().await,
            Command::Status(status) => status.run().await,
            Command::Wait(wait) => wait.run().await,
            Command::Version(version) => version.run().await,
            Command::Info(info) => info.run().await,
            Command::Rollout(rollout) => rollout.run().await,
            Command::Top(top) => top.run().await,
            Command::Controllers(controllers) => controllers.run().await,
            Command::Regions(regions) => regions.run().await,
            Command::Members(members) => members.run().await,
            Command::Reload(reload) => reload.run().await,
            Command::Debug(debug) => debug.run().await,
            Command::Export(export) => export.run().await,
            Command::Import(import) => import.run().await,
            Command::Catalog(catalog) => catalog.run().await,
            Command::Tree(tree) => tree.run().await,
            Command::Protect(protect) => protect.run().await,
            Command::Types(types) => types.run().await,
            Command::Explain(explain) => explain.run().await,
            Command::Resource(resource) => resource.run(program).await,
            Command::Token(token) => token.run().await,
            Command::Policy(policy) => policy.run().await,
            Command::Auth(auth) => auth.run().await,
            Command::Login(login) => login.run().await,
            Command::Provider(provider) => provider.run().await,
            Command::Context(context) => context.run(),
            Command::Tls(tls) => tls.run().await,
            Command::Completions(completions) => completions.run(),
            Command::Man(man) => man.run(program),
        }
    })
}
