//! Rules for routes.

use std::time::Duration;

use mortise_plugin::{Diagnostics, Path, Typed, field};
use prost_types::Duration as ProtoDuration;

use super::{
    common::{Findings, duration, in_range, is_method, number, places, port_number, resource_name, shown},
    error::RuleError,
    limits::{MAX_HTTP_PATH_BYTES, MAX_LABEL_VALUE_BYTES, MAX_RETRIES, MAX_RULES, MAX_STATUS_RANGES, WEIGHT},
};
use crate::proto::catalog::v1::{
    HttpHeaderMatch, HttpRoute, HttpRouteMatch, HttpRouteRetry, HttpRouteRule, RouteBackend,
    http_route_match::Path as PathMatch,
};

/// Bounds of a timeout.
const TIMEOUT_BOUNDS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(3_600));

/// Checks an HttpRoute, defaults filled in.
pub(crate) fn route(route: &Typed<HttpRoute>, _: Option<&Typed<HttpRoute>>, diagnostics: &mut Diagnostics) {
    let mut findings = Findings(diagnostics);
    let place = || field("parent");
    match &route.data.parent {
        Some(parent) if !parent.service.is_empty() => {
            findings.note(resource_name(&parent.service), || place().field("service"));
            findings.note(optional_port(parent.port), || place().field("port"));
        }
        _ => findings.add(RuleError::NoParent, place()),
    }
    let all = field("rules");
    if route.data.rules.is_empty() {
        findings.add(RuleError::NoRule, all.clone());
    }
    if findings.bound(route.data.rules.len(), MAX_RULES, &all) {
        for (rule, place) in places(&route.data.rules, &all) {
            check_rule(rule, &place, &mut findings);
        }
    }
}

fn check_rule(rule: &HttpRouteRule, place: &Path, findings: &mut Findings<'_>) {
    let at = |name: &str| place.clone().field(name);
    let matches = at("matches");
    if findings.bound(rule.matches.len(), MAX_RULES, &matches) {
        for (item, place) in places(&rule.matches, &matches) {
            check_match(item, &place, findings);
        }
    }
    let backends = at("backends");
    if findings.bound(rule.backends.len(), MAX_RULES, &backends) {
        for (backend, place) in places(&rule.backends, &backends) {
            check_backend(backend, &place, findings);
        }
        if !rule.backends.is_empty() && rule.backends.iter().all(|backend| backend.weight == Some(0)) {
            findings.add(RuleError::NoWeight, backends);
        }
    }
    for (name, timeout) in
        [("request_timeout", &rule.request_timeout), ("backend_request_timeout", &rule.backend_request_timeout)]
    {
        findings.note(optional_timeout(timeout.as_ref()), || at(name));
    }
    if let Some(retry) = &rule.retry {
        check_retry(retry, &at("retry"), findings);
    }
}

fn check_match(item: &HttpRouteMatch, place: &Path, findings: &mut Findings<'_>) {
    let at = |name: &str| place.clone().field(name);
    match &item.path {
        None => {}
        Some(PathMatch::ExactPath(path)) => findings.note(match_path(path), || at("exact_path")),
        Some(PathMatch::PathPrefix(path)) => findings.note(match_path(path), || at("path_prefix")),
    }
    let headers = at("headers");
    if findings.bound(item.headers.len(), MAX_RULES, &headers) {
        for (header, place) in places(&item.headers, &headers) {
            check_header(header, &place, findings);
        }
    }
    if !item.method.is_empty() && !is_method(&item.method) {
        findings.add(RuleError::Method(shown(&item.method)), at("method"));
    }
}

fn check_header(header: &HttpHeaderMatch, place: &Path, findings: &mut Findings<'_>) {
    let at = |name: &str| place.clone().field(name);
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    if !(1..=MAX_LABEL_VALUE_BYTES).contains(&header.name.len()) || !header.name.bytes().all(fits) {
        findings.add(RuleError::MatchHeader(shown(&header.name)), at("name"));
    }
    let is_visible = header.exact.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    if header.exact.len() > MAX_HTTP_PATH_BYTES || !is_visible {
        findings.add(RuleError::MatchHeader(shown(&header.exact)), at("exact"));
    }
}

fn check_backend(backend: &RouteBackend, place: &Path, findings: &mut Findings<'_>) {
    let at = |name: &str| place.clone().field(name);
    findings.note(resource_name(&backend.service), || at("service"));
    findings.note(optional_port(backend.port), || at("port"));
    findings.note(number(backend.weight.unwrap_or(1), 0, WEIGHT), || at("weight"));
}

fn check_retry(retry: &HttpRouteRetry, place: &Path, findings: &mut Findings<'_>) {
    let at = |name: &str| place.clone().field(name);
    findings.note(number(retry.max, 1, MAX_RETRIES), || at("max"));
    let statuses = at("statuses");
    if findings.bound(retry.statuses.len(), MAX_STATUS_RANGES, &statuses) {
        for (range, place) in places(&retry.statuses, &statuses) {
            let begin = in_range(range.from, 100, 599, |_| RuleError::Statuses(0, 0));
            if begin.is_err() || !(range.from..=599).contains(&range.to) {
                findings.add(RuleError::Statuses(range.from, range.to), place);
            }
        }
    }
}

/// A port, or 0 for none.
fn optional_port(port: u32) -> Result<(), RuleError> {
    if port == 0 { Ok(()) } else { port_number(port) }
}

fn optional_timeout(timeout: Option<&ProtoDuration>) -> Result<(), RuleError> {
    timeout.map_or(Ok(()), |timeout| duration(timeout, TIMEOUT_BOUNDS))
}

fn match_path(path: &str) -> Result<(), RuleError> {
    let fits = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#');
    if path.starts_with('/') && path.len() <= MAX_HTTP_PATH_BYTES && path.bytes().all(fits) {
        return Ok(());
    }
    Err(RuleError::MatchPath(shown(path)))
}
