//! Upgrades of stored data from an older schema version, when it is read.
//!
//! A resource has the schema version of its data ([`pb::Resource::schema_version`], absent for 1). If the type has a
//! higher one by now, readers, hooks and comparing writes get the data through the plugin's `upgrade`.
//! [`crate::change::upgrade_stored`] then stores the new form.
//!
//! An upgrade costs one instance for each resource (a list shares one) until the new form is stored, and nothing
//! afterwards.

use super::hooks::RequestHooks;
use crate::{
    core::ids::type_of,
    registry::{Owner, Registry, ResourceType},
};
use mortise_plugin_host::UpgradeReply;
use mortise_resource::{Diagnostic, EncodedResource, Error, pb};

/// Returns the schema version of a resource's data.
#[must_use]
pub fn schema_version(resource: &pb::Resource) -> u32 {
    resource.schema_version.max(1)
}

/// Sets the type's own schema version in a resource.
pub(crate) fn set_schema_version(kind: &ResourceType, resource: &mut pb::Resource) {
    // An absent field means 1, so that resources of types that never changed stay as they were.
    resource.schema_version = if kind.schema_version.get() == 1 { 0 } else { kind.schema_version.get() };
}

/// Returns the oldest schema version of data that the type's hooks and readers see without an upgrade.
pub(crate) fn oldest_current(kind: &ResourceType) -> u32 {
    if let Owner::Plugin(_) = kind.owner { kind.schema_version.get() } else { 0 }
}

/// Whether data of a schema version has to be upgraded before the type's hooks and readers may see it.
pub(crate) fn is_older(kind: &ResourceType, schema_version: u32) -> bool {
    schema_version < oldest_current(kind)
}

impl RequestHooks {
    /// Upgrades a stored resource of the type to the type's schema version; leaves resources of other types alone.
    ///
    /// # Errors
    /// The plugin's fault: a refusal to upgrade, or an upgrade that does not decode.
    pub(crate) async fn upgrade(&mut self, resource: &mut pb::Resource) -> Result<(), Error> {
        if !is_of(resource, &self.kind) || !is_older(&self.kind, schema_version(resource)) {
            return Ok(());
        }
        // Boxed, since it is rare, and a large future would enlarge those of its callers.
        Box::pin(self.upgrade_older(resource)).await
    }

    /// Upgrades an encoded resource as [`RequestHooks::upgrade`]; decodes it only for an upgrade.
    ///
    /// # Errors
    /// Those of [`RequestHooks::upgrade`].
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
        if let (Some(data), Some(call)) = (&mut resource.data, self.call()) {
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
                            "its upgrade of schema version {since} is not a {message}: {fault}"
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

/// Upgrades a stored resource, possibly of another GroupVersion than that of `hooks`, to its type's schema version. A
/// resource of a type that is not registered stays as it is.
///
/// # Errors
/// The plugin's fault.
pub(crate) async fn current(
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

/// Whether a stored resource is of this very GroupVersion.
fn is_of(resource: &pb::Resource, kind: &ResourceType) -> bool {
    resource.id.as_ref().and_then(|id| id.r#type.as_ref()).is_some_and(|t| kind.gvk.matches(t))
}

fn words(diagnostics: &[Diagnostic]) -> String {
    let texts = diagnostics.iter().map(|d| d.summary.as_str()).collect::<Vec<_>>().join("; ");
    if texts.is_empty() { "it gave no reason".into() } else { texts }
}
