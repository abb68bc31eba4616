//! The first token of a server: it may do everything, and its secret is in a file of the data directory that only the
//! server's user can read.
//!
//! The file is written before the token, so that the next start completes one that was cut off. An existing file is
//! used again, and never overwritten. Once any token exists, none is made: delete the file when there are others.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use mortise_acl::{GLOBAL_MANAGEMENT, hash_secret};
use mortise_durable_fs::{AtomicFile, FsError};
use mortise_resource::{Error, data, pb, types};
use mortise_service::{Caller, Consistency, ResourceService};
use prost::Message as _;

/// Name of the file in the data directory.
pub(crate) const FILE: &str = "bootstrap-token";

/// Accessor id of the token.
const NAME: &str = "bootstrap";

/// Reason why the first token could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BootstrapError {
    #[error("cannot make the bootstrap token: {0}")]
    File(#[from] FsError),
    #[error("{} holds no secret; delete it, and the next start makes one", .0.display())]
    Empty(PathBuf),
    #[error("no random numbers for the bootstrap token: {0}")]
    Random(#[from] getrandom::Error),
    #[error("cannot make the bootstrap token: {0}")]
    Service(#[from] Error),
}

/// Makes the token, unless there is one.
///
/// # Errors
/// The file cannot be read or written, or the store fails.
pub(crate) async fn ensure_token(service: &ResourceService, data_dir: &Path) -> Result<(), BootstrapError> {
    let host = Caller::host(Consistency::Consistent);
    let tenancy = Some(pb::Tenancy::default());
    let every = pb::ListRequest { r#type: Some(types::token().to_pb()), tenancy, name_prefix: String::new() };
    if service.list(&host, every).await?.bytes() > 0 {
        return Ok(());
    }
    let path = data_dir.join(FILE);
    let secret = match std::fs::read_to_string(&path) {
        Ok(text) => Some(text.trim().to_owned())
            .filter(|secret| !secret.is_empty())
            .ok_or(BootstrapError::Empty(path.clone()))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => make(&path)?,
        Err(error) => return Err(FsError::with_path(&path, "read")(error).into()),
    };
    let token = data::Token {
        description: format!("May do everything; the server made it at its first start. Its secret is in {FILE}."),
        secret_sha256: hash_secret(&secret).to_vec(),
        policies: vec![GLOBAL_MANAGEMENT.to_owned()],
        ..data::Token::default()
    };
    let any =
        prost_types::Any { type_url: "type.googleapis.com/mortise.v1.Token".to_owned(), value: token.encode_to_vec() };
    let id = pb::Id { name: NAME.to_owned(), r#type: Some(types::token().to_pb()), ..pb::Id::default() };
    let resource = pb::Resource { id: Some(id), data: Some(any), ..pb::Resource::default() };
    service.write(&host, pb::WriteRequest { resource: Some(resource) }).await?;
    tracing::info!("the token {NAME:?} may do everything; its secret is in {}", path.display());
    Ok(())
}

/// Writes a new secret into the file, which only its owner can read.
fn make(path: &Path) -> Result<String, BootstrapError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    let secret = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    // The temporary file is readable by its owner alone, too.
    let mut file = AtomicFile::new_beside(path)?;
    file.write_all(format!("{secret}\n").as_bytes()).map_err(FsError::with_path(path, "write"))?;
    file.replace_durably()?;
    Ok(secret)
}
