//! Description of the provider for core: names and schemas of everything that it has.

use super::{diagnostic::warning, ephemeral, session::Session};
use crate::{
    proto::tfplugin6::{ServerCapabilities, get_metadata, get_provider_schema},
    schema::provider_to_proto,
};

fn capabilities() -> ServerCapabilities {
    ServerCapabilities { plan_destroy: true, get_provider_schema_optional: true, move_resource_state: true }
}

/// The names.
pub(super) async fn metadata(session: &Session) -> get_metadata::Response {
    let mut response = get_metadata::Response { server_capabilities: Some(capabilities()), ..Default::default() };
    match session.schema().await {
        Ok(schema) => {
            let names = || schema.resources().map(|resource| resource.name.clone());
            response.resources = names().map(|type_name| get_metadata::ResourceMetadata { type_name }).collect();
            let opened = names().chain([schema.token_name()]);
            response.ephemeral_resources =
                opened.map(|type_name| get_metadata::EphemeralMetadata { type_name }).collect();
            response.list_resources =
                names().map(|type_name| get_metadata::ListResourceMetadata { type_name }).collect();
            let named = |(type_name, _)| get_metadata::ActionMetadata { type_name };
            response.actions = schema.actions().map(named).collect();
            let all = names().chain([schema.list_name()]);
            response.data_sources = all.map(|type_name| get_metadata::DataSourceMetadata { type_name }).collect();
        }
        Err(faults) => response.diagnostics = faults,
    }
    if let Ok(functions) = session.functions().await {
        let name = |name: &String| get_metadata::FunctionMetadata { name: name.clone() };
        response.functions = functions.names().map(name).collect();
    }
    response
}

/// The schemas. Core before version 1.14 skips those of lists and of actions, since it does not know
/// their fields.
pub(super) async fn schemas(session: &Session) -> get_provider_schema::Response {
    let mut response = get_provider_schema::Response {
        provider: Some(provider_to_proto()),
        server_capabilities: Some(capabilities()),
        ..Default::default()
    };
    let schema = match session.schema().await {
        Ok(schema) => schema,
        Err(diagnostics) => return get_provider_schema::Response { diagnostics, ..response },
    };
    for resource in schema.resources() {
        response.resource_schemas.insert(resource.name.clone(), resource.to_proto());
        response.data_source_schemas.insert(resource.name.clone(), resource.data_source_to_proto());
        response.list_resource_schemas.insert(resource.name.clone(), resource.query_to_proto());
    }
    response.action_schemas = schema.actions().map(|(name, action)| (name, action.to_proto())).collect();
    response.data_source_schemas.insert(schema.list_name(), schema.list_to_proto());
    response.ephemeral_resource_schemas = ephemeral::schemas(&schema);
    response.diagnostics = schema.left_out.iter().map(|why| warning(why.to_string())).collect();
    match session.functions().await {
        Ok(functions) => {
            response.functions = functions.to_proto();
            response.diagnostics.extend(functions.left_out.iter().map(|why| warning(why.as_str())));
        }
        Err(faults) => response.diagnostics.extend(faults),
    }
    response
}
