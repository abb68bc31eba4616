//! An etcd of one server for all tests of this program, which ends with it.

use std::{
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use mortise_store_etcd::EtcdOptions;

/// A running etcd.
pub(crate) struct Etcd {
    pub(crate) endpoint: String,
    ports: (u16, u16),
    child: Child,
    dir: tempfile::TempDir,
}

/// Returns the program; `None` if there is none.
pub(crate) fn program() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("MORTISE_ETCD") {
        return Some(given.into());
    }
    let cache = std::env::var_os("MORTISE_TOOLS").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/mortise-tools")))?;
    let mut built: Vec<_> = std::fs::read_dir(cache).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    built.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("etcd-")));
    built.sort();
    built.pop().map(|dir| dir.join("etcd")).filter(|program| program.exists())
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Etcd {
    /// Starts an etcd of one server, which the system ends with this process.
    pub(crate) fn start() -> Option<Self> {
        let Some(program) = program() else {
            println!("SKIPPED: no etcd (MORTISE_ETCD, or .ci/go-tool etcd): the tests with etcd");
            return None;
        };
        let (dir, ports) = (tempfile::tempdir().unwrap(), (free_port(), free_port()));
        let child = Self::spawn(&program, dir.path(), ports);
        Some(Self { endpoint: format!("127.0.0.1:{}", ports.0), ports, child, dir })
    }

    /// Kills it; its data and its port stay.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again after [`Etcd::kill`].
    pub(crate) fn restart(&mut self) {
        self.child = Self::spawn(&program().unwrap(), self.dir.path(), self.ports);
    }

    fn spawn(program: &Path, dir: &Path, (client, peer): (u16, u16)) -> Child {
        let (client_url, peer_url) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        // `setpriv` is part of util-linux.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(program)
            .arg("--data-dir")
            .arg(dir.join("data"))
            .args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
            .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
            .args(["--initial-cluster", &format!("default={peer_url}"), "--log-level", "error", "--unsafe-no-fsync"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while TcpStream::connect(("127.0.0.1", client)).is_err() {
            thread::sleep(Duration::from_millis(20));
        }
        child
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Returns the endpoint of the etcd that all tests share. A thread keeps it, since the system would end it with the
/// thread that started it.
fn shared() -> Option<&'static str> {
    static SHARED: OnceLock<Option<String>> = OnceLock::new();
    let start = || {
        let (started, endpoint) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let etcd = Etcd::start();
            started.send(etcd.as_ref().map(|etcd| etcd.endpoint.clone())).unwrap();
            loop {
                thread::park();
            }
        });
        endpoint.recv().unwrap()
    };
    SHARED.get_or_init(start).as_deref()
}

/// Returns a prefix that no other test has.
pub(crate) fn prefix() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("/test-{}/", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the options of a server with a prefix; `None` without etcd.
pub(crate) fn options(prefix: &str) -> Option<EtcdOptions> {
    Some(options_at(shared()?, prefix))
}

/// Returns the options of a server with a prefix of the etcd at an address.
pub(crate) fn options_at(endpoint: &str, prefix: &str) -> EtcdOptions {
    EtcdOptions { endpoints: vec![endpoint.to_owned()], prefix: prefix.to_owned(), credentials: None, tls: None }
}
