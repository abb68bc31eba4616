//! Entry points for `fuzz/`: readers of a component's own metadata.

use crate::{
    load::contract,
    manifest::{document::Manifest, exports::Exports},
};

/// Reads a manifest as that of a component with every hook.
pub fn manifest(bytes: &[u8]) {
    let exports = Exports {
        mutating: true,
        validating: true,
        authorizing: true,
        upgrading: true,
        configuring: true,
        controlling: true,
        mapping: true,
        initializing: true,
        planning: true,
        moving: true,
        importing: true,
        functions: true,
    };
    let _ = Manifest::read(bytes, exports);
}

/// Checks the name of an import and of an export.
pub fn interface(name: &str) {
    let _ = contract::import_fault(name);
    let _ = contract::export_fault(name);
}
