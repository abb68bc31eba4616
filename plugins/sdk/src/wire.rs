//! Edits of protobuf bytes that keep unknown fields.

use prost::{
    DecodeError,
    encoding::{DecodeContext, decode_key, skip_field},
};

/// Top-level fields of a message: number, and the bytes of key and value.
pub(crate) fn fields(message: &[u8]) -> Result<Vec<(u32, &[u8])>, DecodeError> {
    let mut fields = Vec::new();
    let mut rest = message;
    while !rest.is_empty() {
        let start = rest;
        let (number, wire_type) = decode_key(&mut rest)?;
        skip_field(wire_type, number, &mut rest, DecodeContext::default())?;
        let length = start.len().saturating_sub(rest.len());
        fields.push((number, start.get(..length).unwrap_or_default()));
    }
    Ok(fields)
}

/// A message with every top-level field except those in `replaced`, followed by `added`.
pub(crate) fn replace(message: &[u8], replaced: &[u32], added: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut bytes = Vec::with_capacity(message.len().saturating_add(added.len()));
    for (_, field) in fields(message)?.into_iter().filter(|(number, _)| !replaced.contains(number)) {
        bytes.extend_from_slice(field);
    }
    bytes.extend_from_slice(added);
    Ok(bytes)
}

/// `after`, preceded by the top-level fields of `original` that its reader does not know: those that are missing in the
/// re-encoding `before`.
///
/// A known field may also be missing from `before`, if `original` contains its default value explicitly. It then comes
/// before `after`, so that the value in `after` wins, as the last of two does in protobuf.
pub(crate) fn keep_unknown_fields(original: &[u8], before: &[u8], after: Vec<u8>) -> Result<Vec<u8>, DecodeError> {
    let known = fields(before)?.into_iter().map(|(number, _)| number).collect::<Vec<_>>();
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
        assert!(super::fields(&[0x0a, 0x05, 0x00]).is_err());
    }
}
