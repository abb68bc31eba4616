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
use crate::{client::Connector, rpc::Session, schema::SchemaCache};

/// Most connections at once. Core opens one for each instance of the provider in each phase of a command, an alias
/// counting as an instance.
const MAX_CONNECTIONS: usize = 4_096;

/// Most connections beyond that, which only get an error; further ones are closed.
const MAX_REFUSED_CONNECTIONS: usize = 256;

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
    let door = Door::new(MAX_CONNECTIONS, connector, prefix);
    let incoming = incoming.filter_map(move |stream| door.connection(stream).map(Ok::<_, io::Error>));
    let router = router(Controller::default()).await;
    within_grace(stopped, |stopped| router.serve_with_incoming_shutdown(incoming, stopped)).await
}

/// Makes the sessions of connections, as far as the bound allows.
struct Door {
    connections: Connections,
    /// Connections that only get an error. They take no place of others.
    refused: Connections,
    limit: usize,
    connector: Arc<dyn Connector>,
    prefix: String,
    schemas: Arc<SchemaCache>,
}

impl Door {
    fn new(limit: usize, connector: Arc<dyn Connector>, prefix: String) -> Self {
        let (connections, refused) = (Connections::default(), Connections::default());
        Self { connections, refused, limit, connector, prefix, schemas: Arc::default() }
    }

    /// The connection of a stream; `None` closes it.
    fn connection<S>(&self, stream: S) -> Option<Connection<S>> {
        let open = *self.connections.count().borrow();
        let connector = self.connector.clone();
        if open < self.limit {
            let session = Session::new(connector, &self.prefix, self.schemas.clone());
            return Some(Connection::new(stream, session, self.connections.open()));
        }
        tracing::warn!(open, limit = self.limit, "refused a connection of a provider: too many are open");
        if *self.refused.count().borrow() >= MAX_REFUSED_CONNECTIONS {
            return None;
        }
        let summary = format!("the server has its most connections of providers, {}", self.limit);
        let detail = "Each instance of the provider has one, an alias included. Apply in parts with -target, or let core \
                      start the provider: `mortise provider export`.";
        let session = Session::refused(connector, &self.prefix, &summary, detail);
        Some(Connection::new(stream, session, self.refused.open()))
    }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use tonic::transport::server::Connected as _;

    use super::*;
    use crate::{
        client::{ConnectError, ConnectionSettings, ExportError, ResourceClient},
        schema::Snapshot,
    };

    struct Nowhere;

    #[async_trait]
    impl Connector for Nowhere {
        async fn connect(&self, _: &ConnectionSettings) -> Result<Arc<dyn ResourceClient>, ConnectError> {
            Err(ConnectError::new(io::Error::other("the server is away")))
        }

        fn snapshot(&self) -> Result<Option<Snapshot>, ExportError> {
            Ok(None)
        }
    }

    #[tokio::test]
    async fn a_connection_too_many_gets_an_answer_and_its_place_is_free_afterwards() {
        let door = Door::new(2, Arc::new(Nowhere), "mortise".to_owned());
        let summary = async |connection: &Connection<()>| {
            connection.connect_info().schema().await.err().unwrap().remove(0).summary
        };
        let first = door.connection(()).unwrap();
        let second = door.connection(()).unwrap();
        assert_eq!(summary(&second).await, "no server can be reached");
        let third = door.connection(()).unwrap();
        assert_eq!(summary(&third).await, "the server has its most connections of providers, 2");
        let refused: Vec<_> = (1..MAX_REFUSED_CONNECTIONS).map(|_| door.connection(()).unwrap()).collect();
        assert!(door.connection(()).is_none());
        drop(first);
        let freed = door.connection(()).unwrap();
        assert_eq!(summary(&freed).await, "no server can be reached", "refused connections take no place");
        drop((second, third, refused, freed));
        assert_eq!(summary(&door.connection(()).unwrap()).await, "no server can be reached");
    }
}
