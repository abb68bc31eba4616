//! Private data that core keeps beside each state: the server's values where the state has the user's spelling, and the
//! change to make before the server has the resource.
//!
//! The form is JSON. Data of a later version is ignored; this costs a diff that settles with the next apply.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

use super::{Pending, metadata_shape};
use crate::{
    mapping::Divergences,
    schema::ResourceSchema,
    value::{Step, msgpack},
};

/// Version of the form; other versions are not read.
const FORMAT_VERSION: u32 = 1;

/// The private data of a state.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Private {
    v: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    div: Vec<Record>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pending: Option<Pending>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    path: Vec<StepRecord>,
    /// The value in MessagePack, as base64.
    value: String,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StepRecord {
    Attribute(String),
    Key(String),
    Index(usize),
}

impl Private {
    /// Encodes the private data.
    #[must_use]
    pub fn write(divergences: &Divergences, pending: Option<&Pending>) -> Vec<u8> {
        let recorded = divergences.iter().map(|(path, value)| Record {
            path: path.iter().map(StepRecord::of).collect(),
            value: STANDARD.encode(msgpack::encode(value)),
        });
        // Texts and numbers always have a form in JSON.
        serde_json::to_vec(&Self { v: FORMAT_VERSION, div: recorded.collect(), pending: pending.cloned() })
            .unwrap_or_default()
    }

    /// The change to make before the server has the resource; `None` for most states.
    #[must_use]
    pub fn pending(bytes: &[u8]) -> Option<Pending> {
        match serde_json::from_slice(bytes) {
            Ok(Self { v: FORMAT_VERSION, pending, .. }) => pending,
            _ => None,
        }
    }

    /// Decodes the divergences. Those of attributes that the type no longer has are left out.
    #[must_use]
    pub fn read(bytes: &[u8], schema: &ResourceSchema) -> Divergences {
        let mut divergences = Divergences::default();
        let Ok(Self { v: FORMAT_VERSION, div, .. }) = serde_json::from_slice(bytes) else { return divergences };
        for entry in div {
            let path: Vec<_> = entry.path.into_iter().map(StepRecord::into_step).collect();
            let shape = match path.split_first() {
                Some((Step::Attribute(root), rest)) if root == "data" => schema.shape().at(rest).cloned(),
                Some((Step::Attribute(root), rest)) if root == "metadata" => metadata_shape().at(rest).cloned(),
                _ => None,
            };
            let value = STANDARD.decode(entry.value).ok();
            if let Some(value) =
                shape.zip(value).and_then(|(shape, bytes)| msgpack::decode(&bytes, &shape.to_type()).ok())
            {
                divergences.record(&path, value);
            }
        }
        divergences
    }
}

impl StepRecord {
    fn of(step: &Step) -> Self {
        match step {
            Step::Attribute(name) => Self::Attribute(name.clone()),
            Step::Key(key) => Self::Key(key.clone()),
            Step::Index(index) => Self::Index(*index),
        }
    }

    fn into_step(self) -> Step {
        match self {
            Self::Attribute(name) => Step::Attribute(name),
            Self::Key(key) => Step::Key(key),
            Self::Index(index) => Step::Index(index),
        }
    }
}
