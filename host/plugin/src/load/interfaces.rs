//! Imports and exports of a component, compared with this host: for a look at a file before it is installed.

use crate::{Sandbox, error::LoadError, load::contract};

/// A component's imports and exports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interfaces {
    /// Imports, in the component's order.
    pub imports: Vec<Interface>,
    /// Exports, in the component's order.
    pub exports: Vec<Interface>,
}

/// An interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Name, such as `mortise:plugin/log@0.1.0`.
    pub name: String,
    /// Next step, if this host does not know the interface.
    pub remedy: Option<String>,
}

impl Interfaces {
    /// Reads and compiles a component, which takes tens of milliseconds, and compares its interfaces with the host's.
    ///
    /// # Errors
    /// The bytes are not a component, or are over the limit.
    pub async fn read(sandbox: &Sandbox, bytes: &[u8]) -> Result<Self, LoadError> {
        let inner = sandbox.inner();
        let limit = inner.limits.component_bytes;
        if bytes.len() > limit {
            return Err(LoadError::TooLarge { size: bytes.len(), limit });
        }
        let component = inner.compiler().compile(bytes).await?.component;
        let ty = component.component_type();
        let port =
            |name: &str, fault: fn(&str) -> Option<String>| Interface { name: name.to_owned(), remedy: fault(name) };
        Ok(Self {
            imports: ty.imports(&inner.engine).map(|(name, _)| port(name, contract::import_fault)).collect(),
            exports: ty.exports(&inner.engine).map(|(name, _)| port(name, contract::export_fault)).collect(),
        })
    }
}
