//! The commands, one in each file.
//!
//! A command is a struct of arguments with a `run`. Its doc comment is its help, and `after_help` gives examples and
//! the exit codes.

mod access;
mod adopt;
mod annotate;
mod apply;
mod backup;
mod catalog;
mod completions;
mod context;
mod controllers;
mod delete;
mod describe;
mod diff;
mod edit;
mod explain;
mod export;
mod function;
mod get;
mod import;
mod label;
mod man;
mod move_resources;
mod plan;
pub mod plugin;
mod protect;
pub mod provider;
mod prune;
mod regions;
mod resource;
mod server_status;
mod status;
mod tls;
mod top;
mod tree;
mod types;

use clap::Subcommand;

use crate::CommandFuture;

/// Every command that talks to a server, or about it.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make resources what files say: create them, or update them
    #[command(after_help = after(apply::EXAMPLES))]
    Apply(Box<apply::Apply>),
    /// Show resources
    #[command(visible_alias = "list", alias = "ls", after_help = after(get::EXAMPLES))]
    Get(Box<get::Get>),
    /// Show everything about a resource
    #[command(after_help = after(describe::EXAMPLES))]
    Describe(describe::Describe),
    /// Delete resources
    #[command(alias = "rm", after_help = after(delete::EXAMPLES))]
    Delete(Box<delete::Delete>),
    /// Keep a resource from being deleted
    #[command(after_help = after(protect::EXAMPLES))]
    Protect(protect::Protect),
    /// Change a resource in an editor
    #[command(after_help = after(edit::EXAMPLES))]
    Edit(edit::Edit),
    /// Set and remove labels, which selectors and queries go by
    #[command(after_help = after(label::EXAMPLES))]
    Label(label::Label),
    /// Set and remove annotations
    #[command(after_help = after(annotate::EXAMPLES))]
    Annotate(annotate::Annotate),
    /// Show what apply would change
    #[command(after_help = after(diff::EXAMPLES))]
    Diff(diff::Diff),
    /// Show what apply would come to, as the types' plugins see it
    #[command(after_help = after(plan::EXAMPLES))]
    Plan(plan::PlanCommand),
    /// Give resources another type, such as the new name of their kind
    #[command(alias = "mv", after_help = after(move_resources::EXAMPLES))]
    Move(move_resources::Move),
    /// Make a resource of something that exists outside, as its type's plugin describes it
    #[command(after_help = after(adopt::EXAMPLES))]
    Adopt(adopt::Adopt),
    /// Show how the server is doing, or how a resource fares by its controllers
    #[command(after_help = after(status::EXAMPLES))]
    Status(status::Status),
    /// Show what the server is doing, from one look to the next
    #[command(after_help = after(top::EXAMPLES))]
    Top(top::Top),
    /// Show what controllers do, and what they failed at
    #[command(after_help = after(controllers::EXAMPLES))]
    Controllers(controllers::Controllers),
    /// Show what the server has of other regions, and what it has not
    #[command(after_help = after(regions::EXAMPLES))]
    Regions(regions::Regions),
    /// Write everything that the server holds into one file, while it serves
    #[command(after_help = after(backup::EXAMPLES))]
    Backup(backup::Backup),
    /// Write resources as text, for import and apply
    #[command(after_help = after(export::EXAMPLES))]
    Export(export::Export),
    /// Write the resources of texts, however many
    #[command(after_help = after(import::EXAMPLES))]
    Import(import::Import),
    /// Service discovery: import services, see what proxies see
    #[command(after_help = after(catalog::EXAMPLES))]
    Catalog(catalog::Catalog),
    /// Show whom a resource belongs to, and what belongs to it
    #[command(after_help = after(tree::EXAMPLES))]
    Tree(tree::Tree),
    /// List the types that the server has
    #[command(visible_alias = "api-resources", after_help = after(types::EXAMPLES))]
    Types(types::Types),
    /// Show the fields of a type
    #[command(after_help = after(explain::EXAMPLES))]
    Explain(explain::Explain),
    /// The commands of `consul resource`, with its arguments and its output
    #[command(after_help = after(resource::EXAMPLES))]
    Resource(resource::Resource),
    /// Functions of plugins: list them, call one
    #[command(visible_alias = "functions", after_help = after(function::EXAMPLES))]
    Function(function::FunctionCommand),
    /// Tokens: who may do what
    #[command(after_help = after(access::token::EXAMPLES))]
    Token(access::token::Token),
    /// Policies: the rules that tokens name
    #[command(after_help = after(access::policy::EXAMPLES))]
    Policy(access::policy::Policy),
    /// What the caller is, and may do
    #[command(after_help = after(access::auth::EXAMPLES))]
    Auth(access::auth::Auth),
    /// Keep a server's address and a token in a context, so that commands need not say them
    #[command(after_help = after(access::login::EXAMPLES))]
    Login(Box<access::login::Login>),
    /// Terraform and OpenTofu: the server's types as resources
    #[command(after_help = after(provider::EXAMPLES))]
    Provider(provider::Provider),
    /// Named servers, so that commands need not say where
    #[command(after_help = after(context::EXAMPLES))]
    Context(context::Context),
    /// TLS: make certificates of one's own, see what expires when
    #[command(after_help = after(tls::EXAMPLES))]
    Tls(tls::Tls),
    /// Write a script that completes commands in a shell
    #[command(after_help = after(completions::EXAMPLES))]
    Completions(completions::Completions),
    /// Write manual pages
    #[command(after_help = after(man::EXAMPLES))]
    Man(man::Man),
}

/// The end of a command's help: examples, one a line, and the exit codes.
#[must_use]
pub fn after(examples: &str) -> String {
    let many = if examples.trim_end().lines().count() > 1 { "Examples" } else { "Example" };
    let examples: Vec<_> = examples.trim_end().lines().map(|line| format!("  {line}")).collect();
    format!("{many}:\n{}\n\n{}", examples.join("\n"), crate::EXIT_CODES)
}

/// Runs one. `program` is the whole command line, which completions and manual pages are made of.
///
/// # Errors
/// What went wrong, to be shown after "mortise: ".
pub fn run(command: Command, program: clap::Command) -> CommandFuture {
    Box::pin(async move {
        match command {
            Command::Apply(apply) => apply.run().await,
            Command::Get(get) => get.run().await,
            Command::Describe(describe) => describe.run().await,
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
            Command::Top(top) => top.run().await,
            Command::Controllers(controllers) => controllers.run().await,
            Command::Regions(regions) => regions.run().await,
            Command::Backup(backup) => backup.run().await,
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
            Command::Completions(completions) => completions.run(program),
            Command::Man(man) => man.run(program),
        }
    })
}
