//! Pages of a copying scan: stored bytes become fields of a message, copied from the table's memory.
//!
//! # Cost
//! For each resource the checksum, a look at its GroupVersion and schema version, and the copy. One allocation for each
//! piece.

use mortise_resource::{Outline, PieceWriter};

use crate::{
    CopiedPart, CopyRequest, StoreError,
    engine::{
        read::{
            form::{Form, unreadable, yield_at},
            walk::Match,
        },
        tree::table::Decoder,
    },
};

/// The form of a copying scan.
#[derive(Clone)]
pub(crate) struct Copied(pub(crate) CopyRequest);

/// Decision about a resource.
enum Verdict<'m> {
    Copy(&'m [u8]),
    /// Passed on in a part of its own.
    Alone(CopiedPart),
    LeaveOut,
}

impl Form for Copied {
    type Item = CopiedPart;

    fn items(&self, matches: Vec<Match>, decoder: &Decoder) -> (Vec<CopiedPart>, Option<StoreError>) {
        let (mut parts, mut writer) = (Vec::new(), PieceWriter::new(self.0.tag));
        let mut fault = None;
        for (number, found) in matches.iter().enumerate() {
            yield_at(number);
            match self.verdict(found, decoder) {
                Ok(Verdict::Copy(resource)) => parts.extend(writer.add(resource).map(CopiedPart::Fields)),
                Ok(Verdict::Alone(part)) => {
                    parts.extend(writer.take().map(CopiedPart::Fields));
                    parts.push(part);
                }
                Ok(Verdict::LeaveOut) => {}
                Err(source) => {
                    fault = Some(unreadable(&found.key, source));
                    break;
                }
            }
        }
        parts.extend(writer.take().map(CopiedPart::Fields));
        (parts, fault)
    }
}

impl Copied {
    fn verdict<'m>(&self, found: &'m Match, decoder: &Decoder) -> Result<Verdict<'m>, StoreError> {
        let CopyRequest { tag, group_version, schema_version } = &self.0;
        let bytes = decoder.checked(&found.key, &found.payload)?;
        match Outline::find(bytes) {
            Some(outline) if outline.group_version != group_version.as_bytes() => Ok(Verdict::LeaveOut),
            Some(outline) if outline.schema_version >= *schema_version => Ok(Verdict::Copy(bytes)),
            _ => {
                let resource = decoder.parse(&found.key, found.payload.clone())?;
                if resource.id().group_version != group_version {
                    return Ok(Verdict::LeaveOut);
                }
                if resource.schema_version() < *schema_version {
                    return Ok(Verdict::Alone(CopiedPart::Older(resource)));
                }
                Ok(Verdict::Alone(CopiedPart::Fields(PieceWriter::alone(*tag, resource.bytes()))))
            }
        }
    }
}
