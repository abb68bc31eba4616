//! Health over gRPC, of the server and of every service that reflection lists. A watch ends after the message that the
//! server stops: an open one would delay the end. A watch of a service that the server does not have shows that, and
//! stays open until then.
//!
//! Services that write report that they do not serve while the store is damaged or cannot write, or while the audit log
//! takes no records; so does the server as a whole. Services that only read go on.

use futures::{StreamExt as _, stream, stream::BoxStream};
use tokio::sync::watch as signal;
use tonic::{Request, Response, Status};

use super::services::{OptionalServices, ServedService, served};
use crate::{
    call::truncate,
    health::{
        HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse,
        health_check_response::ServingStatus, health_server,
    },
    write_health::WriteHealth,
};

/// The health of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerHealth {
    /// Whether the server serves; false once it stops.
    pub(crate) serving: bool,
    /// Whether store and audit log take writes.
    pub(crate) sound: bool,
}

impl ServerHealth {
    fn of(self, service: ServedService) -> ServingStatus {
        match self.serving && (self.sound || !service.writes) {
            true => ServingStatus::Serving,
            false => ServingStatus::NotServing,
        }
    }
}

/// Most bytes of an unknown name that the error repeats.
const MAX_NAME_BYTES: usize = 128;

/// The server as a whole.
const SERVER: ServedService = ServedService::whole_server();

/// The health service.
pub(crate) struct Health {
    health: signal::Receiver<ServerHealth>,
    parts: OptionalServices,
}

impl Health {
    /// Makes the service of a server with these parts.
    pub(crate) fn new(health: signal::Receiver<ServerHealth>, parts: OptionalServices) -> Self {
        Self { health, parts }
    }

    fn all(&self) -> impl Iterator<Item = ServedService> {
        std::iter::once(SERVER).chain(served(self.parts))
    }

    fn find(&self, name: &str) -> Option<ServedService> {
        self.all().find(|service| service.name == name)
    }
}

/// Follows store and audit log until the store is closed.
pub(crate) async fn follow(health: signal::Sender<ServerHealth>, mut write_health: WriteHealth) {
    while write_health.changed().await {
        health.send_modify(|health| health.sound = write_health.fault().is_none());
    }
}

fn answer(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl health_server::Health for Health {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let name = request.into_inner().service;
        let service = self.find(&name).ok_or_else(|| {
            Status::not_found(format!("unknown service {:?}; List has the known ones", truncate(&name, MAX_NAME_BYTES)))
        })?;
        let health = *self.health.borrow();
        Ok(Response::new(answer(health.of(service))))
    }

    async fn list(&self, _: Request<HealthListRequest>) -> Result<Response<HealthListResponse>, Status> {
        let health = *self.health.borrow();
        let statuses = self.all().map(|service| (service.name.to_owned(), answer(health.of(service)))).collect();
        Ok(Response::new(HealthListResponse { statuses }))
    }

    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let service = self.find(&request.into_inner().service);
        let shown = move |health: ServerHealth| service.map_or(ServingStatus::ServiceUnknown, |one| health.of(one));
        let state = Some((self.health.clone(), None));
        let replies = stream::unfold(state, move |state| async move {
            let (mut health, told) = state?;
            // An error means that the sender is gone, which also means stop.
            let changed = health.wait_for(|health| !health.serving || Some(shown(*health)) != told).await;
            let now = changed.map_or(ServerHealth { serving: false, sound: false }, |health| *health);
            let status = shown(now);
            let told_now = (Some(status) != told).then(|| Ok(answer(status)));
            let end = (!now.serving).then(|| Err(Status::unavailable("the server is stopping")));
            let next = now.serving.then_some((health, Some(status)));
            Some((stream::iter(told_now.into_iter().chain(end)), next))
        });
        Ok(Response::new(replies.flatten().boxed()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mortise_store::Health as StoreHealth;
    use tokio::time::timeout;

    use super::*;
    use crate::health::health_server::Health as _;

    const LONG: Duration = Duration::from_secs(30);
    const RESOURCES: &str = "hashicorp.consul.resource.ResourceService";
    const TYPES: &str = "mortise.v1.TypeService";
    const DISCOVERY: &str = "conduit.proxy.destination.Destination";
    const ALL: OptionalServices = OptionalServices { discovery: true, identity: true };

    fn asked(service: &str) -> Request<HealthCheckRequest> {
        Request::new(HealthCheckRequest { service: service.to_owned() })
    }

    fn serving() -> signal::Sender<ServerHealth> {
        signal::Sender::new(ServerHealth { serving: true, sound: true })
    }

    #[tokio::test]
    async fn what_writes_does_not_serve_while_the_store_is_not_sound() {
        let (store, followed) = signal::channel(StoreHealth::default());
        let (audit, recorded) = signal::channel(None);
        let sender = serving();
        let health = Health::new(sender.subscribe(), ALL);
        let following = tokio::spawn(follow(sender, WriteHealth::testing(followed, Some(recorded))));
        let serves = async |service: &str| {
            health.check(asked(service)).await.unwrap().into_inner().status() == ServingStatus::Serving
        };
        let until = async |sound: bool| {
            timeout(LONG, async {
                while serves("").await != sound {
                    tokio::task::yield_now().await;
                }
            })
            .await
            .unwrap();
        };
        assert!(serves("").await && serves(RESOURCES).await && serves(TYPES).await);
        // A full disk does not count.
        store.send_modify(|health| health.full = Some("1 byte is missing".into()));
        audit.send_replace(Some("no space".to_owned()));
        until(false).await;
        audit.send_replace(None);
        until(true).await;
        store.send_modify(|health| health.poisoned = Some("sync".into()));
        until(false).await;
        for service in served(ALL) {
            assert_eq!(serves(service.name).await, !service.writes, "{}", service.name);
        }
        assert!(!serves(RESOURCES).await && serves(TYPES).await && serves("mortise.v1.ServerService").await);
        drop(store);
        following.await.unwrap();
    }

    #[tokio::test]
    async fn check_list_and_watch_know_the_same_services() {
        for (discovery, identity) in [(false, false), (true, false), (false, true), (true, true)] {
            let sender = serving();
            let parts = OptionalServices { discovery, identity };
            let health = Health::new(sender.subscribe(), parts);
            let listed = health.list(Request::new(HealthListRequest {})).await.unwrap().into_inner().statuses;
            assert_eq!(listed.len(), 1 + served(parts).count());
            assert_eq!(listed.contains_key(DISCOVERY), discovery);
            assert_eq!(listed.contains_key("io.linkerd.proxy.inbound.InboundServerPolicies"), discovery);
            assert_eq!(listed.contains_key("io.linkerd.proxy.identity.Identity"), identity);
            for (name, status) in &listed {
                assert_eq!(health.check(asked(name)).await.unwrap().into_inner(), *status, "{name}");
                let mut watch = health.watch(asked(name)).await.unwrap().into_inner();
                assert_eq!(watch.next().await.unwrap().unwrap(), *status, "{name}");
            }
            let unknown = health.check(asked(&"x".repeat(100_000))).await.unwrap_err();
            assert_eq!(unknown.code(), tonic::Code::NotFound);
            assert!(unknown.message().len() < 300, "{unknown}");
        }
    }

    #[tokio::test]
    async fn a_watch_of_an_unknown_service_shows_that_and_ends_with_the_server() {
        let sender = serving();
        let health = Health::new(sender.subscribe(), ALL);
        let mut unknown = health.watch(asked("nothing.v1.Nothing")).await.unwrap().into_inner();
        let mut known = health.watch(asked("")).await.unwrap().into_inner();
        assert_eq!(unknown.next().await.unwrap().unwrap().status(), ServingStatus::ServiceUnknown);
        assert_eq!(known.next().await.unwrap().unwrap().status(), ServingStatus::Serving);
        sender.send_modify(|health| health.sound = false);
        assert_eq!(known.next().await.unwrap().unwrap().status(), ServingStatus::NotServing);
        assert!(futures::poll!(unknown.next()).is_pending(), "it stays open");
        sender.send_modify(|health| health.sound = true);
        assert_eq!(known.next().await.unwrap().unwrap().status(), ServingStatus::Serving);
        sender.send_modify(|health| health.serving = false);
        assert_eq!(known.next().await.unwrap().unwrap().status(), ServingStatus::NotServing);
        for mut ended in [known, unknown] {
            let end = timeout(LONG, ended.next()).await.unwrap().unwrap().unwrap_err();
            assert_eq!(end.code(), tonic::Code::Unavailable);
            assert!(ended.next().await.is_none());
        }
    }
}
