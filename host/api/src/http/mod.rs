//! The HTTP port: Consul's HTTP mapping of the resource API, what it lacks (watches, dry runs, descriptions of the
//! types), and what orchestrators ask. docs/http.md is the user's side of it.
//!
//! | path | file |
//! |---|---|
//! | `/api/<group>/<version>/<kind>` | `collection`, `watch` |
//! | `/api/<group>/<version>/<kind>/<name>` | `item`, `watch` |
//! | `/api/<group>/<version>/<kind>/<name>/_validate` | `validate` |
//! | `/v1/types`, `/v1/types/<type>` | `types` |
//! | `/v1/openapi.json` | `openapi` |
//! | `/healthz`, `/readyz`, `/metrics` | `health` |
//!
//! Nothing here decides anything about resources: a request is decoded and handed to the service, as `grpc` does, and
//! its answer is printed. Routes under `/api` are looked up in the registry as it is at each request (`route`), so a
//! type that was loaded a moment ago has its route.
//!
//! Before every route it is looked whether a page in a browser is at work (`browsers`), and who calls (`callers`).
//!
//! Bounds: connections, the time to send a request and to take an answer (`listen`), bodies (`body`), watches (the
//! service's own limit).

mod accept;
mod body;
mod browsers;
mod callers;
mod collection;
mod descriptors;
mod dispatch;
mod error;
mod health;
mod item;
mod json;
mod listen;
mod methods;
mod openapi;
mod query;
mod request;
mod route;
mod search;
mod stall;
mod types;
mod validate;
mod watch;
mod watch_query;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    middleware::{from_fn, from_fn_with_state},
    routing::{any, get},
};
use metrics_exporter_prometheus::PrometheusHandle;
use mortise_plugin_manager::controllers::ControllerManager;
use mortise_service::ResourceService;
use tokio::sync::{Semaphore, watch as signal};

use crate::write_health::WriteHealth;

pub(crate) use browsers::Hosts;
pub(crate) use listen::serve;

/// How the HTTP port behaves. Part of config.toml.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Whether the port serves the resource API in addition to health and metrics.
    pub api: bool,
    /// Connections at once; further ones are answered 503.
    pub max_connections: usize,
    /// How long a client may take to send a request's head, and again its body.
    pub request_timeout: Duration,
    /// How long a client may take nothing of an answer that is waiting for it.
    pub stall_timeout: Duration,
    /// How often an open watch says that it is alive.
    pub keep_alive: Duration,
    /// Largest body, bytes. What JSON says in so many bytes may take a hundred times as much memory while it is read.
    pub max_body_bytes: usize,
    /// Names by which the port may be addressed, besides `localhost` and literal addresses (`browsers`).
    pub allowed_hosts: Vec<String>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            api: true,
            max_connections: 4_096,
            request_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
            max_body_bytes: Self::body_bytes(50 << 20, 1 << 20),
            allowed_hosts: Vec::new(),
        }
    }
}

impl HttpOptions {
    /// The largest body that makes sense: no larger than a request may be, nor much larger than the largest resource is
    /// in JSON, where a byte of a packed list of numbers takes a line.
    #[must_use]
    pub fn body_bytes(max_request_bytes: usize, max_resource_bytes: usize) -> usize {
        max_request_bytes.min(max_resource_bytes.saturating_mul(8).saturating_add(64 << 10))
    }

    /// Watches at once: the other connections are for who asks whether the server is alive.
    pub(crate) fn max_watches(&self) -> usize {
        (self.max_connections - self.max_connections / 4).min(Semaphore::MAX_PERMITS)
    }
}

/// What the port answers from. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Shared {
    service: ResourceService,
    controller_manager: ControllerManager,
    metrics: PrometheusHandle,
    ready: signal::Receiver<bool>,
    options: HttpOptions,
    openapi: Arc<openapi::Cached>,
    bodies: body::Budget,
    watches: Arc<Semaphore>,
    hosts: Hosts,
}

impl Shared {
    /// What the routes need.
    pub(crate) fn new(
        service: ResourceService,
        controller_manager: ControllerManager,
        metrics: PrometheusHandle,
        ready: signal::Receiver<bool>,
        options: HttpOptions,
        hosts: Hosts,
    ) -> Self {
        Self {
            service,
            controller_manager,
            metrics,
            ready,
            openapi: Arc::default(),
            bodies: body::Budget::new(options.max_body_bytes),
            watches: Arc::new(Semaphore::new(options.max_watches())),
            options,
            hosts,
        }
    }
}

/// The routes for who asks whether the server is well, when every connection is taken.
pub(crate) fn probes(ready: signal::Receiver<bool>, write_health: WriteHealth) -> Router {
    Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(move || health::readiness(ready, write_health)))
        .fallback(listen::full)
        .layer(from_fn(methods::finish))
}

/// The routes.
pub(crate) fn router(shared: Shared) -> Router {
    let mut router = Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics));
    if shared.options.api {
        router = router
            .route("/api/{*path}", any(dispatch::api))
            .route("/v1/types", get(types::list))
            .route("/v1/types/{name}", get(types::get_one))
            .route("/v1/openapi.json", get(openapi::document));
    }
    let guard = from_fn_with_state(shared.clone(), browsers::guard);
    let callers = from_fn_with_state(shared.clone(), callers::guard);
    let routes: Router = router.fallback(dispatch::not_found).with_state(shared);
    // Around all routes together: each adds its `Allow` outside of what is around it alone.
    Router::new().fallback_service(routes).layer(callers).layer(guard).layer(from_fn(methods::finish))
}

/// Reads a text as path and query.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(registry: &mortise_service::registry::Registry, text: &str) {
    let _ = route::Route::find(registry, text);
    if let Ok(uri) = text.parse() {
        let query = query::Query::from_uri(&uri);
        let _ = (query.tenancy(), query.version(), query.name_prefix(), query.watch(), query.token());
    }
}
