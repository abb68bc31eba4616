//! Faults of the rules, as texts for users.

use std::time::Duration;

use super::limits::{MAX_CA_BYTES, MAX_CHECK_NAME_CHARACTERS, MAX_HTTP_PATH_BYTES, MAX_LABEL_KEY_BYTES, WEIGHT};

/// A value that breaks a rule. Texts from the resource are cut to a length that fits a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RuleError {
    #[error("at most {most} are allowed, got {got}")]
    TooMany { most: usize, got: usize },
    #[error("{0}")]
    Name(String),
    #[error("{0} is a duplicate; remove it")]
    Duplicate(String),
    #[error("a port is a number from 1 to 65535, got {0}")]
    Port(u32),
    #[error("a port is the name of one of the workload's ports, or a number from 1 to 65535; got {0}")]
    PortText(String),
    #[error("the workload has no port {0}; its ports are {1}")]
    NoPort(String, String),
    #[error("the port is required, since the workload does not have exactly one")]
    WhichPort,
    #[error("this plugin does not know the protocol {0}")]
    Protocol(i32),
    #[error("an address is an IPv4 or IPv6 address or a DNS name in lower case, without a port; got {0}")]
    Host(String),
    #[error("a workload needs an address, such as 192.0.2.1")]
    NoAddress,
    #[error("a weight is 1 to {WEIGHT}, got {0}")]
    Weight(u32),
    #[error(
        "a label's key is 1 to {MAX_LABEL_KEY_BYTES} letters, digits and _ . - /, and begins with a letter or _; got {0}"
    )]
    LabelKey(String),
    #[error("the label {0} is reserved; use another key")]
    ReservedLabel(String),
    #[error("a text may have at most {most} bytes and no control characters; got {got}")]
    Text { most: usize, got: String },
    #[error("an identity is a DNS name in lower case, or a SPIFFE ID such as spiffe://example.org/web; got {0}")]
    Identity(String),
    #[error("an identity that is a SPIFFE ID needs a server_name, or clients would speak to the workload without TLS")]
    NoServerName,
    #[error("a server name is a DNS name in lower case, and belongs to an identity; got {0}")]
    ServerName(String),
    #[error("a selector needs a name, a prefix or a label; the prefix * is every workload")]
    EmptySelector,
    #[error(
        "a prefix is the beginning of a name (lower-case letters, digits and -, and no - at first), or * for every name; got {0}"
    )]
    Prefix(String),
    #[error("a check's name has at most {MAX_CHECK_NAME_CHARACTERS} characters, got {0}")]
    CheckName(usize),
    #[error("a check needs one of ttl, http, tcp and grpc")]
    NoCheck,
    #[error("{from} to {to} is allowed, got {got}")]
    Number { from: u32, to: u32, got: u32 },
    #[error("a method is 1 to 20 upper-case letters, and not CONNECT; got {0}")]
    Method(String),
    #[error("a header is a name of letters, digits and dashes with a value of visible ASCII characters; got {0}")]
    Header(String),
    #[error("statuses are 100 to 599, and end where they begin or later; got {0} to {1}")]
    Statuses(u32, u32),
    #[error("the CA is a list of certificates in PEM, and has at most {MAX_CA_BYTES} bytes")]
    Ca,
    #[error("only a check over https has this; remove it")]
    OnlyHttps,
    #[error("{from:?} to {to:?} is allowed, got {got}")]
    Duration { from: Duration, to: Duration, got: String },
    #[error("a time to live is whole seconds, 0s to 3600s; got {0}")]
    DnsTtl(String),
    #[error("a check by ttl has no {0}; remove it")]
    NotForTtl(&'static str),
    #[error("a path begins with a slash and has at most {MAX_HTTP_PATH_BYTES} visible ASCII characters; got {0}")]
    Path(String),
    #[error("a scheme is http or https, got {0}")]
    Scheme(String),
    #[error("a network is an address with a prefix length, such as 10.0.0.0/8, and no further bits; got {0}")]
    Network(String),
    #[error("mesh_only is any identity, so it has no list of them; remove one of the two")]
    AnyIdentity,
    #[error("port 4191 is that of the proxy's metrics and probes, which is open to everyone; remove the permission")]
    AdminPort,
    #[error("only a port with the protocol TCP can be opaque; leave out the protocol, or opaque")]
    OpaqueProtocol,
    #[error("a virtual address is an IPv4 or IPv6 address of one host, such as 10.96.0.10; got {0}")]
    VirtualAddress(String),
    #[error("the name of the address {address} is {name}; the plugin writes these resources itself")]
    AddressName { address: String, name: String },
    #[error("a route needs the name of a service; write parent.service")]
    NoParent,
    #[error("a route needs a rule; a rule without matches is for every request")]
    NoRule,
    #[error(
        "a path to match begins with a slash and has at most {MAX_HTTP_PATH_BYTES} visible ASCII characters without ? and #; got {0}"
    )]
    MatchPath(String),
    #[error(
        "a header's name is lower-case letters, digits, dashes and underscores, and its value is visible ASCII; got {0}"
    )]
    MatchHeader(String),
    #[error("all backends have the weight 0; give one of them another weight")]
    NoWeight,
}
