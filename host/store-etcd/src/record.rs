//! Values in etcd: a resource without its versions, which are those of the transaction, and the places of events.
//!
//! The sequence of an event is the revision of its transaction times 256, plus its *place* in the transaction. A value
//! has its place, so that a copy that is filled from keys alone has the same versions as one that saw every event. A
//! rewrite makes no event, and its value has the whole sequence that it keeps.

use mortise_resource::pb;
use mortise_store::{StoreId, follower::FilledResource};
use prost::Message;

/// Format of the content, in the stamp.
pub(crate) const FORMAT: u32 = 1;

/// Value of a resource's key.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResourceRecord {
    /// Place of the event in its transaction.
    #[prost(uint32, tag = "1")]
    pub(crate) place: u32,
    /// Sequence that a rewrite keeps; 0 for an event.
    #[prost(uint64, tag = "2")]
    pub(crate) kept_sequence: u64,
    /// Place of the deletion of an earlier incarnation in the same transaction, plus one; 0 without one.
    #[prost(uint32, tag = "3")]
    pub(crate) deletion_place_after: u32,
    /// The resource, without versions.
    #[prost(message, optional, tag = "4")]
    pub(crate) resource: Option<pb::Resource>,
}

/// Value of the head.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HeadRecord {
    /// Places of the transaction's deletions, in their order.
    #[prost(uint32, repeated, tag = "1")]
    pub(crate) deletion_places: Vec<u32>,
    /// Server that wrote it.
    #[prost(string, tag = "2")]
    pub(crate) server: String,
}

/// Returns the sequence of a place in a revision.
pub(crate) fn sequence(revision: i64, place: u32) -> u64 {
    (revision.unsigned_abs() << 8) | u64::from(place & 0xff)
}

/// Returns the revision of a sequence.
pub(crate) fn revision(sequence: u64) -> i64 {
    i64::try_from(sequence >> 8).unwrap_or(i64::MAX)
}

/// Returns the last sequence that a revision may have.
pub(crate) fn last_sequence(revision: i64) -> u64 {
    sequence(revision, 0xff)
}

/// Returns the resource without what the transaction decides.
pub(crate) fn unversioned(mut resource: pb::Resource) -> pb::Resource {
    resource.version.clear();
    if let Some(meta) = &mut resource.meta {
        meta.resource_version.clear();
    }
    resource
}

impl ResourceRecord {
    /// Returns the sequence of the resource, from the revision of its key.
    pub(crate) fn sequence(&self, revision: i64) -> u64 {
        match self.kept_sequence {
            0 => sequence(revision, self.place),
            kept => kept,
        }
    }

    /// Returns the sequence of the deletion of an earlier incarnation.
    pub(crate) fn deletion(&self, revision: i64) -> Option<u64> {
        self.deletion_place_after.checked_sub(1).map(|place| sequence(revision, place))
    }

    /// Returns the resource for a copy that is filled; `None` for a value without one.
    pub(crate) fn filled(self, revision: i64) -> Option<FilledResource> {
        let sequence = self.sequence(revision);
        Some(FilledResource { sequence, resource: self.resource? })
    }
}

/// Returns the value of the stamp.
pub(crate) fn stamp(id: StoreId) -> String {
    format!("mortise-store-id {id} format {FORMAT}\n")
}

/// Fault of a stamp.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StampFault {
    /// Something else has this key.
    #[error("it has no id and format")]
    NoStamp,
    /// The id cannot be read.
    #[error("its id {0:?} is malformed")]
    MalformedId(String),
    /// Another release wrote it.
    #[error("it has format {0}, and this release knows {FORMAT}")]
    OtherFormat(String),
}

/// Reads the value of the stamp.
pub(crate) fn read_stamp(value: &[u8]) -> Result<StoreId, StampFault> {
    let text = std::str::from_utf8(value).map_err(|_| StampFault::NoStamp)?;
    let words: Vec<_> = text.split_whitespace().collect();
    let ["mortise-store-id", id, "format", format] = words.as_slice() else { return Err(StampFault::NoStamp) };
    match format.parse::<u32>() {
        Ok(FORMAT) => id.parse().map_err(|_| StampFault::MalformedId((*id).to_owned())),
        _ => Err(StampFault::OtherFormat((*format).to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_sort_as_revisions_and_places() {
        assert_eq!(sequence(7, 0), 1792);
        assert!(sequence(7, 255) < sequence(8, 0));
        assert_eq!((revision(sequence(7, 255)), last_sequence(7)), (7, 2047));
        let record = ResourceRecord { place: 3, deletion_place_after: 3, ..ResourceRecord::default() };
        assert_eq!((record.sequence(7), record.deletion(7)), (1795, Some(1794)));
        assert_eq!(ResourceRecord { kept_sequence: 5, ..record }.sequence(9), 5);
    }

    #[test]
    fn a_stamp_is_read_back_and_anything_else_refused() {
        let id = StoreId::generate();
        assert_eq!(read_stamp(stamp(id).as_bytes()), Ok(id));
        let newer = stamp(id).replace("format 1", "format 2");
        for wrong in ["", "hello", &newer, "mortise-store-id x format 1", "mortise-store-id format"] {
            assert!(read_stamp(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
