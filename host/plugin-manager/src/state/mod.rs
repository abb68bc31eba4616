//! State of the manager: plugins ([`plugin`]), files ([`file`]), settings, and the written resources. All of it is
//! behind one lock ([`crate::core::Core::lock`]); the two state machines are drawn in their files.

pub(crate) mod file;
pub(crate) mod plugin;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use arc_swap::ArcSwap;
use mortise_plugin_host::{LookupHost, PluginSettings, Sandbox};
use mortise_service::{ResourceService, registry::Registry};
use mortise_store::Backend;
use tokio::sync::{Notify, mpsc};

use self::{file::PluginFile, plugin::ManagedPlugin};
use crate::{
    component_store::ComponentStore, event::Event, files::config::ConfigWatch, files::folder, options::Options,
    plugin_resources::PluginResources, work::Work,
};

/// The source of a plugin that is compiled into the binary.
pub(crate) const BUNDLED: &str = "bundled";

/// State that a transition reads and changes.
pub(crate) struct ManagerState {
    pub(crate) options: Arc<Options>,
    pub(crate) sandbox: Sandbox,
    /// Answers the searches of hooks; the sandbox has only a weak reference.
    pub(crate) lookups: Arc<dyn LookupHost>,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) service: ResourceService,
    pub(crate) registry: Arc<ArcSwap<Registry>>,
    /// Woken each time that the registry is swapped.
    pub(crate) swapped: Arc<Notify>,
    /// Wakes the manager's task, which then looks at the files.
    pub(crate) kick: Arc<Notify>,
    /// Woken when a plugin's health changed.
    pub(crate) health: Arc<Notify>,
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) work: Work,
    pub(crate) resources: PluginResources,
    pub(crate) components: ComponentStore,
    pub(crate) plugins: BTreeMap<String, ManagedPlugin>,
    pub(crate) files: BTreeMap<String, PluginFile>,
    pub(crate) settings: PluginSettings,
    pub(crate) config: ConfigWatch,
    /// Plugins that this server had before it shared its store, until it has made plans for them.
    pub(crate) inherited: Vec<String>,
    /// SHA-256 of the components that plans of several servers name, which a start may take from the folder.
    pub(crate) planned: BTreeSet<String>,
    /// Numbers of the plans that this server has followed, by the plugins' names.
    pub(crate) followed: BTreeMap<String, i64>,
    /// Set during the start: resources are not written then, but together at its end.
    pub(crate) starting: bool,
}

impl ManagerState {
    /// Replaces the serving registry.
    pub(crate) fn swap(&self, next: Registry) {
        self.service.note_areas(&next);
        self.registry.store(Arc::new(next));
        self.swapped.notify_one();
    }

    /// The plugin of that name; a new one is a [`plugin::PluginState::FileOnly`].
    pub(crate) fn managed(&mut self, name: &str) -> &mut ManagedPlugin {
        self.plugins.entry(name.to_owned()).or_default()
    }

    /// The file of that name; a new one is unread.
    pub(crate) fn file(&mut self, name: &str) -> &mut PluginFile {
        self.files.entry(name.to_owned()).or_default()
    }

    /// Path of a file of the plugin folder.
    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.options.plugin_dir.join(file)
    }

    /// A bundled plugin's component and its digest, if it is enabled.
    pub(crate) fn bundled(&self, name: &str) -> Option<(Vec<u8>, String)> {
        let (_, bytes) = self.options.bundled.iter().find(|(bundled, _)| *bundled == name)?;
        Some((bytes.to_vec(), folder::digest(bytes)))
    }

    /// Marks every rejected file for another load, since its obstacle may be gone.
    pub(crate) fn retry_refused(&mut self) {
        for file in self.files.values_mut() {
            file.retry_if_rejected();
        }
        self.kick.notify_one();
    }
}

/// The first twelve digits of a digest, enough for people.
pub(crate) fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}
