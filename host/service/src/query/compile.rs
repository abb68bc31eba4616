//! A search, checked and compiled: the type and the place as a list checks them, and the texts of the query.

use std::sync::Arc;

use mortise_query::{
    Binding, Candidate, Fact, FieldRange, Filter, LeadingKey, Mask, OrderBy, PageToken, QueryError, Schema, Selector,
    Undecodable, page_size,
};
use mortise_resource::{Error, Scope, data::SearchRequest, goten::View, pb, resource_meta};
use mortise_store::{ListKey, Query, TypeKey};
use prost::Message as _;

use crate::{
    call::Caller,
    lists::check_request,
    registry::{Registry, ResourceType},
    rules::RequestHooks,
};

/// The version as of which a search answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// Each page is as of its own time.
    Newest,
    /// The newest version, which further pages name.
    Now,
    Version(u64),
}

/// A checked and compiled search.
pub(crate) struct Search {
    pub(crate) kind: Arc<ResourceType>,
    pub(crate) query: Query,
    pub(crate) schema: Schema,
    pub(super) order: OrderBy,
    pub(super) page_size: usize,
    pub(super) binding: Binding,
    pub(super) token: Option<PageToken>,
    pub(crate) mask: Mask,
    pub(crate) counts: bool,
    pub(super) explains: bool,
    pub(super) as_of: At,
    /// Binding of the matches, in no order.
    unordered: Binding,
    /// View and mask of the request.
    projection: (i32, Vec<u8>),
    filter: Option<Filter>,
    selector: Option<Selector>,
}

impl Search {
    /// Checks a request, without a read of the store.
    ///
    /// # Errors
    /// Those of a list; `InvalidArgument` and `Unimplemented` for the texts of the query.
    pub(super) async fn compile(caller: &Caller, registry: &Registry, request: SearchRequest) -> Result<Self, Error> {
        let wanted = request.r#type.clone().ok_or_else(|| Error::invalid("type is required"))?;
        let mut tenancy = request.tenancy.clone().unwrap_or_default();
        let kind = check_request(registry, &wanted, &tenancy, &request.parent)?;
        if kind.scope == Scope::Partition {
            kind.scope.check_query("type", &kind.gvk.to_string(), &tenancy)?;
        }
        caller.fill_own(kind.scope, &mut tenancy);
        RequestHooks::new(kind.clone(), caller).authorize_list(&tenancy).await?;
        kind.scope.fill_query(&mut tenancy);

        let schema = Schema::new(Some(kind.schema.message().clone()));
        let filter = match request.filter.is_empty() {
            true => None,
            false => Some(Filter::parse(&request.filter, &schema).map_err(refused)?),
        };
        let selector = request.selector.as_ref().map(Selector::new).transpose().map_err(refused)?;
        let order = OrderBy::parse(&request.order_by, &schema).map_err(refused)?;
        let bound = |order: &str| {
            Binding::new(&[
                wanted.encode_to_vec().as_slice(),
                &tenancy.encode_to_vec(),
                request.parent.as_bytes(),
                &request.selector.as_ref().map(prost::Message::encode_to_vec).unwrap_or_default(),
                request.filter.as_bytes(),
                order.as_bytes(),
            ])
        };
        let (binding, unordered) = (bound(&request.order_by), bound(""));
        let token = match request.page_token.is_empty() {
            true => None,
            false => Some(PageToken::decode(&request.page_token, &binding, &order).map_err(refused)?),
        };
        let mask = shown(&kind, &schema, request.view, request.field_mask.as_ref())?;
        let as_of = match request.at.as_str() {
            "" => At::Newest,
            "now" => At::Now,
            version => At::Version(version.parse().map_err(|_| {
                Error::invalid(format!(
                    "at: {version:?} is not a version; write now, or the value of at from an answer to the same search"
                ))
            })?),
        };
        let query = Query { type_key: TypeKey::from(&wanted), tenancy, name_prefix: request.parent };
        Ok(Self {
            page_size: page_size(request.page_size).map_err(refused)?,
            kind,
            query,
            schema,
            order,
            binding,
            token,
            mask,
            counts: request.include_paging_info,
            explains: request.explain,
            as_of,
            unordered,
            projection: (
                request.view,
                request.field_mask.as_ref().map(prost::Message::encode_to_vec).unwrap_or_default(),
            ),
            filter,
            selector,
        })
    }

    /// Returns the binding of resume tokens: the query, the caller, and the shown fields.
    pub(super) fn watch_binding(&self, caller: &Caller) -> Binding {
        let authorizer = &*caller.authorizer;
        // The rights of a caller with rules are known by a number of this process only. A caller that may do everything
        // has the same rights after a restart.
        let rights = if authorizer.allows_all() { 0 } else { authorizer.fingerprint() };
        let (view, mask) = &self.projection;
        Binding::new(&[
            self.unordered.digest(),
            &view.to_be_bytes(),
            mask,
            &self.kind.schema_version.get().to_be_bytes(),
            &rights.to_be_bytes(),
        ])
    }

    /// Returns the facts that hold for every match.
    pub(super) fn facts(&self) -> Vec<Fact> {
        let of_filter = self.filter.as_ref().map(Filter::required).unwrap_or_default();
        of_filter.into_iter().chain(self.selector.as_ref().map(Selector::required).unwrap_or_default()).collect()
    }

    /// Returns the ranges of single values that every match has.
    pub(super) fn ranges(&self) -> Vec<FieldRange> {
        self.filter.as_ref().map(Filter::ranges).unwrap_or_default()
    }

    /// Returns the text that the names of all matches begin with.
    pub(super) fn name_prefix(&self) -> Option<&str> {
        self.filter.as_ref().map(Filter::name_prefix)
    }

    /// Returns the first key of the order.
    pub(super) fn leading(&self) -> Option<LeadingKey> {
        self.order.leading()
    }

    /// Whether the search has the order of lists.
    pub(super) fn is_by_name(&self) -> bool {
        self.order.is_by_name()
    }

    /// Returns the place behind which the page begins; `None` unless the search has the order of lists and counts
    /// nothing.
    pub(crate) fn after(&self) -> Option<ListKey> {
        let token = self.token.as_ref().filter(|token| {
            self.is_by_name()
                && !self.counts
                && token.direction == mortise_query::Direction::Right
                && !token.is_inclusive
        })?;
        let [partition, namespace, name] = token.boundary.place()?;
        Some(ListKey { partition: partition.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// Whether a resource matches.
    pub(crate) fn matches(&self, candidate: &Candidate<'_>) -> Result<bool, Undecodable> {
        if let Some(selector) = &self.selector {
            let labels = candidate.resource().labels().map(|(key, value)| (key.to_owned(), value.to_owned()));
            if !selector.matches(&labels.collect()) {
                return Ok(false);
            }
        }
        self.filter.as_ref().map_or(Ok(true), |filter| filter.matches(candidate))
    }
}

/// Returns the mask of a view and a mask together.
pub(crate) fn shown(
    kind: &ResourceType,
    schema: &Schema,
    view: i32,
    mask: Option<&prost_types::FieldMask>,
) -> Result<Mask, Error> {
    let view = View::try_from(view).map_err(|_| Error::invalid(format!("view: {view} is not a view")))?;
    let declared = match view {
        View::Basic => kind.query.basic_view.as_slice(),
        View::Detail => kind.query.detail_view.as_slice(),
        View::Unspecified | View::Name | View::Full => &[],
    };
    let declared = Some(declared).filter(|declared| !declared.is_empty());
    let paths = mask.map(|mask| mask.paths.as_slice()).unwrap_or_default();
    Mask::of_view(view, declared, paths, schema).map_err(refused)
}

/// Returns the error for an invalid query.
pub(crate) fn refused(error: QueryError) -> Error {
    Error::invalid(error.to_string())
}

/// Returns the error for a stored resource that cannot be decoded.
pub(crate) fn undecodable(id: &pb::Id, error: &Undecodable) -> Error {
    Error::internal(format!("{}: {error}", mortise_resource::types::describe(id)))
}

/// Returns a resource as in an answer: all of its meta, and the masked fields.
pub(crate) fn project(mask: &Mask, mut resource: pb::Resource) -> Result<pb::Resource, Error> {
    resource_meta::complete_server_part(&mut resource);
    let id = resource.id.clone().unwrap_or_default();
    mask.project(&resource).map_err(|e| undecodable(&id, &e))
}
