//! `/v1/openapi.json`: the API's document, `/v1/openapi/<group>.json`: that of one group, and `/v1/openapi/rpc.json`:
//! that of the RPCs, also beside a group of that name. Each is built at the first request after a change of the registry.

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
use mortise_text::schema::{Api, TypeDoc, openapi, rpc_openapi};
use parking_lot::Mutex;

use super::{
    Shared,
    accept::Form,
    descriptors,
    error::HttpError,
    json::{self, JSON},
    route::collection_path,
    rpc,
    version::VERSION,
};

/// The documents of one registry. Holds the registry weakly, since a replaced plugin has to go.
#[derive(Default)]
pub(super) struct Cached(Mutex<Documents>);

#[derive(Default)]
struct Documents {
    registry: Weak<Registry>,
    /// The documents made so far.
    made: BTreeMap<Subject, Bytes>,
}

/// The content of a document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    /// The types of every group.
    Types,
    /// The types of one group.
    Group(String),
    Rpcs,
}

/// The name of the document of the RPCs.
const RPCS: &str = "rpc";

/// The end of a path to the document of a group.
const EXTENSION: &str = ".json";

/// GET: answers the document.
pub(super) async fn document(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    match shared.openapi.of(&shared.service.types(), Subject::Types) {
        Ok(document) => ([JSON], document).into_response(),
        Err(fault) => fault.into_response(Form::of_ours(&headers), "/v1/openapi.json"),
    }
}

/// GET: answers the document of a group, or of the RPCs.
pub(super) async fn of_group(
    State(shared): State<Shared>,
    name: Result<Path<String>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let registry = shared.service.types();
    let name = name.map(|Path(name)| name).unwrap_or_default();
    let subject = match name.strip_suffix(EXTENSION) {
        Some(RPCS) => Some(Subject::Rpcs),
        Some(group) if registry.types().iter().any(|t| t.gvk.group == *group) => Some(Subject::Group(group.to_owned())),
        _ => None,
    };
    let document = match subject {
        Some(subject) => shared.openapi.of(&registry, subject),
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
    format!(
        "no type has the group; documents are {}, of every group /v1/openapi.json, and of the RPCs \
         /v1/openapi/{RPCS}{EXTENSION}",
        groups.join(", ")
    )
}

/// Most groups in an error.
const MAX_NAMED_GROUPS: usize = 20;

impl Cached {
    /// The document about a subject; a group is a registered one.
    fn of(&self, registry: &Arc<Registry>, subject: Subject) -> Result<Bytes, HttpError> {
        // Locked meanwhile, so that the document is built once for any number of requests.
        let mut cached = self.0.lock();
        if !Weak::ptr_eq(&cached.registry, &Arc::downgrade(registry)) {
            *cached = Documents { registry: Arc::downgrade(registry), made: BTreeMap::new() };
        }
        if let Some(document) = cached.made.get(&subject) {
            return Ok(document.clone());
        }
        let document = Bytes::from(json::pretty(&make(registry, &subject)?));
        cached.made.insert(subject, document.clone());
        Ok(document)
    }
}

fn make(registry: &Registry, subject: &Subject) -> Result<serde_json::Value, HttpError> {
    let host = descriptors::host_pool(registry)?;
    let group = match subject {
        Subject::Rpcs => return Ok(sorted(rpc_openapi(VERSION, &rpc::documented(&host)))),
        Subject::Types => None,
        Subject::Group(group) => Some(group.as_str()),
    };
    let resource = host.get_message_by_name(descriptors::RESOURCE_MESSAGE).ok_or_else(descriptors::no_host_message)?;
    let types = registry.types().iter().filter(|t| group.is_none_or(|group| t.gvk.group == group)).map(|t| TypeDoc {
        gvk: &t.gvk,
        scope: t.scope,
        plugin: t.owner.plugin_name(),
        message: t.schema.message(),
        path: collection_path(&t.gvk),
    });
    Ok(sorted(openapi(&Api { version: VERSION, group, resource: &resource, types: types.collect() })))
}

fn sorted(mut document: serde_json::Value) -> serde_json::Value {
    document.sort_all_objects();
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_made_once_for_each_registry() {
        let cached = Cached::default();
        let first = Arc::new(Registry::builtin().unwrap());
        let document = cached.of(&first, Subject::Types).unwrap();
        assert_eq!(cached.of(&first, Subject::Types).unwrap().as_ptr(), document.as_ptr());
        let second = Arc::new(Registry::builtin().unwrap());
        let other = cached.of(&second, Subject::Types).unwrap();
        assert_ne!(other.as_ptr(), document.as_ptr());
        assert_eq!(other, document);
        let group = cached.of(&second, Subject::Group("internal".to_owned())).unwrap();
        assert!(group.len() < other.len());
        assert_eq!(cached.of(&second, Subject::Group("internal".to_owned())).unwrap().as_ptr(), group.as_ptr());
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 1), "it holds on to none");
    }
}
