//! The policy of a port over time: follows its Workload with the rights of the caller.
//!
//! A watch that ends (it lagged, the plugin is replaced) is opened again after a wait, and the policy stays as it was
//! meanwhile. The stream ends with the fault if no policy is known yet, or if the caller has lost the right.
//!
//! A workload that does not exist is NotFound, at the begin and later: a proxy then keeps the policy that it has, and
//! asks again, as with Linkerd's own control plane. So the end of a Workload opens no port.
//!
//! # Cost
//! Between two messages a stream keeps the digest of the last one, and its open watch. The places of streams bound
//! both; the endpoints of watched services take no room from them, since a proxy may block its ports without a policy.

use std::time::Duration;

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
    grpc::destination::{Destination, StreamPermit, digest},
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
    /// Digest of the last policy.
    last: Option<u64>,
    stopped: BoxFuture<'static, ()>,
    _place: StreamPermit,
}

/// An open watch of a workload.
struct OpenWatch {
    events: Events,
    /// Whether the snapshot is complete.
    is_complete: bool,
    /// The Workload of the last event, until its policy is made.
    shown: Option<Workload>,
}

impl PortStream {
    /// Begins to follow a workload.
    ///
    /// # Errors
    /// `ResourceExhausted`: too many streams.
    pub(super) fn new(destination: &Destination, caller: Caller, name: WorkloadName, port: u16) -> Result<Self, Error> {
        let place = destination.place()?;
        Ok(Self {
            service: destination.resources().clone(),
            caller,
            name,
            port,
            watch: None,
            waits: Waits::new(Backoff::new(MIN_REOPEN_WAIT, MAX_REOPEN_WAIT).with_jitter(0.25)),
            last: None,
            stopped: destination.stopped(),
            _place: place,
        })
    }

    /// Waits for the next policy that differs from the last. The first is there at once.
    ///
    /// # Errors
    /// `NotFound`: the workload does not exist. `Unavailable`: no plugin serves workloads, or the server stops. Those
    /// of a watch.
    pub(super) async fn next(&mut self) -> Result<Server, Error> {
        loop {
            let following = follow(&self.service, &self.caller, &self.name, &mut self.watch, (self.port, self.last));
            let followed = tokio::select! {
                biased;
                () = &mut self.stopped => return Err(Error::new(Code::Unavailable, "the server is stopping; subscribe again")),
                followed = following => followed,
            };
            let error = match followed {
                Ok((server, digest)) => {
                    self.waits.reset();
                    self.last = Some(digest);
                    return Ok(server);
                }
                Err(error) => error,
            };
            self.watch = None;
            let is_final = matches!(error.code, Code::PermissionDenied | Code::Unauthenticated | Code::NotFound);
            if is_final || (self.last.is_none() && error.code != Code::Aborted) {
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

/// Waits for a policy that differs from the last, and returns it with its digest.
async fn follow(
    service: &ResourceService,
    caller: &Caller,
    name: &WorkloadName,
    watch: &mut Option<Box<OpenWatch>>,
    (port, last): (u16, Option<u64>),
) -> Result<(Server, u64), Error> {
    if !name.is_possible() {
        require(service, caller)?;
        return Err(absent(name));
    }
    let open = match watch {
        Some(open) => open,
        None => watch.insert(Box::new(OpenWatch::open(service, caller, name).await?)),
    };
    loop {
        if let Some(policy) = open.next(name, port).await? {
            let now = digest(&policy.encode_to_vec());
            if last != Some(now) {
                return Ok((policy, now));
            }
        }
    }
}

fn absent(WorkloadName { namespace, name }: &WorkloadName) -> Error {
    let text = "does not exist, so it has no policy; create the Workload, and the proxy gets it when it asks again";
    Error::new(Code::NotFound, format!("the workload {namespace}/{name} {text}"))
}

fn require(service: &ResourceService, caller: &Caller) -> Result<(), Error> {
    match caller.authorizer.has_permissions() {
        true => require_workloads(service),
        false => Err(no_permissions(&*caller.authorizer)),
    }
}

impl OpenWatch {
    /// Opens the watch, and checks that the caller may read the workload: to a caller that may only list, it would look
    /// absent.
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
        Ok(Self { events, is_complete: false, shown: None })
    }

    /// The policy after the next event, if the snapshot is complete.
    ///
    /// # Errors
    /// `NotFound`: the workload does not exist. Those of a watch.
    async fn next(&mut self, name: &WorkloadName, port: u16) -> Result<Option<Server>, Error> {
        match self.events.next().await?.event {
            Some(Event::Upsert(upsert)) => self.shown = Some(decoded(upsert.resource)?),
            Some(Event::Delete(_)) => self.shown = None,
            Some(Event::EndOfSnapshot(_)) => self.is_complete = true,
            None => return Ok(None),
        }
        if !self.is_complete {
            return Ok(None);
        }
        let workload = self.shown.take().ok_or_else(|| absent(name))?;
        Ok(Some(policy(name, &workload, port)))
    }
}

fn decoded(resource: Option<pb::Resource>) -> Result<Workload, Error> {
    let data = resource.and_then(|resource| resource.data).unwrap_or_default().value;
    Workload::decode(data.as_slice())
        .map_err(|error| Error::internal(format!("a stored workload cannot be decoded: {error}")))
}
