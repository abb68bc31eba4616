//! Defaults and rules of zones and records.

use mortise_plugin::{Diagnostics, Typed, field, name};

use crate::proto::dns::v1::{Record, Zone};

/// Time to live of a zone without one, in seconds.
const TTL: u32 = 300;

/// Types of records that the provider has.
const TYPES: [&str; 5] = ["A", "AAAA", "CNAME", "MX", "TXT"];

/// Fills in the defaults of a zone.
pub(crate) fn complete_zone(zone: &mut Typed<Zone>) -> Result<(), Diagnostics> {
    zone.data.domain.make_ascii_lowercase();
    if zone.data.ttl == 0 {
        zone.data.ttl = TTL;
    }
    Ok(())
}

/// Checks a zone.
pub(crate) fn check_zone(zone: &Typed<Zone>, _stored: Option<&Typed<Zone>>, diagnostics: &mut Diagnostics) {
    let domain = &zone.data.domain;
    if !name::is_dns_name(domain) {
        diagnostics.error(format!("domain must be a DNS name such as example.org; got {domain:?}")).at(field("domain"));
    } else if zone.name() != zone_name(domain) {
        let text = format!("the zone of {domain} must have the name {:?}", zone_name(domain));
        diagnostics.error(text).at(field("domain"));
    }
}

/// Name of the zone of a domain.
pub(crate) fn zone_name(domain: &str) -> String {
    domain.replace('.', "-")
}

/// Fills in the defaults of a record.
pub(crate) fn complete_record(record: &mut Typed<Record>) -> Result<(), Diagnostics> {
    record.data.host.make_ascii_lowercase();
    record.data.r#type.make_ascii_uppercase();
    if record.data.host.is_empty() {
        record.data.host = "@".to_owned();
    }
    Ok(())
}

/// Checks a record. The server checks that its zone exists.
pub(crate) fn check_record(record: &Typed<Record>, _stored: Option<&Typed<Record>>, diagnostics: &mut Diagnostics) {
    let Record { zone, host, r#type, values, .. } = &record.data;
    if !name::is_valid(zone) {
        let text = format!("zone must be the name of a zone in the record's namespace; got {zone:?}");
        diagnostics.error(text).at(field("zone"));
    }
    if !is_host(host) {
        diagnostics.error(format!("host must be @ or a name such as www or _acme.www; got {host:?}")).at(field("host"));
    }
    if !TYPES.contains(&r#type.as_str()) {
        diagnostics.error(format!("type must be one of {}; got {type:?}", TYPES.join(", "))).at(field("type"));
    }
    if values.is_empty() {
        diagnostics.error("values must have at least one value").at(field("values"));
    }
    for (place, value) in (0_u32..).zip(values).filter(|(_, value)| value.is_empty()) {
        diagnostics.error(format!("a value must not be {value:?}")).at(field("values").index(place));
    }
}

/// Checks that a text may stand before a domain, and in the path of a URL.
pub(crate) fn is_host(text: &str) -> bool {
    let label = |label: &str| name::is_dns_name(label.strip_prefix('_').unwrap_or(label));
    text == "@" || text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_no_slash() {
        for good in ["@", "www", "a.b", "_acme-challenge.www"] {
            assert!(is_host(good), "{good}");
        }
        for bad in ["", "a/b", "../x", "a..b", "A", "?", "@.a"] {
            assert!(!is_host(bad), "{bad}");
        }
    }
}
