//! The upgrade of all stored resources of a type, in the background.
//!
//! The new form is stored under the same version and generation and without an event, since no client can see a
//! difference.

use std::sync::Arc;

use mortise_resource::{Error, types};
use mortise_store::{Batch, Consistency, Mutation, Query, TypeKey};

use super::changes::Changes;
use crate::{
    call::Caller,
    references::renew_records,
    registry::ResourceType,
    rules::{RequestHooks, upgrade::is_older},
};

/// Resources in one commit.
const BATCH_RESOURCES: usize = 64;

/// The result of the upgrade of all stored resources of a type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpgradeReport {
    /// Resources of the type.
    pub seen: usize,
    /// Resources in an older schema version.
    pub older: usize,
    /// The first resources that could not be upgraded, by name, with the reason.
    pub failures: Vec<String>,
}

impl Changes {
    /// Upgrades and stores every resource of a type in an older schema version. Goes on after failures and reports at
    /// most `max_failures` of them.
    ///
    /// Reads the type in pages, as of the commit at which it begins. Concurrently written resources are newer, and stay
    /// as they are.
    ///
    /// # Errors
    /// Faults of the store only.
    pub(crate) async fn upgrade_stored(
        &self,
        kind: &Arc<ResourceType>,
        max_failures: usize,
    ) -> Result<UpgradeReport, Error> {
        let failed = |e| Error::internal(format!("cannot upgrade the stored resources of {}: {e}", kind.gvk));
        let type_key = TypeKey { group: kind.gvk.group.clone(), kind: kind.gvk.kind.clone() };
        let mut tenancy = kind.scope.everywhere();
        kind.scope.fill_query(&mut tenancy);
        let query = Query { type_key, tenancy, name_prefix: String::new() };
        let mut stored = self.core.backend.scan(&query).await.map_err(failed)?;

        let mut hooks = RequestHooks::new(kind.clone(), &Caller::host(Consistency::Eventual));
        let mut report = UpgradeReport::default();
        let mut upgraded = Vec::new();
        while let Some(page) = {
            hooks.release();
            stored.next().await.map_err(failed)?
        } {
            for resource in page {
                if !resource.has_type(&kind.gvk) {
                    continue;
                }
                report.seen += 1;
                if !is_older(kind, resource.schema_version()) {
                    continue;
                }
                report.older += 1;
                hooks.next_item();
                match hooks.upgraded(resource.clone()).await.and_then(|resource| Ok(resource.decode()?)) {
                    Ok(mut resource) => {
                        renew_records(&self.core, &mut resource);
                        upgraded.push(Mutation::Rewrite(Box::new(resource)));
                    }
                    Err(error) if report.failures.len() < max_failures => {
                        let id = resource.decode_id().ok().flatten().unwrap_or_default();
                        report.failures.push(format!("{}: {}", types::describe(&id), error.message));
                    }
                    Err(_) => {}
                }
                if upgraded.len() >= BATCH_RESOURCES {
                    // The instance is free during the write to disk.
                    hooks.release();
                    let mutations = std::mem::take(&mut upgraded);
                    self.core.backend.commit(Batch::new(mutations)).await.map_err(failed)?;
                }
            }
        }
        hooks.release();
        if !upgraded.is_empty() {
            self.core.backend.commit(Batch::new(upgraded)).await.map_err(failed)?;
        }
        Ok(report)
    }
}
