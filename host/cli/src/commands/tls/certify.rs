//! `mortise tls certify`: a certificate for an identity, from the authority of a server.
//!
//! The key stays the same over renewals. The files are those that a linkerd2-proxy reads, and the same in PEM.

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use mortise_keys::certificate::CertificateDer;
use mortise_resource::grpc::{
    IdentityClient,
    linkerd::identity::{CertifyRequest, CertifyResponse},
};

use super::{
    files::{NewFile, make_directory},
    issue::SigningRequest,
};
use crate::{CliError, Connect, Exit, output::ui};

pub(super) const EXAMPLES: &str = "\
mortise tls certify web.mesh.example --dir /etc/web/identity --token-file web.token";

/// Arguments of `tls certify`.
#[derive(Debug, Args)]
pub(super) struct Certify {
    /// The identity, such as web.mesh.example
    identity: String,
    /// The directory for the files. A key in it is used again
    #[arg(long, value_name = "DIR", default_value = "identity")]
    dir: PathBuf,
    #[command(flatten)]
    connect: Connect,
}

impl Certify {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let dir = std::path::absolute(&self.dir).map_err(|e| CliError::file("cannot find", &self.dir, e))?;
        let file = |name: &str| dir.join(name);
        let key = file("key.pem");
        let stored = match std::fs::read_to_string(&key) {
            Ok(text) => Some(text),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(CliError::file("cannot read", &key, e)),
        };
        let request = SigningRequest::new(&self.identity, stored.as_deref()).map_err(|e| match &stored {
            Some(_) => CliError::usage(format!("cannot use the key in {}", key.display())).caused_by(e),
            None => CliError::usage(format!("cannot ask for the identity {:?}", self.identity)).caused_by(e),
        })?;
        let session = self.connect.session().await?;
        let message = CertifyRequest {
            identity: self.identity.clone(),
            // The token is in the metadata.
            token: Vec::new(),
            certificate_signing_request: request.der.clone(),
        };
        let mut client = IdentityClient::new(session.channel());
        let answer = session.call(&self.identity, async { client.certify(message).await }).await?;
        let CertifyResponse { leaf_certificate, intermediate_certificates, valid_until } = answer;
        let ders = [leaf_certificate].into_iter().chain(intermediate_certificates).map(CertificateDer::from);
        let chain: String = ders.map(|der| super::issue::pem(&der)).collect();
        make_directory(&dir)?;
        for (name, content, mode) in [
            ("key.pem", request.key_pem.into_bytes(), 0o600),
            ("key.p8", request.key_der, 0o600),
            ("csr.der", request.der, 0o644),
            ("cert.pem", chain.into_bytes(), 0o644),
        ] {
            NewFile { path: file(name), content, mode }.write(true)?;
        }
        let until = valid_until.and_then(|until| Timestamp::from_second(until.seconds).ok());
        let until = until.map_or_else(String::new, |until| format!(", valid until {until}"));
        ui::line(format!("{}: cert.pem and key.pem in {}{until}", self.identity, dir.display()))?;
        Ok(Exit::Done)
    }
}
