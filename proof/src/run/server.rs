//! The server of a run: a process of the binary beside this one, with the demo plugin in its folder, so that it can be
//! reloaded, and with the types that refer to each other. It keeps its data directory over restarts.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
};

use mortise_test_process::{Outcome, Process};
use tempfile::TempDir;
use tokio::process::Command;

/// The component of the types with references.
pub(crate) const REFERENCES_WASM: &[u8] = include_bytes!(env!("REFERENCES_WASM"));
/// The component of the demo plugin.
const DEMO_WASM: &[u8] = include_bytes!(env!("DEMO_WASM"));

/// A server, or the place of one that was killed.
pub(crate) struct Server {
    binary: PathBuf,
    dir: TempDir,
    process: Option<Process>,
    env: Vec<(String, String)>,
    reloads: usize,
}

impl Server {
    /// Makes the place of a server: an empty directory with the plugin in its folder.
    pub(crate) fn prepare(binary: &Path, dir: TempDir, env: Vec<(String, String)>) -> Outcome<Self> {
        std::fs::create_dir(dir.path().join("plugins"))?;
        std::fs::write(dir.path().join("plugins/references.wasm"), REFERENCES_WASM)?;
        let mut server = Self { binary: binary.to_owned(), dir, process: None, env, reloads: 0 };
        server.reload()?;
        Ok(server)
    }

    /// Starts the killed server again.
    pub(crate) async fn restart(&mut self) -> Outcome<SocketAddr> {
        let dir = self.dir.path();
        let mut command = Command::new(&self.binary);
        command
            .args(["serve", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"])
            .arg("--data-dir")
            .arg(dir.join("data"))
            .arg("--plugin-dir")
            .arg(dir.join("plugins"))
            .env("MORTISE_CACHE_DIR", dir.join("cache"))
            .env("MORTISE_DNS_ADDR", "127.0.0.1:0")
            // Callers without a token may do everything, so that only the tokens of a history have rights that change.
            .env("MORTISE_ACL_ENABLED", "true")
            .env("MORTISE_ACL_ANONYMOUS_POLICIES", "global-management")
            .env("MORTISE_PLUGINS_LOAD_UNSIGNED", "true")
            .env("MORTISE_LOG_LEVEL", "warn")
            .env("MORTISE_SERVICE_CASCADE_SECOND_PASS_MS", "1000")
            // Starved of processor time, a hook must not fail.
            .env("MORTISE_SANDBOX_DEADLINE_MS", "20000")
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stderr(log(&dir.join("log"))?);
        let process = Process::start(command).await?;
        let addr = process.addr;
        self.process = Some(process);
        Ok(addr)
    }

    /// The process, if the server runs.
    pub(crate) fn process(&mut self) -> Outcome<&mut Process> {
        self.process.as_mut().ok_or_else(|| "the server does not run".into())
    }

    /// Takes the process out of its place, to end it.
    pub(crate) fn take_process(&mut self) -> Option<Process> {
        self.process.take()
    }

    /// Directory of the data, the plugin folder and the log.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the log of all of its lives.
    pub(crate) fn log(&self) -> Outcome<String> {
        Ok(std::fs::read_to_string(self.dir.path().join("log"))?)
    }

    /// Runs a command of the binary with further variables, such as those of the shim.
    pub(crate) async fn command(&self, args: &[&str], env: &[(String, String)]) -> Outcome<std::process::Output> {
        let mut command = Command::new(&self.binary);
        command.args(args).stdin(Stdio::null()).envs(env.iter().map(|(name, value)| (name, value)));
        Ok(command.kill_on_drop(true).output().await?)
    }

    /// Kills the server.
    pub(crate) async fn kill(&mut self) -> Outcome<()> {
        match self.process.take() {
            Some(process) => process.kill().await,
            None => Ok(()),
        }
    }

    /// Replaces the file of the demo plugin with the other one of two equivalent components.
    pub(crate) fn reload(&mut self) -> Outcome<()> {
        let mut bytes = DEMO_WASM.to_vec();
        // A custom section: its id, its length, the length of its name, its name and its content.
        bytes.extend([0, 3, 1, b'n', b'0' + u8::try_from(self.reloads % 2)?]);
        self.reloads += 1;
        let (new, path) = (self.dir.path().join("demo.new"), self.dir.path().join("plugins/demo.wasm"));
        std::fs::write(&new, bytes)?;
        Ok(std::fs::rename(new, path)?)
    }

    /// Stops the server; returns the log of all of its lives.
    pub(crate) async fn stop(mut self) -> Outcome<String> {
        if let Some(process) = self.process.take() {
            process.stop().await?;
        }
        self.log()
    }
}

fn log(path: &Path) -> Outcome<Stdio> {
    Ok(std::fs::OpenOptions::new().create(true).append(true).open(path)?.into())
}
