//! Check of a component's exports and imports against the contract of this host.

use wasmtime::{
    Engine,
    component::{Component, types::ComponentItem},
};

use crate::{error::LoadError, host::wasi, manifest::exports::Exports};

/// Version of the newest contract that this host knows: that of the WIT package.
pub const VERSION: &str = "0.1.0";

const PACKAGE: &str = "mortise:plugin/";

/// Interfaces that a component may import; `types` and `failures` hold no functions.
const IMPORT_INTERFACES: [&str; 18] = [
    "types",
    "failures",
    "log",
    "authorizer",
    "config",
    "resources",
    "queries",
    "lookup",
    "cache",
    "cache-pages",
    "probes",
    "kv",
    "private-bytes",
    "files",
    "secrets",
    "tcp",
    "clock",
    "run",
];

/// Interfaces that a component may export; all but `plugin` are optional.
const EXPORT_INTERFACES: [&str; 13] = [
    "plugin",
    "mutating",
    "validating",
    "authorizing",
    "upgrading",
    "configuring",
    "controlling",
    "mapping",
    "initializing",
    "planning",
    "moving",
    "importing",
    "functions",
];

/// Next step for an import that this host does not offer; `None` if it does.
pub(crate) fn import_fault(name: &str) -> Option<String> {
    let known = name
        .strip_prefix(PACKAGE)
        .and_then(|rest| rest.split_once('@'))
        .is_some_and(|(interface, version)| version == VERSION && IMPORT_INTERFACES.contains(&interface));
    (!known && wasi::interfaces::interface(name).is_none()).then(|| remedy(name))
}

/// Next step for an export that this host does not call; `None` if it does. Such an export is harmless.
pub(crate) fn export_fault(name: &str) -> Option<String> {
    let (interface, version) = name.strip_prefix(PACKAGE)?.split_once('@')?;
    if version == VERSION && EXPORT_INTERFACES.contains(&interface) {
        return None;
    }
    Some(match version == VERSION {
        true => format!("contract {VERSION} does not call {interface:?}; it calls {}", EXPORT_INTERFACES.join(", ")),
        false => remedy(name),
    })
}

/// Compares a component's imports and exports with the contract.
pub(crate) fn check(engine: &Engine, component: &Component) -> Result<Exports, LoadError> {
    let ty = component.component_type();
    for (name, _) in ty.imports(engine) {
        if let Some(remedy) = import_fault(name) {
            return Err(LoadError::UnknownImport { import: name.to_owned(), remedy });
        }
    }

    let mut names = Vec::new();
    for (name, item) in ty.exports(engine) {
        if matches!(item.ty, ComponentItem::ComponentInstance(_)) {
            names.push(name);
        }
    }
    let has = |interface: &str| names.iter().any(|name| *name == format!("{PACKAGE}{interface}@{VERSION}"));
    if !has("plugin") {
        let other = names.iter().find(|name| name.starts_with("mortise:plugin/plugin@"));
        let what = match other {
            Some(name) => format!("it exports {name}; {}", remedy(name)),
            None => format!(
                "it does not export {PACKAGE}plugin@{VERSION}, so it is not a Mortise plugin; build it with the \
                 mortise-plugin crate, or against wit/v{VERSION}"
            ),
        };
        return Err(LoadError::Contract { version: VERSION, what });
    }
    Ok(Exports {
        mutating: has("mutating"),
        validating: has("validating"),
        authorizing: has("authorizing"),
        upgrading: has("upgrading"),
        configuring: has("configuring"),
        controlling: has("controlling"),
        mapping: has("mapping"),
        initializing: has("initializing"),
        planning: has("planning"),
        moving: has("moving"),
        importing: has("importing"),
        functions: has("functions"),
    })
}

/// Whether a component's hooks may search.
pub(crate) fn imports_lookup(engine: &Engine, component: &Component) -> bool {
    let lookup = format!("{PACKAGE}lookup@{VERSION}");
    component.component_type().imports(engine).any(|(name, _)| name == lookup)
}

/// Next step for an unknown import or export.
fn remedy(name: &str) -> String {
    match name.strip_prefix(PACKAGE).and_then(|rest| rest.split_once('@')) {
        Some((_, version)) if version != VERSION => format!(
            "the plugin was built for contract {version}, this host knows {VERSION}; use a host that knows {version}, \
             or rebuild the plugin with a mortise-plugin crate of contract {VERSION}"
        ),
        Some((interface, _)) => {
            format!("contract {VERSION} has no interface {interface:?}; it offers {}", IMPORT_INTERFACES.join(", "))
        }
        None if name.starts_with("wasi:") => format!(
            "of WASI 0.2 this host offers {}, without any access, and wasi:http/outgoing-handler; build for \
             wasm32-wasip2 with a toolchain that imports only those, or for wasm32-unknown-unknown, which needs none",
            wasi::interfaces::PACKAGES.map(|package| format!("wasi:{package}")).join(", ")
        ),
        None => format!("plugins may import {PACKAGE}{{{}}}@{VERSION} only", IMPORT_INTERFACES.join(",")),
    }
}
