//! The report that the server is ready, for people and for scripts.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
    time::Duration,
};

use mortise_api::ServerInfo;
use tokio::time::timeout;

use crate::{server_flags::Mode, settings::Config};

/// Longest wait for the reader of stdout.
const STDOUT_WAIT: Duration = Duration::from_secs(1);

/// Announces the addresses. The line on stdout is for scripts: it comes once the server answers. Without a reader of
/// stdout the server serves nevertheless.
pub(crate) async fn announce(
    mode: Mode,
    config: &Config,
    (grpc, http, dns): (SocketAddr, SocketAddr, Option<SocketAddr>),
    about: &ServerInfo,
) {
    let took_ms = about.started.elapsed().as_millis() as u64;
    tracing::info!(data_dir = %config.data_dir.display(), took_ms, "ready");
    let mut text = String::new();
    if mode != Mode::Dev && !config.acl.enabled {
        tracing::warn!("everyone who reaches the ports may do everything: tokens are off (acl.enabled)");
    }
    if mode == Mode::Dev && about.temporary {
        text.push_str("THE DATA DIRECTORY IS TEMPORARY: everything is gone at exit; --data-dir DIR keeps it.\n");
    }
    if mode == Mode::Dev {
        text.push_str(left_open(config));
    }
    let dns = dns.map(|dns| format!(" dns={dns}")).unwrap_or_default();
    text.push_str(&format!("mortise ready: grpc={grpc} http={http}{dns}\n"));
    if let Err(e) = print(text).await {
        tracing::warn!("the addresses cannot be written to stdout: {e}; they are grpc={grpc} http={http}{dns}");
    }
}

/// Describes the protection that a server for development lacks, for people.
fn left_open(config: &Config) -> &'static str {
    match (config.acl.enabled, config.tls.cert_file.as_os_str().is_empty()) {
        (false, true) => "LEFT OPEN: no tokens and no TLS. Everyone who reaches the ports may do everything.\n",
        (false, false) => "LEFT OPEN: no tokens. Everyone who reaches the ports may do everything.\n",
        (true, true) => "LEFT OPEN: no TLS. Tokens travel in the clear.\n",
        (true, false) => "",
    }
}

/// Writes to stdout, whose reader may be stuck or gone.
async fn print(text: String) -> io::Result<()> {
    let printing = tokio::task::spawn_blocking(move || {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    });
    match timeout(STDOUT_WAIT, printing).await {
        Ok(printed) => printed?,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "its reader reads nothing")),
    }
}
