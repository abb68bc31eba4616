//! All controllers of a process. They are registered, replaced, paused, resumed and removed while the process runs,
//! because plugins come and go.

mod supervisor;

use std::{collections::BTreeMap, sync::Arc};

use futures::future::join_all;
use parking_lot::Mutex;
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    controller::Controller,
    definition::{Definition, DefinitionError},
    lease::Leases,
    source::Source,
    status::{ControllerMetrics, Names, Status},
};

use self::supervisor::{DesiredState, Mode, Supervisor};

/// The error of an operation on controllers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControllersError {
    /// The definition is at fault.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// The name is taken.
    #[error("a controller named {0:?} is registered; replace it, or remove it first")]
    NameTaken(String),
    /// The name belongs to no controller.
    #[error("no controller named {0:?} is registered")]
    Unknown(String),
    /// The process is shutting down.
    #[error("controllers are shut down; none can be registered or changed any more")]
    ShutDown,
}

/// The controllers of a process. Cheap to clone; clones are the same. When the last one is dropped, controllers end.
#[derive(Clone)]
pub struct Controllers(Arc<Inner>);

struct Inner {
    source: Arc<dyn Source>,
    leases: Arc<dyn Leases>,
    names: Names,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    shut: bool,
    /// Controllers in the order of their names.
    all: BTreeMap<Arc<str>, Handle>,
}

struct Handle {
    controller: Arc<Controller>,
    wanted: watch::Sender<DesiredState>,
    applied: watch::Receiver<u64>,
    task: JoinHandle<()>,
}

impl Controllers {
    /// Makes an empty set. Its controllers watch `source`, and run while `leases` grants their lease.
    pub fn new(source: Arc<dyn Source>, leases: Arc<dyn Leases>) -> Self {
        Self(Arc::new(Inner { source, leases, names: Names::default(), table: Mutex::default() }))
    }

    /// Adds a controller and starts it, on the current tokio runtime; there has to be one.
    ///
    /// # Errors
    /// The definition is invalid, or its name is taken.
    pub fn register(&self, definition: Definition) -> Result<(), ControllersError> {
        let mut table = self.0.table.lock();
        table.forget_stopped();
        if table.all.contains_key(definition.name()) {
            return Err(ControllersError::NameTaken(definition.name().to_owned()));
        }
        table.check_registration(&definition)?;
        let name = definition.name.clone();
        let controller = Arc::new(Controller::new(name.clone(), ControllerMetrics::new(&self.0.names.label(&name))));
        let wanted = DesiredState { definition: Arc::new(definition), revision: 0, mode: Mode::Run };
        let (wanted, desired) = watch::channel(wanted);
        let (applying, applied) = watch::channel(0);
        let supervisor = Supervisor {
            controller: controller.clone(),
            source: self.0.source.clone(),
            leases: self.0.leases.clone(),
            wanted: desired,
            applied: applying,
        };
        let task = tokio::spawn(supervisor.supervise());
        table.all.insert(name, Handle { controller, wanted, applied, task });
        Ok(())
    }

    /// Gives a controller another definition under the same name. Ends its run (reconciles under way have until the
    /// drain deadline), then passes the queue, with waiting keys, timers and failures, to the new definition, which
    /// reconciles every managed resource once. When this returns, no code of the old definition runs any more. A paused
    /// controller stays paused. If the managed type changes, the queue begins empty.
    ///
    /// # Errors
    /// The errors of [`Controllers::register`], or there is no such controller. The old definition then stays in force.
    pub async fn replace(&self, definition: Definition) -> Result<(), ControllersError> {
        let applied = {
            let table = self.0.table.lock();
            table.check_registration(&definition)?;
            let handle = table.active(definition.name())?;
            handle.change(|wanted| wanted.definition = Arc::new(definition))
        };
        applied.wait().await;
        Ok(())
    }

    /// Ends a controller's run and lets none begin until [`Controllers::resume`]. Due work stays due. Returns when no
    /// code of the controller runs any more.
    ///
    /// # Errors
    /// There is no such controller.
    pub async fn pause(&self, name: &str, reason: impl Into<String>) -> Result<(), ControllersError> {
        let reason = reason.into();
        let applied = self.0.table.lock().active(name)?.change(|wanted| wanted.mode = Mode::Pause(reason));
        applied.wait().await;
        Ok(())
    }

    /// Lets a paused controller run again, from its initializer on like any run.
    ///
    /// # Errors
    /// There is no such controller.
    pub fn resume(&self, name: &str) -> Result<(), ControllersError> {
        let table = self.0.table.lock();
        let handle = table.active(name)?;
        if matches!(handle.wanted.borrow().mode, Mode::Pause(_)) {
            handle.change(|wanted| wanted.mode = Mode::Run);
        }
        Ok(())
    }

    /// Ends a controller and forgets it. Returns when no code of it runs any more.
    ///
    /// # Errors
    /// There is no such controller.
    pub async fn remove(&self, name: &str) -> Result<(), ControllersError> {
        // The controller keeps its name until it has ended, so that no other one of that name runs at the same time.
        let applied = self.0.table.lock().get(name)?.change(|wanted| wanted.mode = Mode::Stop);
        applied.wait().await;
        self.0.table.lock().forget_stopped();
        Ok(())
    }

    /// Ends all controllers at the same time, and rejects further registrations. Returns when no controller runs any
    /// more: at the latest after twice the longest drain deadline, the second time for `notify_stop`.
    pub async fn shutdown(&self) {
        let handles = {
            let mut table = self.0.table.lock();
            table.shut = true;
            std::mem::take(&mut table.all)
        };
        let tasks = handles.into_values().map(|handle| {
            handle.change(|wanted| wanted.mode = Mode::Stop);
            handle.task
        });
        // A task that panicked has ended too.
        let _ = join_all(tasks.collect::<Vec<_>>()).await;
    }

    /// The status of a controller.
    #[must_use]
    pub fn status(&self, name: &str) -> Option<Status> {
        self.0.table.lock().all.get(name).map(Handle::status)
    }

    /// The statuses of all controllers, by name.
    #[must_use]
    pub fn statuses(&self) -> Vec<Status> {
        self.0.table.lock().all.values().map(Handle::status).collect()
    }

    /// Sets the gauges of all controllers. The collector of metrics calls it before it reads them, so that an idle
    /// controller has no work.
    pub fn observe(&self) {
        self.0.table.lock().all.values().for_each(|handle| handle.controller.observe());
    }
}

impl Table {
    fn get(&self, name: &str) -> Result<&Handle, ControllersError> {
        if self.shut {
            return Err(ControllersError::ShutDown);
        }
        self.all.get(name).ok_or_else(|| ControllersError::Unknown(name.to_owned()))
    }

    /// A controller that is not being removed.
    fn active(&self, name: &str) -> Result<&Handle, ControllersError> {
        let handle = self.get(name)?;
        if handle.wanted.borrow().mode == Mode::Stop {
            return Err(ControllersError::Unknown(name.to_owned()));
        }
        Ok(handle)
    }

    /// Whether a definition may be registered now.
    fn check_registration(&self, definition: &Definition) -> Result<(), ControllersError> {
        if self.shut {
            return Err(ControllersError::ShutDown);
        }
        Ok(definition.check()?)
    }

    fn forget_stopped(&mut self) {
        self.all.retain(|_, handle| *handle.applied.borrow() != u64::MAX);
    }
}

impl Handle {
    fn status(&self) -> Status {
        self.controller.status(&self.wanted.borrow().definition)
    }

    /// Changes the desired state, unless that is [`Mode::Stop`].
    fn change(&self, change: impl FnOnce(&mut DesiredState)) -> PendingChange {
        let mut revision = 0;
        self.wanted.send_modify(|wanted| {
            if wanted.mode != Mode::Stop {
                change(wanted);
                wanted.revision += 1;
            }
            revision = wanted.revision;
        });
        let stop = self.wanted.borrow().mode == Mode::Stop;
        PendingChange { until: if stop { u64::MAX } else { revision }, applied: self.applied.clone() }
    }
}

/// A change that the supervisor still has to apply.
struct PendingChange {
    until: u64,
    applied: watch::Receiver<u64>,
}

impl PendingChange {
    /// Waits until the change is applied, or the controller has ended.
    async fn wait(mut self) {
        // An error means that the supervisor has ended, and no run is left.
        let _ = self.applied.wait_for(|applied| *applied >= self.until).await;
    }
}
