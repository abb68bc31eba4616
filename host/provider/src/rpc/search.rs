//! Searches: the condition of a list or of a data source as a query of the server, and its pages.

use mortise_query::{Filter, Schema, Selector, label_selector};
use mortise_resource::{
    Scope,
    data::{SearchRequest, SearchResponse},
    goten::LabelSelector,
    name, pb,
};
use tonic::{Code, Status};

use super::{
    answer::Faults,
    diagnostic::{error, error_at},
    session::Server,
};
use crate::{
    proto::tfplugin6::Diagnostic,
    schema::ResourceSchema,
    state::tenancy_of,
    value::{Step, Value},
};

/// Most resources in a list.
pub(super) const MAX_LISTED_RESOURCES: usize = 100_000;

/// Most resources of a page.
const MAX_PAGE: usize = 1_000;

/// The faults of a condition; skips unknown parts.
pub(super) fn condition_faults(schema: &ResourceSchema, config: &Value) -> Faults {
    selector_and_faults(schema, config).1
}

/// The condition on labels, and the faults of the whole condition.
fn selector_and_faults(schema: &ResourceSchema, config: &Value) -> (Option<LabelSelector>, Faults) {
    let text = |attribute: &str| config.get(attribute).as_str().filter(|text| !text.is_empty());
    let at = |attribute: &str, fault: String| error_at(&[Step::Attribute(attribute.to_owned())], fault);
    let units = ["partition", "namespace"].into_iter();
    let mut faults: Faults = units
        .filter_map(|unit| Some(at(unit, text(unit).filter(|text| *text != "*").and_then(name::fault)?)))
        .collect();
    let fields = Schema::new(Some(schema.data.message.clone()));
    if let Some(Err(fault)) = text("filter").map(|text| Filter::parse(text, &fields)) {
        faults.push(at("filter", fault.to_string()));
    }
    let selector = text("selector").map(|text| {
        let selector = label_selector(text)?;
        Selector::new(&selector).map(|_| selector)
    });
    match selector.transpose() {
        Ok(selector) => (selector, faults),
        Err(fault) => {
            faults.push(at("selector", fault.to_string()));
            (None, faults)
        }
    }
}

/// The place of a list: all namespaces if it is in all partitions.
fn listed_place(scope: Scope, config: &Value, server: &Server) -> pb::Tenancy {
    let mut tenancy = tenancy_of(scope, config, &server.defaults);
    if scope == Scope::Namespace && tenancy.namespace.is_empty() && tenancy.partition == "*" {
        "*".clone_into(&mut tenancy.namespace);
    }
    tenancy
}

/// The fault of a search whose version the server no longer keeps.
fn changed_too_much(status: &Status) -> Diagnostic {
    let next = "Run it again, or narrow it with filter, selector or name_prefix.";
    error(
        "listing: the resources changed too much between two pages",
        format!("{next} The server: {}", status.message()),
    )
}

/// A search, page by page, as of one version of the server.
pub(super) struct Search<'s> {
    server: &'s Server,
    /// The request for the next page; `None` after the last one.
    next: Option<SearchRequest>,
}

impl<'s> Search<'s> {
    /// The search for what a condition selects.
    ///
    /// # Errors
    /// The faults of the condition.
    pub(super) fn new(schema: &ResourceSchema, server: &'s Server, config: &Value) -> Result<Self, Faults> {
        let (selector, faults) = selector_and_faults(schema, config);
        if !faults.is_empty() {
            return Err(faults);
        }
        let text = |name: &str| config.get(name).as_str().unwrap_or_default().to_owned();
        let request = SearchRequest {
            parent: text("name_prefix"),
            filter: text("filter"),
            selector,
            r#type: Some(schema.kind.clone()),
            tenancy: Some(listed_place(schema.scope, config, server)),
            at: "now".to_owned(),
            ..SearchRequest::default()
        };
        Ok(Self { server, next: Some(request) })
    }

    /// The next page, of at most `wanted` resources; `None` after the last one.
    pub(super) async fn page(&mut self, wanted: usize) -> Result<Option<Vec<pb::Resource>>, Faults> {
        let Some(mut request) = self.next.take() else { return Ok(None) };
        request.page_size = i32::try_from(wanted.min(MAX_PAGE)).unwrap_or(i32::MAX);
        let page = self.server.client.search(request.clone()).await;
        let page = page.map_err(|status| match status.code() {
            Code::Aborted if !request.page_token.is_empty() => vec![changed_too_much(&status)],
            _ => self.server.faults("listing", &status),
        })?;
        let SearchResponse { resources, next_page_token: page_token, at, .. } = page;
        // A server of an earlier version has no versions.
        self.next = (!page_token.is_empty()).then_some(SearchRequest { page_token, at, ..request });
        Ok(Some(resources))
    }
}
