//! Which operation a request under `/api` is.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, Method, StatusCode, header::ALLOW, request::Parts},
    response::{IntoResponse as _, Response},
};
use mortise_resource::pb;
use mortise_service::registry::{Registry, ResourceType};
use prost_reflect::DescriptorPool;

use super::{
    HttpOptions, Shared,
    accept::Form,
    body, collection,
    fault::{Fault, Kind},
    item,
    json::{self, Printer},
    query::Query,
    route::{Route, Target},
    validate, watch,
};

/// A request about a type.
pub(super) struct Asked {
    pub(super) shared: Shared,
    pub(super) kind: Arc<ResourceType>,
    pub(super) host: DescriptorPool,
    pub(super) query: Query,
    pub(super) parts: Parts,
    pub(super) body: Body,
}

impl Asked {
    /// The id of a name in the place that the query says.
    pub(super) fn id(&self, name: String) -> pb::Id {
        pb::Id { uid: String::new(), name, r#type: Some(self.kind.gvk.to_pb()), tenancy: Some(self.query.tenancy()) }
    }

    /// Prints resources of the type.
    pub(super) fn printer(&self) -> Result<Printer, Fault> {
        Printer::new(&self.host, self.kind.schema.message())
    }

    /// The body, as a resource.
    pub(super) async fn resource(&mut self, name: String) -> Result<pb::Resource, Fault> {
        let body = std::mem::take(&mut self.body);
        let HttpOptions { max_body_bytes: limit, request_timeout: within, .. } = self.shared.options;
        let read = super::body::read(&self.parts.headers, body, limit, within, &self.shared.bodies).await?;
        let mut resource = read.resource(&self.host, self.kind.schema.message()).await?;
        resource.id = Some(self.id(name));
        Ok(resource)
    }
}

/// The descriptors of the host.
pub(super) fn host_pool(registry: &Registry) -> Result<DescriptorPool, Fault> {
    registry.pools().next().cloned().ok_or_else(json::no_host_message)
}

/// Every request under `/api`.
pub(super) async fn api(State(shared): State<Shared>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let (ours, consuls) = (Form::on_ours(&parts.headers), Form::on_consuls_routes(&parts.headers));
    let query = Query::of(&parts);
    let within = shared.options.request_timeout;
    let registry = shared.service.types();
    let Some(Route { kind, target }) = Route::find(&registry, &path) else {
        drop(registry);
        body::drain(body, within).await;
        return no_route(&path).into_response(if query.watch() { ours } else { consuls }, &path);
    };
    let host = match host_pool(&registry) {
        Ok(host) => host,
        Err(fault) => return fault.into_response(consuls, &path),
    };
    drop(registry);
    let asked = Asked { shared, kind, host, query, parts, body };
    let reads = matches!(asked.parts.method, Method::GET | Method::HEAD);
    let watches = reads && asked.query.watch();
    let (answer, form) = match (target, &asked.parts.method) {
        (Target::Collection, _) if watches => (watch::collection(asked).await, ours),
        (Target::Item(name), _) if watches => (watch::item(asked, name).await, ours),
        (Target::Collection, _) if reads => (collection::list(asked).await, consuls),
        (Target::Item(name), _) if reads => (item::read(asked, name).await, consuls),
        (Target::Item(name), &Method::PUT) => (item::write(asked, name).await, consuls),
        (Target::Item(name), &Method::DELETE) => (item::delete(asked, name).await, consuls),
        (Target::Validate(name), &Method::POST) => (validate::validate(asked, name).await, ours),
        (target, _) => {
            body::drain(asked.body, within).await;
            return not_allowed(&target);
        }
    };
    answer.unwrap_or_else(|fault| fault.into_response(form, &path))
}

/// A method that the path does not have; `methods` makes an answer to OPTIONS of it.
fn not_allowed(target: &Target) -> Response {
    let allowed = match target {
        Target::Collection => "GET,HEAD",
        Target::Item(_) => "GET,HEAD,PUT,DELETE",
        Target::Validate(_) => "POST",
    };
    (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, HeaderValue::from_static(allowed))]).into_response()
}

/// Every other path.
pub(super) async fn nowhere(request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let form = match path.starts_with("/v1/") {
        true => Form::on_ours(request.headers()),
        false => Form::on_consuls_routes(request.headers()),
    };
    no_route(&path).into_response(form, &path)
}

fn no_route(path: &str) -> Fault {
    let why = if path.strip_prefix("/api/").is_some_and(|rest| rest.bytes().any(|b| b.is_ascii_uppercase())) {
        "; group, version and kind are in lower case here"
    } else {
        ""
    };
    Fault::new(
        Kind::NoRoute,
        format!("nothing is served at {path}{why}; GET /v1/types lists the types and their paths"),
    )
}
