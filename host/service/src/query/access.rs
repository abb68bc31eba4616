//! How the resources of a search are found: by their names, by the index of a label, or by a range of names.
//!
//! Which one is taken follows from what must hold for whatever matches. Of several labels that have to be there, the
//! first whose entries end with the first page of the index is taken, or else the one with the fewest values; so a look
//! at a few pages decides, and no statistics are kept.

use std::collections::BTreeSet;

use mortise_query::{Fact, Subject};
use mortise_resource::{EncodedResource, data::query_plan::Access, pb, tenancy};
use mortise_store::{Backend, Consistency, Cursor, Place, Query, ScanPart, StoreError};

/// Names that are looked up one by one; more of them are searched for.
const MAX_NAMES: usize = 1_000;
/// Values of a label whose entries are read one after another.
const MAX_VALUES: usize = 100;
/// Labels of which the first page is looked at.
const MAX_PROBES: usize = 4;

/// The resources that may match, in pages.
pub(super) struct Candidates {
    pub(super) access: Access,
    pub(super) keys: Vec<String>,
    /// Whether they come in the order of lists.
    pub(super) in_order: bool,
    /// Read already, in choosing.
    first: Option<Vec<EncodedResource>>,
    source: Source,
}

enum Source {
    Names(std::vec::IntoIter<pb::Id>),
    Scans { cursor: Box<dyn Cursor>, query: Query, rest: std::vec::IntoIter<ScanPart> },
}

/// Chooses how to find what `facts` hold for, of what is behind `after`.
pub(super) async fn choose(
    backend: &dyn Backend,
    query: &Query,
    of: &pb::Type,
    facts: &[Fact],
    after: Option<Place>,
) -> Result<Candidates, StoreError> {
    let in_one_place =
        [&query.tenancy.partition, &query.tenancy.namespace].iter().all(|unit| *unit != tenancy::WILDCARD);
    let names = facts.iter().find(|fact| matches!(fact.subject, Subject::Name) && fact.values.len() <= MAX_NAMES);
    if let Some(names) = names.filter(|_| in_one_place) {
        return Ok(by_names(query, of, &names.values, after.as_ref()));
    }
    let mut labels: Vec<(&str, &Fact)> = facts
        .iter()
        .filter_map(|fact| match &fact.subject {
            Subject::Label(label) if fact.values.len() <= MAX_VALUES => Some((label.as_str(), fact)),
            _ => None,
        })
        .collect();
    labels.sort_by_key(|(_, fact)| fact.values.len());
    let mut chosen = None;
    for (label, fact) in labels.iter().take(MAX_PROBES) {
        let mut candidates = by_label(backend, query, label, fact, after.clone()).await?;
        if labels.len() == 1 || candidates.probe().await? {
            return Ok(candidates);
        }
        chosen.get_or_insert(candidates);
    }
    if let Some(candidates) = chosen {
        return Ok(candidates);
    }
    let cursor = backend.scan_part(query, &ScanPart { label: None, after }).await?;
    let source = Source::Scans { cursor, query: query.clone(), rest: Vec::new().into_iter() };
    let keys = vec![query.name_prefix.clone()];
    Ok(Candidates { access: Access::NameRange, keys, in_order: true, first: None, source })
}

fn by_names(query: &Query, of: &pb::Type, names: &BTreeSet<String>, after: Option<&Place>) -> Candidates {
    let pb::Tenancy { partition, namespace } = &query.tenancy;
    let place =
        |name: &String| Place { partition: partition.clone(), namespace: namespace.clone(), name: name.clone() };
    let mut names: Vec<_> = names.iter().filter(|name| name.starts_with(&query.name_prefix)).cloned().collect();
    names.retain(|name| after.is_none_or(|after| place(name) > *after));
    names.sort();
    names.dedup();
    let id = |name: &String| pb::Id {
        r#type: Some(of.clone()),
        tenancy: Some(query.tenancy.clone()),
        name: name.clone(),
        uid: String::new(),
    };
    let ids: Vec<_> = names.iter().map(id).collect();
    let source = Source::Names(ids.into_iter());
    Candidates { access: Access::Names, keys: names, in_order: true, first: None, source }
}

async fn by_label(
    backend: &dyn Backend,
    query: &Query,
    label: &str,
    fact: &Fact,
    after: Option<Place>,
) -> Result<Candidates, StoreError> {
    let part = |value: &String| ScanPart { label: Some((label.to_owned(), value.clone())), after: after.clone() };
    let mut parts = fact.values.iter().map(part).collect::<Vec<_>>().into_iter();
    // Of no value there is nothing: a label that no resource has.
    let first = parts.next().unwrap_or_else(|| part(&String::new()));
    let cursor = backend.scan_part(query, &first).await?;
    Ok(Candidates {
        access: Access::Label,
        keys: fact.values.iter().map(|value| format!("{label}={value}")).collect(),
        in_order: fact.values.len() <= 1,
        first: None,
        source: Source::Scans { cursor, query: query.clone(), rest: parts },
    })
}

impl Candidates {
    /// Reads the first page. True when no other follows.
    async fn probe(&mut self) -> Result<bool, StoreError> {
        let Source::Scans { cursor, rest, .. } = &mut self.source else { return Ok(true) };
        self.first = Some(cursor.next().await?.unwrap_or_default());
        Ok(cursor.is_at_end() && rest.len() == 0)
    }

    /// The next page; `None` after the last.
    pub(super) async fn next(&mut self, backend: &dyn Backend) -> Result<Option<Vec<EncodedResource>>, StoreError> {
        if let Some(first) = self.first.take().filter(|first| !first.is_empty()) {
            return Ok(Some(first));
        }
        match &mut self.source {
            Source::Names(ids) => {
                const PAGE: usize = 64;
                let mut page = Vec::new();
                let mut looked = 0;
                for id in ids.by_ref() {
                    match backend.read_encoded(Consistency::Consistent, &id).await {
                        Ok(resource) => page.push(resource),
                        Err(StoreError::NotFound | StoreError::GroupVersionMismatch { .. }) => {}
                        Err(error) => return Err(error),
                    }
                    looked += 1;
                    if looked == PAGE {
                        break;
                    }
                }
                Ok((looked > 0).then_some(page))
            }
            Source::Scans { cursor, query, rest } => loop {
                if let Some(page) = cursor.next().await? {
                    return Ok(Some(page));
                }
                let Some(part) = rest.next() else { return Ok(None) };
                *cursor = backend.scan_part(query, &part).await?;
            },
        }
    }
}
