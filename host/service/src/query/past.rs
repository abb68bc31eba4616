//! Searches as of one version: the contents that the store keeps for their further pages.
//!
//! # Contract
//! A search with `at = "now"` answers as of the newest commit. If there are more pages, the store keeps the content of
//! its place ([`PastContent`]), and a page of that version is exact in spite of later changes, by any access path: a
//! resource that was overwritten counts as it was, and any other as it is. The rights of a caller are those of the
//! page.
//!
//! # Limits
//! [`MAX_KEPT_VERSIONS`] contents; beyond it, the caller with the most loses the least recently used. Each is dropped
//! [`KEPT_IDLE_TIME`] after its last page, and [`KEPT_TIME`] after its first, and when its overwritten states exceed
//! the bytes of all scans (`store.watch_bytes`). A later page is Aborted. A restart drops all.
//!
//! # Cost
//! None for a search without `at`. A commit compares its changes with each kept content; a page copies the references
//! to the overwritten states, and evaluates those that existed.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Weak},
    time::Duration,
};

use mortise_query::ResumeToken;
use mortise_resource::{Code, EncodedResource, Error};
use mortise_store::{ListKey, PastContent, Position, Query, StoreError};
use parking_lot::Mutex;
use tokio::{runtime::Handle, time::Instant};

use super::{
    compile::{At, Search},
    queries::Queries,
};
use crate::{
    call::{Caller, Source, store_fault::store_fault},
    core::durations::{KEPT_IDLE_TIME, KEPT_SWEEP_INTERVAL, KEPT_TIME},
};

/// Contents that are kept for further pages.
const MAX_KEPT_VERSIONS: usize = 32;

/// The contents that are kept. Cheap to clone.
#[derive(Clone)]
pub(super) struct KeptVersions {
    kept: Arc<Mutex<Vec<KeptVersion>>>,
    /// Runtime of the sweep. The caller may be on a thread of low priority, which has another one.
    runtime: Option<Handle>,
}

struct KeptVersion {
    holder: Source,
    query: Query,
    content: Arc<dyn PastContent>,
    begun: Instant,
    used: Instant,
}

/// The content that a search answers from.
pub(super) struct Past {
    content: Arc<dyn PastContent>,
    /// Overwritten states that the search has seen.
    known: usize,
    places: HashSet<ListKey>,
}

impl KeptVersions {
    pub(super) fn new() -> Self {
        Self { kept: Arc::default(), runtime: Handle::try_current().ok() }
    }

    /// Returns the content of a version, and notes its use.
    fn find(&self, holder: Source, query: &Query, version: u64) -> Option<Arc<dyn PastContent>> {
        let mut kept = self.kept.lock();
        let is_it = |kept: &&mut KeptVersion| {
            kept.holder == holder && kept.query == *query && kept.content.position().sequence == version
        };
        let found = kept.iter_mut().filter(|kept| !kept.is_over()).find(is_it)?;
        found.used = Instant::now();
        Some(found.content.clone())
    }

    /// Keeps a content.
    fn keep(&self, holder: Source, query: &Query, content: Arc<dyn PastContent>) {
        // The same version of the same place is the same content.
        if self.find(holder, query, content.position().sequence).is_some() {
            return;
        }
        let now = Instant::now();
        let new = KeptVersion { holder, query: query.clone(), content, begun: now, used: now };
        let mut kept = self.kept.lock();
        let is_first = kept.is_empty();
        if kept.len() >= MAX_KEPT_VERSIONS {
            let mut by_holder: HashMap<Source, usize> = HashMap::new();
            kept.iter().for_each(|kept| *by_holder.entry(kept.holder).or_default() += 1);
            let most = by_holder.values().copied().max().unwrap_or_default();
            let of_most = kept.iter().enumerate().filter(|(_, kept)| by_holder.get(&kept.holder) == Some(&most));
            if let Some(oldest) = of_most.min_by_key(|(_, kept)| kept.used).map(|(index, _)| index) {
                kept.swap_remove(oldest);
                metrics::counter!("mortise_search_versions_replaced_total").increment(1);
            }
        }
        kept.push(new);
        show(&kept);
        if is_first && let Some(runtime) = self.runtime.clone().or_else(|| Handle::try_current().ok()) {
            runtime.spawn(sweep(Arc::downgrade(&self.kept)));
        }
    }
}

impl KeptVersion {
    fn is_over(&self) -> bool {
        self.used.elapsed() >= KEPT_IDLE_TIME || self.begun.elapsed() >= KEPT_TIME
    }
}

/// Drops the contents whose time is over, until none is left.
async fn sweep(kept: Weak<Mutex<Vec<KeptVersion>>>) {
    loop {
        tokio::time::sleep(KEPT_SWEEP_INTERVAL).await;
        let Some(kept) = kept.upgrade() else { return };
        let mut kept = kept.lock();
        kept.retain(|kept| !kept.is_over());
        show(&kept);
        if kept.is_empty() {
            return;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a metric")]
fn show(kept: &[KeptVersion]) {
    metrics::gauge!("mortise_search_versions").set(kept.len() as f64);
}

impl Past {
    /// Returns the position of the version.
    pub(super) fn position(&self) -> Position {
        self.content.position()
    }

    /// Returns the resources that were overwritten since the last look, as they were.
    pub(super) fn look(&mut self) -> Result<Vec<EncodedResource>, Error> {
        let found = self.content.overwritten(self.known).map_err(|error| match error {
            StoreError::ScanAborted { .. } => gone(self.position().sequence),
            other => store_fault("failed search", &other),
        })?;
        self.known += found.len();
        let (places, states): (Vec<ListKey>, Vec<_>) = found.into_iter().unzip();
        self.places.extend(places);
        Ok(states.into_iter().flatten().collect())
    }

    /// Whether a resource was overwritten, as far as the search has looked.
    pub(super) fn is_overwritten(&self, resource: &EncodedResource) -> bool {
        if self.places.is_empty() {
            return false;
        }
        let [partition, namespace, name] =
            [resource.partition(), resource.namespace(), resource.name()].map(str::to_owned);
        self.places.contains(&ListKey { partition, namespace, name })
    }

    /// Makes the next look return everything.
    pub(super) fn look_again(&mut self) {
        self.known = 0;
    }
}

impl Queries {
    /// Returns the content that a search answers from; `None` for a search as of now, page by page.
    ///
    /// # Errors
    /// `Aborted`: the version is not kept. `FailedPrecondition`: it is older than the caller wants. `InvalidArgument`:
    /// a search of a hook.
    pub(super) async fn past(&self, caller: &Caller, search: &Search) -> Result<Option<Past>, Error> {
        if search.as_of != At::Newest && caller.hook_of.is_some() {
            return Err(Error::invalid("at is not for the search of a hook; leave it out"));
        }
        let content = match search.as_of {
            At::Newest => return Ok(None),
            At::Now => {
                let content = self.core.backend.keep(&search.query).await;
                Arc::from(content.map_err(|e| store_fault("failed search", &e))?)
            }
            At::Version(version) => {
                caller.check_shown(version)?;
                self.kept.find(caller.queue_key().holder, &search.query, version).ok_or_else(|| gone(version))?
            }
        };
        Ok(Some(Past { content, known: 0, places: HashSet::new() }))
    }

    /// Keeps the content for further pages of a search.
    pub(super) fn keep(&self, caller: &Caller, search: &Search, past: &Past) {
        if search.as_of == At::Now {
            self.kept.keep(caller.queue_key().holder, &search.query, past.content.clone());
        }
    }
}

/// Returns the token with which a watch of the matches goes on behind a version.
pub(super) fn resume_token(caller: &Caller, search: &Search, position: Position) -> String {
    let Position { sequence, check } = position;
    ResumeToken { sequence, check }.encode(&search.watch_binding(caller))
}

fn gone(version: u64) -> Error {
    let seconds = |time: Duration| time.as_secs();
    Error::new(
        Code::Aborted,
        format!(
            "at: version {version} is not kept for this type and place; a version is kept from a search with at = \"now\" that \
             has more pages, for {} s after each page and {} s in all, while its overwritten resources fit in \
             store.watch_bytes; begin again with at = \"now\"",
            seconds(KEPT_IDLE_TIME),
            seconds(KEPT_TIME)
        ),
    )
}

#[cfg(test)]
mod tests {
    use mortise_resource::pb;
    use mortise_store::TypeKey;

    use super::*;

    /// A content of a version without overwritten states.
    struct Empty(u64);

    impl PastContent for Empty {
        fn position(&self) -> Position {
            Position { sequence: self.0, check: 0 }
        }

        fn overwritten(&self, _known: usize) -> Result<Vec<(ListKey, Option<EncodedResource>)>, StoreError> {
            Ok(Vec::new())
        }
    }

    fn query(name_prefix: &str) -> Query {
        Query {
            type_key: TypeKey { group: "g".into(), kind: "K".into() },
            tenancy: pb::Tenancy::default(),
            name_prefix: name_prefix.into(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_version_is_kept_for_its_caller_and_place_and_only_for_a_time() {
        let kept = KeptVersions::new();
        let (own, other) = (Source::from_key(1), Source::from_key(2));
        kept.keep(own, &query(""), Arc::new(Empty(7)));
        assert!(kept.find(own, &query(""), 7).is_some());
        for (holder, query, version) in [(other, query(""), 7), (own, query("a"), 7), (own, query(""), 8)] {
            assert!(kept.find(holder, &query, version).is_none());
        }
        // Each page gives it more time, up to a bound.
        let pages = KEPT_TIME.as_secs() / 50;
        for _ in 0..pages {
            assert!(kept.find(own, &query(""), 7).is_some());
            tokio::time::advance(Duration::from_secs(50)).await;
        }
        tokio::time::advance(Duration::from_secs(50)).await;
        assert!(kept.find(own, &query(""), 7).is_none());
        kept.keep(own, &query(""), Arc::new(Empty(9)));
        tokio::time::advance(KEPT_IDLE_TIME).await;
        assert!(kept.find(own, &query(""), 9).is_none());
        // It leaves memory without another search.
        tokio::time::sleep(KEPT_SWEEP_INTERVAL * 2).await;
        assert_eq!(kept.kept.lock().len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_caller_with_the_most_versions_makes_room() {
        let kept = KeptVersions::new();
        let (many, few) = (Source::from_key(1), Source::from_key(2));
        kept.keep(few, &query(""), Arc::new(Empty(1)));
        for version in 2..=MAX_KEPT_VERSIONS as u64 {
            tokio::time::advance(Duration::from_millis(1)).await;
            kept.keep(many, &query(""), Arc::new(Empty(version)));
        }
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(kept.find(many, &query(""), 2).is_some(), "now it was used last");
        kept.keep(few, &query(""), Arc::new(Empty(100)));
        let has = |holder, version| kept.find(holder, &query(""), version).is_some();
        assert!(has(few, 1) && has(few, 100) && has(many, 2) && !has(many, 3) && has(many, 4));
        assert_eq!(kept.kept.lock().len(), MAX_KEPT_VERSIONS);
    }
}
