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

/// Versions of a store: how sequences and etcd's revisions belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Versions {
    /// Distance of a sequence's upper part from the revision, for a store that came from another engine: its versions
    /// are larger than all former ones.
    pub(crate) base: u64,
}

impl Versions {
    /// Returns the sequence of a place in a revision.
    pub(crate) fn sequence(self, revision: i64, place: u32) -> u64 {
        ((revision.unsigned_abs() + self.base) << 8) | u64::from(place & 0xff)
    }

    /// Returns the revision of a sequence; 0 for one from before the first revision.
    pub(crate) fn revision(self, sequence: u64) -> i64 {
        i64::try_from((sequence >> 8).saturating_sub(self.base)).unwrap_or(i64::MAX)
    }

    /// Returns the last sequence that a revision may have.
    pub(crate) fn last(self, revision: i64) -> u64 {
        self.sequence(revision, 0xff)
    }

    /// Returns versions that are larger than a sequence.
    pub(crate) fn after(sequence: u64) -> Self {
        Self { base: (sequence >> 8) + 1 }
    }
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
    pub(crate) fn sequence(&self, versions: Versions, revision: i64) -> u64 {
        match self.kept_sequence {
            0 => versions.sequence(revision, self.place),
            kept => kept,
        }
    }

    /// Returns the sequence of the deletion of an earlier incarnation.
    pub(crate) fn deletion(&self, versions: Versions, revision: i64) -> Option<u64> {
        self.deletion_place_after.checked_sub(1).map(|place| versions.sequence(revision, place))
    }

    /// Returns the resource for a copy that is filled; `None` for a value without one.
    pub(crate) fn filled(self, versions: Versions, revision: i64) -> Option<FilledResource> {
        let sequence = self.sequence(versions, revision);
        Some(FilledResource { sequence, resource: self.resource? })
    }
}

/// State of a store, in its stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// It can be served.
    Complete { id: StoreId, versions: Versions },
    /// The content of another engine is being loaded: of its commit `sequence`, `loaded` resources so far.
    Loading { id: StoreId, sequence: u64, loaded: u64 },
}

impl std::fmt::Display for Stamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Complete { id, versions: Versions { base: 0 } } => {
                writeln!(f, "mortise-store-id {id} format {FORMAT}")
            }
            Self::Complete { id, versions: Versions { base } } => {
                writeln!(f, "mortise-store-id {id} format {FORMAT} base {base}")
            }
            Self::Loading { id, sequence, loaded } => {
                writeln!(f, "mortise-store-id {id} loading {sequence} loaded {loaded}")
            }
        }
    }
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
    /// The content of another engine is not complete yet.
    #[error("`mortise migrate` into it has not ended; run it again")]
    Unfinished,
}

/// Reads the value of the stamp.
pub(crate) fn read_stamp(value: &[u8]) -> Result<Stamp, StampFault> {
    let text = std::str::from_utf8(value).map_err(|_| StampFault::NoStamp)?;
    let words: Vec<_> = text.split_whitespace().collect();
    let number = |text: &str| text.parse::<u64>().map_err(|_| StampFault::NoStamp);
    let (id, rest) = match words.as_slice() {
        ["mortise-store-id", id, rest @ ..] => (id, rest),
        _ => return Err(StampFault::NoStamp),
    };
    let id = || id.parse().map_err(|_| StampFault::MalformedId((*id).to_owned()));
    match rest {
        ["format", format, ..] if format.parse() != Ok(FORMAT) => Err(StampFault::OtherFormat((*format).to_owned())),
        ["format", _] => Ok(Stamp::Complete { id: id()?, versions: Versions::default() }),
        ["format", _, "base", base] => Ok(Stamp::Complete { id: id()?, versions: Versions { base: number(base)? } }),
        ["loading", sequence, "loaded", loaded] => {
            Ok(Stamp::Loading { id: id()?, sequence: number(sequence)?, loaded: number(loaded)? })
        }
        _ => Err(StampFault::NoStamp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_sort_as_revisions_and_places() {
        let versions = Versions::default();
        assert_eq!(versions.sequence(7, 0), 1792);
        assert!(versions.sequence(7, 255) < versions.sequence(8, 0));
        assert_eq!((versions.revision(versions.sequence(7, 255)), versions.last(7)), (7, 2047));
        let record = ResourceRecord { place: 3, deletion_place_after: 3, ..ResourceRecord::default() };
        assert_eq!((record.sequence(versions, 7), record.deletion(versions, 7)), (1795, Some(1794)));
        assert_eq!(ResourceRecord { kept_sequence: 5, ..record }.sequence(versions, 9), 5);
    }

    #[test]
    fn versions_go_on_behind_those_of_another_engine() {
        for former in [0, 1, 255, 256, 10_000_000, u64::from(u32::MAX)] {
            let versions = Versions::after(former);
            let first = versions.sequence(1, 0);
            assert!(first > former, "{former}");
            assert_eq!((versions.revision(first), versions.revision(former)), (1, 0), "{former}");
        }
    }

    #[test]
    fn a_stamp_is_read_back_and_anything_else_refused() {
        let id = StoreId::generate();
        for stamp in [
            Stamp::Complete { id, versions: Versions::default() },
            Stamp::Complete { id, versions: Versions { base: 7 } },
            Stamp::Loading { id, sequence: 5, loaded: 3 },
        ] {
            assert_eq!(read_stamp(stamp.to_string().as_bytes()), Ok(stamp));
        }
        let stamp = Stamp::Complete { id, versions: Versions::default() }.to_string();
        let newer = stamp.replace("format 1", "format 2 and more");
        assert_eq!(read_stamp(newer.as_bytes()), Err(StampFault::OtherFormat("2".into())));
        let more = format!("{} more", stamp.trim());
        for wrong in ["", "hello", &more, "mortise-store-id x format 1", "mortise-store-id format"] {
            assert!(read_stamp(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
