//! Starts the parts of a server, serves, and stops them.
//!
//! # Order
//! The ports are reserved first, so that a wrong address is found at once; clients are refused until the end of the
//! start. Then come the store, with the sandbox beside it, the audit log, the service, tokens and policies, the
//! plugins, their controllers, and the replication from other regions. Then the ports open, the ready line on stdout
//! follows, and the ports answer. A stop ends the ports, the replication, the plugins, the controllers, the audit log
//! and the store, in this order. A start that fails, or that a signal ends, closes the parts that it has begun.
//!
//! A task that must run as long as the server belongs to a [`TaskWatch`]: its panic stops the server.

use std::{
    io,
    path::PathBuf,
    pin::Pin,
    sync::{Arc, OnceLock},
    time::{Duration, Instant, SystemTime},
};

use mortise_api::{
    Allowed, ReservedPorts, ServeError, ServerInfo, Services,
    metrics::{MetricsHandle, install_metrics},
};
use mortise_audit::{AuditLog, Events};
use mortise_plugin_host::{LoadError, Sandbox, SandboxOptions};
use mortise_plugin_manager::Manager;
use mortise_plugin_manager::controllers::ControllerManager;
use mortise_region::Replication;
use mortise_resource::data::server_status_response::ScheduledBackups as BackupState;
use mortise_service::ResourceService;
use mortise_service::registry::{Registry, RegistryError};
use mortise_store::{MemberInfo, StoreError};
use tokio::{sync::watch, time::timeout};

use crate::{
    announce::announce,
    bootstrap, bundled,
    logging::Log,
    migrate::{self, MigrateError},
    open_parts::OpenParts,
    plugin_sources::PluginSources,
    plugins,
    provider::ProviderSocket,
    reload::Reloader,
    scheduled_backups::ScheduledBackups,
    server_flags::Mode,
    settings::{self, Config, ConfigError, Effects, LiveSettings, LiveState, Settings, parts},
    signals::Signals,
    sockets::{Access, LocalSocket},
    store::{OpenError, Store},
    systemd,
    tasks::{TaskPanic, TaskWatch},
};

/// Longest time to close the parts of a start that a signal ends. The next start treats parts that are still open then
/// like those of a killed server.
const UNFINISHED_START_CLOSE_TIMEOUT: Duration = Duration::from_millis(700);

/// Longest wait for threads that are busy at the end, such as one that compiles a plugin.
const LAST_THREADS_WAIT: Duration = Duration::from_millis(50);

/// Reason why the server did not run, or stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("sandbox: {0}")]
    Sandbox(#[from] LoadError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(transparent)]
    Plugins(#[from] mortise_plugin_manager::StartError),
    #[error(transparent)]
    Controllers(#[from] mortise_plugin_manager::controllers::ControllersError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Bootstrap(#[from] bootstrap::BootstrapError),
    #[error(transparent)]
    Migrate(#[from] MigrateError),
    #[error(transparent)]
    Audit(#[from] mortise_audit::OpenError),
    #[error("cannot read tokens and policies: {0}")]
    Access(#[source] mortise_resource::Error),
    #[error(transparent)]
    Task(#[from] TaskPanic),
    #[error(transparent)]
    Thread(#[from] tokio::task::JoinError),
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
}

fn system(what: &'static str) -> impl Fn(io::Error) -> RunError {
    move |source| RunError::System { what, source }
}

/// Serves until a signal.
pub(crate) fn run(mode: Mode, settings: Settings, log: Log) -> Result<(), RunError> {
    // Boxed, or the compiler makes the code of the whole start once for each kind of runtime.
    let serve: Pin<Box<dyn Future<Output = _>>> = Box::pin(serve(mode, settings, log));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("mortise-worker")
        .build()
        .map_err(system("cannot start threads"))?;
    let served = runtime.block_on(serve);
    runtime.shutdown_timeout(LAST_THREADS_WAIT);
    served
}

async fn serve(mode: Mode, settings: Settings, log: Log) -> Result<(), RunError> {
    let (begun, started_at) = (Instant::now(), SystemTime::now());
    let (signals, receiving) = Signals::listen(mode, log.clone()).map_err(system("cannot listen for signals"))?;
    let tasks = TaskWatch::new();
    tasks.over("the wait for signals", receiving);
    let watchdog = systemd::watchdog().map(|watchdog| {
        let abort = watchdog.abort_handle();
        tasks.over("the pings to systemd's watchdog", watchdog);
        abort
    });
    systemd::opening();
    let Settings { mut config, given, reload } = settings;

    // Lives until the end of this function, and removes the directory then.
    let mut temporary = None;
    if mode == Mode::Dev {
        if !given.data_dir {
            let dir = tempfile::Builder::new().prefix("mortise-dev-").tempdir();
            let dir = dir.map_err(system("cannot make a temporary data directory"))?;
            config.data_dir = dir.path().to_owned();
            temporary = Some(dir);
        }
        // Plugins installed in dev mode do not stay in the user's folder.
        if !given.plugin_dir {
            config.plugin_dir = config.data_dir.join("plugin-files");
        }
        for name in bundled::DEV {
            if !config.plugins.bundled.iter().any(|known| known == name) {
                config.plugins.bundled.push(name.to_owned());
            }
        }
    }
    // Two servers for development would compete for one DNS port, so this one may do without.
    let dns_optional = mode == Mode::Dev && !given.dns;
    config.dns.enabled |= dns_optional;
    config.acl.enabled &= mode != Mode::Dev || given.acl;
    if mode == Mode::Dev && !given.audit {
        config.audit.events = Events::None;
    }
    config.plugins.load_unsigned |= mode == Mode::Dev && !given.load_unsigned;
    config.test_limits.log();
    let metrics = install_metrics().map_err(|e| system("cannot set up metrics")(io::Error::other(e)))?;
    let ports = mortise_api::bind(parts::server(&config, dns_optional)).await?;
    let live = LiveSettings::new(mode, reload, log)?;
    let (live_state, effects) = (live.state(), live.effects());

    let mut open = OpenParts::default();
    let started = tokio::select! {
        biased;
        () = signals.stop() => None,
        () = tasks.panicked() => None,
        started = start(&config, (mode, temporary.is_some()), live, &tasks, &mut open) => Some(started),
    };
    let served = match started {
        Some(Ok(parts)) if !signals.is_stopping() => {
            let about = ServerInfo {
                provider_socket: None,
                addresses: ports.addrs().map(|(grpc, http)| (grpc.to_string(), http.to_string())).unwrap_or_default(),
                version: env!("CARGO_PKG_VERSION"),
                mode: mode.name(),
                data_dir: std::path::absolute(&config.data_dir).unwrap_or_else(|_| config.data_dir.clone()),
                temporary: temporary.is_some(),
                started_at,
                started: begun,
            };
            follow_settings(&effects, &parts, ports.allowed());
            let live = (live_state, metrics);
            let served = serve_parts(mode, &config, about, (parts, live), ports, (&signals, &tasks)).await;
            let refused = open.close().await;
            tracing::info!("stopped");
            // A supervisor must not take a store that refused writes for a clean end.
            served.and_then(|()| refused.map_or(Ok(()), |why| Err(why.into())))
        }
        started => {
            if timeout(UNFINISHED_START_CLOSE_TIMEOUT, open.close()).await.is_err() {
                tracing::warn!(
                    "the start was ended before the store was open; the next start opens it as after a kill"
                );
            }
            let ended = started.map_or(Ok(()), |started| started.map(drop));
            ended.inspect(|()| tracing::info!("stopped"))
        }
    };
    if let Some(watchdog) = watchdog {
        watchdog.abort();
    }
    if let Some(dir) = temporary {
        remove_temporary(dir);
    }
    served?;
    tasks.panic().map_or(Ok(()), |panic| Err(panic.into()))
}

/// Attempts to remove a temporary data directory.
const REMOVAL_ATTEMPTS: usize = 8;

/// Removes the data directory of `mortise dev`. A thread of an unfinished start may still make files in it, so more
/// than one attempt may be necessary.
fn remove_temporary(dir: tempfile::TempDir) {
    let path = dir.keep();
    for _ in 0..REMOVAL_ATTEMPTS {
        if std::fs::remove_dir_all(&path).is_ok() {
            return;
        }
    }
    tracing::warn!("{}: the temporary data directory cannot be removed; remove it by hand", path.display());
}

/// The parts behind the ports.
struct Parts {
    service: ResourceService,
    registry: Arc<arc_swap::ArcSwap<Registry>>,
    manager: Manager,
    controller_manager: ControllerManager,
    regions: Replication,
    audit: Option<AuditLog>,
    store: Store,
    backups: watch::Receiver<Option<BackupState>>,
}

/// Starts the parts behind the ports; those that write by themselves stay away from a read-only store. The parts that a
/// stop must close are in `open` as soon as they exist. Safe to cancel.
async fn start(
    config: &Config,
    (mode, temporary): (Mode, bool),
    live: LiveSettings,
    tasks: &TaskWatch,
    open: &mut OpenParts,
) -> Result<Parts, RunError> {
    let cache_dir = parts::cache_dir(config, temporary);
    open.opening = Some(Store::begin(config, mode.is_read_only())?);
    let sandbox_options = SandboxOptions {
        identities: parts::age_identities(config)?,
        code: plugins::code_folder(config)?,
        ..parts::sandbox(config)
    };
    let sandbox = Sandbox::with_options(&parts::limits(config), sandbox_options, cache_dir)?;
    let mut plugin_options = plugins::options(config, live)?;
    let opened = match &mut open.opening {
        Some(opening) => opening.await,
        None => return Err(StoreError::Closed.into()),
    };
    open.opening = None;
    let store = opened.map_err(|e| system("cannot open the store")(io::Error::other(e)))??;
    let backend = store.backend();
    plugin_options.shared = store.shared(&parts::copy_dir(config));
    open.store = Some(store.clone());

    let registry = Arc::new(arc_swap::ArcSwap::from_pointee(Registry::builtin()?));
    let audit = parts::audit(config).map(|options| AuditLog::open(&options)).transpose()?;
    if let Some(audit) = &audit {
        tasks.spawn("the thread of the audit log", audit.ended());
    }
    open.audit = audit.clone();
    let service = ResourceService::new(backend.clone(), registry.clone(), parts::service(config, audit.clone()));
    open.service = Some(service.clone());
    if !mode.is_read_only() {
        open.tasks.push(tasks.spawn("the clean-up of tenancies", service.background()));
    }
    let following = service.follow_access().await.map_err(RunError::Access)?;
    open.tasks.push(tasks.spawn("the watch of tokens and policies", following));
    if config.acl.enabled && !mode.is_read_only() {
        bootstrap::ensure_token(&service, &config.data_dir).await?;
    }
    let controller_manager =
        ControllerManager::new(service.clone(), backend.clone(), registry.clone(), parts::kv(config), store.leases());
    open.controller_manager = Some(controller_manager.clone());
    let (manager, following) =
        Manager::start(plugin_options, sandbox, backend, service.clone(), registry.clone(), &controller_manager)
            .await?;
    open.manager = Some(manager.clone());
    tasks.over("the watch of the plugins' files", following);
    let regions = Replication::new(service.clone(), settings::region::peers(config));
    let (scheduled, backups) = ScheduledBackups::new(config).map_err(ConfigError::from)?;
    let sources = PluginSources::new(config).map_err(ConfigError::from)?;
    if !mode.is_read_only() {
        let following = controller_manager.start()?;
        open.follows = Some(following.abort_handle());
        open.tasks.push(tasks.over("the start and stop of controllers", following));
        open.tasks.push(tasks.spawn("the replication from other regions", regions.clone().run()));
        if let Some(scheduled) = scheduled {
            let following = scheduled.follow(manager.clone(), service.clone(), store.leases());
            open.tasks.push(tasks.spawn("the scheduled backups", following));
        }
        if let Some(sources) = sources {
            let following = sources.follow(manager.clone(), service.clone(), registry.clone(), store.leases());
            open.tasks.push(tasks.spawn("the plugins of registries", following));
        }
    }
    Ok(Parts { service, registry, manager, controller_manager, regions, audit, store, backups })
}

/// Lets parts of the server take changed settings.
fn follow_settings(effects: &Effects, parts: &Parts, allowed: Allowed) {
    let (service, logs) = (parts.service.clone(), parts.manager.logs().clone());
    effects.add(move |config| {
        service.set_rates(parts::rates(config));
        allowed.set(&config.http.allowed_hosts, &config.http.allowed_origins);
        logs.set_levels(parts::log_levels(config));
    });
}

/// Opens the unix socket for local users. Without a usable path the server has its ports alone.
async fn open_socket(config: &Config) -> Option<(PathBuf, LocalSocket)> {
    let path = (!config.socket.as_os_str().is_empty()).then(|| config.data_dir.join(&config.socket))?;
    let opened = LocalSocket::open(path.clone(), Access::All).await;
    let opened = opened.inspect_err(|e| tracing::warn!("no unix socket: {}: {e} (socket)", path.display()));
    Some((path, opened.ok()?))
}

/// Opens the ports, reports that, and serves until a signal or a panic, or until the content is moved.
async fn serve_parts(
    mode: Mode,
    config: &Config,
    about: ServerInfo,
    (parts, (state, metrics)): (Parts, (LiveState, MetricsHandle)),
    ports: ReservedPorts,
    (signals, tasks): (&Signals, &TaskWatch),
) -> Result<(), RunError> {
    let (grpc, http) = ports.addrs().map_err(system("cannot read the ports' addresses"))?;
    let dns = ports.dns_addr().map_err(system("cannot read the ports' addresses"))?;
    let Parts { service, registry, manager, controller_manager, regions, audit, store, backups } = parts;
    let reloader = Arc::new(Reloader {
        manager: manager.clone(),
        audit,
        tls: ports.tls_files(),
        authority: ports.authority_files(),
        state,
        turn: tokio::sync::Mutex::default(),
    });

    let socket = open_socket(config).await;
    let path = socket.as_ref().map(|(path, _)| path.clone());
    let ports = ports.open(socket.map(|(_, socket)| socket.connections())).await?;
    let provider = match path {
        Some(path) => ProviderSocket::open(config, &path, registry.clone(), tasks).await,
        None => None,
    };
    announce(mode, config, (grpc, http, dns), &about).await;
    store.introduce(MemberInfo {
        version: about.version.to_owned(),
        grpc_address: about.addresses.0.clone(),
        http_address: about.addresses.1.clone(),
        started_at: about.started_at,
    });
    systemd::ready(grpc, http);
    let reloading = tokio::spawn(reloader.clone().follow(signals.clone()));
    let reloads = reloading.abort_handle();
    tasks.over("the reload after SIGHUP", reloading);
    let about = ServerInfo { provider_socket: provider.as_ref().map(|provider| provider.path.clone()), ..about };
    let services = Services {
        about,
        service,
        registry,
        manager,
        controller_manager,
        regions,
        metrics,
        configuration: reloader,
        backups,
    };
    let (signals, panicked) = (signals.clone(), tasks.clone());
    let moved = Arc::new(OnceLock::new());
    let (end, config) = (moved.clone(), config.clone());
    let stopped = Box::pin(async move {
        tokio::select! {
            () = signals.stop() => {}
            () = panicked.panicked() => {}
            outcome = migrate::beside_server(mode, &config, &store) => drop(end.set(outcome)),
        }
    });
    let served = ports.serve(services, stopped).await;
    reloads.abort();
    if let Some(provider) = provider {
        provider.close().await;
    }
    served?;
    match Arc::into_inner(moved).and_then(OnceLock::into_inner) {
        Some(outcome) => Ok(outcome?),
        None if mode.is_read_only() => Err(MigrateError::Interrupted.into()),
        None => Ok(()),
    }
}
