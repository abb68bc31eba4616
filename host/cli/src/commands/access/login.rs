//! `mortise login`: a context with a server's address and a file with the token.

use std::{
    io::{IsTerminal as _, Read as _},
    path::{Path, PathBuf},
};

use clap::Args;
use mortise_durable_fs::make_private_dir;
use mortise_resource::{data::WhoAmIRequest, name};

use super::secret;
use crate::{
    CliError, Connect, Exit,
    connect::contexts::Contexts,
    env::{self, Env},
    output::ui,
};

pub(in crate::commands) const EXAMPLES: &str = "\
mortise login home --grpc-addr https://home.example.net:8502 --ca-file ca.pem < token
mortise login --token-file /var/lib/mortise/bootstrap-token";

/// Arguments of `login`. The token comes from --token-file, --token or standard input.
#[derive(Debug, Args)]
pub struct Login {
    /// The context to create or change; it becomes the current one
    #[arg(default_value = "default")]
    name: String,
    #[command(flatten)]
    connect: Connect,
}

impl Login {
    pub(in crate::commands) async fn run(self) -> Result<Exit, CliError> {
        let env: Env<'_> = &env::process;
        let Self { name, mut connect } = self;
        if name::fault(&name).is_some() {
            let what = format!("{name:?} is not a valid name for a context; use lower-case letters, digits and dashes");
            return Err(CliError::usage(what));
        }
        let mut contexts = Contexts::load(env)?;
        if contexts.context.contains_key(&name) && connect.context.is_none() {
            connect.context = Some(name.clone());
        }
        if connect.token.is_none() && connect.token_file.is_none() {
            connect.token = Some(read_token()?);
        }
        let target = connect.resolve(env)?;
        let token = target.token.clone().unwrap_or_default();
        let session = connect.session().await?;
        let who = session.call("login", session.auth().who_am_i(WhoAmIRequest {})).await?;
        if !who.enforced {
            connect.ui().warn("the server checks no tokens: every caller may do everything");
        }

        let file = token_file(env, &name)?;
        secret::write(&file, &token)?;
        let mut entry = contexts.context.get(&name).cloned().unwrap_or_default();
        entry.grpc_addr = Some(target.addr.clone());
        entry.token_file = Some(file);
        entry.tls = Some(target.tls.is_some());
        // Commands work where the token's holder works; `apply` needs the place before it asks the server.
        let place = |unit: String| Some(unit).filter(|unit| !unit.is_empty());
        entry.partition = place(who.partition).or(entry.partition);
        entry.namespace = place(who.namespace).or(entry.namespace);
        if let Some(tls) = target.tls {
            let whole = |path: Option<PathBuf>| path.map(|path| std::path::absolute(&path).unwrap_or(path));
            entry.ca_file = whole(tls.ca_file);
            entry.client_cert = whole(tls.client_cert);
            entry.client_key = whole(tls.client_key);
            entry.tls_server_name = tls.server_name;
        }
        contexts.context.insert(name.clone(), entry);
        contexts.current = Some(name.clone());
        let path = contexts.store(env)?;
        ui::line(format!("logged in to {} as {}", session.url(), who.name))?;
        ui::line(format!("context {name:?} is the current one, in {}", path.display()))?;
        Ok(Exit::Done)
    }
}

/// Reads the token from standard input, which holds one line.
fn read_token() -> Result<String, CliError> {
    /// Longest token, in bytes.
    const MOST: u64 = 4_096;
    if std::io::stdin().is_terminal() {
        return Err(
            CliError::usage("the token is missing").remedy("give --token-file FILE, or the token on standard input")
        );
    }
    let mut text = String::new();
    let read = std::io::stdin().take(MOST).read_to_string(&mut text);
    read.map_err(|e| CliError::usage("cannot read the token from standard input").caused_by(e))?;
    Ok(text.trim().to_owned())
}

/// Path of a context's token file, beside the contexts file.
fn token_file(env: Env<'_>, name: &str) -> Result<PathBuf, CliError> {
    let contexts = Contexts::path(env).ok_or_else(|| {
        CliError::usage("cannot tell where to store the token").remedy("set MORTISE_CONTEXTS to a file's name")
    })?;
    let dir = contexts.parent().unwrap_or(Path::new(".")).join("tokens");
    make_private_dir(&dir).map_err(CliError::fs)?;
    Ok(dir.join(name))
}
