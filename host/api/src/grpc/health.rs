//! Health over gRPC. A watch ends after the message that the server stops: an open one would delay the end.
//!
//! Services that write report that they do not serve while the store is damaged or cannot write, or while the audit log
//! takes no records; so does the server as a whole. Services that only read go on.

use std::pin::Pin;

use futures::{Stream, StreamExt as _, stream};
use tokio::sync::watch as signal;
use tonic::{Request, Response, Status};
use tonic_health::{
    pb::{HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus, health_server},
    server::{HealthReporter, HealthService},
};

use crate::{
    plugin_stubs::{
        controller_service_server::SERVICE_NAME as CONTROLLER_SERVICE,
        plugin_service_server::SERVICE_NAME as PLUGIN_SERVICE, server_service_server::SERVICE_NAME as SERVER_SERVICE,
        type_service_server::SERVICE_NAME as TYPE_SERVICE,
    },
    stubs::resource_service_server::SERVICE_NAME,
    write_health::WriteHealth,
};

/// The server as a whole, and services that write.
const WRITING_SERVICES: [&str; 3] = ["", SERVICE_NAME, PLUGIN_SERVICE];
/// Services that only read.
const READING_SERVICES: [&str; 3] = [TYPE_SERVICE, CONTROLLER_SERVICE, SERVER_SERVICE];

/// The reported health.
pub(crate) struct Health {
    /// The health service, which holds the states and their watchers.
    pub(crate) service: HealthService,
    /// False once the server stops.
    pub(crate) ready: signal::Receiver<bool>,
}

/// Reports the health of every service.
pub(crate) async fn report(reporter: &HealthReporter, serving: bool, sound: bool) {
    for (names, serving) in [(WRITING_SERVICES, serving && sound), (READING_SERVICES, serving)] {
        let status =
            if serving { tonic_health::ServingStatus::Serving } else { tonic_health::ServingStatus::NotServing };
        for name in names {
            reporter.set_service_status(name, status).await;
        }
    }
}

/// Follows store and audit log until the store is closed.
pub(crate) async fn follow(reporter: HealthReporter, mut write_health: WriteHealth) {
    while write_health.changed().await {
        report(&reporter, true, write_health.fault().is_none()).await;
    }
}

#[tonic::async_trait]
impl health_server::Health for Health {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        self.service.check(request).await
    }

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let ready = self.ready.clone();
        let replies = self.service.watch(request).await?.into_inner().flat_map(move |reply| {
            let last =
                !*ready.borrow() && reply.as_ref().is_ok_and(|reply| reply.status() == ServingStatus::NotServing);
            let end = last.then(|| Err(Status::unavailable("the server is stopping")));
            stream::iter(std::iter::once(reply).chain(end))
        });
        Ok(Response::new(Box::pin(replies)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mortise_store::Health as StoreHealth;
    use tonic_health::pb::health_server::Health as _;

    use super::*;

    #[tokio::test]
    async fn what_writes_does_not_serve_while_the_store_is_not_sound() {
        let (store, followed) = signal::channel(StoreHealth::default());
        let reporter = HealthReporter::new();
        report(&reporter, true, true).await;
        let (audit, recorded) = signal::channel(None);
        let write_health = WriteHealth::testing(followed, Some(recorded));
        let following = tokio::spawn(follow(reporter.clone(), write_health));
        let (_ready, ready) = signal::channel(true);
        let health = Health { service: HealthService::from_health_reporter(reporter), ready };
        let serves = async |service: &str| {
            let request = Request::new(HealthCheckRequest { service: service.to_owned() });
            health.check(request).await.unwrap().into_inner().status() == ServingStatus::Serving
        };
        assert!(serves("").await && serves(SERVICE_NAME).await && serves(TYPE_SERVICE).await);
        // A full disk does not count.
        store.send_modify(|health| health.full = Some("1 byte is missing".into()));
        audit.send_replace(Some("no space".to_owned()));
        tokio::time::timeout(Duration::from_secs(30), async {
            while serves("").await {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
        audit.send_replace(None);
        tokio::time::timeout(Duration::from_secs(30), async {
            while !serves("").await {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
        store.send_modify(|health| health.poisoned = Some("sync".into()));
        tokio::time::timeout(Duration::from_secs(30), async {
            while serves("").await || serves(SERVICE_NAME).await || serves(PLUGIN_SERVICE).await {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
        assert!(serves(TYPE_SERVICE).await && serves(SERVER_SERVICE).await, "they only read");
        drop(store);
        following.await.unwrap();
    }
}
