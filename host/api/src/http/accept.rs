//! Chooses the form of errors by the client's `Accept` header.
//!
//! A problem object (RFC 9457) and text are compared by the rules of RFC 9110: the most specific range that fits a form
//! decides its quality. The higher quality wins, then the more specific range, then the route's default. A client that
//! accepts JSON only, or neither form, gets a problem.

use std::cmp::Ordering;

use axum::http::{HeaderMap, header::ACCEPT};

/// The form of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Consul's answer: text, and its few codes.
    Consul,
    /// Text, with codes by meaning.
    Text,
    /// A problem object, with codes by meaning.
    Problem,
}

impl Form {
    /// The form on Consul's routes, where text is the default.
    pub(super) fn text_by_default(headers: &HeaderMap) -> Self {
        if prefers_problem(headers, false) { Self::Problem } else { Self::Consul }
    }

    /// The form on Mortise's own routes, where a problem is the default.
    pub(super) fn problem_by_default(headers: &HeaderMap) -> Self {
        if prefers_problem(headers, true) { Self::Problem } else { Self::Text }
    }
}

/// A client's preference: quality in thousandths, then how specific the deciding range was.
type Preference = (u16, u8);

fn prefers_problem(headers: &HeaderMap, customary: bool) -> bool {
    let ranges: Vec<_> = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(range)
        .collect();
    if ranges.is_empty() {
        return customary;
    }
    let json = [("*/*", 0), ("application/*", 1), ("application/json", 1), ("application/problem+json", 2)];
    let problem = preference(&ranges, &json);
    let text = preference(&ranges, &[("*/*", 0), ("text/*", 1), ("text/plain", 2)]);
    match problem.cmp(&text) {
        Ordering::Equal => customary || problem.0 == 0,
        unequal => unequal == Ordering::Greater,
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

    /// Whether a problem is preferred, first where text is the default, then where problems are.
    fn prefers(accept: Option<&str>) -> (bool, bool) {
        let mut headers = HeaderMap::new();
        if let Some(accept) = accept {
            headers.insert(ACCEPT, accept.parse().unwrap());
        }
        (prefers_problem(&headers, false), prefers_problem(&headers, true))
    }

    #[test]
    fn who_does_not_care_gets_what_is_customary() {
        for accept in [
            None,
            Some("*/*"),
            Some("application/problem+json, text/plain"),
            Some("application/*, text/*"),
            Some("nonsense"),
            Some("text/plain;q=2"),
        ] {
            assert_eq!(prefers(accept), (false, true), "{accept:?}");
        }
    }

    #[test]
    fn who_prefers_problems_gets_them() {
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
            assert_eq!(prefers(Some(accept)), (true, true), "{accept}");
        }
    }

    #[test]
    fn who_prefers_text_gets_it() {
        for accept in [
            "text/plain",
            "text/plain, application/problem+json;q=0.9",
            "text/*",
            "text/html, */*;q=0.8, text/plain",
            "application/problem+json;q=0, */*",
            "text/plain, */*",
        ] {
            assert_eq!(prefers(Some(accept)), (false, false), "{accept}");
        }
    }
}
