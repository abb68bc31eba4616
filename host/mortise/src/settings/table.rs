//! Every setting, once: name, default, range and explanation. `config.toml` is printed from this table.
//!
//! The defaults of another part's options (`[sandbox]` fills the limits of plugins) come from that part.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf};

use mortise_api::{ClientCerts, DestinationOptions, HttpOptions};
use mortise_audit::{Events, OnFull};
use mortise_plugin_host::{
    Limits, LogSettings, Quarantine, ReconcileLimits,
    units::{Millis, Seconds, Size},
};
use mortise_plugin_manager::controllers::Quota;
use mortise_service::Rates;

use super::{
    backup::Backup,
    declare::{Section, Setting, section},
    plugin::PluginConfig,
    range::Range,
    region::{PeerConfig, Rings},
    sinks::AuditSinks,
    store::{Etcd, Store},
    test_limits::TestLimits,
};

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
const KIB: i64 = 1 << 10;
const GIB: i64 = 1 << 30;
const TIB: i64 = 1 << 40;

/// A time that may be zero.
const WAIT: Range = Range::milliseconds(0, DAY_MS);
/// A time above zero.
const TIME: Range = Range::milliseconds(1, DAY_MS);
/// A time between messages on the network.
const NETWORK_TIME: Range = Range::milliseconds(10, DAY_MS);
/// A number of things in progress at the same time.
const AT_ONCE: Range = Range::new(1, 1_000_000);
/// A number per second.
const RATE: Range = Range::new(1, 100_000_000);

/// All sections, in the order of the file.
pub(crate) const SECTIONS: &[Section] = &[
    Config::SECTION,
    Log::SECTION,
    Plugins::SECTION,
    Acl::SECTION,
    Audit::SECTION,
    Service::SECTION,
    Quotas::SECTION,
    Grpc::SECTION,
    Http::SECTION,
    Tls::SECTION,
    Identity::SECTION,
    Region::SECTION,
    Destination::SECTION,
    Dns::SECTION,
    Store::SECTION,
    Etcd::SECTION,
    Backup::SECTION,
    Sandbox::SECTION,
    Controllers::SECTION,
    QuarantineRules::SECTION,
    PluginLogs::SECTION,
    Kv::SECTION,
];

section! {
    struct Config in "" {
        /// Address of the gRPC port. Any address but loopback needs TLS and tokens. With port 0 the system picks a
        /// port.
        grpc_addr: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 8502));
        /// Address of the HTTP port: the resource API as JSON, its OpenAPI description, /healthz, /readyz and /metrics.
        /// The rules of grpc_addr apply.
        http_addr: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 8500));
        /// Directory of the stored resources. Without this setting, `mortise dev` uses a temporary directory.
        data_dir: PathBuf = "data".into();
        /// Folder of plugins. The server loads every *.wasm in it, and loads a file again when it changes. The folder
        /// may appear later. Without this setting, `mortise dev` uses a folder in data_dir.
        plugin_dir: PathBuf = "plugins".into();
        /// Directory of compiled plugins, for faster starts. Empty: `cache` in data_dir, or the user's cache for
        /// `mortise dev`.
        cache_dir: PathBuf = PathBuf::new();
        /// Unix socket on which gRPC recognises the users of this machine (docs/security.md). A relative path starts at
        /// data_dir, which other users cannot enter. Empty: no socket.
        socket: PathBuf = "mortise.sock".into();
        /// Unix socket to which Terraform and OpenTofu attach (docs/terraform.md). Only the server's own user may
        /// connect. It reaches the server through `socket`. A relative path starts at data_dir. Empty: no socket.
        provider_socket: PathBuf = "provider.sock".into();
        /// Whether the server may listen on other addresses than loopback without TLS or without tokens (--insecure).
        allow_insecure: bool = false;
        /// Time for calls in progress to finish after SIGTERM or SIGINT.
        shutdown_grace_ms: Millis = Millis(10_000), WAIT;
    } with {
        log: Log,
        plugins: Plugins,
        acl: Acl,
        audit: Audit,
        /// Single plugins, by name.
        plugin: BTreeMap<String, PluginConfig>,
        service: Service,
        quotas: Quotas,
        grpc: Grpc,
        http: Http,
        tls: Tls,
        identity: Identity,
        region: Region,
        destination: Destination,
        dns: Dns,
        store: Store,
        backup: Backup,
        sandbox: Sandbox,
        controllers: Controllers,
        quarantine: QuarantineRules,
        plugin_logs: PluginLogs,
        kv: Kv,
        #[serde(skip)]
        test_limits: TestLimits,
    }
}

section! {
    /// Logs, which go to stderr.
    struct Log in "log" {
        /// Lowest level in the log: error, warn, info, debug or trace; or a filter such as "info,plugin=debug" with a
        /// level for each target. Plugins log under the target `plugin`.
        level: String = "info".into();
        /// Whether the log has times of requests and hooks, with plugin, version and fuel. Costs some speed.
        spans: bool = false;
    }
}

section! {
    /// Plugins: which ones the server loads, and whether it trusts them.
    struct Plugins in "plugins" {
        /// Plugins inside the binary to switch on: "catalog", "demo" and "routes". `mortise dev` adds the first two.
        bundled: Vec<String> = Vec::new();
        /// Public keys of minisign: the line with the key, or a file with it (docs/security.md). `mortise plugin
        /// keygen` makes a pair. Read at the start.
        trusted_keys: Vec<String> = Vec::new();
        /// Whether every plugin needs a signature by one of trusted_keys, however it is installed. Plugins inside the
        /// binary need none.
        require_signed: bool = false;
        /// Whether files in plugin_dir are loaded without a signature. If not, a file needs a signature by one of
        /// trusted_keys, a digest in `pinned`, or must have served before, as installed plugins have. Without this
        /// setting, `mortise dev` loads them.
        load_unsigned: bool = false;
        /// SHA-256 digests, in hexadecimal, of files in plugin_dir to load without a signature.
        pinned: Vec<String> = Vec::new();
        /// Folder of machine code that other machines compiled (docs/languages.md), with signatures beside the files.
        /// Read when a plugin is loaded whose code is not in the cache. Empty: none.
        code_dir: PathBuf = PathBuf::new();
        /// Public keys of minisign, as in trusted_keys, for the files in code_dir. Code runs outside of every sandbox, so
        /// keep these keys apart from those of authors.
        code_keys: Vec<String> = Vec::new();
        /// File of identities as age-keygen writes them; they decrypt the files of granted secrets (docs/security.md).
        /// Only its owner may have access, and it must be outside data_dir. Read at the start. Empty: none.
        age_identity_file: PathBuf = PathBuf::new();
        /// Credentials for the registries of `source` in [plugin.NAME] (docs/registries.md): a file as `docker login`
        /// writes it. Empty: none.
        registry_config_file: PathBuf = PathBuf::new();
        /// Certificates (PEM) of the authorities that the registries' certificates come from. Empty: those of the
        /// system.
        registry_ca_file: PathBuf = PathBuf::new();
        /// Registries, as HOST or HOST:PORT, that are asked over plain http: others on the way can read and change
        /// everything.
        plain_http_registries: Vec<String> = Vec::new();
        /// Time between two looks for newer versions of plugins with `update` in [plugin.NAME].
        update_check_s: Seconds = Seconds(6 * 60 * 60), Range::seconds(60, 31 * 24 * 60 * 60);
    }
}

section! {
    /// The region of this server (docs/regions.md). The server has replicas of the resources of its peers; each peer
    /// has a table of its own, [region.peers.NAME], at the end of this file.
    struct Region in "region" {
        /// Name of the region, such as "eu-1". Empty: the server is in no region, and ignores policies of regions.
        name: String = String::new();
        /// Longest wait before the server tries again to reach a peer that does not answer.
        max_backoff_ms: Millis = Millis(30_000), TIME;
        /// Silence of a peer after which the server sends a ping of HTTP/2, and time for its answer.
        keep_alive_ms: Millis = Millis(10_000), NETWORK_TIME;
        /// Share of the replicas of a type from a peer, in percent, that a snapshot of the peer may remove. A snapshot
        /// that would remove more stops the peer until `mortise regions accept` (docs/regions.md).
        max_removed_percent: u32 = 30, Range::new(0, 100);
        /// Number of replicas of a type from a peer that a snapshot may remove in any case.
        max_removed: u32 = 10, Range::new(0, 1_000_000);
    } with {
        /// Regions that replicas are pulled from, by name.
        peers: BTreeMap<String, PeerConfig>,
    }
}

section! {
    /// Permissions of callers: tokens and policies (docs/security.md). Policies of client certificates have a table of
    /// their own, [acl.certificates], by a name in the certificate: laptop = ["blue-team"].
    struct Acl in "acl" {
        /// Whether callers need a token or another proof of who they are. The first start with it writes a token with
        /// all permissions to data_dir/bootstrap-token. Without this setting, `mortise dev` asks for none.
        enabled: bool = true;
        /// Policies of callers without a token.
        anonymous_policies: Vec<String> = Vec::new();
        /// Policies of all queries to the DNS port, which has no tokens.
        dns_policies: Vec<String> = Vec::new();
    } with {
        /// Policies of client certificates, by a name in the certificate.
        certificates: BTreeMap<String, Vec<String>>,
    }
}

section! {
    /// The audit log: a line of JSON for each call that it records (docs/security.md).
    struct Audit in "audit" {
        /// Recorded calls: "none", "changes" (with all calls refused for lack of a permission), or "all". Without this
        /// setting, `mortise dev` records none.
        events: Events = Events::Changes;
        /// Directory of the files. Empty: `audit` in data_dir.
        dir: PathBuf = PathBuf::new();
        /// Size at which a new file is started.
        file_bytes: Size = Size(16 << 20), Range::bytes(64 * KIB, TIB);
        /// Number of files, the current one included. The oldest are deleted.
        files: usize = 8, Range::new(1, 10_000);
        /// Action when the queue of records is full: "wait" delays calls, and refuses changes after 5 seconds; "drop"
        /// drops records and counts them.
        on_full: OnFull = OnFull::Wait;
        /// Further places of the same records: "syslog", "journald", "unix:/PATH" or "tcp:HOST:PORT"
        /// (docs/security.md). At most 8.
        sinks: AuditSinks = AuditSinks::default();
    }
}

section! {
    /// The resource API, on both ports.
    struct Service in "service" {
        /// Size of the largest request. The default is Consul's limit.
        max_request_bytes: Size = Size(50 << 20), Range::bytes(KIB, GIB);
        /// Sizes of rings, such as [16, 32]. Each written resource gets a shard in each ring,
        /// `meta.shards.byNameMod<N>` (docs/query.md). At most 8 rings of 1 to 65,536 shards.
        shard_rings: Rings = Rings::default();
        /// Reads per second, starts of watches included. Further ones are refused with the time to wait.
        reads_per_second: u32 = Rates::default().reads.get(), RATE;
        /// Writes and deletions per second. Further ones are refused with the time to wait.
        writes_per_second: u32 = Rates::default().writes.get(), RATE;
        /// Reads per second of one caller. Needs acl.enabled.
        caller_reads_per_second: u32 = Rates::default().caller_reads.get(), RATE;
        /// Writes and deletions per second of one caller. Needs acl.enabled.
        caller_writes_per_second: u32 = Rates::default().caller_writes.get(), RATE;
        /// Open watches. A further one takes the place of the newest of the caller with the most, or is refused.
        max_watches: usize = 10_000, AT_ONCE;
        /// Open watches of one caller: the holder of a token, or an address without one.
        caller_watches: usize = 5_000, AT_ONCE;
        /// Watches that receive their first snapshot at the same time; further ones wait. Each takes about 1 MiB of
        /// memory. Callers take turns, and one gets at most half: the holder of a token, or an address without one.
        concurrent_watch_snapshots: usize = 32, AT_ONCE;
        /// Memory for the lists of all clients, from reading until sending. Further lists wait. Callers take turns, and
        /// one caller gets at most half, but a single list may take all.
        list_bytes: Size = Size(256 << 20), Range::bytes(64 * KIB, TIB);
        /// Lists and watches waiting for memory or for their snapshot. Further ones are refused.
        max_queued_lists: usize = 20_000, AT_ONCE;
        /// Resources or index entries that one search examines. Larger searches are refused.
        search_resources: usize = 2_000_000, Range::new(1_000, 1_000_000_000);
        /// Memory for the indexes of declared fields. A type whose indexes do not fit is searched without them.
        index_bytes: Size = Size(256 << 20), Range::bytes(64 * KIB, TIB);
        /// Time for one search. Slower searches are refused.
        search_ms: Millis = Millis(60_000), WAIT;
        /// Time from the first pass of a cascading deletion to the second, which finds children written meanwhile.
        cascade_second_pass_ms: Millis = Millis(30_000), WAIT;
        /// Time after which an owner reference of `meta` is dropped if its owner is missing, or does not refer to the
        /// resource as it must; the resource stays.
        owner_grace_ms: Millis = Millis(300_000), WAIT;
    }
}

section! {
    /// Limits of one tenancy: a namespace, the resources of a partition outside namespaces, or the cluster. Writes that
    /// add to a full tenancy are refused with ResourceExhausted; deletions still work.
    struct Quotas in "quotas" {
        /// Resources of one type in one tenancy.
        resources: u64 = mortise_store::Quotas::default().resources, Range::new(1, 1_000_000_000);
        /// Size of all resources in one tenancy, as stored.
        bytes: Size = Size(mortise_store::Quotas::default().bytes), Range::bytes(64 * KIB, TIB);
    }
}

section! {
    /// The gRPC port.
    struct Grpc in "grpc" {
        /// Open connections; one address has at most seven eighths of them. A further one takes the place of one
        /// without calls, which gets GOAWAY, or of one of the address with the most, which ends with its calls, or is
        /// closed. A new connection has http.request_timeout_ms to send its first bytes.
        max_connections: usize = 4_096, AT_ONCE;
        /// Calls in progress of one caller, watches and other streams included: of the holder of a token over all its
        /// connections, or of an address without one.
        caller_streams: usize = 10_000, AT_ONCE;
        /// Silence on a connection after which the server sends a ping of HTTP/2. Clients that disappeared while
        /// watching are found this way: without an answer in 20 seconds, the connection is closed.
        keep_alive_ms: Millis = Millis(60_000), NETWORK_TIME;
        /// Memory for incoming messages. A message without space is refused. Messages of at most 4 KiB have the same
        /// amount again. A message has http.request_timeout_ms to arrive.
        inbound_buffer_bytes: Size = Size(256 << 20), Range::bytes(64 * KIB, TIB);
        /// Memory for large answers waiting for their clients. When it is full, the answers whose clients took no bytes
        /// for longest are ended. Lists count against service.list_bytes instead. http.stall_timeout_ms applies.
        outbound_buffer_bytes: Size = Size(256 << 20), Range::bytes(64 * KIB, TIB);
        /// Time for the upload of a plugin.
        upload_timeout_ms: Millis = Millis(120_000), NETWORK_TIME;
    }
}

section! {
    /// The HTTP port.
    struct Http in "http" {
        /// Whether the port has the resource API and its description, besides health and metrics.
        api: bool = HttpOptions::default().api;
        /// Names that requests may use for the server besides localhost and its own address, without scheme and port.
        /// Requests for other hosts are refused: a web page could have invented the name (DNS rebinding).
        allowed_hosts: Vec<String> = Vec::new();
        /// Origins of pages that may use the API in browsers, with the rights of their tokens: `https://a.example.org`.
        allowed_origins: Vec<String> = Vec::new();
        /// Open connections; one address has at most seven eighths of them. A further one takes the place of one
        /// without a request, or of one of the address with the most, which ends within its answer, or is answered 503,
        /// except a few requests for /healthz. An open watch takes one connection; all watches together take at most
        /// three quarters.
        max_connections: usize = HttpOptions::default().max_connections, AT_ONCE;
        /// Time for a client to send the head of a request, its body, and the next request. On the gRPC port: time for
        /// the first bytes of HTTP/2.
        request_timeout_ms: Millis = HttpOptions::default().request_timeout.into(), NETWORK_TIME;
        /// Time for which a client may take no bytes of an answer. Afterwards the connection is closed; on the gRPC
        /// port the answer is ended, watches included.
        stall_timeout_ms: Millis = HttpOptions::default().stall_timeout.into(), NETWORK_TIME;
        /// Time between the comments that an open watch sends when nothing changes.
        keep_alive_ms: Millis = HttpOptions::default().keep_alive.into(), NETWORK_TIME;
    }
}

section! {
    /// TLS 1.2 and 1.3 on both ports. `mortise tls init` makes an authority with certificates for the server and its
    /// clients. Changed files are read again within seconds; faults in them go to the log and change nothing.
    struct Tls in "tls" {
        /// The server's certificate (PEM), followed by those of its issuers. Empty: no TLS.
        cert_file: PathBuf = PathBuf::new();
        /// The key (PEM) of the server's certificate, without a password.
        key_file: PathBuf = PathBuf::new();
        /// Authorities (PEM) of client certificates. Empty: the server asks for no client certificates.
        client_ca_file: PathBuf = PathBuf::new();
        /// Need for a client certificate: "optional", or "required" for a connection.
        client_certs: ClientCerts = ClientCerts::Optional;
    }
}

section! {
    /// The authority for identities of workloads on the gRPC port: short-lived certificates for Linkerd's proxies
    /// (docs/linkerd.md). `mortise tls init --mesh DOMAIN` makes its files. Changed files are read again within seconds;
    /// faults in them go to the log and change nothing. A caller needs `identity:write` on the identity, so the authority
    /// needs acl.enabled.
    struct Identity in "identity" {
        /// Certificate of the authority (PEM), then those of its issuers up to the trust anchor. Empty: no authority.
        cert_file: PathBuf = PathBuf::new();
        /// The key (PEM, PKCS#8) of the authority's certificate, without a password.
        key_file: PathBuf = PathBuf::new();
        /// The domain of all identities: DNS names below it, and SPIFFE IDs in it.
        trust_domain: String = String::new();
        /// Validity of a certificate. Proxies get a new one after seven tenths of it.
        lifetime_s: Seconds = Seconds(24 * 60 * 60), Range::seconds(10, 31 * 24 * 60 * 60);
        /// Time before now at which certificates begin to be valid, for machines with slow clocks.
        clock_allowance_s: Seconds = Seconds(60), Range::seconds(0, 60 * 60);
    }
}

section! {
    /// The destination API on the gRPC port: endpoints of services as streams for proxies.
    struct Destination in "destination" {
        /// Whether the API is served. It needs the plugin `catalog`.
        enabled: bool = DestinationOptions::default().enabled;
        /// End of the names of services, as in name.namespace.svc.ZONE. Names without it and names with `cluster.local`
        /// work as well.
        zone: String = DestinationOptions::default().zone;
        /// Memory for the endpoints of services with streams. When it is full, streams for further services are
        /// refused.
        state_bytes: Size = Size::from(DestinationOptions::default().state_bytes), Range::bytes(64 * KIB, TIB);
    }
}

section! {
    /// The DNS port: healthy endpoints of the catalog's services as A, AAAA and SRV records below svc.ZONE, with ZONE
    /// from destination.zone (docs/dns.md).
    struct Dns in "dns" {
        /// Whether there is a DNS port. Without this setting, `mortise dev` opens it if the port is free.
        enabled: bool = false;
        /// Address of the port, over UDP and TCP. The default is loopback, since queries need no token. With port 0 the
        /// system picks a port.
        addr: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 8600));
        /// A second zone with short names: NAME.ZONE in the namespace `default`, and NAME.NAMESPACE.ZONE. Empty: none.
        short_zone: String = String::new();
        /// Zone of workloads, such as that of this server: healthy endpoints of it come first in answers. Empty: none.
        prefer_zone: String = String::new();
        /// Healthy endpoints of prefer_zone from which on an answer has them alone. 0: the others always follow.
        prefer_zone_alone_from: usize = 0, Range::new(0, 100_000);
        /// Time for which clients may keep an answer, unless the service has a dns_ttl.
        ttl_s: Seconds = Seconds(1), Range::seconds(0, 5);
        /// Queries in progress over UDP, and sixteen times as many as over TCP. Further ones are dropped over UDP, and
        /// wait over TCP.
        concurrent_queries: usize = 64, Range::new(1, 10_000);
    }
}

section! {
    /// Limits of plugins. The manifest of a plugin can lower them, but not raise them.
    struct Sandbox in "sandbox" {
        /// Instances of all plugins in use. 0: 128, or 32 with less than 1 GiB of memory.
        instances: u32 = Limits::default().instances, Range::new(0, 10_000);
        /// Work of all hooks of one request, about one unit per instruction. Ends endless loops at the same point each
        /// time.
        fuel: u64 = Limits::default().fuel, Range::new(1, i64::MAX);
        /// Processor time of all hooks of one request. A busy machine may hold them up for 10 s more, the wait for an
        /// instance included.
        deadline_ms: Millis = Millis(Limits::default().deadline_ms), TIME;
        /// Processor time of `describe`, which runs once when a plugin is loaded.
        describe_deadline_ms: Millis = Millis(Limits::default().describe_deadline_ms), TIME;
        /// Memory of one instance.
        memory_bytes: Size = Size::from(Limits::default().memory_bytes), Range::bytes(64 * KIB, 4 * GIB);
        /// Size of one answer of a plugin, or of the arguments of one host call. The description of a plugin is an
        /// answer.
        reply_bytes: Size = Size::from(Limits::default().reply_bytes), Range::bytes(64 * KIB, GIB);
        /// Requests of one plugin in progress, so that a slow plugin leaves instances to others. Further ones wait for
        /// about 10 s.
        concurrency: usize = Limits::default().concurrency, Range::new(1, 10_000);
        /// Size of a plugin's file.
        component_bytes: Size = Size::from(Limits::default().component_bytes), Range::bytes(KIB, GIB);
        /// Size of the compiled code in cache_dir. The least recently used goes first. 0: no cache.
        code_cache_bytes: Size = Size(Limits::default().code_cache_bytes), Range::bytes(0, TIB);
    }
}

section! {
    /// Limits of each call of a plugin's controllers; other limits are those of `sandbox`. The manifest of a plugin can
    /// lower the memory.
    struct Controllers in "controllers" {
        /// Instances of all controllers, warm ones included. 0: 64, or 16 with less than 1 GiB of memory. Instances of
        /// hooks are not counted here.
        instances: u32 = ReconcileLimits::default().instances, Range::new(0, 10_000);
        /// Work of one call, about one unit per instruction.
        fuel: u64 = ReconcileLimits::default().fuel, Range::new(1, i64::MAX);
        /// Processor time of one call, and its waits for host calls.
        deadline_ms: Millis = Millis(ReconcileLimits::default().deadline_ms), TIME;
        /// Memory of one instance.
        memory_bytes: Size = Size::from(ReconcileLimits::default().memory_bytes), Range::bytes(64 * KIB, 4 * GIB);
        /// Calls to the host in one call.
        host_calls: u32 = ReconcileLimits::default().host_calls, Range::new(1, u32::MAX as i64);
        /// Time for one host call, such as a write. A slower one fails with an error for the controller.
        host_call_ms: Millis = Millis(ReconcileLimits::default().host_call_ms), TIME;
    }
}

section! {
    /// Quarantine of a hook that keeps failing. Requests that need the hook are refused with Unavailable, the plugin's
    /// name and the time to wait; other hooks and plugins work as before. Faults of the host (no free instance) do not
    /// count.
    struct QuarantineRules in "quarantine" {
        /// Faults of one hook in the window that lead to quarantine, if nearly all of its calls failed, and for nearly
        /// all of its callers.
        faults: u32 = Quarantine::default().faults, Range::new(1, 10_000);
        /// Length of the window. Three faults of a hook within it put the hook on probation; its calls go on. A hook
        /// without a fault for this time leaves probation with its next good call.
        window_ms: Millis = Millis(Quarantine::default().window_ms), TIME;
        /// Types, such as "demo.v2.Artist", to write without `mutate`, with a warning, while that hook is broken.
        bypass_mutate_types: Vec<String> = Vec::new();
    }
}

section! {
    /// Logs of plugins. The last lines are kept for `mortise plugin logs`.
    struct PluginLogs in "plugin_logs" {
        /// Lines of one plugin per second. Further ones are dropped and counted.
        lines_per_second: u32 = LogSettings::default().lines_per_second, Range::new(0, 1_000_000);
        /// Kept lines of one plugin.
        kept_lines: usize = LogSettings::default().kept_lines, Range::new(0, 1_000_000);
        /// Size of the kept lines of one plugin.
        kept_bytes: Size = Size::from(LogSettings::default().kept_bytes), Range::bytes(0, GIB);
    }
}

section! {
    /// Keys and values that a plugin's controllers store for themselves. They are as durable as resources.
    struct Kv in "kv" {
        /// Keys of one plugin.
        keys: usize = Quota::default().values, Range::new(0, 10_000_000);
        /// Size of one plugin's keys and values.
        bytes: Size = Size::from(Quota::default().bytes), Range::bytes(0, TIB);
    }
}
