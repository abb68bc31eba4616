//! `[region]`: peers, which have tables of their own, and rings of shards.

use std::path::{Path, PathBuf};

use mortise_region::PeerOptions;
use mortise_resource::name;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use super::{error::SettingError, table::Config};

/// Peers of one server.
const MAX_PEERS: usize = 32;
/// Rings of shards.
const MAX_RINGS: usize = 8;
/// Parts of a ring.
const MAX_RING: u32 = 65_536;

/// A region from which replicas are pulled.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PeerConfig {
    /// `https://HOST:PORT` of its gRPC port.
    pub(crate) address: String,
    pub(crate) ca_file: PathBuf,
    pub(crate) cert_file: PathBuf,
    pub(crate) key_file: PathBuf,
    pub(crate) token_file: PathBuf,
    pub(crate) tls_server_name: String,
}

/// Sizes of the rings of which each resource has a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Rings(pub(crate) Vec<u32>);

impl<'de> Deserialize<'de> for Rings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        /// The environment has texts.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Ring {
            Number(u32),
            Text(String),
        }
        let wrong = || D::Error::custom(format!("rings are 1 to {MAX_RING}, at most {MAX_RINGS} of them"));
        let rings = Vec::<Ring>::deserialize(from)?.into_iter().map(|ring| match ring {
            Ring::Number(number) => Ok(number),
            Ring::Text(text) => text.parse().map_err(|_| wrong()),
        });
        let rings = rings.collect::<Result<Vec<u32>, _>>()?;
        let fits = rings.len() <= MAX_RINGS && rings.iter().all(|ring| (1..=MAX_RING).contains(ring));
        fits.then_some(Self(rings)).ok_or_else(wrong)
    }
}

/// Returns the faults of the region, and one of each peer that has any.
pub(crate) fn faults(config: &Config) -> Vec<SettingError> {
    let region = &config.region;
    let wrong = |key: &str, what: &'static str| SettingError::Region { key: key.to_owned(), what };
    let mut found = Vec::new();
    if !region.name.is_empty() && !name::is_valid(&region.name) {
        found.push(wrong("region.name", "has to be lower-case letters, digits and dashes, 63 at most"));
    }
    if region.name.is_empty() && !region.peers.is_empty() {
        found.push(wrong("region.peers", "have no effect without region.name; say which region this is"));
    }
    if region.peers.len() > MAX_PEERS {
        found.push(wrong("region.peers", "are more than 32"));
    }
    found.extend(region.peers.iter().filter_map(|(name, peer)| peer_fault(&region.name, name, peer)));
    found
}

/// Returns the fault of a peer of the region `own`.
fn peer_fault(own: &str, name: &str, peer: &PeerConfig) -> Option<SettingError> {
    let wrong = |field: &str, what| Some(SettingError::Region { key: format!("region.peers.{name}{field}"), what });
    if !name::is_valid(name) {
        return wrong("", "has to have the name of a region: lower-case letters, digits and dashes");
    }
    if name == own {
        return wrong("", "is this server's own region; leave it out");
    }
    let is_tls = peer.address.starts_with("https://");
    if !is_tls && !peer.address.starts_with("http://") {
        return wrong(".address", "has to be https://HOST:PORT, or http://HOST:PORT without TLS");
    }
    if given(&peer.cert_file).is_some() != given(&peer.key_file).is_some() {
        return wrong(".cert_file", "and key_file go together; set both, or neither");
    }
    if !is_tls && [&peer.ca_file, &peer.cert_file].into_iter().any(|file| given(file).is_some()) {
        return wrong(".address", "has no TLS, which ca_file and cert_file are for; write https://");
    }
    None
}

/// The options of each peer.
pub(crate) fn peers(config: &Config) -> Vec<PeerOptions> {
    let region = &config.region;
    let options = |(name, peer): (&String, &PeerConfig)| PeerOptions {
        name: name.clone(),
        address: peer.address.clone(),
        ca_file: given(&peer.ca_file),
        identity: given(&peer.cert_file).zip(given(&peer.key_file)),
        token_file: given(&peer.token_file),
        tls_server_name: Some(peer.tls_server_name.clone()).filter(|name| !name.is_empty()),
        max_removed_percent: region.max_removed_percent,
        max_removed: region.max_removed as usize,
        max_backoff: region.max_backoff_ms.into(),
        keep_alive: region.keep_alive_ms.into(),
    };
    region.peers.iter().map(options).collect()
}

fn given(path: &Path) -> Option<PathBuf> {
    (!path.as_os_str().is_empty()).then(|| path.to_owned())
}
