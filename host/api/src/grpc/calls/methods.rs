//! The methods of the port: facts that each call of a method needs, in one table by path.
//!
//! The table is made at the start and does not change, so no client can make the server remember names. A call costs
//! one look into it for all facts together.

use std::{collections::HashMap, sync::Arc};

use super::records;
use crate::{
    authenticate::Requirement,
    grpc::resource_service::ResourceMethod,
    observability::requests::{MethodCount, RequestCounts},
};

/// Methods with a stream of requests.
const STREAMING_METHODS: [&str; 3] = [
    "/mortise.v1.PluginService/Install",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// All methods, by path.
pub(super) struct Methods {
    known: HashMap<String, Method>,
    /// The count of all other paths.
    others: Arc<MethodCount>,
}

/// A method of the port.
struct Method {
    facts: MethodFacts,
    count: Arc<MethodCount>,
}

/// Facts about a method.
#[derive(Debug, Clone, Copy)]
pub(super) struct MethodFacts {
    pub(super) requirement: Requirement,
    /// Whether the answer reports a change ([`Requirement::reports_change`]).
    pub(super) reports_change: bool,
    /// The method, if it belongs to the resource service.
    pub(super) resource: Option<ResourceMethod>,
    /// Whether the requests are a stream.
    pub(super) is_streamed: bool,
    /// Whether this is a method of reflection.
    pub(super) is_reflection: bool,
    /// Whether this is a method of the health service.
    pub(super) is_health: bool,
    /// Whether its calls are recorded around the service.
    pub(super) is_recorded: bool,
}

impl Methods {
    /// Makes the table. `methods` are full names, such as `grpc.health.v1.Health/Check`.
    pub(super) fn new(methods: &[String], counts: &RequestCounts) -> Self {
        let method = |name: &String| {
            let path = format!("/{name}");
            let facts = MethodFacts::for_path(&path);
            (path, Method { facts, count: counts.method(name) })
        };
        Self { known: methods.iter().map(method).collect(), others: counts.others() }
    }

    /// Counts a call, and returns the facts about its method, `None` for a path without a method, and the count for its
    /// answer.
    pub(super) fn begin(&self, path: &str) -> (Option<MethodFacts>, Arc<MethodCount>) {
        let known = self.known.get(path);
        let count = known.map_or(&self.others, |method| &method.count);
        count.add();
        (known.map(|method| method.facts), count.clone())
    }
}

impl MethodFacts {
    /// Returns the facts about the method of a path, be it one of the port or not.
    pub(super) fn for_path(path: &str) -> Self {
        Self {
            requirement: Requirement::for_grpc(path),
            reports_change: Requirement::reports_change(path),
            resource: ResourceMethod::of(path),
            is_streamed: STREAMING_METHODS.contains(&path),
            is_reflection: path.starts_with("/grpc.reflection."),
            is_health: path.starts_with("/grpc.health.v1.Health/"),
            is_recorded: records::is_recorded(path),
        }
    }
}
