//! Connection settings in Consul's terms: its flags, then its environment, then Mortise's.

use super::{
    command::ConsulCommand,
    error::{ConsulError, wording},
};
use crate::{Connect, Session, env, resources::catalog::Catalog};

impl ConsulCommand {
    /// Connects, and fetches the types of the server.
    pub(super) async fn connect(&self) -> Result<(Session, Catalog), ConsulError> {
        if self.flags.get("http-addr").is_some() {
            return Err("-http-addr is not supported, since mortise speaks gRPC: use -grpc-addr".to_owned().into());
        }
        if consul_env("TLS_VERIFY").is_some_and(|verify| is_no(&verify)) {
            return Err(
                "CONSUL_GRPC_TLS_VERIFY=false is not supported: name the certificates to trust with CONSUL_GRPC_CACERT"
                    .to_owned()
                    .into(),
            );
        }
        let flag = |name: &str| self.flags.get(name).map(str::to_owned);
        let path = |name: &str| self.flags.get(name).map(std::path::PathBuf::from);
        let token_file = path("token-file");
        let connect = Connect {
            grpc_addr: flag("grpc-addr"),
            // The file takes precedence.
            token: if token_file.is_some() { None } else { flag("token") },
            token_file,
            tls: self.flags.is_on("grpc-tls"),
            ca_file: path("ca-file").or_else(|| path("ca-path")),
            client_cert: path("client-cert"),
            client_key: path("client-key"),
            tls_server_name: flag("tls-server-name"),
            ..Connect::default()
        };
        let session = connect.session_in(&environment).await.map_err(wording)?;
        let catalog = Catalog::fetch(&session).await.map_err(wording)?;
        Ok((session, catalog))
    }
}

/// Looks up an environment variable; Consul's variables take precedence over Mortise's.
fn environment(name: &str) -> Option<String> {
    let consul = match name {
        "MORTISE_ADDR" | "MORTISE_GRPC_ADDR" => consul_env("ADDR"),
        "MORTISE_TOKEN" => consul_env("TOKEN"),
        "MORTISE_TOKEN_FILE" => match consul_env("TOKEN_FILE") {
            // A file beats a token, but Mortise's file does not beat Consul's token.
            None if consul_env("TOKEN").is_some() => return None,
            file => file,
        },
        "MORTISE_TLS" => consul_env("TLS").map(|text| if is_no(&text) { "false".into() } else { text.to_lowercase() }),
        "MORTISE_CA_FILE" => consul_env("CACERT").or_else(|| consul_env("CAPATH")),
        "MORTISE_CLIENT_CERT" => consul_env("CLIENT_CERT"),
        "MORTISE_CLIENT_KEY" => consul_env("CLIENT_KEY"),
        _ => None,
    };
    consul.or_else(|| env::process(name))
}

/// Go's spellings of false.
fn is_no(text: &str) -> bool {
    matches!(text, "0" | "f" | "F" | "false" | "False" | "FALSE")
}

fn consul_env(name: &str) -> Option<String> {
    env::process(&format!("CONSUL_GRPC_{name}"))
}
