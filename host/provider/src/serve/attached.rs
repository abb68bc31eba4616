//! The socket of a running server for cores that attach to it: no process is started, and nothing is encrypted. Only
//! the owner of the socket's file can use the provider.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::net::UnixListener;
use tokio_stream::{StreamExt as _, wrappers::UnixListenerStream};

use super::{
    connection::{Connection, Connections},
    launched::{router, within_grace},
    plugin::Controller,
};
use crate::{client::Connector, rpc::Session};

/// Most connections at once; core opens one for each phase of a command.
const MAX_CONNECTIONS: usize = 64;

/// Longest path of a socket on Linux, bytes.
const MAX_SOCKET_PATH_BYTES: usize = 107;

/// The open socket. Dropping it removes its file.
pub struct AttachedSocket {
    listener: UnixListener,
    file: SocketFile,
}

struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // The file may have gone with its directory.
        let _ = fs::remove_file(&self.0);
    }
}

impl AttachedSocket {
    /// Opens the socket, in the place of an abandoned one. No other user can reach it at any moment: it is made in a
    /// private directory, and moved.
    ///
    /// # Errors
    /// Another file has the path, or the path is too long for a socket.
    pub fn open(path: PathBuf) -> io::Result<Self> {
        match fs::symlink_metadata(&path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "a file that is not a socket has this path; remove it",
                ));
            }
            _ => {}
        }
        if path.as_os_str().len() > MAX_SOCKET_PATH_BYTES {
            let why = format!(
                "the path has more than {MAX_SOCKET_PATH_BYTES} bytes, the most for a socket; choose a shorter one"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let dir = path.parent().unwrap_or(Path::new("."));
        let private = tempfile::Builder::new().prefix(".p").rand_bytes(4).tempdir_in(dir)?;
        let made = private.path().join("s");
        let listener = UnixListener::bind(&made)?;
        fs::set_permissions(&made, fs::Permissions::from_mode(0o600))?;
        fs::rename(&made, &path)?;
        Ok(Self { listener, file: SocketFile(path) })
    }

    /// Serves until `stopped`.
    ///
    /// # Errors
    /// The transport failed.
    pub async fn serve(
        self,
        connector: Arc<dyn Connector>,
        prefix: String,
        stopped: impl Future<Output = ()>,
    ) -> Result<(), tonic::transport::Error> {
        let connections = Connections::default();
        let incoming = UnixListenerStream::new(self.listener).filter_map(move |stream| {
            let stream = stream.ok()?;
            let full = *connections.count().borrow() >= MAX_CONNECTIONS;
            (!full).then(|| {
                Ok::<_, io::Error>(Connection::new(
                    stream,
                    Session::new(connector.clone(), &prefix),
                    connections.open(),
                ))
            })
        });
        let router = router(Controller::default()).await;
        let served = within_grace(stopped, |stopped| router.serve_with_incoming_shutdown(incoming, stopped)).await;
        drop(self.file);
        served
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
