//! The socket of a running server for cores that attach to it: no process is started, and nothing is encrypted. The
//! server makes the socket, and lets its own user alone connect.

use std::{io, path::Path, sync::Arc};

use tokio::net::UnixStream;
use tokio_stream::{Stream, StreamExt as _};

use super::{
    connection::{Connection, Connections},
    launched::{router, within_grace},
    plugin::Controller,
};
use crate::{client::Connector, rpc::Session};

/// Most connections at once; core opens one for each phase of a command.
const MAX_CONNECTIONS: usize = 64;

/// Serves connections until `stopped`.
///
/// # Errors
/// The transport failed.
pub async fn serve_attached(
    incoming: impl Stream<Item = UnixStream>,
    connector: Arc<dyn Connector>,
    prefix: String,
    stopped: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error> {
    let connections = Connections::default();
    let incoming = incoming.filter_map(move |stream| {
        let full = *connections.count().borrow() >= MAX_CONNECTIONS;
        (!full).then(|| {
            Ok::<_, io::Error>(Connection::new(stream, Session::new(connector.clone(), &prefix), connections.open()))
        })
    });
    let router = router(Controller::default()).await;
    within_grace(stopped, |stopped| router.serve_with_incoming_shutdown(incoming, stopped)).await
}

/// The value of `TF_REATTACH_PROVIDERS` for a server's socket. `pid` has to be a process that core can see during its
/// whole run.
#[must_use]
pub fn reattach(source: &str, pid: u32, socket: &Path) -> String {
    serde_json::json!({
        source: {
            "Protocol": "grpc",
            "ProtocolVersion": 6,
            "Pid": pid,
            "Test": true,
            "Addr": { "Network": "unix", "String": socket.display().to_string() },
        }
    })
    .to_string()
}
