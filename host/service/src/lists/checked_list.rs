//! Lists that passed their checks: their resources are read in pages, as of one commit.
//!
//! Lists for controllers of this process are neither encoded nor counted: each resource goes to its reader at once, and
//! the reader may end the list. [`encoded_list`](super::encoded_list) has those for clients.

use std::sync::Arc;

use mortise_resource::{EncodedResource, Error, pb, types::Gvk};
use mortise_store::{CopyRequest, Cursor, Query, StoreError};

use super::encoded_list::RESOURCES_TAG;
use crate::{
    call::{Caller, store_fault::store_fault},
    core::Core,
    registry::{Registry, ResourceType},
    rules::{RequestHooks, may_read_all, oldest_current},
};

/// The resources of a list.
pub(crate) enum Selection {
    /// Resources of exactly this GroupVersion.
    Type(Arc<ResourceType>, Query),
    /// Resources of every type owned by an incarnation.
    Owner(pb::Id),
}

/// A list that passed its checks.
pub(crate) struct CheckedList {
    selection: Selection,
    registry: Arc<Registry>,
    caller: Caller,
    /// Fingerprint of the rights by which the caller was judged once for all resources.
    rights: u64,
    /// Hooks of the last read type. A type's instance is given back before the next one is requested.
    hooks: Option<RequestHooks>,
}

impl CheckedList {
    pub(crate) fn new(selection: Selection, registry: Arc<Registry>, caller: &Caller) -> Self {
        Self { selection, registry, caller: caller.clone(), rights: 0, hooks: None }
    }

    /// Reads the list. `each` gets the readable resources; its error ends the reading.
    pub(crate) async fn read<E: From<Error>>(
        &mut self,
        core: &Core,
        mut each: impl FnMut(pb::Resource) -> Result<(), E> + Send,
    ) -> Result<(), E> {
        let mut pages = self.open(core).await?;
        while let Some(page) = self.next_page(&mut *pages).await? {
            self.keep_readable(page, |resource| each(resource.decode().map_err(Error::from)?)).await?;
        }
        Ok(())
    }

    /// Judges the caller once for all resources. Returns the query and the form of copies; `None` if the resources have
    /// to be judged one by one.
    pub(super) fn copies(&mut self) -> Option<(&Query, CopyRequest)> {
        // Before the judgement: rights that change meanwhile change it.
        self.rights = self.caller.authorizer.fingerprint();
        let Selection::Type(kind, query) = &self.selection else { return None };
        if !may_read_all(kind, &self.caller) {
            return None;
        }
        let group_version = kind.gvk.group_version.clone();
        Some((query, CopyRequest { tag: RESOURCES_TAG, group_version, schema_version: oldest_current(kind) }))
    }

    /// Whether the rights of the caller are those of the judgement.
    pub(super) fn has_same_rights(&self) -> bool {
        self.caller.authorizer.fingerprint() == self.rights
    }

    /// The caller.
    pub(super) fn caller(&self) -> &Caller {
        &self.caller
    }

    pub(super) async fn open(&mut self, core: &Core) -> Result<Box<dyn Cursor>, Error> {
        let pages = match &self.selection {
            Selection::Type(_, query) => core.backend.scan(query).await,
            Selection::Owner(owner) => core.backend.scan_owned(owner).await,
        };
        pages.map_err(|e| self.failed(&e))
    }

    pub(super) async fn next_page(&mut self, pages: &mut dyn Cursor) -> Result<Option<Vec<EncodedResource>>, Error> {
        self.release();
        pages.next().await.map_err(|e| self.failed(&e))
    }

    /// Passes on the readable resources of a page, in their type's schema version.
    pub(super) async fn keep_readable<E: From<Error>>(
        &mut self,
        mut page: Vec<EncodedResource>,
        mut keep: impl FnMut(EncodedResource) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Selection::Owner(_) = self.selection {
            // One GroupVersion after another.
            page.sort_by_cached_key(type_of_stored);
        }
        for resource in page {
            let kind = match &self.selection {
                Selection::Type(kind, _) if resource.has_type(&kind.gvk) => kind,
                Selection::Type(..) => continue,
                Selection::Owner(_) => self.registry.resolve_type(&type_of_stored(&resource))?,
            };
            if self.hooks.as_ref().is_none_or(|hooks| hooks.kind.gvk != kind.gvk) {
                // A task that waits for a second place while it holds the first may wait for itself.
                drop(self.hooks.take());
            }
            let hooks = self.hooks.get_or_insert_with(|| RequestHooks::new(kind.clone(), &self.caller));
            hooks.next_item();
            let resource = hooks.upgraded(resource).await?;
            if hooks.may_read(&resource).await? {
                keep(resource)?;
            }
        }
        Ok(())
    }

    /// Gives back the plugin's instance.
    pub(super) fn release(&mut self) {
        if let Some(hooks) = &mut self.hooks {
            hooks.release();
        }
    }

    pub(super) fn failed(&self, error: &StoreError) -> Error {
        let what = match self.selection {
            Selection::Type(..) => "failed list",
            Selection::Owner(_) => "failed list by owner",
        };
        store_fault(what, error)
    }
}

fn type_of_stored(resource: &EncodedResource) -> Gvk {
    let id = resource.id();
    Gvk::new(id.group, id.group_version, id.kind)
}
