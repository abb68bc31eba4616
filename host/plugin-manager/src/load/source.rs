//! Ownership of sources: a source keeps its plugin's name, and a name belongs to one source.

use std::io;

use mortise_plugin_host::Plugin;

use crate::{
    files::folder::{self, FormerContent, Stamp},
    load::{
        request::{LoadReason, LoadRequest},
        stage::{Failure, Stage},
    },
    state::{BUNDLED, ManagerState, file::PluginFile},
    trust::TrustDecision,
};

/// A file of the folder before an install replaced it.
pub(crate) struct ReplacedFile {
    /// `None` when it could not be read.
    content: Option<FormerContent>,
    stamp: Option<Stamp>,
    /// The file's state in the manager; `None` for a new file.
    known: Option<PluginFile>,
}

impl ManagerState {
    /// A source keeps its plugin's name, and a name belongs to one source.
    pub(crate) fn check_name(&mut self, plugin: &Plugin, request: &LoadRequest) -> Result<(), Failure> {
        if let Some(broken) = self.find_name(plugin, request)? {
            // The record of a broken file has this name; the file gets another record when it is loaded again.
            self.file(&broken).lose_record();
            self.kick.notify_one();
            self.plugins.remove(plugin.name());
        }
        Ok(())
    }

    /// Checks the name without a change. Returns the broken file whose record has the name, and gives way.
    pub(crate) fn find_name(&self, plugin: &Plugin, request: &LoadRequest) -> Result<Option<String>, Failure> {
        let name = plugin.name();
        let refused = |reason, what| Err(Failure::new(Stage::Checking, reason, what));
        if let Some(before) = request.plugin_before.as_deref().filter(|before| *before != name) {
            let what = format!(
                "it was plugin {before:?} and is named {name:?} now; put the new plugin into its own file, and remove \
                 the old one"
            );
            return refused("Renamed", what);
        }
        if let LoadReason::Install(wanted) = &request.reason
            && wanted != name
        {
            let what = format!("it is named {name:?}, but the install is for {wanted:?}; install it as {name:?}");
            return Err(Failure::new(Stage::Compiling, "Renamed", what));
        }
        let Some(known) = self.plugins.get(name) else { return Ok(None) };
        let other = known.record.data.source.clone();
        if other == request.source {
            return Ok(None);
        }
        if known.is_file_only() {
            return Ok(Some(other));
        }
        let there = match other.as_str() {
            BUNDLED => self.options.bundled.iter().any(|(bundled, _)| *bundled == name),
            file => self.path(file).exists(),
        };
        let owns = self.registry.load().plugin(name).is_some() || known.is_disabled() && !known.is_removed();
        if there && owns {
            let what = match other.as_str() {
                BUNDLED => "it is bundled and enabled; take it out of plugins.bundled, or rename this one".to_owned(),
                file => format!("the file {file} provides it; remove one of the two"),
            };
            let version = &known.record.data.version;
            let what = format!("a plugin named {name:?} is already loaded (version {version}); {what}");
            return refused("NameTaken", what);
        }
        Ok(None)
    }

    /// Assigns a plugin to its source. Its former file no longer belongs to it, and shows a fault, if any, in a
    /// separate record.
    pub(crate) fn set_source(&mut self, name: &str, source: &str) {
        let before = std::mem::replace(&mut self.managed(name).record.data.source, source.to_owned());
        if before != source
            && let Some(known) = self.files.get_mut(&before)
            && known.provides.as_deref() == Some(name)
        {
            known.provides = None;
            known.retry_if_rejected();
            self.kick.notify_one();
        }
    }

    /// Puts a checked component into the folder durably, for the plugin of that name. Its signature comes first and
    /// replaces an earlier one. Returns the former content, which takes as much memory as a component may have.
    pub(crate) async fn install_into_folder(
        &mut self,
        plugin: &str,
        request: &LoadRequest,
        decision: &TrustDecision,
    ) -> Result<ReplacedFile, Failure> {
        let file = request.source.as_str();
        if let Some(other) = self.files.get(file).and_then(|known| known.provides.as_deref()).filter(|n| *n != plugin) {
            let what = format!("the file {file} provides plugin {other:?}; remove that plugin first");
            return Err(Failure::new(Stage::Checking, "NameTaken", what));
        }
        let (dir, name, content) = (self.options.plugin_dir.clone(), file.to_owned(), request.bytes.clone());
        let (file_path, limit) = (self.path(file), self.sandbox.limits().component_bytes);
        let signature = decision.signature().map(<[u8]>::to_vec);
        let path = file_path.clone();
        let put = tokio::task::spawn_blocking(move || {
            let before = (Stamp::of_plugin(&path), FormerContent::read(&path, limit));
            folder::put_plugin(&dir, &name, Some(&content), signature.as_deref()).map(|()| before)
        });
        let fault =
            |e: io::Error| Failure::new(Stage::Checking, "HostFault", format!("writing {}: {e}", file_path.display()));
        let (stamp, content) = put.await.map_err(io::Error::other).and_then(|put| put).map_err(fault)?;
        let known = self.files.get(file).cloned();
        self.file(file).installed(Stamp::of_plugin(&file_path), request.digest.clone());
        Ok(ReplacedFile { content, stamp, known })
    }

    /// Restores a file durably after an install was rejected. If the former content could not be read, it is lost, and
    /// the rejected component stays.
    pub(crate) async fn put_back(&mut self, file: &str, replaced: ReplacedFile) {
        let ReplacedFile { content, stamp, known } = replaced;
        let (dir, name, path) = (self.options.plugin_dir.clone(), file.to_owned(), self.path(file));
        let put = tokio::task::spawn_blocking(move || match content {
            Some(content) => content.put_back(&dir, &name),
            None => Err(io::Error::other("it could not be read before it was replaced")),
        });
        if let Err(e) = put.await.unwrap_or_else(|e| Err(io::Error::other(e))) {
            tracing::error!(
                "{} holds a rejected component, and its former content cannot be restored: {e}; put a valid component \
                 there, or remove the file",
                path.display()
            );
            self.file(file).rejected();
            return;
        }
        match known {
            Some(mut known) => {
                known.put_back(stamp, Stamp::of_plugin(&path));
                self.files.insert(file.to_owned(), known);
            }
            None => drop(self.files.remove(file)),
        }
    }
}
