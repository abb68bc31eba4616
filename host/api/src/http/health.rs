//! Routes for orchestrators and Prometheus.

use std::borrow::Cow;

use axum::{extract::State, http::StatusCode};

use tokio::sync::watch;

use super::Shared;
use crate::write_health::WriteHealth;

/// Answers 200 while the process serves.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Answers 200 once everything is loaded; 503 before that, during shutdown, and while changes cannot be stored or
/// recorded.
pub(super) async fn readyz(State(shared): State<Shared>) -> (StatusCode, Cow<'static, str>) {
    readiness(shared.ready, WriteHealth::new(&shared.service)).await
}

/// Readiness, for connections that get no other answer.
pub(super) async fn readiness(
    ready: watch::Receiver<bool>,
    write_health: WriteHealth,
) -> (StatusCode, Cow<'static, str>) {
    match (*ready.borrow(), write_health.fault()) {
        (true, None) => (StatusCode::OK, "ready\n".into()),
        (true, Some(fault)) => {
            let text = format!("not ready: {fault}; run mortise status for the reason\n");
            (StatusCode::SERVICE_UNAVAILABLE, text.into())
        }
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n".into()),
    }
}

/// Answers the metrics in Prometheus's text format.
pub(super) async fn metrics(State(shared): State<Shared>) -> String {
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
        let (audit, recorded) = watch::channel(None);
        let write_health = WriteHealth::testing(health, Some(recorded));
        let now = async || readiness(ready.clone(), write_health.clone()).await;
        assert_eq!(now().await, (StatusCode::OK, "ready\n".into()));
        audit.send_replace(Some("no space".to_owned()));
        assert!(now().await.1.contains("audit log"), "{:?}", now().await);
        audit.send_replace(None);
        store.send_modify(|health| health.poisoned = Some("sync".into()));
        assert_eq!(now().await.0, StatusCode::SERVICE_UNAVAILABLE);
    }
}
