//! Names of the linked interfaces of WASI.

use wasmtime::{Engine, component::Component};

/// Linked packages.
pub(crate) const PACKAGES: [&str; 6] = ["cli", "clocks", "filesystem", "io", "random", "sockets"];

/// Linked interfaces of `wasi:http`.
pub(super) const HTTP: [&str; 2] = ["http/types", "http/outgoing-handler"];

/// `cli/stdout` for `wasi:cli/stdout@0.2.6`; `None` for interfaces that are not linked.
pub(crate) fn interface(import: &str) -> Option<&str> {
    let (interface, version) = import.strip_prefix("wasi:")?.split_once('@')?;
    let (package, _) = interface.split_once('/')?;
    let patch = version.strip_prefix("0.2.")?;
    let released = !patch.is_empty() && patch.bytes().all(|b| b.is_ascii_digit());
    (released && (PACKAGES.contains(&package) || HTTP.contains(&interface))).then_some(interface)
}

/// Whether a component sends HTTP requests.
pub(crate) fn sends_http(engine: &Engine, component: &Component) -> bool {
    component
        .component_type()
        .imports(engine)
        .any(|(import, _)| interface(import).is_some_and(|import| HTTP.contains(&import)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_released_versions_of_what_is_linked() {
        assert_eq!(interface("wasi:cli/stdout@0.2.6"), Some("cli/stdout"));
        assert_eq!(interface("wasi:io/streams@0.2.10"), Some("io/streams"));
        assert_eq!(interface("wasi:http/types@0.2.0"), Some("http/types"));
        assert_eq!(interface("wasi:http/outgoing-handler@0.2.6"), Some("http/outgoing-handler"));
        for other in [
            "wasi:cli/stdout@0.3.0",
            "wasi:cli/stdout@0.2.0-rc-2023-11-10",
            "wasi:cli/stdout@0.2.",
            "wasi:cli/stdout",
            "wasi:http/incoming-handler@0.2.6",
            "wasi:http/types@0.3.0",
            "wasi:clocksmith/x@0.2.0",
            "other:cli/stdout@0.2.6",
        ] {
            assert_eq!(interface(other), None, "{other}");
        }
    }
}
