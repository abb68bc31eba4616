//! Access paths of a search: by resource names, by the index of a label or of a field, or by a range of names.
//!
//! The choice follows from the facts that hold for every match. Of several required labels, the first whose entries end
//! within the first page of the index is taken. Otherwise the field with the fewest entries is taken, if these are few
//! or no label is required; otherwise the label with the fewest values. So reading a few pages decides, without
//! statistics. Without any of these, the index of a field is walked: in the order of the search, if its first key is
//! the field ([`super::walk`]), or over a range of few values, such as those with a beginning.

use std::{collections::BTreeSet, sync::Arc};

use mortise_query::{Fact, Subject};
use mortise_resource::{EncodedResource, data::query_plan::Access, pb, tenancy};
use mortise_store::{Backend, Consistency, Cursor, ListKey, Query, ScanPart, StoreError};

use crate::core::durations::INDEX_BUILD_WAIT;

use super::{
    compile::Search,
    field_index::{
        indexes::TypeIndex,
        lookup::{Lookup, LookupPage},
    },
    queries::Queries,
    walk::{FieldWalk, WalkStep, walked},
};

/// Names that are read one by one; more of them are found by a range.
const MAX_NAMES: usize = 1_000;
/// Values of a label whose entries are read one after another.
const MAX_LABEL_VALUES: usize = 100;
/// Labels whose first page is read for the choice.
const MAX_PROBED_LABELS: usize = 4;
/// Entries up to which a field is preferred to a label with several pages.
pub(super) const MAX_FIELD_ENTRIES: usize = 1_000;
/// Resources that are read by name at once.
pub(super) const PAGE_NAMES: usize = 64;

/// The resources that may match, in pages.
pub(crate) struct Candidates {
    pub(crate) access: Access,
    pub(crate) keys: Vec<String>,
    /// Whether they come in the order of the search, if that is the order of lists.
    pub(super) in_order: bool,
    /// Whether the last page begins again with everything that may match.
    pub(super) restarted: bool,
    /// First page, if the choice has read it.
    first: Option<Vec<EncodedResource>>,
    source: CandidateSource,
}

enum CandidateSource {
    Names(std::vec::IntoIter<pb::Id>),
    Field(FieldSource),
    Walk(Box<FieldWalk>),
    Scans { cursor: Box<dyn Cursor>, query: Query, rest: std::vec::IntoIter<ScanPart> },
}

/// Places from the index of a field.
struct FieldSource {
    index: TypeIndex,
    lookup: Lookup,
    resource_type: pb::Type,
    /// Found places, not yet read.
    found: std::vec::IntoIter<ListKey>,
    /// ListKey behind which the next look-up begins.
    next: Option<ListKey>,
}

/// Chooses the access path of a search.
///
/// If `is_patient`, waits without a bound for an index in construction.
pub(crate) async fn choose(queries: &Queries, search: &Search, is_patient: bool) -> Result<Candidates, StoreError> {
    let (backend, query, resource_type) = (&*queries.core.backend, &search.query, search.kind.gvk.to_pb());
    let (facts, after) = (search.facts(), search.after());
    let in_one_place =
        [&query.tenancy.partition, &query.tenancy.namespace].iter().all(|unit| *unit != tenancy::WILDCARD);
    let names = facts.iter().find(|fact| matches!(fact.subject, Subject::Name) && fact.values.len() <= MAX_NAMES);
    if let Some(names) = names.filter(|_| in_one_place) {
        return Ok(by_names(query, &resource_type, &names.values, after.as_ref()));
    }
    let mut labels: Vec<(&str, &Fact)> = facts
        .iter()
        .filter_map(|fact| match &fact.subject {
            Subject::Label(label) if fact.values.len() <= MAX_LABEL_VALUES => Some((label.as_str(), fact)),
            _ => None,
        })
        .collect();
    let fields = indexed(search, &facts);
    labels.sort_by_key(|(_, fact)| fact.values.len());
    let mut chosen = None;
    for (label, fact) in labels.iter().take(MAX_PROBED_LABELS) {
        let mut candidates = by_label(backend, query, label, fact, after.clone()).await?;
        if (labels.len() == 1 && fields.is_empty()) || candidates.probe().await? {
            return Ok(candidates);
        }
        chosen.get_or_insert(candidates);
    }
    let field = by_field(queries, search, fields, after.as_ref(), is_patient).await;
    if let Some((entries, candidates)) = field
        && (chosen.is_none() || entries <= MAX_FIELD_ENTRIES)
    {
        return Ok(candidates);
    }
    if let Some(candidates) = chosen {
        return Ok(candidates);
    }
    if let Some((walk, keys)) = walked(queries, search, is_patient).await {
        let source = CandidateSource::Walk(Box::new(walk));
        return Ok(Candidates { access: Access::Field, keys, in_order: false, restarted: false, first: None, source });
    }
    // The names of all matches may begin with more than the parent.
    let mut query = query.clone();
    if let Some(prefix) = search.name_prefix().filter(|prefix| prefix.starts_with(&query.name_prefix)) {
        prefix.clone_into(&mut query.name_prefix);
    }
    let cursor = backend.scan_part(&query, &ScanPart { label: None, after }).await?;
    let source = CandidateSource::Scans { cursor, query: query.clone(), rest: Vec::new().into_iter() };
    let keys = Some(&query.name_prefix).filter(|prefix| !prefix.is_empty()).cloned().into_iter().collect();
    Ok(Candidates { access: Access::NameRange, keys, in_order: true, restarted: false, first: None, source })
}

fn by_names(query: &Query, resource_type: &pb::Type, names: &BTreeSet<String>, after: Option<&ListKey>) -> Candidates {
    let pb::Tenancy { partition, namespace } = &query.tenancy;
    let list_key =
        |name: &String| ListKey { partition: partition.clone(), namespace: namespace.clone(), name: name.clone() };
    let mut names: Vec<_> = names.iter().filter(|name| name.starts_with(&query.name_prefix)).cloned().collect();
    names.retain(|name| after.is_none_or(|after| list_key(name) > *after));
    names.sort();
    names.dedup();
    let id = |name: &String| pb::Id {
        r#type: Some(resource_type.clone()),
        tenancy: Some(query.tenancy.clone()),
        name: name.clone(),
        uid: String::new(),
    };
    let ids: Vec<_> = names.iter().map(id).collect();
    let source = CandidateSource::Names(ids.into_iter());
    Candidates { access: Access::Names, keys: names, in_order: true, restarted: false, first: None, source }
}

async fn by_label(
    backend: &dyn Backend,
    query: &Query,
    label: &str,
    fact: &Fact,
    after: Option<ListKey>,
) -> Result<Candidates, StoreError> {
    let part = |value: &String| ScanPart { label: Some((label.to_owned(), value.clone())), after: after.clone() };
    let mut parts = fact.values.iter().map(part).collect::<Vec<_>>().into_iter();
    // A label without values matches no resource.
    let first = parts.next().unwrap_or_else(|| part(&String::new()));
    let cursor = backend.scan_part(query, &first).await?;
    Ok(Candidates {
        access: Access::Label,
        keys: fact.values.iter().map(|value| format!("{label}={value}")).collect(),
        in_order: fact.values.len() <= 1,
        restarted: false,
        first: None,
        source: CandidateSource::Scans { cursor, query: query.clone(), rest: parts },
    })
}

/// Returns the indexed fields with a required value, by their numbers.
fn indexed<'f>(search: &Search, facts: &'f [Fact]) -> Vec<(usize, &'f str, &'f Fact)> {
    let number = |name: &String| search.kind.query.indexed.iter().position(|path| path.name() == name);
    let field = |fact: &'f Fact| match &fact.subject {
        Subject::Field(name) if fact.values.len() <= MAX_LABEL_VALUES => Some((number(name)?, name.as_str(), fact)),
        _ => None,
    };
    facts.iter().filter_map(field).take(MAX_PROBED_LABELS).collect()
}

/// Returns the field with the fewest entries, and their number; `None` without an index.
async fn by_field(
    queries: &Queries,
    search: &Search,
    fields: Vec<(usize, &str, &Fact)>,
    after: Option<&ListKey>,
    is_patient: bool,
) -> Option<(usize, Candidates)> {
    if fields.is_empty() {
        return None;
    }
    let index = queries.field_indexes.for_type(&queries.lists, &search.kind);
    index.made(if is_patient { None } else { Some(INDEX_BUILD_WAIT) }).await?;
    let query = Arc::new(search.query.clone());
    let mut best: Option<(usize, Candidates)> = None;
    for (field, name, fact) in fields {
        let path = search.kind.query.indexed.get(field)?;
        let keys = fact.values.iter().filter_map(|value| path.key_of(value)).collect();
        let lookup = Lookup { field, values: Arc::new(keys), query: query.clone() };
        let LookupPage { places, next, entries } = index.find(lookup.clone(), after.cloned()).await?;
        if best.as_ref().is_some_and(|(fewest, _)| *fewest <= entries) {
            continue;
        }
        let (index, resource_type) = (index.clone(), search.kind.gvk.to_pb());
        let source =
            CandidateSource::Field(FieldSource { index, lookup, resource_type, found: places.into_iter(), next });
        let keys = fact.values.iter().map(|value| format!("{name}={value}")).collect();
        best = Some((
            entries,
            Candidates { access: Access::Field, keys, in_order: true, restarted: false, first: None, source },
        ));
    }
    best
}

/// Reads resources by name; leaves out deleted ones.
pub(super) async fn read_all(
    backend: &dyn Backend,
    ids: impl Iterator<Item = pb::Id>,
) -> Result<Vec<EncodedResource>, StoreError> {
    let mut page = Vec::new();
    for id in ids {
        match backend.read_encoded(Consistency::Consistent, &id).await {
            Ok(resource) => page.push(resource),
            Err(StoreError::NotFound | StoreError::GroupVersionMismatch { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(page)
}

impl FieldSource {
    /// Returns the next page, which may be empty; `None` after the last.
    async fn next(&mut self, backend: &dyn Backend) -> Result<Option<Vec<EncodedResource>>, FieldPageError> {
        if self.found.as_slice().is_empty() {
            let Some(after) = self.next.take() else { return Ok(None) };
            let found =
                self.index.find(self.lookup.clone(), Some(after.clone())).await.ok_or(FieldPageError::Index(after))?;
            (self.found, self.next) = (found.places.into_iter(), found.next);
        }
        let resource_type = &self.resource_type;
        let id = |ListKey { partition, namespace, name }| pb::Id {
            r#type: Some(resource_type.clone()),
            tenancy: Some(pb::Tenancy { partition, namespace }),
            name,
            uid: String::new(),
        };
        read_all(backend, self.found.by_ref().take(PAGE_NAMES).map(id)).await.map(Some).map_err(FieldPageError::Store)
    }
}

/// The reason why the next page is missing.
enum FieldPageError {
    /// The index is gone; everything up to this place was found.
    Index(ListKey),
    Store(StoreError),
}

impl Candidates {
    /// The walk that the candidates come from.
    pub(super) fn as_walk(&self) -> Option<&FieldWalk> {
        match &self.source {
            CandidateSource::Walk(walk) => Some(&**walk),
            _ => None,
        }
    }

    /// Reads the first page. Returns whether it is the only one.
    async fn probe(&mut self) -> Result<bool, StoreError> {
        let CandidateSource::Scans { cursor, rest, .. } = &mut self.source else { return Ok(true) };
        self.first = Some(cursor.next().await?.unwrap_or_default());
        Ok(cursor.is_at_end() && rest.len() == 0)
    }

    /// Returns the next page; `None` after the last.
    pub(crate) async fn next(&mut self, backend: &dyn Backend) -> Result<Option<Vec<EncodedResource>>, StoreError> {
        if let Some(first) = self.first.take().filter(|first| !first.is_empty()) {
            return Ok(Some(first));
        }
        match &mut self.source {
            CandidateSource::Names(ids) => {
                let is_at_end = ids.as_slice().is_empty();
                let page = read_all(backend, ids.by_ref().take(PAGE_NAMES)).await?;
                Ok((!is_at_end).then_some(page))
            }
            CandidateSource::Walk(walk) => match walk.next(backend).await? {
                WalkStep::Page(page) => Ok(Some(page)),
                WalkStep::End => Ok(None),
                WalkStep::Broken => {
                    let query = Query::clone(walk.query());
                    let mut cursor = backend.scan_part(&query, &ScanPart::default()).await?;
                    let page = cursor.next().await?;
                    (self.access, self.restarted) = (Access::NameRange, true);
                    self.source = CandidateSource::Scans { cursor, query, rest: Vec::new().into_iter() };
                    Ok(page)
                }
            },
            CandidateSource::Field(field) => match field.next(backend).await {
                Ok(page) => Ok(page),
                Err(FieldPageError::Store(error)) => Err(error),
                Err(FieldPageError::Index(after)) => {
                    let query = Query::clone(&field.lookup.query);
                    let mut cursor = backend.scan_part(&query, &ScanPart { label: None, after: Some(after) }).await?;
                    let page = cursor.next().await?;
                    self.access = Access::NameRange;
                    self.source = CandidateSource::Scans { cursor, query, rest: Vec::new().into_iter() };
                    Ok(page)
                }
            },
            CandidateSource::Scans { cursor, query, rest } => loop {
                if let Some(page) = cursor.next().await? {
                    return Ok(Some(page));
                }
                let Some(part) = rest.next() else { return Ok(None) };
                *cursor = backend.scan_part(query, &part).await?;
            },
        }
    }
}
