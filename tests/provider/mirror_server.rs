//! A web server for the files of a directory, over TLS on this machine.

use std::{
    net::Ipv4Addr,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpListener,
    task::JoinHandle,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{self, ServerConfig, pki_types::PrivateKeyDer},
};

/// A running server; dropping it ends it.
pub struct MirrorServer {
    /// Its address, with a slash at the end.
    pub url: String,
    /// Its certificate in PEM.
    pub certificate: String,
    serving: JoinHandle<()>,
}

impl Drop for MirrorServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl MirrorServer {
    pub async fn start(dir: PathBuf) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate =
            rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, dir) = (acceptor.clone(), dir.clone());
                tokio::spawn(async move {
                    // Clients may go away.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let _ = answer(BufReader::new(stream), &dir).await;
                });
            }
        });
        Self { url, certificate: certificate.pem(), serving }
    }
}

/// Answers the one request of a connection.
async fn answer<S>(mut stream: BufReader<S>, dir: &Path) -> std::io::Result<()>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 || line == "\r\n" {
            break;
        }
        lines.push(line);
    }
    let path = lines.first().and_then(|line| line.split(' ').nth(1)).unwrap_or("/").trim_start_matches('/').to_owned();
    let is_below = Path::new(&path).components().all(|part| matches!(part, Component::Normal(_)));
    let found = if is_below { std::fs::read(dir.join(&path)).ok() } else { None };
    let (status, body) = found.map_or(("404 Not Found", Vec::new()), |body| ("200 OK", body));
    let kind = if path.ends_with(".json") { "application/json" } else { "application/zip" };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body).await?;
    stream.flush().await?;
    stream.shutdown().await
}
