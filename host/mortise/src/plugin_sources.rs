//! Plugins from registries: a task that keeps each plugin at the component that `plugin.NAME.source` names, or at newer
//! ones that `plugin.NAME.update` allows.
//!
//! # Contract
//! At the start, a source whose component does not serve is pulled and installed as by `mortise plugin install`: its
//! signature is checked, it is tried on all stored resources, and a component that does not fit is refused and changes
//! nothing. The source is asked until its component serves, and not again in this run. A version from which an operator
//! went back, and a plugin that an operator disabled, stay so. Without a registry the server goes on with what it has.
//!
//! With a policy, the tags of the source are read again at each `plugins.update_check_s`, and the newest version that
//! the policy allows is installed in the same way. If it is refused, the one before is tried, and the fault stays. No
//! version is left for an older one, nor one installed up to that from which an operator went back. A plugin that an
//! operator removes stays so until the next start.
//!
//! A component must be as new as the version in its tag; behind a tag without a version, as new as the installed one.
//!
//! Servers that share a store have a lease for this work, [`LEASE`]: its holder asks and installs, and the others follow.
//!
//! # Cost and limits
//! At most [`CONCURRENT_PULLS`] components are pulled or installed at a time, each of at most `sandbox.component_bytes`.
//! An operation at a registry takes at most [`OPERATION_TIMEOUT`]. After a failure the next attempt comes after
//! [`FIRST_RETRY`], and twice as late each time, up to [`LAST_RETRY`]; after the refusal of a newer version, up to
//! `plugins.update_check_s`. A look for newer versions tries three of them at most.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use mortise_controller::Leases;
use mortise_keys::signature::{PublicKey, verify};
use mortise_plugin_manager::Manager;
use mortise_registry::{CredentialSource, Options, Pulled, Reference, Registry, RegistryError, version};
use mortise_resource::{Code, Error, data, pb, types};
use mortise_service::{Caller, Consistency, ResourceService, registry::Registry as PluginRegistry};
use prost::Message as _;
use tokio::{sync::Semaphore, time::sleep};

use crate::{
    plugins,
    scheduled_backups::lost,
    settings::{
        Config, SettingError, parts,
        plugin::{self, Source},
    },
};

/// Name of the lease.
const LEASE: &str = "plugins of registries";

/// Longest operation at a registry, such as a pull.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Wait after the first failure.
const FIRST_RETRY: Duration = Duration::from_secs(5);

/// Longest wait after a failure.
const LAST_RETRY: Duration = Duration::from_secs(10 * 60);

/// Components that are pulled or installed at the same time.
const CONCURRENT_PULLS: usize = 4;

/// A failed attempt.
#[derive(Debug, thiserror::Error)]
enum SourceError {
    #[error("{source}; {}", source.step())]
    Registry {
        #[from]
        source: RegistryError,
    },
    #[error("the server refuses the component of {reference}: {source}")]
    Install { reference: Reference, source: Error },
    #[error(
        "the component of {reference} says that it is version {version}, older than {least}; push it under its own \
         version, or give its digest in the source, without update"
    )]
    Older { reference: Reference, version: String, least: String },
    #[error("the plugin's resource cannot be read: {0}")]
    Read(#[source] Error),
}

impl SourceError {
    /// Returns true if another component may do better.
    fn is_of_component(&self) -> bool {
        match self {
            Self::Older { .. } => true,
            // Other codes are of the server: it stops, has no room, or cannot tell the other servers.
            Self::Install { source, .. } => matches!(source.code, Code::InvalidArgument | Code::FailedPrecondition),
            Self::Registry { source } => matches!(
                source,
                RegistryError::NotComponent { .. }
                    | RegistryError::WrongDigest { .. }
                    | RegistryError::Malformed { .. }
                    | RegistryError::TooLarge { .. }
            ),
            Self::Read(_) => false,
        }
    }
}

/// State of a plugin, compared with the component of its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The component serves.
    Serves,
    /// An operator went back from the component, or disabled the plugin.
    HeldByOperator,
    /// Another component serves, or none.
    Differs,
}

/// The sources of a server's plugins.
pub(crate) struct PluginSources {
    sources: Vec<Source>,
    options: Options,
    /// Registries, by host and port, that are asked over plain http.
    plain: Vec<String>,
    /// Keys of which one should have made a plugin's signature. The manager decides whether one must have.
    keys: Vec<PublicKey>,
    retries: (Duration, Duration),
    /// Time between two looks for newer versions.
    check: Duration,
    pulls: Semaphore,
}

impl PluginSources {
    /// Makes the parts; `None` without a source.
    ///
    /// # Errors
    /// A malformed source or key, or a file that is missing.
    pub(crate) fn new(config: &Config) -> Result<Option<Self>, SettingError> {
        let sources = plugin::sources(&config.plugin)?;
        for Source { plugin, .. } in &sources {
            metrics::gauge!("mortise_plugin_source_fault", "plugin" => plugin.clone()).set(0.0);
        }
        let settings = &config.plugins;
        let keys = plugins::trusted_keys(config)?;
        let options = Options {
            plain_http: false,
            authorities: given("plugins.registry_ca_file", &settings.registry_ca_file)?,
            credentials: given("plugins.registry_config_file", &settings.registry_config_file)?
                .map_or(CredentialSource::Anonymous, CredentialSource::File),
            timeout: OPERATION_TIMEOUT,
            component_bytes: parts::limits(config).component_bytes,
        };
        let test = config.test_limits.registry_retry_ms.map(Duration::from);
        let retries = test.map_or((FIRST_RETRY, LAST_RETRY), |test| (test, test));
        let check = test.unwrap_or(Duration::from_secs(settings.update_check_s.0));
        let plain = settings.plain_http_registries.iter().map(|host| host.to_ascii_lowercase()).collect();
        let pulls = Semaphore::new(CONCURRENT_PULLS);
        Ok((!sources.is_empty()).then_some(Self { sources, options, plain, keys, retries, check, pulls }))
    }

    /// Keeps the plugins at their sources until the service stops.
    pub(crate) async fn follow(
        self,
        manager: Manager,
        service: ResourceService,
        registry: Arc<ArcSwap<PluginRegistry>>,
        leases: Arc<dyn Leases>,
    ) {
        let mut lease = leases.lease(LEASE);
        let stopped = service.stopped();
        let working = async {
            // An error means that this server never gets the lease.
            while lease.wait_for(|is_held| *is_held).await.is_ok() {
                let course =
                    |source| Course { sources: &self, source, manager: &manager, service: &service, served: &registry };
                let courses = self.sources.iter().map(|source| self.keep(course(source)));
                tokio::select! {
                    _ = futures::future::join_all(courses) => return,
                    () = lost(&mut lease) => {}
                }
            }
        };
        tokio::select! {
            () = stopped => {}
            () = working => {}
        }
    }

    /// Brings one plugin to its source; ends once it serves, unless newer versions count.
    async fn keep(&self, course: Course<'_>) {
        let Source { plugin, reference, policy } = course.source;
        let fault = metrics::gauge!("mortise_plugin_source_fault", "plugin" => plugin.clone());
        let (first, last) = self.retries;
        let mut retry = first;
        let mut progress = Progress::default();
        loop {
            let brought = course.bring(&mut progress).await;
            let is_fault = brought.is_err();
            let wait = match brought {
                Ok(State::Serves) if policy.is_none() => return fault.set(0.0),
                Ok(_) => {
                    retry = first;
                    policy.as_ref().map_or(last, |_| self.check)
                }
                Err(error) => {
                    let wait = retry;
                    let most = if policy.is_some() && error.is_of_component() { self.check.max(last) } else { last };
                    retry = (retry * 2).min(most);
                    tracing::error!("plugin {plugin}: {reference}: {error}; the next attempt comes in {wait:?}");
                    wait
                }
            };
            // The reason is in the log before the metric says that there is one.
            fault.set(f64::from(u8::from(is_fault)));
            sleep(wait).await;
        }
    }

    /// Chooses the newest signature by a trusted key, or the newest.
    fn signature(&self, pulled: &Pulled) -> Option<Vec<u8>> {
        let is_trusted = |text: &&[u8]| verify(pulled.component(), text, &self.keys).is_ok();
        let trusted = pulled.signatures().rev().find(is_trusted);
        trusted.or_else(|| pulled.signatures().next_back()).map(<[u8]>::to_vec)
    }
}

/// Knowledge of a plugin from the looks before.
#[derive(Debug, Default)]
struct Progress {
    /// Digest of a component whose install failed, perhaps on other servers alone.
    unfinished: Option<String>,
    /// True once the plugin has served in this run.
    has_served: bool,
}

/// The way of one plugin to its source.
struct Course<'a> {
    sources: &'a PluginSources,
    source: &'a Source,
    manager: &'a Manager,
    service: &'a ResourceService,
    /// The plugins that serve.
    served: &'a ArcSwap<PluginRegistry>,
}

impl Course<'_> {
    /// Installs the component of the source, or the newest one that its policy allows, unless it serves already. An
    /// unfinished install is repeated although its component serves here.
    async fn bring(&self, progress: &mut Progress) -> Result<State, SourceError> {
        let Source { plugin, reference, policy } = self.source;
        let known = self.known().await?;
        let is_removed = known.as_ref().is_none_or(|known| known.withdrawn);
        if progress.has_served && is_removed {
            return Ok(State::HeldByOperator);
        }
        let host = &reference.repository.host;
        let options = Options { plain_http: self.sources.plain.contains(host), ..self.sources.options.clone() };
        let registry = Registry::new(host, options)?;
        let Some(policy) = policy else { return self.install(&registry, reference, progress).await };
        let tags = registry.tags(&reference.repository).await?;
        if tags.is_cut {
            tracing::warn!("plugin {plugin}: {} has more tags than are read", reference.repository);
        }
        // The version that serves, or served last.
        let known = known.filter(|known| !known.withdrawn);
        let above = known.as_ref().filter(|_| progress.unfinished.is_none()).and_then(|known| version(&known.version));
        // After a rollback the one before is the one that an operator went back from.
        let held = known.as_ref().filter(|known| known.rolled_back).and_then(|known| version(&known.previous_version));
        let mut refused = None;
        for tag in policy.candidates(&tags.names, above.max(held).as_ref()) {
            let candidate = Reference { tag: Some(tag.to_owned()), ..reference.clone() };
            match self.install(&registry, &candidate, progress).await {
                Ok(state) => return refused.map_or(Ok(state), Err),
                Err(error) if error.is_of_component() => refused = refused.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        let is_disabled = known.is_some_and(|known| known.disabled);
        let state = if is_disabled { State::HeldByOperator } else { State::Serves };
        progress.has_served |= state == State::Serves;
        refused.map_or(Ok(state), Err)
    }

    /// Installs the component of a reference, unless it serves or an operator holds it back.
    async fn install(
        &self,
        registry: &Registry,
        reference: &Reference,
        progress: &mut Progress,
    ) -> Result<State, SourceError> {
        let plugin = &self.source.plugin;
        let resolved = registry.resolve(reference).await?;
        let sha256 = resolved.component.hex().to_owned();
        match self.state(&sha256).await? {
            State::HeldByOperator => return Ok(State::HeldByOperator),
            State::Serves if progress.unfinished.as_ref() != Some(&sha256) => {
                progress.has_served = true;
                return Ok(State::Serves);
            }
            State::Serves | State::Differs => {}
        }
        // The semaphore is never closed.
        let _turn = self.sources.pulls.acquire().await;
        let pulled = registry.pull_resolved(resolved).await?;
        // The second look is for what an operator has done during the pull.
        if self.state(&sha256).await? == State::HeldByOperator {
            return Ok(State::HeldByOperator);
        }
        let signature = self.sources.signature(&pulled);
        self.refuse_older(&pulled, signature.clone()).await?;
        progress.unfinished = Some(sha256.clone());
        let installing = self.manager.install(Some(plugin.clone()), &sha256, pulled.artifact.layer, signature);
        if let Err(source) = installing.await {
            let error = SourceError::Install { reference: pulled.reference, source };
            if error.is_of_component() {
                progress.unfinished = None;
            }
            return Err(error);
        }
        *progress = Progress { unfinished: None, has_served: true };
        tracing::info!("plugin {plugin}: {} is installed", pulled.reference);
        Ok(State::Serves)
    }

    /// Fails for a component that is older than its tag says, or than the installed one behind a tag without a version:
    /// an old component keeps its signature, so the right to move a tag would be the right to bring back an old fault.
    async fn refuse_older(&self, pulled: &Pulled, signature: Option<Vec<u8>>) -> Result<(), SourceError> {
        let reference = &pulled.reference;
        let least = match (&self.source.reference.digest, version(reference.tag())) {
            (Some(_), _) => None,
            (None, Some(tag)) => Some(tag),
            (None, None) => {
                self.known().await?.filter(|known| !known.withdrawn).and_then(|known| version(&known.version))
            }
        };
        let Some(least) = least else { return Ok(()) };
        let refused = |source| SourceError::Install { reference: reference.clone(), source };
        let own = self.manager.version(pulled.component().to_vec(), signature).await.map_err(refused)?;
        match version(&own) {
            Some(own) if own.cmp_precedence(&least).is_ge() => Ok(()),
            _ => Err(SourceError::Older { reference: reference.clone(), version: own, least: least.to_string() }),
        }
    }

    /// Compares the plugin of the server with a component.
    async fn state(&self, sha256: &str) -> Result<State, SourceError> {
        let known = self.known().await?.unwrap_or_default();
        let serving = self.served.load();
        let serves = serving.plugin(&self.source.plugin).is_some_and(|plugin| plugin.digest() == sha256);
        Ok(match serves {
            _ if known.disabled || known.rolled_back && known.held_digest == sha256 => State::HeldByOperator,
            true => State::Serves,
            false => State::Differs,
        })
    }

    /// Reads the plugin of the server.
    async fn known(&self) -> Result<Option<data::Plugin>, SourceError> {
        let name = self.source.plugin.clone();
        let id = pb::Id { name, r#type: Some(types::plugin().to_pb()), ..pb::Id::default() };
        let caller = Caller::host(Consistency::Eventual);
        let found = match self.service.read(&caller, pb::ReadRequest { id: Some(id) }).await {
            Ok(found) => found.decode().map_err(|e| SourceError::Read(e.into()))?,
            Err(error) if error.code == Code::NotFound => return Ok(None),
            Err(error) => return Err(SourceError::Read(error)),
        };
        let data = found.data.unwrap_or_default();
        let plugin = data::Plugin::decode(data.value.as_slice());
        plugin.map(Some).map_err(|error| SourceError::Read(Error::internal(error.to_string())))
    }
}

/// Returns the path of a file that is given, and must be there: a registry may not ask for it, so that a misspelt path
/// would pass unseen.
fn given(key: &'static str, path: &Path) -> Result<Option<PathBuf>, SettingError> {
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    match parts::readable(path) {
        Ok(()) => Ok(Some(path.to_owned())),
        Err(source) => Err(SettingError::SecretFile { key, path: path.to_owned(), source }),
    }
}
