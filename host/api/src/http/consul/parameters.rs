//! The parameters of a question.
//!
//! # Contract
//! The parameters that Consul's clients send are known: some choose instances, some have no effect on a single server.
//! An unknown one is refused: a misspelt `passing` would answer with more than was asked for. So is a parameter that
//! this server cannot follow, such as `peer`.

use std::time::Duration;

use axum::http::Uri;
use mortise_resource::pb;

use super::{
    super::error::{ErrorKind, HttpError},
    duration,
    filter::Filter,
};

/// Wait of a question without `wait`, and the longest one.
const DEFAULT_WAIT: Duration = Duration::from_secs(300);
const MAX_WAIT: Duration = Duration::from_secs(600);

/// Part of the wait, one of this number, by which it is prolonged by chance, so that clients do not return together.
const JITTER_PART: u32 = 16;

/// Most tags of a question, and most bytes of all parameters.
const MAX_TAGS: usize = 64;
const MAX_BYTES: usize = 8_192;

/// Parameters of Consul's clients without an effect here: there is one server, whose answers are always fresh.
const WITHOUT_EFFECT: [&str; 12] = [
    "cached",
    "consistent",
    "hash",
    "local-only",
    "max_stale",
    "merge-central-config",
    "near",
    "pretty",
    "relay-factor",
    "RequireConsistent",
    "stale",
    "token",
];

/// Parameters with an effect.
const WITH_EFFECT: &str = "passing, tag, filter, node-meta, index, wait, ns, partition, dc";

/// The parameters.
#[derive(Debug, Default)]
pub(super) struct Parameters {
    pub(super) tenancy: pb::Tenancy,
    pub(super) passing: bool,
    pub(super) tags: Vec<String>,
    pub(super) filter: Option<Filter>,
    /// Tells whether nodes need metadata. They have none here.
    pub(super) needs_node_meta: bool,
    /// The index that the client has; 0 for none.
    pub(super) index: u64,
    /// Longest time to wait for another index, without the part of chance.
    pub(super) wait: Duration,
}

impl Parameters {
    /// Reads the parameters of a request to a server of a datacenter.
    ///
    /// # Errors
    /// 400: an unknown or malformed parameter.
    pub(super) fn read(uri: &Uri, datacenter: &str) -> Result<Self, HttpError> {
        let text = uri.query().unwrap_or_default();
        if text.len() > MAX_BYTES {
            return Err(refused(format!("the parameters have more than {MAX_BYTES} bytes; send a shorter filter")));
        }
        let mut parameters = Self { wait: DEFAULT_WAIT, ..Self::default() };
        let (mut stale, mut consistent) = (false, false);
        for (key, value) in form_urlencoded::parse(text.as_bytes()) {
            match &*key {
                "ns" | "namespace" => parameters.tenancy.namespace = unit("ns", &value)?,
                "partition" | "ap" => parameters.tenancy.partition = unit("partition", &value)?,
                "passing" => parameters.passing = flag("passing", &value)?,
                "tag" if parameters.tags.len() < MAX_TAGS => parameters.tags.push(value.into_owned()),
                "tag" => return Err(refused(format!("there are more than {MAX_TAGS} tags; use filter"))),
                "filter" if value.is_empty() => {}
                "filter" => {
                    parameters.filter = Some(Filter::parse(&value).map_err(|fault| refused(fault.to_string()))?)
                }
                "node-meta" => parameters.needs_node_meta = true,
                "index" => parameters.index = index(&value)?,
                "wait" => parameters.wait = wait(&value)?,
                "dc" | "datacenter" if value.is_empty() || value == datacenter => {}
                "dc" | "datacenter" => {
                    return Err(refused(format!(
                        "No path to datacenter {value:?}: this server is in {datacenter:?}; leave dc out"
                    )));
                }
                "peer" | "peer-name" | "sg" | "sameness-group" if value.is_empty() => {}
                "peer" | "peer-name" | "sg" | "sameness-group" => {
                    return Err(refused(format!("parameter {key:?} has no meaning here; leave it out")));
                }
                known if WITHOUT_EFFECT.contains(&known) => {
                    stale |= known == "stale";
                    consistent |= known == "consistent";
                }
                unknown => {
                    return Err(refused(format!("parameter {unknown:?} is unknown here; use {WITH_EFFECT}")));
                }
            }
        }
        if stale && consistent {
            return Err(refused(
                "Cannot specify ?stale with ?consistent, conflicting semantics; leave one of them out",
            ));
        }
        Ok(parameters)
    }

    /// The wait of this request, prolonged by chance.
    pub(super) fn wait_by_chance(&self) -> Duration {
        let most = u64::try_from((self.wait / JITTER_PART).as_millis()).unwrap_or(u64::MAX);
        self.wait + Duration::from_millis(fastrand::u64(..=most))
    }
}

fn unit(name: &str, value: &str) -> Result<String, HttpError> {
    match value {
        "*" => Err(refused(format!("parameter {name:?} is \"*\", which is not one place; name one"))),
        value => Ok(value.to_owned()),
    }
}

/// The presence of a flag is enough.
fn flag(name: &str, value: &str) -> Result<bool, HttpError> {
    match value {
        "" | "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        other => Err(refused(format!("Invalid value for ?{name}: {other:?}; write true or false"))),
    }
}

fn index(value: &str) -> Result<u64, HttpError> {
    match value {
        "" => Ok(0),
        value => value.parse().map_err(|_| refused(format!("Invalid index: {value:?} is not a whole number"))),
    }
}

fn wait(value: &str) -> Result<Duration, HttpError> {
    if value.is_empty() {
        return Ok(DEFAULT_WAIT);
    }
    let Some(wait) = duration::parse(value) else {
        return Err(refused(format!("Invalid wait time: {value:?} is not a duration such as 30s or 5m")));
    };
    Ok(if wait.is_zero() { DEFAULT_WAIT } else { wait.min(MAX_WAIT) })
}

fn refused(what: impl Into<String>) -> HttpError {
    HttpError::new(ErrorKind::Head, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<Parameters, HttpError> {
        Parameters::read(&format!("/v1/health/service/web?{query}").parse().unwrap(), "dc1")
    }

    /// Parameters of Consul's Go client, Prometheus, Traefik, consul-template, and the clients of Spring and Python.
    #[test]
    fn parameters_of_known_clients_are_accepted() {
        for query in [
            "stale=&index=7&wait=60000ms&dc=dc1&passing=1&tag=a&tag=b&near=_agent&node-meta=os%3Alinux",
            "consistent&cached&hash=abc&token=t&pretty&relay-factor=2&local-only=true&merge-central-config=",
            "ns=default&partition=default&filter=Service.Port%20%3D%3D%2080&peer=&sameness-group=",
            "passing=true&index=&wait=&filter=&dc=",
        ] {
            read(query).unwrap();
        }
        let all = read("passing&tag=a&tag=b&index=7&wait=10s&ns=n&partition=p&node-meta=a:b").unwrap();
        assert_eq!((all.passing, all.tags.len(), all.index, all.wait.as_secs()), (true, 2, 7, 10));
        assert_eq!((all.tenancy.partition.as_str(), all.tenancy.namespace.as_str()), ("p", "n"));
        assert!(all.needs_node_meta);
        assert!(!read("passing=false").unwrap().passing);
    }

    #[test]
    fn unknown_and_malformed_parameters_are_refused() {
        for query in [
            "pasing",
            "Passing",
            "tags=a",
            "passing=maybe",
            "index=x",
            "index=-1",
            "wait=5",
            "wait=-5s",
            "dc=dc2",
            "ns=*",
            "partition=*",
            "peer=other",
            "stale&consistent",
            "filter=Service.Port",
            &format!("token={}", "x".repeat(MAX_BYTES)),
            &"tag=a&".repeat(MAX_TAGS + 1),
        ] {
            assert!(read(query).is_err(), "{query}");
        }
    }

    #[test]
    fn waits_are_bounded_and_differ() {
        let wait = |query: &str| read(query).unwrap().wait.as_secs();
        assert_eq!([wait(""), wait("wait=0"), wait("wait=11m"), wait("wait=1s")], [300, 300, 600, 1]);
        let parameters = read("wait=16s").unwrap();
        let waits: Vec<_> = (0..64).map(|_| parameters.wait_by_chance().as_millis()).collect();
        assert!(
            waits.iter().all(|wait| (16_000..=17_000).contains(wait)) && waits.iter().any(|wait| *wait != waits[0])
        );
    }
}
