//! The unix socket of gRPC: a file through which local users reach the server. The kernel reports their user ids.
//!
//! Every user with access to the file may connect. Root and the server's own user are operators; all others are
//! anonymous, as on the port without a token. In a directory of the server's user alone, such as the data directory, so
//! is the socket.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use tokio::net::UnixListener;

/// The open socket.
pub(crate) struct LocalSocket {
    place: SocketFile,
    listener: UnixListener,
}

/// The socket's file, removed on drop.
pub(crate) struct SocketFile(PathBuf);

impl LocalSocket {
    /// Opens a socket, and replaces one that no process serves any more.
    ///
    /// # Errors
    /// The path is too long for a socket (107 bytes on Linux), or is a file that is not a socket.
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        remove_socket(&path)?;
        let listener = UnixListener::bind(&path)?;
        let place = SocketFile(path);
        fs::set_permissions(&place.0, Permissions::from_mode(socket_mode(&place.0)?))?;
        Ok(Self { place, listener })
    }

    /// Splits the socket into its file and its listener.
    pub(crate) fn take(self) -> (SocketFile, UnixListener) {
        (self.place, self.listener)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(e) = remove_socket(&self.0) {
            tracing::warn!("the socket {} cannot be removed: {e}", self.0.display());
        }
    }
}

/// Returns the mode of a socket: everyone's, except in a directory that others cannot enter.
fn socket_mode(path: &Path) -> io::Result<u32> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let others = fs::metadata(dir)?.permissions().mode() & 0o077;
    Ok(if others == 0 { 0o600 } else { 0o666 })
}

/// Removes a socket; fails for any other file.
fn remove_socket(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is not a socket has this path")),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}
