//! The setting `audit.sinks`.

use mortise_audit::Sink;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

/// Most sinks.
const MAX_SINKS: usize = 8;

/// Further places of the audit log's records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct AuditSinks(pub(crate) Vec<Sink>);

impl<'de> Deserialize<'de> for AuditSinks {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let sinks = Vec::<Sink>::deserialize(from)?;
        match sinks.len() <= MAX_SINKS {
            true => Ok(Self(sinks)),
            false => Err(D::Error::custom(format!("there are more than {MAX_SINKS} sinks"))),
        }
    }
}
