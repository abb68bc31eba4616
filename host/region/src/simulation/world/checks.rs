//! The state of the regions, and what must hold.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use mortise_resource::{data::PeerState, pb};
use mortise_service::Consistency;
use mortise_store::{Query, TypeKey};
use mortise_test_guests::Thing;
use prost::Message as _;

use super::{ALL, Owned, WAIT, World, blue, caller, thing_type};
use crate::simulation::sim_peer::{Lie, SimLink};

impl World {
    /// Returns the number of false messages, by the fault.
    pub(in crate::simulation) fn false_messages(&self) -> BTreeMap<Lie, usize> {
        let mut all = BTreeMap::new();
        for (lie, number) in self.links.values().flat_map(SimLink::false_messages) {
            *all.entry(lie).or_default() += number;
        }
        all
    }

    /// Whether a region has stopped a peer.
    pub(in crate::simulation) fn has_stopped(&self, at: &str, peer: &str) -> bool {
        let peers = self.sites[at].replication.report().peers;
        peers.iter().any(|known| known.name == peer && known.state() == PeerState::Stopped)
    }

    /// Whether a region is current with a peer.
    pub(in crate::simulation) fn is_current(&self, at: &str, peer: &str) -> bool {
        let peers = self.sites[at].replication.report().peers;
        peers.iter().any(|known| known.name == peer && known.state() == PeerState::Current)
    }

    /// Returns the reason why a region has stopped a peer; without a stop, the last fault of each type.
    pub(in crate::simulation) fn faults(&self, at: &str, peer: &str) -> Vec<String> {
        let peers = self.sites[at].replication.report().peers;
        let peer = peers.into_iter().find(|known| known.name == peer).unwrap();
        match peer.stopped.is_empty() {
            true => peer.types.into_iter().map(|followed| followed.last_error).collect(),
            false => vec![peer.stopped],
        }
    }

    pub(super) async fn things(&self, at: &str) -> Vec<pb::Resource> {
        let tenancy = pb::Tenancy { partition: "*".into(), namespace: "*".into() };
        let query = Query { type_key: TypeKey::from(&thing_type()), tenancy, name_prefix: String::new() };
        self.sites[at].service.backend().list(Consistency::Consistent, &query).await.unwrap()
    }

    /// The things at a region that belong to an owner.
    pub(in crate::simulation) async fn held(&self, at: &str, owner: &str) -> Owned {
        let mut held = Owned::new();
        for thing in self.things(at).await {
            let id = thing.id.unwrap();
            let content = Thing::decode(thing.data.unwrap().value.as_slice()).unwrap();
            if content.text == owner {
                held.insert((id.tenancy.unwrap().namespace, id.name), content.number);
            }
        }
        held
    }

    pub(super) async fn has_blue(&self, at: &str) -> bool {
        self.sites[at].service.backend().read(Consistency::Consistent, &blue()).await.is_ok()
    }

    /// Checks what holds at every moment: each region has its own things, and Read finds what a list shows.
    pub(in crate::simulation) async fn check(&self, when: &str) {
        for region in ALL {
            assert_eq!(self.held(region, region).await, self.owned[region], "seed {}: {when}: {region}", self.seed);
            for thing in self.things(region).await {
                let read = pb::ReadRequest { id: thing.id.clone() };
                let (is_own, service) = (
                    Thing::decode(thing.data.unwrap().value.as_slice()).unwrap().text == region,
                    &self.sites[region].service,
                );
                if is_own && let Err(e) = service.read(&caller(), read).await {
                    panic!("seed {}: {when}: {region} lists {:?}, but {e}", self.seed, thing.id);
                }
            }
        }
    }

    /// Waits until every region has what the others own, and accepts stopped peers. Returns the number of those.
    pub(in crate::simulation) async fn settle(&self) -> usize {
        let (begun, mut accepted) = (Instant::now(), 0);
        loop {
            let mut wrong = Vec::new();
            for at in ALL {
                for peer in self.sites[at].replication.report().peers {
                    if peer.state() == PeerState::Stopped {
                        accepted += usize::from(self.accept(at, &peer.name).await);
                        wrong.push(format!("{at} has stopped {}: {}", peer.name, peer.stopped));
                    }
                }
                let has_blue = self.has_blue(at).await;
                for owner in ALL.into_iter().filter(|owner| *owner != at) {
                    let mut expected = self.owned[owner].clone();
                    expected.retain(|(namespace, _), _| has_blue || namespace != "blue");
                    let held = self.held(at, owner).await;
                    if held != expected {
                        let peer =
                            self.sites[at].replication.report().peers.into_iter().find(|peer| peer.name == owner);
                        wrong.push(format!("{at} has {held:?} of {owner}, not {expected:?}: {peer:?}"));
                    }
                }
            }
            if wrong.is_empty() {
                return accepted;
            }
            assert!(begun.elapsed() < WAIT, "seed {}: {wrong:#?}", self.seed);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
