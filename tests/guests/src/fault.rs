//! Triggers of a guest's misbehaviour, and the tables of guests that do the same in every hook.

use mortise_plugin::pb;

/// Whether this resource triggers that hook.
pub fn boom(id: &pb::Id, hook: &str) -> bool {
    id.name == "boom" || id.name.strip_prefix("boom-") == Some(hook)
}

/// Whether listing here triggers the list rule.
pub fn boom_list(tenancy: &pb::Tenancy) -> bool {
    tenancy.namespace == "boom-list"
}

/// Makes a guest that has every hook, and calls `fn(i64)` with the resource's number (0 without one) when a hook is
/// triggered. `limits` are the manifest's.
#[macro_export]
macro_rules! misbehaving {
    ($name:literal, $group:literal, $misbehave:path $(, $limits:expr)?) => {
        static PLUGIN: ::mortise_plugin::Plugin = ::mortise_plugin::Plugin::new(
            $name,
            "0.1.0",
            $crate::DESCRIPTORS,
            &[&::mortise_plugin::ResourceType::<$crate::Thing>::new(
                $group,
                "v1",
                "Thing",
                ::mortise_plugin::Scope::Namespace,
            )
            .mutate(|thing| {
                if $crate::boom(thing.id(), "mutate") {
                    $misbehave(thing.data.number);
                }
                Ok(())
            })
            .validate(|thing, _, _| {
                if $crate::boom(thing.id(), "validate") {
                    $misbehave(thing.data.number);
                }
            })
            .authorize_read_by_id(|id| {
                if $crate::boom(id, "read") {
                    $misbehave(0);
                }
                ::mortise_plugin::Decision::Allow
            })
            .authorize_write(|thing| {
                if $crate::boom(thing.id(), "write") {
                    $misbehave(thing.data.number);
                }
                ::mortise_plugin::Decision::Allow
            })
            .authorize_list(|_, tenancy| {
                if $crate::boom_list(tenancy) {
                    $misbehave(0);
                }
                ::mortise_plugin::Decision::Allow
            })],
        )$(.limits($limits))?;
        ::mortise_plugin::export!(PLUGIN: mutating, validating, authorizing);
    };
}

/// Makes a guest whose mutate hook applies `fn(&mut pb::Resource)` to a resource called `boom`: a change that the host
/// must refuse.
#[macro_export]
macro_rules! overreaching {
    ($name:literal, $group:literal, $overreach:path) => {
        static PLUGIN: ::mortise_plugin::Plugin = ::mortise_plugin::Plugin::new(
            $name,
            "0.1.0",
            $crate::DESCRIPTORS,
            &[&::mortise_plugin::ResourceType::<$crate::Thing>::new(
                $group,
                "v1",
                "Thing",
                ::mortise_plugin::Scope::Namespace,
            )
            .mutate(|_| Ok(()))],
        );

        /// Replies without the typed table, which prevents such changes.
        struct Raw;

        impl ::mortise_plugin::raw::Guest for Raw {
            fn describe() -> Vec<u8> {
                PLUGIN.describe()
            }

            fn mutate(input: Vec<u8>) -> Result<Option<Vec<u8>>, ::mortise_plugin::Diagnostics> {
                use ::mortise_plugin::prost::Message as _;
                let mut resource = ::mortise_plugin::pb::Resource::decode(input.as_slice())
                    .map_err(|fault| ::mortise_plugin::Diagnostics::refusal(fault.to_string()))?;
                if !resource.id.as_ref().is_some_and(|id| $crate::boom(id, "mutate")) {
                    return Ok(None);
                }
                $overreach(&mut resource);
                Ok(Some(resource.encode_to_vec()))
            }
        }
        ::mortise_plugin::export_raw!(Raw: mutating);
    };
}

/// Makes a guest that writes its version into everything that it handles, so that tests see the version that served a
/// request, and requests served by two versions.
#[macro_export]
macro_rules! stamping {
    ($version:literal) => {
        static PLUGIN: ::mortise_plugin::Plugin = ::mortise_plugin::Plugin::new(
            "version-stamp",
            $version,
            $crate::DESCRIPTORS,
            &[&::mortise_plugin::ResourceType::<$crate::Thing>::new(
                "version_stamp",
                "v1",
                "Thing",
                ::mortise_plugin::Scope::Namespace,
            )
            .mutate(|thing| {
                thing.metadata.insert("mutated-by".to_owned(), $version.to_owned());
                Ok(())
            })
            .validate(|thing, _, diagnostics| {
                let mutated_by = thing.metadata.get("mutated-by").map_or("nobody", String::as_str);
                if mutated_by != $version {
                    diagnostics
                        .error(format!("mutated by {mutated_by}, validated by {}", $version))
                        .at(::mortise_plugin::metadata("mutated-by"));
                }
                diagnostics.warning(format!("validated by {}", $version));
            })],
        );
        ::mortise_plugin::export!(PLUGIN: mutating, validating);
    };
}
