//! Records for resources that were stored before their type declared the references that it has now.
//!
//! The first deletion of something that a type refers to reads the whole type, once, and stores the records that are not
//! as they should be: in the form of a rewrite, which is no change that anybody sees. Deletions wait for it; one that
//! fails is begun again by the next.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use mortise_resource::{Error, pb, types::Gvk};
use mortise_store::{Batch, Mutation, Query, TypeKey};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::records::records;
use crate::{
    caller::Caller,
    hooks::RequestHooks,
    registry::{Registry, ResourceType},
    service::ResourceService,
    store_fault::store_fault,
};

/// Records that are stored in one commit.
const BATCH: usize = 256;

/// Which types have been read.
#[derive(Clone, Default)]
pub(crate) struct RecordPasses(Arc<Mutex<HashMap<Gvk, RecordPass>>>);

/// The pass over a type as it was registered when it began.
#[derive(Default)]
struct RecordPass {
    of: Weak<ResourceType>,
    done: Arc<OnceCell<()>>,
}

impl RecordPasses {
    /// The pass over a type as it is registered now.
    fn of(&self, kind: &Arc<ResourceType>) -> Arc<OnceCell<()>> {
        let mut passes = self.0.lock();
        let known = passes.entry(kind.gvk.clone()).or_default();
        if !std::ptr::eq(known.of.as_ptr(), Arc::as_ptr(kind)) {
            *known = RecordPass { of: Arc::downgrade(kind), done: Arc::default() };
        }
        known.done.clone()
    }
}

impl ResourceService {
    /// Returns once every resource that may refer to one of a type has its records.
    ///
    /// # Errors
    /// Faults of the store, and of the plugin that upgrades what is stored.
    pub(crate) async fn records_of_referrers(&self, registry: &Registry, group: &str, kind: &str) -> Result<(), Error> {
        for referring in registry.referring_to(group, kind) {
            self.records_of(registry, referring).await?;
        }
        Ok(())
    }

    /// Returns once every resource of a type has its records.
    pub(crate) async fn records_of(&self, registry: &Registry, kind: &Arc<ResourceType>) -> Result<(), Error> {
        if kind.references.is_empty() {
            return Ok(());
        }
        self.record_passes.of(kind).get_or_try_init(|| self.pass(registry, kind)).await.copied()
    }

    async fn pass(&self, registry: &Registry, kind: &Arc<ResourceType>) -> Result<(), Error> {
        let failed = |e| store_fault(&format!("recording what resources of {} refer to", kind.gvk), &e);
        let type_key = TypeKey { group: kind.gvk.group.clone(), kind: kind.gvk.kind.clone() };
        let mut tenancy = kind.scope.everywhere();
        kind.scope.fill_query(&mut tenancy);
        let query = Query { type_key, tenancy, name_prefix: String::new() };
        let mut stored = self.backend.scan(&query).await.map_err(failed)?;
        let mut hooks = RequestHooks::new(kind.clone(), &Caller::host(crate::Consistency::Eventual));
        let mut rewritten = Vec::new();
        loop {
            hooks.release();
            let Some(page) = stored.next().await.map_err(failed)? else { break };
            for resource in page.into_iter().filter(|resource| resource.is_of(&kind.gvk)) {
                hooks.next_item();
                let current = hooks.upgraded(resource).await?.decode()?;
                let known = records(registry, kind, &current, Some(&current))?;
                if known != current.references {
                    rewritten.push(Mutation::Rewrite(Box::new(pb::Resource { references: known, ..current })));
                }
            }
            if rewritten.len() >= BATCH {
                hooks.release();
                self.backend.commit(Batch::of_all(std::mem::take(&mut rewritten))).await.map_err(failed)?;
            }
            tokio::task::yield_now().await;
        }
        if !rewritten.is_empty() {
            self.backend.commit(Batch::of_all(rewritten)).await.map_err(failed)?;
        }
        Ok(())
    }
}
