//! A question about the catalog, by the path and the parameters of a request.

use mortise_resource::{pb, tenancy::DEFAULT};
use mortise_service::Caller;

use super::{filter::Filter, parameters::Parameters};

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Question {
    pub(super) subject: Subject,
    pub(super) partition: String,
    pub(super) namespace: String,
    /// Tells whether each instance needs all of its checks to pass.
    pub(super) passing: bool,
    /// Tags that each instance needs.
    pub(super) tags: Vec<String>,
    pub(super) filter: Option<Filter>,
    /// Tells whether nodes need metadata. They have none here.
    pub(super) needs_node_meta: bool,
}

/// The subject of a question.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    /// `/v1/catalog/services`.
    Services,
    /// `/v1/catalog/service/NAME`.
    Service(String),
    /// `/v1/catalog/nodes`.
    Nodes,
    /// `/v1/catalog/node/NAME`.
    Node(String),
    /// `/v1/catalog/node-services/NAME`.
    NodeServices(String),
    /// `/v1/health/service/NAME`.
    HealthOfService(String),
    /// `/v1/health/checks/NAME`.
    ChecksOfService(String),
    /// `/v1/health/state/STATE`.
    ChecksIn(State),
    /// `/v1/health/node/NAME`.
    ChecksOfNode(String),
}

/// The state of a check in a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum State {
    Any,
    Passing,
    Warning,
    Critical,
}

impl Subject {
    /// Reads the elements of a path below `/v1/`; `None` if the path is not a question.
    pub(super) fn of_path(elements: &[&str]) -> Option<Self> {
        Some(match elements {
            ["catalog", "services"] => Self::Services,
            ["catalog", "service", name] => Self::Service((*name).to_owned()),
            ["catalog", "nodes"] => Self::Nodes,
            ["catalog", "node", name] => Self::Node((*name).to_owned()),
            ["catalog", "node-services", name] => Self::NodeServices((*name).to_owned()),
            ["health", "service", name] => Self::HealthOfService((*name).to_owned()),
            ["health", "checks", name] => Self::ChecksOfService((*name).to_owned()),
            ["health", "node", name] => Self::ChecksOfNode((*name).to_owned()),
            ["health", "state", state] => Self::ChecksIn(match *state {
                "any" => State::Any,
                "passing" => State::Passing,
                "warning" => State::Warning,
                "critical" => State::Critical,
                _ => return None,
            }),
            _ => return None,
        })
    }

    /// The service that the question is about; `None` for all of a namespace.
    pub(super) fn service(&self) -> Option<&str> {
        match self {
            Self::Service(name) | Self::HealthOfService(name) | Self::ChecksOfService(name) => Some(name),
            _ => None,
        }
    }

    /// Tells whether tags choose instances. For other subjects they have no effect, as in Consul.
    fn has_tags(&self) -> bool {
        matches!(self, Self::Service(_) | Self::HealthOfService(_))
    }
}

impl Question {
    /// Makes the question of a caller.
    pub(super) fn new(subject: Subject, parameters: &Parameters, caller: &Caller) -> Self {
        let pb::Tenancy { partition, namespace } = place(&parameters.tenancy, caller);
        Self {
            partition,
            namespace,
            passing: parameters.passing && matches!(subject, Subject::HealthOfService(_)),
            tags: if subject.has_tags() { parameters.tags.clone() } else { Vec::new() },
            filter: parameters.filter.clone(),
            needs_node_meta: parameters.needs_node_meta,
            subject,
        }
    }

    /// The place of the question.
    pub(super) fn tenancy(&self) -> pb::Tenancy {
        pb::Tenancy { partition: self.partition.clone(), namespace: self.namespace.clone() }
    }
}

/// Fills units by those of the caller, as the service does.
fn place(asked: &pb::Tenancy, caller: &Caller) -> pb::Tenancy {
    let own = caller.authorizer.default_tenancy().cloned().unwrap_or_default();
    let or = |unit: &str, other: &str| if unit.is_empty() { other.to_owned() } else { unit.to_owned() };
    let own_partition = or(&own.partition, DEFAULT);
    let partition = or(&asked.partition, &own_partition);
    let own_namespace = if partition == own_partition { or(&own.namespace, DEFAULT) } else { DEFAULT.to_owned() };
    pb::Tenancy { namespace: or(&asked.namespace, &own_namespace), partition }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A question about the health of a service.
    pub(in crate::http::consul) fn about(service: &str) -> Question {
        Question {
            subject: Subject::HealthOfService(service.to_owned()),
            partition: DEFAULT.to_owned(),
            namespace: DEFAULT.to_owned(),
            passing: false,
            tags: Vec::new(),
            filter: None,
            needs_node_meta: false,
        }
    }

    #[test]
    fn paths_are_questions() {
        let of_path = |path: &str| Subject::of_path(&path.split('/').collect::<Vec<_>>());
        assert_eq!(of_path("health/service/web"), Some(Subject::HealthOfService("web".into())));
        assert_eq!(of_path("health/state/critical"), Some(Subject::ChecksIn(State::Critical)));
        for wrong in ["health/state/odd", "health/service", "catalog/service/web/x", "kv/a", "catalog"] {
            assert_eq!(of_path(wrong), None, "{wrong}");
        }
    }
}
