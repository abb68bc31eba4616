//! Selection of workloads by services, in both directions.
//!
//! # Contract
//! Both directions use indexes of the controller's cache, within one namespace; nothing is scanned. The results of an
//! index are compared with the selector itself, so an index may find too much, and never too little.
//!
//! # Cost
//! [`services`]: one lookup for the workload's name, one for each prefix of it, one for each pair of its metadata.
//! [`workloads`]: one lookup for each name, and one for each page of a prefix or of a label.

use std::collections::{BTreeMap, VecDeque};

use mortise_plugin::{Context, Error, Failure, Index, Key, Kind, Typed, pb};

use crate::{
    SERVICE, WORKLOAD,
    proto::catalog::v1::{Selector, Service, Workload},
    rules::limits::EVERY_NAME,
};

/// Indexes of workloads.
const NAME: &str = "name";
const LABEL: &str = "label";
pub(crate) const WORKLOAD_INDEXES: &[Index] =
    &[Index::by_name(NAME).in_tenancy(), Index::by_metadata(LABEL).in_tenancy()];

/// Indexes of services.
const SELECTED_NAME: &str = "selected-name";
const SELECTED_PREFIX: &str = "selected-prefix";
const SELECTED_LABEL: &str = "selected-label";
const SERVICE_NAME: &str = "name";
pub(crate) const SERVICE_INDEXES: &[Index] = &[
    Index::by_name(SERVICE_NAME).in_tenancy(),
    Index::by_value(SELECTED_NAME, "selector.names").in_tenancy(),
    Index::by_value(SELECTED_PREFIX, "selector.prefixes").in_tenancy(),
    Index::by_value(SELECTED_LABEL, "selector.labels").in_tenancy(),
];

/// Workloads of a page: of a single source, and of each of several sources.
const PAGE: u32 = 256;
const SMALL_PAGE: u32 = 32;

/// The workloads that a selector selects in the namespace of the service, in the order of their names, from the name
/// `from` on and before `before` (empty: no end). Workloads that are marked for deletion are left out.
///
/// They are read in pages, so that any number of them fits into the memory of the plugin.
pub(crate) fn workloads<'c>(
    ctx: &'c Context<'c>,
    service: &pb::Id,
    selector: &'c Selector,
    (from, before): (&str, &'c str),
) -> Workloads<'c> {
    let namespace = Namespace::of(ctx, service);
    let mut finds: Vec<Find> = Vec::new();
    let mut names: Vec<_> = selector.names.iter().filter(|name| is_within(name, from, before)).cloned().collect();
    names.sort_unstable();
    if !names.is_empty() {
        finds.push(Find::Names(names.into()));
    }
    for prefix in &selector.prefixes {
        let beginning = if prefix == EVERY_NAME { "" } else { prefix };
        finds.push(Find::Prefix(namespace.value(beginning)));
    }
    if selector.names.is_empty()
        && selector.prefixes.is_empty()
        && let Some((key, value)) = selector.labels.iter().next()
    {
        finds.push(Find::Label(namespace.value(&format!("{key}={value}"))));
    }
    let limit = if finds.len() > 1 { SMALL_PAGE } else { PAGE };
    let source = |find| Source { find, from: from.to_owned(), page: VecDeque::new(), more: true };
    let sources = finds.into_iter().map(source).collect();
    Workloads { namespace, selector, before, limit, sources }
}

fn is_within(name: &str, from: &str, before: &str) -> bool {
    name >= from && (before.is_empty() || name < before)
}

/// The workloads of [`workloads`], merged from several sources.
pub(crate) struct Workloads<'c> {
    namespace: Namespace<'c>,
    selector: &'c Selector,
    before: &'c str,
    limit: u32,
    sources: Vec<Source>,
}

/// Workloads in the order of their names, of one part of a selector.
struct Source {
    find: Find,
    /// Beginning of the next page.
    from: String,
    page: VecDeque<Typed<Workload>>,
    more: bool,
}

/// Way to find workloads: their names, or a value of an index.
enum Find {
    Names(VecDeque<String>),
    Prefix(String),
    Label(String),
}

impl Source {
    /// Reads the next page, if none is left.
    fn fill(&mut self, namespace: &Namespace<'_>, before: &str, limit: u32) -> Result<(), Failure> {
        while self.page.is_empty() && self.more {
            let cache = namespace.ctx.cache();
            let (index, key) = match &mut self.find {
                Find::Names(names) => {
                    let Some(name) = names.pop_front() else {
                        self.more = false;
                        return Ok(());
                    };
                    self.page.extend(cache.get(WORKLOAD, &WORKLOAD.id(&name, &namespace.tenancy))?);
                    continue;
                }
                Find::Prefix(value) => (NAME, Key::Value(value)),
                Find::Label(value) => (LABEL, Key::Exact(value)),
            };
            let names = (self.from.as_str(), before);
            let (page, more) = cache.page(WORKLOAD, &namespace.tenancy, (index, key), names, limit)?;
            // The first possible name after the last one: a dash is the least character of names.
            let next = page.last().map(|last| format!("{}-", last.name()));
            self.more = more && next.is_some();
            self.from = next.unwrap_or_default();
            self.page = page.into();
        }
        Ok(())
    }
}

impl Workloads<'_> {
    /// The next workload.
    ///
    /// # Errors
    /// The host's.
    pub(crate) fn next(&mut self) -> Result<Option<Typed<Workload>>, Failure> {
        loop {
            for source in &mut self.sources {
                source.fill(&self.namespace, self.before, self.limit)?;
            }
            let fronts = self.sources.iter().filter_map(|source| source.page.front());
            let Some(name) = fronts.map(|one| one.name().to_owned()).min() else { return Ok(None) };
            let mut found = None;
            for source in &mut self.sources {
                if source.page.front().is_some_and(|one| one.name() == name) {
                    found = source.page.pop_front();
                }
            }
            if let Some(one) = found.filter(|one| selects(self.selector, one) && !one.is_marked()) {
                return Ok(Some(one));
            }
        }
    }
}

/// The services that select a workload.
pub(crate) fn services(ctx: &Context<'_>, workload: &Typed<Workload>) -> Result<Vec<pb::Id>, Error> {
    let namespace = Namespace::of(ctx, workload.id());
    let name = workload.name();
    let mut candidates = namespace.list(SERVICE, SELECTED_NAME, name)?;
    candidates.extend(namespace.list(SERVICE, SELECTED_PREFIX, EVERY_NAME)?);
    for beginning in (1..=name.len()).filter_map(|length| name.get(..length)) {
        candidates.extend(namespace.list(SERVICE, SELECTED_PREFIX, beginning)?);
    }
    for (key, value) in &workload.metadata {
        candidates.extend(namespace.list(SERVICE, SELECTED_LABEL, &format!("{key}={value}"))?);
    }
    let is_meant = |one: &Typed<Service>| one.data.selector.as_ref().is_some_and(|it| selects(it, workload));
    let ids: BTreeMap<_, _> =
        candidates.into_iter().filter(is_meant).map(|one| (one.name().to_owned(), one.id().clone())).collect();
    Ok(ids.into_values().collect())
}

/// The services with this prefix of their names, in the namespace of a resource.
pub(crate) fn services_named(ctx: &Context<'_>, neighbour: &pb::Id, prefix: &str) -> Result<Vec<pb::Id>, Failure> {
    let namespace = Namespace::of(ctx, neighbour);
    let found: Vec<Typed<Service>> = ctx.cache().list(SERVICE, SERVICE_NAME, Key::Value(&namespace.value(prefix)))?;
    Ok(found.iter().map(|service| service.id().clone()).collect())
}

/// Whether a selector selects a workload of its namespace.
fn selects(selector: &Selector, workload: &Typed<Workload>) -> bool {
    let name = workload.name();
    let any_name = selector.names.is_empty() && selector.prefixes.is_empty();
    let by_prefix = |prefix: &String| prefix == EVERY_NAME || name.starts_with(prefix.as_str());
    (any_name || selector.names.iter().any(|one| one == name) || selector.prefixes.iter().any(by_prefix))
        && selector.labels.iter().all(|(key, value)| workload.metadata.get(key) == Some(value))
}

/// A namespace, for keys of the indexes.
struct Namespace<'c> {
    ctx: &'c Context<'c>,
    tenancy: pb::Tenancy,
}

impl<'c> Namespace<'c> {
    fn of(ctx: &'c Context<'c>, id: &pb::Id) -> Self {
        Self { ctx, tenancy: id.tenancy.clone().unwrap_or_default() }
    }

    fn value(&self, value: &str) -> String {
        format!("{}/{}/{value}", self.tenancy.partition, self.tenancy.namespace)
    }

    /// Resources that an index has under exactly this value.
    fn list<M: mortise_plugin::Data>(&self, kind: Kind<M>, index: &str, value: &str) -> Result<Vec<Typed<M>>, Failure> {
        self.ctx.cache().list(kind, index, Key::Exact(&self.value(value)))
    }
}
