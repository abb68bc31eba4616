//! The errors of callers for faults of the store.

use mortise_resource::{Code, Error, SERVER_STOPPING};
use mortise_store::StoreError;

/// Returns the error for a fault of the store: the caller's code where the request does not fit the stored state;
/// `ResourceExhausted` while the disk or a quota is full, where a later retry makes sense; `Unavailable` while the store
/// is read-only, once it takes no writes until it is opened again, and at the end of the server; `Aborted` where the
/// caller has to read again; `Internal` for faults of the store itself.
pub(crate) fn store_fault(context: &str, error: &StoreError) -> Error {
    use StoreError as E;
    let code = match error {
        // The store is not at fault.
        E::Closed => return Error::new(Code::Unavailable, SERVER_STOPPING),
        E::GroupVersionMismatch { .. } | E::TooLarge { .. } | E::IncompleteId(_) => Code::InvalidArgument,
        E::NotFound => Code::NotFound,
        E::WrongUid => Code::FailedPrecondition,
        E::CasFailure { .. } | E::ExpectationFailed { .. } | E::ReferrersChanged => Code::Aborted,
        E::NotHeld(_) => Code::Aborted,
        E::ScanAborted { .. } | E::WatchLagged { .. } | E::WatchClosed | E::HistoryTrimmed => Code::Aborted,
        E::Full { .. } | E::QuotaExceeded(_) | E::TooManySnapshots { .. } => Code::ResourceExhausted,
        E::SharedFull(_) | E::TooManyChanges { .. } => Code::ResourceExhausted,
        E::ReadOnly | E::Poisoned(_) | E::Unreachable(_) | E::OutcomeUnknown(_) => Code::Unavailable,
        // Each variant is listed, so that a new one gets a code of its own.
        E::Corrupt { .. } | E::EncodingError(_) | E::Unreadable { .. } | E::BadRecord { .. } => Code::Internal,
        E::Io { .. } | E::Gone { .. } | E::SnapshotLost(_) => Code::Internal,
        E::Exists { .. } | E::Absent { .. } | E::Locked { .. } | E::NewerFormat { .. } => Code::Internal,
    };
    Error::new(code, format!("{context}: {error}"))
}

/// Returns the error for another version than the stored one, in Consul's words.
pub(crate) fn cas_failure() -> Error {
    Error::new(Code::Aborted, StoreError::CasFailure { mutation: 0 }.to_string())
}

/// Returns the error that ends a watch: `Aborted` where its reader starts again.
pub(crate) fn ended(error: &StoreError) -> Error {
    match error {
        StoreError::WatchClosed => Error::new(Code::Aborted, error.to_string()),
        StoreError::WatchLagged { .. } => {
            metrics::counter!("mortise_watches_lagged_total").increment(1);
            Error::new(Code::Aborted, error.to_string())
        }
        StoreError::Unreadable { place, .. } => {
            store_fault("failed next", error).with_resource(&place.partition, &place.namespace, &place.name)
        }
        other => store_fault("failed next", other),
    }
}

#[cfg(test)]
mod tests {
    use mortise_resource::{EncodedResource, pb};
    use mortise_store::{IdPartError, Quota, QuotaExceeded};

    use super::*;

    #[test]
    fn a_full_disk_is_no_broken_one() {
        let code = |error| store_fault("failed to write resource", &error).code;
        assert_eq!(code(StoreError::Full { path: "wal.0".into(), missing: 9 }), Code::ResourceExhausted);
        let refusal = QuotaExceeded {
            quota: Quota::Bytes,
            type_key: None,
            tenancy: Default::default(),
            used: 8,
            added: 1,
            limit: 8,
        };
        let error = store_fault("failed to write resource", &StoreError::from(Box::new(refusal)));
        assert_eq!(error.code, Code::ResourceExhausted);
        assert!(error.message.contains("(quotas.bytes); delete some, or raise quotas.bytes"), "{}", error.message);
        assert_eq!(code(StoreError::Poisoned("sync".into())), Code::Unavailable);
        for error in [store_fault("failed to write resource", &StoreError::Closed), ended(&StoreError::Closed)] {
            assert_eq!((error.code, &*error.message), (Code::Unavailable, "the server is stopping"));
        }
        assert_eq!(code(StoreError::Corrupt { path: "db".into(), what: "x".into() }), Code::Internal);
    }

    #[test]
    fn requests_that_do_not_fit_the_stored_state_are_the_callers() {
        let stored = || Box::new(EncodedResource::encode(&pb::Resource::default()).unwrap());
        for (error, code) in [
            (StoreError::GroupVersionMismatch { requested: "v1".into(), stored: stored() }, Code::InvalidArgument),
            (StoreError::TooLarge { size: 2, limit: 1 }, Code::InvalidArgument),
            (StoreError::IncompleteId(IdPartError("owner")), Code::InvalidArgument),
            (StoreError::NotFound, Code::NotFound),
            (StoreError::WrongUid, Code::FailedPrecondition),
            (StoreError::CasFailure { mutation: 0 }, Code::Aborted),
            (StoreError::ExpectationFailed { expectation: 0 }, Code::Aborted),
            (StoreError::ReferrersChanged, Code::Aborted),
            (StoreError::HistoryTrimmed, Code::Aborted),
            (StoreError::TooManySnapshots { limit: 1 }, Code::ResourceExhausted),
        ] {
            assert_eq!(store_fault("failed read", &error).code, code, "{error}");
        }
    }
}
