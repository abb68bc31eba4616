//! What orchestrators and Prometheus ask.

use axum::{extract::State, http::StatusCode};

use tokio::sync::watch;

use super::Shared;

/// 200 while the process serves.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// 200 once everything is loaded, 503 before that, during shutdown, and while the store does not do what it is there
/// for.
pub(super) async fn readyz(State(shared): State<Shared>) -> (StatusCode, &'static str) {
    readiness(shared.ready, shared.service.backend().health()).await
}

/// As `readyz`, for connections that are answered nothing else.
pub(super) async fn readiness(
    ready: watch::Receiver<bool>,
    store: watch::Receiver<mortise_store::Health>,
) -> (StatusCode, &'static str) {
    match (*ready.borrow(), store.borrow().is_ready()) {
        (true, true) => (StatusCode::OK, "ready\n"),
        (true, false) => {
            (StatusCode::SERVICE_UNAVAILABLE, "not ready: the store is not sound; mortise status says why\n")
        }
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
    }
}

/// Prometheus text.
pub(super) async fn metrics(State(shared): State<Shared>) -> String {
    shared.controller_manager.observe();
    shared.metrics.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_store_that_is_not_sound_is_not_ready_and_a_full_disk_is_no_reason() {
        let (_ready, ready) = watch::channel(true);
        let (store, health) = watch::channel(mortise_store::Health::default());
        store.send_modify(|health| health.full = Some("1 byte is missing".into()));
        assert_eq!(readiness(ready.clone(), health.clone()).await, (StatusCode::OK, "ready\n"));
        store.send_modify(|health| health.poisoned = Some("sync".into()));
        assert_eq!(readiness(ready, health).await.0, StatusCode::SERVICE_UNAVAILABLE);
    }
}
