//! A list as encoded bytes, in pieces: each resource becomes a length-delimited field of one message.
//!
//! # Cost
//! Each resource is copied once. A piece is one allocation, whose size is known when it is made.

use prost::{
    bytes::Bytes,
    encoding::{encode_varint, encoded_len_varint},
};

/// Bytes of a piece; the resource that reaches the bound is its last. Transports send pieces of this size as they are,
/// and copy parts of larger ones.
pub const PIECE_BYTES: usize = 32 << 10;

/// Resources that wait to be copied into the next piece.
#[derive(Debug)]
pub struct PieceWriter<'b> {
    tag: u8,
    waiting: Vec<&'b [u8]>,
    bytes: usize,
}

impl<'b> PieceWriter<'b> {
    /// Makes a writer of fields with this tag: number and wire type, in one byte.
    #[must_use]
    pub fn new(tag: u8) -> Self {
        Self { tag, waiting: Vec::new(), bytes: 0 }
    }

    /// Returns the piece of one encoded resource.
    #[must_use]
    pub fn alone(tag: u8, resource: &[u8]) -> Bytes {
        let mut piece = Vec::with_capacity(field_bytes(resource));
        put_field(tag, resource, &mut piece);
        piece.into()
    }

    /// Adds an encoded resource. Returns the piece that it completes.
    #[must_use]
    pub fn add(&mut self, resource: &'b [u8]) -> Option<Bytes> {
        self.bytes += field_bytes(resource);
        self.waiting.push(resource);
        if self.bytes < PIECE_BYTES { None } else { self.take() }
    }

    /// Returns a piece of the resources that no piece has yet; `None` without any.
    #[must_use]
    pub fn take(&mut self) -> Option<Bytes> {
        let mut piece = Vec::with_capacity(std::mem::take(&mut self.bytes));
        for resource in self.waiting.drain(..) {
            put_field(self.tag, resource, &mut piece);
        }
        (!piece.is_empty()).then(|| piece.into())
    }
}

/// Bytes of a resource as a field.
fn field_bytes(resource: &[u8]) -> usize {
    1 + encoded_len_varint(resource.len() as u64) + resource.len()
}

fn put_field(tag: u8, resource: &[u8], piece: &mut Vec<u8>) {
    piece.push(tag);
    encode_varint(resource.len() as u64, piece);
    piece.extend_from_slice(resource);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{pb, pb::Resource};
    use prost::Message as _;

    /// Tag of the resources in a `ListResponse`.
    const TAG: u8 = 1 << 3 | 2;

    #[test]
    fn pieces_are_whole_resources_in_order_and_of_bounded_size() {
        let named = |version: usize, filling: usize| {
            let data = prost_types::Any { type_url: String::new(), value: vec![7; filling] };
            Resource { version: version.to_string(), data: Some(data), ..Resource::default() }
        };
        let resources: Vec<_> = [0, 1, 700, PIECE_BYTES, 100, 3 * PIECE_BYTES, 0, 127, 128, 20_000, 20_000, 7]
            .into_iter()
            .enumerate()
            .map(|(version, filling)| named(version, filling))
            .collect();
        let encoded: Vec<_> = resources.iter().map(Resource::encode_to_vec).collect();
        let mut writer = PieceWriter::new(TAG);
        let mut pieces: Vec<_> = encoded.iter().filter_map(|resource| writer.add(resource)).collect();
        assert!(pieces.iter().all(|piece| piece.len() >= PIECE_BYTES));
        pieces.extend(writer.take());
        assert!(writer.take().is_none());
        let alone: Vec<_> = encoded.iter().map(|resource| PieceWriter::alone(TAG, resource)).collect();
        assert_eq!(alone.concat(), pieces.concat());
        assert_eq!(pieces.len(), 4);
        let each = pieces.iter().flat_map(|piece| pb::ListResponse::decode(piece.clone()).unwrap().resources);
        assert_eq!(each.collect::<Vec<_>>(), resources);
        assert_eq!(pieces.concat(), pb::ListResponse { resources }.encode_to_vec());
    }
}
