//! Records of references for resources that were stored before their type declared these references.
//!
//! The first deletion of a possible target reads all resources of each referring type, once, and stores missing or
//! wrong records as a rewrite, which no client sees as a change. Deletions wait for the pass. The pass goes on after
//! its first caller has gone away, so that it ends even for a type that takes longer than any client waits. The next
//! caller repeats a failed pass.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use mortise_resource::{Code, Error, pb, types::Gvk};
use mortise_store::{Batch, Mutation, Query, TypeKey};
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;

use super::records::{Strictness, records};
use crate::{
    call::{Caller, store_fault::store_fault},
    core::Core,
    registry::{Registry, ResourceType},
    rules::RequestHooks,
};

/// Resources that are stored in one commit.
const BATCH_RESOURCES: usize = 256;
/// Bytes of these resources.
const BATCH_BYTES: usize = 4 << 20;
/// Limit of sweeps over a type whose resources keep changing.
const MAX_SWEEPS: usize = 16;

/// The finished passes and those under way.
#[derive(Clone)]
pub(crate) struct RecordPasses {
    core: Core,
    passes: Arc<Mutex<HashMap<Gvk, RecordPass>>>,
}

/// A pass over a type as registered at its start.
#[derive(Default)]
struct RecordPass {
    kind: Weak<ResourceType>,
    /// Whether the pass has finished; locked while it runs.
    is_done: Arc<AsyncMutex<bool>>,
}

impl RecordPasses {
    pub(super) fn new(core: Core) -> Self {
        Self { core, passes: Arc::default() }
    }

    /// Returns the pass over a type as registered now.
    fn pass_over(&self, kind: &Arc<ResourceType>) -> Arc<AsyncMutex<bool>> {
        let mut passes = self.passes.lock();
        let known = passes.entry(kind.gvk.clone()).or_default();
        if !std::ptr::eq(known.kind.as_ptr(), Arc::as_ptr(kind)) {
            *known = RecordPass { kind: Arc::downgrade(kind), is_done: Arc::default() };
        }
        known.is_done.clone()
    }

    /// Returns once every resource that may refer to a type has its records.
    ///
    /// # Errors
    /// Faults of the store, and of the plugin that upgrades stored data.
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

    /// Sweeps over a type until nothing has to be stored: a concurrent write may have begun before the type was
    /// registered as now.
    async fn run(&self, registry: &Registry, kind: &Arc<ResourceType>) -> Result<(), Error> {
        for _ in 0..MAX_SWEEPS {
            if self.sweep(registry, kind).await? == 0 {
                return Ok(());
            }
        }
        let what = format!("resources of {} keep changing while their references are recorded; try again", kind.gvk);
        Err(Error::new(Code::Aborted, what))
    }

    /// Stores the missing and the wrong records of a type's resources. Returns the number of these resources, stored or
    /// changed meanwhile.
    async fn sweep(&self, registry: &Registry, kind: &Arc<ResourceType>) -> Result<usize, Error> {
        let failed = |e| store_fault(&format!("recording the references of resources of {}", kind.gvk), &e);
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
                // If the upgrade fails, the references in the stored schema version are better than none.
                let current = match hooks.upgraded(resource.clone()).await {
                    Ok(current) => current.decode()?,
                    Err(_) => {
                        unread += 1;
                        resource.decode()?
                    }
                };
                let known = records(registry, kind, &current, Some(&current), Strictness::Lenient)?;
                if known != current.references {
                    count += 1;
                    bytes += resource.bytes().len();
                    // The stored form, with other records.
                    let resource = pb::Resource { references: known, ..resource.decode()? };
                    rewritten.push(Mutation::Rewrite(Box::new(resource)));
                }
                if rewritten.len() >= BATCH_RESOURCES || bytes >= BATCH_BYTES {
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
