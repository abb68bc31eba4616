//! What each part of the server is started with.

use std::{
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use mortise_acl::Access;
use mortise_api::{DestinationOptions, DnsOptions, HttpOptions, ServerOptions, TlsOptions};
use mortise_audit::{AuditLog, Events};
use mortise_plugin_host::{SandboxOptions, logs::level};
use mortise_service::{Placement, Rates};
use mortise_store::Quotas;

use super::table::Config;

/// The HTTP port.
pub(crate) fn http(config: &Config) -> HttpOptions {
    HttpOptions {
        api: config.http.api,
        max_connections: config.http.max_connections,
        request_timeout: Duration::from_millis(config.http.request_timeout_ms),
        stall_timeout: Duration::from_millis(config.http.stall_timeout_ms),
        keep_alive: Duration::from_millis(config.http.keep_alive_ms),
        max_body_bytes: HttpOptions::body_bytes(config.service.max_request_bytes, config.store.max_resource_bytes),
        allowed_hosts: config.http.allowed_hosts.clone(),
    }
}

/// The ports. `dns_optional` says that a server without DNS is as good.
pub(crate) fn server(config: &Config, dns_optional: bool) -> ServerOptions {
    ServerOptions {
        grpc_addr: config.grpc_addr,
        http_addr: config.http_addr,
        max_request_bytes: config.service.max_request_bytes,
        max_connections: config.grpc.max_connections,
        max_streams: config.service.max_streams,
        caller_streams: config.grpc.caller_streams,
        keep_alive: Duration::from_millis(config.grpc.keep_alive_ms),
        keep_alive_timeout: Duration::from_millis(config.grpc.keep_alive_timeout_ms),
        grace: Duration::from_millis(config.shutdown_grace_ms),
        request_bytes: config.grpc.request_bytes,
        answer_bytes: config.grpc.answer_bytes,
        upload_timeout: Duration::from_millis(config.grpc.upload_timeout_ms),
        destination: destination(config),
        http: http(config),
        tls: tls(config),
        dns: dns(config, dns_optional),
    }
}

/// TLS, if there is a certificate.
fn tls(config: &Config) -> Option<TlsOptions> {
    let tls = &config.tls;
    let given = |path: &Path| (!path.as_os_str().is_empty()).then(|| path.to_owned());
    Some(TlsOptions {
        cert_file: given(&tls.cert_file)?,
        key_file: given(&tls.key_file)?,
        client_ca_file: given(&tls.client_ca_file),
        client_certs: tls.client_certs,
        handshake: Duration::from_millis(tls.handshake_ms),
        rescan: Duration::from_millis(tls.rescan_ms),
    })
}

fn destination(config: &Config) -> DestinationOptions {
    DestinationOptions {
        enabled: config.destination.enabled,
        zone: config.destination.zone.clone(),
        heartbeat: Duration::from_millis(config.destination.heartbeat_ms),
        max_streams: config.destination.max_streams,
        max_services: config.destination.max_services,
        state_bytes: config.destination.state_bytes,
    }
}

/// The DNS port, if there is to be one. `optional` says that a server without it is as good.
fn dns(config: &Config, optional: bool) -> Option<DnsOptions> {
    let dns = &config.dns;
    // What is no zone was refused with the configuration.
    let zone = DnsOptions::parse_zone(&config.destination.zone).filter(|_| dns.enabled)?;
    Some(DnsOptions {
        addr: dns.addr,
        optional,
        zone,
        ttl: dns.ttl_s,
        queries: dns.queries,
        max_connections: dns.max_connections,
        idle: Duration::from_millis(dns.idle_ms),
    })
}

/// The sandbox, beyond its limits.
pub(crate) fn sandbox(config: &Config) -> SandboxOptions {
    // A word that is no level was refused with the configuration.
    let levels = config.plugin.iter().filter_map(|(name, plugin)| Some((name.clone(), level(&plugin.log_level)?)));
    SandboxOptions {
        quarantine: config.quarantine.clone(),
        logs: config.plugin_logs.clone(),
        log_levels: levels.collect(),
        controllers: config.controllers.clone(),
        identities: None,
    }
}

/// The resource service.
pub(crate) fn service(config: &Config, audit: Option<AuditLog>) -> mortise_service::Options {
    mortise_service::Options {
        max_watches: config.service.max_watches,
        caller_watches: config.service.caller_watches,
        max_snapshots: config.service.max_snapshots,
        list_bytes: config.service.list_bytes,
        search_resources: config.service.search_resources,
        index_bytes: config.service.index_bytes,
        search_time: Duration::from_millis(config.service.search_ms),
        max_waiting: config.service.max_waiting,
        max_resource_bytes: config.store.max_resource_bytes,
        second_pass: Duration::from_millis(config.service.second_pass_ms),
        owner_grace: Duration::from_millis(config.service.owner_grace_ms),
        rates: rates(config),
        access: access(config),
        audit,
        placement: Placement {
            region: Some(config.region.name.clone()).filter(|name| !name.is_empty()),
            rings: config.service.shard_rings.0.clone(),
        },
    }
}

/// The record of who did what, if anything is to be recorded.
pub(crate) fn audit(config: &Config) -> Option<mortise_audit::Options> {
    let audit = &config.audit;
    let dir = match audit.dir.as_os_str().is_empty() {
        true => config.data_dir.join("audit"),
        false => audit.dir.clone(),
    };
    (audit.events != Events::None).then(|| mortise_audit::Options {
        dir,
        events: audit.events,
        file_bytes: audit.file_bytes,
        files: audit.files,
        queue: audit.queue,
        when_full: audit.when_full,
        wait: Duration::from_millis(audit.wait_ms),
        sync: Duration::from_millis(audit.sync_ms),
    })
}

fn rates(config: &Config) -> Rates {
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

/// Tokens and policies, if they are asked for.
fn access(config: &Config) -> Option<Arc<Access>> {
    let acl = &config.acl;
    let options = mortise_acl::Options {
        anonymous: acl.anonymous_policies.clone(),
        dns: acl.dns_policies.clone(),
        certificates: acl.certificates.clone().into_iter().collect(),
    };
    acl.enabled.then(|| Arc::new(Access::new(options)))
}

/// The store.
pub(crate) fn store(config: &Config) -> mortise_store::Options {
    let mut options = mortise_store::Options::new(config.data_dir.join("store"));
    options.cache_bytes = match config.store.cache_bytes {
        0 => machine_cache(),
        bytes => bytes,
    };
    options.max_resource_bytes = config.store.max_resource_bytes;
    options.quotas = Quotas { resources: config.quotas.resources, bytes: config.quotas.bytes };
    options.history_events = config.store.history_events;
    options.history_bytes = config.store.history_bytes;
    options.watch_buffer = config.store.watch_buffer;
    options.watch_buffer_bytes = config.store.watch_buffer_bytes;
    options.watch_bytes = config.store.watch_bytes;
    options.commit_queue = config.store.commit_queue;
    options.reserve_bytes = config.store.reserve_bytes;
    options.scrub_per_second = config.store.scrub_per_second;
    options.compare_at_start = config.store.compare_at_start;
    options
}

/// A cache for this machine: a sixteenth of its memory, from 32 MiB to 1 GiB. It fills as data is touched, so a small
/// store stays small.
fn machine_cache() -> u64 {
    let memory = mortise_plugin_host::physical_memory().unwrap_or(0);
    (memory / 16).clamp(32 << 20, 1 << 30)
}

/// Where compiled code is kept, which is worth it even when the data is `temporary`.
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
