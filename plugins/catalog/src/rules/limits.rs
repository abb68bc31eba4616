//! Bounds of the contents.

/// Most ports of a service and of a workload.
pub(crate) const MAX_PORTS: usize = 64;
/// Most names and most prefixes of a selector.
pub(crate) const NAMES: usize = 256;
pub(crate) const PREFIXES: usize = 64;
/// Prefix that selects every name. An empty prefix would not do: no index has an empty text.
pub(crate) const EVERY_NAME: &str = "*";
/// Most labels of a resource; most bytes of their keys and values.
pub(crate) const MAX_LABELS: usize = 32;
pub(crate) const MAX_LABEL_KEY_BYTES: usize = 63;
pub(crate) const MAX_LABEL_VALUE_BYTES: usize = 253;
/// Labels that every endpoint gets automatically.
pub(crate) const ENDPOINT_LABELS: [&str; 2] = ["workload", "zone"];
/// Most addresses of a workload.
pub(crate) const MAX_ADDRESSES: usize = 16;
/// Most checks of a workload, and the longest name of one, which is part of its status's key.
pub(crate) const MAX_CHECKS: usize = 16;
pub(crate) const MAX_CHECK_NAME_CHARACTERS: usize = 40;
/// Most bytes of a zone, an identity, the path of an HTTP check, and a check's CA.
pub(crate) const ZONE: usize = 63;
pub(crate) const MAX_IDENTITY_BYTES: usize = 253;
pub(crate) const MAX_HTTP_PATH_BYTES: usize = 1024;
pub(crate) const MAX_CA_BYTES: usize = 64 << 10;
/// Longest time to live of a service's records in DNS.
pub(crate) const MAX_DNS_TTL_SECONDS: i64 = 3_600;
/// The greatest weight: that of DNS.
pub(crate) const WEIGHT: u32 = 65_535;
/// Most ranges of statuses.
pub(crate) const MAX_STATUS_RANGES: usize = 16;
/// Longest method.
pub(crate) const MAX_METHOD_BYTES: usize = 20;
/// Most rules of a route; most matches and backends of a rule; most headers of a match.
pub(crate) const MAX_RULES: usize = 16;
/// Most repetitions of a request.
pub(crate) const MAX_RETRIES: u32 = 10;
