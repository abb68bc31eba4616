//! Shared by the black-box tests: a server for each test, a client, and short forms for common steps.
//!
//! The server is the real binary, on loopback, on ports that the system picks, with its own data directory. Tests share
//! compiled plugins.

pub mod controllers;
pub mod http;
pub mod nginx;
pub mod plugins;
pub mod tokens;
pub mod transcript;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};

use mortise_api::ResourceServiceClient;
use mortise_resource::pb::{self, watch_event::Event};
use prost::Message;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};
use tonic::{
    Code, Request, Status, Streaming,
    transport::{Channel, ClientTlsConfig},
};

pub type Client = ResourceServiceClient<Channel>;

/// Time limit for expected events: generous, since machines are shared.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Settings of a server's start.
#[derive(Default)]
pub struct Setup {
    args: Vec<String>,
    env: Vec<(String, String)>,
    components: Vec<(String, Vec<u8>)>,
    data_dir: Option<PathBuf>,
    plugin_dir: Option<PathBuf>,
    address_space: Option<u64>,
    serve: bool,
    tls: Option<ClientTlsConfig>,
}

impl Setup {
    /// `mortise dev` with the demo types.
    pub fn new() -> Self {
        Self::default()
    }

    /// Loads a guest of `tests/guests`.
    pub fn guest(self, name: &str) -> Self {
        let bytes = std::fs::read(mortise_test_guests::component(name)).unwrap();
        self.component(name, bytes)
    }

    /// Puts a file into the plugin folder.
    pub fn component(mut self, name: &str, bytes: Vec<u8>) -> Self {
        self.components.push((format!("{name}.wasm"), bytes));
        self
    }

    /// Sets a configuration key by its variable, such as `MORTISE_SANDBOX_FUEL`.
    pub fn env(mut self, name: &str, value: impl ToString) -> Self {
        self.env.push((name.to_owned(), value.to_string()));
        self
    }

    /// Lets hooks fail any number of times before they are quarantined.
    pub fn tolerant(self) -> Self {
        self.env("MORTISE_QUARANTINE_FAULTS", 10_000)
    }

    /// Lets calls in flight last longer than a test waits for the end, so that a server that ends in time has not
    /// waited for them.
    pub fn long_grace(self) -> Self {
        self.env("MORTISE_SHUTDOWN_GRACE_MS", 20 * PATIENCE.as_millis())
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Uses a data directory that outlives the server.
    pub fn data_dir(mut self, dir: &Path) -> Self {
        self.data_dir = Some(dir.to_owned());
        self
    }

    /// Uses an existing plugin folder.
    pub fn plugin_dir(mut self, dir: &Path) -> Self {
        self.plugin_dir = Some(dir.to_owned());
        self
    }

    /// Uses `mortise serve`, which enables no bundled plugin by itself. Unlike the shipped settings, it trusts its
    /// folder.
    pub fn serve(self) -> Self {
        self.env("MORTISE_PLUGINS_TRUST_FOLDER", true).serve_as_shipped()
    }

    /// Uses `mortise serve` with shipped settings, which loads only trusted files from its folder.
    pub fn serve_as_shipped(mut self) -> Self {
        self.serve = true;
        self
    }

    /// Limits the address space of the server, bytes, by `prlimit`; `u64::MAX` means without a limit.
    pub fn address_space(mut self, bytes: u64) -> Self {
        self.address_space = Some(bytes).filter(|bytes| *bytes < u64::MAX);
        self
    }

    /// Makes the client use TLS.
    pub fn tls(mut self, tls: ClientTlsConfig) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Requires tokens, which servers in tests do not by default; `mortise serve` does.
    pub fn acl(self) -> Self {
        self.env("MORTISE_ACL_ENABLED", true)
    }

    /// Starts the server and waits until it is ready.
    pub async fn start(self) -> Server {
        let dir = tempfile::tempdir().unwrap();
        let plugin_dir = self.plugin_dir.unwrap_or_else(|| dir.path().join("plugins"));
        std::fs::create_dir_all(&plugin_dir).unwrap();
        for (name, bytes) in &self.components {
            std::fs::write(plugin_dir.join(name), bytes).unwrap();
        }
        let data_dir = self.data_dir.unwrap_or_else(|| dir.path().join("data"));
        let mut command = match self.address_space {
            None => Command::new(env!("CARGO_BIN_EXE_mortise")),
            Some(bytes) => {
                let mut command = Command::new("prlimit");
                command.arg(format!("--as={bytes}")).arg(env!("CARGO_BIN_EXE_mortise"));
                command
            }
        };
        command
            .arg(if self.serve { "serve" } else { "dev" })
            .args(["--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"])
            .arg("--data-dir")
            .arg(&data_dir)
            .arg("--plugin-dir")
            .arg(&plugin_dir)
            .args(&self.args)
            .env("MORTISE_CACHE_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("mortise-cache"))
            .env("MORTISE_DNS_ADDR", "127.0.0.1:0")
            .env("MORTISE_ACL_ENABLED", "false")
            // Tests share the processors, so a test that sets no deadlines must not depend on them.
            .env("MORTISE_SANDBOX_DEADLINE_MS", "20000")
            .env("MORTISE_SANDBOX_DESCRIBE_DEADLINE_MS", "20000")
            .envs(self.env)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();

        let log = Arc::new(Mutex::new(String::new()));
        let sink = log.clone();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let logging = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let mut log = sink.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = async {
            while let Some(line) = out.next_line().await.unwrap() {
                if line.starts_with("mortise ready:") {
                    return line;
                }
            }
            panic!("the server ended: {}", log.lock().unwrap());
        };
        let line = timeout(PATIENCE, ready).await.expect("the server is ready in time");
        let addr = |key: &str| -> SocketAddr {
            line.split_whitespace().find_map(|word| word.strip_prefix(key)).unwrap().parse().unwrap()
        };
        let (grpc, http) = (addr("grpc="), addr("http="));
        let dns = line.contains(" dns=").then(|| addr("dns="));
        let endpoint = match self.tls {
            None => Channel::from_shared(format!("http://{grpc}")).unwrap(),
            Some(tls) => Channel::from_shared(format!("https://{grpc}")).unwrap().tls_config(tls).unwrap(),
        };
        let client = ResourceServiceClient::new(endpoint.connect().await.unwrap())
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX);
        Server { child, client, grpc, http, dns, data_dir, plugin_dir, log, logging, _dir: dir }
    }
}

/// A running server; dropping it kills it.
pub struct Server {
    pub child: Child,
    pub client: Client,
    pub grpc: SocketAddr,
    pub http: SocketAddr,
    /// Address of DNS, if it is on.
    pub dns: Option<SocketAddr>,
    pub data_dir: PathBuf,
    pub plugin_dir: PathBuf,
    log: Arc<Mutex<String>>,
    /// Task that reads the log, and ends with it.
    logging: tokio::task::JoinHandle<()>,
    _dir: TempDir,
}

impl Server {
    /// Starts `mortise dev` with only the demo types.
    pub async fn start() -> Self {
        Setup::new().start().await
    }

    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Text on stderr so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Sends SIGTERM and waits for the end.
    pub async fn stop(mut self) -> std::process::ExitStatus {
        let pid = self.child.id().unwrap();
        std::process::Command::new("kill").args(["-TERM", &pid.to_string()]).status().unwrap();
        timeout(PATIENCE, self.child.wait()).await.expect("the server stops in time").unwrap()
    }

    pub async fn write(&self, resource: pb::Resource) -> Result<pb::Resource, Status> {
        let request = pb::WriteRequest { resource: Some(resource) };
        self.client().write(request).await.map(|r| r.into_inner().resource.unwrap())
    }

    /// The response, warnings included.
    pub async fn write_full(&self, resource: pb::Resource) -> Result<pb::WriteResponse, Status> {
        self.client().write(pb::WriteRequest { resource: Some(resource) }).await.map(tonic::Response::into_inner)
    }

    pub async fn read(&self, id: &pb::Id) -> Result<pb::Resource, Status> {
        let request = pb::ReadRequest { id: Some(id.clone()) };
        self.client().read(request).await.map(|r| r.into_inner().resource.unwrap())
    }

    pub async fn delete(&self, id: &pb::Id, version: &str) -> Result<(), Status> {
        let request = pb::DeleteRequest { id: Some(id.clone()), version: version.to_owned() };
        self.client().delete(request).await.map(drop)
    }

    pub async fn list(&self, t: pb::Type, tenancy: pb::Tenancy, prefix: &str) -> Result<Vec<pb::Resource>, Status> {
        let request = pb::ListRequest { r#type: Some(t), tenancy: Some(tenancy), name_prefix: prefix.to_owned() };
        self.client().list(request).await.map(|r| r.into_inner().resources)
    }

    pub async fn list_by_owner(&self, owner: &pb::Id) -> Result<Vec<pb::Resource>, Status> {
        let request = pb::ListByOwnerRequest { owner: Some(owner.clone()) };
        self.client().list_by_owner(request).await.map(|r| r.into_inner().resources)
    }

    pub async fn write_status(&self, request: pb::WriteStatusRequest) -> Result<pb::Resource, Status> {
        self.client().write_status(request).await.map(|r| r.into_inner().resource.unwrap())
    }

    pub async fn mutate_and_validate(&self, resource: pb::Resource) -> Result<pb::MutateAndValidateResponse, Status> {
        let request = pb::MutateAndValidateRequest { resource: Some(resource) };
        self.client().mutate_and_validate(request).await.map(tonic::Response::into_inner)
    }

    pub async fn watch(&self, t: pb::Type, tenancy: Option<pb::Tenancy>, prefix: &str) -> Result<Watch, Status> {
        let request = pb::WatchListRequest { r#type: Some(t), tenancy, name_prefix: prefix.to_owned(), after: None };
        Ok(Watch(self.client().watch_list(request).await?.into_inner()))
    }
}

/// An open watch.
pub struct Watch(pub Streaming<pb::WatchEvent>);

impl Watch {
    /// The next event, or the status that ended the stream.
    pub async fn next(&mut self) -> Result<Event, Status> {
        let event = timeout(PATIENCE, self.0.message()).await.expect("an event comes in time")?;
        Ok(event.expect("a watch never ends without a status").event.expect("an event is never empty"))
    }

    /// Resources up to the end of the snapshot.
    pub async fn snapshot(&mut self) -> Vec<pb::Resource> {
        let mut all = Vec::new();
        loop {
            match self.next().await.unwrap() {
                Event::Upsert(upsert) => all.push(upsert.resource.unwrap()),
                Event::EndOfSnapshot(_) => return all,
                Event::Delete(delete) => panic!("a delete within the snapshot: {delete:?}"),
            }
        }
    }

    pub async fn upsert(&mut self) -> pb::Resource {
        match self.next().await.unwrap() {
            Event::Upsert(upsert) => upsert.resource.unwrap(),
            other => panic!("expected an upsert, got {other:?}"),
        }
    }

    pub async fn deleted(&mut self) -> pb::Resource {
        match self.next().await.unwrap() {
            Event::Delete(delete) => delete.resource.unwrap(),
            other => panic!("expected a delete, got {other:?}"),
        }
    }

    /// Writes a resource that the watch shows, and expects it as the next event: earlier writes made no other event.
    pub async fn shows_next(&mut self, server: &Server, mark: pb::Resource) {
        let mark = server.write(mark).await.unwrap();
        assert_eq!(self.upsert().await, mark, "something came before");
    }

    /// Whether no event comes for a while. `shows_next` is exact.
    pub async fn is_quiet(&mut self) -> bool {
        timeout(Duration::from_millis(300), self.0.message()).await.is_err()
    }
}

/// A type from `group.version.Kind`.
pub fn gvk(text: &str) -> pb::Type {
    let mut parts = text.split('.').map(str::to_owned);
    let mut part = || parts.next().unwrap();
    pb::Type { group: part(), group_version: part(), kind: part() }
}

/// A tenancy; the server fills in empty units.
pub fn tenancy(partition: &str, namespace: &str) -> pb::Tenancy {
    pb::Tenancy { partition: partition.into(), namespace: namespace.into() }
}

/// An id; the server fills in its tenancy.
pub fn id(t: &str, name: &str) -> pb::Id {
    pb::Id { uid: String::new(), name: name.into(), r#type: Some(gvk(t)), tenancy: None }
}

/// An id in a place.
pub fn id_in(t: &str, name: &str, partition: &str, namespace: &str) -> pb::Id {
    pb::Id { tenancy: Some(tenancy(partition, namespace)), ..id(t, name) }
}

/// A message as data of a resource.
pub fn any(message_name: &str, message: &impl Message) -> prost_types::Any {
    prost_types::Any { type_url: format!("type.googleapis.com/{message_name}"), value: message.encode_to_vec() }
}

pub fn resource(id: pb::Id, data: Option<prost_types::Any>) -> pb::Resource {
    pb::Resource { id: Some(id), data, ..pb::Resource::default() }
}

/// A `demo.v2.Artist` with a valid name, in `default`.
pub fn artist(name: &str) -> pb::Resource {
    let data =
        demo::v2::Artist { name: format!("The {name}"), genre: demo::v2::Genre::Jazz.into(), ..Default::default() };
    resource(id("demo.v2.Artist", name), Some(any("hashicorp.consul.internal.demo.v2.Artist", &data)))
}

/// A `demo.v2.Album`, owned by a resource if one is given.
pub fn album(name: &str, owner: Option<&pb::Id>) -> pb::Resource {
    let data = demo::v2::Album { title: name.into(), tracks: vec!["one".into()], ..Default::default() };
    let mut album = resource(id("demo.v2.Album", name), Some(any("hashicorp.consul.internal.demo.v2.Album", &data)));
    album.owner = owner.cloned();
    album
}

/// A resource without data: `demo.v1.Concept`.
pub fn concept(name: &str) -> pb::Resource {
    resource(id("demo.v1.Concept", name), None)
}

/// A `Thing` of a guest in `tests/guests`.
pub fn thing(group: &str, name: &str, thing: &mortise_test_guests::Thing) -> pb::Resource {
    resource(id(&format!("{group}.v1.Thing"), name), Some(any("mortise.test.v1.Thing", thing)))
}

/// The messages of the demo plugin.
pub mod demo {
    pub use mortise_plugin_demo::proto::hashicorp::consul::internal::demo::{v1, v2};
}

/// A request with a metadata key.
pub fn with_metadata<T>(message: T, key: &'static str, value: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert(key, value.parse().unwrap());
    request
}

/// Code and message of the expected error.
#[track_caller]
pub fn refusal<T: std::fmt::Debug>(result: Result<T, Status>) -> (Code, String) {
    let status = result.expect_err("a refusal");
    (status.code(), status.message().to_owned())
}

/// Metadata from pairs.
pub fn metadata(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

/// The inner text of the name rule.
pub fn name_rule(value: &str) -> String {
    format!(
        "a resource name must consist of lower case alphanumeric characters or '-', must start and end with an \
         alphanumeric character and be less than 64 characters, got: {value:?}"
    )
}

/// Reports that a test could not run, on the real stderr: output of passing tests is hidden, and CI's summary shows
/// these lines.
pub fn skipped(why: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "\nSKIPPED: {why}");
}

/// Polls until `look` succeeds. A failing look returns the state that it saw; the last one is shown after `PATIENCE`.
pub async fn until<T, S: std::fmt::Debug>(what: &str, mut look: impl AsyncFnMut() -> Result<T, S>) -> T {
    let mut last = None;
    let looks = async {
        loop {
            match look().await {
                Ok(found) => return found,
                Err(seen) => last = Some(seen),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    match timeout(PATIENCE, looks).await {
        Ok(found) => found,
        Err(_) => panic!("not in time: {what}; last seen: {last:?}"),
    }
}

/// Polls until the condition holds, or panics after `PATIENCE`.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    until(what, async || if holds().await { Ok(()) } else { Err("it does not hold") }).await;
}

/// Reads until the server closes the connection; returns the text, and the result of the last read.
pub async fn until_closed(stream: &mut (impl AsyncRead + Unpin)) -> (String, std::io::Result<usize>) {
    let mut answer = Vec::new();
    let end = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the server closes in time");
    (String::from_utf8_lossy(&answer).into_owned(), end)
}

/// Creates a partition and a namespace in it (`default` ones are left alone).
pub async fn make_place(server: &Server, partition: &str, namespace: &str) {
    if partition != "default" {
        server.write(resource(id("tenancy.v2beta1.Partition", partition), None)).await.unwrap();
    }
    if namespace != "default" {
        let mut id = id("tenancy.v2beta1.Namespace", namespace);
        id.tenancy = Some(tenancy(partition, ""));
        server.write(resource(id, None)).await.unwrap();
    }
}

/// The code and message of an invalid request.
pub fn invalid(text: impl Into<String>) -> (Code, String) {
    (Code::InvalidArgument, text.into())
}

/// A resource's data.
pub fn decoded<M: Message + Default>(resource: &pb::Resource) -> M {
    M::decode(resource.data.as_ref().unwrap().value.as_slice()).unwrap()
}

/// Names that break the rule, each with one fault.
pub fn bad_names() -> Vec<String> {
    let mut all =
        ["-", "-a", "a-", "A", "kOrn", "a_b", "a.b", "a/b", "*", "é", " a", "a b", "a\n"].map(str::to_owned).to_vec();
    all.push("x".repeat(64));
    all
}

/// Names at the edges of the rule.
pub fn good_names() -> Vec<String> {
    let mut all = ["a", "0", "a--b", "0-0"].map(str::to_owned).to_vec();
    all.push("x".repeat(63));
    all
}

/// Ids of an unknown type with fewer and fewer faults, each with its error: a check in another order than type, name,
/// partition, namespace gives other errors.
pub fn id_stairs(prefix: &str) -> Vec<(pb::Id, String)> {
    let none =
        pb::Id { uid: "never looked at".into(), name: "Bad".into(), r#type: None, tenancy: Some(tenancy("P", "N")) };
    let typed = pb::Id { r#type: Some(gvk("nope.v1.Nope")), ..none.clone() };
    let named = pb::Id { name: "good".into(), ..typed.clone() };
    let placed = pb::Id { tenancy: Some(tenancy("p", "N")), ..named.clone() };
    vec![
        (none, format!("{prefix}.type is required")),
        (typed, format!("{prefix}.name invalid: {}", name_rule("Bad"))),
        (named, format!("{prefix}.tenancy.partition invalid: {}", name_rule("P"))),
        (placed, format!("{prefix}.tenancy.namespace invalid: {}", name_rule("N"))),
    ]
}

/// A `deny.v1.<kind>` with a text.
pub fn deny_thing(kind: &str, name: &str, text: &str) -> pb::Resource {
    let thing = mortise_test_guests::Thing { text: text.into(), ..Default::default() };
    resource(id(&format!("deny.v1.{kind}"), name), Some(any("mortise.test.v1.Thing", &thing)))
}

/// A plugin that serves types (namespace scope, data `mortise.test.v1.Thing`) without hooks: it stores resources that
/// another plugin's hooks would refuse, before that one is loaded on the same data directory.
pub fn hookless(types: &[&str]) -> Vec<u8> {
    let mut manifest = mortise_test_guests::good_manifest();
    let template = manifest.types.remove(0);
    manifest.types.extend(types.iter().map(|text| {
        let pb::Type { group, group_version, kind } = gvk(text);
        let mut one = template.clone();
        (one.group, one.group_version, one.kind) = (group, group_version, kind);
        one
    }));
    mortise_test_guests::manifest_only(&manifest.encode_to_vec())
}

/// The resource with this tenancy.
pub fn at(mut resource: pb::Resource, partition: &str, namespace: &str) -> pb::Resource {
    resource.id.as_mut().unwrap().tenancy = Some(tenancy(partition, namespace));
    resource
}

/// The resource with this owner.
pub fn owned(mut resource: pb::Resource, owner: &pb::Id) -> pb::Resource {
    resource.owner = Some(owner.clone());
    resource
}

/// The resource with this metadata.
pub fn noted(mut resource: pb::Resource, pairs: &[(&str, &str)]) -> pb::Resource {
    resource.metadata = metadata(pairs);
    resource
}

/// The resource with these labels.
pub fn labelled(resource: pb::Resource, pairs: &[(&str, &str)]) -> pb::Resource {
    let meta = mortise_resource::goten::Meta { labels: metadata(pairs), ..Default::default() };
    pb::Resource { meta: Some(Box::new(meta)), ..resource }
}

/// The id of a resource from the server.
pub fn id_of(resource: &pb::Resource) -> pb::Id {
    resource.id.clone().unwrap()
}

/// Names, in the order given.
pub fn names(resources: &[pb::Resource]) -> Vec<String> {
    resources.iter().map(|r| id_of(r).name).collect()
}

/// `partition/namespace/name` of each, in the order given.
pub fn places(resources: &[pb::Resource]) -> Vec<String> {
    let place = |id: pb::Id| {
        let tenancy = id.tenancy.unwrap_or_default();
        format!("{}/{}/{}", tenancy.partition, tenancy.namespace, id.name)
    };
    resources.iter().map(|r| place(id_of(r))).collect()
}

/// Id of a deleted resource's tombstone, if its name is short.
pub fn tombstone_id(deleted: &pb::Id) -> pb::Id {
    let name = format!("tombstone-{}-{}", deleted.name, deleted.uid.to_lowercase());
    pb::Id { tenancy: deleted.tenancy.clone(), ..id("internal.v1.Tombstone", &name) }
}

/// Every tombstone.
pub async fn tombstones(server: &Server) -> Vec<pb::Resource> {
    server.list(gvk("internal.v1.Tombstone"), tenancy("*", "*"), "").await.unwrap()
}

/// Whether no resource has that id.
pub async fn is_gone(server: &Server, id: &pb::Id) -> bool {
    match server.read(id).await {
        Ok(_) => false,
        Err(status) if status.code() == Code::NotFound => true,
        Err(status) => panic!("reading {}: {status}", id.name),
    }
}

/// Deletes an artist and waits until the reaper has removed its album, so all earlier deletions have been processed.
/// Returns the artist's id.
pub async fn reaped(server: &Server) -> pb::Id {
    let owner = id_of(&server.write(artist("reaped-last")).await.unwrap());
    let child = id_of(&server.write(album("reaped-last", Some(&owner))).await.unwrap());
    server.delete(&owner, "").await.unwrap();
    until_gone(server, &child).await;
    owner
}

/// Waits until no resource has that id.
pub async fn until_gone(server: &Server, id: &pb::Id) {
    eventually(&format!("{} is gone", id.name), || is_gone(server, id)).await;
}

/// Parts of the error when a plugin fails: the plugin, the hook, and the cause.
#[derive(Debug, Clone, Copy)]
pub struct Fault<'a> {
    pub plugin: &'a str,
    pub hook: &'a str,
    pub code: Code,
    pub kind: &'a str,
    /// A part of the message: the limit, or the fault of the answer.
    pub says: &'a str,
}

impl Fault<'_> {
    #[track_caller]
    pub fn check(&self, status: &Status) {
        use tonic_types::StatusExt as _;
        assert_eq!(status.code(), self.code, "{self:?}: {status:?}");
        let begin = format!("plugin {} 0.1.0: hook {} ", self.plugin, self.hook);
        assert!(status.message().contains(&begin), "{self:?}: {}", status.message());
        assert!(status.message().contains(self.says), "{self:?}: {}", status.message());
        let details = status.get_error_details();
        let info = details.error_info().unwrap_or_else(|| panic!("no ErrorInfo in {status:?}"));
        assert_eq!((info.reason.as_str(), info.domain.as_str()), ("PLUGIN_FAULT", "mortise"));
        let expected = [("plugin", self.plugin), ("version", "0.1.0"), ("hook", self.hook), ("kind", self.kind)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(info.metadata, expected.into());
    }
}

impl Server {
    /// A separate connection, for clients of other services.
    pub async fn channel(&self) -> Channel {
        Channel::from_shared(format!("http://{}", self.grpc)).unwrap().connect().await.unwrap()
    }

    /// Id of the server's process.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("the server runs")
    }

    /// Sends a signal, such as `INT`.
    pub fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        assert!(std::process::Command::new("kill").arg(format!("-{name}")).arg(pid).status().unwrap().success());
    }

    /// Waits for the end.
    pub async fn ended(&mut self) -> std::process::ExitStatus {
        let status = timeout(PATIENCE, self.child.wait()).await.expect("the server ends in time").unwrap();
        // The last lines may still arrive.
        timeout(PATIENCE, &mut self.logging).await.expect("the log ends with the server").unwrap();
        status
    }

    /// Memory in use by the server, bytes.
    pub fn resident_bytes(&self) -> usize {
        let pid = self.pid();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
    }

    /// Status code and body of an HTTP GET.
    pub async fn get(&self, path: &str) -> (u16, String) {
        let mut stream = tokio::net::TcpStream::connect(self.http).await.unwrap();
        let request = format!("GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("an answer in time").unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// The log line about a file of the plugin folder that was not loaded.
    #[track_caller]
    pub fn refused_file(&self, name: &str) -> String {
        let log = self.log();
        let line = log.lines().find(|line| line.contains(name) && line.contains("is not loaded: "));
        line.unwrap_or_else(|| panic!("nothing about {name} in the log:\n{log}")).to_owned()
    }

    /// Whether requests for a type are refused because it is not registered.
    pub async fn is_unknown(&self, t: &str) -> bool {
        let answer = self.list(gvk(t), tenancy("default", "default"), "").await;
        answer.is_err_and(|status| {
            status.code() == Code::InvalidArgument && status.message() == format!("resource type {t} not registered")
        })
    }
}

/// Exit code, stdout and stderr of the binary, for starts that end by themselves. The ports are free ones.
pub async fn mortise(args: &[&str], env: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mortise"));
    command
        .args(args)
        .env("MORTISE_CACHE_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("mortise-cache"))
        .env("MORTISE_GRPC_ADDR", "127.0.0.1:0")
        .env("MORTISE_HTTP_ADDR", "127.0.0.1:0")
        .env("MORTISE_DNS_ADDR", "127.0.0.1:0")
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = timeout(PATIENCE, command.output()).await.expect("it ends by itself").unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A `demo.v1.RecordLabel` in a partition.
pub fn label(name: &str, partition: &str) -> pb::Resource {
    let data = demo::v1::RecordLabel { name: name.into(), ..Default::default() };
    let data = any("hashicorp.consul.internal.demo.v1.RecordLabel", &data);
    resource(id_in("demo.v1.RecordLabel", name, partition, ""), Some(data))
}
