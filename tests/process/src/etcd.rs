//! An etcd of one server: the program that `.ci/go-tool etcd` built, on ports that were free a moment ago.
//!
//! The system ends it with this process, by `setpriv` of util-linux. It does not sync its disk, since no test takes its
//! power away.

use std::{
    env, fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{OnceLock, mpsc},
    thread,
    time::Duration,
};

use crate::Outcome;

/// Pause between two attempts to reach an etcd that starts.
const START_PAUSE: Duration = Duration::from_millis(20);

/// A running etcd. Dropping it kills it.
#[derive(Debug)]
pub struct Etcd {
    /// Address for clients, as `host:port`.
    pub endpoint: String,
    ports: (u16, u16),
    /// Files of TLS.
    tls: Option<ServerTls>,
    child: Child,
    dir: tempfile::TempDir,
}

/// Files of an etcd with TLS, which asks its clients for certificates.
#[derive(Debug, Clone)]
pub struct ServerTls {
    /// Authority of the clients' certificates.
    pub ca_file: PathBuf,
    /// Certificate of etcd.
    pub cert_file: PathBuf,
    /// Its key.
    pub key_file: PathBuf,
}

/// Returns the program: that of `MORTISE_ETCD`, or the newest that `.ci/go-tool` built; `None` without either.
#[must_use]
pub fn program() -> Option<PathBuf> {
    if let Some(given) = env::var_os("MORTISE_ETCD") {
        return Some(given.into());
    }
    let tools = env::var_os("MORTISE_TOOLS").map(PathBuf::from);
    let tools = tools.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache/mortise-tools")))?;
    let is_etcd = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("etcd-"));
    let built = fs::read_dir(tools).ok()?.flatten().map(|entry| entry.path()).filter(is_etcd).max();
    built.map(|dir| dir.join("etcd")).filter(|program| program.exists())
}

impl Etcd {
    /// Starts an etcd; `None` without the program.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start() -> Outcome<Option<Self>> {
        Self::start_with(None)
    }

    /// Starts an etcd, with TLS for its clients if there are files; `None` without the program.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_with(tls: Option<ServerTls>) -> Outcome<Option<Self>> {
        let Some(program) = program() else { return Ok(None) };
        let (dir, ports) = (tempfile::tempdir()?, (free_port()?, free_port()?));
        let child = spawn(&program, dir.path(), ports, tls.as_ref())?;
        Ok(Some(Self { endpoint: format!("127.0.0.1:{}", ports.0), ports, tls, child, dir }))
    }

    /// Kills it; its data and its ports stay.
    ///
    /// # Errors
    /// It cannot be killed.
    pub fn kill(&mut self) -> Outcome<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts it again after [`Etcd::kill`].
    ///
    /// # Errors
    /// It cannot be started.
    pub fn restart(&mut self) -> Outcome<()> {
        let program = program().ok_or("the program is gone")?;
        self.child = spawn(&program, self.dir.path(), self.ports, self.tls.as_ref())?;
        Ok(())
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.kill();
    }
}

/// Returns the address of an etcd that the whole process shares; `None` without the program.
///
/// # Errors
/// The program is there and does not start: tests must not be left out for that.
pub fn shared() -> Outcome<Option<&'static str>> {
    static SHARED: OnceLock<Result<Option<String>, String>> = OnceLock::new();
    let start = || {
        let (started, endpoint) = mpsc::channel();
        // The system ends it with the thread that started it, so this one stays.
        thread::spawn(move || {
            let etcd = Etcd::start().map_err(|error| error.to_string());
            let endpoint = |etcd: &Option<Etcd>| etcd.as_ref().map(|etcd| etcd.endpoint.clone());
            let _ = started.send(etcd.as_ref().map(endpoint).map_err(Clone::clone));
            while etcd.is_ok() {
                thread::park();
            }
        });
        endpoint.recv().map_err(|error| format!("the thread of etcd ended: {error}"))?
    };
    match SHARED.get_or_init(start) {
        Ok(endpoint) => Ok(endpoint.as_deref()),
        Err(error) => Err(format!("etcd does not start: {error}").into()),
    }
}

fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

#[allow(clippy::disallowed_methods, reason = "a test starts it before its own work, or a plain thread does")]
fn spawn(program: &Path, dir: &Path, (client, peer): (u16, u16), tls: Option<&ServerTls>) -> Outcome<Child> {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let (client_url, peer_url) = (format!("{scheme}://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL"])
        .arg(program)
        .arg("--data-dir")
        .arg(dir.join("data"))
        .args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
        .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
        .args(["--initial-cluster", &format!("default={peer_url}"), "--log-level", "error", "--unsafe-no-fsync"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some(ServerTls { ca_file, cert_file, key_file }) = tls {
        command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(ca_file);
        command.arg("--cert-file").arg(cert_file).arg("--key-file").arg(key_file);
    }
    let mut child = command.spawn()?;
    while TcpStream::connect(("127.0.0.1", client)).is_err() {
        if let Some(status) = child.try_wait()? {
            return Err(format!("etcd ended at its start: {status}").into());
        }
        thread::sleep(START_PAUSE);
    }
    Ok(child)
}
