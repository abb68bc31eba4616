//! Durable writes against etcd's on the same disk, if etcd is on PATH, with the same 600 or so bytes under the same
//! number of keys. etcd runs no hooks.

use std::{
    net::{SocketAddr, TcpListener},
    path::Path,
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use prost::Message as _;
use tokio::process::{Child, Command};
use tonic::{client::Grpc, codegen::http::uri::PathAndQuery, transport::Channel};

use crate::{
    Outcome,
    calls::{WRITES, Writes, artist},
    report::line,
    servers::{Server, channel},
    versus::{Rounds, Work, compare},
};

/// The fields of etcd's `PutRequest` that the comparison needs.
#[derive(Clone, PartialEq, prost::Message)]
struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// etcd's `PutResponse`, without its fields.
#[derive(Clone, PartialEq, prost::Message)]
struct PutResponse {}

struct Puts(Vec<Channel>);

impl Work for Puts {
    async fn call(&self, client: usize, turn: u64) -> Outcome<()> {
        let name = format!("artist-{client}-{}", turn % 16);
        let put = PutRequest { key: name.clone().into_bytes(), value: artist(&name).encode_to_vec() };
        call::<_, PutResponse>(self.0.get(client), "/etcdserverpb.KV/Put", put).await?;
        Ok(())
    }
}

/// Calls a method of etcd.
pub(crate) async fn call<Q, A>(channel: Option<&Channel>, method: &'static str, request: Q) -> Outcome<A>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    let mut grpc = Grpc::new(channel.ok_or("no such client")?.clone());
    grpc.ready().await?;
    let codec = tonic_prost::ProstCodec::<Q, A>::default();
    let answer = grpc.unary(tonic::Request::new(request), PathAndQuery::from_static(method), codec).await?;
    Ok(answer.into_inner())
}

/// Two ports that were free a moment ago.
fn ports() -> Outcome<(u16, u16)> {
    let (a, b) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    Ok((a.local_addr()?.port(), b.local_addr()?.port()))
}

/// An etcd that waits for the disk, as by default. Dropping it kills it.
pub(crate) struct Etcd {
    pub(crate) addr: SocketAddr,
    _child: Child,
}

/// Starts the etcd on PATH with its data in a directory; prints that it is missing, and returns `None`, otherwise.
pub(crate) async fn start(dir: &Path) -> Outcome<Option<Etcd>> {
    let (client_port, peer_port) = ports()?;
    let (client_url, peer_url) = (format!("http://127.0.0.1:{client_port}"), format!("http://127.0.0.1:{peer_port}"));
    let etcd = Command::new("etcd")
        .arg("--data-dir")
        .arg(dir.join("etcd"))
        .args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
        .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
        .args(["--initial-cluster", &format!("default={peer_url}"), "--log-level", "error"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn();
    let child = match etcd {
        Ok(child) => child,
        Err(e) => {
            line(&format!("etcd: SKIPPED, it does not start ({e}); install it to compare"))?;
            return Ok(None);
        }
    };
    let addr = format!("127.0.0.1:{client_port}").parse()?;
    let mut tries = 0;
    while channel(addr).await.is_err() {
        tries += 1;
        if tries > 100 {
            return Err("etcd does not answer".into());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(Some(Etcd { addr, _child: child }))
}

/// Compares, or prints that etcd is missing.
pub(crate) async fn run(rounds: Rounds) -> Outcome<()> {
    let dir = tempfile::tempdir()?;
    let Some(Etcd { addr, _child: child }) = start(dir.path()).await? else { return Ok(()) };
    let ours = Server::mortise(dir.path(), &[]).await?;
    for (clients, (title, resource)) in [1, 64].into_iter().flat_map(|clients| WRITES.map(|of| (clients, of))) {
        let mut channels = Vec::new();
        for _ in 0..clients {
            channels.push(channel(addr).await?);
        }
        let writes = Arc::new(Writes { clients: ours.clients(clients).await?, resource });
        compare(title, ("mortise", writes), ("etcd", Arc::new(Puts(channels))), clients, rounds).await?;
    }
    drop(child);
    ours.stop().await
}
