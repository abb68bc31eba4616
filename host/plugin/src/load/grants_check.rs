//! Check that a plugin's controllers have the types that they cannot start without.

use serde_json::Value;

use crate::{
    grants::{Grants, Permit, TypeGrant},
    manifest::{controllers::ControllerDecl, document::Manifest},
};

/// A controller needs a type that is neither the plugin's own nor granted.
#[derive(Debug, thiserror::Error)]
#[error("controller {controller} {does} {kind}, which is not a type of the plugin's own; {remedy}")]
pub struct NotGranted {
    controller: String,
    /// `manages` or `watches`.
    does: &'static str,
    kind: String,
    remedy: String,
}

/// Controllers of a manifest that run with these settings, which are JSON.
pub(crate) fn running_controllers<'m>(
    manifest: &'m Manifest,
    settings: &str,
) -> impl Iterator<Item = &'m ControllerDecl> + use<'m> {
    let settings: Value = serde_json::from_str(settings).unwrap_or_default();
    let runs = move |decl: &&ControllerDecl| {
        decl.only_if.is_empty() || settings.get(&decl.only_if) == Some(&Value::Bool(true))
    };
    manifest.controllers.iter().filter(runs)
}

/// Permissions of a plugin under these grants. Controllers that do not run need none.
pub(crate) fn permit(manifest: &Manifest, grants: Grants, settings: &str) -> Result<Permit, NotGranted> {
    let own = manifest.types.iter().map(|decl| decl.gvk.clone()).collect();
    let needed = || {
        running_controllers(manifest, settings).flat_map(|controller| {
            let watched = controller.watches.iter().map(|watch| ("watches", &watch.kind));
            std::iter::once(("manages", &controller.manages)).chain(watched).map(move |need| (controller, need))
        })
    };
    let watched = needed().map(|(_, (_, gvk))| gvk.clone()).collect();
    let permit = Permit::new(&manifest.name, own, watched, manifest.requests.clone(), grants);
    match needed().find(|(_, (_, gvk))| !permit.reads(gvk)) {
        None => Ok(permit),
        Some((controller, (does, gvk))) => Err(NotGranted {
            controller: controller.name.to_string(),
            does,
            kind: gvk.to_string(),
            remedy: permit.remedy(gvk, TypeGrant::Read),
        }),
    }
}
