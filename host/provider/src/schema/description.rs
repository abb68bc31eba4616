//! Descriptions of types by the server, and the file of an export.

use std::{fs, io, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use mortise_resource::{
    data::{FunctionInfo, GetTypeResponse, TypeInfo},
    descriptors::FileDescriptorSet,
};
use prost::Message;
use serde::{Deserialize, Serialize};

/// Version of the file format; other versions are not read.
const FORMAT_VERSION: u32 = 1;

/// A type in the server's description.
#[derive(Debug, Clone, PartialEq)]
pub struct TypeDescription {
    /// The server's answer about the type.
    pub info: TypeInfo,
    /// The descriptors of its message.
    pub descriptors: FileDescriptorSet,
}

/// An export of a server's types and functions.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Its types.
    pub types: Vec<TypeDescription>,
    /// The functions of its plugins.
    pub functions: Vec<FunctionInfo>,
}

/// The file of an export: answers of TypeService and FunctionService, as base64.
#[derive(Serialize, Deserialize)]
struct SnapshotFile {
    version: u32,
    types: Vec<String>,
    #[serde(default)]
    functions: Vec<String>,
}

impl Snapshot {
    /// The export as the text of a file.
    #[must_use]
    pub fn write(&self) -> String {
        let describe = |description: &TypeDescription| {
            let answer = GetTypeResponse {
                r#type: Some(description.info.clone()),
                descriptors: Some(description.descriptors.clone()),
            };
            STANDARD.encode(answer.encode_to_vec())
        };
        let file = SnapshotFile {
            version: FORMAT_VERSION,
            types: self.types.iter().map(describe).collect(),
            functions: self.functions.iter().map(|function| STANDARD.encode(function.encode_to_vec())).collect(),
        };
        // Texts and numbers always have a form in JSON.
        serde_json::to_string_pretty(&file).unwrap_or_default()
    }

    /// Reads such a file; `None` if the file does not exist or has another version.
    ///
    /// # Errors
    /// The file cannot be read or decoded.
    pub fn read(file: &Path) -> io::Result<Option<Self>> {
        let text = match fs::read(file) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let file: SnapshotFile = serde_json::from_slice(&text)?;
        if file.version != FORMAT_VERSION {
            return Ok(None);
        }
        let line = |text: &String| {
            let answer: GetTypeResponse = decoded(text)?;
            let (info, descriptors) = (answer.r#type.unwrap_or_default(), answer.descriptors.unwrap_or_default());
            Ok(TypeDescription { info, descriptors })
        };
        Ok(Some(Self {
            types: file.types.iter().map(line).collect::<io::Result<_>>()?,
            functions: file.functions.iter().map(decoded).collect::<io::Result<_>>()?,
        }))
    }
}

fn decoded<M: Message + Default>(text: &String) -> io::Result<M> {
    let bytes = STANDARD.decode(text).map_err(io::Error::other)?;
    M::decode(bytes.as_slice()).map_err(io::Error::other)
}
