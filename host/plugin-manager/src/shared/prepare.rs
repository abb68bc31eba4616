//! The start of a server that shares its store: the components of the plans are in the folder before it is read.

use std::path::Path;

use mortise_resource::data;
use mortise_store::StoreError;

use super::{PlannedComponent, Shared, StoredPlan, Wanted};
use crate::{core::Core, files::folder, state::BUNDLED};

/// Reason why a plan is not followed before the start.
#[derive(Debug, thiserror::Error)]
enum PrepareError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the plugin folder cannot be changed: {0}")]
    Folder(#[from] std::io::Error),
    #[error(transparent)]
    Thread(#[from] tokio::task::JoinError),
    #[error("the shared store does not have its component {0}")]
    Missing(String),
    #[error("its component {0} in the shared store has other content; install it again")]
    Damaged(String),
}

impl Core {
    /// Puts the planned components into the folder, and takes out those that were removed. A fault is logged, and the
    /// plans are followed after the start.
    pub(crate) async fn prepare(&self) {
        let Some(shared) = &self.options.shared else { return };
        let plans = match shared.plans.list().await {
            Ok(plans) => plans,
            Err(error) => {
                return tracing::warn!(%error, "the plans for plugins cannot be read; they are followed later");
            }
        };
        for stored in plans {
            let name = stored.plan.plugin.clone();
            if let Err(error) = self.prepare_plugin(shared, stored).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(plugin = name, error, "the plan is followed after the start");
            }
        }
    }

    async fn prepare_plugin(&self, shared: &Shared, stored: StoredPlan) -> Result<(), PrepareError> {
        let (plan, is_stopped) = (&stored.plan, stored.reports.iter().any(|report| report.fault.is_some()));
        let Some(PlannedComponent { digest, signature }) = &plan.component else { return Ok(()) };
        let own = {
            let mut state = self.lock().await;
            if plan.wanted != Wanted::Removed {
                state.planned.insert(digest.clone());
            }
            let own = state.resources.stored().into_iter().find(|(name, _)| *name == plan.plugin);
            own.map(|(_, record)| record.data)
        };
        let (dir, limit) = (self.options.plugin_dir.clone(), self.sandbox.limits().component_bytes);
        let file = file_of(&plan.plugin, own.as_ref(), &dir);
        let path = dir.join(&file);
        let current =
            tokio::task::spawn_blocking(move || folder::read(&path, limit).ok().map(|bytes| folder::digest(&bytes)));
        let current = current.await?;
        let is_current = current.as_ref() == Some(digest);
        match plan.wanted {
            Wanted::Removed if is_current => {
                tracing::info!(plugin = plan.plugin, file, "another server has removed the plugin meanwhile");
                tokio::task::spawn_blocking(move || {
                    folder::remove_file(&dir, &file)?;
                    folder::remove_file(&dir, &folder::signature_name(&file))
                })
                .await??;
            }
            Wanted::Serve if !is_current && !keeps(own.as_ref(), digest, current.as_deref(), is_stopped) => {
                let content = shared.plans.component(digest).await?;
                let content = content.ok_or_else(|| PrepareError::Missing(digest.clone()))?;
                if folder::digest(&content) != *digest {
                    return Err(PrepareError::Damaged(digest.clone()));
                }
                tracing::info!(plugin = plan.plugin, file, digest, "the component comes from the shared store");
                let signature = signature.clone();
                tokio::task::spawn_blocking(move || {
                    folder::put_plugin(&dir, &file, Some(&content), signature.as_deref())
                })
                .await??;
            }
            // A plugin that is disabled is not loaded where it never was.
            Wanted::Removed | Wanted::Serve | Wanted::Disabled => {}
        }
        Ok(())
    }
}

/// Returns the file of a plugin: the one that it came from, or that of an install.
fn file_of(plugin: &str, own: Option<&data::Plugin>, dir: &Path) -> String {
    let source = own.map(|data| data.source.as_str()).filter(|source| !source.is_empty() && *source != BUNDLED);
    match source {
        Some(source) if dir.join(source).exists() => source.to_owned(),
        _ => format!("{plugin}.wasm"),
    }
}

/// Returns whether the file stays although it is not the planned component: the planned one is served beside it after a
/// rollback, or other servers could not load it.
fn keeps(own: Option<&data::Plugin>, planned: &str, current: Option<&str>, is_stopped: bool) -> bool {
    let Some(own) = own else { return false };
    let is_rolled_back = own.digest == planned && own.rolled_back && current == Some(own.held_digest.as_str());
    is_rolled_back || is_stopped && current.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_stays_after_a_rollback_and_after_a_stop() {
        let own = data::Plugin { digest: "new".into(), ..data::Plugin::default() };
        let rolled_back =
            data::Plugin { digest: "old".into(), rolled_back: true, held_digest: "new".into(), ..own.clone() };
        assert!(keeps(Some(&rolled_back), "old", Some("new"), false));
        assert!(!keeps(Some(&rolled_back), "newer", Some("new"), false));
        assert!(!keeps(Some(&own), "newer", Some("new"), false));
        assert!(keeps(Some(&own), "newer", Some("new"), true));
        assert!(!keeps(Some(&own), "newer", None, true), "there is nothing to keep");
        assert!(!keeps(None, "newer", Some("new"), true));
    }
}
