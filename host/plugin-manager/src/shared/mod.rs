//! Plugins of several servers that share a store: a command on one server becomes a *plan*, which the others follow.
//!
//! - `publish`: makes the plan of a command that has succeeded on this server.
//! - `follow`: brings this server's plugins to the plans, and reports the outcome.
//! - `prepare`: before the start, puts the components of the plans into the plugin folder.
//! - `records`: what this server knows about its own plugins; the resource in the store tells the state of all servers.
//!
//! # Contract
//! - A component is checked, and compared with all stored resources, on the server that gets the command. Then the other
//!   servers load it one after another, in the order of their names. If one of them cannot, those after it keep what
//!   they serve: the roll-out stops until the next command for the plugin.
//! - The newest plan of a plugin counts. A server that was away follows it at its start.
//! - A file that a person puts into the folder of one server is loaded there alone. At the next start of that server, a
//!   plan for the same plugin wins.
//!
//! # Limits
//! A plan holds one component, within `sandbox.component_bytes`. A server that does not come to its turn, such as one
//! that hangs, holds up those after it for as long as it runs.

pub(crate) mod follow;
pub(crate) mod prepare;
pub(crate) mod publish;
pub(crate) mod records;

use std::{path::PathBuf, sync::Arc};

use mortise_store::plans::{Plan, PlannedComponent, Plans, StoredPlan, Wanted};

/// Plugins of several servers.
#[derive(Clone)]
pub struct Shared {
    /// Name of this server.
    pub server: String,
    /// Directory of what this server knows about its own plugins.
    pub records: PathBuf,
    /// Place of the plans.
    pub plans: Arc<dyn Plans>,
}
