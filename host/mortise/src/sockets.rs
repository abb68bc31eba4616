//! Unix sockets of the server, as streams of connections.
//!
//! # Contract
//! - [`LocalSocket::open`] takes a free name, or that of a killed server's socket. A socket that a process serves
//!   stays, and so does a file that is not a socket.
//! - The name is compared with the open socket at each [`LOOK_INTERVAL`]. After a removal the socket is made again,
//!   which the log reports. Open connections serve on. If another file has the name, or the system refuses, the log has
//!   the reason, once, and each further look is an attempt.
//! - The end of the stream removes the name, unless another file has it.
//!
//! A look removes nothing, and the system gives a name to one socket alone. So of two servers with one name, neither
//! takes it from the other.

use std::{
    fs::{self, Metadata, Permissions},
    io::{self, ErrorKind},
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use futures::{StreamExt as _, stream, stream::BoxStream};
use rustix::fs::{Mode, fchmod};
use tokio::{
    net::{UnixListener, UnixSocket, UnixStream},
    time::{Interval, MissedTickBehavior, interval, sleep},
};

/// Time between two looks at a name.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Wait after a failed accept.
const ACCEPT_RETRY_WAIT: Duration = Duration::from_millis(500);

/// Connections that wait to be accepted. The system may have a lower limit.
const BACKLOG: u32 = 1_024;

/// Longest path of a socket on Linux, bytes.
const MAX_PATH_BYTES: usize = 107;

/// Users that may connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Every user, if others may enter the directory.
    All,
    /// The user of the server, and root.
    Own,
}

/// An open socket.
pub(crate) struct LocalSocket {
    // Dropped before the listener: a name without a process behind it may be taken by another server.
    name: Name,
    listener: UnixListener,
    access: Access,
    looks: Interval,
    /// The logged reason why new clients do not find the socket.
    fault: Option<String>,
}

impl LocalSocket {
    /// Opens a socket.
    ///
    /// # Errors
    /// The name is taken or too long, or the file system refuses it.
    pub(crate) async fn open(path: PathBuf, access: Access) -> io::Result<Self> {
        remove_abandoned(&path).await?;
        let (name, listener) = bind(path, access)?;
        let mut looks = interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self { name, listener, access, looks, fault: None })
    }

    /// The connections, without an end. Dropping the stream closes the socket.
    pub(crate) fn connections(self) -> BoxStream<'static, UnixStream> {
        stream::unfold(self, async |mut socket| Some((socket.next().await, socket))).boxed()
    }

    async fn next(&mut self) -> UnixStream {
        loop {
            tokio::select! {
                // Connections that wait come before a new socket.
                biased;
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => return stream,
                    Err(e) => {
                        tracing::warn!("the unix socket {} cannot accept a connection: {e}", self.name.path.display());
                        sleep(ACCEPT_RETRY_WAIT).await;
                    }
                },
                _ = self.looks.tick() => self.look(),
            }
        }
    }

    /// Makes the socket again if its name is gone.
    fn look(&mut self) {
        let path = self.name.path.clone();
        let fault = match fs::symlink_metadata(&path) {
            Ok(found) if self.name.is(&found) => None,
            Ok(_) => Some("another file has its name; remove that file".to_owned()),
            Err(e) if e.kind() == ErrorKind::NotFound => match bind(path.clone(), self.access) {
                Ok((name, listener)) => {
                    (self.name, self.listener) = (name, listener);
                    tracing::warn!("the unix socket {} was removed, and is made again", path.display());
                    None
                }
                Err(e) => Some(format!("it was removed, and cannot be made again: {e}")),
            },
            Err(e) => Some(e.to_string()),
        };
        if let Some(fault) = &fault
            && self.fault.as_ref() != Some(fault)
        {
            tracing::warn!("new clients do not find the unix socket {}: {fault}", path.display());
        }
        self.fault = fault;
    }
}

/// The name of a socket, removed on drop.
struct Name {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Name {
    /// Whether the file is this socket. The system gives its inode to no other file while it is open.
    fn is(&self, found: &Metadata) -> bool {
        (found.dev(), found.ino()) == (self.device, self.inode)
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let removed = match fs::symlink_metadata(&self.path) {
            Ok(found) if self.is(&found) => fs::remove_file(&self.path),
            _ => return,
        };
        if let Err(e) = removed {
            tracing::warn!("the unix socket {} cannot be removed: {e}", self.path.display());
        }
    }
}

/// Makes a socket whose name is free.
fn bind(path: PathBuf, access: Access) -> io::Result<(Name, UnixListener)> {
    if path.as_os_str().len() > MAX_PATH_BYTES {
        let why = format!("the path has more than {MAX_PATH_BYTES} bytes, the most for a socket; choose a shorter one");
        return Err(io::Error::new(ErrorKind::InvalidInput, why));
    }
    let socket = UnixSocket::new_stream()?;
    // The file has the mode of the socket from its first moment on.
    fchmod(&socket, Mode::from_raw_mode(0o600))?;
    socket.bind(&path)?;
    let made = fs::symlink_metadata(&path)?;
    let name = Name { path, device: made.dev(), inode: made.ino() };
    if access == Access::All && admits_others(&name.path)? {
        fs::set_permissions(&name.path, Permissions::from_mode(0o666))?;
    }
    Ok((name, socket.listen(BACKLOG)?))
}

/// Returns whether other users may enter the directory of the path.
fn admits_others(path: &Path) -> io::Result<bool> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(fs::metadata(dir)?.permissions().mode() & 0o077 != 0)
}

/// Removes a socket that no process serves.
async fn remove_abandoned(path: &Path) -> io::Result<()> {
    let taken = |why| Err(io::Error::new(ErrorKind::AlreadyExists, why));
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
        Ok(found) if !found.file_type().is_socket() => {
            return taken("a file that is not a socket has this path; remove it, or choose another path");
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path).await {
        Err(e) if e.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(e) if e.kind() != ErrorKind::WouldBlock => Err(e),
        Ok(_) | Err(_) => taken("another process serves the socket at this path; choose another path"),
    }
}
