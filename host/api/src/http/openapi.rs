//! `/v1/openapi.json`: the API's document, and `/v1/openapi/<group>.json`: that of one group. Each is built at the
//! first request after a change of the registry.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
};

use axum::{
    body::Bytes,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, Uri},
    response::{IntoResponse as _, Response},
};
use mortise_resource::Error;
use mortise_service::registry::Registry;
use mortise_text::schema::{Api, TypeDoc};
use parking_lot::Mutex;

use super::{
    Shared,
    accept::Form,
    descriptors,
    error::HttpError,
    json::{self, JSON},
    route::collection_path,
    version::VERSION,
};

/// The documents of one registry. Holds the registry weakly, since a replaced plugin has to go.
#[derive(Default)]
pub(super) struct Cached(Mutex<Documents>);

#[derive(Default)]
struct Documents {
    registry: Weak<Registry>,
    /// The documents by their groups; that of every group under `None`.
    by_group: BTreeMap<Option<String>, Bytes>,
}

/// The end of a path to the document of a group.
const EXTENSION: &str = ".json";

/// GET: answers the document.
pub(super) async fn document(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    match shared.openapi.of(&shared.service.types(), None) {
        Ok(document) => ([JSON], document).into_response(),
        Err(fault) => fault.into_response(Form::of_ours(&headers), "/v1/openapi.json"),
    }
}

/// GET: answers the document of a group.
pub(super) async fn of_group(
    State(shared): State<Shared>,
    name: Result<Path<String>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let registry = shared.service.types();
    let name = name.map(|Path(name)| name).unwrap_or_default();
    let group = name.strip_suffix(EXTENSION).filter(|group| registry.types().iter().any(|t| t.gvk.group == **group));
    let document = match group {
        Some(group) => shared.openapi.of(&registry, Some(group)),
        None => Err(Error::not_found(missing(&registry)).into()),
    };
    match document {
        Ok(document) => ([JSON], document).into_response(),
        Err(fault) => fault.into_response(Form::of_ours(&headers), uri.path()),
    }
}

/// The text about an absent document, with the present ones.
fn missing(registry: &Registry) -> String {
    let groups: BTreeSet<_> =
        registry.types().iter().map(|t| format!("/v1/openapi/{}{EXTENSION}", t.gvk.group)).collect();
    let groups: Vec<_> = groups.into_iter().take(MAX_NAMED_GROUPS).collect();
    format!("no type has the group; documents are {}, and of every group /v1/openapi.json", groups.join(", "))
}

/// Most groups in an error.
const MAX_NAMED_GROUPS: usize = 20;

impl Cached {
    /// The document of a registered group, or of every group.
    fn of(&self, registry: &Arc<Registry>, group: Option<&str>) -> Result<Bytes, HttpError> {
        // Locked meanwhile, so that the document is built once for any number of requests.
        let mut cached = self.0.lock();
        if !Weak::ptr_eq(&cached.registry, &Arc::downgrade(registry)) {
            *cached = Documents { registry: Arc::downgrade(registry), by_group: BTreeMap::new() };
        }
        let group = group.map(str::to_owned);
        if let Some(document) = cached.by_group.get(&group) {
            return Ok(document.clone());
        }
        let document = Bytes::from(json::pretty(&make(registry, group.as_deref())?));
        cached.by_group.insert(group, document.clone());
        Ok(document)
    }
}

fn make(registry: &Registry, group: Option<&str>) -> Result<serde_json::Value, HttpError> {
    let host = descriptors::host_pool(registry)?;
    let resource = host.get_message_by_name(descriptors::RESOURCE_MESSAGE).ok_or_else(descriptors::no_host_message)?;
    let types = registry.types().iter().filter(|t| group.is_none_or(|group| t.gvk.group == group)).map(|t| TypeDoc {
        gvk: &t.gvk,
        scope: t.scope,
        plugin: t.owner.plugin_name(),
        message: t.schema.message(),
        path: collection_path(&t.gvk),
    });
    let mut document =
        mortise_text::schema::openapi(&Api { version: VERSION, group, resource: &resource, types: types.collect() });
    document.sort_all_objects();
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_made_once_for_each_registry() {
        let cached = Cached::default();
        let first = Arc::new(Registry::builtin().unwrap());
        let document = cached.of(&first, None).unwrap();
        assert_eq!(cached.of(&first, None).unwrap().as_ptr(), document.as_ptr());
        let second = Arc::new(Registry::builtin().unwrap());
        let other = cached.of(&second, None).unwrap();
        assert_ne!(other.as_ptr(), document.as_ptr());
        assert_eq!(other, document);
        let group = cached.of(&second, Some("internal")).unwrap();
        assert!(group.len() < other.len());
        assert_eq!(cached.of(&second, Some("internal")).unwrap().as_ptr(), group.as_ptr());
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 1), "it holds on to none");
    }
}
