//! The way to a peer in the same process, which may lead nowhere or to another server, and lie.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use mortise_resource::{
    Error,
    authorizer::AllowAll,
    data::{
        BatchGetRequest, BatchGetResponse, IdentifyResponse, ResourceChange, WatchResourcesRequest,
        WatchResourcesResponse,
        resource_change::{ChangeType, Current, Removed},
    },
    pb,
};
use mortise_service::{Caller, Consistency, ResourceService};
use mortise_store::StoreId;
use mortise_test_guests::Thing;
use parking_lot::Mutex;
use prost::Message as _;
use tokio::sync::watch;
use tonic::{Code, Status};

use crate::{
    Replication,
    error::FollowError,
    link::{Dial, Messages, PeerCalls},
};

/// A fault of the messages of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lie {
    /// Every token is refused.
    RefusesTokens,
    /// Versions are 2^63 higher.
    HighVersions,
    /// The resources of third regions are its own.
    ClaimsOthers,
    /// Every change is followed by its removal.
    Removes,
    /// Every message comes twenty times.
    Floods,
    /// Messages come late.
    Lags,
    /// The clock is years ahead.
    WrongClock,
    /// Tokens are unknown, every snapshot is empty, and no resource is found.
    EmptySnapshots,
    /// A resource is gone between two questions about it.
    Forgets,
    /// It has no identity, as of an older release.
    IsOlder,
}

impl Lie {
    /// The faults of random histories.
    pub(super) const ALL: [Self; 8] = [
        Self::RefusesTokens,
        Self::HighVersions,
        Self::ClaimsOthers,
        Self::Removes,
        Self::Floods,
        Self::Lags,
        Self::WrongClock,
        Self::EmptySnapshots,
    ];
}

/// The server at the other end, and what is wrong with it.
#[derive(Clone, Default)]
struct Target {
    server: Option<(ResourceService, Replication)>,
    /// The server of all calls behind an identification, if it is another one.
    behind_identity: Option<(ResourceService, Replication)>,
    lie: Option<Lie>,
}

/// A link that tests point to servers. Cheap to clone.
#[derive(Clone)]
pub(super) struct SimLink {
    /// Region of the peer.
    region: &'static str,
    target: Arc<Mutex<Target>>,
    /// Ends the watches over the link when it changes.
    epoch: Arc<watch::Sender<u64>>,
    /// Messages and answers that were false, by the fault.
    false_messages: Arc<Mutex<BTreeMap<Lie, usize>>>,
}

impl SimLink {
    /// Makes a link that leads nowhere.
    pub(super) fn new(region: &'static str) -> Self {
        Self { region, target: Arc::default(), epoch: Arc::default(), false_messages: Arc::default() }
    }

    /// Ends the watches, and points to another server behind each identification.
    pub(super) fn change_behind_identity(&self, server: (ResourceService, Replication)) {
        self.target.lock().behind_identity = Some(server);
        self.epoch.send_modify(|epoch| *epoch += 1);
    }

    pub(super) fn point_to(&self, server: Option<(ResourceService, Replication)>) {
        let mut target = self.target.lock();
        (target.server, target.behind_identity) = (server, None);
        drop(target);
        self.epoch.send_modify(|epoch| *epoch += 1);
    }

    /// Leads nowhere if the server has this store.
    pub(super) fn leave(&self, store: StoreId) {
        let server = self.target.lock().server.take_if(|(service, _)| service.backend().store_id() == store);
        if server.is_some() {
            self.epoch.send_modify(|epoch| *epoch += 1);
        }
    }

    pub(super) fn lie(&self, lie: Option<Lie>) {
        self.target.lock().lie = lie;
        self.epoch.send_modify(|epoch| *epoch += 1);
    }

    /// Returns the number of false messages and answers, by the fault.
    pub(super) fn false_messages(&self) -> BTreeMap<Lie, usize> {
        self.false_messages.lock().clone()
    }

    fn count(&self, lie: Lie) {
        *self.false_messages.lock().entry(lie).or_default() += 1;
    }

    fn server(&self) -> Result<(ResourceService, Replication), Status> {
        self.target.lock().server.clone().ok_or_else(|| Status::unavailable("the link is cut"))
    }

    /// Returns the server of a call for a store in the region of the peer.
    fn addressee(&self, store: &str) -> Result<(ResourceService, Replication), Status> {
        let other = self.target.lock().behind_identity.clone();
        let server = other.map_or_else(|| self.server(), Ok)?;
        if !store.is_empty() && server.0.backend().store_id().to_string() != store {
            return Err(Status::failed_precondition("the call is for the store of another server"));
        }
        if server.0.region() != Some(self.region) {
            return Err(Status::failed_precondition("the call is for the region of another server"));
        }
        Ok(server)
    }
}

fn caller() -> Caller {
    Caller::new(Arc::new(AllowAll), Consistency::Consistent)
}

fn status(error: Error) -> Status {
    Status::new(Code::from_i32(error.code as i32), error.message)
}

#[async_trait]
impl Dial for SimLink {
    async fn open(&self) -> Result<Arc<dyn PeerCalls>, FollowError> {
        Ok(Arc::new(self.clone()))
    }
}

#[async_trait]
impl PeerCalls for SimLink {
    async fn identify(&self) -> Result<IdentifyResponse, Status> {
        if self.target.lock().lie == Some(Lie::IsOlder) {
            return Err(Status::unimplemented("Identify"));
        }
        self.server()?.1.identify().await.map_err(status)
    }

    async fn watch(&self, store: &str, mut request: WatchResourcesRequest) -> Result<Messages, Status> {
        let (lie, mut epoch) = (self.target.lock().lie, self.epoch.subscribe());
        epoch.mark_unchanged();
        let resumes = !request.resume_token.is_empty();
        if lie == Some(Lie::RefusesTokens) && resumes {
            self.count(Lie::RefusesTokens);
            return Err(Status::invalid_argument("resume_token: it is not a resume token"));
        }
        let owner = request.filter.split('"').nth(1).unwrap_or_default().to_owned();
        if lie == Some(Lie::ClaimsOthers) {
            request.filter = String::new();
        }
        if lie == Some(Lie::EmptySnapshots) {
            request.resume_token = String::new();
        }
        let (service, _) = self.addressee(store)?;
        let changes = service.watch_resources(&caller(), request).await.map_err(status)?;
        drop(service);
        let messages = stream::unfold((changes, epoch), move |(mut changes, mut epoch)| async move {
            if lie == Some(Lie::Lags) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            tokio::select! {
                message = changes.next() => Some((message.map_err(status), (changes, epoch))),
                _ = epoch.changed() => None,
            }
        });
        let repetitions = if lie == Some(Lie::Floods) { 20 } else { 1 };
        // Without it, a peer that resumes does not take the empty snapshot for one.
        let reset = (lie == Some(Lie::EmptySnapshots) && resumes)
            .then(|| Ok(WatchResourcesResponse { is_hard_reset: true, ..WatchResourcesResponse::default() }));
        let link = self.clone();
        let messages = messages
            .flat_map(move |message| stream::iter(std::iter::repeat_n(message, repetitions)))
            .map(move |message| message.map(|message| link.falsified(message, lie, &owner)));
        Ok(stream::iter(reset).chain(messages).boxed())
    }

    async fn batch_get(&self, store: &str, request: BatchGetRequest) -> Result<BatchGetResponse, Status> {
        let is_whole = request.field_mask.is_none();
        let mut answer = self.addressee(store)?.0.batch_get(&caller(), request).await.map_err(status)?;
        match self.target.lock().lie {
            Some(Lie::HighVersions) => answer.resources.iter_mut().for_each(raise),
            Some(Lie::EmptySnapshots) => answer.resources.clear(),
            Some(Lie::Forgets) if is_whole => answer.resources.clear(),
            _ => {}
        }
        Ok(answer)
    }
}

impl SimLink {
    /// Returns the message as a peer with this fault sends it.
    fn falsified(&self, mut message: WatchResourcesResponse, lie: Option<Lie>, owner: &str) -> WatchResourcesResponse {
        let Some(lie) = lie else { return message };
        let mut removed = Vec::new();
        let mut is_false = matches!(lie, Lie::Floods | Lie::Lags);
        for change in &mut message.changes {
            let Some(ChangeType::Current(Current { resource: Some(resource) })) = &mut change.change_type else {
                continue;
            };
            is_false |= !matches!(lie, Lie::ClaimsOthers);
            match lie {
                Lie::HighVersions => raise(resource),
                Lie::ClaimsOthers => {
                    let syncing = resource.meta.get_or_insert_default().syncing.get_or_insert_default();
                    is_false |= syncing.owning_region != owner;
                    owner.clone_into(&mut syncing.owning_region);
                    if let Some(data) = resource.data.as_mut().filter(|data| data.type_url.ends_with("Thing")) {
                        let thing = Thing::decode(data.value.as_slice()).unwrap_or_default();
                        data.value = Thing { text: owner.to_owned(), ..thing }.encode_to_vec();
                    }
                }
                Lie::WrongClock => {
                    let year = prost_types::Timestamp { seconds: 4_102_444_800, nanos: 0 };
                    resource.meta.get_or_insert_default().update_time = Some(year);
                }
                Lie::Removes => {
                    let name = resource.id.clone();
                    let removal = Some(ChangeType::Removed(Removed { name, view_index: 0 }));
                    removed.push(ResourceChange { change_type: removal });
                }
                _ => {}
            }
        }
        message.changes.extend(removed);
        if lie == Lie::EmptySnapshots {
            message.changes.clear();
            message.resume_token.clear();
        }
        if is_false && Lie::ALL.contains(&lie) && lie != Lie::RefusesTokens {
            self.count(lie);
        }
        message
    }
}

fn raise(resource: &mut pb::Resource) {
    let version: u64 = resource.version.parse().unwrap_or_default();
    resource.version = (version | 1 << 63).to_string();
}
