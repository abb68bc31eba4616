//! POST to a collection: creates a resource with a generated name.
//!
//! # Contract
//! The name is the prefix of the request and [`SUFFIX_CHARACTERS`] random characters. An existing resource is never
//! replaced: a taken name is followed by another one, at most [`MAX_NAMES`] times.

use axum::{
    http::{HeaderValue, StatusCode, header::LOCATION},
    response::Response,
};
use form_urlencoded::Serializer;
use mortise_resource::{Code, Error, pb};

use super::{error::HttpError, item::answer_written, request::TypeRequest, route::collection_path};
use crate::call::{run_guarded, span};

/// Characters of a generated name behind its prefix.
const SUFFIX_CHARACTERS: usize = 10;

/// Characters of generated names. Without vowels, they spell no words.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz0123456789";

/// Names that are tried before the request fails.
const MAX_NAMES: usize = 5;

/// POST: creates a resource.
pub(super) async fn create(mut request: TypeRequest) -> Result<Response, HttpError> {
    let mut resource = request.resource(String::new()).await?;
    let prefix = request.query.name_of_creation()?;
    let caller = request.caller();
    let mut taken = Error::new(Code::Aborted, "every generated name was taken; try again");
    for _ in 0..MAX_NAMES {
        let id = request.id(format!("{prefix}{}", suffix()));
        resource.id = Some(id.clone());
        let rpc = pb::WriteRequest { resource: Some(resource.clone()) };
        let service = &request.shared.service;
        match run_guarded(span("Write", Some(&id)), Box::pin(service.write_new(&caller, rpc))).await {
            Err(error) if error.code == Code::Aborted => taken = error,
            Err(error) => return Err(error.into()),
            Ok(written) => {
                let stored = written.resource.decode().map_err(Error::from)?.id.unwrap_or_default();
                let mut answer = answer_written(&request, &written)?;
                *answer.status_mut() = StatusCode::CREATED;
                let path = collection_path(&request.kind.gvk);
                answer.headers_mut().extend(location(&path, &stored).map(|address| (LOCATION, address)));
                return Ok(answer);
            }
        }
    }
    Err(taken.into())
}

/// Random characters for a name.
fn suffix() -> String {
    let letter = |_| ALPHABET.get(fastrand::usize(..ALPHABET.len())).map_or('x', |byte| char::from(*byte));
    (0..SUFFIX_CHARACTERS).map(letter).collect()
}

/// The address of a resource.
fn location(collection: &str, id: &pb::Id) -> Option<HeaderValue> {
    let tenancy = id.tenancy.clone().unwrap_or_default();
    let mut query = Serializer::new(String::new());
    for (name, unit) in [("partition", &tenancy.partition), ("namespace", &tenancy.namespace)] {
        if !unit.is_empty() && unit != "default" {
            query.append_pair(name, unit);
        }
    }
    let query = query.finish();
    let query = if query.is_empty() { query } else { format!("?{query}") };
    HeaderValue::try_from(format!("{collection}/{}{query}", id.name)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_valid_names_and_differ() {
        let made: std::collections::BTreeSet<_> = (0..1_000).map(|_| suffix()).collect();
        assert_eq!(made.len(), 1_000);
        assert!(made.iter().all(|name| name.len() == SUFFIX_CHARACTERS && name.bytes().all(|b| ALPHABET.contains(&b))));
    }

    #[test]
    fn locations_name_the_place() {
        let id = |partition: &str, namespace: &str| pb::Id {
            name: "web-x".into(),
            tenancy: Some(pb::Tenancy { partition: partition.into(), namespace: namespace.into() }),
            ..pb::Id::default()
        };
        for (id, wanted) in [
            (id("default", "default"), "/c/web-x"),
            (id("", ""), "/c/web-x"),
            (id("p", "default"), "/c/web-x?partition=p"),
            (id("p", "n"), "/c/web-x?partition=p&namespace=n"),
        ] {
            assert_eq!(location("/c", &id).unwrap(), wanted);
        }
    }
}
