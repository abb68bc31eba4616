//! The types and functions of a server, for files about them.

use mortise_provider::{
    client::{ConnectionSettings, ResourceClient as _},
    schema::Snapshot,
};

use crate::{CliError, Connect, connect::provider::ProviderConnector};

/// The types and functions of a server.
pub(super) async fn snapshot(connect: &Connect) -> Result<Snapshot, CliError> {
    let client = ProviderConnector::of_flags(connect).reach(&ConnectionSettings::default()).await?;
    let types = client.types().await.map_err(|status| CliError::rpc("types", &status))?;
    let functions = client.functions().await.map_err(|status| CliError::rpc("functions", &status))?;
    Ok(Snapshot { types, functions })
}
