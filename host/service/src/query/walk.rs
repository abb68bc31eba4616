//! A search by a walk over the index of a field: in the order of the search if its first key is the field, or over a
//! range of few values.
//!
//! # Contract
//! A walk in the order of the search may end before its last resource: once the page is full, and no later resource can
//! belong to it. Resources with unknown values come first. The walk sees each resource as it is when it is read; one
//! that moves in the order while the search reads may be missing, or stand at its new place.
//!
//! # Cost
//! The resources up to the end of the page. A walk in order that has read [`MAX_WALKED`] resources gives up, since a
//! range of names is read faster.

use std::{ops::Bound, sync::Arc};

use mortise_query::{Direction, FieldRange, LeadingKey, SortKey};
use mortise_resource::{EncodedResource, pb};
use mortise_store::{Backend, ListKey, Query, StoreError};

use super::{
    access::{MAX_FIELD_ENTRIES, PAGE_NAMES, read_all},
    collect::Collector,
    compile::Search,
    field_index::{
        content::{COMPARED_VALUE_BYTES, compared_part, packed},
        indexes::TypeIndex,
        lookup::{MAX_COUNTED, Walk, WalkPosition},
    },
    queries::Queries,
};
use crate::core::durations::INDEX_BUILD_WAIT;

/// Resources after which a walk in order gives up.
const MAX_WALKED: usize = 2_000;

/// The candidates of a walk.
pub(super) struct FieldWalk {
    index: TypeIndex,
    walk: Walk,
    resource_type: pb::Type,
    /// The search's first key, if the walk has its order.
    leading: Option<LeadingKey>,
    /// Found places, not yet read.
    found: std::iter::Peekable<std::vec::IntoIter<(Option<String>, ListKey)>>,
    /// Position behind which the next page begins; `None` after the last.
    after: Option<WalkPosition>,
    is_begun: bool,
    walked: usize,
    /// Key of the last page, and whether no other resource has it.
    key: Option<String>,
    is_last_of_key: bool,
}

/// One step of a walk.
pub(super) enum WalkStep {
    Page(Vec<EncodedResource>),
    End,
    /// The walk gave up, or the index is gone.
    Broken,
}

/// Returns a walk for a search, and its keys for the plan; `None` if no index helps.
pub(super) async fn walked(queries: &Queries, search: &Search, is_patient: bool) -> Option<(FieldWalk, Vec<String>)> {
    let indexed = &search.kind.query.indexed;
    let number = |path: &str| indexed.iter().position(|known| known.name() == path && known.is_single());
    let leading = search.leading().filter(|_| !search.counts).and_then(|key| Some((number(&key.path)?, key)));
    let ranges: Vec<(usize, FieldRange)> =
        search.ranges().into_iter().filter_map(|range| Some((number(&range.path)?, range))).collect();
    if leading.is_none() && ranges.is_empty() {
        return None;
    }
    let index = queries.field_indexes.for_type(&queries.lists, &search.kind);
    index.made(if is_patient { None } else { Some(INDEX_BUILD_WAIT) }).await?;
    let query = Arc::new(search.query.clone());
    let walk = |field: usize, range: Option<&FieldRange>| Walk {
        field,
        low: range.map_or(Bound::Unbounded, |range| range.low.clone()),
        high: range.map_or(Bound::Unbounded, |range| range.high.clone()),
        with_absent: range.is_none_or(|range| range.with_absent),
        is_descending: false,
        start: None,
        query: query.clone(),
    };
    let mut fewest: Option<(usize, usize, &FieldRange)> = None;
    for (field, range) in ranges.iter().filter(|(field, _)| leading.as_ref().is_none_or(|(first, _)| first != field)) {
        let entries = index.walk(walk(*field, Some(range)), None).await?.entries;
        if fewest.is_none_or(|(least, ..)| entries < least) {
            fewest = Some((entries, *field, range));
        }
    }
    let reads_all = !search.is_by_name() || search.counts;
    let most = if reads_all && leading.is_none() { MAX_COUNTED - 1 } else { MAX_FIELD_ENTRIES };
    if let Some((_, field, range)) = fewest.filter(|(entries, ..)| *entries <= most) {
        return Some((FieldWalk::new(index, search, walk(field, Some(range)), None), vec![range.path.clone()]));
    }
    let (field, key) = leading?;
    let range = ranges.iter().find(|(ranged, _)| *ranged == field).map(|(_, range)| range);
    let token = search.token.as_ref();
    let is_left = token.is_some_and(|token| token.direction == Direction::Left);
    let is_descending = key.is_descending != is_left;
    let start = token.and_then(|token| {
        let boundary = token.boundary.index_key()?;
        let is_exact = key.is_alone && !token.is_inclusive && boundary.len() < COMPARED_VALUE_BYTES;
        let place = token.boundary.place_behind().filter(|_| is_exact).map(|[partition, namespace, name]| {
            packed(&ListKey { partition: partition.into(), namespace: namespace.into(), name: name.into() })
        });
        // Before or behind all places with the key.
        let edge = if is_descending { char::MAX.to_string() } else { String::new() };
        Some((boundary, place.unwrap_or(edge)))
    });
    let walk = Walk { is_descending, start, ..walk(field, range) };
    let keys = vec![format!("{} {}", key.path, if key.is_descending { "desc" } else { "asc" })];
    Some((FieldWalk::new(index, search, walk, Some(key)), keys))
}

impl FieldWalk {
    fn new(index: TypeIndex, search: &Search, walk: Walk, leading: Option<LeadingKey>) -> Self {
        Self {
            index,
            walk,
            resource_type: search.kind.gvk.to_pb(),
            leading,
            found: Vec::new().into_iter().peekable(),
            after: None,
            is_begun: false,
            walked: 0,
            key: None,
            is_last_of_key: false,
        }
    }

    /// The query that bounds the walk.
    pub(super) fn query(&self) -> &Query {
        &self.walk.query
    }

    /// Whether the walk has the order of the search.
    pub(super) fn is_in_order(&self) -> bool {
        self.leading.is_some()
    }

    /// Reads the next resources, all with the same key.
    pub(super) async fn next(&mut self, backend: &dyn Backend) -> Result<WalkStep, StoreError> {
        if self.leading.is_some() && self.walked >= MAX_WALKED {
            return Ok(WalkStep::Broken);
        }
        while self.found.peek().is_none() {
            if self.is_begun && self.after.is_none() {
                return Ok(WalkStep::End);
            }
            let Some(page) = self.index.walk(self.walk.clone(), self.after.take()).await else {
                return Ok(WalkStep::Broken);
            };
            self.is_begun = true;
            (self.found, self.after) = (page.found.into_iter().peekable(), page.next);
        }
        let key = self.found.peek().and_then(|(key, _)| key.clone());
        let mut ids = Vec::new();
        while ids.len() < PAGE_NAMES
            && let Some((_, place)) = self.found.next_if(|(next, _)| *next == key)
        {
            let ListKey { partition, namespace, name } = place;
            let tenancy = Some(pb::Tenancy { partition, namespace });
            ids.push(pb::Id { r#type: Some(self.resource_type.clone()), tenancy, name, uid: String::new() });
        }
        self.walked = self.walked.saturating_add(ids.len());
        self.is_last_of_key = match self.found.peek() {
            Some((next, _)) => *next != key,
            None => self.after.is_none(),
        };
        self.key = key;
        read_all(backend, ids.into_iter()).await.map(WalkStep::Page)
    }

    /// Whether the page is complete behind a resource of the last step.
    pub(super) fn is_complete_at(&self, position: &SortKey, collector: &Collector) -> bool {
        let (Some(leading), Some(key)) = (&self.leading, &self.key) else { return false };
        let is_unmoved = position.index_key().is_some_and(|now| now == *key);
        leading.is_alone && is_unmoved && key.len() < COMPARED_VALUE_BYTES && collector.is_complete_at(position)
    }

    /// Whether the page is complete behind the last step.
    pub(super) fn is_complete(&self, collector: &Collector) -> bool {
        let (Some(_), Some(key), true) = (&self.leading, &self.key, self.is_last_of_key) else { return false };
        let Some(edge) = collector.edge().and_then(SortKey::index_key) else { return false };
        match self.walk.is_descending {
            false => compared_part(&edge) <= key.as_str(),
            true => compared_part(&edge) >= key.as_str(),
        }
    }
}
