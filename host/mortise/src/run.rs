//! Starts the parts of a server, serves, and stops them.
//!
//! # Order
//! The ports open first, so that a wrong address is found at once. Then come the store, with the sandbox beside it, the
//! audit log, the service, tokens and policies, the plugins, their controllers, and the copies from other regions. The
//! ready line on stdout follows, and the ports answer. A stop ends the ports, the copies, the plugins, the controllers,
//! the audit log and the store, in this order.
//!
//! A task that must run as long as the server belongs to a [`TaskWatch`]: its panic stops the server.

use std::{
    io::Write as _,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use mortise_api::{ServeError, ServerInfo, Services, metrics::install_metrics};
use mortise_audit::{AuditLog, Events};
use mortise_plugin_host::{LoadError, Sandbox, SandboxOptions};
use mortise_plugin_manager::Manager;
use mortise_plugin_manager::controllers::ControllerManager;
use mortise_region::Replication;
use mortise_service::ResourceService;
use mortise_service::registry::{Registry, RegistryError};
use mortise_store::{SledBackend, StoreError};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    bootstrap, bundled,
    cli::Mode,
    plugins,
    provider::ProviderSocket,
    settings::{self, Config, ConfigError, Settings, parts},
    sockets, systemd,
    tasks::{TaskPanic, TaskWatch},
};

/// Reason why the server did not run, or stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Backup(#[from] mortise_backup::BackupError),
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
    Audit(#[from] mortise_audit::OpenError),
    #[error("cannot read tokens and policies: {0}")]
    Access(#[source] mortise_resource::Error),
    #[error(transparent)]
    Task(#[from] TaskPanic),
    #[error("{what}: {source}")]
    System { what: &'static str, source: std::io::Error },
}

fn system(what: &'static str) -> impl Fn(std::io::Error) -> RunError {
    move |source| RunError::System { what, source }
}

/// Serves until a signal.
pub(crate) fn run(mode: Mode, settings: Settings) -> Result<(), RunError> {
    // Boxed, or the compiler makes the code of the whole start once for each kind of runtime.
    let serve: Pin<Box<dyn Future<Output = _>>> = Box::pin(serve(mode, settings));
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("mortise-worker")
        .build()
        .map_err(system("cannot start threads"))?
        .block_on(serve)
}

async fn serve(mode: Mode, settings: Settings) -> Result<(), RunError> {
    let (begun, started_at) = (Instant::now(), SystemTime::now());
    // Signals count from here on: a second one ends a long start at once.
    let stop = tokio::spawn(stop_signal()?);
    let watchdog = systemd::watchdog();
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
    config.acl.enabled &= mode == Mode::Serve || given.acl;
    if mode == Mode::Dev && !given.audit {
        config.audit.events = Events::None;
    }
    config.plugins.load_unsigned |= mode == Mode::Dev && !given.load_unsigned;
    config.test_limits.log();
    let metrics = install_metrics().map_err(|e| system("cannot set up metrics")(std::io::Error::other(e)))?;
    let mut bound = mortise_api::bind(parts::server(&config, dns_optional)).await?;
    let (grpc, http) = bound.addrs().map_err(system("cannot read the ports' addresses"))?;
    let dns = bound.dns_addr().map_err(system("cannot read the ports' addresses"))?;

    let cache_dir = parts::cache_dir(&config, temporary.is_some());
    let (store_options, data_dir) = (parts::store(&config), config.data_dir.clone());
    let opening = tokio::task::spawn_blocking(move || {
        if mortise_backup::finish_interrupted(&data_dir)? {
            tracing::warn!(data_dir = %data_dir.display(), "a restore that was interrupted is complete now");
        }
        Ok::<_, RunError>(SledBackend::open(store_options)?)
    });
    let sandbox_options = SandboxOptions { identities: plugins::age_identities(&config)?, ..parts::sandbox(&config) };
    let sandbox = Sandbox::with_options(&parts::limits(&config), sandbox_options, cache_dir)?;
    let plugin_options = plugins::options(&config, reload)?;
    let store = opening.await.map_err(|e| system("cannot open the store")(std::io::Error::other(e)))??;

    // This process holds the store by now, so a socket at this path was left by a killed server.
    let mut socket = None;
    if !config.socket.as_os_str().is_empty() {
        let path = config.data_dir.join(&config.socket);
        match bound.open_socket(path.clone()) {
            Ok(()) => socket = Some(path),
            Err(e) => tracing::warn!("no unix socket: {}: {e} (socket)", path.display()),
        }
    }
    let backend = Arc::new(store);
    let registry = Arc::new(arc_swap::ArcSwap::from_pointee(Registry::builtin()?));
    let tasks = TaskWatch::new();
    let audit = parts::audit(&config).map(|options| AuditLog::open(&options)).transpose()?;
    if let Some(audit) = &audit {
        tasks.spawn("the thread of the audit log", audit.ended());
    }
    let options = parts::service(&config, audit.clone());
    let service = ResourceService::new(backend.clone(), registry.clone(), options);
    let background = tasks.spawn("the clean-up of tenancies", service.background());
    let following = service.follow_access().await.map_err(RunError::Access)?;
    let access = tasks.spawn("the watch of tokens and policies", following);
    if config.acl.enabled {
        bootstrap::ensure_token(&service, &config.data_dir).await?;
    }
    let controller_manager =
        ControllerManager::new(service.clone(), backend.clone(), registry.clone(), parts::kv(&config));
    let (manager, following) = Manager::start(
        plugin_options,
        sandbox,
        backend.clone(),
        service.clone(),
        registry.clone(),
        &controller_manager,
    )
    .await?;
    tasks.over("the watch of the plugins' files", following);
    let following = controller_manager.start()?;
    let follows = following.abort_handle();
    let following = tasks.over("the start and stop of controllers", following);

    let regions = Replication::new(service.clone(), settings::region::peers(&config));
    let pulling = tasks.spawn("the copying from other regions", regions.clone().run());

    let provider = socket.as_ref().and_then(|socket| ProviderSocket::open(&config, socket, &tasks));
    let names = socket.into_iter().chain(provider.as_ref().map(|provider| provider.path.clone())).collect();
    let names = tokio::spawn(sockets::follow(names));
    let looks = names.abort_handle();
    tasks.over("the look at the names of unix sockets", names);
    announce(mode, &config, (grpc, http, dns), temporary.is_some(), begun.elapsed())?;
    systemd::ready(grpc, http);
    let about = ServerInfo {
        provider_socket: provider.as_ref().map(|provider| provider.path.clone()),
        version: env!("CARGO_PKG_VERSION"),
        mode: mode.name(),
        data_dir: std::path::absolute(&config.data_dir).unwrap_or(config.data_dir),
        temporary: temporary.is_some(),
        started_at,
        started: begun,
    };
    let parts = Services {
        about,
        service: service.clone(),
        registry,
        manager: manager.clone(),
        controller_manager: controller_manager.clone(),
        regions,
        metrics,
    };
    let panicked = tasks.clone();
    let stopped = Box::pin(async move {
        tokio::select! {
            // This task does not panic, and is not aborted.
            _ = stop => {}
            () = panicked.panicked() => {}
        }
    });
    let served = bound.serve(parts, stopped).await;
    looks.abort();
    if let Some(provider) = provider {
        provider.close().await;
    }
    service.stop();
    let _ = pulling.await;
    // Work of the manager that ends here is either complete or without effect.
    manager.stop().await;
    drop(manager);
    follows.abort();
    let _ = following.await;
    controller_manager.stop().await;
    drop(controller_manager);
    let _ = background.await;
    let _ = access.await;
    drop(service);
    if let Some(audit) = audit {
        audit.close().await;
    }
    let closing = tokio::task::spawn_blocking(move || {
        backend.close();
        backend.poisoned().map(|why| StoreError::Poisoned(why.to_owned()))
    });
    let refuses = closing.await.map_err(|e| system("cannot close the store")(std::io::Error::other(e)))?;
    if let Some(watchdog) = watchdog {
        watchdog.abort();
    }
    tracing::info!("stopped");
    served?;
    // A supervisor must not take this for a clean end.
    if let Some(refuses) = refuses {
        return Err(refuses.into());
    }
    tasks.panic().map_or(Ok(()), |panic| Err(panic.into()))
}

/// Resolves at the first SIGTERM or SIGINT; a second one ends the process at once.
fn stop_signal() -> Result<impl Future<Output = ()> + Send + 'static, RunError> {
    let listen = |kind| signal(kind).map_err(system("cannot listen for signals"));
    let (mut term, mut int) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    Ok(async move {
        let name = tokio::select! {
            _ = term.recv() => "SIGTERM",
            _ = int.recv() => "SIGINT",
        };
        tracing::info!("{name}: stopping; a second signal stops at once");
        systemd::stopping();
        tokio::spawn(async move {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            tracing::warn!("second signal: stopped at once");
            std::process::exit(130);
        });
    })
}

/// Announces the addresses. The line on stdout is for scripts: it comes once the server answers.
fn announce(
    mode: Mode,
    config: &Config,
    (grpc, http, dns): (SocketAddr, SocketAddr, Option<SocketAddr>),
    temporary: bool,
    took: Duration,
) -> Result<(), RunError> {
    tracing::info!(data_dir = %config.data_dir.display(), took_ms = took.as_millis() as u64, "ready");
    let mut out = std::io::stdout().lock();
    let mut text = String::new();
    if mode == Mode::Serve && !config.acl.enabled {
        tracing::warn!("everyone who reaches the ports may do everything: tokens are off (acl.enabled)");
    }
    if mode == Mode::Dev && temporary {
        text.push_str("THE DATA DIRECTORY IS TEMPORARY: everything is gone at exit; --data-dir DIR keeps it.\n");
    }
    if mode == Mode::Dev {
        text.push_str(left_open(config));
    }
    let dns = dns.map(|dns| format!(" dns={dns}")).unwrap_or_default();
    text.push_str(&format!("mortise ready: grpc={grpc} http={http}{dns}\n"));
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(system("cannot write to stdout"))
}

/// Describes the protection that a server for development lacks, for people.
fn left_open(config: &Config) -> &'static str {
    match (config.acl.enabled, config.tls.cert_file.as_os_str().is_empty()) {
        (false, true) => "LEFT OPEN: no tokens and no TLS. Everyone who reaches the ports may do everything.\n",
        (false, false) => "LEFT OPEN: no tokens. Everyone who reaches the ports may do everything.\n",
        (true, true) => "LEFT OPEN: no TLS. Tokens travel in the clear.\n",
        (true, false) => "",
    }
}
