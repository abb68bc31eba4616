//! The handle to the manager.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use mortise_plugin_host::{Logs, Sandbox};
use mortise_resource::{Code, Error, data, pb};
use mortise_service::ResourceService;
use mortise_service::registry::Registry;
use mortise_store::Backend;
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinHandle,
};

use crate::{
    commands::{
        disable::disable,
        dry_run::try_install,
        enable::enable,
        inspect::inspect,
        install::{install, own_names},
        pause::{Pause, pause},
        remove::remove,
        reset::reset,
        rollback::roll_back,
    },
    component_store::ComponentStore,
    controllers::{ControllerManager, ServiceLookups},
    core::Core,
    failpoint,
    files::config::ConfigWatch,
    files::folder,
    options::{ConfigFault, Options, StartError},
    plugin_resources::PluginResources,
    shared::publish::Command,
    state::ManagerState,
    task::ManagerTask,
    work::Work,
};

/// Most commands under way; further callers wait for a place.
pub const MAX_COMMANDS: usize = 64;

/// The handle for commands to the manager. Cheap to clone.
#[derive(Clone)]
pub struct Manager {
    core: Arc<Core>,
    places: Arc<Semaphore>,
    limit: usize,
    logs: Arc<Logs>,
}

/// The task that follows files, settings and commands; `None` when it was stopped.
pub type FollowTask = JoinHandle<Option<()>>;

impl Manager {
    /// Longest signature of a component, bytes.
    pub const MAX_SIGNATURE_BYTES: usize = mortise_keys::signature::MAX_BYTES;

    /// Loads all plugins into `registry`, notifies the controller manager of each swap, and follows files, settings and
    /// commands until [`Manager::stop`]. The stop may come at any moment: every change is one atomic step of the file
    /// system, the store or the registry. Returns the task that follows them, to be watched.
    ///
    /// # Errors
    /// [`StartError`]. A plugin that cannot be loaded is not an error: its resource and the log show it.
    pub fn start(
        mut options: Options,
        sandbox: Sandbox,
        backend: Arc<dyn Backend>,
        service: ResourceService,
        registry: Arc<ArcSwap<Registry>>,
        controllers: &ControllerManager,
    ) -> BoxFuture<'static, Result<(Self, FollowTask), StartError>> {
        let swapped = controllers.swapped();
        Box::pin(async move {
            let limit = sandbox.limits().component_bytes;
            let logs = sandbox.logs().clone();
            let (events, received) = mpsc::channel(MAX_COMMANDS);
            let settings = std::mem::take(&mut options.config.settings);
            let state = ManagerState {
                resources: PluginResources::open(backend.clone(), options.shared.clone()).await?,
                components: ComponentStore::new(options.component_dir.clone()),
                config: ConfigWatch::new(options.config.path.as_deref()),
                work: Work::new(options.limits.parallel_loads),
                options: Arc::new(options),
                sandbox,
                lookups: Arc::new(ServiceLookups(service.clone())),
                backend,
                service,
                registry,
                swapped,
                kick: Arc::default(),
                health: Arc::default(),
                events,
                plugins: BTreeMap::new(),
                files: BTreeMap::new(),
                settings,
                inherited: Vec::new(),
                planned: BTreeSet::new(),
                followed: BTreeMap::new(),
                starting: true,
            };
            state.sandbox.set_lookup_host(&state.lookups);
            let core = Core::new(state);
            core.prepare().await;
            core.start().await?;
            core.spawn_follower();
            let task = ManagerTask::new(core.clone(), received).await;
            let following = core.work.spawn_awaited(task.run());
            Ok((Self { core, places: Arc::new(Semaphore::new(MAX_COMMANDS)), limit, logs }, following))
        })
    }

    /// Ends all work at its next wait, and waits for that. Commands are refused from then on.
    pub async fn stop(&self) {
        self.core.work.stop().await;
    }

    /// Reads the settings of plugins again, and starts to load the plugins with changed ones.
    ///
    /// # Errors
    /// The configuration is faulty, and has no effect.
    pub async fn reload_settings(&self) -> Result<(), ConfigFault> {
        self.core.reload_config().await
    }

    /// Log lines of plugins.
    #[must_use]
    pub fn logs(&self) -> &Arc<Logs> {
        &self.logs
    }

    /// Largest component, bytes.
    #[must_use]
    pub fn component_limit(&self) -> usize {
        self.limit
    }

    /// Loads a component under a name, or under its own without one, and puts it into the folder, with its signature if
    /// that is by a trusted key. Returns the resource, and whether it was up to date already.
    ///
    /// # Errors
    /// `InvalidArgument`: the digest does not match the content, or the content is not that plugin.
    /// `ResourceExhausted`: too large. `FailedPrecondition`: it does not fit stored resources or loaded plugins, or
    /// lacks a required signature. An error changes nothing.
    pub async fn install(
        &self,
        name: Option<String>,
        sha256: &str,
        bytes: Vec<u8>,
        signature: Option<Vec<u8>>,
    ) -> Result<(pb::Resource, bool), Error> {
        self.check_content(sha256, &bytes)?;
        self.run(|core| async move {
            let name = own_name(&core, name, &bytes, signature.as_ref()).await?;
            core.upload(&bytes).await?;
            let installed = install(&core, &name, bytes, signature).await?;
            core.publish(&name, Command::Component).await?;
            Ok(installed)
        })
        .await
    }

    /// Makes every check of an install, without the install. Returns the plugin's resource as it would be, and whether
    /// the component serves already.
    ///
    /// # Errors
    /// The errors of [`install`](Self::install).
    pub async fn try_install(
        &self,
        name: Option<String>,
        sha256: &str,
        bytes: Vec<u8>,
        signature: Option<Vec<u8>>,
    ) -> Result<(pb::Resource, bool), Error> {
        self.check_content(sha256, &bytes)?;
        self.run(|core| async move {
            let name = own_name(&core, name, &bytes, signature.as_ref()).await?;
            try_install(&core, &name, bytes, signature).await
        })
        .await
    }

    fn check_content(&self, sha256: &str, bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() > self.limit {
            return Err(self.too_large());
        }
        let digest = folder::digest(bytes);
        if digest.eq_ignore_ascii_case(sha256) {
            return Ok(());
        }
        let what = format!("the content's SHA-256 is {digest}, not {sha256:?} as announced; send it again");
        Err(Error::invalid(what))
    }

    /// Asks a component for its version, without an install. It must be trusted as for an install.
    ///
    /// # Errors
    /// As [`install`](Self::install), for a component that is not trusted or does not describe itself.
    pub async fn version(&self, bytes: Vec<u8>, signature: Option<Vec<u8>>) -> Result<String, Error> {
        self.run(|core| async move { Ok(own_names(&core, bytes, signature).await?.version) }).await
    }

    /// The error for a component over the limit.
    #[must_use]
    pub fn too_large(&self) -> Error {
        let limit = self.limit;
        Error::new(
            Code::ResourceExhausted,
            format!("the component takes more than the limit of {limit} bytes (sandbox.component_bytes)"),
        )
    }

    /// Removes a plugin's file from the folder. Returns its resource if it still exists, and what finalizers hold.
    ///
    /// # Errors
    /// `NotFound`; `FailedPrecondition` for a bundled plugin; `Internal` when the file cannot be removed.
    pub async fn remove(&self, name: String) -> Result<data::RemoveResponse, Error> {
        self.run(|core| async move {
            let answer = remove(&core, &name).await?;
            core.publish(&name, Command::State).await?;
            Ok(answer)
        })
        .await
    }

    /// Returns to the previous component.
    ///
    /// # Errors
    /// `NotFound`; `FailedPrecondition` without a previous component, or when it does not fit stored resources.
    pub async fn rollback(&self, name: String) -> Result<pb::Resource, Error> {
        self.run(|core| async move {
            let answer = roll_back(&core, &name).await?;
            core.publish(&name, Command::Component).await?;
            Ok(answer)
        })
        .await
    }

    /// Lifts the quarantine of a plugin's hooks.
    ///
    /// # Errors
    /// `NotFound`; `FailedPrecondition` when the plugin is not loaded.
    pub async fn reset(&self, name: String) -> Result<pb::Resource, Error> {
        self.run(|core| async move { reset(&core, &name).await }).await
    }

    /// Disables a plugin; succeeds if it is disabled already.
    ///
    /// # Errors
    /// `NotFound`; `FailedPrecondition` when the record is not about a plugin.
    pub async fn disable(&self, name: String) -> Result<pb::Resource, Error> {
        self.run(|core| async move {
            let answer = disable(&core, &name).await?;
            core.publish(&name, Command::State).await?;
            Ok(answer)
        })
        .await
    }

    /// Enables a plugin; succeeds if it is enabled already.
    ///
    /// # Errors
    /// `NotFound`; the faults of the component in its source.
    pub async fn enable(&self, name: String) -> Result<pb::Resource, Error> {
        self.run(|core| async move {
            let answer = enable(&core, &name).await?;
            core.publish(&name, Command::State).await?;
            Ok(answer)
        })
        .await
    }

    /// Shows all known facts of a plugin.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn inspect(&self, name: String) -> Result<data::InspectResponse, Error> {
        self.run(|core| async move { inspect(&core, &name).await }).await
    }

    /// Holds up transitions until the answer is dropped, for [`Limits::pause`](crate::Limits::pause) at most.
    ///
    /// # Errors
    /// `Unavailable`: the server is stopping.
    pub async fn pause(&self) -> Result<Pause, Error> {
        self.run(|core| async move { pause(&core).await }).await
    }

    /// Runs a command to its end, even when its caller no longer waits for it. A panic becomes the error `Internal`,
    /// with its message.
    async fn run<T, F>(&self, command: impl FnOnce(Arc<Core>) -> F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let gone = || Error::new(Code::Unavailable, "the server is stopping");
        let place = self.places.clone().acquire_owned().await;
        let command = command(self.core.clone());
        let answer = self.core.work.spawn_awaited(async move {
            failpoint::reached("a command");
            let answer = command.await;
            drop(place);
            answer
        });
        match answer.await {
            Ok(answer) => answer.ok_or_else(gone)?,
            Err(ended) if ended.is_panic() => Err(Error::internal(format!(
                "the command failed ({ended}); this is a fault of Mortise, please report it with the log"
            ))),
            Err(_) => Err(gone()),
        }
    }
}

/// The name that a caller gives to a component, or else its own.
async fn own_name(
    core: &Core,
    name: Option<String>,
    bytes: &[u8],
    signature: Option<&Vec<u8>>,
) -> Result<String, Error> {
    match name {
        Some(name) => Ok(name),
        None => Ok(own_names(core, bytes.to_vec(), signature.cloned()).await?.name),
    }
}
