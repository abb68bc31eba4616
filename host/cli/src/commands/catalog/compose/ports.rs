//! Ports of a service in every form of compose: `80`, `8080:80`, `3000-3005:4000-4005`, `8080-8082:80`,
//! `127.0.0.1:8080:80/tcp`, `[::1]:8080:80`, `127.0.0.1::80`, and maps.

use std::{net::IpAddr, ops::RangeInclusive};

use mortise_resource::grpc::catalog::Protocol;

use super::node::{Node, NodeValue};
use crate::commands::catalog::plan::resource_name;

/// Entry of `ports`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PortEntry {
    /// Numbers in the container, by which clients ask.
    pub(super) targets: RangeInclusive<u16>,
    /// Numbers at the address.
    pub(super) published: Published,
    /// Address at which the port is published; `None` for every address of the machine.
    pub(super) host: Option<IpAddr>,
    pub(super) name: Option<String>,
    pub(super) protocol: Protocol,
}

/// Numbers at which a port is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Published {
    /// A random number.
    Random,
    /// The first of as many numbers as there are targets.
    From(u16),
    /// Numbers of the replicas; there is one target.
    OneOf(RangeInclusive<u16>),
}

/// Reason why a port is left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PortError {
    #[error("only TCP is loaded")]
    Protocol,
    #[error("it is neither a text nor a map; write it as \"8080:80\"")]
    Form,
    #[error("its target is not a number from 1 to 65535")]
    Target,
    #[error("{0:?} is neither a number from 1 to 65535 nor a range such as 8000-8010")]
    Number(String),
    #[error("{0:?} is not an IP address")]
    Address(String),
    #[error("it publishes {published} numbers for {targets} ports; give as many numbers as ports")]
    Lengths { published: usize, targets: usize },
}

impl PortEntry {
    /// Reads an entry of `ports`.
    ///
    /// # Errors
    /// The entry is malformed, or its protocol is another one than TCP.
    pub(super) fn read(node: &Node) -> Result<Self, PortError> {
        match &node.value {
            NodeValue::Map(_) => Self::read_map(node),
            NodeValue::Scalar(text) => Self::read_text(text),
            NodeValue::Null | NodeValue::List(_) => Err(PortError::Form),
        }
    }

    /// Reads an entry of `expose`.
    ///
    /// # Errors
    /// The entry is malformed, or its protocol is another one than TCP.
    pub(super) fn read_exposed(node: &Node) -> Result<Self, PortError> {
        let text = without_protocol(node.scalar().ok_or(PortError::Form)?)?;
        Ok(Self::new(range(text)?, Published::Random, None))
    }

    fn new(targets: RangeInclusive<u16>, published: Published, host: Option<IpAddr>) -> Self {
        Self { targets, published, host, name: None, protocol: Protocol::Unspecified }
    }

    fn read_text(text: &str) -> Result<Self, PortError> {
        let text = without_protocol(text)?;
        let Some((front, targets)) = text.rsplit_once(':') else {
            return Ok(Self::new(range(text)?, Published::Random, None));
        };
        let targets = range(targets)?;
        let (host, published) = front.rsplit_once(':').unwrap_or(("", front));
        let published = published_at(published, &targets)?;
        Ok(Self::new(targets, published, host_ip(host)?))
    }

    fn read_map(node: &Node) -> Result<Self, PortError> {
        if node.text("protocol").is_some_and(|protocol| protocol != "tcp") {
            return Err(PortError::Protocol);
        }
        let target = node.text("target").and_then(number).ok_or(PortError::Target)?;
        let targets = target..=target;
        let published = published_at(node.text("published").unwrap_or_default(), &targets)?;
        let protocol = match node.text("app_protocol").unwrap_or_default() {
            "http" => Protocol::Http,
            "http2" | "h2c" => Protocol::Http2,
            "grpc" => Protocol::Grpc,
            _ => Protocol::Unspecified,
        };
        let name = node.text("name").and_then(resource_name);
        let host = host_ip(node.text("host_ip").unwrap_or_default())?;
        Ok(Self { name, protocol, ..Self::new(targets, published, host) })
    }
}

fn without_protocol(text: &str) -> Result<&str, PortError> {
    match text.rsplit_once('/') {
        None | Some((_, "tcp")) => Ok(text.strip_suffix("/tcp").unwrap_or(text)),
        Some(_) => Err(PortError::Protocol),
    }
}

fn number(text: &str) -> Option<u16> {
    text.parse().ok().filter(|number| *number != 0)
}

/// A number, or a range with both ends.
fn range(text: &str) -> Result<RangeInclusive<u16>, PortError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => Ok(first..=last),
        _ => Err(PortError::Number(text.to_owned())),
    }
}

fn published_at(text: &str, targets: &RangeInclusive<u16>) -> Result<Published, PortError> {
    if text.is_empty() {
        return Ok(Published::Random);
    }
    let published = range(text)?;
    match (published.len(), targets.len()) {
        (published_count, target_count) if published_count == target_count => Ok(Published::From(*published.start())),
        (_, 1) => Ok(Published::OneOf(published)),
        (published, targets) => Err(PortError::Lengths { published, targets }),
    }
}

/// Address at which a port is published; `None` for every address of the machine.
fn host_ip(text: &str) -> Result<Option<IpAddr>, PortError> {
    let text = text.trim_start_matches('[').trim_end_matches(']');
    if text.is_empty() {
        return Ok(None);
    }
    let ip: IpAddr = text.parse().map_err(|_| PortError::Address(text.to_owned()))?;
    Ok(Some(ip).filter(|ip| !ip.is_unspecified()))
}

/// Usual name of a port.
pub(super) fn port_name(number: u16) -> String {
    match number {
        80 => "http".to_owned(),
        443 => "https".to_owned(),
        other => format!("tcp-{other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(RangeInclusive<u16>, Published, Option<String>), PortError> {
        PortEntry::read_text(text).map(|port| (port.targets, port.published, port.host.map(|ip| ip.to_string())))
    }

    #[test]
    fn short_forms_are_read() {
        let at = |ip: &str| Some(ip.to_owned());
        for (text, targets, published, host) in [
            ("80", 80..=80, Published::Random, None),
            ("3000-3005", 3000..=3005, Published::Random, None),
            ("8080:80", 80..=80, Published::From(8080), None),
            ("9090-9091:8080-8081", 8080..=8081, Published::From(9090), None),
            ("8080-8082:80", 80..=80, Published::OneOf(8080..=8082), None),
            ("127.0.0.1:8001:8001", 8001..=8001, Published::From(8001), at("127.0.0.1")),
            ("127.0.0.1:5000-5010:5000-5010/tcp", 5000..=5010, Published::From(5000), at("127.0.0.1")),
            ("127.0.0.1::5000", 5000..=5000, Published::Random, at("127.0.0.1")),
            ("0.0.0.0:80:80", 80..=80, Published::From(80), None),
            ("[::1]:6000:6000", 6000..=6000, Published::From(6000), at("::1")),
            ("[::]:6000:6000", 6000..=6000, Published::From(6000), None),
            ("2001:db8::1:8080:80", 80..=80, Published::From(8080), at("2001:db8::1")),
        ] {
            assert_eq!(read(text), Ok((targets, published, host)), "{text}");
        }
    }

    #[test]
    fn malformed_ports_are_errors() {
        let bad = |text: &str| PortError::Number(text.to_owned());
        for (text, error) in [
            ("53:53/udp", PortError::Protocol),
            ("53/sctp", PortError::Protocol),
            ("", bad("")),
            ("web", bad("web")),
            ("0:80", bad("0")),
            ("8080:0", bad("0")),
            ("8080:65536", bad("65536")),
            ("20-10:80", bad("20-10")),
            ("8080:80-", bad("80-")),
            ("nowhere:8080:80", PortError::Address("nowhere".to_owned())),
            ("8000-8001:80-82", PortError::Lengths { published: 2, targets: 3 }),
            ("8000:80-82", PortError::Lengths { published: 1, targets: 3 }),
        ] {
            assert_eq!(read(text), Err(error), "{text}");
        }
    }
}
