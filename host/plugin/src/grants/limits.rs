//! Limits and instances of the hooks of one plugin, granted beyond the defaults: `[plugin.<name>.grants.limits]` and
//! `instances` in `[plugin.<name>.grants]`.

use mortise_resource::manifest;
use serde::{Deserialize, Serialize};

use crate::units::{Millis, Size};

/// Instances for the hooks of a plugin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Instances {
    /// Made for each request.
    #[default]
    Fresh,
    /// Shared by several requests of a caller, if the manifest declares the hooks pure.
    Reuse,
}

/// Limits up to which a plugin's manifest may raise the host's, for the hooks of one request. An absent one raises
/// nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GrantedLimits {
    /// Linear memory, bytes. A component still has to start within `sandbox.memory_bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<Size>,
    /// Work, units of fuel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// Processor time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<Millis>,
}

impl GrantedLimits {
    /// Whether nothing is granted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The host's limits, raised to those that the plugin asks for as far as they are granted. A limit of which the
    /// plugin asks for less, or nothing, stays the host's.
    pub(crate) fn over(&self, host: &manifest::Limits, asked: &manifest::Limits) -> manifest::Limits {
        let raised = |host: u64, asked: u64, granted: Option<u64>| host.max(asked.min(granted.unwrap_or(0)));
        manifest::Limits {
            memory_bytes: raised(host.memory_bytes, asked.memory_bytes, self.memory_bytes.map(|size| size.0)),
            fuel: raised(host.fuel, asked.fuel, self.fuel),
            deadline_ms: raised(host.deadline_ms, asked.deadline_ms, self.deadline_ms.map(|time| time.0)),
        }
    }
}
