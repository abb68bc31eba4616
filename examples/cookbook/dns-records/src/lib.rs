//! The plugin `dns-records`: zones and records, kept at a DNS provider over HTTP.

mod import;
mod pause;
mod provider;
mod rules;
mod settings;
mod sync;
#[cfg(test)]
mod tests;

use mortise_plugin::{GrantRequest, Kind, Plugin, ResourceType, Scope};

mortise_plugin::include_proto!(pub mod proto);
use proto::dns::v1::{Record, Zone};

/// Type of zones.
pub const ZONE: Kind<Zone> = Kind::new("dns", "v1", "Zone");

/// Type of records.
pub const RECORD: Kind<Record> = Kind::new("dns", "v1", "Record");

static PLUGIN: Plugin = Plugin::new(
    env!("CARGO_PKG_NAME"),
    env!("CARGO_PKG_VERSION"),
    proto::DESCRIPTORS,
    &[
        &ResourceType::of(ZONE, Scope::Namespace)
            .mutate(rules::complete_zone)
            .validate(rules::check_zone)
            .immutable(&["domain"])
            .columns(&[("DOMAIN", "data.domain"), ("TTL", "data.ttl")]),
        &ResourceType::of(RECORD, Scope::Namespace)
            .mutate(rules::complete_record)
            .validate(rules::check_record)
            .immutable(&["zone", "host", "type"])
            .plan(sync::plan)
            .import(import::import)
            .columns(&[("ZONE", "data.zone"), ("HOST", "data.host"), ("TYPE", "data.type"), ("VALUES", "data.values")]),
    ],
)
.settings_as::<settings::Settings>()
.requests(&[
    GrantRequest::http("*", "keeps the records at the provider, at the setting `endpoint`"),
    GrantRequest::http("http://*", "the same, for an endpoint without TLS"),
    GrantRequest::secret("token", "the provider's bearer token, unless the setting `token` has it"),
])
.controllers(&[&sync::CONTROLLER]);
mortise_plugin::export!(PLUGIN: mutating, validating, configuring, planning, importing, controlling, mapping);
