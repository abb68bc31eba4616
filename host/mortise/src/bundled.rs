//! Plugins that are compiled into the binary, and enabled by name.

/// A bundled plugin: its name in the configuration, and its component.
pub(crate) type Bundled = (&'static str, &'static [u8]);

/// All bundled plugins.
pub(crate) const ALL: [Bundled; 3] = [
    ("catalog", include_bytes!(env!("CATALOG_WASM"))),
    ("demo", include_bytes!(env!("DEMO_WASM"))),
    ("routes", include_bytes!(env!("ROUTES_WASM"))),
];

/// Plugins that dev mode enables.
pub(crate) const DEV: [&str; 2] = ["catalog", "demo"];

/// Finds a bundled plugin by name.
pub(crate) fn find(name: &str) -> Option<Bundled> {
    ALL.into_iter().find(|(known, _)| *known == name)
}
