//! Records of references for resources that were stored before their type declared these references.
//!
//! The first deletion of something that a type refers to reads the whole type, once, and stores the records that are not
//! as they should be: in the form of a rewrite, which is no change that anybody sees. Deletions wait for it. It goes on
//! when who asked first goes away, so that a type that takes longer than any client waits is through at last; one that fails
//! is begun again by the next.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use mortise_resource::{Code, Error, pb, types::Gvk};
use mortise_store::{Batch, Mutation, Query, TypeKey};
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;

use super::records::{Reading, records};
use crate::{
    call::{Caller, store_fault::store_fault},
    core::Core,
    registry::{Registry, ResourceType},
    rules::RequestHooks,
};

/// Records that are stored in one commit.
const BATCH: usize = 256;
/// Bytes of their resources.
const BATCH_BYTES: usize = 4 << 20;
/// Sweeps over a type whose resources keep changing.
const SWEEPS: usize = 16;

/// Which types have been read.
#[derive(Clone)]
pub(crate) struct RecordPasses {
    core: Core,
    passes: Arc<Mutex<HashMap<Gvk, RecordPass>>>,
}

/// The pass over a type as it was registered when it began.
#[derive(Default)]
struct RecordPass {
    kind: Weak<ResourceType>,
    /// Whether it is through; locked while it runs.
    is_done: Arc<AsyncMutex<bool>>,
}

impl RecordPasses {
    pub(super) fn new(core: Core) -> Self {
        Self { core, passes: Arc::default() }
    }

    /// The pass over a type as it is registered now.
    fn pass_over(&self, kind: &Arc<ResourceType>) -> Arc<AsyncMutex<bool>> {
        let mut passes = self.passes.lock();
        let known = passes.entry(kind.gvk.clone()).or_default();
        if !std::ptr::eq(known.kind.as_ptr(), Arc::as_ptr(kind)) {
            *known = RecordPass { kind: Arc::downgrade(kind), is_done: Arc::default() };
        }
        known.is_done.clone()
    }

    /// Returns once every resource that may refer to one of a type has its records.
    ///
    /// # Errors
    /// Faults of the store, and of the plugin that upgrades what is stored.
    pub(crate) async fn ensure_referrers(&self, registry: &Registry, group: &str, kind: &str) -> Result<(), Error> {
        for referring in registry.referring_to(group, kind) {
            self.ensure(referring).await?;
        }
        Ok(())
    }

    /// Returns once every resource of a type has its records.
    pub(super) async fn ensure(&self, kind: &Arc<ResourceType>) -> Result<(), Error> {
        if kind.references.is_empty() {
            return Ok(());
        }
        let mut is_done = self.pass_over(kind).lock_owned().await;
        if *is_done {
            return Ok(());
        }
        let (passes, kind) = (self.clone(), kind.clone());
        let pass = tokio::spawn(async move {
            passes.run(&passes.core.types(), &kind).await?;
            *is_done = true;
            Ok(())
        });
        pass.await.unwrap_or_else(|ended| Err(Error::internal(format!("recording references: {ended}"))))
    }

    /// Makes sweeps over a type until one has nothing to store: what is written meanwhile may have been begun before the
    /// type was registered as it is now.
    async fn run(&self, registry: &Registry, kind: &Arc<ResourceType>) -> Result<(), Error> {
        for _ in 0..SWEEPS {
            if self.sweep(registry, kind).await? == 0 {
                return Ok(());
            }
        }
        let what = format!("resources of {} keep changing while what they refer to is recorded; try again", kind.gvk);
        Err(Error::new(Code::Aborted, what))
    }

    /// Stores the records of resources that have not those that they should have. Returns how many there were, stored or
    /// changed meanwhile.
    async fn sweep(&self, registry: &Registry, kind: &Arc<ResourceType>) -> Result<usize, Error> {
        let failed = |e| store_fault(&format!("recording what resources of {} refer to", kind.gvk), &e);
        let type_key = TypeKey { group: kind.gvk.group.clone(), kind: kind.gvk.kind.clone() };
        let mut tenancy = kind.scope.everywhere();
        kind.scope.fill_query(&mut tenancy);
        let query = Query { type_key, tenancy, name_prefix: String::new() };
        let mut stored = self.core.backend.scan(&query).await.map_err(failed)?;
        let mut hooks = RequestHooks::new(kind.clone(), &Caller::host(mortise_store::Consistency::Eventual));
        let (mut rewritten, mut bytes, mut count, mut unread) = (Vec::new(), 0, 0, 0_usize);
        loop {
            hooks.release();
            let Some(page) = stored.next().await.map_err(failed)? else { break };
            for resource in page.into_iter().filter(|resource| resource.has_type(&kind.gvk)) {
                hooks.next_item();
                // Of one that cannot be upgraded what it says in its own version is better than nothing.
                let current = match hooks.upgraded(resource.clone()).await {
                    Ok(current) => current.decode()?,
                    Err(_) => {
                        unread += 1;
                        resource.decode()?
                    }
                };
                let known = records(registry, kind, &current, Some(&current), Reading::Lenient)?;
                if known != current.references {
                    count += 1;
                    bytes += resource.bytes().len();
                    // In the form in which it is stored, but for the records.
                    let resource = pb::Resource { references: known, ..resource.decode()? };
                    rewritten.push(Mutation::Rewrite(Box::new(resource)));
                }
                if rewritten.len() >= BATCH || bytes >= BATCH_BYTES {
                    hooks.release();
                    bytes = 0;
                    self.core.backend.commit(Batch::new(std::mem::take(&mut rewritten))).await.map_err(failed)?;
                }
            }
            tokio::task::yield_now().await;
        }
        if !rewritten.is_empty() {
            self.core.backend.commit(Batch::new(rewritten)).await.map_err(failed)?;
        }
        if unread > 0 {
            tracing::warn!(r#type = %kind.gvk, unread, "resources that their plugin cannot upgrade refer to what they say in their own schema version");
        }
        Ok(count)
    }
}
