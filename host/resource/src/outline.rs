//! The parts of an encoded resource that decide whether a list copies it: its GroupVersion, and the schema version of
//! its data.
//!
//! # Contract
//! If [`EncodedResource::parse`](crate::EncodedResource::parse) accepts bytes that have an outline, it keeps them, and
//! both agree. The content of the other fields is not looked at, UTF-8 included: bytes that it refuses may have an
//! outline. So an outline suits bytes that were parsed before they were stored.
//!
//! # Cost
//! An outline copies nothing, and steps over some ten fields, a tenth of the cost of a head.

use crate::wire::{Cursor, MAX_DEPTH, WireError, WireType};

/// Field `meta` of a resource.
const META: u32 = 1001;
/// Field `schema_version` of a resource.
const SCHEMA_VERSION: u32 = 1000;
/// Field of a resource with the records of its references.
const REFERENCES: u32 = 1002;

/// GroupVersion and schema version of an encoded resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outline<'b> {
    /// Bytes of the GroupVersion; empty without one.
    pub group_version: &'b [u8],
    /// Schema version of the data; at least 1.
    pub schema_version: u32,
}

impl<'b> Outline<'b> {
    /// Finds the outline. `None` if bytes are malformed, or if a part may occur several times: then
    /// [`EncodedResource::parse`](crate::EncodedResource::parse) decides.
    #[must_use]
    pub fn find(resource: &'b [u8]) -> Option<Self> {
        find(resource).ok().flatten()
    }
}

fn find(resource: &[u8]) -> Result<Option<Outline<'_>>, WireError> {
    let (mut id, mut owners, mut metas, mut schema_version) = (None, 0, 0, 0);
    let mut rest = Cursor::new(resource);
    while !rest.is_empty() {
        match rest.key()? {
            (number @ (1..=7 | META | REFERENCES), WireType::Delimited) => {
                let content = rest.delimited()?;
                match number {
                    1 if id.replace(content).is_some() => return Ok(None),
                    2 => owners += 1,
                    META => metas += 1,
                    _ => {}
                }
            }
            // Protobuf keeps the lower 32 bits of a longer number.
            (SCHEMA_VERSION, WireType::Varint) => schema_version = rest.varint()? as u32,
            (1..=7 | SCHEMA_VERSION | META | REFERENCES, _) => return Ok(None),
            (number, wire_type) => rest.skip_value(number, wire_type, MAX_DEPTH)?,
        }
    }
    if owners > 1 || metas > 1 {
        return Ok(None);
    }
    let group_version = match id {
        Some(id) => group_version(id)?,
        None => Some(&[][..]),
    };
    Ok(group_version.map(|group_version| Outline { group_version, schema_version: schema_version.max(1) }))
}

/// Finds the GroupVersion in an id; `None` if a message may occur several times.
fn group_version(id: &[u8]) -> Result<Option<&[u8]>, WireError> {
    let (mut of_type, mut tenancies) = (None, 0);
    let mut rest = Cursor::new(id);
    while !rest.is_empty() {
        let (number @ 1..=4, WireType::Delimited) = rest.key()? else { return Ok(None) };
        let content = rest.delimited()?;
        match number {
            3 if of_type.replace(content).is_some() => return Ok(None),
            4 => tenancies += 1,
            _ => {}
        }
    }
    let mut found = &[][..];
    let mut rest = Cursor::new(of_type.unwrap_or_default());
    while !rest.is_empty() {
        let (number @ 1..=3, WireType::Delimited) = rest.key()? else { return Ok(None) };
        let content = rest.delimited()?;
        if number == 2 {
            found = content;
        }
    }
    Ok((tenancies <= 1).then_some(found))
}
