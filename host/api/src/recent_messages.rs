//! The messages about recent events, made once for all watches that send them.
//!
//! # Cost and limits
//! A lock and a look at the latest messages for each event that a watch sends by itself. The latest [`MAX_MESSAGES`]
//! are kept, of resources of up to [`MAX_RESOURCE_BYTES`] each: 1 MiB at most as gRPC messages, and some MiB as texts.
//! Clients that have not read a message yet share its bytes, up to the size at which answers are sent in pieces.

use std::collections::VecDeque;

use hyper::body::Bytes;
use mortise_resource::EncodedResource;
use parking_lot::Mutex;

/// Most messages that are kept.
const MAX_MESSAGES: usize = 16;
/// Most bytes of a resource whose message is kept.
const MAX_RESOURCE_BYTES: usize = 64 << 10;

/// The latest messages `M` about resources, in each form `F`.
pub(crate) struct RecentMessages<F, M> {
    latest_first: Mutex<VecDeque<RecentMessage<F, M>>>,
}

/// A message, recognized by the address of its resource's bytes. They are kept, so no others can take their address.
struct RecentMessage<F, M> {
    resource: Bytes,
    form: F,
    message: M,
}

impl<F, M> Default for RecentMessages<F, M> {
    fn default() -> Self {
        Self { latest_first: Mutex::default() }
    }
}

impl<F: PartialEq, M: Clone> RecentMessages<F, M> {
    /// Returns the message about a resource in a form; `make` makes it.
    ///
    /// # Errors
    /// The fault of `make`.
    pub(crate) fn message<E>(
        &self,
        resource: &EncodedResource,
        form: F,
        make: impl FnOnce() -> Result<M, E>,
    ) -> Result<M, E> {
        let resource = resource.bytes();
        if resource.len() > MAX_RESOURCE_BYTES {
            return make();
        }
        let is_same = |known: &&RecentMessage<F, M>| {
            (known.resource.as_ptr(), known.resource.len()) == (resource.as_ptr(), resource.len()) && known.form == form
        };
        if let Some(known) = self.latest_first.lock().iter().find(is_same) {
            return Ok(known.message.clone());
        }
        let message = make()?;
        let mut recent = self.latest_first.lock();
        // Another watch may have made it meanwhile.
        if recent.iter().any(|known| is_same(&known)) {
            return Ok(message);
        }
        recent.truncate(MAX_MESSAGES - 1);
        recent.push_front(RecentMessage { resource: resource.clone(), form, message: message.clone() });
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use mortise_resource::pb;

    use super::*;

    fn resource(version: &str, bytes: usize) -> EncodedResource {
        let data = prost_types::Any { type_url: "t".into(), value: vec![7; bytes] };
        let resource = pb::Resource { version: version.into(), data: Some(data), ..pb::Resource::default() };
        EncodedResource::encode(&resource).unwrap()
    }

    #[test]
    fn a_message_is_made_once_for_each_resource_and_form() {
        let recent = RecentMessages::default();
        let mut made = 0;
        let mut ask = |resource: &EncodedResource, form: u8| {
            let make = || {
                made += 1;
                Ok::<_, Infallible>(made)
            };
            recent.message(resource, form, make).unwrap()
        };
        let (first, same_content) = (resource("1", 10), resource("1", 10));
        assert_eq!([ask(&first, 0), ask(&first, 0), ask(&first, 1), ask(&first, 0)], [1, 1, 2, 1]);
        assert_eq!(ask(&same_content, 0), 3, "recognized by its address");
        let large = resource("1", MAX_RESOURCE_BYTES + 1);
        assert_eq!([ask(&large, 0), ask(&large, 0)], [4, 5]);
        for n in 0..MAX_MESSAGES {
            ask(&resource(&n.to_string(), 10), 0);
        }
        assert_eq!(ask(&first, 0), 6 + MAX_MESSAGES, "pushed out by later ones");
        assert_eq!(recent.latest_first.lock().len(), MAX_MESSAGES);
        assert_eq!(recent.message(&resource("2", 10), 0, || Err("unmade")), Err("unmade"));
        assert_eq!(recent.latest_first.lock().len(), MAX_MESSAGES, "a fault is not kept");
    }
}
