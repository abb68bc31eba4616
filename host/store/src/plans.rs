//! Plans for the plugins of several servers that share a store: the contract of the place that keeps them.
//!
//! A *plan* says what state a plugin shall have on every server, and names its component. A component is kept as long as
//! a plan names it. The engine of a single server has no plans.

use async_trait::async_trait;
use tokio::sync::watch;

use crate::StoreError;

/// State of a plugin on every server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// It serves.
    Serve,
    /// It is loaded and has no hooks.
    Disabled,
    /// It has no component.
    Removed,
}

/// Component of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedComponent {
    /// SHA-256, in lower-case hexadecimal.
    pub digest: String,
    /// Signature that came with it.
    pub signature: Option<Vec<u8>>,
}

/// Plan for a plugin, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Name of the plugin.
    pub plugin: String,
    /// State that it shall have.
    pub wanted: Wanted,
    /// Component; for a removed plugin, the one that is removed. `None` if each server has its own, such as a bundled
    /// one.
    pub component: Option<PlannedComponent>,
}

/// A plan that is stored, with its progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPlan {
    /// The plan.
    pub plan: Plan,
    /// Number of the plan; a later plan of the plugin has a larger one.
    pub revision: i64,
    /// Server that got the command.
    pub server: String,
    /// Outcomes on the other servers.
    pub reports: Vec<Report>,
}

/// Outcome of a plan on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The server.
    pub server: String,
    /// Reason why it did not follow the plan; `None` if it did.
    pub fault: Option<String>,
}

/// Place that keeps the plans, and the components in them.
#[async_trait]
pub trait Plans: Send + Sync {
    /// Returns the servers that run, by their names, as of the last seconds.
    fn servers(&self) -> Vec<String>;

    /// Returns a receiver that is changed after every change of a plan, a report or the servers.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Returns all plans.
    async fn list(&self) -> Result<Vec<StoredPlan>, StoreError>;

    /// Returns a component; `None` if no plan has it any more.
    async fn component(&self, digest: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Keeps a component for some minutes, so that a plan can name it.
    async fn upload(&self, digest: &str, content: &[u8]) -> Result<(), StoreError>;

    /// Stores a plan, with its component, in place of the plugin's former one. Returns its number.
    async fn store(&self, plan: &Plan, content: Option<&[u8]>) -> Result<i64, StoreError>;

    /// Stores this server's outcome of a plan. Has no effect once there is a later plan.
    async fn report(&self, plugin: &str, revision: i64, fault: Option<&str>) -> Result<(), StoreError>;
}
