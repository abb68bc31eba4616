//! Runs a plugin's controllers until nothing is left to do.
//!
//! # Limits
//! A resource that is reconciled more than 50 times, or fails 5 times, ends the run ([`Unsettled`]). Reconciles run one
//! by one, in the order of the changes.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    time::Duration,
};

use mortise_resource::{
    manifest::{Controller, TypeName, watch::Mapper},
    pb,
};
use prost::Message;

use super::World;
use crate::{Key, Outcome};

/// Most reconciles of one resource before it counts as waking itself.
const MAX_RECONCILES_PER_RESOURCE: usize = 50;

/// Most attempts at a failing resource.
const MAX_ATTEMPTS: usize = 5;

/// Result of [`World::settle`].
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    /// Number of reconciles.
    pub reconciles: usize,
    /// Reconciles that wait for a later time: call [`World::advance`], and settle again.
    pub later: Vec<PendingReconcile>,
}

/// A reconcile that waits for its time.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingReconcile {
    /// Name of the controller.
    pub controller: String,
    /// Id of the resource.
    pub id: pb::Id,
    /// Delay.
    pub wait: Duration,
    /// Reason, if the reconciler gave one.
    pub reason: Option<String>,
}

/// Reason that the controllers do not settle.
#[derive(Debug, Clone, PartialEq)]
pub enum Unsettled {
    /// A resource was reconciled again and again. Most often, the reconciler writes something each time.
    WakesItself {
        /// Name of the controller.
        controller: String,
        /// Name of the resource.
        resource: String,
    },
    /// The reconciler, a mapper or the initializer failed at each attempt.
    Failing {
        /// Name of the controller.
        controller: String,
        /// Name of the resource; `None` for the initializer.
        resource: Option<String>,
        /// The last error.
        error: String,
    },
}

impl fmt::Display for Unsettled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WakesItself { controller, resource } => {
                write!(
                    f,
                    "controller {controller} reconciled {resource:?} {MAX_RECONCILES_PER_RESOURCE} times: does it wake itself?"
                )
            }
            Self::Failing { controller, resource, error } => {
                let name = resource.as_deref().unwrap_or("its initializer");
                write!(f, "controller {controller} fails at {name:?}: {error}")
            }
        }
    }
}

impl std::error::Error for Unsettled {}

/// Index of the controller, and the encoded id of the resource.
type Item = (usize, Vec<u8>);

#[derive(Default)]
struct Work {
    queue: VecDeque<Item>,
    reconciles: BTreeMap<Item, usize>,
    failures: BTreeMap<Item, usize>,
    later: Vec<PendingReconcile>,
}

impl Work {
    fn push(&mut self, controller: usize, id: &pb::Id) {
        let item = (controller, id.encode_to_vec());
        if !self.queue.contains(&item) {
            self.queue.push_back(item);
        }
    }
}

impl World {
    /// Starts the plugin's controllers, and runs them until nothing is left to do now. Each call is a new start:
    /// initializers run, every resource is reconciled once, and then each that a change concerns. The clock stands
    /// still.
    ///
    /// # Errors
    /// See [`Unsettled`].
    pub fn settle(&self) -> Result<Settled, Unsettled> {
        let controllers = self.controllers();
        for controller in controllers.iter().filter(|one| one.initializes) {
            let failing = |error| Unsettled::Failing { controller: controller.name.clone(), resource: None, error };
            self.plugin().initialize(self, &controller.name).map_err(|error| failing(error.to_string()))?;
        }
        let mut work = Work::default();
        self.take_changes();
        self.enqueue(&mut work, &self.all())?;

        while let Some((place, bytes)) = work.queue.pop_front() {
            let (Some(controller), Ok(id)) = (controllers.get(place), pb::Id::decode(bytes.as_slice())) else { break };
            let name = controller.name.clone();
            let count = work.reconciles.entry((place, bytes.clone())).or_default();
            *count = count.saturating_add(1);
            if *count > MAX_RECONCILES_PER_RESOURCE {
                return Err(Unsettled::WakesItself { controller: name, resource: id.name });
            }
            work.later.retain(|later| later.id != id || later.controller != name);
            let later = |wait, reason| PendingReconcile { controller: name.clone(), id: id.clone(), wait, reason };
            match self.plugin().reconcile(self, &name, &bytes) {
                Ok(Outcome::Done) => {}
                Ok(Outcome::RequeueNow) => work.push(place, &id),
                Ok(Outcome::RequeueAfter(wait)) => work.later.push(later(wait, None)),
                Ok(Outcome::Deferred(wait, reason)) => work.later.push(later(wait, Some(reason))),
                Err(error) => {
                    let failures = work.failures.entry((place, bytes)).or_default();
                    *failures = failures.saturating_add(1);
                    if *failures >= MAX_ATTEMPTS {
                        return Err(Unsettled::Failing {
                            controller: name,
                            resource: Some(id.name),
                            error: error.to_string(),
                        });
                    }
                    work.push(place, &id);
                }
            }
            self.enqueue(&mut work, &self.take_changes())?;
        }
        let reconciles = work.reconciles.values().sum();
        Ok(Settled { reconciles, later: work.later })
    }

    /// Queues the resources that the changes concern, for each controller.
    fn enqueue(&self, work: &mut Work, changes: &[pb::Resource]) -> Result<(), Unsettled> {
        for (place, controller) in self.controllers().iter().enumerate() {
            for changed in changes {
                for id in self.mapped_ids(controller, changed)? {
                    work.push(place, &id);
                }
            }
        }
        Ok(())
    }

    fn mapped_ids(&self, controller: &Controller, changed: &pb::Resource) -> Result<Vec<pb::Id>, Unsettled> {
        let Some((id, of)) = changed.id.as_ref().and_then(|id| Some((id, id.r#type.as_ref()?))) else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        if controller.manages.as_ref().is_some_and(|manages| is(manages, of)) {
            found.push(id.clone());
        }
        let watch =
            controller.watches.iter().find(|watch| watch.r#type.as_ref().is_some_and(|watched| is(watched, of)));
        let manages = controller.manages.clone().unwrap_or_default();
        let managed = |id: &pb::Id| id.r#type.as_ref().is_some_and(|of| is(&manages, of));
        let failing =
            |error| Unsettled::Failing { controller: controller.name.clone(), resource: Some(id.name.clone()), error };
        match watch.and_then(|watch| watch.mapper.as_ref()) {
            None => {}
            Some(Mapper::Owner(_)) => found.extend(changed.owner.clone().filter(managed)),
            Some(Mapper::SameName(_)) => {
                found.push(pb::Id { uid: String::new(), r#type: Some(to_pb(&manages)), ..id.clone() });
            }
            Some(Mapper::ReferenceField(field)) => {
                found.extend(self.references(changed, field).into_iter().filter(managed));
            }
            Some(Mapper::Index(index)) => {
                let under = self.indexed(&to_pb(&manages), index, Key::Id(id), true);
                let under = under.map_err(|failure| failing(failure.message))?;
                found.extend(under.into_iter().filter_map(|one| one.id));
            }
            Some(Mapper::Map(_)) => {
                let ids = self.plugin().map(self, &controller.name, &changed.encode_to_vec());
                let ids = ids.map_err(|error| failing(error.to_string()))?;
                found.extend(ids.iter().filter_map(|id| pb::Id::decode(id.as_slice()).ok()).filter(managed));
            }
        }
        Ok(found)
    }
}

/// Whether a type has this name; versions are not compared.
fn is(name: &TypeName, of: &pb::Type) -> bool {
    name.group == of.group && name.kind == of.kind
}

fn to_pb(name: &TypeName) -> pb::Type {
    let TypeName { group, group_version, kind } = name.clone();
    pb::Type { group, group_version, kind }
}
