//! Whether a plugin's controllers have the types that they cannot start without.

use crate::{
    grants::{Grants, Permit, TypeGrant},
    manifest::document::Manifest,
};

/// A controller needs a type that is neither the plugin's own nor granted.
#[derive(Debug, thiserror::Error)]
#[error("controller {controller} {does} {of}, which is not a type of the plugin's own; {remedy}")]
pub struct NotGranted {
    controller: String,
    /// `manages` or `watches`.
    does: &'static str,
    of: String,
    remedy: String,
}

/// What the plugin of a manifest may do with these grants.
pub(crate) fn permit(manifest: &Manifest, grants: Grants) -> Result<Permit, NotGranted> {
    let own = manifest.types.iter().map(|decl| decl.gvk.clone()).collect();
    let needed = || {
        manifest.controllers.iter().flat_map(|controller| {
            let watched = controller.watches.iter().map(|watch| ("watches", &watch.of));
            std::iter::once(("manages", &controller.manages)).chain(watched).map(move |need| (controller, need))
        })
    };
    let watched = needed().map(|(_, (_, of))| of.clone()).collect();
    let permit = Permit::new(&manifest.name, own, watched, manifest.requests.clone(), grants);
    match needed().find(|(_, (_, of))| !permit.reads(of)) {
        None => Ok(permit),
        Some((controller, (does, of))) => Err(NotGranted {
            controller: controller.name.to_string(),
            does,
            of: of.to_string(),
            remedy: permit.remedy(of, TypeGrant::Read),
        }),
    }
}
