//! `mortise token …`: credentials of callers. The secret is made here; the server keeps its hash.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use mortise_resource::{data, types};

use super::{
    secret::Secret,
    stored::{Collection, Stored},
};
use crate::{
    CliError, Connect, Exit, Table,
    connect::session::Session,
    output::ui::{self, Ui},
    resources::show::ago,
};

pub(in crate::commands) const EXAMPLES: &str = "\
mortise token create ci --policy artists-read --expires-in 720h --out ci.token
mortise token rotate ci --out ci.token
mortise token delete ci";

/// Status key of a token under which the server stores its last use.
const USE_KEY: &str = "mortise.io/use";

/// Arguments of `token`.
#[derive(Debug, Args)]
pub struct Token {
    #[command(subcommand)]
    command: TokenCommand,
}

/// Subcommands of `token`.
#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Creates a token and its secret, which is shown once
    #[command(after_help = crate::commands::after(
        "mortise token create ci --policy artists-read --expires-in 720h --out ci.token"
    ))]
    Create(Box<Create>),
    /// Lists all tokens
    #[command(visible_alias = "ls", after_help = crate::commands::after("mortise token list"))]
    List {
        #[command(flatten)]
        connect: Connect,
    },
    /// Shows one token, without its secret
    #[command(after_help = crate::commands::after("mortise token show ci"))]
    Show {
        /// The accessor id
        name: String,
        #[command(flatten)]
        connect: Connect,
    },
    /// Deletes tokens; their open streams end
    #[command(visible_alias = "revoke", after_help = crate::commands::after("mortise token delete ci"))]
    Delete {
        /// The accessor ids
        #[arg(required = true)]
        names: Vec<String>,
        #[command(flatten)]
        connect: Connect,
    },
    /// Gives a token a new secret; the old one stops working at once, or after --grace
    #[command(after_help = crate::commands::after("mortise token rotate ci --grace 1h --out ci.token"))]
    Rotate {
        /// The accessor id
        name: String,
        /// Time for which the old secret stays valid, too: 10m, 24h [default: none]
        #[arg(long, value_name = "DURATION", value_parser = crate::args::duration)]
        grace: Option<Duration>,
        /// Writes the secret into a file that only you may read, instead of showing it
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        #[command(flatten)]
        connect: Connect,
    },
}

/// Arguments of `token create`.
#[derive(Debug, Args)]
struct Create {
    /// The accessor id, which logs and refusals show [default: generated]
    name: Option<String>,
    /// A policy of the token; can be given several times
    #[arg(long = "policy", value_name = "NAME", required = true)]
    policies: Vec<String>,
    /// A description for people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Time until the token expires: 30m, 720h [default: never]
    #[arg(long, value_name = "DURATION", value_parser = crate::args::duration)]
    expires_in: Option<Duration>,
    /// Default partition of its requests
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// Default namespace of its requests
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Writes the secret into a file that only you may read, instead of showing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    connect: Connect,
}

fn tokens<'a>(session: &'a Session, ui: &'a Ui) -> Collection<'a> {
    Collection { session, kind: types::token(), noun: "token", ui }
}

impl Token {
    pub(in crate::commands) async fn run(self) -> Result<Exit, CliError> {
        match self.command {
            TokenCommand::Create(create) => create.run().await?,
            TokenCommand::List { connect } => {
                let session = connect.session().await?;
                let ui = connect.ui();
                let all = tokens(&session, &ui).list::<data::Token>().await?;
                ui::print(table(&all).render(&ui))?;
            }
            TokenCommand::Show { name, connect } => {
                let session = connect.session().await?;
                ui::print(show(&tokens(&session, &connect.ui()).get(&name).await?))?;
            }
            TokenCommand::Delete { names, connect } => {
                let session = connect.session().await?;
                for name in names {
                    tokens(&session, &connect.ui()).delete::<data::Token>(&name).await?;
                    ui::line(format!("token {name} deleted"))?;
                }
            }
            TokenCommand::Rotate { name, grace, out, connect } => rotate(&name, grace, out, &connect).await?,
        }
        Ok(Exit::Done)
    }
}

async fn rotate(name: &str, grace: Option<Duration>, out: Option<PathBuf>, connect: &Connect) -> Result<(), CliError> {
    let (session, ui) = (connect.session().await?, connect.ui());
    let stored = tokens(&session, &ui).get::<data::Token>(name).await?;
    let secret = Secret::random()?;
    let before = stored.data;
    let previous_secret_sha256 = if grace.is_some() { before.secret_sha256.clone() } else { Vec::new() };
    let token = data::Token {
        secret_sha256: secret.sha256(),
        previous_secret_sha256,
        previous_expires_at: grace.map(|grace| (std::time::SystemTime::now() + grace).into()),
        ..before
    };
    hand_over(name, &secret, out.as_deref(), async {
        tokens(&session, &ui).put(name, &token, Some(stored.resource)).await?;
        Ok(format!("token {name} has a new secret"))
    })
    .await
}

impl Create {
    async fn run(self) -> Result<(), CliError> {
        let (session, ui) = (self.connect.session().await?, self.connect.ui());
        let tokens = tokens(&session, &ui);
        let name = self.name.unwrap_or_else(|| ulid::Ulid::generate().to_string().to_lowercase());
        if tokens.find::<data::Token>(&name).await?.is_some() {
            return Err(CliError::failed(format!("token {name} exists already"))
                .remedy(format!("`mortise token rotate {name}` gives it a new secret")));
        }
        for policy in self.policies.iter().filter(|policy| *policy != super::policy::GLOBAL_MANAGEMENT) {
            super::policy::policies(&session, &ui).get::<data::Policy>(policy).await?;
        }
        let secret = Secret::random()?;
        let expires_at = self.expires_in.map(|after| (std::time::SystemTime::now() + after).into());
        let token = data::Token {
            description: self.description.unwrap_or_default(),
            secret_sha256: secret.sha256(),
            policies: self.policies,
            partition: self.partition.unwrap_or_default(),
            namespace: self.namespace.unwrap_or_default(),
            expires_at,
            ..data::Token::default()
        };
        hand_over(&name, &secret, self.out.as_deref(), async {
            tokens.put(&name, &token, None).await?;
            Ok(format!("token {name} created"))
        })
        .await
    }
}

/// Gives the secret to the user and the token to the server, in this order: a token in use must not be without its
/// secret, even if the command or the connection ends. The file that the secret replaces may hold the one that this
/// command uses, so the secret stays beside it until the server has answered.
async fn hand_over(
    name: &str,
    secret: &Secret,
    out: Option<&std::path::Path>,
    store: impl Future<Output = Result<String, CliError>>,
) -> Result<(), CliError> {
    let Some(path) = out else {
        ui::line(format!("the secret of token {name}, which is not shown again:\n{}", secret.reveal()))?;
        return match store.await {
            Ok(done) => ui::line(done),
            Err(error) if is_refusal(&error) => Err(error.detail("the secret above is not valid")),
            Err(error) => Err(error.detail("the server may have stored the token; then the secret above is valid")),
        };
    };
    let kept = secret.keep(path)?;
    match store.await {
        Ok(done) => {
            kept.adopt()?;
            ui::line(format!("{done}; its secret is in {}", path.display()))
        }
        Err(error) if is_refusal(&error) => {
            kept.discard();
            Err(error)
        }
        Err(error) => {
            let kept = kept.kept_in().display();
            Err(error.detail(format!("the server may have stored the token; then its secret is the one in {kept}")))
        }
    }
}

/// Whether an error shows that nothing was stored. A server that ends the call of a changed caller answers
/// `Unauthenticated` after the change.
fn is_refusal(error: &CliError) -> bool {
    use tonic::Code;
    let refusals = [
        Code::InvalidArgument,
        Code::NotFound,
        Code::AlreadyExists,
        Code::PermissionDenied,
        Code::ResourceExhausted,
        Code::FailedPrecondition,
        Code::Aborted,
        Code::Unimplemented,
    ];
    error.code.is_some_and(|code| refusals.contains(&code))
}

/// The last use, which the server stores about once an hour.
fn last_use(token: &Stored<data::Token>) -> String {
    let status = token.resource.status.get(USE_KEY).and_then(|status| status.updated_at);
    match status.and_then(|at| std::time::SystemTime::try_from(at).ok()) {
        Some(at) => format!("{} ago", ago(at)),
        None => "unknown".to_owned(),
    }
}

fn expires(token: &data::Token) -> String {
    match token.expires_at {
        None => "never".to_owned(),
        Some(expiry) => match std::time::SystemTime::try_from(expiry) {
            Ok(time) if time <= std::time::SystemTime::now() => format!("expired {} ago", ago(time)),
            _ => expiry.to_string(),
        },
    }
}

fn table(all: &[Stored<data::Token>]) -> Table {
    let mut table = Table::new(["accessor id", "policies", "expires", "last used", "description"]);
    for token in all {
        table.row(vec![
            token.name().into(),
            token.data.policies.join(",").into(),
            expires(&token.data).into(),
            last_use(token).into(),
            token.data.description.as_str().into(),
        ]);
    }
    table
}

fn show(token: &Stored<data::Token>) -> String {
    let data = &token.data;
    let place = |unit: &str| if unit.is_empty() { "default".to_owned() } else { unit.to_owned() };
    let lines = [
        ("accessor id", token.name().to_owned()),
        ("description", data.description.clone()),
        ("policies", data.policies.join(", ")),
        ("partition", place(&data.partition)),
        ("namespace", place(&data.namespace)),
        ("expires", expires(data)),
        ("old secret", data.previous_expires_at.map(|at| format!("valid until {at}")).unwrap_or_default()),
        ("last used", last_use(token)),
    ];
    lines
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name:<14}{value}\n"))
        .collect()
}
