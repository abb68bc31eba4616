//! The way to the owner over the simulated network: the real calls, on a channel that reconnects by itself.

use std::{io, sync::Arc, time::Duration};

use async_trait::async_trait;
use hyper_util::rt::TokioIo;
use tonic::transport::{Endpoint, Uri};
use tower::service_fn;
use turmoil::net::TcpStream;

use super::server::PORT;
use crate::{
    error::FollowError,
    link::{Connection, Dial, PeerCalls},
};

/// Time of silence before the connection is probed, and the longest wait for the probe's answer.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// The way to the owner.
pub(super) struct Wire(Connection);

impl Wire {
    /// Makes a way to the owner, a region, that opens at its first call.
    pub(super) fn new(region: &str) -> Self {
        let endpoint = Endpoint::from_static("http://eu")
            .connect_timeout(KEEP_ALIVE)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        let connect = async |_: Uri| Ok::<_, io::Error>(TokioIo::new(TcpStream::connect(("eu", PORT)).await?));
        Self(Connection::over(region, endpoint.connect_with_connector_lazy(service_fn(connect))))
    }
}

#[async_trait]
impl Dial for Wire {
    async fn open(&self) -> Result<Arc<dyn PeerCalls>, FollowError> {
        Ok(Arc::new(self.0.clone()))
    }
}
