//! The provider on a socket: of a server for cores that attach to it, or of a process that core started.

mod attached;
mod connection;
mod handshake;
mod launched;
mod log;
mod plugin;
mod tls;

pub use attached::{reattach, serve_attached};
pub use handshake::{MAGIC_COOKIE, is_launched};
pub use launched::{LaunchError, launch};

/// Largest message in either direction, bytes.
const MAX_MESSAGE_BYTES: usize = 256 << 20;
