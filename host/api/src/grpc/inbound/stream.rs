//! The policy of a port over time: follows its Workload with the rights of the caller.
//!
//! A watch that ends (it lagged, the plugin is replaced) is opened again after a wait, and the policy stays as it was
//! meanwhile. The stream ends with the fault if no policy is known yet, or if the caller has lost the right.

use std::{future::pending, time::Duration};

use futures::future::BoxFuture;
use mortise_resource::{
    Code, Error,
    authorizer::no_permissions,
    backoff::{Backoff, Waits},
    pb,
    pb::watch_event::Event,
};
use mortise_service::{Caller, Events, ResourceService};
use prost::Message as _;
use tokio::time::sleep;

use super::{policy::policy, workload::WorkloadName};
use crate::{
    catalog::Workload,
    endpoints::{require_workloads, workloads},
    grpc::destination::{Destination, StreamPermit},
    linkerd::inbound::Server,
};

/// The partition of all workloads.
const WORKLOAD_PARTITION: &str = "default";

/// First and longest wait before a watch is opened again.
const MIN_REOPEN_WAIT: Duration = Duration::from_millis(50);
const MAX_REOPEN_WAIT: Duration = Duration::from_secs(5);

/// The policies of a port.
pub(super) struct PortStream {
    service: ResourceService,
    caller: Caller,
    name: WorkloadName,
    port: u16,
    watch: Option<Box<OpenWatch>>,
    waits: Waits,
    last: Option<Server>,
    stopped: BoxFuture<'static, ()>,
    _place: StreamPermit,
}

/// An open watch of a workload.
struct OpenWatch {
    events: Events,
    /// Whether the snapshot is complete.
    is_complete: bool,
    workload: Option<Workload>,
}

impl PortStream {
    pub(super) fn new(
        destination: &Destination,
        place: StreamPermit,
        caller: Caller,
        name: WorkloadName,
        port: u16,
    ) -> Self {
        Self {
            service: destination.resources().clone(),
            caller,
            name,
            port,
            watch: None,
            waits: Waits::new(Backoff::new(MIN_REOPEN_WAIT, MAX_REOPEN_WAIT).with_jitter(0.25)),
            last: None,
            stopped: destination.stopped(),
            _place: place,
        }
    }

    /// Waits for the next policy that differs from the last. The first is there at once.
    ///
    /// # Errors
    /// `Unavailable`: no plugin serves workloads, or the server stops. Those of a watch.
    pub(super) async fn next(&mut self) -> Result<Server, Error> {
        loop {
            let following =
                follow(&self.service, &self.caller, &self.name, &mut self.watch, (self.port, self.last.as_ref()));
            let followed = tokio::select! {
                biased;
                () = &mut self.stopped => return Err(Error::new(Code::Unavailable, "the server is stopping; subscribe again")),
                followed = following => followed,
            };
            let error = match followed {
                Ok(server) => {
                    self.waits.reset();
                    self.last = Some(server.clone());
                    return Ok(server);
                }
                Err(error) => error,
            };
            self.watch = None;
            let forbidden = matches!(error.code, Code::PermissionDenied | Code::Unauthenticated);
            if forbidden || (self.last.is_none() && error.code != Code::Aborted) {
                return Err(error);
            }
            let WorkloadName { namespace, name } = &self.name;
            let wait = self.waits.next_wait();
            tracing::debug!(namespace, name, %error, ?wait, "the watch of a workload ended and is opened again");
            tokio::select! {
                () = &mut self.stopped => return Err(Error::new(Code::Unavailable, "the server is stopping; subscribe again")),
                () = sleep(wait) => {}
            }
        }
    }
}

/// Waits for a policy that differs from the last.
async fn follow(
    service: &ResourceService,
    caller: &Caller,
    name: &WorkloadName,
    watch: &mut Option<Box<OpenWatch>>,
    (port, last): (u16, Option<&Server>),
) -> Result<Server, Error> {
    if !name.is_possible() {
        return match last {
            None => {
                require(service, caller)?;
                Ok(policy(name, None, port))
            }
            // No workload of this name will appear.
            Some(_) => pending().await,
        };
    }
    let open = match watch {
        Some(open) => open,
        None => watch.insert(Box::new(OpenWatch::open(service, caller, name).await?)),
    };
    loop {
        open.take_event().await?;
        if open.is_complete {
            let now = policy(name, open.workload.as_ref(), port);
            if last != Some(&now) {
                return Ok(now);
            }
        }
    }
}

fn require(service: &ResourceService, caller: &Caller) -> Result<(), Error> {
    match caller.authorizer.has_permissions() {
        true => require_workloads(service),
        false => Err(no_permissions(&*caller.authorizer)),
    }
}

impl OpenWatch {
    /// Opens the watch, and checks that the caller may read the workload: to a caller that may only list, it would look
    /// absent, and an absent one is open to everyone.
    async fn open(service: &ResourceService, caller: &Caller, name: &WorkloadName) -> Result<Self, Error> {
        require(service, caller)?;
        let tenancy = pb::Tenancy { partition: WORKLOAD_PARTITION.to_owned(), namespace: name.namespace.clone() };
        let request = pb::WatchListRequest {
            r#type: Some(workloads().to_pb()),
            tenancy: Some(tenancy.clone()),
            name_prefix: name.name.clone(),
            after: None,
        };
        let events = service.watch_list(caller, request).await?.only(name.name.clone());
        let id = pb::Id {
            name: name.name.clone(),
            r#type: Some(workloads().to_pb()),
            tenancy: Some(tenancy),
            uid: String::new(),
        };
        match service.read(caller, pb::ReadRequest { id: Some(id) }).await {
            Ok(_) => {}
            Err(error) if error.code == Code::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(Self { events, is_complete: false, workload: None })
    }

    async fn take_event(&mut self) -> Result<(), Error> {
        let (resource, is_there) = match self.events.next().await?.event {
            Some(Event::Upsert(upsert)) => (upsert.resource, true),
            Some(Event::Delete(delete)) => (delete.resource, false),
            Some(Event::EndOfSnapshot(_)) => {
                self.is_complete = true;
                return Ok(());
            }
            None => return Ok(()),
        };
        let data = resource.and_then(|resource| resource.data).unwrap_or_default().value;
        let decoded = is_there.then(|| Workload::decode(data.as_slice())).transpose();
        let decoded =
            decoded.map_err(|error| Error::internal(format!("a stored workload cannot be decoded: {error}")))?;
        // The other fields may be large, and say nothing about the policy.
        self.workload =
            decoded.map(|Workload { ports, inbound, .. }| Workload { ports, inbound, ..Workload::default() });
        Ok(())
    }
}
