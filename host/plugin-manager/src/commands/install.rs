//! Loads a component from a caller, and puts it into the folder.

use mortise_plugin_host::Plugin;
use mortise_resource::{
    Error, name,
    pb::{self, condition::State},
};

use super::{
    load::{EndedLoad, OperatorLoad},
    precondition,
};
use crate::{
    core::Core,
    files::folder,
    load::{
        request::{LoadEffect, LoadReason, LoadRefusal, LoadRequest},
        stage::{Failure, Stage},
    },
    state::{BUNDLED, ManagerState, short},
    trust::Origin,
};

/// Name of a component in errors until its own is known.
const UPLOAD: &str = "the upload";

/// The name and the version that a component gives itself.
pub(crate) struct OwnNames {
    pub(crate) name: String,
    pub(crate) version: String,
}

/// Asks a component for its name and version. It must be trusted as for a load, since its code runs for that; the
/// compiled code stays in the cache for the load.
pub(crate) async fn own_names(core: &Core, bytes: Vec<u8>, signature: Option<Vec<u8>>) -> Result<OwnNames, Error> {
    let request = LoadRequest {
        source: UPLOAD.to_owned(),
        digest: folder::digest(&bytes),
        bytes,
        origin: Origin::Caller,
        signature: Ok(signature),
        reason: LoadReason::Install(String::new()),
        plugin_before: None,
    };
    core.verify(&request).await.map_err(Failure::into_error)?;
    let _place = core.work.place().await;
    let manifest =
        Plugin::describe(&core.sandbox, UPLOAD, &request.bytes).await.map_err(|e| Failure::from(e).into_error())?;
    Ok(OwnNames { name: manifest.name.to_string(), version: manifest.version.to_string() })
}

/// Checks the name for a plugin.
pub(super) fn check_name(name: &str) -> Result<(), Error> {
    name::fault(name).map_or(Ok(()), |fault| {
        let fault = fault.replace("a resource name", "a plugin's name");
        Err(Error::invalid(format!("name invalid: {fault}")))
    })
}

/// Returns the resource, and whether it was up to date already.
pub(crate) async fn install(
    core: &Core,
    name: &str,
    bytes: Vec<u8>,
    signature: Option<Vec<u8>>,
) -> Result<(pb::Resource, bool), Error> {
    check_name(name)?;
    let mut load = OperatorLoad::begin(core, name).await;
    let request = load.state.install_request(name, bytes, signature)?;
    load.state.show_first_install(name, &request).await;
    let EndedLoad { mut state, request, outcome, _turn } = load.run(core, request).await;
    match outcome {
        Ok(loaded) => {
            let file = state.file(&request.source);
            file.provides = Some(name.to_owned());
            if let Some(shown) = file.shown.take().filter(|shown| shown != name) {
                state.forget(&shown).await;
            }
            Ok((state.answer(name)?, loaded.change == LoadEffect::Nothing))
        }
        Err(refusal) => Err(state.refuse_install(name, request, refusal).await),
    }
}

impl ManagerState {
    pub(super) fn install_request(
        &self,
        name: &str,
        bytes: Vec<u8>,
        signature: Option<Vec<u8>>,
    ) -> Result<LoadRequest, Error> {
        let mut file = format!("{name}.wasm");
        let mut plugin_before = None;
        if let Some(managed) = self.plugins.get(name).filter(|managed| !managed.is_file_only()) {
            let data = &managed.record.data;
            if data.source == BUNDLED && self.options.bundled.iter().any(|(bundled, _)| *bundled == name) {
                let what = "is bundled and enabled; take it out of plugins.bundled to install another one";
                return Err(precondition(format!("plugin {name:?} {what}")));
            }
            if managed.is_disabled() {
                let what = if managed.is_removed() {
                    " and its file is gone; remove the plugin first"
                } else {
                    "; enable it first"
                };
                return Err(precondition(format!("plugin {name:?} is disabled{what}")));
            }
            if data.source != BUNDLED && self.path(&data.source).exists() {
                file.clone_from(&data.source);
            }
            plugin_before = Some(name.to_owned());
        }
        if let Some(other) = self.files.get(&file).and_then(|known| known.provides.as_deref()).filter(|n| *n != name) {
            return Err(precondition(format!("the file {file} provides plugin {other:?}; remove that plugin first")));
        }
        let digest = folder::digest(&bytes);
        let (origin, signature, reason) = (Origin::Caller, Ok(signature), LoadReason::Install(name.to_owned()));
        Ok(LoadRequest { source: file, bytes, digest, origin, signature, reason, plugin_before })
    }

    /// Shows a plugin that is installed for the first time, while it is compiled and checked. Its record goes if the
    /// install is refused, or, after a kill, at the next start.
    async fn show_first_install(&mut self, name: &str, request: &LoadRequest) {
        if request.plugin_before.is_some() || self.plugins.contains_key(name) {
            return;
        }
        self.managed(name).record.data.source.clone_from(&request.source);
        let text = format!("{} of {}", short(&request.digest), request.source);
        self.set_loaded(name, State::Unknown, Stage::Compiling.reason(), text).await;
    }

    async fn refuse_install(&mut self, name: &str, request: LoadRequest, refusal: LoadRefusal) -> Error {
        let LoadRefusal { failure, name: own } = refusal;
        if request.plugin_before.is_none() && self.is_new_record(name, &request.source) {
            self.forget(name).await;
        }
        tracing::warn!(plugin = name, reason = failure.reason, "an install is refused: {}", failure.message);
        match (request.plugin_before, own) {
            (Some(plugin), _) => {
                // The record of a removed plugin may be gone by now.
                if self.plugins.contains_key(&plugin) {
                    self.failed(&plugin, failure.clone(), Some(request.digest)).await;
                }
            }
            // A record that this attempt made, or a record of the file.
            (None, Some(own)) if self.is_new_record(&own, &request.source) => self.forget(&own).await,
            (None, Some(own)) if self.plugins.get(&own).is_some_and(|m| m.is_file_only()) => {
                self.failed(&own, failure.clone(), Some(request.digest)).await;
            }
            (None, _) => {}
        }
        failure.into_error()
    }

    /// Whether a record exists only because of this attempt.
    fn is_new_record(&self, name: &str, file: &str) -> bool {
        let shown = self.files.values().any(|known| known.shown.as_deref() == Some(name));
        self.plugins.get(name).is_some_and(|m| m.is_file_only() && m.record.data.source == file) && !shown
    }
}
