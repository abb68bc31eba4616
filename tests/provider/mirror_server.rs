//! A web server for the files of a directory, over TLS on this machine. Below `v2/` it is a registry of OCI images for
//! readers.

use std::{
    fs,
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

use crate::support::plugins::sha256;

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
    let mut words = lines.first().map(|line| line.split(' ')).into_iter().flatten();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or("/").trim_start_matches('/'));
    let path = path.split('?').next().unwrap_or_default();
    let is_below = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    let found = match path {
        // The registry is there.
        "v2/" if dir.join("v2").is_dir() => Some(Vec::new()),
        _ if is_below => fs::read(dir.join(path)).ok(),
        _ => None,
    };
    let (status, body) = found.map_or(("404 Not Found", Vec::new()), |body| ("200 OK", body));
    let kind = match path.contains("/manifests/") {
        true => media_type(&body),
        false if path.ends_with(".json") || path.ends_with("/list") => "application/json".to_owned(),
        false => "application/zip".to_owned(),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\ndocker-content-digest: sha256:{}\r\nconnection: \
         close\r\n\r\n",
        body.len(),
        sha256(&body)
    );
    stream.write_all(head.as_bytes()).await?;
    if method != "HEAD" {
        stream.write_all(&body).await?;
    }
    stream.flush().await?;
    stream.shutdown().await
}

/// The type that a manifest gives itself.
fn media_type(manifest: &[u8]) -> String {
    let manifest: serde_json::Value = serde_json::from_slice(manifest).unwrap_or_default();
    manifest["mediaType"].as_str().unwrap_or("application/json").to_owned()
}

/// Copies the images of an OCI layout to a repository below the directory of a server, with their tags.
pub fn push(layout: &Path, dir: &Path, repository: &str) {
    let to = |part: &str| dir.join("v2").join(repository).join(part);
    for part in ["blobs", "manifests", "tags"] {
        fs::create_dir_all(to(part)).unwrap();
    }
    for blob in fs::read_dir(layout.join("blobs/sha256")).unwrap() {
        let blob = blob.unwrap();
        let digest = format!("sha256:{}", blob.file_name().to_str().unwrap());
        for part in ["blobs", "manifests"] {
            fs::copy(blob.path(), to(part).join(&digest)).unwrap();
        }
    }
    let index: serde_json::Value = serde_json::from_slice(&fs::read(layout.join("index.json")).unwrap()).unwrap();
    let mut tags = Vec::new();
    for image in index["manifests"].as_array().unwrap() {
        let tag = image["annotations"]["org.opencontainers.image.ref.name"].as_str().unwrap();
        let manifest = to("manifests").join(image["digest"].as_str().unwrap());
        fs::copy(manifest, to("manifests").join(tag)).unwrap();
        tags.push(tag);
    }
    let list = serde_json::json!({ "name": repository, "tags": tags });
    fs::write(to("tags").join("list"), list.to_string()).unwrap();
}
