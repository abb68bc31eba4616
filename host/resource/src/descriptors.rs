//! Descriptors of messages, kept as the bytes that arrived: a library that decodes them drops the options that it does
//! not know, such as `debug_redact` and those that an author defines.

use std::collections::HashMap;

use prost::{DecodeError, Message};

/// Options of fields, by field number.
pub type FieldOptions<O> = HashMap<u32, O>;

/// `google.protobuf.FileDescriptorSet`, identical on the wire.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FileDescriptorSet {
    /// Encoded `google.protobuf.FileDescriptorProto`s.
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub file: Vec<Vec<u8>>,
}

impl FileDescriptorSet {
    /// Decodes the files, without the options that `prost_types` does not know.
    ///
    /// # Errors
    /// A file does not decode as `FileDescriptorProto`.
    pub fn decoded(&self) -> Result<prost_types::FileDescriptorSet, DecodeError> {
        let file = self.file.iter().map(|file| prost_types::FileDescriptorProto::decode(file.as_slice()));
        Ok(prost_types::FileDescriptorSet { file: file.collect::<Result<_, _>>()? })
    }
}

impl From<prost_types::FileDescriptorSet> for FileDescriptorSet {
    fn from(files: prost_types::FileDescriptorSet) -> Self {
        Self { file: files.file.iter().map(prost::Message::encode_to_vec).collect() }
    }
}

/// Finds the options of the fields of a file's messages, by message name, as far as `O` declares them. Messages without
/// such options are left out. Options that do not decode as `O` count as absent, and so do all options of a file that
/// does not decode.
#[must_use]
pub fn field_options<O: Message + Default>(file: &[u8]) -> HashMap<String, FieldOptions<O>> {
    let decoded = |field: Field| Some((u32::try_from(field.number).ok()?, O::decode(&*field.options?).ok()?));
    let options = |message: DeclaredMessage| message.fields.into_iter().filter_map(decoded).collect();
    let all = messages(file).into_iter().map(|(name, message)| (name, options(message)));
    all.filter(|(_, options): &(_, FieldOptions<O>)| !options.is_empty()).collect()
}

/// Finds the options of a file's messages, by message name, as far as `O` declares them, or the fault of options that do
/// not decode. Messages without options are left out, and so are all of a file that does not decode.
#[must_use]
pub fn message_options<O: Message + Default>(file: &[u8]) -> HashMap<String, Result<O, DecodeError>> {
    let decoded = |(name, message): (_, DeclaredMessage)| Some((name, O::decode(&*message.options?)));
    messages(file).into_iter().filter_map(decoded).collect()
}

/// The messages of a file with their full names, nested ones included.
fn messages(file: &[u8]) -> Vec<(String, DeclaredMessage)> {
    let File { package, messages } = File::decode(file).unwrap_or_default();
    let mut found = Vec::new();
    let mut open: Vec<_> = messages.into_iter().map(|message| (package.clone(), message)).collect();
    while let Some((parent, mut message)) = open.pop() {
        let name = if parent.is_empty() { message.name.clone() } else { format!("{parent}.{}", message.name) };
        open.extend(std::mem::take(&mut message.nested).into_iter().map(|message| (name.clone(), message)));
        found.push((name, message));
    }
    found
}

/// The used part of `google.protobuf.FileDescriptorProto`.
#[derive(Clone, PartialEq, Message)]
struct File {
    #[prost(string, tag = "2")]
    package: String,
    #[prost(message, repeated, tag = "4")]
    messages: Vec<DeclaredMessage>,
}

/// The used part of `DescriptorProto`.
#[derive(Clone, PartialEq, Message)]
struct DeclaredMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    fields: Vec<Field>,
    #[prost(message, repeated, tag = "3")]
    nested: Vec<DeclaredMessage>,
    #[prost(bytes = "vec", optional, tag = "7")]
    options: Option<Vec<u8>>,
}

/// The used part of `FieldDescriptorProto`.
#[derive(Clone, PartialEq, Message)]
struct Field {
    #[prost(int32, tag = "3")]
    number: i32,
    #[prost(bytes = "vec", optional, tag = "8")]
    options: Option<Vec<u8>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_on_the_wire_and_keeps_what_nobody_here_knows() {
        let whole = prost_types::FileDescriptorSet::decode(crate::DESCRIPTORS).unwrap();
        let kept = FileDescriptorSet::decode(crate::DESCRIPTORS).unwrap();
        assert!(kept.file.len() > 5);
        assert_eq!(kept.encode_to_vec(), crate::DESCRIPTORS);
        assert_eq!(kept.decoded().unwrap(), whole);
        assert_eq!(FileDescriptorSet::from(whole), kept);
        // A file with a field of its options that `prost_types` does not know: number 50,000.
        let strange = FileDescriptorSet { file: vec![[b"\x42\x04".as_slice(), b"\x80\xb5\x18\x01"].concat()] };
        assert_eq!(FileDescriptorSet::decode(strange.encode_to_vec().as_slice()).unwrap(), strange);
        assert!(FileDescriptorSet { file: vec![vec![0xff]] }.decoded().is_err());
    }
}
