//! Address of the server and connection to it: flags, the environment, the context, defaults, in this order.
//!
//! # Contract
//! A token goes only to the server that it is meant for: the token of a context is dropped when a flag or the
//! environment names another address, and a socket at a usual place is used only if it belongs to root or this user.
//! A fault of the settings is reported before any connection.

pub(crate) mod address;
pub(crate) mod contexts;
pub(crate) mod provider;
pub(crate) mod session;
pub(crate) mod target;
pub(crate) mod throttle;

use std::{os::unix::fs::MetadataExt as _, path::PathBuf, time::Duration};

use clap::{ArgAction, Args};

use self::{
    address::address,
    contexts::{Context, Contexts},
    session::Session,
    target::{Target, Tls},
};
use crate::{
    env::{self, Env},
    error::CliError,
    output::ui::{Color, Ui},
};

/// Longest time of a call, unless a flag or the environment says otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Default address of a server.
const DEFAULT_ADDR: &str = "127.0.0.1:8502";

/// Connection options of every command that talks to a server.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection")]
pub struct Connect {
    /// The server: HOST:PORT, http://HOST:PORT, https://HOST:PORT for TLS, or unix:///PATH [default: the socket of a
    /// server on this machine, or 127.0.0.1:8502] [env: MORTISE_ADDR]
    #[arg(long, value_name = "ADDR")]
    pub grpc_addr: Option<String>,
    /// A context of the contexts file, instead of the current one [env: MORTISE_CONTEXT]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// The token; others on this machine can see it, so prefer a file [env: MORTISE_TOKEN]
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    pub token: Option<String>,
    /// A file that holds the token [env: MORTISE_TOKEN_FILE]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Whether to use TLS; other TLS settings and https:// imply it [env: MORTISE_TLS]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          action = ArgAction::Set)]
    pub tls: Option<bool>,
    /// Certificates (PEM) to trust instead of the system's [env: MORTISE_CA_FILE]
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// This client's certificate (PEM) [env: MORTISE_CLIENT_CERT]
    #[arg(long, value_name = "FILE")]
    pub client_cert: Option<PathBuf>,
    /// The key of --client-cert (PEM) [env: MORTISE_CLIENT_KEY]
    #[arg(long, value_name = "FILE")]
    pub client_key: Option<PathBuf>,
    /// The name that the server's certificate must have, if not the address's [env: MORTISE_TLS_SERVER_NAME]
    #[arg(long, value_name = "NAME")]
    pub tls_server_name: Option<String>,
    /// Longest time for an answer, and for a wait where a command waits: 500ms, 30s, 5m [default: 30s] [env:
    /// MORTISE_TIMEOUT]
    #[arg(long, value_name = "DURATION", value_parser = crate::args::duration)]
    pub timeout: Option<Duration>,
    /// Colours in the output [default: auto] [env: NO_COLOR]
    #[arg(long, value_name = "WHEN")]
    pub color: Option<Color>,
}

impl Connect {
    /// Connects to the server.
    ///
    /// # Errors
    /// A fault of the flags, the environment or the contexts file ([`Exit::Usage`](crate::Exit::Usage)), or a server
    /// that does not answer ([`Exit::Unreachable`](crate::Exit::Unreachable)).
    pub async fn session(&self) -> Result<Session, CliError> {
        self.session_in(&env::process).await
    }

    /// Connects, with this environment.
    pub(crate) async fn session_in(&self, env: Env<'_>) -> Result<Session, CliError> {
        let target = self.resolve(env)?;
        let endpoint = target.endpoint()?;
        let channel = endpoint.connect().await.map_err(|e| target.unreachable(&e))?;
        Session::new(channel, target)
    }

    /// Returns the settings of this command's output.
    #[must_use]
    pub fn ui(&self) -> Ui {
        Ui::new(self.color.unwrap_or_default())
    }

    /// Decides between flags, environment, context and defaults.
    pub(crate) fn resolve(&self, env: Env<'_>) -> Result<Target, CliError> {
        let named = self.context.clone().or_else(|| env("MORTISE_CONTEXT"));
        let mut context = Contexts::load(env)?.pick(named.as_deref())?;
        let path = |flag: &Option<PathBuf>, name: &str, own: &Option<PathBuf>| {
            flag.clone().or_else(|| env(name).map(PathBuf::from)).or_else(|| own.clone())
        };
        let given = self.grpc_addr.clone().or_else(|| env("MORTISE_ADDR")).or_else(|| env("MORTISE_GRPC_ADDR"));
        if given.is_some() && context.grpc_addr.is_some() && given != context.grpc_addr {
            // The token is for the context's server; no other may see it.
            context.token_file = None;
        }
        let addr = given.or_else(|| context.grpc_addr.clone());
        let addr = match addr {
            Some(addr) => addr,
            None => local_socket(env).unwrap_or_else(|| DEFAULT_ADDR.to_owned()),
        };
        let (scheme_tls, addr) = address(&addr)?;
        let tls = Tls {
            ca_file: path(&self.ca_file, "MORTISE_CA_FILE", &context.ca_file),
            client_cert: path(&self.client_cert, "MORTISE_CLIENT_CERT", &context.client_cert),
            client_key: path(&self.client_key, "MORTISE_CLIENT_KEY", &context.client_key),
            server_name: self
                .tls_server_name
                .clone()
                .or_else(|| env("MORTISE_TLS_SERVER_NAME"))
                .or_else(|| context.tls_server_name.clone()),
        };
        let wanted = match self.tls {
            Some(tls) => Some(tls),
            None => env("MORTISE_TLS").map(|text| crate::args::boolean("MORTISE_TLS", &text)).transpose()?,
        };
        let tls = match (wanted, scheme_tls) {
            (Some(false), Some(true)) => {
                return Err(CliError::usage(format!("https://{addr} means TLS, and --tls=false forbids it")));
            }
            (Some(true), Some(false)) => {
                return Err(CliError::usage(format!("http://{addr} means no TLS, and --tls demands it")));
            }
            (Some(wanted), _) | (None, Some(wanted)) => wanted,
            (None, None) => context.tls.unwrap_or(tls != Tls::default()),
        }
        .then_some(tls);
        if let Some(tls) = &tls
            && tls.client_cert.is_some() != tls.client_key.is_some()
        {
            return Err(CliError::usage(
                "a client certificate and its key go together: --client-cert and --client-key",
            ));
        }
        let timeout = match self.timeout {
            Some(timeout) => timeout,
            None => match env("MORTISE_TIMEOUT") {
                Some(text) => crate::args::duration(&text)
                    .map_err(|e| CliError::usage("environment variable MORTISE_TIMEOUT").caused_by(e))?,
                None => DEFAULT_TIMEOUT,
            },
        };
        let token = self.token(env, &context)?;
        Ok(Target { addr, token, tls, timeout, partition: context.partition, namespace: context.namespace })
    }

    /// Returns the token of the flags, the environment or the context; a file beats a token from the same source.
    fn token(&self, env: Env<'_>, context: &Context) -> Result<Option<String>, CliError> {
        let (token, source) = if let Some(file) = &self.token_file {
            (read_token(file)?, "--token-file")
        } else if let Some(token) = &self.token {
            (token.clone(), "--token")
        } else if let Some(file) = env("MORTISE_TOKEN_FILE") {
            (read_token(&PathBuf::from(file))?, "MORTISE_TOKEN_FILE")
        } else if let Some(token) = env("MORTISE_TOKEN") {
            (token, "MORTISE_TOKEN")
        } else if let Some(file) = &context.token_file {
            (read_token(file)?, "token_file of the context")
        } else {
            return Ok(None);
        };
        let token = token.trim();
        if token.is_empty() {
            return Err(CliError::usage(format!("the token is empty ({source})")));
        }
        if !token.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(CliError::usage(format!("the token holds invalid characters ({source})")));
        }
        Ok(Some(token.to_owned()))
    }
}

/// Address of the socket of a server on this machine, if one answers at a usual place. The socket must belong to root
/// or this user: any other owner would get the token.
fn local_socket(env: Env<'_>) -> Option<String> {
    let data = env("MORTISE_DATA_DIR").map(PathBuf::from);
    let places = [data.unwrap_or_else(|| "data".into()), "/var/lib/mortise/data".into()];
    places.into_iter().find_map(|dir| {
        let path = std::path::absolute(dir.join("mortise.sock")).ok()?;
        let owner = std::fs::symlink_metadata(&path).ok()?.uid();
        let trusted = owner == 0 || owner == rustix::process::geteuid().as_raw();
        let answers = trusted && std::os::unix::net::UnixStream::connect(&path).is_ok();
        answers.then(|| format!("{}{}", address::UNIX, path.display()))
    })
}

fn read_token(file: &std::path::Path) -> Result<String, CliError> {
    std::fs::read_to_string(file).map_err(|e| CliError::file("cannot read the token file", file, e))
}
