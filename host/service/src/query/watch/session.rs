//! The common part of both types of watches of many resources: the query, compiled against the type as it is registered, and
//! the judgement of single resources.

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
    lists::{OpenWatch, WatchPermission, WatchScope},
    query::{
        compile::{Search, project},
        queries::Queries,
        search::complete,
    },
    rules::RequestHooks,
};

/// Pages of a content that are read on the threads that serve requests: of 64 resources, and of 1,024.
const SHORT: usize = 2;

/// A watch of many resources, whatever its type.
pub(super) struct Session {
    pub(super) queries: Queries,
    pub(super) search: Search,
    pub(super) open: OpenWatch,
    request: SearchRequest,
}

/// A resource that matches and that the caller may read.
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
        Ok(Self { queries: queries.clone(), search, open, request })
    }

    /// Compiles the query anew if the type was registered anew. True if what resources hold may mean something else
    /// now.
    ///
    /// # Errors
    /// The query is none of the type as it is now.
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

    /// What of the store the query is about: a name or a label that it requires; and what else it requires.
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
        if [&query.tenancy.partition, &query.tenancy.namespace].iter().all(|unit| *unit != tenancy::WILDCARD) {
            terms.push(Term::for_tenancy(&query.tenancy));
        }
        (query, part, terms)
    }

    /// What resume tokens are bound to: what is watched, by whom, and what of it is shown.
    pub(super) fn binding(&self) -> Binding {
        let caller = &*self.open.caller().authorizer;
        // What a caller with rules may see is known by a number of this process only. Who may do everything now may do so
        // tomorrow.
        let rights = if caller.allows_all() { 0 } else { caller.fingerprint() };
        Binding::new(&[
            self.search.binding.digest(),
            &self.request.view.to_be_bytes(),
            &self.request.field_mask.as_ref().map(prost::Message::encode_to_vec).unwrap_or_default(),
            &self.search.kind.schema_version.get().to_be_bytes(),
            &rights.to_be_bytes(),
        ])
    }

    /// Hooks for resources that are there together; made anew for each wait.
    pub(super) fn hooks(&self) -> RequestHooks {
        RequestHooks::new(self.search.kind.clone(), self.open.caller())
    }

    /// The resource as the caller sees it, if it matches and may be read.
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
            Ok(Some(key)) if hooks.may_read(&resource).await? => Ok(Some(Visible { key, resource })),
            Ok(_) => Ok(None),
            Err(error) => {
                tracing::warn!(name = resource.name(), %error, "a watch passes a resource over");
                Ok(None)
            }
        }
    }

    /// The resource with what the watch shows of it.
    pub(super) fn shown(&self, resource: &EncodedResource) -> Result<pb::Resource, Error> {
        project(&self.search.mask, resource.decode()?)
    }

    /// Waits for a place among those whose snapshots are read at once.
    pub(super) async fn place(&mut self) -> Result<Share, Error> {
        let (lists, turn) = (self.queries.lists.clone(), self.open.caller().turn());
        self.until(async move { lists.snapshots.acquire(turn, 1).await.map_err(|e| lists.no_room(e)) }).await?
    }

    /// The next page of a content of which so many were read.
    pub(super) async fn page(
        &mut self,
        content: &mut dyn Cursor,
        read: usize,
    ) -> Result<Option<Vec<EncodedResource>>, Error> {
        let lists = self.queries.lists.clone();
        let page = self.until(async move {
            match read < SHORT {
                true => content.next().await,
                false => lists.low_priority.blocking(content.next()).await,
            }
        });
        page.await?.map_err(|e| ended(&e))
    }

    /// Waits for something, as long as the watch goes on.
    ///
    /// # Errors
    /// Why it ends.
    pub(super) async fn until<T>(&mut self, wait: impl Future<Output = T>) -> Result<T, Error> {
        self.open.until(wait).await
    }

    /// What modified resources have of themselves; `None` for everything.
    pub(super) fn mask(&self) -> Option<prost_types::FieldMask> {
        self.request.field_mask.clone().filter(|_| !self.search.mask.is_everything())
    }
}

/// A message that is no report of a size.
pub(super) fn message() -> WatchResourcesResponse {
    WatchResourcesResponse { snapshot_size: -1, ..WatchResourcesResponse::default() }
}
