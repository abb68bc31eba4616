//! Plugins that are compiled into the binary, and switched on by name.

/// A bundled plugin: its name in the configuration, and its component.
pub(crate) type Bundled = (&'static str, &'static [u8]);

/// All of them.
pub(crate) const ALL: [Bundled; 3] = [
    ("catalog", include_bytes!(env!("CATALOG_WASM"))),
    ("demo", include_bytes!(env!("DEMO_WASM"))),
    ("routes", include_bytes!(env!("ROUTES_WASM"))),
];

/// Those that dev mode switches on.
pub(crate) const DEV: [&str; 2] = ["catalog", "demo"];

/// A bundled plugin by name.
pub(crate) fn find(name: &str) -> Option<Bundled> {
    ALL.into_iter().find(|(known, _)| *known == name)
}
