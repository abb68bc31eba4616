//! What a component imports and exports, compared with this host: for people who look at a file before they install it.

use crate::{
    Sandbox,
    error::LoadError,
    load::{compile::compile, contract},
};

/// A component's imports and exports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interfaces {
    /// What it wants of the host, in its order.
    pub imports: Vec<Interface>,
    /// What it offers, in its order.
    pub exports: Vec<Interface>,
}

/// One interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Such as `mortise:plugin/log@0.1.0`.
    pub name: String,
    /// What to do about it, if this host does not know it.
    pub remedy: Option<String>,
}

impl Interfaces {
    /// Reads and compiles a component, which takes tens of milliseconds, and compares.
    ///
    /// # Errors
    /// It is no component, or over the limit.
    pub async fn read(sandbox: &Sandbox, bytes: &[u8]) -> Result<Self, LoadError> {
        let inner = sandbox.inner();
        let limit = inner.limits.component_bytes;
        if bytes.len() > limit {
            return Err(LoadError::TooLarge { size: bytes.len(), limit });
        }
        let component = compile(&inner.engine, &inner.limits, bytes).await?;
        let ty = component.component_type();
        let port =
            |name: &str, fault: fn(&str) -> Option<String>| Interface { name: name.to_owned(), remedy: fault(name) };
        Ok(Self {
            imports: ty.imports(&inner.engine).map(|(name, _)| port(name, contract::import_fault)).collect(),
            exports: ty.exports(&inner.engine).map(|(name, _)| port(name, contract::export_fault)).collect(),
        })
    }
}
