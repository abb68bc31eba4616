//! Ephemeral resources: values that core uses during a run and keeps in no file. Each type is one, with the attributes
//! of its data source, and so is a short-lived token.

use prost_types::Timestamp;

use super::{
    read,
    session::{Server, resource},
    token, validate,
    wire::decode_object,
};
use crate::{
    proto::tfplugin6::{Diagnostic, DynamicValue, Schema},
    schema::{ProviderSchema, token_to_proto, token_type},
    value::Value,
};

/// An open ephemeral resource.
pub(crate) struct Opened {
    pub(crate) result: Value,
    /// Warnings.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Time of the renewal, and the bytes for it, if there is one.
    pub(crate) renewal: Option<Renewal>,
}

/// A renewal that core asks for.
pub(crate) struct Renewal {
    pub(crate) time: Timestamp,
    pub(crate) private: Vec<u8>,
}

/// The schemas of all ephemeral resources.
pub(crate) fn schemas(schema: &ProviderSchema) -> std::collections::BTreeMap<String, Schema> {
    let of_types = schema.resources().map(|resource| (resource.name.clone(), resource.data_source_to_proto()));
    of_types.chain([(schema.token_name(), token_to_proto())]).collect()
}

/// Checks a configuration.
pub(crate) fn check(
    schema: &ProviderSchema,
    name: &str,
    config: Option<&DynamicValue>,
) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    if name == schema.token_name() {
        return Ok(token::faults(&decode_object(config, &token_type())?));
    }
    let config = decode_object(config, &resource(schema, name)?.data_source_type())?;
    Ok(validate::data_source(schema, name, &config))
}

/// Makes the token, or reads the resource.
pub(crate) async fn open(
    schema: &ProviderSchema,
    server: &Server,
    name: &str,
    config: Option<&DynamicValue>,
) -> Result<Opened, Vec<Diagnostic>> {
    if name == schema.token_name() {
        return token::open(server, &decode_object(config, &token_type())?).await;
    }
    let resource = resource(schema, name)?;
    let config = decode_object(config, &resource.data_source_type())?;
    // Values that were read need no renewal.
    let (result, diagnostics) = read::by_name(resource, server, &config).await?;
    Ok(Opened { result, diagnostics, renewal: None })
}
