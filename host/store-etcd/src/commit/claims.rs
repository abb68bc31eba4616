//! Claims: what transactions under way change and depend on, and what the copy lacks of stored ones.
//!
//! A batch that shares a resource with a claim would be drafted on a state that is not the newest, and refused by etcd.
//! It waits in the queue instead, and so does a later batch that shares a resource with it: batches of one resource go in
//! their order, and none is passed by for ever.
//!
//! Resources count by hashes of 64 bits: two with the same hash wait for each other, and nothing else follows from it.

use std::{
    collections::{HashSet, VecDeque},
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use mortise_resource::IdRef;
use mortise_store::{Batch, ExpectedId, Mutation, follower::DraftedGrowth};

use super::{MAX_OPERATIONS, Pending};

/// Most transactions that the copy may lack.
pub(super) const MAX_UNSEEN: usize = 1_024;

/// Hashes of the resources of a batch.
#[derive(Debug, Default)]
pub(super) struct Targets {
    changed: Vec<u64>,
    expected: Vec<u64>,
}

impl Targets {
    /// Returns the targets of a batch; all targets that are compared need the same hasher.
    pub(super) fn of(batch: &Batch, hasher: &RandomState) -> Self {
        let of_id = |id: &mortise_resource::pb::Id| {
            let IdRef { group, kind, partition, namespace, name, .. } = IdRef::from(id);
            hasher.hash_one([group, kind, partition, namespace, name])
        };
        let of_expected = |id: &ExpectedId| {
            let ExpectedId { type_key, partition, namespace, name, .. } = id;
            hasher.hash_one([type_key.group.as_str(), &type_key.kind, partition, namespace, name])
        };
        let changed = batch.mutations.iter().filter_map(|mutation| match mutation {
            Mutation::Put(resource) | Mutation::Rewrite(resource) => resource.id.as_ref().map(of_id),
            Mutation::Delete { id, .. } => Some(of_id(id)),
        });
        let expected = batch.expect.iter().map(|expected| &expected.id);
        let referrers = batch.referrers.iter().map(|expected| &expected.id);
        Self { changed: changed.collect(), expected: expected.chain(referrers).map(of_expected).collect() }
    }
}

/// Resources that batches change and depend on.
#[derive(Debug, Default)]
struct Held {
    changed: HashSet<u64>,
    expected: HashSet<u64>,
}

impl Held {
    /// Whether a batch has to wait.
    fn holds(&self, targets: &Targets) -> bool {
        let is_changed = |target: &u64| self.changed.contains(target);
        targets.changed.iter().any(|target| is_changed(target) || self.expected.contains(target))
            || targets.expected.iter().any(is_changed)
    }

    fn add(&mut self, targets: &Targets) {
        self.changed.extend(&targets.changed);
        self.expected.extend(&targets.expected);
    }
}

/// The claim of one transaction.
#[derive(Debug)]
pub(super) struct Claim {
    number: u64,
    targets: Vec<Arc<Targets>>,
    growth: DraftedGrowth,
    /// Revision of a stored transaction.
    revision: Option<i64>,
}

/// The claims of all transactions that are under way, or that the copy may lack.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    claims: Vec<Claim>,
    last: u64,
}

impl Claims {
    pub(super) fn len(&self) -> usize {
        self.claims.len()
    }

    /// Adds the claim of a transaction; returns its number.
    pub(super) fn add(&mut self, targets: Vec<Arc<Targets>>, growth: DraftedGrowth) -> u64 {
        self.last += 1;
        self.claims.push(Claim { number: self.last, targets, growth, revision: None });
        self.last
    }

    /// Notes the revision of a stored transaction.
    pub(super) fn stored(&mut self, number: u64, revision: i64) {
        if let Some(claim) = self.claims.iter_mut().find(|claim| claim.number == number) {
            claim.revision = Some(revision);
        }
    }

    /// Removes the claim of a transaction that is not stored.
    pub(super) fn remove(&mut self, number: u64) {
        self.claims.retain(|claim| claim.number != number);
    }

    /// Forgets the transactions that a copy with this revision has.
    pub(super) fn forget(&mut self, known: i64) {
        self.claims.retain(|claim| claim.revision.is_none_or(|revision| revision > known));
    }

    /// Returns the growth by all transactions. A draft that is refused for one that is not stored, or that the copy has
    /// got meanwhile, is repeated without it (`confirm`).
    pub(super) fn growth(&self) -> DraftedGrowth {
        let mut sum = DraftedGrowth::default();
        self.claims.iter().for_each(|claim| sum.extend(&claim.growth));
        sum
    }

    /// Takes the first batches that a draft may look at, up to a large one. From here on a caller that gives up learns
    /// that its batch may be stored.
    pub(super) fn take(&self, queue: &mut VecDeque<Pending>) -> VecDeque<Pending> {
        let mut held = Held::default();
        self.claims.iter().flat_map(|claim| &claim.targets).for_each(|targets| held.add(targets));
        let mut changed: HashSet<u64> = HashSet::new();
        let (mut taken, mut left) = (VecDeque::new(), VecDeque::new());
        while let Some(pending) = queue.pop_front_if(|pending| !pending.is_large && taken.len() < MAX_OPERATIONS) {
            let targets = &pending.targets;
            // One transaction changes a resource once.
            if held.holds(targets) || targets.changed.iter().any(|target| changed.contains(target)) {
                held.add(targets);
                left.push_back(pending);
            } else if pending.begin() {
                changed.extend(&targets.changed);
                taken.push_back(pending);
            }
        }
        left.append(queue);
        *queue = left;
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use mortise_resource::pb;
    use mortise_store::{Expectation, TypeKey};

    use super::{super::Commits, *};

    fn id(name: &str) -> pb::Id {
        let of = pb::Type { group: "g".into(), group_version: "v1".into(), kind: "K".into() };
        pb::Id { name: name.into(), r#type: Some(of), tenancy: None, uid: String::new() }
    }

    /// A batch that changes the first resources, and expects the others.
    fn batch(changed: &[&str], expected: &[&str]) -> Batch {
        let put = |name: &&str| Mutation::Put(Box::new(pb::Resource { id: Some(id(name)), ..pb::Resource::default() }));
        let expect = |name: &&str| {
            let type_key = TypeKey { group: "g".into(), kind: "K".into() };
            let (partition, namespace) = (String::new(), String::new());
            let id = ExpectedId { type_key, partition, namespace, name: (*name).into(), uid: String::new() };
            Expectation { id, generation: None, is_unmarked: false }
        };
        Batch { expect: expected.iter().map(expect).collect(), ..Batch::new(changed.iter().map(put).collect()) }
    }

    /// The batches as they wait in a queue, in their order.
    fn queue(batches: &[Batch]) -> VecDeque<Pending> {
        let (commits, mut waiting) = Commits::new();
        for batch in batches {
            let call = std::pin::pin!(commits.commit(batch.clone(), None));
            assert!(call.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        std::iter::from_fn(|| waiting.try_recv().ok()).collect()
    }

    fn targets(pending: &VecDeque<Pending>) -> Vec<Arc<Targets>> {
        pending.iter().map(|pending| pending.targets.clone()).collect()
    }

    fn is_same(found: &VecDeque<Pending>, batches: &[&Batch]) -> bool {
        found.iter().map(|pending| &pending.batch).eq(batches.iter().copied())
    }

    #[tokio::test]
    async fn what_shares_a_resource_with_a_claim_waits_and_what_shares_one_with_that_too() {
        let all = [
            batch(&["a"], &[]),
            batch(&["a", "b"], &[]),
            batch(&["b"], &[]),
            batch(&["c"], &["a"]),
            batch(&["d"], &["e"]),
            batch(&["e"], &[]),
            batch(&["f"], &["e"]),
            batch(&["f"], &[]),
        ];
        let [a, ab, b, c_of_a, d, e, f_of_e, f] = &all;
        let mut waiting = queue(&all);
        let mut claims = Claims::default();
        let first = claims.take(&mut waiting);
        assert!(is_same(&first, &[a, d, e, f_of_e]), "{}", first.len());
        assert!(is_same(&waiting, &[ab, b, c_of_a, f]));
        let number = claims.add(targets(&first), DraftedGrowth::default());
        assert!(claims.take(&mut waiting).is_empty());
        // Stored, but unknown to the copy.
        claims.stored(number, 7);
        claims.forget(6);
        assert!(claims.take(&mut waiting).is_empty());
        claims.forget(7);
        assert_eq!(claims.len(), 0);
        assert!(is_same(&claims.take(&mut waiting), &[ab, c_of_a, f]));
        assert!(is_same(&waiting, &[b]));
    }

    #[tokio::test]
    async fn what_a_claim_depends_on_is_not_changed_meanwhile() {
        let all = [batch(&["a"], &["place"]), batch(&["place"], &[]), batch(&["b"], &["place"])];
        let [a, place, b] = &all;
        let mut first = queue(&all);
        let mut rest = first.split_off(1);
        let mut claims = Claims::default();
        let first = claims.take(&mut first);
        assert!(is_same(&first, &[a]));
        let number = claims.add(targets(&first), DraftedGrowth::default());
        assert!(claims.take(&mut rest).is_empty(), "the first waits for the claim, the second for the first");
        claims.remove(number);
        assert!(is_same(&claims.take(&mut rest), &[place, b]));
        assert!(rest.is_empty());
    }
}
