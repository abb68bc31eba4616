//! Macros that make a component of a plugin.

/// Exports a static [`crate::Plugin`] with the named interfaces: any of `mutating`, `validating`, `authorizing`,
/// `configuring`, `upgrading`, `controlling`, `mapping`, `initializing`, `planning`, `moving`, `importing`,
/// `functions`.
///
/// In native builds it only checks that the static exists.
#[macro_export]
macro_rules! export {
    ($plugin:path $(: $($interface:ident),+ $(,)?)?) => {
        const _: () = {
            struct Table;
            impl $crate::raw::Guest for Table {
                fn describe() -> ::std::vec::Vec<u8> {
                    $plugin.describe()
                }
                fn mutate(
                    input: ::std::vec::Vec<u8>,
                ) -> ::std::result::Result<::std::option::Option<::std::vec::Vec<u8>>, $crate::Diagnostics> {
                    $plugin.mutate(&input)
                }
                fn validate(
                    input: ::std::vec::Vec<u8>,
                    prior: ::std::option::Option<::std::vec::Vec<u8>>,
                ) -> $crate::Diagnostics {
                    $plugin.validate(&input, prior.as_deref())
                }
                fn read(
                    id: ::std::vec::Vec<u8>,
                    stored: ::std::option::Option<::std::vec::Vec<u8>>,
                ) -> $crate::Decision {
                    $plugin.read(&id, stored.as_deref())
                }
                fn write(input: ::std::vec::Vec<u8>) -> $crate::Decision {
                    $plugin.write(&input)
                }
                fn list(of: $crate::pb::Type, tenancy: $crate::pb::Tenancy) -> $crate::Decision {
                    $plugin.list(&of, &tenancy)
                }
                fn upgrade(
                    of: $crate::pb::Type,
                    since: u32,
                    data: ::std::vec::Vec<u8>,
                ) -> ::std::result::Result<::std::vec::Vec<u8>, $crate::Diagnostics> {
                    $plugin.upgrade(&of, since, &data)
                }
                #[cfg(target_arch = "wasm32")]
                fn reconcile(
                    controller: ::std::string::String,
                    id: ::std::vec::Vec<u8>,
                ) -> ::std::result::Result<$crate::Outcome, ::std::string::String> {
                    $plugin.reconcile(&$crate::host::Imports, &controller, &id).map_err(|error| error.to_string())
                }
                #[cfg(target_arch = "wasm32")]
                fn map(
                    controller: ::std::string::String,
                    changed: ::std::vec::Vec<u8>,
                ) -> ::std::result::Result<::std::vec::Vec<::std::vec::Vec<u8>>, ::std::string::String> {
                    $plugin.map(&$crate::host::Imports, &controller, &changed).map_err(|error| error.to_string())
                }
                #[cfg(target_arch = "wasm32")]
                fn initialize(
                    controller: ::std::string::String,
                ) -> ::std::result::Result<(), ::std::string::String> {
                    $plugin.initialize(&$crate::host::Imports, &controller).map_err(|error| error.to_string())
                }
                fn plan(
                    input: ::std::vec::Vec<u8>,
                    prior: ::std::option::Option<::std::vec::Vec<u8>>,
                    kept: ::std::option::Option<::std::vec::Vec<u8>>,
                ) -> $crate::raw::Plan {
                    $plugin.plan(&input, prior.as_deref(), kept.as_deref())
                }
                fn move_to(
                    source: ::std::vec::Vec<u8>,
                    since: u32,
                    to: $crate::pb::Type,
                    kept: ::std::option::Option<::std::vec::Vec<u8>>,
                ) -> ::std::result::Result<$crate::raw::NewResource, $crate::Diagnostics> {
                    $plugin.move_to(&source, since, &to, kept.as_deref())
                }
                #[cfg(target_arch = "wasm32")]
                fn import(
                    of: $crate::pb::Type,
                    within: $crate::pb::Tenancy,
                    external_id: ::std::string::String,
                ) -> ::std::result::Result<$crate::raw::NewResource, $crate::Diagnostics> {
                    $plugin.import(&$crate::host::Imports, &of, within, &external_id)
                }
                fn call(
                    name: ::std::string::String,
                    arguments: ::std::vec::Vec<::std::vec::Vec<u8>>,
                ) -> ::std::result::Result<::std::vec::Vec<u8>, $crate::FunctionFault> {
                    $plugin.call(&name, &arguments)
                }
                fn check(settings: ::std::string::String) -> $crate::Diagnostics {
                    $plugin.check(&settings)
                }
            }
            $crate::export_raw!(Table $(: $($interface),+)?);
        };
    };
}

/// Exports a type that implements [`crate::raw::Guest`], with the named interfaces: any of `mutating`, `validating`,
/// `authorizing`, `configuring`, `upgrading`, `controlling`, `mapping`, `initializing`, `planning`, `moving`,
/// `importing`, `functions`.
#[macro_export]
macro_rules! export_raw {
    ($guest:ty $(: $($interface:ident),+ $(,)?)?) => {
        // The code of wit-bindgen contains `unsafe`, so that each export has its symbol in the final crate alone: a
        // library cannot decide that for its users. The functions only lift and lower arguments.
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            type Export = $crate::adapter::Adapter<$guest>;
            $crate::bindings::described::export!(Export with_types_in $crate::bindings::described);
            $($($crate::__export_interface!($interface);)+)?
        };
        #[cfg(not(target_arch = "wasm32"))]
        const _: fn() -> ::std::vec::Vec<u8> = <$guest as $crate::raw::Guest>::describe;
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __export_interface {
    (mutating) => { $crate::bindings::mutates::export!(Export with_types_in $crate::bindings::mutates); };
    (validating) => { $crate::bindings::validates::export!(Export with_types_in $crate::bindings::validates); };
    (authorizing) => { $crate::bindings::authorizes::export!(Export with_types_in $crate::bindings::authorizes); };
    (upgrading) => { $crate::bindings::upgrades::export!(Export with_types_in $crate::bindings::upgrades); };
    (configuring) => { $crate::bindings::configures::export!(Export with_types_in $crate::bindings::configures); };
    (controlling) => { $crate::bindings::controls::export!(Export with_types_in $crate::bindings::controls); };
    (mapping) => { $crate::bindings::maps::export!(Export with_types_in $crate::bindings::maps); };
    (initializing) => { $crate::bindings::initializes::export!(Export with_types_in $crate::bindings::initializes); };
    (planning) => { $crate::bindings::plans::export!(Export with_types_in $crate::bindings::plans); };
    (moving) => { $crate::bindings::moves::export!(Export with_types_in $crate::bindings::moves); };
    (importing) => { $crate::bindings::brings::export!(Export with_types_in $crate::bindings::brings); };
    (functions) => { $crate::bindings::computes::export!(Export with_types_in $crate::bindings::computes); };
    ($other:ident) => {
        compile_error!(concat!(
            "unknown interface `",
            stringify!($other),
            "`; use mutating, validating, authorizing, configuring, upgrading, controlling, mapping, initializing, ",
            "planning, moving, importing, functions"
        ));
    };
}
