//! A type as the server describes it, and many of them in a file.

use std::{fs, io, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use mortise_resource::{data::GetTypeResponse, data::TypeInfo, descriptors::FileDescriptorSet};
use prost::Message as _;
use serde::{Deserialize, Serialize};

/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;

/// A type as the server describes it.
#[derive(Debug, Clone)]
pub struct TypeDescription {
    /// What it is.
    pub info: TypeInfo,
    /// Its message, and what that is made of.
    pub descriptors: FileDescriptorSet,
}

/// A file of types: what TypeService answers, as base64.
#[derive(Serialize, Deserialize)]
struct Snapshot {
    version: u32,
    types: Vec<String>,
}

impl TypeDescription {
    /// The text of a file that holds types.
    #[must_use]
    pub fn write_all(types: &[Self]) -> String {
        let one = |of: &Self| {
            let answer = GetTypeResponse { r#type: Some(of.info.clone()), descriptors: Some(of.descriptors.clone()) };
            STANDARD.encode(answer.encode_to_vec())
        };
        let snapshot = Snapshot { version: VERSION, types: types.iter().map(one).collect() };
        // Texts and numbers have a form.
        serde_json::to_string_pretty(&snapshot).unwrap_or_default()
    }

    /// Reads such a file; `None` where there is none, or one of another version.
    ///
    /// # Errors
    /// It cannot be read, or is no such file.
    pub fn read_all(file: &Path) -> io::Result<Option<Vec<Self>>> {
        let text = match fs::read(file) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let snapshot: Snapshot = serde_json::from_slice(&text)?;
        if snapshot.version != VERSION {
            return Ok(None);
        }
        let one = |text: &String| {
            let bytes = STANDARD.decode(text).map_err(io::Error::other)?;
            let answer = GetTypeResponse::decode(bytes.as_slice()).map_err(io::Error::other)?;
            let (info, descriptors) = (answer.r#type.unwrap_or_default(), answer.descriptors.unwrap_or_default());
            Ok(Self { info, descriptors })
        };
        snapshot.types.iter().map(one).collect::<io::Result<_>>().map(Some)
    }
}
