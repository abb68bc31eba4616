//! Reads and checks what a controller wants.

use std::time::Duration;

use mortise_resource::probes::{Probe as Wanted, ProbeTls, StatusRange, probe::Check as WantedCheck};

/// Shortest and longest time of an attempt.
const TIMEOUT_BOUNDS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(60));
/// Shortest and longest time between two attempts, and time for which a report holds.
const INTERVAL_BOUNDS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(7 * 86_400));

/// Most results in a row that a threshold may ask for.
const MAX_THRESHOLD: u32 = 1_000;

/// Most redirects.
const MAX_REDIRECTS: u32 = 10;

/// Most bytes of a status's key, and of the texts of a check together.
const MAX_KEY_BYTES: usize = 256;
const MAX_CHECK_BYTES: usize = 128 << 10;

/// The fault of a probe, with its rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum SpecificationFault {
    #[error("a probe needs a key of at most {MAX_KEY_BYTES} bytes and a condition")]
    Key,
    #[error("a probe has at most {MAX_CHECK_BYTES} bytes, got {0}")]
    Size(usize),
    #[error("a threshold is at most {MAX_THRESHOLD}, got {0}")]
    Threshold(u32),
    #[error("a probe needs one of report, http, tcp and grpc")]
    NoCheck,
    #[error("{0:?} is not a URL")]
    Url(String),
    #[error("{0:?} is not a method")]
    Method(String),
    #[error("{0:?} is not a header with a value of visible characters")]
    Header(String),
    #[error("at most {MAX_REDIRECTS} redirects are followed, got {0}")]
    Redirects(u32),
    #[error("a port is a number from 1 to 65535, got {0}")]
    Port(u32),
    #[error("{subject} is {least:?} to {most:?}, got {time:?}")]
    Time { subject: &'static str, least: Duration, most: Duration, time: Duration },
}

/// A checked probe.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Specification {
    pub(super) condition: String,
    pub(super) kind: Kind,
    pub(super) thresholds: Thresholds,
    pub(super) delete_after: Option<Duration>,
}

/// Results in a row that change the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Thresholds {
    pub(super) passing_after: u32,
    pub(super) failing_after: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// Passes for this time after a report.
    Report(Duration),
    Active {
        check: Check,
        interval: Duration,
        timeout: Duration,
    },
}

/// The work of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Check {
    Http(Box<HttpCheck>),
    Tcp { host: String, port: u16 },
    Grpc { host: String, port: u16, service: String, tls: Option<ProbeTls> },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct HttpCheck {
    pub(super) url: http::Uri,
    pub(super) method: http::Method,
    pub(super) headers: http::HeaderMap,
    pub(super) statuses: Vec<StatusRange>,
    pub(super) body: String,
    pub(super) redirects: u32,
    pub(super) tls: ProbeTls,
}

impl Check {
    /// Name of the kind in metrics.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Tcp { .. } => "tcp",
            Self::Grpc { .. } => "grpc",
        }
    }
}

impl Specification {
    pub(super) fn is_report(&self) -> bool {
        matches!(self.kind, Kind::Report(_))
    }

    /// Reads a probe.
    ///
    /// # Errors
    /// The first fault.
    pub(super) fn read(wanted: Wanted) -> Result<Self, SpecificationFault> {
        let size = prost::Message::encoded_len(&wanted);
        if wanted.key.is_empty() || wanted.key.len() > MAX_KEY_BYTES || wanted.condition.is_empty() {
            return Err(SpecificationFault::Key);
        }
        if size > MAX_CHECK_BYTES {
            return Err(SpecificationFault::Size(size));
        }
        let threshold = |count: u32| match count {
            0..=MAX_THRESHOLD => Ok(count.max(1)),
            _ => Err(SpecificationFault::Threshold(count)),
        };
        let check = match wanted.check.ok_or(SpecificationFault::NoCheck)? {
            WantedCheck::Report(time) => {
                let kind = Kind::Report(within("a report", Some(&time), INTERVAL_BOUNDS)?);
                return Self::of(
                    kind,
                    &wanted.condition,
                    Thresholds { passing_after: 1, failing_after: 1 },
                    wanted.delete_after,
                );
            }
            WantedCheck::Http(http) => Check::Http(Box::new(HttpCheck {
                url: http.url.parse().map_err(|_| SpecificationFault::Url(http.url.clone()))?,
                method: match http.method.as_str() {
                    "" => http::Method::GET,
                    method => method.parse().map_err(|_| SpecificationFault::Method(method.to_owned()))?,
                },
                headers: headers(http.headers)?,
                statuses: http.statuses,
                body: http.body,
                redirects: match http.redirects {
                    count @ 0..=MAX_REDIRECTS => count,
                    count => return Err(SpecificationFault::Redirects(count)),
                },
                tls: http.tls.unwrap_or_default(),
            })),
            WantedCheck::Tcp(tcp) => Check::Tcp { host: tcp.host, port: port(tcp.port)? },
            WantedCheck::Grpc(grpc) => {
                Check::Grpc { host: grpc.host, port: port(grpc.port)?, service: grpc.service, tls: grpc.tls }
            }
        };
        let kind = Kind::Active {
            check,
            interval: within("an interval", wanted.interval.as_ref(), INTERVAL_BOUNDS)?,
            timeout: within("a timeout", wanted.timeout.as_ref(), TIMEOUT_BOUNDS)?,
        };
        let thresholds = Thresholds {
            passing_after: threshold(wanted.passing_after)?,
            failing_after: threshold(wanted.failing_after)?,
        };
        Self::of(kind, &wanted.condition, thresholds, wanted.delete_after)
    }

    fn of(
        kind: Kind,
        condition: &str,
        thresholds: Thresholds,
        delete_after: Option<prost_types::Duration>,
    ) -> Result<Self, SpecificationFault> {
        let delete_after =
            delete_after.map(|time| within("the time until a deletion", Some(&time), INTERVAL_BOUNDS)).transpose()?;
        Ok(Self { condition: condition.to_owned(), kind, thresholds, delete_after })
    }
}

fn within(
    subject: &'static str,
    time: Option<&prost_types::Duration>,
    (least, most): (Duration, Duration),
) -> Result<Duration, SpecificationFault> {
    let time = time.and_then(|time| Duration::try_from(*time).ok()).unwrap_or_default();
    match (least..=most).contains(&time) {
        true => Ok(time),
        false => Err(SpecificationFault::Time { subject, least, most, time }),
    }
}

fn port(port: u32) -> Result<u16, SpecificationFault> {
    let fits = u16::try_from(port).ok().filter(|port| *port > 0);
    fits.ok_or(SpecificationFault::Port(port))
}

fn headers(given: std::collections::BTreeMap<String, String>) -> Result<http::HeaderMap, SpecificationFault> {
    let mut headers = http::HeaderMap::new();
    for (name, value) in given {
        let parsed = (name.parse::<http::HeaderName>(), value.parse::<http::HeaderValue>());
        let (Ok(header), Ok(value)) = parsed else { return Err(SpecificationFault::Header(name)) };
        headers.insert(header, value);
    }
    Ok(headers)
}
