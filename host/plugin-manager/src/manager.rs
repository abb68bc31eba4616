//! The handle to the manager.

use std::{collections::BTreeMap, sync::Arc};

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
        enable::enable,
        inspect::inspect,
        install::install,
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
    options::{Options, StartError},
    plugin_resources::PluginResources,
    state::ManagerState,
    task::ManagerTask,
    work::Work,
};

/// How many orders may wait; further callers wait for a place.
pub const MAX_COMMANDS: usize = 64;

/// Gives commands to the manager. Cheap to clone.
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
    pub const MAX_SIGNATURE_BYTES: usize = mortise_signature::MAX_BYTES;

    /// Loads what there is into `registry`, tells the controller manager each time that it is swapped, and follows
    /// files, settings and commands until [`Manager::stop`]. That may come at any moment: every change is one atomic
    /// step of the file system, the store or the registry. The task that follows them comes with it, to be watched.
    ///
    /// # Errors
    /// [`StartError`]. A plugin that cannot be loaded is no error: it is said in its resource and in the log.
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
                resources: PluginResources::open(backend.clone()).await?,
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
                starting: true,
            };
            state.sandbox.set_lookup_host(&state.lookups);
            let core = Core::new(state);
            core.start().await?;
            let task = ManagerTask::new(core.clone(), received).await;
            let following = core.work.spawn_awaited(task.run());
            Ok((Self { core, places: Arc::new(Semaphore::new(MAX_COMMANDS)), limit, logs }, following))
        })
    }

    /// Ends everything that is under way where it next waits, and waits for that. Commands are refused from then on.
    pub async fn stop(&self) {
        self.core.work.stop().await;
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

    /// Serves a component and puts it into the folder, with its signature if that is by a trusted key. Answers the resource, and whether nothing had to change.
    ///
    /// # Errors
    /// `InvalidArgument`: the digest is not the content's, or the content is no such plugin. `ResourceExhausted`: too
    /// large. `FailedPrecondition`: it does not fit what is stored or loaded, or lacks the signature that it needs. Nothing
    /// is changed then.
    pub async fn install(
        &self,
        name: String,
        sha256: &str,
        bytes: Vec<u8>,
        signature: Option<String>,
    ) -> Result<(pb::Resource, bool), Error> {
        if bytes.len() > self.limit {
            return Err(self.too_large());
        }
        let digest = folder::digest(&bytes);
        if !digest.eq_ignore_ascii_case(sha256) {
            return Err(Error::invalid(format!(
                "the content's SHA-256 is {digest}, not {sha256:?} as announced; send it again"
            )));
        }
        self.run(|core| async move { install(&core, &name, bytes, signature).await }).await
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
        self.run(|core| async move { remove(&core, &name).await }).await
    }

    /// Goes back to the component before.
    ///
    /// # Errors
    /// `NotFound`; `FailedPrecondition` when there is none, or when it does not fit what is stored.
    pub async fn rollback(&self, name: String) -> Result<pb::Resource, Error> {
        self.run(|core| async move { roll_back(&core, &name).await }).await
    }

    /// Lifts the quarantine of a plugin's hooks.
    ///
    /// # Errors
    /// `NotFound`; `FailedPrecondition` when it is not loaded.
    pub async fn reset(&self, name: String) -> Result<pb::Resource, Error> {
        self.run(|core| async move { reset(&core, &name).await }).await
    }

    /// Switches a plugin off. One that is off stays off.
    ///
    /// # Errors
    /// `NotFound`; `FailedPrecondition` when there is nothing to switch off.
    pub async fn disable(&self, name: String) -> Result<pb::Resource, Error> {
        self.run(|core| async move { disable(&core, &name).await }).await
    }

    /// Switches a plugin on. One that is on stays on.
    ///
    /// # Errors
    /// `NotFound`; whatever is wrong with what its source holds.
    pub async fn enable(&self, name: String) -> Result<pb::Resource, Error> {
        self.run(|core| async move { enable(&core, &name).await }).await
    }

    /// Everything that is known.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn inspect(&self, name: String) -> Result<data::InspectResponse, Error> {
        self.run(|core| async move { inspect(&core, &name).await }).await
    }

    /// Makes no transition until the answer is dropped, or for [`Limits::pause`](crate::Limits::pause) at most.
    ///
    /// # Errors
    /// `Unavailable`: the server is stopping.
    pub async fn pause(&self) -> Result<Pause, Error> {
        self.run(|core| async move { pause(&core).await }).await
    }

    /// Runs a command to its end, also when its caller does not wait for it any more. One that panics answers
    /// `Internal`, with the panic.
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
                "the command did not come to its end ({ended}); this is a fault of Mortise, please report it with the log"
            ))),
            Err(_) => Err(gone()),
        }
    }
}
