//! The common part of both types of watches of many resources: the query, compiled against the type as registered, and
//! the check of single resources.

use std::sync::Arc;

use mortise_query::{Binding, Candidate, SortKey, Subject};
use mortise_resource::{
    EncodedResource, Error,
    data::{SearchRequest, WatchResourcesResponse},
    pb, tenancy,
};
use mortise_store::{Cursor, Query, ScanPart, Term};

use super::terms::term;
use crate::{
    call::{Caller, Share, store_fault::ended},
    lists::{FOREGROUND_PAGES, OpenWatch, WatchPace, WatchPermission, WatchScope, WatchTurn},
    query::{
        compile::{Search, project},
        queries::Queries,
        search::complete,
    },
    rules::RequestHooks,
};

/// Bytes of changes that fill a message: the bound in memory for a client that takes nothing.
pub(super) const CHUNK_BYTES: usize = 128 << 10;

/// A watch of many resources, of either type.
pub(super) struct Session {
    pub(super) queries: Queries,
    pub(super) search: Search,
    pub(super) open: OpenWatch,
    pace: WatchPace,
    request: SearchRequest,
}

/// A match that the caller may read.
pub(super) struct Visible {
    pub(super) key: SortKey,
    pub(super) resource: EncodedResource,
}

impl Session {
    pub(super) async fn open(queries: &Queries, caller: &Caller, request: SearchRequest) -> Result<Self, Error> {
        let permission = WatchPermission::now(&queries.core, caller);
        let search = Search::compile(caller, &queries.core.types(), request.clone()).await?;
        let scope = WatchScope::Many(search.kind.gvk.clone(), request.tenancy.clone().unwrap_or_default());
        let open = OpenWatch::new(&queries.lists, caller, "WatchResources", scope, permission)?;
        let pace = queries.lists.pace(caller);
        Ok(Self { queries: queries.clone(), search, open, pace, request })
    }

    /// Compiles the query again if its type was registered again. Returns whether stored data may have another meaning
    /// now.
    ///
    /// # Errors
    /// The query is invalid for the type as registered now.
    pub(super) async fn renew(&mut self) -> Result<bool, Error> {
        let registry = self.queries.core.types();
        if Arc::ptr_eq(registry.resolve_type(self.open.wanted())?, &self.search.kind) {
            return Ok(false);
        }
        let before = std::mem::replace(
            &mut self.search,
            Search::compile(self.open.caller(), &registry, self.request.clone()).await?,
        );
        Ok(!self.search.kind.reads_as(before.kind.schema.message(), before.kind.schema_version))
    }

    /// Returns the part of the store that the query needs: its place, a required label, and the required terms.
    pub(super) fn part(&self) -> (Query, ScanPart, Vec<Term>) {
        let mut query = self.search.query.clone();
        let mut part = ScanPart { label: None, after: self.search.after() };
        let mut terms: Vec<Term> = Vec::new();
        for fact in self.search.facts() {
            terms.extend(term(&self.queries, &self.search, &fact));
            let mut values = fact.values.into_iter();
            let (Some(value), None) = (values.next(), values.next()) else { continue };
            match fact.subject {
                Subject::Label(label) if part.label.is_none() => part.label = Some((label, value)),
                Subject::Name if value.starts_with(&query.name_prefix) => query.name_prefix = value,
                Subject::Partition if query.tenancy.partition == tenancy::WILDCARD => query.tenancy.partition = value,
                Subject::Namespace if query.tenancy.namespace == tenancy::WILDCARD => query.tenancy.namespace = value,
                _ => {}
            }
        }
        (query, part, terms)
    }

    /// Returns the binding of resume tokens.
    pub(super) fn binding(&self) -> Binding {
        self.search.watch_binding(self.open.caller())
    }

    /// Returns new hooks, used for the resources of one wait.
    pub(super) fn hooks(&self) -> RequestHooks {
        RequestHooks::new(self.search.kind.clone(), self.open.caller())
    }

    /// Returns the resource as the caller sees it, if it matches and the caller may read it.
    ///
    /// # Errors
    /// Those of upgrades and of the authorize hook.
    pub(super) async fn visible(
        &self,
        hooks: &mut RequestHooks,
        resource: &EncodedResource,
    ) -> Result<Option<Visible>, Error> {
        if !resource.has_type(&self.search.kind.gvk) {
            return Ok(None);
        }
        hooks.next_item();
        let resource = complete(hooks.upgraded(resource.clone()).await?)?;
        let key = {
            let candidate = Candidate::sharing(&resource, &self.search.schema, &self.queries.decoded);
            self.search.matches(&candidate).and_then(|matches| match matches {
                true => self.search.order.key(&candidate).map(Some),
                false => Ok(None),
            })
        };
        match key {
            Ok(Some(key)) if self.queries.lists.recent.may_read(hooks, &resource).await? => {
                Ok(Some(Visible { key, resource }))
            }
            Ok(_) => Ok(None),
            Err(error) => {
                tracing::warn!(name = resource.name(), %error, "a watch skips a resource");
                Ok(None)
            }
        }
    }

    /// Returns the shown part of the resource.
    pub(super) fn shown(&self, resource: &EncodedResource) -> Result<pb::Resource, Error> {
        project(&self.search.mask, resource.decode()?)
    }

    /// Waits for one of the places for snapshots.
    pub(super) async fn place(&mut self) -> Result<Share, Error> {
        let (lists, queue_key) = (self.queries.lists.clone(), self.open.caller().queue_key());
        self.until(async move { lists.snapshots.acquire(queue_key, 1).await.map_err(|e| lists.no_room(e)) }).await?
    }

    /// Reads the next page of a content; `read` pages precede it.
    pub(super) async fn page(
        &mut self,
        content: &mut dyn Cursor,
        read: usize,
    ) -> Result<Option<Vec<EncodedResource>>, Error> {
        let lists = self.queries.lists.clone();
        let page = self.until(async move {
            match read < FOREGROUND_PAGES {
                true => content.next().await,
                false => lists.low_priority.blocking(content.next()).await,
            }
        });
        page.await?.map_err(|e| ended(&e))
    }

    /// Waits for a turn to evaluate changes.
    ///
    /// # Errors
    /// The reason for the end of the watch.
    pub(super) async fn turn(&mut self) -> Result<WatchTurn, Error> {
        self.open.until(self.pace.turn()).await
    }

    /// Waits for a future while the watch may go on.
    ///
    /// # Errors
    /// The reason for the end of the watch.
    pub(super) async fn until<T>(&mut self, wait: impl Future<Output = T>) -> Result<T, Error> {
        self.open.until(wait).await
    }

    /// Returns the mask of modified resources; `None` for everything.
    pub(super) fn mask(&self) -> Option<prost_types::FieldMask> {
        self.request.field_mask.clone().filter(|_| !self.search.mask.is_everything())
    }
}

/// Makes a message without a report of a size.
pub(super) fn message() -> WatchResourcesResponse {
    WatchResourcesResponse { snapshot_size: -1, ..WatchResourcesResponse::default() }
}
