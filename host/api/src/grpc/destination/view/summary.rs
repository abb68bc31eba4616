//! Messages about a service as a whole: profiles and policies. Bytes are made once for all streams, and live as long as
//! one of them still sends them.

use std::{
    hash::{DefaultHasher, Hasher as _},
    sync::{Arc, Weak},
};

use hyper::body::Bytes;

use super::{State, StreamError, View};
use crate::{
    catalog::{ServicePort, ServiceRoutes},
    grpc::{calls::CountedBytes, destination::encode::Address},
};

/// Most addresses of a summary.
const MAX_SUMMARY_ADDRESSES: usize = 64;

/// Bytes that were made for a version, and their digest.
pub(super) struct Made {
    version: u64,
    digest: u64,
    bytes: Weak<CountedBytes>,
}

/// A kind of message about the whole service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in super::super) enum Form {
    /// The profile of a name.
    NamedProfile,
    /// The profile of a virtual address.
    AddressProfile,
    /// The policy for clients.
    Policy,
}

/// The message about the whole service.
pub(in super::super) enum Answer {
    /// The state is unknown so far.
    Unknown,
    /// The service does not exist.
    Absent,
    /// The stream has the message already.
    Same,
    /// A message, and its digest.
    Bytes(Bytes, u64),
}

/// The facts about a service that exists, for profiles and policies.
#[derive(Debug, Clone)]
pub(in super::super) struct Summary {
    /// The first addresses, at most [`MAX_SUMMARY_ADDRESSES`].
    pub(in super::super) addresses: Vec<Arc<Address>>,
    /// Whether these are all addresses.
    pub(in super::super) is_whole: bool,
    /// The port that the clients ask for, if the service lists it.
    pub(in super::super) port: Option<ServicePort>,
    pub(in super::super) routes: Arc<ServiceRoutes>,
}

impl View {
    /// The message of a form, unless the stream has it already: its digest is `last`. `make` makes the bytes, once for
    /// all streams.
    ///
    /// # Errors
    /// The service cannot be watched.
    pub(in super::super) fn message(
        &self,
        form: Form,
        last: Option<u64>,
        make: impl FnOnce(Summary) -> Vec<u8>,
    ) -> Result<Answer, StreamError> {
        let mut inner = self.inner.lock();
        match &inner.state {
            State::Unknown => return Ok(Answer::Unknown),
            State::Failed(status) => return Err(StreamError::Failed(status.clone())),
            State::Absent => return Ok(Answer::Absent),
            State::Present => {}
        }
        let version = inner.version;
        if let Some(made) = inner.made.get(&form).filter(|made| made.version == version) {
            if last == Some(made.digest) {
                return Ok(Answer::Same);
            }
            if let Some(bytes) = made.bytes.upgrade() {
                return Ok(Answer::Bytes(CountedBytes::share(bytes), made.digest));
            }
        }
        // Only until the routes are known for the first time.
        let Some(routes) = inner.routes.clone() else { return Ok(Answer::Unknown) };
        let out = make(Summary {
            addresses: inner.addresses.iter().take(MAX_SUMMARY_ADDRESSES).cloned().collect(),
            is_whole: inner.addresses.len() <= MAX_SUMMARY_ADDRESSES,
            port: inner.ports.iter().find(|port| port.port == u32::from(self.selection.port)).cloned(),
            routes,
        });
        let digest = digest(&out);
        let bytes = Arc::new(self.answers.count(out));
        inner.made.insert(form, Made { version, digest, bytes: Arc::downgrade(&bytes) });
        match last == Some(digest) {
            true => Ok(Answer::Same),
            false => Ok(Answer::Bytes(CountedBytes::share(bytes), digest)),
        }
    }
}

/// A number by which a stream knows the message that it has sent last.
pub(in crate::grpc) fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
