//! A server for each test: the real binary, on loopback, on ports that the system picks, with its own data directory.
//! Tests share compiled plugins.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};

use mortise_api::ResourceServiceClient;
use mortise_resource::pb;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};
use tonic::{
    Code, Request, Status,
    transport::{Channel, ClientTlsConfig},
};

use super::{Watch, engine, gvk, masked, tenancy, until};

pub type Client = ResourceServiceClient<Channel>;

/// Time limit for expected events: generous, since machines are shared.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Settings of a server's start.
#[derive(Default)]
pub struct Setup {
    args: Vec<String>,
    env: Vec<(String, String)>,
    limits: BTreeMap<String, String>,
    components: Vec<(String, Vec<u8>)>,
    config: Option<String>,
    data_dir: Option<PathBuf>,
    plugin_dir: Option<PathBuf>,
    address_space: Option<u64>,
    mask: Option<&'static str>,
    serve: bool,
    is_of_sled: bool,
    migrate_to: Option<&'static str>,
    tls: Option<ClientTlsConfig>,
    log_to: Option<Stdio>,
    addrs: Option<(SocketAddr, SocketAddr)>,
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

    /// Sets a limit that is not a setting (host/mortise/src/settings/test_limits.rs), such as `watch_buffer`.
    pub fn limit(mut self, name: &str, value: impl ToString) -> Self {
        self.limits.insert(name.to_owned(), value.to_string());
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

    /// Writes a configuration file, and starts the server with it; `Server::config` is its path.
    pub fn config(mut self, text: impl Into<String>) -> Self {
        self.config = Some(text.into());
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
        self.env("MORTISE_PLUGINS_LOAD_UNSIGNED", true).serve_as_shipped()
    }

    /// Uses `mortise serve` with shipped settings, which loads only trusted files from its folder.
    pub fn serve_as_shipped(mut self) -> Self {
        self.serve = true;
        self
    }

    /// Uses `mortise migrate --serve`, which serves without writes and ends after the move into this engine.
    pub fn migrate_to(mut self, engine: &'static str) -> Self {
        self.migrate_to = Some(engine);
        self
    }

    /// Limits the address space of the server, bytes, by `prlimit`; `u64::MAX` means without a limit.
    pub fn address_space(mut self, bytes: u64) -> Self {
        self.address_space = Some(bytes).filter(|bytes| *bytes < u64::MAX);
        self
    }

    /// Starts the server with this mask of modes, as `umask` takes it.
    pub fn mask(mut self, mask: &'static str) -> Self {
        self.mask = Some(mask);
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

    /// Uses these addresses for gRPC and HTTP, instead of ones that the system picks.
    pub fn addrs(mut self, grpc: SocketAddr, http: SocketAddr) -> Self {
        self.addrs = Some((grpc, http));
        self
    }

    /// Sends the log of the server there, instead of to [`Server::log`].
    pub fn log_to(mut self, output: impl Into<Stdio>) -> Self {
        self.log_to = Some(output.into());
        self
    }

    /// A server with a store of its own, whichever engine the other servers under test have.
    pub fn of_sled(mut self) -> Self {
        self.is_of_sled = true;
        self
    }

    /// The command that starts the server, with its files in `dir`, and its data directory and plugin folder.
    pub fn command(self, dir: &Path) -> (Command, PathBuf, PathBuf) {
        let plugin_dir = self.plugin_dir.unwrap_or_else(|| dir.join("plugins"));
        std::fs::create_dir_all(&plugin_dir).unwrap();
        for (name, bytes) in &self.components {
            std::fs::write(plugin_dir.join(name), bytes).unwrap();
        }
        let data_dir = self.data_dir.unwrap_or_else(|| dir.join("data"));
        let mut command = match (self.address_space, self.mask) {
            (None, None) => Command::new(env!("CARGO_BIN_EXE_mortise")),
            (_, Some(mask)) => masked(mask),
            (Some(bytes), None) => {
                let mut command = Command::new("prlimit");
                command.arg(format!("--as={bytes}")).arg(env!("CARGO_BIN_EXE_mortise"));
                command
            }
        };
        let (grpc, http) = self.addrs.unwrap_or_else(|| [(); 2].map(|()| SocketAddr::from(([127, 0, 0, 1], 0))).into());
        match self.migrate_to {
            Some(engine) => command.args(["migrate", "--serve", "--to", engine]),
            None => command.arg(if self.serve { "serve" } else { "dev" }),
        };
        let config = dir.join("config.toml");
        if let Some(text) = self.config {
            std::fs::write(&config, text).unwrap();
            command.arg("--config").arg(&config);
        }
        let limits: Vec<_> = self.limits.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        command
            .args(["--grpc-addr", &grpc.to_string(), "--http-addr", &http.to_string()])
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
            .env("MORTISE_TEST_LIMITS", limits.join("\n"))
            .envs(if self.is_of_sled { Vec::new() } else { engine::settings(&data_dir) })
            .envs(self.env)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(self.log_to.unwrap_or_else(Stdio::piped))
            .kill_on_drop(true);
        (command, data_dir, plugin_dir)
    }

    /// Starts the server and waits until it is ready.
    pub async fn start(mut self) -> Server {
        let (dir, tls) = (tempfile::tempdir().unwrap(), self.tls.take());
        let config = dir.path().join("config.toml");
        let (mut command, data_dir, plugin_dir) = self.command(dir.path());
        let mut child = command.spawn().unwrap();

        let log = Arc::new(Mutex::new(String::new()));
        let sink = log.clone();
        // Without this, the pipe of another reader would stay open.
        drop(command);
        let stderr = child.stderr.take();
        let logging = tokio::spawn(async move {
            let Some(stderr) = stderr else { return };
            let mut lines = BufReader::new(stderr).lines();
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
        let line = timeout(4 * PATIENCE, ready).await.expect("the server is ready in time");
        let addr = |key: &str| -> SocketAddr {
            line.split_whitespace().find_map(|word| word.strip_prefix(key)).unwrap().parse().unwrap()
        };
        let (grpc, http) = (addr("grpc="), addr("http="));
        let dns = line.contains(" dns=").then(|| addr("dns="));
        let client = ResourceServiceClient::new(connect(grpc, tls.clone()).await)
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX);
        Server { child, client, grpc, http, dns, config, data_dir, plugin_dir, log, logging, tls, _dir: dir }
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
    /// Path of the file of `Setup::config`.
    pub config: PathBuf,
    pub data_dir: PathBuf,
    pub plugin_dir: PathBuf,
    log: Arc<Mutex<String>>,
    /// Task that reads the log, and ends with it.
    logging: tokio::task::JoinHandle<()>,
    tls: Option<ClientTlsConfig>,
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

    /// Replaces the file of `Setup::config`.
    pub fn configure(&self, text: impl AsRef<[u8]>) {
        std::fs::write(&self.config, text).unwrap();
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

/// Opens a connection.
pub async fn connect(grpc: SocketAddr, tls: Option<ClientTlsConfig>) -> Channel {
    let endpoint = Channel::from_shared(format!("http{}://{grpc}", if tls.is_some() { "s" } else { "" })).unwrap();
    let endpoint = if let Some(tls) = tls { endpoint.tls_config(tls).unwrap() } else { endpoint };
    endpoint.connect().await.unwrap()
}

/// A request with a metadata key.
pub fn with_metadata<T>(message: T, key: &'static str, value: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert(key, value.parse().unwrap());
    request
}

impl Server {
    /// A separate connection, for clients of other services.
    pub async fn channel(&self) -> Channel {
        connect(self.grpc, self.tls.clone()).await
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

    /// The page of metrics.
    pub async fn metrics(&self) -> String {
        let (status, page) = self.get("/metrics").await;
        assert_eq!(status, 200, "{page}");
        page
    }

    /// Value of a series in the metrics, given by its name and labels; `None` if it has not appeared.
    pub async fn metric(&self, series: &str) -> Option<f64> {
        let page = self.metrics().await;
        page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
    }

    /// Waits until a series of the metrics has this value.
    pub async fn metric_until(&self, series: &str, value: f64) {
        until(series, async || {
            let seen = self.metric(series).await;
            if seen == Some(value) { Ok(()) } else { Err(seen) }
        })
        .await;
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
