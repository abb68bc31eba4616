//! Checks that the host performs for controllers: `probes` of the contract.
//!
//! # Contract
//! - A controller sets the probes of a resource whenever it reconciles it. A probe that is the same as before goes on;
//!   the others end, and new ones begin at once. All end with the plugin's [`crate::Reconciler`].
//! - A probe by report is a timer on the monotonic clock: it begins with each new report that the controller passes on,
//!   needs no place, and waits for no other probe. While the process is stopped or the machine sleeps it stands still,
//!   and after a start of the server it begins again, since no client could report meanwhile.
//! - Other probes run beside each other, each in a task, within [`places`], which are fair between groups: those that
//!   hang delay their own group.
//! - A status is written when what it says changes, and repeated at the next attempt if the write failed.
//!
//! # Cost
//! An idle probe is a task of some KiB with a timer. An attempt opens a connection of its own.
//!
//! # Limits
//! [`MAX_PROBES_PER_RESOURCE`], [`MAX_PROBES`] of one plugin, [`places::PLACES`] attempts at once, and
//! [`attempt::LOOKUPS`] look-ups of names.

mod attempt;
#[cfg(test)]
mod edge_tests;
mod fault;
mod http;
mod places;
mod specification;
mod task;
#[cfg(test)]
mod tests;
mod tls;
mod writer;

use std::{collections::HashMap, sync::Arc};

use mortise_resource::{Code, pb, probes::Probes as Wanted};
use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::watch, task::AbortHandle};

pub use self::writer::ProbeWriter;
use self::{
    attempt::{Attempt, Network},
    places::Places,
    specification::Specification,
    task::{Known, Probe},
};
use crate::{failure::Failure, grants::Permit};

/// Most probes of one resource.
const MAX_PROBES_PER_RESOURCE: usize = 64;

/// Most probes of one plugin.
const MAX_PROBES: usize = 200_000;

/// Longest name of a group, bytes.
const MAX_GROUP_BYTES: usize = 256;

/// The probes of one plugin. Dropping the table ends them.
pub(crate) struct Probes {
    /// Runtime of the tasks: that of a call may be one without I/O. `None` without any.
    runtime: Option<Handle>,
    label: String,
    places: Arc<Places>,
    attempt: Arc<dyn Attempt>,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    resources: HashMap<ResourceKey, Running>,
    count: usize,
}

/// Type, tenancy and name.
type ResourceKey = (pb::Type, pb::Tenancy, String);

/// The probes of a resource.
struct Running {
    uid: String,
    group: Arc<str>,
    probes: HashMap<String, RunningProbe>,
}

struct RunningProbe {
    specification: Arc<Specification>,
    known: watch::Sender<Known>,
    task: AbortHandle,
}

impl Drop for RunningProbe {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Probes {
    /// Makes the empty table of a plugin, whose probes run on the current runtime. `label` names the plugin in metrics.
    pub(crate) fn new(label: String) -> Self {
        Self::with(label, Arc::new(Network::new()))
    }

    fn with(label: String, attempt: Arc<dyn Attempt>) -> Self {
        let runtime = Handle::try_current().ok();
        Self { runtime, label, places: Places::new(places::PLACES), attempt, table: Mutex::default() }
    }

    /// Ends the probes of a resource.
    pub(crate) fn end(&self, id: &pb::Id) {
        let mut table = self.table.lock();
        if let Some(gone) = table.resources.remove(&resource_key(id)) {
            table.count -= gone.probes.len();
        }
        self.report(&table);
    }

    /// Sets the probes of a resource.
    ///
    /// # Errors
    /// `InvalidArgument`: a probe is malformed. `ResourceExhausted`: too many.
    pub(crate) fn set(
        &self,
        id: pb::Id,
        wanted: Wanted,
        permit: &Arc<Permit>,
        writer: &Arc<dyn ProbeWriter>,
    ) -> Result<(), Failure> {
        let invalid = |text: &str| Failure::new(Code::InvalidArgument, format!("probes.set: {text}"));
        let Some(runtime) = &self.runtime else {
            return Err(Failure::new(Code::FailedPrecondition, "probes.set: this host performs no probes"));
        };
        if id.uid.is_empty() {
            return Err(invalid("of.uid is required; read the resource first and use its id"));
        }
        let Wanted { probes: wanted, group, version, generation } = wanted;
        if wanted.len() > MAX_PROBES_PER_RESOURCE {
            return Err(invalid(&format!("at most {MAX_PROBES_PER_RESOURCE} probes of one resource are allowed")));
        }
        if group.len() > MAX_GROUP_BYTES {
            return Err(invalid(&format!("a group has at most {MAX_GROUP_BYTES} bytes")));
        }
        let mut specified = HashMap::new();
        for probe in wanted {
            let known = Known {
                version: version.clone(),
                generation: generation.clone(),
                stored: probe.stored.as_ref().map(|status| task::Found::of(status, &probe.condition)),
            };
            let key = probe.key.clone();
            let specification = Specification::read(probe).map_err(|fault| invalid(&format!("{key:?}: {fault}")))?;
            if specified.insert(key.clone(), (Arc::new(specification), known)).is_some() {
                return Err(invalid(&format!("{key:?} is a duplicate")));
            }
        }

        let mut table = self.table.lock();
        let key = resource_key(&id);
        let before_count = table.resources.get(&key).map_or(0, |running| running.probes.len());
        if table.count - before_count + specified.len() > MAX_PROBES {
            return Err(Failure::new(
                Code::ResourceExhausted,
                format!("probes.set: a plugin may have {MAX_PROBES} probes; remove checks of other resources"),
            ));
        }
        table.count -= before_count;
        let mut before = table.resources.remove(&key);
        if before.as_ref().is_some_and(|running| running.uid != id.uid) {
            before = None;
        }
        let is_same_group = before.as_ref().is_some_and(|running| *running.group == *group);
        let mut running = Running { uid: id.uid.clone(), group: group.into(), probes: HashMap::new() };
        for (name, (specification, known)) in specified {
            let same = before.as_mut().and_then(|before| before.probes.remove(&name));
            // A report needs no place, and so has no group.
            let is_same = |same: &RunningProbe| {
                same.specification == specification && (is_same_group || specification.is_report())
            };
            let probe = match same.filter(is_same) {
                Some(same) => {
                    same.known.send_replace(known);
                    same
                }
                None => {
                    let (sender, receiver) = watch::channel(known);
                    let probe = Probe {
                        id: id.clone(),
                        key: name.clone(),
                        group: running.group.clone(),
                        specification: specification.clone(),
                        known: receiver,
                        permit: permit.clone(),
                        writer: writer.clone(),
                        places: self.places.clone(),
                        attempt: self.attempt.clone(),
                        label: self.label.clone(),
                    };
                    let task = runtime.spawn(probe.run()).abort_handle();
                    RunningProbe { specification, known: sender, task }
                }
            };
            running.probes.insert(name, probe);
        }
        table.count += running.probes.len();
        table.resources.insert(key, running);
        self.report(&table);
        Ok(())
    }

    fn report(&self, table: &Table) {
        metrics::gauge!("mortise_plugin_probes", "plugin" => self.label.clone()).set(table.count as f64);
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        metrics::gauge!("mortise_plugin_probes", "plugin" => self.label.clone()).set(0.0);
    }
}

fn resource_key(id: &pb::Id) -> ResourceKey {
    (id.r#type.clone().unwrap_or_default(), id.tenancy.clone().unwrap_or_default(), id.name.clone())
}
