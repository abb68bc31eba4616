//! Server processes, killed when dropped.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use mortise_api::ResourceServiceClient;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};
use tonic::transport::{Channel, Endpoint};

use crate::Outcome;

/// Ticks of a second in /proc, as Linux shows them to programs on every machine that Rust's std supports.
const TICKS: f64 = 100.0;

pub(crate) type Client = ResourceServiceClient<Channel>;

/// A server that is ready.
pub(crate) struct Server {
    child: Child,
    pub(crate) addr: SocketAddr,
    /// Time from spawning the process to its ready line.
    pub(crate) ready_after: Duration,
}

/// Starts a command that prints a line with `grpc=ADDR` when it is ready.
async fn start(mut command: Command) -> Outcome<Server> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let begun = Instant::now();
    let mut child = command.spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no stdout")?).lines();
    while let Some(line) = lines.next_line().await? {
        if let Some(addr) = line.split_whitespace().find_map(|word| word.strip_prefix("grpc=")) {
            return Ok(Server { child, addr: addr.parse()?, ready_after: begun.elapsed() });
        }
    }
    Err("the server ended before it was ready".into())
}

impl Server {
    /// Starts the release binary next to this one, with the demo plugin and the guests with every hook and with none.
    pub(crate) async fn mortise(data: &Path, env: &[(&str, &str)]) -> Outcome<Self> {
        Self::of_binary(&sibling("mortise")?, data, env).await
    }

    /// Starts a binary as [`Server::mortise`] does.
    pub(crate) async fn of_binary(binary: &Path, data: &Path, env: &[(&str, &str)]) -> Outcome<Self> {
        for guest in ["every-hook", "no-hook"] {
            std::fs::copy(mortise_test_guests::component(guest), data.join(guest).with_extension("wasm"))?;
        }
        let mut command = Command::new(binary);
        command
            .args(["dev", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"])
            .arg("--data-dir")
            .arg(data.join("data"))
            .arg("--plugin-dir")
            .arg(data)
            .env("MORTISE_CACHE_DIR", data.join("cache"))
            .env("MORTISE_LOG_LEVEL", "warn")
            .envs(env.iter().copied());
        start(command).await
    }

    /// Starts the release binary next to this one, with the plugins in `plugins` in `dir` alone.
    pub(crate) async fn bare(dir: &Path) -> Outcome<Self> {
        std::fs::create_dir_all(dir.join("plugins"))?;
        let mut command = Command::new(sibling("mortise")?);
        command
            .args(["serve", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"])
            .arg("--data-dir")
            .arg(dir.join("data"))
            .arg("--plugin-dir")
            .arg(dir.join("plugins"))
            .env("MORTISE_LOG_LEVEL", "warn");
        start(command).await
    }

    /// Starts the server that does nothing.
    pub(crate) async fn noop(list: usize) -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["noop", "--list", &list.to_string()]);
        start(command).await
    }

    /// Starts the server that only writes messages to a file in `dir`, and lists `list` resources.
    pub(crate) async fn durable_noop(dir: &Path, list: usize) -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["noop", "--list", &list.to_string(), "--durable"]).arg(dir.join("noop"));
        start(command).await
    }

    /// Connects a client with a connection of its own.
    pub(crate) async fn client(&self) -> Outcome<Client> {
        let channel = channel(self.addr).await?;
        Ok(ResourceServiceClient::new(channel).max_decoding_message_size(usize::MAX))
    }

    /// Connects `count` clients, each with a connection of its own.
    pub(crate) async fn clients(&self, count: usize) -> Outcome<Vec<Client>> {
        let mut clients = Vec::with_capacity(count);
        for _ in 0..count {
            clients.push(self.client().await?);
        }
        Ok(clients)
    }

    /// Resident memory, MiB.
    pub(crate) fn resident_mib(&self) -> Outcome<f64> {
        let pid = self.child.id().ok_or("the server ended")?;
        resident_mib_of(&pid.to_string())
    }

    /// Processor time that the server has taken so far, seconds.
    pub(crate) fn processor_seconds(&self) -> Outcome<f64> {
        let pid = self.child.id().ok_or("the server ended")?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let (_, rest) = stat.rsplit_once(')').ok_or("no name")?;
        let ticks: Vec<f64> = rest.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
        Ok(ticks.iter().sum::<f64>() / TICKS)
    }

    /// Ends the server with SIGTERM, as an operator does.
    pub(crate) async fn stop(mut self) -> Outcome<()> {
        let pid = self.child.id().ok_or("the server ended")?;
        Command::new("kill").args(["-TERM", &pid.to_string()]).status().await?;
        self.child.wait().await?;
        Ok(())
    }
}

/// Opens a connection with a client's settings.
pub(crate) async fn channel(addr: SocketAddr) -> Outcome<Channel> {
    Ok(Endpoint::from_shared(format!("http://{addr}"))?
        .tcp_nodelay(true)
        .initial_stream_window_size(16 << 20)
        .initial_connection_window_size(32 << 20)
        .connect()
        .await?)
}

/// Returns the path of the binary with this name next to this one.
pub(crate) fn sibling(name: &str) -> Outcome<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    if path.exists() {
        return Ok(path);
    }
    Err(format!("{name} is not built: run `cargo build --release -p {name}` first").into())
}

/// Resident memory of a process, MiB.
pub(crate) fn resident_mib_of(pid: &str) -> Outcome<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    let kib: f64 = line.split_whitespace().nth(1).ok_or("no figure")?.parse()?;
    Ok(kib / 1024.0)
}
