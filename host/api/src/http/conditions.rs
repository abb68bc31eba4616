//! Conditions of a request on the stored resource (RFC 9110, section 13): `If-Match` and `If-None-Match`.
//!
//! # Contract
//! The entity tag of a resource is its version in quotes. With `If-Match` a write or a deletion happens only if a named
//! version is the stored one, with `If-None-Match: *` only if the resource does not exist; otherwise the answer is 412,
//! and nothing has changed. A read with a condition that fails is answered by 412 or 304. A malformed condition is a
//! 400: passed over, it would let a request through that its client wants refused.
//!
//! # Cost
//! The write compares a single version by itself. Other conditions read the resource first, and again if it has changed
//! in between, at most [`MAX_ATTEMPTS`] times.
//!
//! # Limits
//! A header names at most [`MAX_TAGS`] tags.

use axum::http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{ETAG, IF_MATCH, IF_NONE_MATCH},
};
use mortise_resource::{Code, pb};
use mortise_service::{Caller, ResourceService};

use super::error::{ErrorKind, HttpError};
use crate::call::{run_guarded, span};

/// Most attempts of a request whose resource changes between its read and its write.
pub(super) const MAX_ATTEMPTS: usize = 16;

/// Most tags in a header.
const MAX_TAGS: usize = 64;

/// The conditions of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Conditions {
    matches: Option<Tags>,
    differs: Option<Tags>,
}

/// The entity tags of a condition.
#[derive(Debug, PartialEq, Eq)]
enum Tags {
    /// `*`: every stored version.
    Any,
    Listed(Vec<Tag>),
}

/// An entity tag. A weak one never satisfies `If-Match`.
#[derive(Debug, PartialEq, Eq)]
struct Tag {
    version: String,
    is_weak: bool,
}

/// The change that a request makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Write,
    Deletion,
}

/// The stored version that a change requires.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Requirement {
    /// Each version, and none.
    Nothing,
    /// This version.
    Version(String),
    /// An absent resource.
    Absence,
}

/// The outcome of a read's conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freshness {
    /// The client does not have this version.
    New,
    /// The client has this version.
    Known,
}

impl Conditions {
    /// Reads the conditions of a request.
    ///
    /// # Errors
    /// 400: a malformed header.
    pub(super) fn read(headers: &HeaderMap) -> Result<Self, HttpError> {
        Ok(Self { matches: Tags::read(headers, &IF_MATCH)?, differs: Tags::read(headers, &IF_NONE_MATCH)? })
    }

    /// Compares a resource that was read.
    ///
    /// # Errors
    /// 412: `If-Match` names other versions.
    pub(super) fn of_read(&self, version: &str) -> Result<Freshness, HttpError> {
        if self.matches.as_ref().is_some_and(|tags| !tags.has_exactly(version)) {
            return Err(failed(&IF_MATCH, Some(version)));
        }
        match self.differs.as_ref().is_some_and(|tags| tags.has(version)) {
            true => Ok(Freshness::Known),
            false => Ok(Freshness::New),
        }
    }

    /// Returns whether a change alone cannot compare them.
    pub(super) fn needs_read(&self, change: Change) -> bool {
        match (&self.matches, &self.differs) {
            (None, None) => false,
            (None, Some(Tags::Any)) => change == Change::Deletion,
            (Some(tags), None) => tags.only().is_none(),
            _ => true,
        }
    }

    /// The stored version that a change of `id` requires. `version` is the parameter of that name.
    ///
    /// # Errors
    /// 412: a condition fails now. Those of a read.
    pub(super) async fn of_change(
        &self,
        change: Change,
        service: &ResourceService,
        caller: &Caller,
        id: &pb::Id,
        version: &str,
    ) -> Result<Requirement, HttpError> {
        let required = match self.needs_read(change) {
            true => self.of_stored(stored_version(service, caller, id).await?)?,
            false => match (self.matches.as_ref().and_then(Tags::only), &self.differs) {
                (Some(version), _) => Requirement::Version(version.to_owned()),
                (None, Some(_)) => Requirement::Absence,
                (None, None) => Requirement::Nothing,
            },
        };
        match (required, version) {
            (required, "") => Ok(required),
            (Requirement::Nothing, version) => Ok(Requirement::Version(version.to_owned())),
            (Requirement::Version(required), version) if required == version => Ok(Requirement::Version(required)),
            (Requirement::Version(_), _) => Err(failed(&IF_MATCH, None)),
            (Requirement::Absence, _) => Err(failed(&IF_NONE_MATCH, None)),
        }
    }

    /// Compares the stored version of a resource, `None` for an absent one.
    fn of_stored(&self, stored: Option<String>) -> Result<Requirement, HttpError> {
        let Some(version) = stored else {
            return match self.matches {
                Some(_) => Err(failed(&IF_MATCH, None)),
                None => Ok(Requirement::Absence),
            };
        };
        match self.of_read(&version)? {
            Freshness::New => Ok(Requirement::Version(version)),
            Freshness::Known => Err(failed(&IF_NONE_MATCH, Some(&version))),
        }
    }

    /// Judges a change that failed; another attempt may succeed.
    ///
    /// # Errors
    /// 412: the requirement was not met. Any other failure stays as it is.
    pub(super) fn check_failure(&self, change: Change, error: HttpError) -> Result<(), HttpError> {
        match error.is_conflict() && (self.matches.is_some() || self.differs.is_some()) {
            true if self.needs_read(change) => Ok(()),
            true => Err(self.unmet()),
            false => Err(error),
        }
    }

    /// The error of a change whose requirement was not met.
    pub(super) fn unmet(&self) -> HttpError {
        failed(if self.matches.is_some() { &IF_MATCH } else { &IF_NONE_MATCH }, None)
    }

    /// Returns whether the resource must exist.
    pub(super) fn requires_presence(&self) -> bool {
        self.matches.is_some()
    }
}

impl Tags {
    fn read(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Self>, HttpError> {
        let mut texts = Vec::new();
        for value in headers.get_all(name) {
            let malformed = || malformed(name, &String::from_utf8_lossy(value.as_bytes()));
            texts.push(value.to_str().map_err(|_| malformed())?);
        }
        if texts.is_empty() {
            return Ok(None);
        }
        let text = texts.join(",");
        if text.trim() == "*" {
            return Ok(Some(Self::Any));
        }
        let (mut tags, mut rest) = (Vec::new(), text.as_str());
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            if rest.is_empty() {
                break;
            }
            let unquoted = rest.strip_prefix("W/");
            let (is_weak, quoted) = (unquoted.is_some(), unquoted.unwrap_or(rest));
            let found = quoted.strip_prefix('"').and_then(|quoted| quoted.split_once('"'));
            let (version, behind) = found.ok_or_else(|| malformed(name, rest))?;
            rest = behind.trim_start_matches([' ', '\t']);
            if !rest.is_empty() && !rest.starts_with(',') {
                return Err(malformed(name, rest));
            }
            tags.push(Tag { version: version.to_owned(), is_weak });
            if tags.len() > MAX_TAGS {
                let what = format!("{name} has more than {MAX_TAGS} tags; send fewer");
                return Err(HttpError::new(ErrorKind::Head, what));
            }
        }
        if tags.is_empty() { Err(malformed(name, &text)) } else { Ok(Some(Self::Listed(tags))) }
    }

    /// The version, if only one satisfies the tags.
    fn only(&self) -> Option<&str> {
        match self {
            Self::Listed(tags) => match tags.as_slice() {
                [Tag { version, is_weak: false }] => Some(version),
                _ => None,
            },
            Self::Any => None,
        }
    }

    /// Returns whether a tag has this version.
    fn has(&self, version: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Listed(tags) => tags.iter().any(|tag| tag.version == version),
        }
    }

    /// Returns whether a strong tag has this version.
    fn has_exactly(&self, version: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Listed(tags) => tags.iter().any(|tag| tag.version == version && !tag.is_weak),
        }
    }
}

/// The entity tag of a version, as a header.
pub(super) fn entity_tag(version: &str) -> Option<(HeaderName, HeaderValue)> {
    Some((ETAG, HeaderValue::try_from(format!("\"{version}\"")).ok()?))
}

async fn stored_version(service: &ResourceService, caller: &Caller, id: &pb::Id) -> Result<Option<String>, HttpError> {
    let request = pb::ReadRequest { id: Some(id.clone()) };
    match run_guarded(span("Read", Some(id)), Box::pin(service.read(caller, request))).await {
        Ok(stored) => Ok(Some(stored.version().to_owned())),
        Err(error) if error.code == Code::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn malformed(name: &HeaderName, text: &str) -> HttpError {
    let what =
        format!("{name}: {text:?} is not a list of entity tags; write * or the ETag of an answer, with its quotes");
    HttpError::new(ErrorKind::Head, what)
}

fn failed(name: &HeaderName, stored: Option<&str>) -> HttpError {
    let name = if *name == IF_MATCH { "If-Match" } else { "If-None-Match" };
    let stored = stored.map(|version| format!("; the stored version is \"{version}\"")).unwrap_or_default();
    let what = format!("the condition {name} does not hold{stored}; read the resource again");
    HttpError::new(ErrorKind::Precondition, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(headers: &[(HeaderName, &'static str)]) -> Result<Conditions, HttpError> {
        let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
        let mut map = HeaderMap::new();
        headers.for_each(|(name, value)| {
            map.append(name, value);
        });
        Conditions::read(&map)
    }

    #[test]
    fn tags_are_lists_with_quotes() {
        let tag = |version: &str, is_weak| Tag { version: version.into(), is_weak };
        for (text, wanted) in [
            ("*", Tags::Any),
            (" * ", Tags::Any),
            ("\"7\"", Tags::Listed(vec![tag("7", false)])),
            ("W/\"7\"", Tags::Listed(vec![tag("7", true)])),
            (" ,\"7\" , W/\"8\",", Tags::Listed(vec![tag("7", false), tag("8", true)])),
            ("\"a,b\",\"\"", Tags::Listed(vec![tag("a,b", false), tag("", false)])),
        ] {
            let read = conditions(&[(IF_MATCH, text)]).unwrap();
            assert_eq!(read, Conditions { matches: Some(wanted), differs: None }, "{text}");
        }
        for text in ["", ",", "7", "\"7", "7\"", "\"7\"8", "\"7\" \"8\"", "w/\"7\"", "W/7", "*, \"7\"", "\"7\", *"] {
            assert!(conditions(&[(IF_MATCH, text)]).is_err(), "{text:?}");
            assert!(conditions(&[(IF_NONE_MATCH, text)]).is_err(), "{text:?}");
        }
        let both = conditions(&[(IF_MATCH, "\"7\""), (IF_MATCH, "\"8\"")]).unwrap();
        assert_eq!(both.matches, Some(Tags::Listed(vec![tag("7", false), tag("8", false)])), "headers add up");
        let many = "\"1\",".repeat(MAX_TAGS + 1).leak();
        assert!(conditions(&[(IF_MATCH, many)]).is_err());
    }

    #[test]
    fn reads_compare_if_match_exactly_and_first() {
        let of = |headers: &[(HeaderName, &'static str)]| conditions(headers).unwrap().of_read("7").ok();
        assert_eq!(of(&[]), Some(Freshness::New));
        for (tags, matches, known) in [
            ("*", true, true),
            ("\"7\"", true, true),
            ("\"6\", \"7\"", true, true),
            ("W/\"7\"", false, true),
            ("\"6\"", false, false),
        ] {
            assert_eq!(of(&[(IF_MATCH, tags)]).is_some(), matches, "{tags}");
            let wanted = if known { Freshness::Known } else { Freshness::New };
            assert_eq!(of(&[(IF_NONE_MATCH, tags)]), Some(wanted), "{tags}");
            assert_eq!(of(&[(IF_NONE_MATCH, tags), (IF_MATCH, "\"6\"")]), None, "{tags}");
        }
    }

    #[test]
    fn changes_compare_the_stored_version() {
        let of = |headers: &[(HeaderName, &'static str)], stored: Option<&str>| {
            conditions(headers).unwrap().of_stored(stored.map(str::to_owned)).ok()
        };
        let seven = Some(Requirement::Version("7".into()));
        assert_eq!(of(&[(IF_MATCH, "*")], Some("7")), seven);
        assert_eq!(of(&[(IF_MATCH, "*")], None), None);
        assert_eq!(of(&[(IF_MATCH, "\"6\",\"7\"")], Some("7")), seven);
        assert_eq!(of(&[(IF_MATCH, "W/\"7\"")], Some("7")), None);
        assert_eq!(of(&[(IF_NONE_MATCH, "\"6\"")], Some("7")), seven);
        assert_eq!(of(&[(IF_NONE_MATCH, "W/\"7\"")], Some("7")), None);
        assert_eq!(of(&[(IF_NONE_MATCH, "\"6\"")], None), Some(Requirement::Absence));
        assert_eq!(of(&[(IF_MATCH, "\"7\""), (IF_NONE_MATCH, "*")], Some("7")), None);
        let needs = |headers: &[(HeaderName, &'static str)]| conditions(headers).unwrap().needs_read(Change::Write);
        assert!(!needs(&[]) && !needs(&[(IF_MATCH, "\"7\"")]) && !needs(&[(IF_NONE_MATCH, "*")]));
        assert!(needs(&[(IF_MATCH, "*")]) && needs(&[(IF_MATCH, "W/\"7\"")]) && needs(&[(IF_NONE_MATCH, "\"7\"")]));
        assert!(needs(&[(IF_MATCH, "\"7\""), (IF_NONE_MATCH, "*")]));
        let deletes = |header, tags| conditions(&[(header, tags)]).unwrap().needs_read(Change::Deletion);
        assert!(deletes(IF_NONE_MATCH, "*") && !deletes(IF_MATCH, "\"7\""));
    }
}
