//! The type service on gRPC: the registry, as data.

use std::sync::Arc;

use arc_swap::ArcSwap;
use mortise_resource::{
    Error, Scope, data,
    descriptors::FileDescriptorSet,
    manifest,
    types::{Gvk, gvk},
};
use mortise_service::registry::{Owner, Registry, ResourceType};
use prost_reflect::FileDescriptor;
use tonic::{Request, Response, Status};

use super::{imports::with_imports, status::answer};
use crate::{call::call_span, plugin_stubs::type_service_server::TypeService};

/// The service, for gRPC.
pub(crate) struct TypeApi(pub(crate) Arc<ArcSwap<Registry>>);

#[tonic::async_trait]
impl TypeService for TypeApi {
    async fn list_types(
        &self,
        _: Request<data::ListTypesRequest>,
    ) -> Result<Response<data::ListTypesResponse>, Status> {
        let types = self.0.load().types().iter().map(|t| info(t)).collect();
        Ok(Response::new(data::ListTypesResponse { types }))
    }

    async fn get_type(
        &self,
        request: Request<data::GetTypeRequest>,
    ) -> Result<Response<data::GetTypeResponse>, Status> {
        let registry = self.0.load_full();
        answer(call_span("types.GetType"), async {
            let wanted = request.into_inner().r#type.ok_or_else(|| Error::invalid("type is required"))?;
            let found = registry.get(&wanted).ok_or_else(|| {
                Error::not_found(format!(
                    "resource type {} not registered; ListTypes lists registered types",
                    gvk(&wanted)
                ))
            })?;
            let files = with_imports(found.schema.message().parent_file());
            let set = FileDescriptorSet { file: files.iter().map(FileDescriptor::encode_to_vec).collect() };
            Ok(data::GetTypeResponse { r#type: Some(info(found)), descriptors: Some(set) })
        })
        .await
    }
}

fn info(t: &ResourceType) -> data::TypeInfo {
    let (plugin, plugin_version) = match &t.owner {
        Owner::Host => (String::new(), String::new()),
        Owner::Plugin(plugin) => (plugin.name().to_owned(), plugin.version().to_owned()),
        Owner::Missing(absent) => (absent.name.clone(), absent.manifest.version.to_string()),
    };
    let scope = match t.scope {
        Scope::Cluster => manifest::Scope::Cluster,
        Scope::Partition => manifest::Scope::Partition,
        Scope::Namespace => manifest::Scope::Namespace,
        Scope::Undefined => manifest::Scope::Unspecified,
    };
    data::TypeInfo {
        r#type: Some(t.gvk.to_pb()),
        scope: scope.into(),
        message: t.schema.message().full_name().to_owned(),
        schema_version: t.schema_version.get(),
        plugin,
        plugin_version,
        orphaned: matches!(t.owner, Owner::Missing(_)),
        hooks: Some(manifest::Hooks {
            mutate: t.hooks.mutate,
            validate: t.hooks.validate,
            authorize_read: t.hooks.authorize_read,
            authorize_write: t.hooks.authorize_write,
            authorize_list: t.hooks.authorize_list,
            plan: t.hooks.plan,
            import: t.hooks.import,
        }),
        printer_columns: t.columns.clone(),
        short_names: t.short_names.clone(),
        immutable_fields: t.schema.immutable_paths(),
        moved_from: t.moved_from.iter().map(Gvk::to_pb).collect(),
    }
}
