//! The HTTP port: Consul's HTTP mapping of the resource API, additions to it (watches, dry runs, descriptions of
//! types), and routes for orchestrators. docs/http.md describes it for users.
//!
//! | path | file |
//! |---|---|
//! | `/api/<group>/<version>/<kind>` | `collection`, `search`, `link`, `create` |
//! | `/api/<group>/<version>/<kind>/<name>` | `item`, `patch`, `conditions`, `search` (a part of a resource), `watch` |
//! | `…/_watch` below both | `watch`, `watch_query` |
//! | `/api/<group>/<version>/<kind>/<name>/_validate` | `validate` |
//! | `/` | `root` |
//! | `/ui/…`, `/v1/session` | `ui` |
//! | `/v1/version` | `version` |
//! | `/v1/types`, `/v1/types/<type>` | `types` |
//! | `/rpc`, `/rpc/<service>/<method>` | `rpc` |
//! | `/v1/openapi.json` | `openapi` |
//! | other paths below `/v1/`, which are Consul's | `consul` |
//! | `/healthz`, `/readyz`, `/metrics` | `health` |
//!
//! Nothing here decides about resources: a request is decoded and handed to the service, as in `grpc`, and the answer
//! is printed. Routes under `/api` are looked up in the current registry at each request (`route`), so a type has its
//! route as soon as it is loaded.
//!
//! A path without a route gets the paths that it may mean (`nearest`).
//!
//! Every route is preceded by checks for web pages (`browsers`, `cors`) and of the caller (`callers`). Large answers
//! are compressed (`compress`).
//!
//! Bounds: connections, the time to send a request and to take an answer (`listen`), bodies (`body`), watches (the
//! service's own limit).

mod accept;
mod body;
mod body_json;
mod body_yaml;
mod browsers;
mod callers;
mod collection;
mod compress;
mod conditions;
mod consul;
mod cors;
mod create;
mod descriptors;
mod dispatch;
mod error;
mod error_kind;
mod health;
mod hosts;
mod http2;
mod item;
mod json;
mod link;
mod listen;
mod media;
mod methods;
mod nearest;
mod openapi;
mod options;
mod patch;
mod patch_document;
mod query;
mod registry_types;
mod request;
mod root;
mod route;
mod rpc;
mod search;
mod shared;
mod stall;
mod types;
#[cfg(feature = "ui")]
mod ui;
mod unfinished;
mod validate;
mod version;
mod watch;
mod watch_query;

use axum::{
    Router,
    middleware::from_fn_with_state,
    routing::{any, get},
};
use tokio::sync::watch as signal;

use crate::{observability::requests::HttpCounts, write_health::WriteHealth};

pub use options::{Allowed, HttpOptions};

pub(crate) use consul::Facts;
pub(crate) use hosts::Hosts;
pub(crate) use listen::serve;
pub(crate) use shared::Shared;

/// The routes for health checks when all connections are in use.
pub(crate) fn probes(ready: signal::Receiver<bool>, write_health: WriteHealth, counts: HttpCounts) -> Router {
    Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(move || health::readiness(ready, write_health)))
        .fallback(listen::full)
        .layer(from_fn_with_state(counts, methods::finish))
}

/// All routes. Their answers are counted.
pub(crate) fn router(shared: Shared, counts: HttpCounts) -> Router {
    let mut router = Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics));
    if shared.options.api {
        router = router
            .route("/", get(root::root))
            .route("/api/{*path}", any(dispatch::api))
            .route("/rpc", get(rpc::list))
            .route("/rpc/{*path}", any(rpc::rpc))
            .route("/v1/types", get(types::list))
            .route("/v1/types/{name}", get(types::get_one))
            .route("/v1/openapi.json", get(openapi::document))
            .route("/v1/openapi/{name}", get(openapi::of_group))
            .route("/v1/version", get(version::version))
            .route("/v1/{*path}", any(consul::consul));
        #[cfg(feature = "ui")]
        {
            router = router
                .route("/ui", get(ui::lead))
                .route("/ui/", get(ui::file))
                .route("/ui/{*path}", get(ui::file))
                .route("/v1/session", any(ui::session::session));
        }
    }
    let guard = from_fn_with_state(shared.clone(), browsers::guard);
    let callers = from_fn_with_state(shared.clone(), callers::guard);
    let routes: Router = router.fallback(dispatch::not_found).with_state(shared);
    // Around all routes together: each route alone adds its `Allow` outside of its own layers.
    let compressed = from_fn_with_state(compress::Encoders::default(), compress::compress);
    let finish = from_fn_with_state(counts, methods::finish);
    Router::new().fallback_service(routes).layer(callers).layer(guard).layer(finish).layer(compressed)
}

/// Parses a text as path and query.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(registry: &mortise_service::registry::Registry, text: &str) {
    let _ = route::Route::find(registry, text);
    if let Ok(uri) = text.parse() {
        let query = query::Query::from_uri(&uri);
        let _ = (
            query.tenancy(),
            query.version_of_change(),
            query.check_read(),
            query.name_prefix(),
            query.watch(),
            query.token(),
        );
    }
}
