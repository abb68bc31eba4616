//! `GET /rpc`: the services and their methods.

use axum::{
    extract::State,
    http::HeaderMap,
    response::{IntoResponse as _, Response},
};
use mortise_text::schema::comment;
use prost_reflect::{DescriptorPool, MethodDescriptor, ServiceDescriptor};
use serde_json::{Value, json};

use super::methods::{path_of, services, unserved};
use crate::http::{
    Shared,
    accept::Form,
    descriptors::host_pool,
    json::{JSON, pretty},
};

/// GET: answers the list.
pub(in crate::http) async fn list(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    match host_pool(&shared.service.types()) {
        Ok(pool) => ([JSON], pretty(&described(&pool))).into_response(),
        Err(fault) => fault.into_response(Form::of_ours(&headers), "/rpc"),
    }
}

fn described(pool: &DescriptorPool) -> Value {
    let mut list = json!({ "services": services(pool).map(|one| service(&one)).collect::<Vec<_>>() });
    list.sort_all_objects();
    list
}

fn service(service: &ServiceDescriptor) -> Value {
    let methods: Vec<_> =
        service.methods().filter(|known| unserved(known).is_none()).map(|known| method(&known)).collect();
    json!({ "name": service.full_name(), "description": first_sentence(&comment(service)), "methods": methods })
}

fn method(method: &MethodDescriptor) -> Value {
    json!({
        "name": method.name(),
        "path": path_of(method),
        "description": first_sentence(&comment(method)),
        "request": method.input().full_name(),
        "response": method.output().full_name(),
        "clientStreaming": method.is_client_streaming(),
        "serverStreaming": method.is_server_streaming(),
    })
}

/// The first sentence of a comment, on one line.
fn first_sentence(comment: &str) -> String {
    let paragraph = comment.split("\n\n").next().unwrap_or_default().replace('\n', " ");
    match paragraph.split_once(". ") {
        Some((first, _)) => format!("{first}."),
        None => paragraph,
    }
}

#[cfg(test)]
mod tests {
    use mortise_service::registry::Registry;

    use super::*;

    #[test]
    fn every_method_has_a_description_of_one_sentence() {
        let list = described(&host_pool(&Registry::builtin().unwrap()).unwrap());
        let services = list["services"].as_array().unwrap();
        assert_eq!(services.len(), 11);
        for method in services.iter().flat_map(|service| service["methods"].as_array().unwrap()) {
            let text = method["description"].as_str().unwrap();
            assert!(text.ends_with('.') && !text.contains('\n'), "{method}");
        }
        assert_eq!(first_sentence("One. Two."), "One.");
        assert_eq!(first_sentence("One\nline\n\nTwo."), "One line");
    }
}
