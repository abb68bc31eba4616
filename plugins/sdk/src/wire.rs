//! Edits of protobuf bytes that keep unknown fields.

use mortise_resource::wire::{Cursor, WireError};

/// A message with every top-level field except those in `replaced`, followed by `added`.
pub(crate) fn replace(message: &[u8], replaced: &[u32], added: &[u8]) -> Result<Vec<u8>, WireError> {
    let mut bytes = Vec::with_capacity(message.len().saturating_add(added.len()));
    for field in Cursor::new(message) {
        let field = field?;
        if !replaced.contains(&field.number) {
            bytes.extend_from_slice(field.raw);
        }
    }
    bytes.extend_from_slice(added);
    Ok(bytes)
}

/// `after`, preceded by the top-level fields of `original` that its reader does not know: those that are missing in the
/// re-encoding `before`.
///
/// A known field may also be missing from `before`, if `original` contains its default value explicitly. It then comes
/// before `after`, so that the value in `after` wins, as the last of two does in protobuf.
pub(crate) fn keep_unknown_fields(original: &[u8], before: &[u8], after: Vec<u8>) -> Result<Vec<u8>, WireError> {
    let known = Cursor::new(before).map(|field| Ok(field?.number)).collect::<Result<Vec<_>, _>>()?;
    replace(original, &known, &after)
}

#[cfg(test)]
mod tests {
    use prost::Message;

    #[derive(Clone, PartialEq, Message)]
    struct Old {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(int32, tag = "2")]
        genre: i32,
    }

    #[derive(Clone, PartialEq, Message)]
    struct New {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(int32, tag = "2")]
        genre: i32,
        #[prost(string, repeated, tag = "1000")]
        labels: Vec<String>,
        #[prost(fixed64, tag = "1001")]
        weight: u64,
    }

    #[test]
    fn fields_of_a_newer_message_survive() {
        let labels = vec!["a".to_owned(), "b".to_owned()];
        let original = New { name: "x".into(), genre: 0, labels, weight: 7 };
        let bytes = original.encode_to_vec();
        let mut old = Old::decode(bytes.as_slice()).unwrap();
        let before = old.encode_to_vec();
        old.genre = 9;
        let after = super::keep_unknown_fields(&bytes, &before, old.encode_to_vec()).unwrap();
        assert_eq!(New::decode(after.as_slice()).unwrap(), New { genre: 9, ..original });
    }

    #[test]
    fn a_default_that_was_spelled_out_does_not_win() {
        let bytes = [0x10, 0x00];
        let old = Old { name: String::new(), genre: 9 };
        let after = super::keep_unknown_fields(&bytes, &[], old.encode_to_vec()).unwrap();
        assert_eq!(Old::decode(after.as_slice()).unwrap(), old);
    }

    #[test]
    fn broken_bytes_are_an_error() {
        assert!(super::replace(&[0x0a, 0x05, 0x00], &[], &[]).is_err());
    }
}
