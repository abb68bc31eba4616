//! Every setting, once: name, default, range, and what it is for. `config.toml` is printed from here.
//!
//! Where another part of the server owns the settings of a section (`[sandbox]` are the limits of plugins), names,
//! types and defaults are that part's, and this table adds the ranges and the texts.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

use mortise_api::{ClientCerts, DestinationOptions, HttpOptions};
use mortise_audit::{Events, OnFull};
use mortise_plugin_host::{Grants, Limits, LogSettings, Quarantine, ReconcileLimits};
use mortise_plugin_manager::controllers::Quota;
use mortise_service::Rates;

use super::{
    declare::{Section, Setting, section, section_of},
    plugin::PluginConfig,
    range::Range,
    region::{PeerConfig, Rings},
};

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
const KIB: i64 = 1 << 10;
const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;
const TIB: i64 = 1 << 40;

/// A time that may be nothing, milliseconds.
const WAIT: Range = Range::new(0, DAY_MS);
/// A time that lasts, milliseconds.
const TIME: Range = Range::new(1, DAY_MS);
/// A time that the network can keep, milliseconds.
const NETWORK_TIME: Range = Range::new(10, DAY_MS);
/// What is open or under way at once.
const AT_ONCE: Range = Range::new(1, 1_000_000);
/// What is done in a second.
const RATE: Range = Range::new(1, 100_000_000);
/// What waits in a queue.
const QUEUE: Range = Range::new(1, 1 << 20);

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
    SANDBOX,
    CONTROLLERS,
    QUARANTINE,
    PLUGIN_LOGS,
    KV,
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
        shutdown_grace_ms: u64 = 10_000, WAIT;
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
        sandbox: Limits,
        controllers: ReconcileLimits,
        quarantine: Quarantine,
        plugin_logs: LogSettings,
        kv: Quota,
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
        /// How long a changed file must stay as it is before it is read, so that one that is being written is not.
        settle_ms: u64 = 50, WAIT;
        /// How long the rest of a file that is not whole is waited for before that is an error.
        unfinished_ms: u64 = 5_000, WAIT;
        /// How often the folder is looked at unasked: not every file system tells of changes.
        rescan_ms: u64 = 2_000, TIME;
        /// How long the calls in a replaced version are waited for before that is said in the log.
        drain_ms: u64 = 30_000, WAIT;
        /// Public keys of minisign: the line that is the key, or a file (docs/security.md). `mortise plugin keygen` makes one.
        /// They are read at the start.
        trusted_keys: Vec<String> = Vec::new();
        /// Whether every component needs a signature by one of these keys, however it comes, but for those inside the binary.
        require_signed: bool = false;
        /// Whether every file of the folder is loaded. If not, it takes a signature by one of trusted_keys, a place in
        /// `pinned`, or to have served before, as what was installed has. `mortise dev` trusts the folder unless this is set
        /// somewhere.
        trust_folder: bool = false;
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
        max_backoff_ms: u64 = 30_000, TIME;
        /// How long a peer may be silent before it is asked, with HTTP/2's ping, whether it is still there, and how long
        /// its answer may take.
        keep_alive_ms: u64 = 10_000, NETWORK_TIME;
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
        file_bytes: u64 = 16 << 20, Range::new(64 * KIB, TIB);
        /// How many files are kept, the one that is written included; the oldest go.
        files: usize = 8, Range::new(1, 10_000);
        /// How many records may wait to be written.
        queue: usize = 4_096, QUEUE;
        /// What happens where more would: "wait", and refuse what would change something after wait_ms, or "drop" records,
        /// which are counted and said.
        when_full: OnFull = OnFull::Wait;
        /// How long a call waits until its record may be given.
        wait_ms: u64 = 5_000, WAIT;
        /// How long a record may be in the file before it is on the disk.
        sync_ms: u64 = 1_000, TIME;
    }
}

section! {
    /// The resource API, on both ports.
    struct Service in "service" {
        /// Largest request; Consul's own limit.
        max_request_bytes: usize = 50 << 20, Range::new(KIB, GIB);
        /// Calls of one connection at once.
        max_streams: u32 = 2_048, AT_ONCE;
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
        max_snapshots: usize = 32, AT_ONCE;
        /// How many bytes the lists of all clients together take while they are read and until they are sent. Further
        /// ones wait; clients get room by turns, and none more than half, but for a single list, which may take all.
        list_bytes: usize = 256 << 20, Range::new(64 * KIB, TIB);
        /// Lists and watches that may wait so; one more is refused.
        max_waiting: usize = 20_000, AT_ONCE;
        /// Resources that one search looks at, or entries of an index; one that would look at more is refused.
        search_resources: usize = 2_000_000, Range::new(1_000, 1_000_000_000);
        /// Bytes of the indexes of fields that types declare, together. Queries of a type whose indexes do not fit are answered
        /// without them.
        index_bytes: usize = 256 << 20, Range::new(64 * KIB, TIB);
        /// How long one search may take; one that takes longer is refused.
        search_ms: u64 = 60_000, WAIT;
        /// How long after the first pass cascading deletion looks for children that were being written meanwhile.
        second_pass_ms: u64 = 30_000, WAIT;
        /// How long an owner reference of `meta` may be to nothing, or to an owner that does not refer to the resource as it has
        /// to, before it is dropped; a resource that loses its last one is deleted.
        owner_grace_ms: u64 = 300_000, WAIT;
    }
}

section! {
    /// How much a tenancy may hold: a namespace, what a partition has besides namespaces, or the cluster. What would add to
    /// one that is full is refused with ResourceExhausted; deletions go on.
    struct Quotas in "quotas" {
        /// Resources of one type in one tenancy.
        resources: u64 = mortise_store::Quotas::default().resources, Range::new(1, 1_000_000_000);
        /// All resources in one tenancy, as they are stored.
        bytes: u64 = mortise_store::Quotas::default().bytes, Range::new(64 * KIB, TIB);
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
        keep_alive_ms: u64 = 60_000, NETWORK_TIME;
        /// How long the answer to that may take before the connection is closed.
        keep_alive_timeout_ms: u64 = 20_000, NETWORK_TIME;
        /// How many bytes the messages of requests may take while they arrive; what does not fit is refused. Messages of
        /// at most 4 KiB have as much room again. A message has http.request_timeout_ms to arrive.
        request_bytes: usize = 256 << 20, Range::new(64 * KIB, TIB);
        /// How many bytes of large answers may wait for their clients; over that, those are ended of which nothing was
        /// taken for longest. Lists count against service.list_bytes instead. An answer of which nothing is taken for
        /// http.stall_timeout_ms is ended, too.
        answer_bytes: usize = 256 << 20, Range::new(64 * KIB, TIB);
        /// How long the upload of a plugin may take.
        upload_timeout_ms: u64 = 120_000, NETWORK_TIME;
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
        request_timeout_ms: u64 = ms(HttpOptions::default().request_timeout), NETWORK_TIME;
        /// How long a client may take nothing of an answer before its connection is closed; on the gRPC port, before
        /// the answer is ended, watches included.
        stall_timeout_ms: u64 = ms(HttpOptions::default().stall_timeout), NETWORK_TIME;
        /// How often an open watch sends a comment when nothing happens.
        keep_alive_ms: u64 = ms(HttpOptions::default().keep_alive), NETWORK_TIME;
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
        /// How long a handshake may take. A connection has its place among max_connections from before it on.
        handshake_ms: u64 = 10_000, NETWORK_TIME;
        /// How often the files are looked at. What has changed is read once it has stayed as it is for so long.
        rescan_ms: u64 = 2_000, TIME;
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
        /// How often a stream says something when nothing changes.
        heartbeat_ms: u64 = ms(DestinationOptions::default().heartbeat), NETWORK_TIME;
        /// Streams at once; one more is refused.
        max_streams: usize = DestinationOptions::default().max_streams, AT_ONCE;
        /// Services that streams are about at once; streams for one more are refused. Each takes one of
        /// service.max_watches.
        max_services: usize = DestinationOptions::default().max_services, AT_ONCE;
        /// How many bytes the endpoints of these services may take. Over that, streams are refused for what no other
        /// stream is about.
        state_bytes: usize = DestinationOptions::default().state_bytes, Range::new(64 * KIB, TIB);
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
        ttl_s: u32 = 1, Range::new(0, 5);
        /// How many queries are answered at once; further ones over UDP are dropped, over TCP they wait.
        queries: usize = 64, Range::new(1, 10_000);
        /// How many connections may be open at once; further ones are closed.
        max_connections: usize = 128, AT_ONCE;
        /// How long a connection may be silent, or take nothing of an answer, before it is closed.
        idle_ms: u64 = 10_000, NETWORK_TIME;
    }
}

section! {
    /// The store.
    struct Store in "store" {
        /// How much of the data file is kept in memory; 0 asks the machine: a sixteenth of its memory, 32 MiB to 1 GiB.
        /// What was written last takes memory besides, until it is copied to that file: half as much, at most 16 MiB,
        /// and up to four times that under a load that the disk cannot follow.
        cache_bytes: u64 = 0, Range::new(64 * KIB, TIB).or_zero();
        /// Largest resource. The host keeps resources of its own, one for each plugin.
        max_resource_bytes: usize = mortise_store::Options::new("").max_resource_bytes, Range::new(1_000, GIB);
        /// How many events are kept on disk, so that a watch can be resumed.
        history_events: u64 = mortise_store::Options::new("").history_events, Range::new(0, 100_000_000);
        /// How much room these events may take.
        history_bytes: u64 = mortise_store::Options::new("").history_bytes, Range::new(0, TIB);
        /// How many events of its type a watch may be behind before it is ended, with Aborted.
        watch_buffer: usize = mortise_store::Options::new("").watch_buffer, QUEUE;
        /// How many bytes of these events a watch may be behind before it is ended. All watches of a type share them.
        watch_buffer_bytes: usize = mortise_store::Options::new("").watch_buffer_bytes, Range::new(KIB, TIB);
        /// How many bytes of events may wait for watches of all types together. Where there are more, those of the type
        /// with the most go first, and the watches that have not taken them are ended. As many may lists and beginning
        /// watches remember of what is overwritten in front of them; the one with the most is ended, with Aborted.
        watch_bytes: usize = mortise_store::Options::new("").watch_bytes, Range::new(KIB, TIB);
        /// How many writes may wait for the disk; further ones wait for a place.
        commit_queue: usize = mortise_store::Options::new("").commit_queue, QUEUE;
        /// How much of the disk is taken ahead, and half as much again for the log. When the disk has no more to give,
        /// writes are refused with ResourceExhausted; deletions go on with what was taken.
        reserve_bytes: u64 = mortise_store::Options::new("").reserve_bytes, Range::new(8 * MIB, GIB);
        /// How many resources, owner entries and events are compared with their sums each second, in the background; 0
        /// for none. What does not agree takes readiness away, and `mortise status` says what it is.
        scrub_per_second: u64 = mortise_store::Options::new("").scrub_per_second, Range::new(0, 1_000_000);
        /// Whether all of them are at each start, and not only after a crash or when the store is small: about a second
        /// for each million.
        compare_at_start: bool = false;
    }
}

section_of! {
    /// What a plugin may use. A plugin's manifest can ask for less, never for more.
    const SANDBOX in "sandbox" {
        /// Instances of all plugins at once; 0 asks the machine: 128, or 32 with less than 1 GiB of memory.
        instances, Range::new(0, 10_000);
        /// Work of all hooks of one request, about one unit for each instruction: ends runaway loops,
        /// deterministically.
        fuel, Range::new(1, i64::MAX);
        /// Wall clock of all hooks of one request, waiting for an instance included.
        deadline_ms, TIME;
        /// Wall clock of describe, once when a plugin is loaded.
        describe_deadline_ms, TIME;
        /// Memory of one instance.
        memory_bytes, Range::new(64 * KIB, 4 * GIB);
        /// Elements of one table.
        table_elements, Range::new(1, 10_000_000);
        /// Core modules in one component, adapters included.
        core_instances, Range::new(1, 1_000);
        /// Tables in one component.
        tables, Range::new(1, 1_000);
        /// Memories in one component.
        memories, Range::new(1, 100);
        /// Live handles to host resources in one instance.
        handles, Range::new(1, 1_000_000);
        /// What a plugin may hand to the host in one answer or host call. Plugins describe themselves in an answer.
        reply_bytes, Range::new(64 * KIB, GIB);
        /// Calls into the host in one request.
        host_calls, Range::new(1, u32::MAX as i64);
        /// Log text of one request; the rest is dropped, counted and said.
        log_bytes, Range::new(0, 64 * MIB);
        /// Requests of one plugin at once, so that a slow one leaves room for others; further ones wait within their
        /// deadline.
        concurrency, Range::new(1, 10_000);
        /// How long a plugin's calls run on threads of low priority after one that faulted or took more than a
        /// millisecond or two of processor time; 0 leaves them among the others.
        low_priority_ms, WAIT;
        /// Size of a plugin's file.
        component_bytes, Range::new(KIB, GIB);
        /// Settings of one plugin, as JSON; no settings at all are two bytes.
        settings_bytes, Range::new(2, 64 * MIB);
        /// Decisions of authorize hooks remembered for each plugin; 0 asks the plugin every time.
        remembered_decisions, Range::new(0, 1_000_000);
        /// Cores that compile a plugin at once, so that the others go on serving; 0 asks the machine: half of them.
        compile_threads, Range::new(0, 256);
        /// Compiled code of all plugins that is kept in cache_dir; what was used least lately goes first, and 0 keeps
        /// nothing.
        code_cache_bytes, Range::new(0, TIB);
    }
}

section_of! {
    /// What a plugin's controllers may use, each time they are called. Limits that are not here are those of [sandbox];
    /// a plugin's manifest can ask for less memory.
    const CONTROLLERS in "controllers" {
        /// Instances of all controllers at once, those included that are kept warm; 0 asks the machine: 64, or 16 with
        /// less than 1 GiB of memory. Hooks have others.
        instances, Range::new(0, 10_000);
        /// Work of one call, about one unit for each instruction.
        fuel, Range::new(1, i64::MAX);
        /// Wall clock of one call, the host calls in it included.
        deadline_ms, TIME;
        /// Memory of one instance.
        memory_bytes, Range::new(64 * KIB, 4 * GIB);
        /// Calls into the host in one call.
        host_calls, Range::new(1, u32::MAX as i64);
        /// Wall clock of one host call, such as a write; one that takes longer fails, and the controller hears of it.
        host_call_ms, TIME;
        /// Room for the files of a granted directory, all of them; a write beyond it is refused. A grant may have a
        /// number of its own: `directories.NAME.bytes`.
        directory_bytes, Range::new(1, 1 << 50);
        /// Files that a granted directory may have for one more to be written.
        directory_files, Range::new(1, 1 << 20);
    }
}

section_of! {
    /// When a hook that keeps failing is left alone. Requests that need it are refused meanwhile, with Unavailable, the
    /// plugin's name and the time to wait; other hooks and other plugins go on. What the host did (no free instance)
    /// does not count.
    const QUARANTINE in "quarantine" {
        /// Faults of one hook within the window that quarantine it.
        faults, Range::new(1, 10_000);
        /// Faults within the window that put a hook on probation, which is shown; and those forgiven after quarantine.
        /// An unset one is lowered to `faults`, and no set one may be above it.
        probation_faults, Range::new(1, 10_000);
        /// The share of the calls since the first of these faults that must have been faults for a quarantine, percent.
        /// Faults of one input count once. The callers that had faults must be such a share, too, of those that called:
        /// one caller's input does not close a hook that serves others.
        share_percent, Range::new(1, 100);
        /// The window; a hook without a fault for so long leaves probation with the next good call.
        window_ms, TIME;
        /// How long a hook is left alone before one call tries it again; doubled by each trial that fails. An unset one
        /// is lowered to `max_backoff_ms`, and no set one may be above it.
        backoff_ms, TIME;
        /// The longest wait between trials.
        max_backoff_ms, TIME;
        /// Types such as "demo.v2.Artist" that are written without `mutate`, with a warning, while it is broken; none
        /// by default.
        skip_mutate;
    }
}

section_of! {
    /// What a plugin may log. Its last lines are kept, so that they can be asked for.
    const PLUGIN_LOGS in "plugin_logs" {
        /// Lines of one plugin in a second; the rest is dropped, counted and said.
        lines_per_second, Range::new(0, 1_000_000);
        /// Bytes of one plugin in a second.
        bytes_per_second, Range::new(0, GIB);
        /// Lines of one plugin that are kept.
        kept_lines, Range::new(0, 1_000_000);
        /// Room for these lines.
        kept_bytes, Range::new(0, GIB);
        /// Lines that a client who follows the logs may be behind before the oldest are lost, which is said.
        follow_lines, QUEUE;
    }
}

section_of! {
    /// What the reconcilers of one plugin may remember under keys of their own, as durable as resources.
    const KV in "kv" {
        /// Keys of one plugin.
        values, Range::new(0, 10_000_000);
        /// One plugin's keys and values together.
        bytes, Range::new(0, TIB);
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

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
