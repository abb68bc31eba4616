//! What orchestrators and Prometheus ask.

use axum::{extract::State, http::StatusCode};

use tokio::sync::watch;

use super::Shared;

/// 200 while the process serves.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// 200 once everything is loaded, 503 before and during shutdown.
pub(super) async fn readyz(State(shared): State<Shared>) -> (StatusCode, &'static str) {
    readiness(shared.ready).await
}

/// As `readyz`, for connections that are answered nothing else.
pub(super) async fn readiness(ready: watch::Receiver<bool>) -> (StatusCode, &'static str) {
    if *ready.borrow() { (StatusCode::OK, "ready\n") } else { (StatusCode::SERVICE_UNAVAILABLE, "not ready\n") }
}

/// Prometheus text.
pub(super) async fn metrics(State(shared): State<Shared>) -> String {
    shared.controller_manager.observe();
    shared.metrics.render()
}
