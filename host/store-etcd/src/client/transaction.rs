//! A transaction in the making.

use super::{Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, compare, request_op};

/// Comparisons, and what follows from them.
#[derive(Debug, Default, Clone)]
pub(crate) struct Transaction(TxnRequest);

impl Transaction {
    /// Requires that the key was last changed by a revision; 0 for an absent key.
    pub(crate) fn expect_revision(&mut self, key: Vec<u8>, revision: i64) {
        self.compare(key, compare::CompareResult::Equal, revision);
    }

    /// Requires that the key exists since a revision.
    pub(crate) fn expect_made_at(&mut self, key: Vec<u8>, revision: i64) {
        self.0.compare.push(Compare {
            result: compare::CompareResult::Equal.into(),
            target: compare::CompareTarget::Create.into(),
            key: key.into(),
            target_union: Some(compare::TargetUnion::CreateRevision(revision)),
            range_end: Vec::new().into(),
        });
    }

    /// Requires that the key was not changed after a revision. An absent key fits.
    pub(crate) fn expect_not_after(&mut self, key: Vec<u8>, revision: i64) {
        self.compare(key, compare::CompareResult::Less, revision.saturating_add(1));
    }

    pub(crate) fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.put_leased(key, value, 0);
    }

    /// Puts a key that goes with a lease.
    pub(crate) fn put_leased(&mut self, key: Vec<u8>, value: Vec<u8>, lease: i64) {
        let put = PutRequest { key: key.into(), value: value.into(), lease };
        self.0.success.push(RequestOp { request: Some(request_op::Request::RequestPut(put)) });
    }

    pub(crate) fn delete(&mut self, key: Vec<u8>) {
        let delete = DeleteRangeRequest { key: key.into(), range_end: Vec::new().into() };
        self.0.success.push(RequestOp { request: Some(request_op::Request::RequestDeleteRange(delete)) });
    }

    /// Deletes every key with a prefix.
    pub(crate) fn delete_all(&mut self, prefix: Vec<u8>) {
        let range_end = crate::keys::range_end(&prefix).into();
        let delete = DeleteRangeRequest { key: prefix.into(), range_end };
        self.0.success.push(RequestOp { request: Some(request_op::Request::RequestDeleteRange(delete)) });
    }

    /// Asks for a key in the answer of a refused transaction.
    pub(crate) fn tell_if_refused(&mut self, key: Vec<u8>, keys_only: bool) {
        let range = RangeRequest { key: key.into(), keys_only, ..RangeRequest::default() };
        self.0.failure.push(RequestOp { request: Some(request_op::Request::RequestRange(range)) });
    }

    /// Returns the largest of the three lists, which etcd bounds.
    pub(crate) fn operations(&self) -> usize {
        let TxnRequest { compare, success, failure } = &self.0;
        compare.len().max(success.len()).max(failure.len())
    }

    pub(crate) fn into_request(self) -> TxnRequest {
        self.0
    }

    fn compare(&mut self, key: Vec<u8>, result: compare::CompareResult, revision: i64) {
        self.0.compare.push(Compare {
            result: result.into(),
            target: compare::CompareTarget::Mod.into(),
            key: key.into(),
            target_union: Some(compare::TargetUnion::ModRevision(revision)),
            range_end: Vec::new().into(),
        });
    }
}
