//! Every setting, once: name, default, range, and what it is for. `config.toml` is printed from here.
//!
//! Where another part of the server has options with defaults (`[sandbox]` fills the limits of plugins), the defaults
//! come from that part.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf};

use mortise_api::{ClientCerts, DestinationOptions, HttpOptions};
use mortise_audit::{Events, WhenFull};
use mortise_plugin_host::{
    Grants, Limits, LogSettings, Quarantine, ReconcileLimits,
    units::{Millis, Seconds, Size},
};
use mortise_plugin_manager::controllers::Quota;
use mortise_service::Rates;

use super::{
    declare::{Section, Setting, section},
    plugin::PluginConfig,
    range::Range,
    region::{PeerConfig, Rings},
    test_limits::TestLimits,
};

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
const KIB: i64 = 1 << 10;
const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;
const TIB: i64 = 1 << 40;

/// A time that may be zero.
const WAIT: Range = Range::milliseconds(0, DAY_MS);
/// A time above zero.
const TIME: Range = Range::milliseconds(1, DAY_MS);
/// A time between messages on the network.
const NETWORK_TIME: Range = Range::milliseconds(10, DAY_MS);
/// What is open or under way at once.
const AT_ONCE: Range = Range::new(1, 1_000_000);
/// What is done in a second.
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
    Region::SECTION,
    Destination::SECTION,
    Dns::SECTION,
    Store::SECTION,
    Sandbox::SECTION,
    Controllers::SECTION,
    QuarantineRules::SECTION,
    PluginLogs::SECTION,
    Kv::SECTION,
];

section! {
    struct Config in "" {
        /// Where gRPC listens. Beyond loopback it takes TLS and tokens; port 0 lets the system pick.
        grpc_addr: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 8502));
        /// Where HTTP listens: the resource API as JSON, its description, /healthz, /readyz and /metrics. As above.
        http_addr: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 8500));
        /// Where resources are stored. `mortise dev` uses a temporary directory unless this is set somewhere.
        data_dir: PathBuf = "data".into();
        /// Every *.wasm in this folder is loaded as a plugin, and anew when it changes. The folder may appear later.
        /// `mortise dev` has one in data_dir unless this is set somewhere.
        plugin_dir: PathBuf = "plugins".into();
        /// Compiled plugins, so that a start need not compile. Empty: `cache` in data_dir, or the user's cache in dev
        /// mode.
        cache_dir: PathBuf = PathBuf::new();
        /// The unix socket on which gRPC knows this machine's users (docs/security.md); a relative path is within data_dir,
        /// and an empty one means none.
        socket: PathBuf = "mortise.sock".into();
        /// The unix socket to which Terraform and OpenTofu attach (docs/terraform.md), for the server's own user alone; it
        /// reaches the server through `socket`. As above.
        provider_socket: PathBuf = "provider.sock".into();
        /// Whether `mortise serve` may listen beyond loopback without TLS or without tokens.
        allow_insecure: bool = false;
        /// How long calls in flight may take to finish after SIGTERM or SIGINT.
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
        region: Region,
        destination: Destination,
        dns: Dns,
        store: Store,
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
    /// Logs go to stderr.
    struct Log in "log" {
        /// error, warn, info, debug, trace, or a filter such as "info,plugin=debug", where each target has its level;
        /// plugins log under the target `plugin`.
        level: String = "info".into();
        /// Says for each request and each hook how long it took, with the plugin, its version and its fuel; costs some
        /// speed.
        spans: bool = false;
    }
}

section! {
    /// Which plugins are loaded besides those in the folder, and how the folder is looked after.
    struct Plugins in "plugins" {
        /// Plugins inside the binary to switch on: "catalog" and "demo", which `mortise dev` switches on by itself, and
        /// "routes".
        bundled: Vec<String> = Vec::new();
        /// Public keys of minisign: the line that is the key, or a file (docs/security.md). `mortise plugin keygen` makes one.
        /// They are read at the start.
        trusted_keys: Vec<String> = Vec::new();
        /// Whether every component needs a signature by one of these keys, however it comes, but for those inside the binary.
        require_signed: bool = false;
        /// Whether every file of the folder is loaded. If not, it takes a signature by one of trusted_keys, a place in
        /// `pinned`, or to have served before, as what was installed has. `mortise dev` trusts the folder unless this is set
        /// somewhere.
        load_unsigned: bool = false;
        /// SHA-256, in hexadecimal, of components that are loaded from the folder without a signature.
        pinned: Vec<String> = Vec::new();
        /// Identities of age, as age-keygen writes them, with which encrypted files of granted secrets are decrypted
        /// (docs/security.md). Only its owner may read it, and it is not within data_dir. Read at the start. Empty: none.
        age_identity_file: PathBuf = PathBuf::new();
    }
}

section! {
    /// The region of this server (docs/regions.md). Each peer, whose resources are copied to here, has a table of its own,
    /// [region.peers.NAME], at the end of this file.
    struct Region in "region" {
        /// Its name, such as "eu-1". Empty: it is in none, and policies of regions mean nothing to it.
        name: String = String::new();
        /// The longest wait before a peer that does not answer is tried again.
        max_backoff_ms: Millis = Millis(30_000), TIME;
        /// How long a peer may be silent before it is asked, with HTTP/2's ping, whether it is still there, and how long
        /// its answer may take.
        keep_alive_ms: Millis = Millis(10_000), NETWORK_TIME;
    } with {
        /// Regions that copies are pulled from, by name.
        peers: BTreeMap<String, PeerConfig>,
    }
}

section! {
    /// Who may do what: tokens and policies (docs/security.md). A client certificate's policies are in a table of their own,
    /// [acl.certificates], by a name in the certificate: laptop = ["blue-team"].
    struct Acl in "acl" {
        /// Whether callers need a token, or another way to be known. `mortise dev` does without, unless this is set
        /// somewhere. The first start with it makes a token that may do everything, in data_dir/bootstrap-token.
        enabled: bool = true;
        /// Policies of callers without a token.
        anonymous_policies: Vec<String> = Vec::new();
        /// Policies of everyone who asks the DNS port, which has no tokens.
        dns_policies: Vec<String> = Vec::new();
    } with {
        /// Policies of client certificates, by a name in the certificate.
        certificates: BTreeMap<String, Vec<String>>,
    }
}

section! {
    /// The record of who did what: a line of JSON for each (docs/security.md).
    struct Audit in "audit" {
        /// What is recorded: "none", "changes" (with everything that was refused for want of a permission), or "all".
        /// `mortise dev` records nothing, unless this is set somewhere.
        events: Events = Events::Changes;
        /// Where the files are; empty for `audit` in data_dir.
        dir: PathBuf = PathBuf::new();
        /// Size at which a file is put aside.
        file_bytes: Size = Size(16 << 20), Range::bytes(64 * KIB, TIB);
        /// How many files are kept, the one that is written included; the oldest go.
        files: usize = 8, Range::new(1, 10_000);
        /// What happens where more would: "wait", and refuse what would change something after wait_ms, or "drop" records,
        /// which are counted and said.
        on_full: WhenFull = WhenFull::Wait;
    }
}

section! {
    /// The resource API, on both ports.
    struct Service in "service" {
        /// Largest request; Consul's own limit.
        max_request_bytes: Size = Size(50 << 20), Range::bytes(KIB, GIB);
        /// Rings of which each resource that is written gets a shard, `meta.shards.byNameMod<N>` (docs/query.md), such as
        /// [16, 32]; at most 8, of 1 to 65,536.
        shard_rings: Rings = Rings::default();
        /// Reads a second, opening watches among them; further ones are refused, with the time to wait.
        reads_per_second: u32 = Rates::default().reads.get(), RATE;
        /// Writes and deletions a second.
        writes_per_second: u32 = Rates::default().writes.get(), RATE;
        /// Reads a second of one caller, where callers have tokens.
        caller_reads_per_second: u32 = Rates::default().caller_reads.get(), RATE;
        /// Writes and deletions a second of one caller.
        caller_writes_per_second: u32 = Rates::default().caller_writes.get(), RATE;
        /// Watches open at once.
        max_watches: usize = 10_000, AT_ONCE;
        /// Watches of one caller open at once, where callers have tokens.
        caller_watches: usize = 5_000, AT_ONCE;
        /// Watches at once that are still told what is there; the others wait for a place. Each holds about a MiB of
        /// it. Clients get places by turns, and none more than half of them.
        concurrent_watch_snapshots: usize = 32, AT_ONCE;
        /// How many bytes the lists of all clients together take while they are read and until they are sent. Further
        /// ones wait; clients get room by turns, and none more than half, but for a single list, which may take all.
        list_bytes: Size = Size(256 << 20), Range::bytes(64 * KIB, TIB);
        /// Lists and watches that may wait so; one more is refused.
        max_queued_lists: usize = 20_000, AT_ONCE;
        /// Resources that one search looks at, or entries of an index; one that would look at more is refused.
        search_resources: usize = 2_000_000, Range::new(1_000, 1_000_000_000);
        /// Bytes of the indexes of fields that types declare, together. Queries of a type whose indexes do not fit are answered
        /// without them.
        index_bytes: Size = Size(256 << 20), Range::bytes(64 * KIB, TIB);
        /// How long one search may take; one that takes longer is refused.
        search_ms: Millis = Millis(60_000), WAIT;
        /// How long after the first pass cascading deletion looks for children that were being written meanwhile.
        cascade_second_pass_ms: Millis = Millis(30_000), WAIT;
        /// How long an owner reference of `meta` may be to nothing, or to an owner that does not refer to the resource as it has
        /// to, before it is dropped; a resource that loses its last one is deleted.
        owner_grace_ms: Millis = Millis(300_000), WAIT;
    }
}

section! {
    /// How much a tenancy may hold: a namespace, what a partition has besides namespaces, or the cluster. What would add to
    /// one that is full is refused with ResourceExhausted; deletions go on.
    struct Quotas in "quotas" {
        /// Resources of one type in one tenancy.
        resources: u64 = mortise_store::Quotas::default().resources, Range::new(1, 1_000_000_000);
        /// All resources in one tenancy, as they are stored.
        bytes: Size = Size(mortise_store::Quotas::default().bytes), Range::bytes(64 * KIB, TIB);
    }
}

section! {
    /// The gRPC port.
    struct Grpc in "grpc" {
        /// Connections at once; further ones are closed. One whose client sends nothing at first has
        /// http.request_timeout_ms.
        max_connections: usize = 4_096, AT_ONCE;
        /// Calls of one caller at once, watches and other streams included, over all its connections; where callers have
        /// tokens.
        caller_streams: usize = 10_000, AT_ONCE;
        /// How long a connection may be silent before its client is asked, with HTTP/2's ping, whether it is still
        /// there. So clients that vanished while watching are found out.
        keep_alive_ms: Millis = Millis(60_000), NETWORK_TIME;
        /// How many bytes the messages of requests may take while they arrive; what does not fit is refused. Messages of
        /// at most 4 KiB have as much room again. A message has http.request_timeout_ms to arrive.
        inbound_buffer_bytes: Size = Size(256 << 20), Range::bytes(64 * KIB, TIB);
        /// How many bytes of large answers may wait for their clients; over that, those are ended of which nothing was
        /// taken for longest. Lists count against service.list_bytes instead. An answer of which nothing is taken for
        /// http.stall_timeout_ms is ended, too.
        outbound_buffer_bytes: Size = Size(256 << 20), Range::bytes(64 * KIB, TIB);
        /// How long the upload of a plugin may take.
        upload_timeout_ms: Millis = Millis(120_000), NETWORK_TIME;
    }
}

section! {
    /// The HTTP port.
    struct Http in "http" {
        /// Whether the resource API and its description are on the HTTP port, beside health and metrics.
        api: bool = HttpOptions::default().api;
        /// Names by which the port may be addressed, besides localhost and the address that it listens on: a request
        /// for any other host is refused, since a web page may have made that name up (DNS rebinding). Without scheme
        /// and port.
        allowed_hosts: Vec<String> = Vec::new();
        /// Connections at once; further ones are answered 503, but for a few that ask for /healthz. A watch takes one
        /// for as long as it is open, and all watches together three quarters of them.
        max_connections: usize = HttpOptions::default().max_connections, AT_ONCE;
        /// How long a client may take to send the head of a request, and again its body, or to say nothing between two.
        /// On the gRPC port: how long it may take to begin with HTTP/2 once it is connected.
        request_timeout_ms: Millis = HttpOptions::default().request_timeout.into(), NETWORK_TIME;
        /// How long a client may take nothing of an answer before its connection is closed; on the gRPC port, before
        /// the answer is ended, watches included.
        stall_timeout_ms: Millis = HttpOptions::default().stall_timeout.into(), NETWORK_TIME;
        /// How often an open watch sends a comment when nothing happens.
        keep_alive_ms: Millis = HttpOptions::default().keep_alive.into(), NETWORK_TIME;
    }
}

section! {
    /// TLS, 1.2 and 1.3, on both ports. `mortise tls init` makes an authority of one's own, with certificates for the
    /// server and its clients. The files are read again when they change; what is wrong with them then is said in the
    /// log, and changes nothing.
    struct Tls in "tls" {
        /// The server's certificate (PEM), its own before those of its issuers. Empty: no TLS.
        cert_file: PathBuf = PathBuf::new();
        /// The key (PEM) of the server's certificate, without a password.
        key_file: PathBuf = PathBuf::new();
        /// Authorities (PEM) whose certificates clients may show. Empty: clients are not asked for one.
        client_ca_file: PathBuf = PathBuf::new();
        /// Whether clients have to show a certificate: "optional", or "required", without which there is no connection.
        client_certs: ClientCerts = ClientCerts::Optional;
    }
}

section! {
    /// The destination API on the gRPC port: where services are reached, as streams for proxies.
    struct Destination in "destination" {
        /// Whether it is served. It needs the plugin `catalog`.
        enabled: bool = DestinationOptions::default().enabled;
        /// What the names of services end with, as in name.namespace.svc.ZONE. Without it, and with `cluster.local`,
        /// they are understood as well.
        zone: String = DestinationOptions::default().zone;
        /// How many bytes the endpoints of these services may take. Over that, streams are refused for what no other
        /// stream is about.
        state_bytes: Size = Size::of(DestinationOptions::default().state_bytes), Range::bytes(64 * KIB, TIB);
    }
}

section! {
    /// The DNS port: healthy endpoints of the catalog's services as A, AAAA and SRV records, below
    /// svc.ZONE, where ZONE is destination.zone (docs/dns.md).
    struct Dns in "dns" {
        /// Whether there is one. `mortise dev` switches it on unless this is set somewhere, and does without where the
        /// port is taken.
        enabled: bool = false;
        /// Where it listens, over UDP and TCP. Loopback, since everyone may ask; port 0 lets the system pick.
        addr: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 8600));
        /// How long clients may keep an answer, seconds.
        ttl_s: Seconds = Seconds(1), Range::seconds(0, 5);
        /// How many queries are answered at once; further ones over UDP are dropped, over TCP they wait.
        concurrent_queries: usize = 64, Range::new(1, 10_000);
    }
}

section! {
    /// The store.
    struct Store in "store" {
        /// How much of the data file is kept in memory; 0 asks the machine: a sixteenth of its memory, 32 MiB to 1 GiB.
        /// What was written last takes memory besides, until it is copied to that file: half as much, at most 16 MiB,
        /// and up to four times that under a load that the disk cannot follow.
        cache_bytes: Size = Size(0), Range::bytes(64 * KIB, TIB).or_zero();
        /// Largest resource. The host keeps resources of its own, one for each plugin.
        max_resource_bytes: Size = Size::of(mortise_store::Options::new("").max_resource_bytes), Range::bytes(1_000, GIB);
        /// How many events are kept on disk, so that a watch can be resumed.
        history_events: u64 = mortise_store::Options::new("").history_events, Range::new(0, 100_000_000);
        /// How much room these events may take.
        history_bytes: Size = Size(mortise_store::Options::new("").history_bytes), Range::bytes(0, TIB);
        /// How many bytes of events may wait for watches of all types together. Where there are more, those of the type
        /// with the most go first, and the watches that have not taken them are ended. As many may lists and beginning
        /// watches remember of what is overwritten in front of them; the one with the most is ended, with Aborted.
        watch_bytes: Size = Size::of(mortise_store::Options::new("").watch_bytes), Range::bytes(KIB, TIB);
        /// How much of the disk is taken ahead, and half as much again for the log. When the disk has no more to give,
        /// writes are refused with ResourceExhausted; deletions go on with what was taken.
        reserve_bytes: Size = Size(mortise_store::Options::new("").reserve_bytes), Range::bytes(8 * MIB, GIB);
        /// How many resources, owner entries and events are compared with their sums each second, in the background; 0
        /// for none. What does not agree takes readiness away, and `mortise status` says what it is.
        scrub_per_second: u64 = mortise_store::Options::new("").scrub_per_second, Range::new(0, 1_000_000);
        /// Whether all of them are at each start, and not only after a crash or when the store is small: about a second
        /// for each million.
        compare_at_start: bool = false;
    }
}

section! {
    /// What a plugin may use. A plugin's manifest can ask for less, never for more.
    struct Sandbox in "sandbox" {
        /// Instances of all plugins at once; 0 asks the machine: 128, or 32 with less than 1 GiB of memory.
        instances: u32 = Limits::default().instances, Range::new(0, 10_000);
        /// Work of all hooks of one request, about one unit for each instruction: ends runaway loops,
        /// deterministically.
        fuel: u64 = Limits::default().fuel, Range::new(1, i64::MAX);
        /// Wall clock of all hooks of one request, waiting for an instance included.
        deadline_ms: Millis = Millis(Limits::default().deadline_ms), TIME;
        /// Wall clock of describe, once when a plugin is loaded.
        describe_deadline_ms: Millis = Millis(Limits::default().describe_deadline_ms), TIME;
        /// Memory of one instance.
        memory_bytes: Size = Size::of(Limits::default().memory_bytes), Range::bytes(64 * KIB, 4 * GIB);
        /// What a plugin may hand to the host in one answer or host call. Plugins describe themselves in an answer.
        reply_bytes: Size = Size::of(Limits::default().reply_bytes), Range::bytes(64 * KIB, GIB);
        /// Requests of one plugin at once, so that a slow one leaves room for others; further ones wait within their
        /// deadline.
        concurrency: usize = Limits::default().concurrency, Range::new(1, 10_000);
        /// Size of a plugin's file.
        component_bytes: Size = Size::of(Limits::default().component_bytes), Range::bytes(KIB, GIB);
        /// Compiled code of all plugins that is kept in cache_dir; what was used least lately goes first, and 0 keeps
        /// nothing.
        code_cache_bytes: Size = Size(Limits::default().code_cache_bytes), Range::bytes(0, TIB);
    }
}

section! {
    /// What a plugin's controllers may use, each time they are called. Limits that are not here are those of [sandbox];
    /// a plugin's manifest can ask for less memory.
    struct Controllers in "controllers" {
        /// Instances of all controllers at once, those included that are kept warm; 0 asks the machine: 64, or 16 with
        /// less than 1 GiB of memory. Hooks have others.
        instances: u32 = ReconcileLimits::default().instances, Range::new(0, 10_000);
        /// Work of one call, about one unit for each instruction.
        fuel: u64 = ReconcileLimits::default().fuel, Range::new(1, i64::MAX);
        /// Wall clock of one call, the host calls in it included.
        deadline_ms: Millis = Millis(ReconcileLimits::default().deadline_ms), TIME;
        /// Memory of one instance.
        memory_bytes: Size = Size::of(ReconcileLimits::default().memory_bytes), Range::bytes(64 * KIB, 4 * GIB);
        /// Calls into the host in one call.
        host_calls: u32 = ReconcileLimits::default().host_calls, Range::new(1, u32::MAX as i64);
        /// Wall clock of one host call, such as a write; one that takes longer fails, and the controller hears of it.
        host_call_ms: Millis = Millis(ReconcileLimits::default().host_call_ms), TIME;
    }
}

section! {
    /// When a hook that keeps failing is left alone. Requests that need it are refused meanwhile, with Unavailable, the
    /// plugin's name and the time to wait; other hooks and other plugins go on. What the host did (no free instance)
    /// does not count.
    struct QuarantineRules in "quarantine" {
        /// Faults of one hook within the window that quarantine it.
        faults: u32 = Quarantine::default().faults, Range::new(1, 10_000);
        /// The window; a hook without a fault for so long leaves probation with the next good call.
        window_ms: Millis = Millis(Quarantine::default().window_ms), TIME;
        /// Types such as "demo.v2.Artist" that are written without `mutate`, with a warning, while it is broken; none
        /// by default.
        bypass_mutate_types: Vec<String> = Vec::new();
    }
}

section! {
    /// What a plugin may log. Its last lines are kept, so that they can be asked for.
    struct PluginLogs in "plugin_logs" {
        /// Lines of one plugin in a second; the rest is dropped, counted and said.
        lines_per_second: u32 = LogSettings::default().lines_per_second, Range::new(0, 1_000_000);
        /// Lines of one plugin that are kept.
        kept_lines: usize = LogSettings::default().kept_lines, Range::new(0, 1_000_000);
        /// Room for these lines.
        kept_bytes: Size = Size::of(LogSettings::default().kept_bytes), Range::bytes(0, GIB);
    }
}

section! {
    /// What the reconcilers of one plugin may remember under keys of their own, as durable as resources.
    struct Kv in "kv" {
        /// Keys of one plugin.
        keys: usize = Quota::default().values, Range::new(0, 10_000_000);
        /// One plugin's keys and values together.
        bytes: Size = Size::of(Quota::default().bytes), Range::bytes(0, TIB);
    }
}

impl Config {
    /// All that takes effect with a restart only: everything but the settings and the grants of plugins.
    pub(crate) fn without_settings(mut self) -> Self {
        for plugin in self.plugin.values_mut() {
            plugin.settings.clear();
            plugin.grants = Grants::default();
        }
        self.plugin.retain(|_, plugin| *plugin != PluginConfig::default());
        self
    }
}
