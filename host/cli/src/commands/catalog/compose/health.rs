//! Health checks of compose as checks of a workload, which the server performs.
//!
//! A check of compose is a command in the container. The commands that ask the container's own port become a check of
//! that port: `curl` and `wget` an HTTP request; `grpc_health_probe` a call; `pg_isready`, `redis-cli`, `valkey-cli`,
//! `mysqladmin`, `mariadb-admin` and `nc` a connection. All others are left out.
//!
//! Times and retries are those of the file, or compose's defaults. `start_period` has no counterpart, and needs none: a
//! check without a success so far does not pass.

use std::{collections::BTreeMap, time::Duration};

use jiff::SignedDuration;
use mortise_resource::grpc::catalog::{
    GrpcCheck, HealthCheck, HttpCheck, HttpStatusRange, TcpCheck, health_check::Check,
};

use super::{
    command,
    node::{Node, NodeValue},
    probe::{CommandError, Kind, Probe},
};

/// Name of the check of a workload.
const NAME: &str = "healthcheck";

/// Compose's defaults.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(30);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_RETRIES: u32 = 3;

/// Bounds of the server.
const INTERVALS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(86_400));
const TIMEOUTS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(30));
const MAX_RETRIES: u32 = 100;

/// Reason why a health check is left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum HealthError {
    #[error("it is not a map with a test, such as {{test: [CMD, curl, -f, \"http://localhost\"]}}")]
    Form,
    #[error("{0:?} is not a time such as 1m30s")]
    Time(String),
    #[error("{0:?} is not a number of retries")]
    Retries(String),
    #[error(transparent)]
    Command(#[from] CommandError),
}

/// A health check of a service, without the name of its port.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FoundCheck {
    probe: Probe,
    interval: Duration,
    timeout: Duration,
    retries: u32,
    /// Changes of times that the server's bounds ask for.
    pub(super) changes: Vec<String>,
}

impl FoundCheck {
    /// Reads a health check; `None` if it is switched off. `own` are the names of the container.
    ///
    /// # Errors
    /// The check is malformed, or its command has no counterpart.
    pub(super) fn read(node: &Node, own: &[&str]) -> Result<Option<Self>, HealthError> {
        if node.map().is_none() {
            return Err(HealthError::Form);
        }
        if node.text("disable") == Some("true") {
            return Ok(None);
        }
        let test = node.get("test").ok_or(HealthError::Form)?;
        let words: Option<Vec<&str>> = test.items().iter().map(Node::scalar).collect();
        let words = words.ok_or(HealthError::Form)?;
        let probe = match (&test.value, words.as_slice()) {
            (NodeValue::Scalar(text), _) => command::shell(text, own)?,
            (_, ["NONE", ..]) => return Ok(None),
            (_, ["CMD-SHELL", text]) | (_, ["CMD", "sh" | "/bin/sh" | "bash" | "/bin/bash", "-c", text]) => {
                command::shell(text, own)?
            }
            (_, ["CMD", words @ ..]) => {
                let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
                command::program(&words, own)?
            }
            _ => return Err(HealthError::Form),
        };
        let mut changes = Vec::new();
        let mut time = |key: &str, default: Duration, bounds| {
            let Some(text) = node.text(key) else { return Ok(default) };
            bounded(key, text, bounds, &mut changes)
        };
        let interval = time("interval", DEFAULT_INTERVAL, INTERVALS)?;
        let timeout = time("timeout", DEFAULT_TIMEOUT, TIMEOUTS)?;
        let timeout = probe.timeout.map_or(timeout, |own| own.clamp(TIMEOUTS.0, timeout));
        let retries = match node.text("retries") {
            None => DEFAULT_RETRIES,
            Some(text) => text.parse::<u32>().map_err(|_| HealthError::Retries(text.to_owned()))?.clamp(1, MAX_RETRIES),
        };
        Ok(Some(Self { probe, interval, timeout, retries, changes }))
    }

    /// The container's port that the check asks.
    pub(super) fn target(&self) -> u16 {
        self.probe.port
    }

    /// Makes the check of a workload whose port has this name.
    pub(super) fn check(&self, port: &str) -> HealthCheck {
        let port = port.to_owned();
        let check = match &self.probe.kind {
            Kind::Tcp => Check::Tcp(TcpCheck { port }),
            Kind::Grpc { service } => Check::Grpc(GrpcCheck { port, service: service.clone(), tls: None }),
            Kind::Http { scheme, method, path, headers, statuses, redirects } => Check::Http(HttpCheck {
                port,
                scheme: scheme.clone(),
                method: method.clone(),
                path: path.clone(),
                headers: headers.iter().map(|(key, value)| (key.clone(), value.clone())).collect::<BTreeMap<_, _>>(),
                statuses: statuses.map(|(from, to)| HttpStatusRange { from, to }).into_iter().collect(),
                redirects: *redirects,
                ..HttpCheck::default()
            }),
        };
        HealthCheck {
            name: NAME.to_owned(),
            check: Some(check),
            interval: prost_types::Duration::try_from(self.interval).ok(),
            timeout: prost_types::Duration::try_from(self.timeout).ok(),
            failing_after: self.retries,
            ..HealthCheck::default()
        }
    }
}

/// A time within the server's bounds.
fn bounded(
    key: &str,
    text: &str,
    (from, to): (Duration, Duration),
    changes: &mut Vec<String>,
) -> Result<Duration, HealthError> {
    let malformed = || HealthError::Time(text.to_owned());
    let time: SignedDuration = text.parse().map_err(|_| malformed())?;
    let time = Duration::try_from(time).map_err(|_| malformed())?;
    let allowed = time.clamp(from, to);
    if allowed != time {
        changes.push(format!("its {key} of {text} becomes {allowed:?}: the server takes {from:?} to {to:?}"));
    }
    Ok(allowed)
}
