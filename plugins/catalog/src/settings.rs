//! Settings `[plugin.catalog.settings]`: `virtual_addresses`, the ranges from which services get addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mortise_plugin::{Diagnostics, setting};
use serde_json::{Map, Value};

/// The setting with the ranges.
const VIRTUAL_ADDRESSES: &str = "virtual_addresses";

/// A range of addresses, as a first address and the number of bits that are the same in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AddressRange {
    first: IpAddr,
    bits: u32,
}

impl AddressRange {
    /// Parses a range such as `10.96.0.0/16`: of 2 to 2³² addresses that a host can have.
    fn parse(text: &str) -> Option<Self> {
        let (first, bits) = text.split_once('/')?;
        let is_number = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let range = Self { first: first.parse().ok()?, bits: bits.parse().ok().filter(|_| is_number)? };
        let (number, width, least) = match range.first {
            IpAddr::V4(ip) => (u128::from(ip.to_bits()), 32, 8),
            IpAddr::V6(ip) => (ip.to_bits(), 128, 96),
        };
        if !(least..=width - 2).contains(&range.bits) {
            return None;
        }
        let host = (1_u128 << (width - range.bits)) - 1;
        if matches!(range.first, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some()) {
            return None;
        }
        (number & host == 0 && !range.first.is_unspecified() && !range.first.is_multicast()).then_some(range)
    }

    /// Number of addresses to assign: all but the first and the last one, which are those of a network and of a
    /// broadcast.
    pub(crate) fn size(&self) -> u64 {
        let width = if self.first.is_ipv4() { 32 } else { 128 };
        (1_u64 << (width - self.bits).min(32)) - 2
    }

    /// The address with a number, from 0.
    pub(crate) fn address(&self, number: u64) -> IpAddr {
        let offset = number % self.size() + 1;
        match self.first {
            IpAddr::V4(ip) => IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() | u32::try_from(offset).unwrap_or(u32::MAX))),
            IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() | u128::from(offset))),
        }
    }

    /// Whether an address is of the range's family.
    pub(crate) fn is_family_of(&self, ip: IpAddr) -> bool {
        self.first.is_ipv4() == ip.is_ipv4()
    }
}

impl std::fmt::Display for AddressRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

/// Checks the settings.
pub(crate) fn check(settings: &str, diagnostics: &mut Diagnostics) {
    let settings = match serde_json::from_str::<Map<String, Value>>(settings) {
        Ok(settings) => settings,
        Err(fault) => {
            diagnostics.error(format!("must be a JSON object: {fault}"));
            return;
        }
    };
    for (key, value) in &settings {
        if key != VIRTUAL_ADDRESSES {
            let text = "is not a setting of this plugin; use `virtual_addresses`";
            diagnostics.error(text).at(setting(key));
        } else if let Err(fault) = read(value) {
            diagnostics.error(fault).at(setting(key));
        }
    }
}

/// The ranges in the settings: at most one of each family.
pub(crate) fn ranges(settings: &str) -> Vec<AddressRange> {
    // Checked when the plugin was loaded.
    let settings = serde_json::from_str::<Map<String, Value>>(settings).unwrap_or_default();
    settings.get(VIRTUAL_ADDRESSES).and_then(|value| read(value).ok()).unwrap_or_default()
}

fn read(value: &Value) -> Result<Vec<AddressRange>, String> {
    let form = "must be a list of ranges such as [\"10.96.0.0/16\", \"fd00:96::/112\"]";
    let items = value.as_array().ok_or_else(|| format!("{form}; got {value}"))?;
    let mut ranges: Vec<AddressRange> = Vec::new();
    for item in items {
        let range = item.as_str().and_then(AddressRange::parse).ok_or_else(|| {
            format!(
                "{form}, each with its first address, from /8 to /30 for IPv4 and from /96 to /126 for IPv6; got {item}"
            )
        })?;
        if ranges.iter().any(|other| other.is_family_of(range.first)) {
            return Err(format!("must have at most one range of IPv4 and one of IPv6; remove {item}"));
        }
        ranges.push(range);
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(settings: &str) -> Vec<String> {
        let mut diagnostics = Diagnostics::new();
        check(settings, &mut diagnostics);
        diagnostics.iter().map(|fault| format!("{}: {}", fault.path, fault.summary)).collect()
    }

    #[test]
    fn ranges_are_read_and_their_faults_named() {
        assert_eq!(faults("{}"), [""; 0]);
        assert_eq!(ranges("{}"), []);
        let both = r#"{"virtual_addresses":["10.96.0.0/30","fd00:96::/126"]}"#;
        assert_eq!(faults(both), [""; 0]);
        let [four, six] = ranges(both).try_into().unwrap();
        assert_eq!((four.size(), six.size()), (2, 2));
        let all = |range: AddressRange| (0..3).map(|number| range.address(number).to_string()).collect::<Vec<_>>();
        assert_eq!(all(four), ["10.96.0.1", "10.96.0.2", "10.96.0.1"]);
        assert_eq!(all(six), ["fd00:96::1", "fd00:96::2", "fd00:96::1"]);
        for bad in [
            r#""10.96.0.0/16""#,
            r#"["10.96.0.0"]"#,
            r#"["10.96.0.1/16"]"#,
            r#"["10.96.0.0/31"]"#,
            r#"["10.0.0.0/7"]"#,
            r#"["10.96.0.0/+16"]"#,
            r#"["224.0.0.0/16"]"#,
            r#"["0.0.0.0/8"]"#,
            r#"["fd00::/64"]"#,
            r#"["fd00::/127"]"#,
            "[1]",
        ] {
            let found = faults(&format!(r#"{{"virtual_addresses":{bad}}}"#));
            assert!(matches!(&*found, [fault] if fault.starts_with("virtual_addresses: must be a list")), "{bad}");
        }
        let two = faults(r#"{"virtual_addresses":["10.96.0.0/16","10.97.0.0/16"]}"#);
        assert!(two.concat().contains("at most one range"), "{two:?}");
        assert!(faults(r#"{"ranges":[]}"#).concat().contains("is not a setting"));
        assert!(faults("[]").concat().contains("must be a JSON object"));
    }
}
