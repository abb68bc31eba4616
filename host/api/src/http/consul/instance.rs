//! An instance of a service in Consul's sense: an endpoint, joined with its workload.
//!
//! # Contract
//! - Tags are the key `tags` of the workload's metadata, separated by commas, as `mortise catalog load` writes them.
//! - Metadata is that of the service (its labels), of the workload (its metadata) and of the endpoint (its labels); the
//!   later one counts.
//! - Checks are those of the workload. A check passes if its condition is true; with the reason `Warning` it warns.
//!   Otherwise, and without a result, it is critical.
//! - An endpoint without a workload, or with one that the caller may not read, has one check: its health.

use std::{collections::BTreeMap, time::Duration};

use mortise_resource::{Error, pb};
use prost::Message as _;

use super::duration;
use crate::catalog::{Endpoint, EndpointPort, Health, HealthCheck, Workload, health_check};

/// Key of the tags in the metadata of a workload.
const TAGS: &str = "tags";

/// Condition in the status of a check, and the reason of one that passes with a warning.
const PASSING: &str = "Passing";
const WARNING: &str = "Warning";

/// Time between two checks, and longest time for an answer, by default.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(10);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes of a text in memory besides its letters, and of an entry besides its texts of any length.
const TEXT_BYTES: usize = 64;
const ENTRY_BYTES: usize = 2_048;

/// An instance.
#[derive(Debug, Clone, Default)]
pub(super) struct Instance {
    pub(super) service: String,
    /// Name of the workload; without one, the address with dashes.
    pub(super) id: String,
    pub(super) address: String,
    pub(super) ports: Vec<EndpointPort>,
    pub(super) weight: u32,
    pub(super) zone: String,
    pub(super) tags: Vec<String>,
    pub(super) meta: BTreeMap<String, String>,
    pub(super) checks: Vec<Check>,
}

/// A check of an instance.
#[derive(Debug, Clone, Default)]
pub(super) struct Check {
    /// Name of the check in its workload; empty for the health of an endpoint without a workload.
    pub(super) name: String,
    pub(super) status: Status,
    /// Text of the last result.
    pub(super) output: String,
    pub(super) kind: &'static str,
    /// Time between two checks, and longest time for an answer; empty for a check that clients report.
    pub(super) interval: String,
    pub(super) timeout: String,
}

/// Consul's status of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Status {
    Passing,
    Warning,
    #[default]
    Critical,
}

impl Status {
    /// Consul's word.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Passing => "passing",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

impl Instance {
    /// Joins an endpoint of a service with its workload.
    ///
    /// # Errors
    /// `Internal`: the workload cannot be decoded.
    pub(super) fn new(
        service: &str,
        labels: &BTreeMap<String, String>,
        endpoint: Endpoint,
        workload: Option<&pb::Resource>,
    ) -> Result<Self, Error> {
        let health = endpoint.health();
        let mut meta = labels.clone();
        let (mut tags, mut checks) = (Vec::new(), vec![Check::of_health(health)]);
        if let Some(workload) = workload {
            let data = workload.data.as_ref().map(|data| data.value.as_slice()).unwrap_or_default();
            let decoded = Workload::decode(data).map_err(|fault| {
                Error::internal(format!("the workload {} cannot be decoded: {fault}", endpoint.workload))
            })?;
            checks = decoded.checks.iter().map(|check| Check::new(check, workload)).collect();
            meta.extend(workload.metadata.clone());
            tags = split_tags(meta.remove(TAGS).as_deref().unwrap_or_default());
        }
        meta.extend(endpoint.labels);
        let id = if endpoint.workload.is_empty() { with_dashes(&endpoint.address) } else { endpoint.workload };
        Ok(Self {
            service: service.to_owned(),
            id,
            address: endpoint.address,
            ports: endpoint.ports,
            weight: endpoint.weight.max(1),
            zone: endpoint.zone,
            tags,
            meta,
            checks,
        })
    }

    /// Bytes that an entry of the instance needs in memory, without its checks; rather too many than too few.
    pub(super) fn bytes(&self) -> usize {
        let meta: usize = self.meta.iter().map(|(key, value)| key.len() + value.len() + 2 * TEXT_BYTES).sum();
        self.bytes_of_tags() + meta + self.ports.len() * ENTRY_BYTES + ENTRY_BYTES
    }

    /// Bytes that an entry of a check needs in memory, which has the tags of the instance.
    pub(super) fn bytes_of_check(&self, check: &Check) -> usize {
        self.bytes_of_tags() + check.output.len() + ENTRY_BYTES
    }

    fn bytes_of_tags(&self) -> usize {
        self.tags.iter().map(|tag| tag.len() + TEXT_BYTES).sum()
    }

    /// The port of the instance; 0 without one. Of several ports it is the first one of the service.
    pub(super) fn port(&self) -> u32 {
        self.ports.first().map_or(0, |port| port.port)
    }

    /// Tells whether the instance has a tag, in any case, as Consul compares them.
    pub(super) fn has_tag(&self, wanted: &str) -> bool {
        self.tags.iter().any(|tag| tag.eq_ignore_ascii_case(wanted))
    }

    /// Tells whether all checks pass, none of them with a warning.
    pub(super) fn passes(&self) -> bool {
        self.checks.iter().all(|check| check.status == Status::Passing)
    }

    /// An instance with every field, for the check of filters.
    pub(super) fn sample() -> Self {
        Self { zone: "zone".to_owned(), checks: vec![Check::default()], ..Self::default() }
    }
}

impl Check {
    /// The health of an endpoint.
    fn of_health(health: Health) -> Self {
        let (status, output) = match health {
            Health::Passing => (Status::Passing, "The endpoint is healthy."),
            Health::Unspecified | Health::Critical => (Status::Critical, "The endpoint is unhealthy."),
        };
        Self { status, output: output.to_owned(), ..Self::default() }
    }

    /// A check of a workload, with the last result from its status.
    fn new(check: &HealthCheck, workload: &pb::Resource) -> Self {
        let key = format!("catalog.v1/check-{}", check.name);
        let conditions = workload.status.get(&key).map(|status| status.conditions.as_slice()).unwrap_or_default();
        let result = conditions.iter().find(|condition| condition.r#type == PASSING);
        let status = match result {
            Some(result) if result.state() != pb::condition::State::True => Status::Critical,
            Some(result) if result.reason == WARNING => Status::Warning,
            Some(_) => Status::Passing,
            None => Status::Critical,
        };
        let output = result.map(|result| if result.message.is_empty() { &result.reason } else { &result.message });
        let (kind, is_attempted) = match &check.check {
            Some(health_check::Check::Ttl(_)) | None => ("ttl", false),
            Some(health_check::Check::Http(_)) => ("http", true),
            Some(health_check::Check::Tcp(_)) => ("tcp", true),
            Some(health_check::Check::Grpc(_)) => ("grpc", true),
        };
        let time = |given: Option<&prost_types::Duration>, default| match is_attempted {
            true => duration::print(given.and_then(|given| Duration::try_from(*given).ok()).unwrap_or(default)),
            false => String::new(),
        };
        Self {
            name: check.name.clone(),
            status,
            output: output.cloned().unwrap_or_default(),
            kind,
            interval: time(check.interval.as_ref(), DEFAULT_INTERVAL),
            timeout: time(check.timeout.as_ref(), DEFAULT_TIMEOUT),
        }
    }
}

fn with_dashes(address: &str) -> String {
    address.replace(['.', ':'], "-")
}

fn split_tags(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|tag| !tag.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn endpoint(health: Health) -> Endpoint {
        let labels = pairs(&[("all", "endpoint")]).into_iter().collect();
        Endpoint { workload: "web-1".into(), health: health.into(), labels, ..Endpoint::default() }
    }

    fn workload(check: health_check::Check, condition: Option<pb::Condition>) -> pb::Resource {
        let check = HealthCheck { name: "up".into(), check: Some(check), ..HealthCheck::default() };
        let data = Workload { checks: vec![check], ..Workload::default() };
        let status = pb::Status { conditions: condition.into_iter().collect(), ..pb::Status::default() };
        pb::Resource {
            metadata: pairs(&[("tags", "v1, eu,,"), ("all", "workload"), ("two", "workload")]).into_iter().collect(),
            data: Some(prost_types::Any { type_url: String::new(), value: data.encode_to_vec() }),
            status: [("catalog.v1/check-up".to_owned(), status)].into(),
            ..pb::Resource::default()
        }
    }

    fn condition(state: pb::condition::State, reason: &str, message: &str) -> pb::Condition {
        pb::Condition {
            r#type: PASSING.into(),
            state: state.into(),
            reason: reason.into(),
            message: message.into(),
            ..pb::Condition::default()
        }
    }

    #[test]
    fn tags_and_metadata_come_from_the_workload() {
        let labels = pairs(&[("all", "service"), ("two", "service"), ("three", "service")]);
        let found = workload(health_check::Check::Tcp(Default::default()), None);
        let instance = Instance::new("web", &labels, endpoint(Health::Passing), Some(&found)).unwrap();
        assert_eq!(instance.tags, ["v1", "eu"]);
        assert_eq!(instance.meta, pairs(&[("all", "endpoint"), ("two", "workload"), ("three", "service")]));
        assert!(instance.has_tag("EU") && !instance.has_tag("e"));
        let alone = Instance::new("web", &labels, endpoint(Health::Passing), None).unwrap();
        assert!(alone.tags.is_empty() && alone.passes());
        assert_eq!((alone.checks.len(), alone.checks[0].status, alone.weight), (1, Status::Passing, 1));
    }

    #[test]
    fn checks_have_consuls_status() {
        use pb::condition::State;
        let check = |condition: Option<pb::Condition>| {
            let found = workload(health_check::Check::Http(Default::default()), condition);
            let instance = Instance::new("web", &BTreeMap::new(), endpoint(Health::Critical), Some(&found)).unwrap();
            (instance.passes(), instance.checks[0].clone())
        };
        for (given, status, output) in [
            (None, Status::Critical, ""),
            (Some(condition(State::True, "Answered", "200 OK")), Status::Passing, "200 OK"),
            (Some(condition(State::True, "Warning", "slow")), Status::Warning, "slow"),
            (Some(condition(State::False, "Timeout", "")), Status::Critical, "Timeout"),
            (Some(condition(State::Unknown, "", "odd")), Status::Critical, "odd"),
        ] {
            let (passes, check) = check(given);
            assert_eq!((check.status, check.output.as_str()), (status, output));
            assert_eq!(passes, status == Status::Passing);
            assert_eq!((check.kind, check.interval.as_str(), check.timeout.as_str()), ("http", "10s", "1s"));
        }
    }
}
