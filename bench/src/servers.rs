//! Servers of the benches: which binary, with which plugins.

use std::{ops::Deref, path::Path, process::Stdio};

use mortise_api::ResourceServiceClient;
use mortise_test_process::Process;
pub(crate) use mortise_test_process::{channel, resident_mib_of, sibling};
use tokio::process::Command;
use tonic::transport::Channel;

use crate::Outcome;

pub(crate) type Client = ResourceServiceClient<Channel>;

/// A server that is ready.
pub(crate) struct Server(Process);

impl Deref for Server {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.0
    }
}

async fn start(mut command: Command) -> Outcome<Server> {
    command.stderr(Stdio::null());
    Ok(Server(Process::start(command).await?))
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
            .env("MORTISE_PLUGINS_LOAD_UNSIGNED", "true")
            .env("MORTISE_ACL_ANONYMOUS_POLICIES", "global-management")
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

    /// Ends the server with SIGTERM, as an operator does.
    pub(crate) async fn stop(self) -> Outcome<()> {
        self.0.stop().await
    }
}
