//! Queries by content, and updates of single fields.

use mortise_resource::{data::SearchRequest, goten, pb};
use prost::Message;

#[cfg(target_arch = "wasm32")]
use crate::host::Host as _;
use crate::{Failure, Kind, Typed, host::AnyHost, kind::Data, typed::typed};

/// A query of one type; see [`crate::Context::query`] for reconcilers and [`query`] for hooks. docs/query.md has the
/// language of filters and orders.
///
/// The cost depends on the available indexes: a label with one value has an index, and a field that the type declares
/// one for ([`crate::ResourceType::indexed_fields`]).
#[must_use]
pub struct Query<'a, M> {
    searcher: Searcher<'a>,
    kind: Kind<M>,
    request: SearchRequest,
}

/// The search function of a query. It is named where a query is made, so that a component imports only the interface it
/// uses.
#[derive(Clone, Copy)]
struct Searcher<'a> {
    host: Option<&'a AnyHost>,
    search: Search,
}

/// Sends a request to a host, or to that of the running hook.
type Search = fn(Option<&AnyHost>, &[u8]) -> Result<Vec<u8>, Failure>;

fn search_as_reconciler(host: Option<&AnyHost>, request: &[u8]) -> Result<Vec<u8>, Failure> {
    let none = || Failure::new(Failure::INTERNAL, "a query without a host");
    host.ok_or_else(none)?.search(request)
}

fn search_as_hook(_: Option<&AnyHost>, request: &[u8]) -> Result<Vec<u8>, Failure> {
    #[cfg(target_arch = "wasm32")]
    return crate::bindings::imports::search(request);
    #[cfg(not(target_arch = "wasm32"))]
    crate::testing::search(request)
}

/// Searches resources of a type by their content, from `mutate`, `validate` or `plan`: of the plugin's own types, and
/// of those that it is granted to read. It has the rights of the plugin, not those of the caller.
///
/// The found resources may have changed by the time that the write is stored, since others write meanwhile. A search
/// reads 2,048 resources at most; name a label or a field with an index. A search that finds no free slot ends the
/// hook, and the request fails with a code that lets its caller try again.
pub fn query<M: Data>(of: Kind<M>, tenancy: &pb::Tenancy) -> Query<'static, M> {
    Query::with(Searcher { host: None, search: search_as_hook }, of, tenancy)
}

/// A page of results.
#[derive(Debug, Clone)]
pub struct Page<M> {
    /// Resources, in order.
    pub items: Vec<Typed<M>>,
    /// Token of the next page; empty after the last.
    pub next: String,
}

/// The used part of `mortise.v1.SearchResponse`; resources stay encoded.
#[derive(Clone, PartialEq, prost::Message)]
struct SearchResponsePart {
    #[prost(bytes = "vec", repeated, tag = "1")]
    resources: Vec<Vec<u8>>,
    #[prost(string, tag = "4")]
    next_page_token: String,
}

impl<'a, M: Data> Query<'a, M> {
    pub(crate) fn new(host: &'a AnyHost, of: Kind<M>, tenancy: &pb::Tenancy) -> Self {
        Self::with(Searcher { host: Some(host), search: search_as_reconciler }, of, tenancy)
    }

    fn with(searcher: Searcher<'a>, of: Kind<M>, tenancy: &pb::Tenancy) -> Self {
        let request =
            SearchRequest { r#type: Some(of.to_pb()), tenancy: Some(tenancy.clone()), ..SearchRequest::default() };
        Self { searcher, kind: of, request }
    }

    /// Restricts the query to names with this prefix.
    pub fn prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.request.parent);
        self
    }

    /// Restricts the query to resources with this label.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        let selector = self.request.selector.get_or_insert_default();
        selector.match_labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Restricts the query to resources that match a selector.
    pub fn selector(mut self, selector: goten::LabelSelector) -> Self {
        self.request.selector = Some(selector);
        self
    }

    /// Restricts the query by a filter, such as `data.genre = "GENRE_JAZZ"`.
    pub fn filter(mut self, filter: &str) -> Self {
        filter.clone_into(&mut self.request.filter);
        self
    }

    /// Sets the order, such as `data.year desc, name`; the default is by name.
    pub fn order_by(mut self, order: &str) -> Self {
        order.clone_into(&mut self.request.order_by);
        self
    }

    /// Sets the size of a page, at most 1,000; the default is 100.
    pub fn page_size(mut self, size: i32) -> Self {
        self.request.page_size = size;
        self
    }

    /// Continues after an earlier page of the same query.
    pub fn after(mut self, next: &str) -> Self {
        next.clone_into(&mut self.request.page_token);
        self
    }

    /// Reads a page.
    ///
    /// # Errors
    /// The host's: [`Failure::INVALID`] for a malformed query, [`Failure::DENIED`] without the grant to read the type;
    /// or a resource holds another message than `M`.
    pub fn page(&self) -> Result<Page<M>, Failure> {
        let Searcher { host, search } = self.searcher;
        let found = search(host, &self.request.encode_to_vec())?;
        let found =
            SearchResponsePart::decode(found.as_slice()).map_err(|fault| unreadable("SearchResponse", &fault))?;
        Ok(Page { items: typed(&found.resources)?, next: found.next_page_token })
    }

    /// Reads all pages, one after another.
    ///
    /// # Errors
    /// Those of [`Self::page`].
    pub fn all(&self) -> Result<Vec<Typed<M>>, Failure> {
        let mut query = Self { searcher: self.searcher, kind: self.kind, request: self.request.clone() };
        let mut all = Vec::new();
        loop {
            let page = query.page()?;
            all.extend(page.items);
            if page.next.is_empty() {
                return Ok(all);
            }
            query.request.page_token = page.next;
        }
    }
}

/// Failure for a malformed answer of the host.
pub(crate) fn unreadable(what: &str, fault: &prost::DecodeError) -> Failure {
    Failure::new(Failure::INTERNAL, format!("the host sent a malformed {what}: {fault}"))
}
