//! Rules for health checks.

use std::time::Duration;

use mortise_plugin::Path;

use super::{
    common::{
        Findings, duration, is_method, is_server_name, known_port, number, places, port_number, resource_name, shown,
        text,
    },
    error::RuleError,
    limits::{
        MAX_CA_BYTES, MAX_CHECK_NAME_CHARACTERS, MAX_HTTP_PATH_BYTES, MAX_LABEL_VALUE_BYTES, MAX_LABELS,
        MAX_STATUS_RANGES,
    },
};
use crate::proto::catalog::v1::{CheckTls, HealthCheck, HttpCheck, Workload, health_check::Check};

/// Bounds of a check's interval, and of the time for which a client's report holds.
const INTERVAL_BOUNDS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(86_400));
/// Bounds of a check's timeout.
const TIMEOUT_BOUNDS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(30));
/// Bounds of the time until a workload is deleted.
const DEREGISTRATION_BOUNDS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(7 * 86_400));

/// Most results in a row that a threshold may ask for.
const MAX_THRESHOLD: u32 = 100;
/// Most redirects, and bytes of a text that a body has to contain.
const MAX_REDIRECTS: u32 = 10;
const MAX_BODY_TEXT_BYTES: usize = 1_024;

/// Checks a health check of a workload.
pub(super) fn check(check: &HealthCheck, data: &Workload, place: &Path, findings: &mut Findings<'_>) {
    let at = |name: &str| place.clone().field(name);
    findings.note(resource_name(&check.name), || at("name"));
    if check.name.len() > MAX_CHECK_NAME_CHARACTERS {
        findings.add(RuleError::CheckName(check.name.len()), at("name"));
    }
    match &check.check {
        None => return findings.add(RuleError::NoCheck, place.clone()),
        Some(Check::Ttl(ttl)) => {
            findings.note(duration(ttl, INTERVAL_BOUNDS), || at("ttl"));
            let (passing, failing) = (check.passing_after > 0, check.failing_after > 0);
            for (name, is_given) in [
                ("interval", check.interval.is_some()),
                ("timeout", check.timeout.is_some()),
                ("passing_after", passing),
                ("failing_after", failing),
            ] {
                if is_given {
                    findings.add(RuleError::NotForTtl(name), at(name));
                }
            }
            return check_deregistration(check, place, findings);
        }
        Some(Check::Http(http)) => {
            let at = |name: &str| place.clone().field("http").field(name);
            findings.note(check_port(&http.port, data), || at("port"));
            findings.note(http_path(&http.path), || at("path"));
            if !matches!(http.scheme.as_str(), "http" | "https") {
                findings.add(RuleError::Scheme(shown(&http.scheme)), at("scheme"));
            }
            check_request(http, &place.clone().field("http"), findings);
        }
        Some(Check::Tcp(tcp)) => findings.note(check_port(&tcp.port, data), || at("tcp").field("port")),
        Some(Check::Grpc(grpc)) => {
            findings.note(check_port(&grpc.port, data), || at("grpc").field("port"));
            findings.note(text(&grpc.service, MAX_LABEL_VALUE_BYTES), || at("grpc").field("service"));
            check_tls(grpc.tls.as_ref(), &at("grpc").field("tls"), findings);
        }
    }
    for (name, count) in [("passing_after", check.passing_after), ("failing_after", check.failing_after)] {
        findings.note(number(count, 1, MAX_THRESHOLD), || at(name));
    }
    check_deregistration(check, place, findings);
    findings.note(duration(&check.interval.unwrap_or_default(), INTERVAL_BOUNDS), || at("interval"));
    findings.note(duration(&check.timeout.unwrap_or_default(), TIMEOUT_BOUNDS), || at("timeout"));
}

/// Checks the parts of a request.
fn check_request(http: &HttpCheck, place: &Path, findings: &mut Findings<'_>) {
    let at = |name: &str| place.clone().field(name);
    if !is_method(&http.method) {
        findings.add(RuleError::Method(shown(&http.method)), at("method"));
    }
    if !is_header_value(&http.host) {
        findings.add(RuleError::Header(shown(&http.host)), at("host"));
    }
    let headers = at("headers");
    if findings.bound(http.headers.len(), MAX_LABELS, &headers) {
        for (key, value) in &http.headers {
            let is_name = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            if !is_name || key.len() > MAX_LABEL_VALUE_BYTES || !is_header_value(value) {
                findings.add(RuleError::Header(shown(key)), headers.clone().key(key));
            }
        }
    }
    let statuses = at("statuses");
    if findings.bound(http.statuses.len(), MAX_STATUS_RANGES, &statuses) {
        for (range, place) in places(&http.statuses, &statuses) {
            if !(100..=599).contains(&range.from) || !(range.from..=599).contains(&range.to) {
                findings.add(RuleError::Statuses(range.from, range.to), place);
            }
        }
    }
    findings.note(text(&http.body, MAX_BODY_TEXT_BYTES), || at("body"));
    findings.note(number(http.redirects, 0, MAX_REDIRECTS), || at("redirects"));
    if http.tls.is_some() && http.scheme != "https" {
        findings.add(RuleError::OnlyHttps, at("tls"));
    }
    check_tls(http.tls.as_ref(), &at("tls"), findings);
}

fn is_header_value(text: &str) -> bool {
    text.len() <= MAX_HTTP_PATH_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
}

fn check_tls(tls: Option<&CheckTls>, place: &Path, findings: &mut Findings<'_>) {
    let Some(tls) = tls else { return };
    if !tls.ca.is_empty() && (tls.ca.len() > MAX_CA_BYTES || !tls.ca.contains("-----BEGIN CERTIFICATE-----")) {
        findings.add(RuleError::Ca, place.clone().field("ca"));
    }
    if !tls.server_name.is_empty() && !is_server_name(&tls.server_name) {
        findings.add(RuleError::ServerName(shown(&tls.server_name)), place.clone().field("server_name"));
    }
}

fn check_deregistration(check: &HealthCheck, place: &Path, findings: &mut Findings<'_>) {
    if let Some(after) = &check.deregister_after {
        findings.note(duration(after, DEREGISTRATION_BOUNDS), || place.clone().field("deregister_after"));
    }
}

fn check_port(port: &str, data: &Workload) -> Result<(), RuleError> {
    match port.parse::<u32>() {
        _ if port.is_empty() => Err(RuleError::WhichPort),
        Ok(number) if port_number(number).is_ok() => Ok(()),
        Ok(_) => Err(RuleError::PortText(shown(port))),
        Err(_) => known_port(port, data),
    }
}

fn http_path(path: &str) -> Result<(), RuleError> {
    if path.starts_with('/') && path.len() <= MAX_HTTP_PATH_BYTES && path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    Err(RuleError::Path(shown(path)))
}
