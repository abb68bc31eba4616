//! Defaults of the types, and the canonical form of addresses.

use std::{collections::BTreeSet, net::IpAddr};

use mortise_plugin::{Diagnostics, Typed};
use prost_types::Duration;

use crate::proto::catalog::v1::{
    HealthCheck, HttpRoute, HttpStatusRange, Protocol, Service, Workload, health_check::Check,
};

/// Default interval and timeout of a check.
const DEFAULT_INTERVAL: Duration = Duration { seconds: 10, nanos: 0 };
const DEFAULT_TIMEOUT: Duration = Duration { seconds: 1, nanos: 0 };

/// Fills in a port's protocol, its target and its number, and normalises addresses.
pub(crate) fn service(service: &mut Typed<Service>) -> Result<(), Diagnostics> {
    for port in &mut service.data.ports {
        if port.target_port.is_empty() {
            port.target_port.clone_from(&port.name);
        }
        if port.port == 0 {
            port.port = port.target_port.parse::<u16>().unwrap_or(0).into();
        }
        default_protocol(&mut port.protocol);
    }
    normalise(service.data.virtual_addresses.iter_mut());
    Ok(())
}

/// Writes IP addresses in their canonical form.
fn normalise<'t>(texts: impl Iterator<Item = &'t mut String>) {
    for text in texts {
        if let Ok(ip) = text.parse::<IpAddr>() {
            *text = ip.to_string();
        }
    }
}

/// Fills in the weight, the protocols of ports and options of checks, and normalises addresses.
pub(crate) fn workload(workload: &mut Typed<Workload>) -> Result<(), Diagnostics> {
    let data = &mut workload.data;
    if data.weight == 0 {
        data.weight = 1;
    }
    normalise(data.addresses.iter_mut().map(|address| &mut address.host));
    for port in &mut data.ports {
        default_protocol(&mut port.protocol);
    }
    let only_port = match data.ports.as_slice() {
        [one] => one.name.clone(),
        _ => String::new(),
    };
    for check in &mut data.checks {
        complete(check, &only_port);
    }
    Ok(())
}

/// Fills in the weights of backends, the statuses of retries, and the names of services.
pub(crate) fn route(route: &mut Typed<HttpRoute>) -> Result<(), Diagnostics> {
    let backends = route.data.rules.iter().flat_map(|rule| &rule.backends).map(|backend| &backend.service);
    let services: BTreeSet<&String> = route.data.parent.iter().map(|parent| &parent.service).chain(backends).collect();
    route.data.services = services.into_iter().filter(|name| !name.is_empty()).cloned().collect();
    for rule in &mut route.data.rules {
        for backend in &mut rule.backends {
            backend.weight.get_or_insert(1);
        }
        let Some(retry) = &mut rule.retry else { continue };
        if retry.statuses.is_empty() {
            retry.statuses.push(HttpStatusRange { from: 500, to: 599 });
        }
        for range in &mut retry.statuses {
            if range.to == 0 {
                range.to = range.from;
            }
        }
    }
    Ok(())
}

fn complete(check: &mut HealthCheck, only_port: &str) {
    let fill = |field: &mut String, with: &str| {
        if field.is_empty() {
            with.clone_into(field);
        }
    };
    match &mut check.check {
        Some(Check::Http(http)) => {
            fill(&mut http.port, only_port);
            fill(&mut http.path, "/");
            fill(&mut http.scheme, "http");
            fill(&mut http.method, "GET");
            for range in &mut http.statuses {
                if range.to == 0 {
                    range.to = range.from;
                }
            }
        }
        Some(Check::Tcp(tcp)) => fill(&mut tcp.port, only_port),
        Some(Check::Grpc(grpc)) => fill(&mut grpc.port, only_port),
        Some(Check::Ttl(_)) | None => return,
    }
    check.interval.get_or_insert(DEFAULT_INTERVAL);
    check.timeout.get_or_insert(DEFAULT_TIMEOUT);
    for threshold in [&mut check.passing_after, &mut check.failing_after] {
        *threshold = (*threshold).max(1);
    }
}

fn default_protocol(protocol: &mut i32) {
    if *protocol == Protocol::Unspecified as i32 {
        *protocol = Protocol::Tcp.into();
    }
}

#[cfg(test)]
mod tests {
    use mortise_plugin::testing::World;

    use super::*;
    use crate::{
        HTTP_ROUTE,
        proto::catalog::v1::{HttpRouteRetry, HttpRouteRule, RouteBackend},
    };

    #[test]
    fn routes_get_weights_and_statuses_where_they_have_none() {
        let backend = |weight| RouteBackend { service: "web".into(), port: 0, weight };
        let range = |from, to| HttpStatusRange { from, to };
        let rule = |weights: &[Option<u32>], statuses: &[HttpStatusRange]| HttpRouteRule {
            backends: weights.iter().copied().map(backend).collect(),
            retry: Some(HttpRouteRetry { statuses: statuses.to_vec(), ..HttpRouteRetry::default() }),
            ..HttpRouteRule::default()
        };
        let given = HttpRoute {
            rules: vec![rule(&[None, Some(0), Some(7)], &[]), rule(&[], &[range(429, 0), range(502, 504)])],
            ..HttpRoute::default()
        };
        let mut found = Typed::new(HTTP_ROUTE.id("r", &World::tenancy()), given);
        route(&mut found).unwrap();
        let expected =
            [rule(&[Some(1), Some(0), Some(7)], &[range(500, 599)]), rule(&[], &[range(429, 429), range(502, 504)])];
        assert_eq!((found.data.rules.as_slice(), found.data.services), (&expected[..], vec!["web".to_owned()]));
    }
}
