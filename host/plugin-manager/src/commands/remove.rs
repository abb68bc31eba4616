//! Removes a plugin's file from the folder, and the plugin from service.

use mortise_resource::{Error, data};

use super::{held, precondition};
use crate::{core::Core, files::folder, state::BUNDLED};

/// Returns the resource if it still exists, and what finalizers hold.
pub(crate) async fn remove(core: &Core, name: &str) -> Result<data::RemoveResponse, Error> {
    let _turn = core.turns.take(name).await;
    let mut state = core.lock().await;
    let source = state.known_record(name)?.record.data.source.clone();
    if source == BUNDLED && state.bundled(name).is_some() {
        let what = "is bundled; take it out of plugins.bundled, or disable it";
        return Err(precondition(format!("plugin {name:?} {what}")));
    }
    let provides = state.files.get(&source).and_then(|known| known.provides.as_deref());
    // An already removed plugin has left its file's name to others.
    if source != BUNDLED && provides.is_none_or(|plugin| plugin == name) {
        let (dir, file) = (core.options.plugin_dir.clone(), source.clone());
        let removed = tokio::task::spawn_blocking(move || {
            folder::remove_file(&dir, &file)?;
            folder::remove_file(&dir, &folder::signature_name(&file))
        });
        let removed = removed.await;
        let path = state.path(&source);
        let fault = |e: std::io::Error| Error::internal(format!("removing {}: {e}", path.display()));
        removed.map_err(std::io::Error::other).and_then(|removed| removed).map_err(fault)?;
        let shown = state.files.remove(&source).and_then(|known| known.shown);
        if let Some(shown) = shown.filter(|shown| shown != name) {
            state.forget(&shown).await;
        }
    }
    if !state.managed(name).is_file_only() {
        state.managed(name).remove();
    }
    let (types, backend) = (held::types(&state.registry.load(), name), state.backend.clone());
    state.remove_from_service(name).await;
    let plugin = state.resource(name);
    drop(state);
    let (held, held_incomplete) = held::list(&backend, types).await.unwrap_or_else(|error| {
        tracing::warn!(plugin = name, error = &error as &dyn std::error::Error, "held resources cannot be listed");
        (Vec::new(), true)
    });
    Ok(data::RemoveResponse { plugin, held, held_incomplete })
}
