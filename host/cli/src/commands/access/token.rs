//! `mortise token …`: credentials of callers. The secret is made here; the server keeps its hash.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use mortise_resource::{data, types};

use super::{
    secret::Secret,
    stored::{Collection, Stored},
};
use crate::{CliError, Connect, Exit, Table, connect::session::Session, output::ui, resources::show::ago};

pub(in crate::commands) const EXAMPLES: &str = "\
mortise token create ci --policy artists-read --expires-in 720h --out ci.token
mortise token rotate ci --out ci.token
mortise token delete ci";

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
    /// Gives a token a new secret; the old one stops working at once
    #[command(after_help = crate::commands::after("mortise token rotate ci --out ci.token"))]
    Rotate {
        /// The accessor id
        name: String,
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

fn tokens(session: &Session) -> Collection<'_> {
    Collection { session, kind: types::token(), noun: "token" }
}

impl Token {
    pub(in crate::commands) async fn run(self) -> Result<Exit, CliError> {
        match self.command {
            TokenCommand::Create(create) => create.run().await?,
            TokenCommand::List { connect } => {
                let session = connect.session().await?;
                let all = tokens(&session).list::<data::Token>().await?;
                ui::print(table(&all).render(&connect.ui()))?;
            }
            TokenCommand::Show { name, connect } => {
                let session = connect.session().await?;
                ui::print(show(&tokens(&session).get(&name).await?))?;
            }
            TokenCommand::Delete { names, connect } => {
                let session = connect.session().await?;
                for name in names {
                    tokens(&session).delete::<data::Token>(&name).await?;
                    ui::line(format!("token {name} deleted"))?;
                }
            }
            TokenCommand::Rotate { name, out, connect } => {
                let session = connect.session().await?;
                let stored = tokens(&session).get::<data::Token>(&name).await?;
                let secret = Secret::random()?;
                let token = data::Token { secret_sha256: secret.sha256(), ..stored.data };
                hand_over(&secret, out.as_deref(), async {
                    tokens(&session).put(&name, &token, Some(stored.resource)).await?;
                    Ok(format!("token {name} has a new secret"))
                })
                .await?;
            }
        }
        Ok(Exit::Done)
    }
}

impl Create {
    async fn run(self) -> Result<(), CliError> {
        let session = self.connect.session().await?;
        let tokens = tokens(&session);
        let name = self.name.unwrap_or_else(|| ulid::Ulid::generate().to_string().to_lowercase());
        if tokens.find::<data::Token>(&name).await?.is_some() {
            return Err(CliError::failed(format!("token {name} exists already"))
                .remedy(format!("`mortise token rotate {name}` gives it a new secret")));
        }
        for policy in self.policies.iter().filter(|policy| *policy != super::policy::GLOBAL_MANAGEMENT) {
            super::policy::policies(&session).get::<data::Policy>(policy).await?;
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
        };
        hand_over(&secret, self.out.as_deref(), async {
            tokens.put(&name, &token, None).await?;
            Ok(format!("token {name} created"))
        })
        .await
    }
}

/// Gives the token to the server and the secret to the user. The file is written before the call and moved into place
/// after it: the file that it replaces may hold the secret that is still valid, or the one that this command uses.
async fn hand_over(
    secret: &Secret,
    out: Option<&std::path::Path>,
    store: impl Future<Output = Result<String, CliError>>,
) -> Result<(), CliError> {
    match out {
        Some(path) => {
            let file = secret.prepare(path)?;
            let stored = store.await?;
            file.replace_durably().map_err(CliError::fs)?;
            ui::line(format!("{stored}; its secret is in {}", path.display()))
        }
        None => {
            let stored = store.await?;
            ui::line(format!("{stored}; its secret, which is not shown again:\n{}", secret.reveal()))
        }
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
    let mut table = Table::new(["accessor id", "policies", "expires", "description"]);
    for token in all {
        table.row(vec![
            token.name().into(),
            token.data.policies.join(",").into(),
            expires(&token.data).into(),
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
    ];
    lines
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name:<14}{value}\n"))
        .collect()
}
