//! `mortise auth …`: identity and rights of the caller.

use clap::{Args, Subcommand};
use mortise_resource::{
    data::{CanIRequest, WhoAmIRequest},
    pb,
};

use crate::{
    CliError, Connect, Exit,
    output::json::{self, AnswerFormat},
    output::ui,
    resources::{catalog::Catalog, ids, places::PlacedName, tenancy::Tenancy},
};

pub(in crate::commands) const EXAMPLES: &str = "\
mortise auth whoami
mortise auth can-i write demo.v2.Artist korn --namespace blue --token-file ci.token";

/// Arguments of `auth`.
#[derive(Debug, Args)]
pub struct Auth {
    #[command(subcommand)]
    command: AuthCommand,
}

/// Subcommands of `auth`.
#[derive(Debug, Subcommand)]
enum AuthCommand {
    /// Shows how the server identifies the caller
    #[command(name = "whoami", after_help = crate::commands::after("mortise auth whoami --token-file ci.token"))]
    WhoAmI(Box<WhoAmI>),
    /// Checks whether the caller may do something: exit code 0 for yes, 1 for no, with the reason
    #[command(after_help = crate::commands::after(
        "mortise auth can-i write demo.v2.Artist korn\nmortise auth can-i create artists\nmortise auth can-i list artists --namespace '*'\n\
         mortise auth can-i write artist korn --as ci\n\
         mortise auth can-i certify web.mesh.example --as web"
    ))]
    CanI(Box<CanI>),
}

/// Arguments of `auth whoami`.
#[derive(Debug, Args)]
struct WhoAmI {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: AnswerFormat,
    #[command(flatten)]
    connect: Connect,
}

/// Arguments of `auth can-i`.
#[derive(Debug, Args)]
struct CanI {
    /// read (or get), list, watch, write (or create, update, patch), delete, or escalate: writing a token or policy that
    /// grants more than the caller has; or certify: getting a certificate for an identity
    verb: String,
    /// The type, as other commands take it, or TYPE/NAME; for certify, the identity
    #[arg(value_name = "TYPE")]
    kind: String,
    /// The resource; without it, one of a name that no rule mentions
    name: Option<String>,
    /// Prints nothing: the exit code is the answer
    #[arg(short, long)]
    quiet: bool,
    /// Asks about the holder of this token, which the caller may read
    #[arg(long = "as", value_name = "ACCESSOR-ID", conflicts_with = "policies")]
    as_token: Option<String>,
    /// Asks about a holder of this policy, which the caller may read; can be given several times
    #[arg(long = "policy", value_name = "NAME")]
    policies: Vec<String>,
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

impl Auth {
    pub(in crate::commands) async fn run(self) -> Result<Exit, CliError> {
        match self.command {
            AuthCommand::WhoAmI(who) => who_am_i(who.output, &who.connect).await,
            AuthCommand::CanI(can_i) => can_i.run().await,
        }
    }
}

async fn who_am_i(output: AnswerFormat, connect: &Connect) -> Result<Exit, CliError> {
    let session = connect.session().await?;
    let who = session.call("whoami", session.auth().who_am_i(WhoAmIRequest {})).await?;
    if output == AnswerFormat::Json {
        ui::print(json::message("mortise.v1.WhoAmIResponse", &who)?)?;
        return Ok(Exit::Done);
    }
    if !who.enforced {
        ui::line("every caller may do everything: the server checks no tokens (acl.enabled)")?;
        return Ok(Exit::Done);
    }
    let place = |unit: String| if unit.is_empty() { "default".to_owned() } else { unit };
    let policies = if who.policies.is_empty() { "none".to_owned() } else { who.policies.join(", ") };
    let expires = who.expires_at.map_or_else(|| "never".to_owned(), |time| time.to_string());
    let lines = [
        ("caller", who.name),
        ("policies", policies),
        ("partition", place(who.partition)),
        ("namespace", place(who.namespace)),
        ("expires", expires),
    ];
    for fault in &who.policy_faults {
        connect.ui().warn(&format!("{fault}; the policy grants nothing until it is written again"));
    }
    ui::print(lines.map(|(name, value)| format!("{name:<14}{value}\n")).concat())?;
    Ok(Exit::Done)
}

/// Name in a question without one: a name that no rule mentions.
const ANY_NAME: &str = "any";

/// The server's verb for a verb of kubectl.
fn verb(text: &str) -> Result<&str, CliError> {
    match text {
        "get" => Ok("read"),
        "create" | "update" | "patch" | "apply" | "replace" | "edit" => Ok("write"),
        "deletecollection" => Ok("delete"),
        "read" | "list" | "watch" | "write" | "delete" | "escalate" | "certify" => Ok(text),
        _ => Err(CliError::usage(format!("can-i knows no verb {text:?}"))
            .remedy("use read, list, watch, write, delete, escalate or certify")),
    }
}

impl CanI {
    /// Asks. The exit code 1 is a no, and nothing else: a question that fails ends with 2.
    async fn run(self) -> Result<Exit, CliError> {
        self.ask().await.map_err(|error| match error.exit {
            Exit::Failed => CliError { exit: Exit::Usage, ..error },
            _ => error,
        })
    }

    async fn ask(self) -> Result<Exit, CliError> {
        let verb = verb(&self.verb)?;
        let (session, id) = match verb {
            "certify" if self.name.is_some() => {
                return Err(CliError::usage("certify takes an identity alone").remedy("leave out the last word"));
            }
            "certify" => (self.connect.session().await?, pb::Id { name: self.kind, ..pb::Id::default() }),
            _ => {
                let (session, catalog) = Catalog::connect(&self.connect).await?;
                let words: Vec<String> = [Some(self.kind), self.name].into_iter().flatten().collect();
                let id = match words.as_slice() {
                    [ty] if !ty.contains('/') => {
                        let any = if matches!(verb, "list" | "watch") { "" } else { ANY_NAME };
                        let ty = catalog.find_type(ty)?;
                        ids::id(&ty, &PlacedName::plain(any), &self.tenancy, &session, &catalog)
                    }
                    words => ids::one(words, &catalog, &self.tenancy, &session)?,
                };
                (session, id)
            }
        };
        let as_token = self.as_token.unwrap_or_default();
        let request = CanIRequest { verb: verb.to_owned(), id: Some(id), as_token, as_policies: self.policies };
        let answer = session.call("can-i", session.auth().can_i(request)).await?;
        let (text, exit) = match answer.allowed {
            true => ("yes".to_owned(), Exit::Done),
            false => (format!("no: {}", answer.reason), Exit::Failed),
        };
        if !self.quiet {
            ui::line(text)?;
        }
        Ok(exit)
    }
}
