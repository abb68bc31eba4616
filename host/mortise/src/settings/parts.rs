//! Options of each part of the server, made from the settings.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use mortise_acl::Access;
use mortise_api::{
    Allowed, DestinationOptions, DnsOptions, HttpOptions, IdentityOptions, ServerOptions, TlsOptions, ZonePreference,
};
use mortise_audit::{AuditLog, Events};
use mortise_plugin_host::{
    CompilerProgram, Identities, Limits, LogSettings, LogThreshold, Quarantine, ReconcileLimits, SandboxOptions,
    threshold,
};
use mortise_plugin_manager::controllers::Quota;
use mortise_service::{Placement, Rates};
use mortise_store::Quotas;
use mortise_store_etcd::{Credentials, EtcdOptions, Tls as EtcdTls};

use super::{
    error::{ConfigError, SettingError},
    store::Engine,
    table::Config,
};

/// The HTTP port.
pub(crate) fn http(config: &Config) -> HttpOptions {
    HttpOptions {
        api: config.http.api,
        max_connections: config.http.max_connections,
        request_timeout: config.http.request_timeout_ms.into(),
        stall_timeout: config.http.stall_timeout_ms.into(),
        keep_alive: config.http.keep_alive_ms.into(),
        max_body_bytes: HttpOptions::body_bytes(
            config.service.max_request_bytes.to_usize(),
            config.store.max_resource_bytes.to_usize(),
        ),
        allowed: Allowed::new(&config.http.allowed_hosts, &config.http.allowed_origins),
    }
}

/// The ports. `dns_optional`: a server without the DNS port may start.
pub(crate) fn server(config: &Config, dns_optional: bool) -> ServerOptions {
    ServerOptions {
        grpc_addr: config.grpc_addr,
        http_addr: config.http_addr,
        max_request_bytes: config.service.max_request_bytes.to_usize(),
        max_connections: config.grpc.max_connections,
        caller_streams: config.grpc.caller_streams,
        keep_alive: config.grpc.keep_alive_ms.into(),
        grace: config.shutdown_grace_ms.into(),
        request_bytes: config.grpc.inbound_buffer_bytes.to_usize(),
        answer_bytes: config.grpc.outbound_buffer_bytes.to_usize(),
        upload_timeout: config.grpc.upload_timeout_ms.into(),
        destination: destination(config),
        identity: identity(config),
        http: http(config),
        tls: tls(config),
        dns: dns(config, dns_optional),
    }
}

/// TLS, if there is a certificate.
fn tls(config: &Config) -> Option<TlsOptions> {
    let (tls, test) = (&config.tls, &config.test_limits);
    let given = |path: &Path| (!path.as_os_str().is_empty()).then(|| path.to_owned());
    Some(TlsOptions {
        cert_file: given(&tls.cert_file)?,
        key_file: given(&tls.key_file)?,
        client_ca_file: given(&tls.client_ca_file),
        client_certs: tls.client_certs,
        handshake: test.tls_handshake_ms.map_or(TlsOptions::HANDSHAKE_TIMEOUT, Into::into),
        rescan: test.tls_rescan_ms.map_or(TlsOptions::RESCAN_INTERVAL, Into::into),
    })
}

/// The authority for identities, if it has a certificate.
fn identity(config: &Config) -> Option<IdentityOptions> {
    let identity = &config.identity;
    (!identity.cert_file.as_os_str().is_empty()).then(|| IdentityOptions {
        cert_file: identity.cert_file.clone(),
        key_file: identity.key_file.clone(),
        trust_domain: identity.trust_domain.clone(),
        lifetime: Duration::from_secs(identity.lifetime_s.0),
        clock_allowance: Duration::from_secs(identity.clock_allowance_s.0),
        rescan: config.test_limits.tls_rescan_ms.map_or(TlsOptions::RESCAN_INTERVAL, Into::into),
    })
}

fn destination(config: &Config) -> DestinationOptions {
    let mut options = DestinationOptions {
        enabled: config.destination.enabled,
        zone: config.destination.zone.clone(),
        state_bytes: config.destination.state_bytes.to_usize(),
        ..DestinationOptions::default()
    };
    config.test_limits.apply_to_destination(&mut options);
    options
}

/// The DNS port, if it is enabled. `optional`: a server without the port may start.
fn dns(config: &Config, optional: bool) -> Option<DnsOptions> {
    let (dns, test) = (&config.dns, &config.test_limits);
    // A wrong zone was refused with the configuration.
    let zone = DnsOptions::parse_zone(&config.destination.zone).filter(|_| dns.enabled)?;
    Some(DnsOptions {
        addr: dns.addr,
        optional,
        zone,
        short_zone: DnsOptions::parse_zone(&dns.short_zone).filter(|_| !dns.short_zone.is_empty()),
        preference: ZonePreference { zone: dns.prefer_zone.clone(), alone_from: dns.prefer_zone_alone_from },
        ttl: dns.ttl_s.0 as u32,
        queries: dns.concurrent_queries,
        max_connections: test.dns_connections.unwrap_or(DnsOptions::MAX_CONNECTIONS),
        idle: test.dns_idle_ms.map_or(DnsOptions::IDLE_TIMEOUT, Into::into),
    })
}

/// The options of the sandbox besides its limits.
pub(crate) fn sandbox(config: &Config) -> SandboxOptions {
    SandboxOptions {
        quarantine: quarantine(config),
        logs: plugin_logs(config),
        log_levels: log_levels(config),
        controllers: reconcile_limits(config),
        identities: None,
        program: CompilerProgram::this(),
        code: None,
        reuses_all: false,
    }
}

/// The thresholds of plugins' logs.
pub(crate) fn log_levels(config: &Config) -> BTreeMap<String, LogThreshold> {
    // A wrong level was refused with the configuration.
    let levels = config.plugin.iter().filter_map(|(name, plugin)| Some((name.clone(), threshold(&plugin.log_level)?)));
    levels.collect()
}

/// Tries to read a file. A pipe is not opened, since that would wait for its writer.
pub(crate) fn readable(path: &Path) -> io::Result<()> {
    let found = std::fs::metadata(path)?;
    match found.is_dir() {
        true => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        false if !found.is_file() => Ok(()),
        false => File::open(path).map(drop),
    }
}

/// The limits of hooks.
pub(crate) fn limits(config: &Config) -> Limits {
    let sandbox = &config.sandbox;
    let mut limits = Limits {
        instances: sandbox.instances,
        fuel: sandbox.fuel,
        deadline_ms: sandbox.deadline_ms.0,
        describe_deadline_ms: sandbox.describe_deadline_ms.0,
        memory_bytes: sandbox.memory_bytes.to_usize(),
        reply_bytes: sandbox.reply_bytes.to_usize(),
        concurrency: sandbox.concurrency,
        component_bytes: sandbox.component_bytes.to_usize(),
        code_cache_bytes: sandbox.code_cache_bytes.0,
        ..Limits::default()
    };
    config.test_limits.apply_to_sandbox(&mut limits);
    limits
}

/// The limits of controllers.
pub(crate) fn reconcile_limits(config: &Config) -> ReconcileLimits {
    let controllers = &config.controllers;
    let mut limits = ReconcileLimits {
        instances: controllers.instances,
        fuel: controllers.fuel,
        deadline_ms: controllers.deadline_ms.0,
        memory_bytes: controllers.memory_bytes.to_usize(),
        host_calls: controllers.host_calls,
        host_call_ms: controllers.host_call_ms.0,
        ..ReconcileLimits::default()
    };
    config.test_limits.apply_to_controllers(&mut limits);
    limits
}

fn quarantine(config: &Config) -> Quarantine {
    let rules = &config.quarantine;
    let mut options = Quarantine {
        faults: rules.faults,
        window_ms: rules.window_ms.0,
        bypass_mutate_types: rules.bypass_mutate_types.clone(),
        ..Quarantine::default()
    };
    config.test_limits.apply_to_quarantine(&mut options);
    options
}

fn plugin_logs(config: &Config) -> LogSettings {
    let logs = &config.plugin_logs;
    LogSettings {
        lines_per_second: logs.lines_per_second,
        kept_lines: logs.kept_lines,
        kept_bytes: logs.kept_bytes.to_usize(),
        ..LogSettings::default()
    }
}

/// The quota of a plugin's keys and values.
pub(crate) fn kv(config: &Config) -> Quota {
    Quota { values: config.kv.keys, bytes: config.kv.bytes.to_usize() }
}

/// The resource service.
pub(crate) fn service(config: &Config, audit: Option<AuditLog>) -> mortise_service::Options {
    let mut options = mortise_service::Options {
        max_watches: config.service.max_watches,
        caller_watches: config.service.caller_watches,
        max_snapshots: config.service.concurrent_watch_snapshots,
        list_bytes: config.service.list_bytes.to_usize(),
        search_resources: config.service.search_resources,
        index_bytes: config.service.index_bytes.to_usize(),
        search_time: config.service.search_ms.into(),
        max_waiting: config.service.max_queued_lists,
        max_resource_bytes: config.store.max_resource_bytes.to_usize(),
        second_pass: config.service.cascade_second_pass_ms.into(),
        owner_grace: config.service.owner_grace_ms.into(),
        rates: rates(config),
        access: access(config),
        audit,
        placement: Placement {
            region: Some(config.region.name.clone()).filter(|name| !name.is_empty()),
            rings: config.service.shard_rings.0.clone(),
        },
        ..mortise_service::Options::default()
    };
    config.test_limits.apply_to_service(&mut options);
    options
}

/// The directory of the audit log.
pub(crate) fn audit_dir(config: &Config) -> PathBuf {
    match config.audit.dir.as_os_str().is_empty() {
        true => config.data_dir.join("audit"),
        false => config.audit.dir.clone(),
    }
}

/// The directory of scheduled backups.
pub(crate) fn backup_dir(config: &Config) -> PathBuf {
    match config.backup.dir.as_os_str().is_empty() {
        true => config.data_dir.join("backups"),
        false => config.backup.dir.clone(),
    }
}

/// The audit log, unless it records nothing.
pub(crate) fn audit(config: &Config) -> Option<mortise_audit::Options> {
    let (audit, test) = (&config.audit, &config.test_limits);
    (audit.events != Events::None).then(|| mortise_audit::Options {
        dir: audit_dir(config),
        events: audit.events,
        file_bytes: audit.file_bytes.0,
        files: audit.files,
        queue: test.audit_queue.unwrap_or(mortise_audit::Options::QUEUE_RECORDS),
        when_full: audit.on_full,
        sinks: audit.sinks.0.clone(),
        wait: test.audit_wait_ms.map_or(mortise_audit::Options::QUEUE_WAIT, Into::into),
        sync: mortise_audit::Options::SYNC_INTERVAL,
    })
}

/// The rates of requests.
pub(crate) fn rates(config: &Config) -> Rates {
    // Zero was refused with the configuration.
    let rate = |number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
    let service = &config.service;
    Rates {
        reads: rate(service.reads_per_second),
        writes: rate(service.writes_per_second),
        caller_reads: rate(service.caller_reads_per_second),
        caller_writes: rate(service.caller_writes_per_second),
    }
}

/// Tokens and policies, if they are enabled.
fn access(config: &Config) -> Option<Arc<Access>> {
    let acl = &config.acl;
    let options = mortise_acl::Options {
        anonymous: acl.anonymous_policies.clone(),
        dns: acl.dns_policies.clone(),
        certificates: acl.certificates.clone().into_iter().collect(),
    };
    acl.enabled.then(|| Arc::new(Access::new(options)))
}

/// The options of the store.
pub(crate) fn store(config: &Config) -> mortise_store::Options {
    let mut options = mortise_store::Options::new(config.data_dir.join("store"));
    options.cache_bytes = match config.store.cache_bytes.0 {
        0 => machine_cache(),
        bytes => bytes,
    };
    options.max_resource_bytes = config.store.max_resource_bytes.to_usize();
    options.quotas = Quotas { resources: config.quotas.resources, bytes: config.quotas.bytes.0 };
    options.history_events = config.store.history_events;
    options.history_bytes = config.store.history_bytes.0;
    options.watch_bytes = config.store.watch_bytes.to_usize();
    options.reserve_bytes = config.store.reserve_bytes.0;
    options.scrub_per_second = config.store.scrub_per_second;
    options.compare_at_start = config.store.compare_at_start;
    config.test_limits.apply_to_store(&mut options);
    options
}

/// Returns the directory of a server's copy of a store that several share, with what this server alone knows.
pub(crate) fn copy_dir(config: &Config) -> PathBuf {
    config.data_dir.join("copy")
}

/// The cluster of the store, if etcd keeps it, and the options of the copy beside it.
pub(crate) fn etcd(config: &Config) -> Result<Option<(EtcdOptions, mortise_store::Options)>, SettingError> {
    match config.store.engine {
        Engine::Sled => Ok(None),
        Engine::Etcd => cluster(config).map(Some),
    }
}

/// The cluster of the settings, whether or not it keeps the store, and the options of the copy beside it.
pub(crate) fn cluster(config: &Config) -> Result<(EtcdOptions, mortise_store::Options), SettingError> {
    let etcd = &config.store.etcd;
    let read = |key, path: &PathBuf| match path.as_os_str().is_empty() {
        true => Ok(None),
        false => {
            std::fs::read(path).map(Some).map_err(|source| SettingError::SecretFile { key, path: path.clone(), source })
        }
    };
    let password = read("store.etcd.password_file", &etcd.password_file)?;
    let credentials = password.map(|password| Credentials {
        username: etcd.username.clone(),
        password: String::from_utf8_lossy(&password).trim_end_matches(['\r', '\n']).to_owned(),
    });
    let authorities = read("store.etcd.ca_file", &etcd.ca_file)?;
    let cert = read("store.etcd.cert_file", &etcd.cert_file)?;
    let identity = cert.zip(read("store.etcd.key_file", &etcd.key_file)?);
    let tls = (authorities.is_some() || identity.is_some()).then_some(EtcdTls { authorities, identity });
    let (endpoints, prefix) = (etcd.endpoints.clone(), etcd.prefix.clone());
    let mut copy = store(config);
    copy.path = copy_dir(config);
    Ok((EtcdOptions { endpoints, prefix, credentials, tls }, copy))
}

/// Reads the identities that decrypt granted secrets, if the settings name a file of them.
pub(crate) fn age_identities(config: &Config) -> Result<Option<Arc<Identities>>, ConfigError> {
    let path = &config.plugins.age_identity_file;
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    // Resolves links, as far as the path exists.
    let whole = |path: &Path| path.ancestors().find_map(|above| std::fs::canonicalize(above).ok());
    let data_dir = std::path::absolute(&config.data_dir).unwrap_or_else(|_| config.data_dir.clone());
    if data_dir.exists() && whole(path).zip(whole(&data_dir)).is_some_and(|(file, data)| file.starts_with(data)) {
        return Err(SettingError::AgeIdentityWithData { path: path.clone() }.into());
    }
    let identities = Identities::read(path).map_err(|source| SettingError::AgeIdentity(Box::new(source)))?;
    Ok(Some(Arc::new(identities)))
}

/// A cache for this machine: a sixteenth of its memory, from 32 MiB to 1 GiB. It fills as data is touched, so a small
/// store stays small.
fn machine_cache() -> u64 {
    let memory = mortise_plugin_host::physical_memory().unwrap_or(0);
    (memory / 16).clamp(32 << 20, 1 << 30)
}

/// The directory of compiled code. It outlives even `temporary` data, since compiling is slow.
pub(crate) fn cache_dir(config: &Config, temporary: bool) -> PathBuf {
    if !config.cache_dir.as_os_str().is_empty() {
        return config.cache_dir.clone();
    }
    let in_data = config.data_dir.join("cache");
    if !temporary {
        return in_data;
    }
    let home = |name: &str| std::env::var_os(name).filter(|v| Path::new(v).is_absolute()).map(PathBuf::from);
    home("XDG_CACHE_HOME")
        .or_else(|| home("HOME").map(|home| home.join(".cache")))
        .map_or(in_data, |cache| cache.join("mortise"))
}
