//! Ephemeral resources: a resource of the server whose values core uses during a run and keeps in no file. Each type is
//! one, with the attributes of its data source.

use super::{
    read,
    session::{Server, resource},
    validate,
    wire::decode_object,
};
use crate::{
    proto::tfplugin6::{Diagnostic, DynamicValue, Schema},
    schema::ProviderSchema,
    value::Value,
};

/// The schemas of all ephemeral resources.
pub(crate) fn schemas(schema: &ProviderSchema) -> std::collections::BTreeMap<String, Schema> {
    schema.resources().map(|resource| (resource.name.clone(), resource.data_source_to_proto())).collect()
}

/// Checks a configuration.
pub(crate) fn check(
    schema: &ProviderSchema,
    name: &str,
    config: Option<&DynamicValue>,
) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    let config = decode_object(config, &resource(schema, name)?.data_source_type())?;
    Ok(validate::data_source(schema, name, &config))
}

/// Reads the resource. Adds warnings of values that no state can have.
pub(crate) async fn open(
    schema: &ProviderSchema,
    server: &Server,
    name: &str,
    config: Option<&DynamicValue>,
) -> Result<(Value, Vec<Diagnostic>), Vec<Diagnostic>> {
    let resource = resource(schema, name)?;
    let config = decode_object(config, &resource.data_source_type())?;
    read::by_name(resource, server, &config).await
}
