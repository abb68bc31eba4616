//! Searches on the server: the flags of a query, and the pages of its answer.

use clap::{Args, ValueEnum};
use mortise_resource::{
    data::{QueryPlan, SearchRequest, SearchResponse, query_plan::Access},
    goten::{LabelSelector, View},
    pb, split_paths,
    types::gvk,
};
use prost_types::FieldMask;

use super::selector::{field_selector, order};
use crate::{CliError, Session, Ui, resources::ids::type_name};

/// Most resources in one answer when all pages are wanted.
const PAGE: i32 = 1_000;

/// Flags of a query: which resources, and which of their fields.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct QueryArgs {
    /// Only resources with these labels: key=value, key!=value, key in (a,b), key notin (a,b), key, !key, separated by
    /// commas
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = crate::resources::selector::selector)]
    selector: Option<LabelSelector>,
    /// Only resources that match, such as 'data.genre = "GENRE_JAZZ" AND meta.tags CONTAINS "live"'
    #[arg(long, value_name = "FILTER", default_value = "", hide_default_value = true)]
    filter: String,
    /// Only resources with these fields, as kubectl writes them: metadata.name=korn,data.genre!=GENRE_JAZZ
    #[arg(long, value_name = "SELECTOR", default_value = "", hide_default_value = true, value_parser = field_selector)]
    field_selector: String,
    /// Sorts by these paths, separated by commas, each with asc or desc behind it
    #[arg(long, value_name = "PATHS", default_value = "", hide_default_value = true, value_parser = order)]
    sort_by: String,
    /// Shows only these fields, which are the columns of a table: paths separated by commas
    #[arg(long, value_name = "PATHS", value_parser = paths)]
    fields: Vec<Paths>,
    /// Fields to show.
    #[arg(
        long,
        value_name = "VIEW",
        hide_possible_values = true,
        help = "Fields to show: name, basic, detail or full; full includes the server's own data in meta"
    )]
    view: Option<ViewName>,
    /// Shows one page of at most this size, up to 1000 [default: all pages]
    #[arg(long, visible_alias = "limit", value_name = "COUNT", value_parser = clap::value_parser!(i32).range(1..=1000))]
    page_size: Option<i32>,
    /// Shows the page for a token of an earlier answer
    #[arg(long, value_name = "TOKEN", default_value = "", hide_default_value = true)]
    page_token: String,
    /// Shows how the resources were found, and how many were looked at
    #[arg(long)]
    explain: bool,
}

/// Paths of fields; a comma within the quotes of a key does not separate them.
#[derive(Debug, Clone)]
struct Paths(Vec<String>);

fn paths(text: &str) -> Result<Paths, std::convert::Infallible> {
    Ok(Paths(split_paths(text).map(|path| path.trim().to_owned()).collect()))
}

/// Set of fields in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ViewName {
    Name,
    Basic,
    Detail,
    Full,
}

impl From<ViewName> for View {
    fn from(name: ViewName) -> Self {
        match name {
            ViewName::Name => Self::Name,
            ViewName::Basic => Self::Basic,
            ViewName::Detail => Self::Detail,
            ViewName::Full => Self::Full,
        }
    }
}

/// Result of a search.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) resources: Vec<pb::Resource>,
    /// Token of the previous page, if one page was requested and there is one before it; else empty.
    pub(crate) before: String,
    pub(crate) after: String,
}

impl QueryArgs {
    /// Makes a query by labels and by a filter.
    pub(crate) fn by(selector: Option<LabelSelector>, filter: &str) -> Self {
        Self { selector, filter: filter.to_owned(), ..Self::default() }
    }

    /// The filter of both flags.
    fn filter(&self) -> String {
        match (self.filter.as_str(), self.field_selector.as_str()) {
            (filter, "") => filter.to_owned(),
            ("", fields) => fields.to_owned(),
            (filter, fields) => format!("({filter}) AND {fields}"),
        }
    }

    /// Whether a flag selects or orders resources.
    pub(crate) fn chooses(&self) -> bool {
        self.selector.is_some() || !self.filter().is_empty() || self.explain || self.is_ordered()
    }

    /// Whether a flag asks for an order or a page.
    pub(crate) fn is_ordered(&self) -> bool {
        !self.sort_by.is_empty() || self.wants_page()
    }

    /// Whether one page is wanted, not all.
    pub(crate) fn wants_page(&self) -> bool {
        self.page_size.is_some() || !self.page_token.is_empty()
    }

    /// Whether a flag selects fields.
    pub(crate) fn projects(&self) -> bool {
        self.view.is_some() || !self.fields.is_empty()
    }

    /// Paths of a table's columns.
    pub(crate) fn fields(&self) -> Vec<String> {
        self.fields.iter().flat_map(|paths| paths.0.clone()).collect()
    }

    /// View and field mask of an answer.
    pub(crate) fn projection(&self) -> (i32, Option<FieldMask>) {
        let view = self.view.map_or(View::Unspecified, View::from);
        (view.into(), (!self.fields.is_empty()).then(|| FieldMask { paths: self.fields() }))
    }

    /// Builds the request for the first page.
    pub(crate) fn request(&self, ty: &pb::Type, tenancy: pb::Tenancy, parent: &str) -> SearchRequest {
        let (view, field_mask) = self.projection();
        SearchRequest {
            parent: parent.to_owned(),
            page_size: self.page_size.unwrap_or_default(),
            page_token: self.page_token.clone(),
            order_by: self.sort_by.clone(),
            filter: self.filter(),
            field_mask,
            view,
            include_paging_info: false,
            r#type: Some(ty.clone()),
            tenancy: Some(tenancy),
            selector: self.selector.clone(),
            explain: self.explain,
            at: String::new(),
        }
    }

    /// Searches: one page if one is requested, else all of them as of one version.
    pub(crate) async fn search(
        &self,
        session: &Session,
        ty: &pb::Type,
        tenancy: pb::Tenancy,
        parent: &str,
        ui: &Ui,
    ) -> Result<Found, CliError> {
        let mut request = self.request(ty, tenancy, parent);
        if !self.wants_page() {
            // All pages as of one version: a resource that moves in the order meanwhile is shown once.
            (request.page_size, request.at) = (PAGE, "now".to_owned());
        }
        let mut found = Found::default();
        let mut plan: Option<QueryPlan> = None;
        loop {
            let answer = session.call(gvk(ty), async { session.queries().search(request.clone()).await }).await?;
            let SearchResponse { resources, prev_page_token, next_page_token, plan: of_page, at, .. } = answer;
            found.resources.extend(resources);
            plan = match (plan, of_page) {
                (Some(all), Some(page)) => Some(together(all, &page)),
                (all, page) => all.or(page),
            };
            if self.wants_page() {
                (found.before, found.after) = (prev_page_token, next_page_token);
                break;
            }
            if next_page_token.is_empty() {
                break;
            }
            // A server of an earlier version has no versions.
            (request.page_token, request.at) = (next_page_token, at);
        }
        if let Some(plan) = plan {
            ui.note(&format!("{}: {}", type_name(ty), explained(&plan)));
        }
        Ok(found)
    }
}

/// Adds up the cost of two pages of one query.
fn together(all: QueryPlan, page: &QueryPlan) -> QueryPlan {
    QueryPlan {
        scanned: all.scanned.saturating_add(page.scanned),
        decoded: all.decoded.saturating_add(page.decoded),
        matched: all.matched.saturating_add(page.matched),
        duration_us: all.duration_us.saturating_add(page.duration_us),
        ..all
    }
}

/// Describes a plan on one line.
fn explained(plan: &QueryPlan) -> String {
    let keys = plan.keys.iter().filter(|key| !key.is_empty()).cloned().collect::<Vec<_>>().join(", ");
    let access = match plan.access() {
        Access::Unspecified => "found in an unknown way".to_owned(),
        Access::Names => format!("looked up by name: {keys}"),
        Access::NameRange if keys.is_empty() => "read in the order of names".to_owned(),
        Access::NameRange => format!("read in the order of names, those with the prefix {keys}"),
        Access::Label => format!("read from the index of labels: {keys}"),
        Access::Field => format!("read from the index of fields: {keys}"),
    };
    format!(
        "{access}{}; {} scanned, {} decoded, {} matched, {:.1} ms",
        if plan.sorted { "; sorted" } else { "" },
        plan.scanned,
        plan.decoded,
        plan.matched,
        plan.duration_us as f64 / 1e3
    )
}
