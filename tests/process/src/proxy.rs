//! A connection to etcd that loses answers.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::Outcome;

/// A proxy in front of etcd.
#[derive(Debug)]
pub struct Proxy {
    /// Address of the proxy, as `host:port`.
    pub endpoint: String,
    armed: Arc<AtomicBool>,
    cuts: Arc<AtomicUsize>,
}

impl Proxy {
    /// Starts a proxy for an etcd. Its task goes on until the runtime ends.
    ///
    /// # Errors
    /// No port, or an address that cannot be read.
    pub async fn start(etcd: &str) -> Outcome<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let endpoint = listener.local_addr()?.to_string();
        let etcd: SocketAddr = etcd.parse()?;
        let (armed, cuts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let state = (armed.clone(), cuts.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(relay(client, etcd, state.clone()));
            }
        });
        Ok(Self { endpoint, armed, cuts })
    }

    /// Loses the next answer, and the connection.
    pub fn lose_next(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }

    /// Returns the number of lost connections.
    #[must_use]
    pub fn cuts(&self) -> usize {
        self.cuts.load(Ordering::SeqCst)
    }
}

/// Relays both directions until either ends, or until an answer is lost.
async fn relay(client: TcpStream, etcd: SocketAddr, (armed, cuts): (Arc<AtomicBool>, Arc<AtomicUsize>)) {
    let Ok(server) = TcpStream::connect(etcd).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let there = tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read) = from_server.read(&mut buffer).await {
        // A short answer may be a ping or a window; those of calls are longer.
        if read == 0 || (read > 60 && armed.swap(false, Ordering::SeqCst)) {
            cuts.fetch_add(usize::from(read > 0), Ordering::SeqCst);
            break;
        }
        if to_client.write_all(buffer.get(..read).unwrap_or_default()).await.is_err() {
            break;
        }
    }
    there.abort();
}
