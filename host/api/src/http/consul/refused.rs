//! Consul's paths that this server does not have: 501, with the way to do it here.

/// Beginnings of paths, and the way to do it here; the longest fitting one counts.
const WAYS: [(&str, &str); 30] = [
    ("/v1/agent/service/register", REGISTER),
    ("/v1/agent/service/deregister", DEREGISTER),
    ("/v1/agent/service/maintenance", CHECK),
    ("/v1/agent/check/register", REGISTER),
    ("/v1/agent/check/deregister", REGISTER),
    ("/v1/agent/check", CHECK),
    ("/v1/agent/health", "GET /v1/health/service/NAME has the instances of a service with their checks"),
    ("/v1/agent", "GET /v1/catalog/services lists the services, and `mortise status` shows the server"),
    ("/v1/catalog/register", REGISTER),
    ("/v1/catalog/deregister", DEREGISTER),
    ("/v1/catalog", "GET /v1/catalog/service/NAME has the instances of a service"),
    ("/v1/health", "GET /v1/health/service/NAME has the instances of a service with their checks"),
    ("/v1/kv", KV),
    ("/v1/txn", "write the resources one by one, with their versions as conditions (docs/http.md)"),
    ("/v1/session", "hold a lock by a resource that is written with its version as a condition (docs/http.md)"),
    ("/v1/event", "watch the resources of a type: GET /api/GROUP/VERSION/KIND/_watch"),
    ("/v1/query", "GET /v1/health/service/NAME?passing with tag or filter, or DNS (docs/dns.md)"),
    ("/v1/connect", MESH),
    ("/v1/discovery-chain", MESH),
    ("/v1/config", MESH),
    ("/v1/acl", "use `mortise token` and `mortise policy` (docs/security.md)"),
    ("/v1/snapshot", "use `mortise backup` and `mortise restore` (docs/operations.md)"),
    ("/v1/operator", "use `mortise status` (docs/operations.md)"),
    ("/v1/coordinate", "the catalog has no coordinates; zones of workloads are in docs/dns.md"),
    ("/v1/namespace", "write resources of the type tenancy.v2beta1.Namespace (docs/http.md)"),
    ("/v1/partition", "write resources of the type tenancy.v2beta1.Partition (docs/http.md)"),
    ("/v1/peering", "use regions (docs/regions.md)"),
    ("/v1/exported-services", "use regions (docs/regions.md)"),
    ("/v1/imported-services", "use regions (docs/regions.md)"),
    ("/v1/internal", "GET /v1/catalog/services lists the services"),
];

const REGISTER: &str = "write a catalog.v1.Workload, and a catalog.v1.Service that selects it: PUT \
    /api/catalog/v1/workload/NAME and /api/catalog/v1/service/NAME (docs/service-discovery.md)";

const DEREGISTER: &str = "delete the workload: DELETE /api/catalog/v1/workload/NAME (docs/service-discovery.md)";

const CHECK: &str = "report the result of a check of the kind ttl by `mortise catalog report WORKLOAD CHECK --passing` or \
    --failing, or by WriteStatus (docs/service-discovery.md)";

const KV: &str =
    "keep values in resources of a type of your own: PUT /api/GROUP/VERSION/KIND/NAME (docs/writing-plugins.md)";

const MESH: &str = "proxies follow catalog.v1.HttpRoute and get certificates (docs/destination.md, docs/linkerd.md)";

/// The text of a refusal; `None` for a path that Consul does not have, either.
pub(super) fn refusal(path: &str) -> Option<String> {
    let fits = |beginning: &str| path.starts_with(beginning);
    let (_, way) = WAYS.iter().filter(|(beginning, _)| fits(beginning)).max_by_key(|(beginning, _)| beginning.len())?;
    Some(format!("{path} of Consul is not served here; {way}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_beginning_has_the_way() {
        let way = |path: &str| refusal(path).unwrap_or_default();
        assert!(way("/v1/agent/service/register").contains("catalog.v1.Workload"));
        assert!(way("/v1/agent/check/pass/x").contains("mortise catalog report"));
        assert!(way("/v1/agent/members").contains("/v1/catalog/services"));
        assert!(way("/v1/kv/a/b").contains("/api/GROUP/VERSION/KIND/NAME"));
        assert_eq!(refusal("/v1/types"), None);
        assert!(WAYS.iter().all(|(path, _)| super::super::has_path(path) || has_plural(path)), "their errors are text");
    }

    fn has_plural(path: &str) -> bool {
        super::super::has_path(&format!("{path}s"))
    }
}
