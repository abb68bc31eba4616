//! Plugins from registries: a task that keeps each plugin at the component that `plugin.NAME.source` names.
//!
//! # Contract
//! At the start, a source whose component does not serve is pulled and installed as by `mortise plugin install`: its
//! signature is checked, it is tried on all stored resources, and a component that does not fit is refused and changes
//! nothing. The source is asked until its component serves, and not again in this run. A version from which an operator
//! went back, and a plugin that an operator disabled, stay so. Without a registry the server goes on with what it has.
//!
//! Servers that share a store have a lease for this work, [`LEASE`]: its holder asks and installs, and the others follow.
//!
//! # Cost and limits
//! At most [`CONCURRENT_PULLS`] components are pulled or installed at a time, each of at most `sandbox.component_bytes`.
//! An operation at a registry takes at most [`OPERATION_TIMEOUT`]. After a failure the next attempt comes after
//! [`FIRST_RETRY`], and twice as late each time, up to [`LAST_RETRY`].

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use mortise_controller::Leases;
use mortise_keys::signature::{PublicKey, verify};
use mortise_plugin_manager::Manager;
use mortise_registry::{CredentialSource, Options, Pulled, Registry, RegistryError};
use mortise_resource::{Code, Error, data, pb, types};
use mortise_service::{Caller, Consistency, ResourceService};
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
    #[error("the server refuses the component: {0}")]
    Install(#[source] Error),
    #[error("the plugin's resource cannot be read: {0}")]
    Read(#[source] Error),
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
        let plain = settings.plain_http_registries.iter().map(|host| host.to_ascii_lowercase()).collect();
        let pulls = Semaphore::new(CONCURRENT_PULLS);
        Ok((!sources.is_empty()).then_some(Self { sources, options, plain, keys, retries, pulls }))
    }

    /// Keeps the plugins at their sources until the service stops.
    pub(crate) async fn follow(self, manager: Manager, service: ResourceService, leases: Arc<dyn Leases>) {
        let mut lease = leases.lease(LEASE);
        let stopped = service.stopped();
        let working = async {
            // An error means that this server never gets the lease.
            while lease.wait_for(|is_held| *is_held).await.is_ok() {
                let courses = self.sources.iter().map(|source| self.keep(source, &manager, &service));
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

    /// Brings one plugin to its source; ends once it serves.
    async fn keep(&self, source: &Source, manager: &Manager, service: &ResourceService) {
        let Source { plugin, reference } = source;
        let fault = metrics::gauge!("mortise_plugin_source_fault", "plugin" => plugin.clone());
        let (first, last) = self.retries;
        let mut retry = first;
        let mut is_unfinished = false;
        loop {
            let wait = match self.bring(source, manager, service, &mut is_unfinished).await {
                Ok(true) => return fault.set(0.0),
                Ok(false) => {
                    fault.set(0.0);
                    last
                }
                Err(error) => {
                    fault.set(1.0);
                    tracing::error!("plugin {plugin}: {reference}: {error}; the next attempt comes in {retry:?}");
                    let wait = retry;
                    retry = (retry * 2).min(last);
                    wait
                }
            };
            sleep(wait).await;
        }
    }

    /// Installs the component of a source, unless it serves already. Returns false if an operator holds it back. An
    /// install that failed may be half done on other
    /// servers, so it is repeated although its component serves here.
    async fn bring(
        &self,
        source: &Source,
        manager: &Manager,
        service: &ResourceService,
        is_unfinished: &mut bool,
    ) -> Result<bool, SourceError> {
        let Source { plugin, reference } = source;
        let host = &reference.repository.host;
        let options = Options { plain_http: self.plain.contains(host), ..self.options.clone() };
        let registry = Registry::new(host, options)?;
        let resolved = registry.resolve(reference).await?;
        let sha256 = resolved.component.hex().to_owned();
        // The second look is for what an operator has done during the pull.
        match state(service, plugin, &sha256).await? {
            State::HeldByOperator => return Ok(false),
            State::Serves if !*is_unfinished => return Ok(true),
            State::Serves | State::Differs => {}
        }
        // The semaphore is never closed.
        let _turn = self.pulls.acquire().await;
        let pulled = registry.pull_resolved(resolved).await?;
        if state(service, plugin, &sha256).await? == State::HeldByOperator {
            return Ok(false);
        }
        let signature = self.signature(&pulled);
        *is_unfinished = true;
        let installing = manager.install(Some(plugin.clone()), &sha256, pulled.artifact.layer, signature);
        installing.await.map_err(SourceError::Install)?;
        *is_unfinished = false;
        tracing::info!("plugin {plugin}: {} is installed", pulled.reference);
        Ok(true)
    }

    /// Chooses the newest signature by a trusted key, or the newest.
    fn signature(&self, pulled: &Pulled) -> Option<Vec<u8>> {
        let is_trusted = |text: &&[u8]| verify(pulled.component(), text, &self.keys).is_ok();
        let trusted = pulled.signatures().rev().find(is_trusted);
        trusted.or_else(|| pulled.signatures().next_back()).map(<[u8]>::to_vec)
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

/// Compares the plugin of the server with a component.
async fn state(service: &ResourceService, plugin: &str, sha256: &str) -> Result<State, SourceError> {
    let id = pb::Id { name: plugin.to_owned(), r#type: Some(types::plugin().to_pb()), ..pb::Id::default() };
    let caller = Caller::host(Consistency::Eventual);
    let found = match service.read(&caller, pb::ReadRequest { id: Some(id) }).await {
        Ok(found) => found.decode().map_err(|e| SourceError::Read(e.into()))?,
        Err(error) if error.code == Code::NotFound => return Ok(State::Differs),
        Err(error) => return Err(SourceError::Read(error)),
    };
    let data = found.data.unwrap_or_default();
    let known = data::Plugin::decode(data.value.as_slice());
    let known = known.map_err(|error| SourceError::Read(Error::internal(error.to_string())))?;
    let mut conditions = found.status.values().flat_map(|status| &status.conditions);
    // The digest is that of the last component of a plugin that does not serve, too.
    let is_loaded = conditions.any(|c| c.r#type == "Loaded" && c.state() == pb::condition::State::True);
    Ok(match known.digest == sha256 && is_loaded {
        _ if known.disabled || known.rolled_back && known.held_digest == sha256 => State::HeldByOperator,
        true => State::Serves,
        false => State::Differs,
    })
}
