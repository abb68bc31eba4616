//! Chooses the form of errors by the client's `Accept` header.
//!
//! A problem object (RFC 9457) and text are compared by the rules of RFC 9110: the most specific range that fits a form
//! decides its quality. The higher quality wins, then the more specific range. Without a preference, and for a client
//! that accepts neither form, the answer is a problem.
//!
//! On Consul's routes, only a client that prefers problems gets codes by meaning: the others rely on Consul's.

use std::cmp::Ordering;

use axum::http::{HeaderMap, HeaderValue, header::ACCEPT};

use super::consul;

/// The form of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Consul's answer: text, and its few codes.
    Consul,
    /// A problem object, with Consul's codes.
    ConsulProblem,
    /// Text, with codes by meaning.
    Text,
    /// A problem object, with codes by meaning.
    Problem,
}

impl Form {
    /// The form on Consul's routes.
    pub(super) fn of_consul(headers: &HeaderMap) -> Self {
        match preferred(headers) {
            Some(Preferred::Problem) => Self::Problem,
            Some(Preferred::Text) => Self::Consul,
            None => Self::ConsulProblem,
        }
    }

    /// The form on Mortise's own routes.
    pub(super) fn of_ours(headers: &HeaderMap) -> Self {
        match preferred(headers) {
            Some(Preferred::Text) => Self::Text,
            Some(Preferred::Problem) | None => Self::Problem,
        }
    }

    /// The form at a path.
    pub(super) fn at_path(path: &str, headers: &HeaderMap) -> Self {
        match path {
            _ if consul::has_path(path) => Self::Text,
            _ if path == "/rpc" || path.starts_with("/rpc/") || path.starts_with("/v1/") => Self::of_ours(headers),
            _ => Self::of_consul(headers),
        }
    }
}

/// The form that a client prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Preferred {
    Problem,
    Text,
}

/// Returns whether a client prefers HTML to JSON: it names HTML, as browsers do.
pub(super) fn prefers_html<'a>(accept: impl Iterator<Item = &'a HeaderValue>) -> bool {
    let ranges = ranges(accept);
    let html = preference(&ranges, &[("text/*", 1), ("text/html", 2)]);
    html.0 > 0 && html > preference(&ranges, &[("*/*", 0), ("application/*", 1), ("application/json", 2)])
}

fn ranges<'a>(accept: impl Iterator<Item = &'a HeaderValue>) -> Vec<(String, u16)> {
    accept.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).filter_map(range).collect()
}

/// A client's preference: quality in thousandths, then how specific the deciding range was.
type Preference = (u16, u8);

/// The preferred form; `None` without a preference.
fn preferred(headers: &HeaderMap) -> Option<Preferred> {
    let ranges = ranges(headers.get_all(ACCEPT).iter());
    if ranges.is_empty() {
        return None;
    }
    let json = [("*/*", 0), ("application/*", 1), ("application/json", 1), ("application/problem+json", 2)];
    let problem = preference(&ranges, &json);
    let text = preference(&ranges, &[("*/*", 0), ("text/*", 1), ("text/plain", 2)]);
    match problem.cmp(&text) {
        Ordering::Equal if problem.0 > 0 => None,
        Ordering::Equal | Ordering::Greater => Some(Preferred::Problem),
        Ordering::Less => Some(Preferred::Text),
    }
}

/// The preference by the most specific range. `fitting` lists ranges with their rank, least specific first.
fn preference(ranges: &[(String, u16)], fitting: &[(&str, u8)]) -> Preference {
    let quality_of = |wanted: &str| ranges.iter().find(|(range, _)| range == wanted).map(|(_, quality)| *quality);
    let found =
        fitting.iter().rev().find_map(|(range, specific)| quality_of(range).map(|quality| (quality, *specific)));
    found.filter(|(quality, _)| *quality > 0).unwrap_or((0, 0))
}

/// Parses a range and its quality; `None` for malformed text.
fn range(text: &str) -> Option<(String, u16)> {
    let mut parts = text.split(';').map(str::trim);
    let range = parts.next().filter(|range| range.contains('/'))?.to_ascii_lowercase();
    let quality = parts
        .find_map(|p| p.strip_prefix("q=").or_else(|| p.strip_prefix("Q=")))
        .map_or(Some(1.0), |q| q.parse::<f32>().ok().filter(|q| (0.0..=1.0).contains(q)))?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1000")]
    Some((range, (quality * 1000.0).round() as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The forms on Consul's routes and on ours.
    fn forms(accept: Option<&str>) -> (Form, Form) {
        let mut headers = HeaderMap::new();
        if let Some(accept) = accept {
            headers.insert(ACCEPT, accept.parse().unwrap());
        }
        (Form::of_consul(&headers), Form::of_ours(&headers))
    }

    #[test]
    fn a_client_without_a_preference_gets_a_problem_with_the_codes_of_the_route() {
        for accept in [
            None,
            Some("*/*"),
            Some("application/problem+json, text/plain"),
            Some("application/*, text/*"),
            Some("nonsense"),
            Some("text/plain;q=2"),
        ] {
            assert_eq!(forms(accept), (Form::ConsulProblem, Form::Problem), "{accept:?}");
        }
    }

    #[test]
    fn a_preference_for_problems_counts() {
        for accept in [
            "application/problem+json",
            "APPLICATION/Problem+JSON",
            "application/problem+json, */*",
            "application/problem+json, */*;q=0.1",
            "text/plain;q=0.5, application/problem+json;q=0.6",
            "application/json",
            "application/json, */*",
            "application/json, text/*;q=0.9",
            "text/event-stream",
            "image/png",
            "text/plain;q=0",
        ] {
            assert_eq!(forms(Some(accept)), (Form::Problem, Form::Problem), "{accept}");
        }
    }

    #[test]
    fn html_is_for_clients_that_name_it() {
        for (accept, wanted) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
            ("text/html", true),
            ("application/json, text/html;q=0.9", false),
            ("text/html, application/json", false),
            ("*/*", false),
            ("application/json", false),
            ("text/html;q=0", false),
        ] {
            assert_eq!(prefers_html([HeaderValue::from_static(accept)].iter()), wanted, "{accept}");
        }
    }

    #[test]
    fn a_preference_for_text_counts() {
        for accept in [
            "text/plain",
            "text/plain, application/problem+json;q=0.9",
            "text/*",
            "text/html, */*;q=0.8, text/plain",
            "application/problem+json;q=0, */*",
            "text/plain, */*",
        ] {
            assert_eq!(forms(Some(accept)), (Form::Consul, Form::Text), "{accept}");
        }
    }
}
