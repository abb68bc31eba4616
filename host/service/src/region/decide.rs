//! The effect of one change from a peer, decided by the stored resource of its name.
//!
//! # Contract
//! Only replicas from the peer are changed, and resources that the peer's policy here, or the former owner's word,
//! gives to it. So a peer that lies changes its own replicas alone.
//!
//! A namespace that its owner deletes stays while resources of others are in it ([`super::held_unit`]).

use mortise_resource::{
    data::HeldBackReason,
    goten::{MultiRegionPolicy, SyncingMeta},
    meta, pb, types,
};
use mortise_store::{Expectation, Mutation, StoreError};

use super::{
    apply::{ApplyOptions, ReplicatedChange},
    held_unit,
    incoming::{Deferral, ReplicaError, check, check_policy},
    progress::{OwnerStore, ReplicationProgress},
    record::Change,
    replicas::Replicas,
};
use crate::{
    core::ids::{tenancy_of, uid_of},
    registry::Registry,
    rules::{
        TenancyUnits, UnitError,
        region::{self, Placement, owning_region, replica_origin, syncing_of},
        shards, tombstone,
    },
};

/// The effect of a change; the default is nothing.
#[derive(Default)]
pub(super) struct Decision {
    pub(super) mutations: Vec<Mutation>,
    pub(super) expect: Vec<Expectation>,
    pub(super) change: Option<Change>,
    pub(super) deferred: Option<Deferral>,
}

impl Decision {
    /// Removes a replica, with a tombstone if its owner deleted it, so that its children here go, too. A namespace is
    /// held instead; a held one stays as it is.
    pub(super) fn removal(stored: &pb::Resource, deleted: bool) -> Self {
        if is_namespace(stored) {
            return held_unit::hold(stored, deleted).map(|held| Self::put(stored, held)).unwrap_or_default();
        }
        let id = stored.id.clone().unwrap_or_default();
        let mutations = match deleted {
            true => tombstone::removal(stored),
            false => vec![Mutation::Delete { id: id.clone(), version: stored.version.clone() }],
        };
        let change = Change { id, before: stored.generation.clone(), after: String::new() };
        Self { mutations, change: Some(change), ..Self::default() }
    }

    /// Replaces the stored resource in the same incarnation.
    pub(super) fn put(stored: &pb::Resource, next: pb::Resource) -> Self {
        let id = stored.id.clone().unwrap_or_default();
        let change = Change { id, before: stored.generation.clone(), after: next.generation.clone() };
        Self { mutations: vec![Mutation::Put(Box::new(next))], change: Some(change), ..Self::default() }
    }
}

impl Replicas {
    /// Decides the effect of a change by the stored resource.
    pub(super) async fn decide(
        &self,
        registry: &Registry,
        progress: &ReplicationProgress,
        id: &pb::Id,
        change: &ReplicatedChange,
        options: &ApplyOptions,
    ) -> Result<Decision, StoreError> {
        let (peer, store) = (progress.peer(), &progress.store);
        let name = pb::Id { uid: String::new(), ..id.clone() };
        let stored = self.core.stored(&name).await?.map(|stored| stored.decode()).transpose()?;
        let is_same = stored.as_ref().is_some_and(|stored| uid_of(stored) == id.uid);
        let replica = stored.as_ref().filter(|stored| replica_origin(stored) == peer);
        let incoming = match change {
            ReplicatedChange::Put(resource) => resource,
            ReplicatedChange::HandOver(resource) => {
                let Some(replica) = replica.filter(|_| is_same) else { return Ok(Decision::default()) };
                return match self.hand_over(registry, progress, replica, resource).await {
                    Ok(decision) => Ok(decision),
                    Err(ReplicaError::Store(error)) => Err(error),
                    Err(ReplicaError::Deferred(deferral)) => {
                        Ok(Decision { deferred: Some(deferral), ..Decision::default() })
                    }
                };
            }
            ReplicatedChange::Remove { deleted, .. } => {
                // A resource that its former owner gave to the peer is the peer's to delete.
                let given =
                    stored.as_ref().filter(|stored| *deleted && !peer.is_empty() && owning_region(stored) == peer);
                return Ok(replica
                    .or(given)
                    .filter(|_| is_same)
                    .map(|replica| Decision::removal(replica, *deleted))
                    .unwrap_or_default());
            }
        };
        let earlier = replica.filter(|_| !is_same);
        let defer = |deferral: Deferral| {
            // The earlier incarnation is gone, also if the present one has a fault.
            let removal = earlier.map(|replica| Decision::removal(replica, true));
            Decision { deferred: Some(deferral), ..removal.unwrap_or_default() }
        };
        if let Err(deferral) = check_version(&incoming.version, store) {
            return Ok(Decision { deferred: Some(deferral), ..Decision::default() });
        }
        if is_namespace(incoming) && meta::is_marked(&incoming.metadata) {
            let held = replica.filter(|_| is_same).map(|replica| Decision::removal(replica, true));
            return Ok(held.unwrap_or_default());
        }
        let units = match self.units_for_replica(registry, peer, id, incoming, stored.as_ref()).await {
            Ok(units) => units,
            Err(ReplicaError::Store(error)) => return Err(error),
            Err(ReplicaError::Deferred(deferral)) => return Ok(defer(deferral)),
        };
        if let Some(replica) = replica.filter(|_| is_same)
            && held_unit::reason_of(replica).is_none()
            && is_known(replica, incoming, store, options.is_snapshot)
        {
            return Ok(Decision::default());
        }
        if let Some(what) = &options.not_stored {
            return Ok(defer(Deferral::new(HeldBackReason::Store, what.clone())));
        }
        let mut replica = (**incoming).clone();
        replica.id = Some(id.clone());
        replica.version.clear();
        let mut mutations = Vec::new();
        match &stored {
            Some(stored) if is_same => replica.version.clone_from(&stored.version),
            Some(stored) => mutations = tombstone::removal(stored),
            None => {}
        }
        let change = Change {
            id: id.clone(),
            before: stored.as_ref().map_or_else(String::new, |stored| stored.generation.clone()),
            after: replica.generation.clone(),
        };
        set_origin(&mut replica, peer, &incoming.version, store);
        shards::set(&self.core.options.placement.rings, &mut replica);
        mutations.push(Mutation::Put(Box::new(replica)));
        Ok(Decision { mutations, expect: units.expect, change: Some(change), deferred: None })
    }

    /// Decides the effect of a resource that its owner gave to another region: to this one, or to a third, whose own
    /// changes are accepted from then on. Until the third region sends the resource, the former owner stays its origin,
    /// since the new owner may not have it yet. The change is deferred while the policy or the place here does not
    /// agree.
    async fn hand_over(
        &self,
        registry: &Registry,
        progress: &ReplicationProgress,
        replica: &pb::Resource,
        incoming: &pb::Resource,
    ) -> Result<Decision, ReplicaError> {
        let (peer, store) = (progress.peer(), &progress.store);
        let here = self.core.region().unwrap_or_default();
        let (id, owner) = (replica.id.clone().unwrap_or_default(), owning_region(incoming));
        if owner == peer || (owner == owning_region(replica) && incoming.generation == replica.generation) {
            // The watch reports resources of the peer, and this state of a given resource is stored already.
            return Ok(Decision::default());
        }
        check_version(&incoming.version, store)?;
        let kind = check(registry, &id, incoming)?;
        let units = unmarked(TenancyUnits::find(&self.core, tenancy_of(&id)).await)?;
        let refused = |detail: String| Err(Deferral::new(HeldBackReason::Policy, detail).into());
        let inherited = region::inherited(&self.core, registry, kind, incoming, units.policy.as_deref()).await?;
        let placement = Placement { policy: units.policy.as_deref(), inherited: &inherited };
        let Some(computed) = region::computed(kind, incoming, placement, peer) else {
            return refused("its partition has no policy here; apply the same policy here and there".into());
        };
        if owner != computed.owning_region {
            return refused(format!(
                "region {peer:?} gave it to region {owner:?}, and by the policy here it belongs to region {:?}; apply the \
                 same policy here and there",
                computed.owning_region
            ));
        }
        let is_mine = owner == here;
        if is_mine && !replica_origin(incoming).is_empty() {
            // The peer has a mere replica of a resource that this region has lost.
            return refused(format!(
                "region {peer:?} has it as a replica from this region, which has no such resource"
            ));
        }
        let mut next = pb::Resource { id: Some(id), version: replica.version.clone(), ..incoming.clone() };
        if is_mine {
            next.meta.get_or_insert_default().syncing = Some(computed);
        } else {
            set_origin(&mut next, peer, &incoming.version, store);
        }
        shards::set(&self.core.options.placement.rings, &mut next);
        Ok(Decision { expect: units.expect, ..Decision::put(replica, next) })
    }

    /// Looks up the units of a replica's tenancy; or else returns the reason to defer it.
    async fn units_for_replica(
        &self,
        registry: &Registry,
        peer: &str,
        id: &pb::Id,
        incoming: &pb::Resource,
        stored: Option<&pb::Resource>,
    ) -> Result<TenancyUnits, ReplicaError> {
        let found = TenancyUnits::find(&self.core, tenancy_of(id)).await;
        let policy = found.as_ref().ok().and_then(|units| units.policy.as_deref());
        if let Some(stored) = stored {
            let owner = self.computed_owner(registry, stored, policy).await?;
            check_conflict(stored, owner.as_deref(), peer, &id.uid)?;
        }
        let kind = check(registry, id, incoming)?;
        let units = unmarked(found)?;
        let known = stored.map(owning_region).filter(|owner| !owner.is_empty()).unwrap_or(peer);
        let here = self.core.region().unwrap_or_default();
        // If the owner is not here, the peer's word counts, as it does for a region that a field names.
        let inherited = region::inherited(&self.core, registry, kind, incoming, units.policy.as_deref()).await?;
        let placement = Placement { policy: units.policy.as_deref(), inherited: &inherited };
        check_policy(kind, incoming, placement, known, (peer, here))?;
        Ok(units)
    }

    /// Returns the region to which a stored resource belongs by the policy here; `None` for none.
    async fn computed_owner(
        &self,
        registry: &Registry,
        stored: &pb::Resource,
        policy: Option<&MultiRegionPolicy>,
    ) -> Result<Option<String>, StoreError> {
        let wanted = stored.id.as_ref().and_then(|id| id.r#type.as_ref());
        let Some(kind) = wanted.and_then(|wanted| registry.resolve(wanted).ok()) else { return Ok(None) };
        let inherited = region::inherited(&self.core, registry, kind, stored, policy).await?;
        let placement = Placement { policy, inherited: &inherited };
        Ok(region::computed(kind, stored, placement, owning_region(stored)).map(|computed| computed.owning_region))
    }
}

/// Returns the units of a replica, if it may be written in them.
fn unmarked(found: Result<TenancyUnits, UnitError>) -> Result<TenancyUnits, ReplicaError> {
    match found {
        Ok(units) if !units.marked => Ok(units),
        Ok(_) => Err(Deferral::new(HeldBackReason::Place, "its place is marked for deletion here").into()),
        Err(UnitError::Store(e)) => Err(e.into()),
        Err(missing) => Err(Deferral::new(HeldBackReason::Place, missing.to_string()).into()),
    }
}

/// Whether a replica has the state of this version already.
///
/// Versions of different stores cannot be compared, and a store that was set back gives a version twice: in a snapshot,
/// the generation and the time of the update have to agree, too. A replica with a version that its owner cannot have
/// reached came with a false message, and is replaced.
fn is_known(replica: &pb::Resource, incoming: &pb::Resource, store: &OwnerStore, is_snapshot: bool) -> bool {
    let version = incoming.version.as_str();
    let updated = |resource: &pb::Resource| resource.meta.as_ref().and_then(|meta| meta.update_time);
    let syncing = syncing_of(replica.meta.as_deref()).cloned().unwrap_or_default();
    let is_same_store = syncing.owner_store == store.id;
    if is_snapshot || !(is_same_store || syncing.owner_store.is_empty()) {
        return is_same_store
            && syncing.owner_version == version
            && replica.generation == incoming.generation
            && updated(replica) == updated(incoming);
    }
    let had = number(&syncing.owner_version);
    had >= number(version) && !store.is_beyond(had)
}

/// Checks the version that a peer sent.
fn check_version(version: &str, store: &OwnerStore) -> Result<(), Deferral> {
    let invalid = |detail: String| Err(Deferral::new(HeldBackReason::Invalid, detail));
    match version.parse::<u64>() {
        Ok(number) if !store.is_beyond(number) => Ok(()),
        Ok(number) => {
            let newest = store.newest_version.map_or_else(|| "unknown".to_owned(), |newest| newest.to_string());
            invalid(format!("its version {number} is beyond the newest one of its owner ({newest})"))
        }
        Err(_) => invalid("its version is not a decimal number".into()),
    }
}

/// Notes the origin of a replica.
fn set_origin(replica: &mut pb::Resource, peer: &str, version: &str, store: &OwnerStore) {
    let meta = replica.meta.get_or_insert_default();
    meta.syncing = Some(SyncingMeta {
        copied_from: peer.to_owned(),
        owner_version: version.to_owned(),
        owner_store: store.id.clone(),
        ..meta.syncing.take().unwrap_or_default()
    });
}

/// Checks that a resource here does not conflict with a peer's of its name: it is the peer's, or its former owner or
/// the policy here has given it to the peer. A peer's own word about the resource of another region does not count.
fn check_conflict(
    stored: &pb::Resource,
    computed_owner: Option<&str>,
    peer: &str,
    uid_there: &str,
) -> Result<(), Deferral> {
    let is_given = owning_region(stored) == peer || computed_owner == Some(peer);
    if replica_origin(stored) == peer || (uid_of(stored) == uid_there && is_given) {
        return Ok(());
    }
    let owner = match owning_region(stored) {
        "" => "no region".to_owned(),
        owner => format!("region {owner:?}"),
    };
    let detail = format!("a resource of {owner} has this name here; delete or rename one of the two");
    Err(Deferral::new(HeldBackReason::Conflict, detail))
}

fn is_namespace(resource: &pb::Resource) -> bool {
    resource.id.as_ref().and_then(|id| id.r#type.as_ref()).is_some_and(|known| types::namespace().matches(known))
}

/// Returns a version as a number of the store.
pub(super) fn number(version: &str) -> u64 {
    version.parse().unwrap_or_default()
}
