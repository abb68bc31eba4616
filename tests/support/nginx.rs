//! A server with the plugin `routes`, a real nginx that serves its files, and upstream servers. nginx runs on loopback
//! with a directory of its own and the configuration in the plugin's README.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use mortise_plugin_routes::proto::edge::v1::{Route, Upstream};
use mortise_resource::pb;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
};

use crate::support::{Server, Setup, any, eventually, id, id_of, resource, skipped, until, until_gone};

const README: &str = include_str!("../../plugins/routes/README.md");

/// The directory in the README's configuration.
const DIRECTORY: &str = "/var/lib/mortise/nginx";
const LISTEN: &str = "127.0.0.1:8080";

/// Number of nginx workers, to detect that all run.
const WORKERS: usize = 2;

/// The README's blocks in a language.
pub fn blocks(language: &str) -> Vec<&'static str> {
    let start = format!("```{language}\n");
    README
        .match_indices(&start)
        .map(|(place, _)| README[place + start.len()..].split_once("\n```").unwrap().0)
        .collect()
}

/// The README's first block in a language.
fn snippet(language: &str) -> &'static str {
    blocks(language)[0]
}

/// The program; `None` without nginx, with a note on stderr.
pub fn installed() -> Option<&'static str> {
    let there = |name: &&str| {
        let tried = Command::new(name).arg("-v").stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    };
    // Debian's nginx is not on every user's PATH.
    let found = ["nginx", "/usr/sbin/nginx"].into_iter().find(there);
    if found.is_none() {
        skipped("no nginx (package nginx-light)");
    }
    found
}

/// A server with the plugin, and the directory for nginx.
pub struct Edge {
    pub server: Server,
    pub listen: SocketAddr,
    pub dir: TempDir,
    _port: TcpSocket,
}

impl Edge {
    /// Starts a server with the README's configuration.
    pub async fn start() -> Self {
        Self::configured(|toml| toml).await
    }

    pub async fn configured(change: impl FnOnce(String) -> String) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let files = dir.path().join("files");
        std::fs::create_dir(&files).unwrap();
        // nginx cannot pick a port and report it. While this socket holds the port, the system gives it to no other
        // process.
        let port = TcpSocket::new_v4().unwrap();
        port.set_reuseaddr(true).unwrap();
        port.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listen = port.local_addr().unwrap();
        let toml =
            snippet("toml").replace(DIRECTORY, &files.display().to_string()).replace(LISTEN, &listen.to_string());
        let config = dir.path().join("config.toml");
        std::fs::write(&config, change(toml)).unwrap();
        Self { server: serve(&dir).await, listen, dir, _port: port }
    }

    /// Stops the server, and starts it with another configuration.
    pub async fn restart(self, change: impl FnOnce(String) -> String) -> Self {
        assert!(self.server.stop().await.success());
        let config = self.dir.path().join("config.toml");
        std::fs::write(&config, change(std::fs::read_to_string(&config).unwrap())).unwrap();
        Self { server: serve(&self.dir).await, ..self }
    }

    pub fn files(&self) -> PathBuf {
        self.dir.path().join("files")
    }

    /// Names of all entries in the directory.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.files()).unwrap();
        let mut names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>();
        names.sort();
        names
    }

    /// Writes a Route, and waits for its condition.
    pub async fn apply(&self, name: &str, route: &Route) -> (pb::Id, pb::Condition) {
        let stored = self.server.write(named(name, route)).await.unwrap();
        let id = id_of(&stored);
        // The finalizer's write changes the generation.
        let applied = |stored: &pb::Resource| {
            let status = stored.status.get("edge.v1/routes")?;
            let same = status.observed_generation == stored.generation && stored.metadata.len() == 1;
            status.conditions.first().filter(|one| same || one.reason == "NotGranted").cloned()
        };
        let mut found = None;
        let tells = async || {
            found = applied(&self.server.read(&id).await.unwrap());
            found.is_some()
        };
        eventually("the Route has a condition", tells).await;
        (id, found.unwrap())
    }

    pub async fn delete(&self, id: &pb::Id) {
        self.server.delete(id, "").await.unwrap();
        until_gone(&self.server, id).await;
    }

    /// Status code and body of a request.
    pub async fn get(&self, host: &str, path: &str) -> (u16, String) {
        try_get(self.listen, host, path).await.unwrap()
    }

    /// Waits until nginx gives this answer.
    pub async fn answers(&self, host: &str, path: &str, code: u16, body: &str) {
        until(&format!("{host}{path} answers {code} {body:?}"), async || {
            let last = try_get(self.listen, host, path).await;
            let is_so = last.as_ref().is_some_and(|(found, text)| *found == code && text.contains(body));
            if is_so { Ok(()) } else { Err(last) }
        })
        .await;
    }
}

/// A server whose configuration and data are in a directory.
async fn serve(dir: &TempDir) -> Server {
    let (config, data) = (dir.path().join("config.toml"), dir.path().join("data"));
    Setup::new().serve().data_dir(&data).arg("--config").arg(config.display().to_string()).start().await
}

async fn try_get(listen: SocketAddr, host: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(listen).await.ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// nginx with a directory of its own; stopped when it is dropped.
pub struct Nginx {
    child: Child,
    prefix: PathBuf,
    program: &'static str,
}

impl Nginx {
    /// `None` without nginx, with a note on stderr.
    pub async fn start(edge: &Edge) -> Option<Self> {
        let program = installed()?;
        let prefix = edge.dir.path().join("prefix");
        std::fs::create_dir(&prefix).unwrap();
        let here = prefix.display();
        let mut config = snippet("nginx")
            .replace(DIRECTORY, &edge.files().display().to_string())
            .replace(LISTEN, &edge.listen.to_string())
            .replace("/run/", &format!("{here}/"))
            .replace("worker_processes auto", &format!("worker_processes {WORKERS}"))
            .replace("/var/log/nginx/", &format!("{here}/"));
        // Directories for large data, which Debian puts elsewhere.
        for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
            config = config.replace("http {\n", &format!("http {{\n    {kind}_temp_path {here}/{kind};\n"));
        }
        assert!(!config.contains("/var/") && !config.contains(" /run/"), "{config}");
        std::fs::write(prefix.join("nginx.conf"), config).unwrap();
        let mut nginx =
            Self { child: command(program, &prefix).args(["-g", "daemon off;"]).spawn().unwrap(), prefix, program };
        let takes_requests = async || {
            let ended = nginx.child.try_wait().unwrap();
            assert!(ended.is_none(), "nginx ended: {ended:?} {}", nginx.errors());
            nginx.workers().len() == WORKERS && TcpStream::connect(edge.listen).await.is_ok()
        };
        eventually("nginx takes requests", takes_requests).await;
        Some(nginx)
    }

    /// Makes nginx check all files, then load them. The former workers may still answer until they have ended.
    pub async fn reload(&self) {
        let tested = command(self.program, &self.prefix).arg("-t").stderr(Stdio::piped()).output().unwrap();
        assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stderr));
        let before = self.workers();
        self.signal("HUP");
        let others = async || {
            let now = self.workers();
            now.len() == WORKERS && !now.iter().any(|one| before.contains(one))
        };
        eventually("nginx has reloaded", others).await;
    }

    /// Process ids of the workers.
    fn workers(&self) -> Vec<String> {
        let pid = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        children.split_whitespace().map(str::to_owned).collect()
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").arg(format!("-{name}")).arg(pid).status().unwrap().success());
    }

    pub fn errors(&self) -> String {
        std::fs::read_to_string(self.prefix.join("error.log")).unwrap_or_default()
    }
}

fn command(program: &str, prefix: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("-p").arg(prefix).arg("-c").arg(prefix.join("nginx.conf")).arg("-e").arg(prefix.join("error.log"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl Drop for Nginx {
    /// Uses a signal that the master passes on to its workers; a kill would leave them running.
    fn drop(&mut self) {
        let _ = Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status();
        for _ in 0..500 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            #[allow(clippy::disallowed_methods, reason = "there is no waiting in a drop")]
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
    }
}

/// A server that answers every request with a name and the request.
pub async fn upstream(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = Vec::new();
                let mut buffer = [0; 4096];
                while !request.ends_with(b"\r\n\r\n") {
                    match stream.read(&mut buffer).await {
                        Ok(count @ 1..) => request.extend_from_slice(&buffer[..count]),
                        _ => return,
                    }
                }
                let body = format!("I am {name}\n{}", String::from_utf8_lossy(&request));
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                let _ = stream.write_all((head + &body).as_bytes()).await;
            });
        }
    });
    address
}

pub fn named(name: &str, route: &Route) -> pb::Resource {
    resource(id("edge.v1.Route", name), Some(any("edge.v1.Route", route)))
}

pub fn route(hostname: &str, prefix: &str, upstreams: &[(SocketAddr, u32)]) -> Route {
    let upstreams =
        upstreams.iter().map(|(address, weight)| Upstream { address: address.to_string(), weight: *weight });
    Route { hostname: hostname.into(), path_prefix: prefix.into(), upstreams: upstreams.collect(), service: None }
}
