//! Where the server is and how it is spoken to: flags, the environment, the context, defaults, in this order.

use std::{path::PathBuf, time::Duration};

use clap::{ArgAction, Args, ValueEnum};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::{
    CliError,
    contexts::{Context, Contexts},
    error::innermost,
    session::Session,
    ui::Ui,
};

/// Looks up an environment variable.
pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The process's own environment.
pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Where a server listens unless something else is said.
const DEFAULT_ADDR: &str = "127.0.0.1:8502";

/// The port of an address that names none.
const DEFAULT_PORT: u16 = 8502;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What every command takes that talks to a server.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection")]
pub struct Connect {
    /// The server: HOST:PORT, http://HOST:PORT, or https://HOST:PORT for TLS [default: 127.0.0.1:8502] [env: MORTISE_GRPC_ADDR]
    #[arg(long, value_name = "ADDR")]
    pub grpc_addr: Option<String>,
    /// A context of the contexts file, instead of the current one [env: MORTISE_CONTEXT]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// The token; others on this machine can see it, so rather use a file [env: MORTISE_TOKEN]
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
    /// The name that the server's certificate has to be for, if not the address's [env: MORTISE_TLS_SERVER_NAME]
    #[arg(long, value_name = "NAME")]
    pub tls_server_name: Option<String>,
    /// How long an answer may take, and how long to wait where a command waits: 500ms, 30s, 5m [default: 30s] [env: MORTISE_TIMEOUT]
    #[arg(long, value_name = "DURATION", value_parser = crate::args::duration)]
    pub timeout: Option<Duration>,
    /// Colours in the output [default: auto] [env: NO_COLOR]
    #[arg(long, value_name = "WHEN")]
    pub color: Option<Color>,
}

/// When output is coloured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How the server is reached, decided.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// `host:port`.
    pub(crate) addr: String,
    pub(crate) token: Option<String>,
    /// `None` means in the clear.
    pub(crate) tls: Option<Tls>,
    pub(crate) timeout: Duration,
    /// Units that the context names.
    pub(crate) partition: Option<String>,
    pub(crate) namespace: Option<String>,
}

/// What TLS uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) client_cert: Option<PathBuf>,
    pub(crate) client_key: Option<PathBuf>,
    pub(crate) server_name: Option<String>,
}

impl Connect {
    /// Connects to the server.
    ///
    /// # Errors
    /// What is wrong with the flags, the environment or the contexts file ([`Exit::Usage`](crate::Exit::Usage)), or that
    /// nobody answers ([`Exit::Unreachable`](crate::Exit::Unreachable)).
    pub async fn session(&self) -> Result<Session, CliError> {
        self.session_in(&env).await
    }

    /// The same, in an environment.
    pub(crate) async fn session_in(&self, env: Env<'_>) -> Result<Session, CliError> {
        let target = self.resolve(env)?;
        let endpoint = target.endpoint()?;
        let channel = endpoint.connect().await.map_err(|e| target.unreachable(&e))?;
        Session::new(channel, target)
    }

    /// How this command shows things.
    #[must_use]
    pub fn ui(&self) -> Ui {
        Ui::new(self.color.unwrap_or_default())
    }

    /// Decides between flags, environment, context and defaults.
    pub(crate) fn resolve(&self, env: Env<'_>) -> Result<Target, CliError> {
        let named = self.context.clone().or_else(|| env("MORTISE_CONTEXT"));
        let context = Contexts::load(env)?.pick(named.as_deref())?;
        let path = |flag: &Option<PathBuf>, name: &str, own: &Option<PathBuf>| {
            flag.clone().or_else(|| env(name).map(PathBuf::from)).or_else(|| own.clone())
        };
        let addr = self.grpc_addr.clone().or_else(|| env("MORTISE_GRPC_ADDR")).or_else(|| context.grpc_addr.clone());
        let (scheme_tls, addr) = address(addr.as_deref().unwrap_or(DEFAULT_ADDR))?;
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
                return Err(CliError::usage(format!("http://{addr} means no TLS, and --tls asks for it")));
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
                    .map_err(|e| CliError::usage(format!("environment variable MORTISE_TIMEOUT: {e}")))?,
                None => Duration::from_secs(30),
            },
        };
        let token = self.token(env, &context)?;
        Ok(Target { addr, token, tls, timeout, partition: context.partition, namespace: context.namespace })
    }

    /// A flag's token, the environment's, or the context's; where both a token and a file are there, the file.
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
            return Err(CliError::usage(format!("the token holds characters that no token has ({source})")));
        }
        Ok(Some(token.to_owned()))
    }
}

fn read_token(file: &std::path::Path) -> Result<String, CliError> {
    std::fs::read_to_string(file).map_err(|e| CliError::file("cannot read the token file", file, &e))
}

/// Whether a scheme asks for TLS or against it, and `host:port`.
pub(crate) fn address(text: &str) -> Result<(Option<bool>, String), CliError> {
    let wrong = |why: &str| {
        CliError::usage(format!("the server's address {text:?} {why}"))
            .remedy("--grpc-addr takes HOST:PORT, http://HOST:PORT or https://HOST:PORT")
    };
    let (tls, rest) = match text.split_once("://") {
        Some(("https", rest)) => (Some(true), rest),
        Some(("http", rest)) => (Some(false), rest),
        Some((scheme, _)) => return Err(wrong(&format!("has the unknown scheme {scheme:?}"))),
        None => (None, text),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains(['/', '?', '#', '@']) || rest.contains(char::is_whitespace) {
        return Err(wrong("is more than a host and a port"));
    }
    let (host, port) = match rest.strip_prefix('[') {
        Some(inner) => match inner.split_once(']') {
            Some((host, "")) => (format!("[{host}]"), None),
            Some((host, port)) => {
                (format!("[{host}]"), Some(port.strip_prefix(':').ok_or_else(|| wrong("is malformed"))?))
            }
            None => return Err(wrong("lacks a closing bracket")),
        },
        None => match rest.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err(wrong("needs brackets around an IPv6 address")),
            Some((host, port)) => (host.to_owned(), Some(port)),
            None => (rest.to_owned(), None),
        },
    };
    if host.is_empty() || host == "[]" {
        return Err(wrong("has no host"));
    }
    let port = match port {
        None => DEFAULT_PORT,
        Some(port) => port.parse::<u16>().ok().filter(|p| *p > 0).ok_or_else(|| wrong("has no valid port"))?,
    };
    Ok((tls, format!("{host}:{port}")))
}

impl Target {
    /// With its scheme.
    pub(crate) fn url(&self) -> String {
        format!("{}://{}", if self.tls.is_some() { "https" } else { "http" }, self.addr)
    }

    fn endpoint(&self) -> Result<Endpoint, CliError> {
        let wrong = |e: tonic::transport::Error| CliError::usage(format!("{}: {}", self.url(), innermost(&e)));
        let endpoint = Endpoint::from_shared(self.url())
            .map_err(wrong)?
            .connect_timeout(CONNECT_TIMEOUT.min(self.timeout))
            .http2_keep_alive_interval(Duration::from_secs(30))
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(4 << 20)
            .tcp_nodelay(true);
        match &self.tls {
            None => Ok(endpoint),
            Some(tls) => endpoint.tls_config(tls.config()?).map_err(wrong),
        }
    }

    /// Nobody answers, or not as they should.
    pub(crate) fn unreachable(&self, error: &tonic::transport::Error) -> CliError {
        let error = CliError::new(
            crate::Exit::Unreachable,
            format!("cannot reach the server at {}: {}", self.url(), innermost(error)),
        );
        // rustls' word for an answer that is no TLS.
        if error.message.contains("InvalidContentType") {
            return error.remedy("what listens there does not speak TLS: leave out --tls, https:// and certificates");
        }
        error.remedy(crate::error::UNREACHABLE)
    }
}

impl Tls {
    fn config(&self) -> Result<ClientTlsConfig, CliError> {
        let read = |file: &PathBuf| std::fs::read(file).map_err(|e| CliError::file("cannot read", file, &e));
        let mut config = match &self.ca_file {
            Some(file) => {
                let pem = if file.is_dir() { all_in(file)? } else { read(file)? };
                if !pem.windows(27).any(|w| w == b"-----BEGIN CERTIFICATE-----") {
                    return Err(CliError::usage(format!("{} holds no certificate (PEM)", file.display())));
                }
                ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem))
            }
            None => ClientTlsConfig::new().with_native_roots(),
        };
        if let (Some(cert), Some(key)) = (&self.client_cert, &self.client_key) {
            config = config.identity(Identity::from_pem(read(cert)?, read(key)?));
        }
        if let Some(name) = &self.server_name {
            config = config.domain_name(name);
        }
        Ok(config)
    }
}

/// Every certificate in a directory, in one.
fn all_in(dir: &std::path::Path) -> Result<Vec<u8>, CliError> {
    let wrong = |e| CliError::file("cannot read", dir, &e);
    let mut pem = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.is_file() {
            pem.extend(std::fs::read(&path).map_err(|e| CliError::file("cannot read", &path, &e))?);
            pem.push(b'\n');
        }
    }
    Ok(pem)
}
