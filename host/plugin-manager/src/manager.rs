//! The handle to the manager's task, and what it is started with.

use std::{path::PathBuf, sync::Arc, time::Duration};

use crate::controllers::ControllerManager;
use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use mortise_plugin_host::{Logs, PluginSettings, Sandbox};
use mortise_resource::{Code, Error, data, pb};
use mortise_service::ResourceService;
use mortise_service::registry::Registry;
use mortise_store::{Backend, StoreError};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use crate::{
    commands::message::{Command, Pause, Reply},
    files::folder,
    task::ManagerTask,
};

/// LoadReason many orders may wait; further callers wait for a place.
pub const QUEUE: usize = 64;

/// A plugin that is compiled into the binary: its name, and its component.
pub type Bundled = (&'static str, &'static [u8]);

/// Where plugins come from, and how patiently they are looked after. Part of config.toml.
pub struct Options {
    /// The folder. It may appear later.
    pub plugin_dir: PathBuf,
    /// Where components are kept.
    pub component_dir: PathBuf,
    /// Bundled plugins that are switched on.
    pub bundled: Vec<Bundled>,
    /// LoadReason long a file must stay as it is before it is read.
    pub settle: Duration,
    /// LoadReason long a file that is not whole is waited for, from its last change on.
    pub unfinished: Duration,
    /// LoadReason often the folder is looked at without having been told to.
    pub rescan: Duration,
    /// LoadReason long calls in a replaced version are waited for.
    pub drain: Duration,
    /// Settings of plugins.
    pub config: ConfigSource,
}

/// Where settings come from.
pub struct ConfigSource {
    /// The configuration's file, if there is one.
    pub path: Option<PathBuf>,
    /// As they are now.
    pub settings: PluginSettings,
    /// Reads them anew.
    pub read: Box<dyn Fn() -> Result<PluginSettings, ConfigFault> + Send + Sync>,
}

/// A configuration that cannot be used. Nothing changes because of it.
#[derive(Debug, Clone)]
pub struct ConfigFault {
    /// The plugin that it concerns, if it concerns one.
    pub plugin: Option<String>,
    /// What is wrong, and where.
    pub what: String,
}

/// Why there is no manager.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store does not answer.
    #[error("reading what is known of plugins: {0}")]
    Store(#[from] StoreError),
    /// The folder is there and cannot be read.
    #[error("plugin_dir {}: {source}; make it readable, or choose another", path.display())]
    PluginDir {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Gives orders to the task that looks after plugins. Cheap to clone.
#[derive(Clone)]
pub struct Manager {
    commands: mpsc::Sender<Command>,
    limit: usize,
    logs: Arc<Logs>,
}

impl Manager {
    /// Loads what there is into `registry`, tells the controller manager each time that it is swapped, and follows files,
    /// settings and commands until the task is aborted. That may happen at any moment: every change is one atomic step of
    /// the file system, the store or the registry.
    ///
    /// # Errors
    /// [`StartError`]. A plugin that cannot be loaded is no error: it is said in its resource and in the log.
    pub fn start(
        options: Options,
        sandbox: Sandbox,
        backend: Arc<dyn Backend>,
        service: ResourceService,
        registry: Arc<ArcSwap<Registry>>,
        controllers: &ControllerManager,
    ) -> BoxFuture<'static, Result<(Self, JoinHandle<()>), StartError>> {
        let swapped = controllers.swapped();
        Box::pin(async move {
            let limit = sandbox.limits().component_bytes;
            let logs = sandbox.logs().clone();
            let (commands, received) = mpsc::channel(QUEUE);
            let mut task =
                ManagerTask::open(options, sandbox, backend, service, (registry, swapped), commands.clone()).await?;
            task.begin().await?;
            let running = tokio::spawn(task.run(received));
            Ok((Self { commands, limit, logs }, running))
        })
    }

    /// What plugins log.
    #[must_use]
    pub fn logs(&self) -> &Arc<Logs> {
        &self.logs
    }

    /// Largest component, bytes.
    #[must_use]
    pub fn component_limit(&self) -> usize {
        self.limit
    }

    /// Serves a component and puts it into the folder. Answers the resource, and whether nothing had to change.
    ///
    /// # Errors
    /// `InvalidArgument`: the digest is not the content's, or the content is no such plugin. `ResourceExhausted`: too
    /// large. `FailedPrecondition`: it does not fit what is stored or loaded. Nothing is changed then.
    pub async fn install(&self, name: String, sha256: &str, bytes: Vec<u8>) -> Result<(pb::Resource, bool), Error> {
        if bytes.len() > self.limit {
            return Err(self.too_large());
        }
        let digest = folder::digest(&bytes);
        if !digest.eq_ignore_ascii_case(sha256) {
            return Err(Error::invalid(format!(
                "the content's SHA-256 is {digest}, not {sha256:?} as announced; send it again"
            )));
        }
        self.send(|reply| Command::Install { name, bytes, reply }).await
    }

    /// What a component over the limit is answered with.
    #[must_use]
    pub fn too_large(&self) -> Error {
        let limit = self.limit;
        Error::new(
            Code::ResourceExhausted,
            format!("the component takes more than the limit of {limit} bytes (sandbox.component_bytes)"),
        )
    }

    /// Takes a plugin's file out of the folder. Answers its resource while there still is one.
    ///
    /// # Errors
    /// `NotFound`; `FailedPrecondition` for a bundled plugin; `Internal` when the file cannot be removed.
    pub async fn remove(&self, name: String) -> Result<Option<pb::Resource>, Error> {
        self.send(|reply| Command::Remove(name, reply)).await
    }

    /// Goes back to the component before.
    ///
    /// # Errors
    /// `NotFound`; `FailedPrecondition` when there is none, or when it does not fit what is stored.
    pub async fn rollback(&self, name: String) -> Result<pb::Resource, Error> {
        self.send(|reply| Command::Rollback(name, reply)).await
    }

    /// Lifts the quarantine of a plugin's hooks.
    ///
    /// # Errors
    /// `NotFound`; `FailedPrecondition` when it is not loaded.
    pub async fn reset(&self, name: String) -> Result<pb::Resource, Error> {
        self.send(|reply| Command::Reset(name, reply)).await
    }

    /// Switches a plugin off. One that is off stays off.
    ///
    /// # Errors
    /// `NotFound`; `FailedPrecondition` when there is nothing to switch off.
    pub async fn disable(&self, name: String) -> Result<pb::Resource, Error> {
        self.send(|reply| Command::Disable(name, reply)).await
    }

    /// Switches a plugin on. One that is on stays on.
    ///
    /// # Errors
    /// `NotFound`; whatever is wrong with what its source holds.
    pub async fn enable(&self, name: String) -> Result<pb::Resource, Error> {
        self.send(|reply| Command::Enable(name, reply)).await
    }

    /// Everything that is known.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn inspect(&self, name: String) -> Result<data::InspectResponse, Error> {
        self.send(|reply| Command::Inspect(name, reply)).await
    }

    /// Makes no transition until the answer is dropped. Waits for the one that is being made.
    ///
    /// # Errors
    /// `Unavailable`: the server is stopping.
    pub async fn pause(&self) -> Result<Pause, Error> {
        self.send(Command::Pause).await
    }

    async fn send<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, Error> {
        let gone = || Error::new(Code::Unavailable, "the server is stopping");
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}
