//! The active TLS configuration.

use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::task::spawn_blocking;
use tokio_rustls::rustls::ServerConfig;

use super::{ClientCerts, TlsError, TlsOptions, files::Configs, handshake::Protocol, stamps::Stamps};

/// The TLS configuration, shared by both ports.
pub(crate) struct Tls {
    pub(super) options: TlsOptions,
    pub(super) configs: ArcSwap<Configs>,
    pub(super) last_read: Mutex<LastRead>,
}

/// The last reading of the files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastRead {
    /// Stamps of the files from before.
    pub(crate) stamps: Stamps,
    pub(crate) refused: bool,
}

impl Tls {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// [`TlsError`].
    pub(crate) async fn load(options: TlsOptions) -> Result<Arc<Self>, TlsError> {
        let (stamps, configs) = read(&options).await?;
        configs.log_certificate(match (&options.client_ca_file, options.client_certs) {
            (None, _) => "TLS on both ports; clients are not asked for certificates",
            (Some(_), ClientCerts::Optional) => "TLS on both ports; clients may show certificates",
            (Some(_), ClientCerts::Required) => "TLS on both ports; clients must show certificates",
        });
        let last_read = Mutex::new(LastRead { stamps, refused: false });
        Ok(Arc::new(Self { options, configs: ArcSwap::from_pointee(configs), last_read }))
    }

    /// The configuration for new connections of a port.
    pub(super) fn config(&self, protocol: Protocol) -> Arc<ServerConfig> {
        let configs = self.configs.load();
        match protocol {
            Protocol::Grpc => configs.grpc.clone(),
            Protocol::Http => configs.http.clone(),
        }
    }

    /// Whether the server's certificate has just this host name, in lower case, and not only a star for it.
    pub(crate) fn is_named(&self, host: &str) -> bool {
        self.configs.load().certificate.dns_names.iter().any(|name| name.to_ascii_lowercase() == host)
    }

    /// Whether the server's certificate has this host name, in lower case.
    pub(crate) fn names(&self, host: &str) -> bool {
        self.configs.load().certificate.dns_names.iter().any(|name| {
            let name = name.to_ascii_lowercase();
            match name.strip_prefix("*.") {
                // A star stands for one label.
                Some(parent) => host.split_once('.').is_some_and(|(_, rest)| rest == parent),
                None => name == host,
            }
        })
    }
}

/// Reads the files on a blocking thread; returns them with their stamps from before.
pub(super) async fn read(options: &TlsOptions) -> Result<(Stamps, Configs), TlsError> {
    let options = options.clone();
    spawn_blocking(move || Ok((Stamps::of(&options), Configs::read(&options)?))).await?
}
