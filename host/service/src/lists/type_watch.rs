//! Watches for controllers of this process: every resource of a type in every tenancy, upgraded to the type's schema
//! version. They call no authorize hook, and do not count against the limit of watches: controllers declare their
//! number.

use mortise_resource::{Error, pb, types::Gvk};
use mortise_store::{Consistency, Watch, WatchEvent};

use crate::{
    call::{Caller, store_fault::ended},
    core::{Core, ids::query_everywhere},
    rules::RequestHooks,
};

/// An open watch. Dropping it closes it.
pub struct TypeWatch {
    core: Core,
    wanted: Gvk,
    watch: Box<dyn Watch>,
}

impl TypeWatch {
    /// Watches a registered type: its snapshot, the end of the snapshot, and every change. A resource that is
    /// later written under another GroupVersion arrives as deleted.
    ///
    /// # Errors
    /// `InvalidArgument`: the type is not registered. `Internal`: the store failed.
    pub(crate) async fn open(core: &Core, name: &pb::Type) -> Result<Self, Error> {
        let kind = core.types().resolve(name)?.clone();
        let watch = core.backend.watch_list(&query_everywhere(name), None).await;
        let watch = watch.map_err(|e| Error::internal(format!("watching {}: {e}", kind.gvk)))?;
        Ok(Self { core: core.clone(), wanted: kind.gvk.clone(), watch })
    }

    /// Waits for the next event. After an error the watch is dead.
    ///
    /// # Errors
    /// `Aborted`: the reader is too far behind, or the store closes. `InvalidArgument`: the type is no longer
    /// registered. `Internal`: data of an older schema version cannot be upgraded.
    pub async fn next(&mut self) -> Result<WatchEvent, Error> {
        loop {
            let event = self.watch.next().await.map_err(|e| ended(&e))?;
            let resource = match event {
                WatchEvent::EndOfSnapshot => return Ok(event),
                WatchEvent::Upsert(resource) => resource,
                WatchEvent::Delete(resource) if resource.has_type(&self.wanted) => {
                    return Ok(WatchEvent::Delete(resource));
                }
                WatchEvent::Delete(_) => continue,
            };
            let registry = self.core.types();
            let kind = registry.resolve_type(&self.wanted)?;
            if resource.has_type(&kind.gvk) {
                let mut hooks = RequestHooks::new(kind.clone(), &Caller::host(Consistency::Eventual));
                return hooks.upgraded(resource).await.map(WatchEvent::Upsert);
            }
        }
    }
}
