//! The body of a request while a call may want it: what the call leaves is read to its end, so that the client reads the
//! answer.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::body::{Body, Bytes};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;

use super::super::body;

/// The body of a request. Cheap to clone; clones share it.
#[derive(Clone)]
pub(super) struct RequestBody(Arc<Mutex<Option<Body>>>);

impl From<Body> for RequestBody {
    fn from(body: Body) -> Self {
        Self(Arc::new(Mutex::new(Some(body))))
    }
}

impl RequestBody {
    /// Takes the body; empty if it was taken before.
    pub(super) fn take(&self) -> Body {
        self.0.lock().take().unwrap_or_default()
    }

    /// Takes the body for as long as it is read.
    pub(super) fn lend(&self) -> LentBody {
        LentBody { body: self.take(), owner: self.clone(), last: Instant::now() }
    }

    /// Reads and drops what is left, within the bounds of [`body::drain`].
    pub(super) async fn drain(&self, within: Duration) {
        body::drain(self.take(), within).await;
    }
}

/// A body that returns to its request, unless its client has sent nothing for [`SILENCE`].
pub(super) struct LentBody {
    body: Body,
    owner: RequestBody,
    /// Time of the last piece.
    last: Instant,
}

/// Silence after which the rest of a body is not waited for.
const SILENCE: Duration = Duration::from_millis(500);

impl LentBody {
    /// The next piece; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, axum::Error>> {
        let frame = self.body.frame().await?;
        self.last = Instant::now();
        Some(frame.map(|frame| frame.into_data().unwrap_or_default()))
    }
}

impl Drop for LentBody {
    fn drop(&mut self) {
        if self.last.elapsed() < SILENCE {
            *self.owner.0.lock() = Some(std::mem::take(&mut self.body));
        }
    }
}
