//! `/v1/openapi.json`: the API's document, built at the first request after a change of the registry.

use std::sync::{Arc, Weak};

use axum::{
    body::Bytes,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse as _, Response},
};
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
};

/// The document of one registry. Holds the registry weakly, since a replaced plugin has to go.
#[derive(Default)]
pub(super) struct Cached(Mutex<Option<(Weak<Registry>, Bytes)>>);

/// GET: answers the document.
pub(super) async fn document(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    match shared.openapi.of(&shared.service.types()) {
        Ok(document) => ([JSON], document).into_response(),
        Err(fault) => fault.into_response(Form::problem_by_default(&headers), "/v1/openapi.json"),
    }
}

impl Cached {
    fn of(&self, registry: &Arc<Registry>) -> Result<Bytes, HttpError> {
        // Locked meanwhile, so that the document is built once for any number of requests.
        let mut cached = self.0.lock();
        if let Some((types, document)) = &*cached
            && Weak::ptr_eq(types, &Arc::downgrade(registry))
        {
            return Ok(document.clone());
        }
        let document = Bytes::from(json::pretty(&make(registry)?));
        *cached = Some((Arc::downgrade(registry), document.clone()));
        Ok(document)
    }
}

fn make(registry: &Registry) -> Result<serde_json::Value, HttpError> {
    let host = descriptors::host_pool(registry)?;
    let resource = host.get_message_by_name(descriptors::RESOURCE_MESSAGE).ok_or_else(descriptors::no_host_message)?;
    let types = registry.types().iter().map(|t| TypeDoc {
        gvk: &t.gvk,
        scope: t.scope,
        plugin: t.owner.plugin_name(),
        message: t.schema.message(),
        path: collection_path(&t.gvk),
    });
    let mut document = mortise_text::schema::openapi(&Api {
        version: env!("CARGO_PKG_VERSION"),
        resource: &resource,
        types: types.collect(),
    });
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
        let document = cached.of(&first).unwrap();
        assert_eq!(cached.of(&first).unwrap().as_ptr(), document.as_ptr());
        let second = Arc::new(Registry::builtin().unwrap());
        let other = cached.of(&second).unwrap();
        assert_ne!(other.as_ptr(), document.as_ptr());
        assert_eq!(other, document);
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 1), "it holds on to none");
    }
}
