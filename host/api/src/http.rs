//! The HTTP port: what orchestrators and Prometheus ask.
//!
//! | path | answer |
//! |---|---|
//! | `/healthz` | 200 while the process serves |
//! | `/readyz` | 200 once everything is loaded, 503 before and during shutdown |
//! | `/metrics` | Prometheus text |

use axum::{Router, extract::State, http::StatusCode, routing::get};
use metrics_exporter_prometheus::PrometheusHandle;
use mortise_conductor::Conductor;
use tokio::sync::watch;

/// What the port answers from.
#[derive(Clone)]
struct Shared {
    ready: watch::Receiver<bool>,
    metrics: PrometheusHandle,
    conductor: Conductor,
}

/// The routes.
pub(crate) fn router(ready: watch::Receiver<bool>, metrics: PrometheusHandle, conductor: Conductor) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics_text))
        .with_state(Shared { ready, metrics, conductor })
}

async fn metrics_text(State(shared): State<Shared>) -> String {
    shared.conductor.observe();
    shared.metrics.render()
}

async fn readyz(State(shared): State<Shared>) -> (StatusCode, &'static str) {
    if *shared.ready.borrow() { (StatusCode::OK, "ready\n") } else { (StatusCode::SERVICE_UNAVAILABLE, "not ready\n") }
}
