//! The source of controllers: the service's own watches, with data in the types' schema versions.
//!
//! Controllers that watch the same type share their copies of resources: a resource is held once in each version. That
//! costs a look-up for each event, and some 80 bytes for each held resource.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use async_trait::async_trait;
use mortise_controller::{Event, Source, SourceError, Watch};
use mortise_resource::{EncodedResource, pb};
use mortise_service::{ResourceService, TypeWatch};
use mortise_store::WatchEvent;
use parking_lot::Mutex;

/// Watches through the service.
pub struct ServiceSource {
    service: ResourceService,
    shared: Arc<Mutex<SharedCopies>>,
}

impl ServiceSource {
    /// Makes the source of a service.
    #[must_use]
    pub fn new(service: ResourceService) -> Self {
        Self { service, shared: Arc::default() }
    }
}

/// Resources in the caches of controllers, by uid.
#[derive(Default)]
struct SharedCopies {
    held: HashMap<String, Weak<EncodedResource>>,
    /// Number of entries after the last removal of unused ones.
    swept: usize,
}

impl SharedCopies {
    /// The copy that others hold of the same resource in the same version, or this one.
    fn share(&mut self, resource: EncodedResource) -> Arc<EncodedResource> {
        if let Some(known) = self.held.get(resource.uid()).and_then(Weak::upgrade)
            && known.version() == resource.version()
            && known.schema_version() == resource.schema_version()
        {
            return known;
        }
        let resource = Arc::new(resource);
        if self.held.len() > 2 * self.swept + 1_024 {
            self.held.retain(|_, held| held.strong_count() > 0);
            self.swept = self.held.len();
        }
        self.held.insert(resource.uid().to_owned(), Arc::downgrade(&resource));
        resource
    }
}

#[async_trait]
impl Source for ServiceSource {
    async fn watch(&self, resource_type: &pb::Type) -> Result<Box<dyn Watch>, SourceError> {
        let following = self.service.watch_type(resource_type).await.map_err(SourceError::new)?;
        Ok(Box::new(Followed { following, shared: self.shared.clone() }))
    }
}

struct Followed {
    following: TypeWatch,
    shared: Arc<Mutex<SharedCopies>>,
}

#[async_trait]
impl Watch for Followed {
    async fn next(&mut self) -> Result<Event, SourceError> {
        match self.following.next().await {
            Ok(WatchEvent::Upsert(resource)) => Ok(Event::Upsert(self.shared.lock().share(resource))),
            Ok(WatchEvent::Delete(resource)) => Ok(Event::Delete(Arc::new(resource))),
            Ok(WatchEvent::EndOfSnapshot) => Ok(Event::EndOfSnapshot),
            Err(e) => Err(SourceError::new(e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(uid: &str, version: &str) -> EncodedResource {
        let id = pb::Id { uid: uid.into(), ..pb::Id::default() };
        let resource = pb::Resource { id: Some(id), version: version.into(), ..pb::Resource::default() };
        EncodedResource::encode(&resource).unwrap()
    }

    #[test]
    fn what_is_known_in_the_same_version_is_held_once() {
        let mut shared = SharedCopies::default();
        let mut share = |uid: &str, version: &str| shared.share(resource(uid, version));
        let first = share("a", "1");
        assert!(Arc::ptr_eq(&first, &share("a", "1")));
        assert!(!Arc::ptr_eq(&first, &share("b", "1")));
        let second = share("a", "2");
        assert_eq!(second.version(), "2");
        assert!(Arc::ptr_eq(&second, &share("a", "2")));
    }

    #[test]
    fn what_nobody_holds_is_swept_out() {
        let mut shared = SharedCopies::default();
        for n in 0..10_000 {
            drop(shared.share(resource(&n.to_string(), "1")));
        }
        assert!(shared.held.len() <= 1_025, "{}", shared.held.len());
    }
}
