//! Descriptors of messages, as the bytes that they came in: a library that decodes them leaves out the options that it
//! does not know, such as `debug_redact` and those that an author defines.

use prost::{DecodeError, Message as _};

/// `google.protobuf.FileDescriptorSet`, wire-identical.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FileDescriptorSet {
    /// Each an encoded `google.protobuf.FileDescriptorProto`.
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub file: Vec<Vec<u8>>,
}

impl FileDescriptorSet {
    /// The files, decoded, without the options that `prost_types` does not know.
    ///
    /// # Errors
    /// One of them is no `FileDescriptorProto`.
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
