//! A watch of one resource: its state, and every change of the shown part. The watch goes on after a removal.
//!
//! # Cost
//! Changes of other names do not wake the watch. Its caller pays for the evaluation of the others, as for that of any
//! query ([`WatchPace`]): thousands of watches of one resource get its changes later.

use std::sync::Arc;

use mortise_query::{Mask, Schema};
use mortise_resource::{
    EncodedResource, Error,
    data::{ResourceChange, WatchResourceRequest, WatchResourceResponse, resource_change::*},
    pb,
};
use mortise_store::{
    ChangeStep, ChangeWatch, OpenedChanges, PriorState, Query, ScanPart, StoreError, Term, TermSubject, TypeKey,
};

use crate::{
    call::{Caller, store_fault::ended},
    core::{Core, ids::type_of},
    lists::{OpenWatch, RecentDecisions, WatchPace, WatchPermission, WatchScope},
    query::{
        compile::{project, shown},
        queries::Queries,
        search::complete,
    },
    rules::{RequestHooks, read_checked},
};

/// An open watch of one resource. Dropping it closes it.
pub struct ResourceChanges {
    core: Core,
    open: OpenWatch,
    pace: WatchPace,
    recent: Arc<RecentDecisions>,
    id: pb::Id,
    mask: Mask,
    field_mask: Option<prost_types::FieldMask>,
    /// `None` before the first read, and after the reader was too slow.
    changes: Option<Box<dyn ChangeWatch>>,
    /// State that the client has.
    sent: Option<pb::Resource>,
}

impl Queries {
    /// Opens a watch of one resource.
    ///
    /// # Errors
    /// Those of [`crate::ResourceService::watch_resource`].
    pub(crate) async fn watch_resource(
        &self,
        caller: &Caller,
        request: WatchResourceRequest,
    ) -> Result<ResourceChanges, Error> {
        let permission = WatchPermission::now(&self.core, caller);
        let caller = Caller { consistency: mortise_store::Consistency::Consistent, ..caller.clone() };
        let stored = read_checked(&self.core, &caller, pb::ReadRequest { id: request.id.clone() }).await?;
        let asked = request.id.unwrap_or_default();
        // The id is complete, except for the uid if the request had none.
        let mut id = stored.decode_id()?.unwrap_or_default();
        id.uid = asked.uid;
        let kind = self.core.types().resolve(&type_of(&id))?.clone();
        let schema = Schema::new(Some(kind.schema.message().clone()));
        let mask = shown(&kind, &schema, request.view, request.field_mask.as_ref())?;
        let scope = WatchScope::One(kind.gvk.clone(), id.clone());
        let open = OpenWatch::new(&self.lists, &caller, "WatchResource", scope, permission)?;
        let field_mask = request.field_mask.filter(|_| !mask.is_everything());
        let (pace, recent) = (self.lists.pace(&caller), self.lists.recent.clone());
        Ok(ResourceChanges {
            core: self.core.clone(),
            open,
            pace,
            recent,
            id,
            mask,
            field_mask,
            changes: None,
            sent: None,
        })
    }
}

impl ResourceChanges {
    /// Waits for the next change. Not safe to cancel.
    ///
    /// # Errors
    /// `Aborted`: the reader starts again. Any other error ends the watch, too.
    pub async fn next(&mut self) -> Result<WatchResourceResponse, Error> {
        loop {
            let now = match self.changes.take() {
                None => self.read().await?,
                Some(changes) => self.follow(changes).await?,
            };
            let Some(now) = now else { continue };
            let change_type = match (&self.sent, &now) {
                (None, None) => continue,
                (None, Some(now)) => ChangeType::Added(Added { resource: Some(now.clone()), view_index: 0 }),
                (Some(_), None) => {
                    ChangeType::Removed(Removed { name: self.sent.take().and_then(|sent| sent.id), view_index: 0 })
                }
                (Some(before), Some(now)) if before == now => continue,
                (Some(_), Some(now)) => ChangeType::Modified(Modified {
                    name: now.id.clone(),
                    resource: Some(now.clone()),
                    field_mask: self.field_mask.clone(),
                    previous_view_index: 0,
                    view_index: 0,
                }),
            };
            self.sent = now;
            return Ok(WatchResourceResponse { change: Some(ResourceChange { change_type: Some(change_type) }) });
        }
    }

    /// Reads the current state, and opens the watch of changes.
    async fn read(&mut self) -> Result<Option<Option<pb::Resource>>, Error> {
        let tenancy = self.id.tenancy.clone().unwrap_or_default();
        let resource_type = self.id.r#type.clone().unwrap_or_default();
        let query = Query { type_key: TypeKey::from(&resource_type), tenancy, name_prefix: self.id.name.clone() };
        let terms = [Term { subject: TermSubject::Name, values: [query.name_prefix.clone()].into() }];
        let opened = self.core.backend.open_changes(&query, &ScanPart::default(), &terms).await;
        let OpenedChanges { mut content, changes, .. } = opened.map_err(|e| ended(&e))?;
        // Names come in order, and a name is the first of those that begin with it.
        let first = self.open.until(content.next()).await?.map_err(|e| ended(&e))?;
        let found = first.and_then(|page| page.into_iter().next());
        self.changes = Some(changes);
        match found.filter(|found| self.is_it(found)) {
            Some(found) => self.visible(&found).await.map(Some),
            None => Ok(Some(None)),
        }
    }

    /// Waits for a change. Returns the next state; `None` for a change of another resource.
    async fn follow(&mut self, mut changes: Box<dyn ChangeWatch>) -> Result<Option<Option<pb::Resource>>, Error> {
        let change = match self.open.until(changes.next()).await? {
            Ok(ChangeStep::Change(change)) => change,
            Ok(ChangeStep::CaughtUp(_)) => return Ok(None),
            Err(StoreError::WatchLagged { .. } | StoreError::WatchClosed) => return Ok(None),
            Err(error) => return Err(ended(&error)),
        };
        self.changes = Some(changes);
        let _turn = self.open.until(self.pace.turn()).await?;
        match (&change.now, &change.before) {
            (Some(now), _) if self.is_it(now) => self.visible(now).await.map(Some),
            (None, PriorState::Resource(before)) if self.is_it(before) => Ok(Some(None)),
            _ => Ok(None),
        }
    }

    fn is_it(&self, resource: &EncodedResource) -> bool {
        resource.name() == self.id.name && (self.id.uid.is_empty() || self.id.uid == resource.id().uid)
    }

    /// Returns the shown part, if the resource has the requested type and the caller may read it.
    async fn visible(&self, resource: &EncodedResource) -> Result<Option<pb::Resource>, Error> {
        let registry = self.core.types();
        let kind = registry.resolve_type(self.open.wanted())?;
        if !resource.has_type(&kind.gvk) {
            return Ok(None);
        }
        let mut hooks = RequestHooks::new(kind.clone(), self.open.caller());
        let resource = complete(hooks.upgraded(resource.clone()).await?)?;
        if !self.recent.may_read(&mut hooks, &resource).await? {
            return Ok(None);
        }
        project(&self.mask, resource.decode()?).map(Some)
    }
}
