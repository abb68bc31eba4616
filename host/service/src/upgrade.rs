//! Upgrades of stored data from an older schema version: when it is read, and once for all in the background.
//!
//! A resource says which schema version its data is in ([`pb::Resource::schema_version`], absent for 1). When the type
//! has a higher one by now, readers get the data through the plugin's `upgrade`; so do the hooks, and so does a write
//! that compares with the stored resource. [`ResourceService::upgrade_stored`] then stores the new form, under the same
//! version and generation and without an event, since no client can see a difference.
//!
//! An upgrade costs one instance for each resource (a list shares one) until the new form is stored, and nothing
//! afterwards.

use std::sync::Arc;

use crate::registry::{Owner, Registry, ResourceType};
use mortise_plugin_host::UpgradeReply;
use mortise_resource::{Diagnostic, EncodedResource, Error, pb, types};
use mortise_store::{Batch, Consistency, Mutation, Query, TypeKey};

use crate::{caller::Caller, checked_list::is_of, hooks::RequestHooks, hooks::type_of, service::ResourceService};

/// Resources that one commit stores in their new form.
const BATCH: usize = 64;

/// The result of the upgrade of all stored resources of a type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpgradeReport {
    /// Resources of the type.
    pub seen: usize,
    /// Resources that were in an older schema version.
    pub older: usize,
    /// The first resources that could not be upgraded, by name, with the reason.
    pub failures: Vec<String>,
}

/// The schema version that a resource's data is in.
#[must_use]
pub fn schema_version(resource: &pb::Resource) -> u32 {
    resource.schema_version.max(1)
}

/// Marks a resource as being in the type's own schema version.
pub(crate) fn set_schema_version(kind: &ResourceType, resource: &mut pb::Resource) {
    // An absent field means 1, so that resources of types that never changed stay as they were.
    resource.schema_version = if kind.schema_version.get() == 1 { 0 } else { kind.schema_version.get() };
}

/// Whether data of a schema version has to be upgraded before the type's hooks and readers may see it.
pub(crate) fn is_older(kind: &ResourceType, schema_version: u32) -> bool {
    matches!(kind.owner, Owner::Plugin(_)) && schema_version < kind.schema_version.get()
}

impl RequestHooks {
    /// Upgrades a stored resource of the type to the type's schema version; does nothing to one of another type.
    ///
    /// # Errors
    /// The plugin's fault: a refusal to upgrade, or data that does not decode afterwards.
    pub(crate) async fn upgrade(&mut self, resource: &mut pb::Resource) -> Result<(), Error> {
        if !is_of(resource, &self.kind) || !is_older(&self.kind, schema_version(resource)) {
            return Ok(());
        }
        // Rare, and its future is large: boxed, it does not enlarge those of its callers.
        Box::pin(self.upgrade_older(resource)).await
    }

    /// [`RequestHooks::upgrade`] of a resource that is encoded, which is decoded if it has to be upgraded only.
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn upgraded(&mut self, stored: EncodedResource) -> Result<EncodedResource, Error> {
        if !stored.has_type(&self.kind.gvk) || !is_older(&self.kind, stored.schema_version()) {
            return Ok(stored);
        }
        let mut resource = stored.decode()?;
        Box::pin(self.upgrade_older(&mut resource)).await?;
        Ok(EncodedResource::encode(&resource)?)
    }

    async fn upgrade_older(&mut self, resource: &mut pb::Resource) -> Result<(), Error> {
        const CONTEXT: &str = "failed upgrade hook";
        let kind = self.kind.clone();
        let (since, by) = (schema_version(resource), self.caller.number());
        if let (Some(data), Some(call)) = (&mut resource.data, &mut self.call) {
            let answer = call.upgrade(kind.gvk.to_pb(), since, data.value.clone()).await;
            let unusable = |what: String| match &kind.owner {
                Owner::Plugin(plugin) => Error::from(plugin.blame_answer("upgrade", by, what)).context(CONTEXT),
                Owner::Host | Owner::Missing(_) => Error::internal(format!("{CONTEXT}: {what}")),
            };
            match answer.map_err(|e| Error::from(e).context(CONTEXT))? {
                UpgradeReply::Refused(diagnostics) => {
                    return Err(unusable(format!(
                        "it cannot upgrade data of schema version {since}: {}",
                        words(&diagnostics)
                    )));
                }
                UpgradeReply::Data(bytes) => {
                    if let Err(fault) = kind.schema.check(&bytes) {
                        let message = kind.schema.message().full_name();
                        return Err(unusable(format!(
                            "what it made of data of schema version {since} is no {message}: {fault}"
                        )));
                    }
                    data.value = bytes;
                }
            }
        }
        set_schema_version(&kind, resource);
        Ok(())
    }
}

impl ResourceService {
    /// Upgrades and stores every resource of a type that is stored in an older schema version. Goes on after failures
    /// and reports at most `max_failures` of them.
    ///
    /// Reads the type in pages, as of the commit at which it begins. Resources that are written concurrently are newer
    /// and are left alone.
    ///
    /// # Errors
    /// Faults of the store only.
    pub async fn upgrade_stored(&self, kind: &Arc<ResourceType>, max_failures: usize) -> Result<UpgradeReport, Error> {
        let failed = |e| Error::internal(format!("upgrading what is stored of {}: {e}", kind.gvk));
        let type_key = TypeKey { group: kind.gvk.group.clone(), kind: kind.gvk.kind.clone() };
        let mut tenancy = kind.scope.everywhere();
        kind.scope.fill_query(&mut tenancy);
        let query = Query { type_key, tenancy, name_prefix: String::new() };
        let mut stored = self.backend.scan(&query).await.map_err(failed)?;

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
                        self.renew_records(&mut resource);
                        upgraded.push(Mutation::Rewrite(Box::new(resource)));
                    }
                    Err(error) if report.failures.len() < max_failures => {
                        let id = resource.decode_id().ok().flatten().unwrap_or_default();
                        report.failures.push(format!("{}: {}", types::describe(&id), error.message));
                    }
                    Err(_) => {}
                }
                if upgraded.len() >= BATCH {
                    // The instance goes back while the disk is waited for.
                    hooks.release();
                    let mutations = std::mem::take(&mut upgraded);
                    self.backend.commit(Batch::new(mutations)).await.map_err(failed)?;
                }
            }
        }
        hooks.release();
        if !upgraded.is_empty() {
            self.backend.commit(Batch::new(upgraded)).await.map_err(failed)?;
        }
        Ok(report)
    }

    /// Upgrades a stored resource, which may be of another GroupVersion than that of `hooks`, to its type's schema
    /// version. One of a type that is not registered stays as it is.
    ///
    /// # Errors
    /// The plugin's fault.
    pub(crate) async fn current(
        &self,
        registry: &Registry,
        hooks: &mut RequestHooks,
        mut stored: pb::Resource,
    ) -> Result<pb::Resource, Error> {
        if is_of(&stored, &hooks.kind) {
            hooks.upgrade(&mut stored).await?;
        } else if let Ok(kind) = registry.resolve(&stored.id.as_ref().map(type_of).unwrap_or_default()) {
            hooks.release();
            RequestHooks::new(kind.clone(), &hooks.caller).upgrade(&mut stored).await?;
        }
        Ok(stored)
    }
}

fn words(diagnostics: &[Diagnostic]) -> String {
    let texts = diagnostics.iter().map(|d| d.summary.as_str()).collect::<Vec<_>>().join("; ");
    if texts.is_empty() { "it gave no reason".into() } else { texts }
}
