//! Lists that copy: a scan whose pages are encoded fields of one message, ready to be sent.
//!
//! # Cost
//! A stored resource is neither decoded nor parsed: only its GroupVersion and its schema version are looked at. It is
//! copied once, and once more where the store has it in several chunks (above some 4 KiB).

use async_trait::async_trait;
use mortise_resource::EncodedResource;
use prost::bytes::Bytes;

use crate::StoreError;

/// The resources that a copying scan selects, and their form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyRequest {
    /// Tag of the fields: number and wire type, in one byte.
    pub tag: u8,
    /// GroupVersion; resources of others are left out.
    pub group_version: String,
    /// Schema version of the type; resources with data of an older one come by themselves.
    pub schema_version: u32,
}

/// A part of a page of a copying scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopiedPart {
    /// Fields, each a whole resource; about [`PIECE_BYTES`](mortise_resource::PIECE_BYTES), or less at the end of a page
    /// and in front of a resource that was not copied.
    Fields(Bytes),
    /// A resource of the GroupVersion whose data has an older schema version.
    Older(EncodedResource),
}

/// A running copying scan: exact, bounded and ordered as a [`Cursor`](crate::Cursor). Dropping it ends it.
#[async_trait]
pub trait CopyCursor: Send {
    /// Returns the parts of the next page, in the order of the scan; none where all of its resources are left out, so that
    /// a reader that counts pages counts the work. `None` after the last page, also in all later calls. Safe to cancel.
    ///
    /// # Errors
    /// As [`Cursor::next`](crate::Cursor::next).
    async fn next(&mut self) -> Result<Option<Vec<CopiedPart>>, StoreError>;

    /// Whether the scan is known to be complete.
    fn is_at_end(&self) -> bool;
}
