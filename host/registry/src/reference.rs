//! Names of components in registries: `oci://HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]`.

use std::{fmt, str::FromStr};

use crate::digest::Digest;

/// Start of every reference.
pub const SCHEME: &str = "oci://";

/// Most bytes of a repository's name.
const MAX_NAME: usize = 255;

/// Most bytes of a tag.
const MAX_TAG: usize = 128;

/// Most bytes of a host with its port.
const MAX_HOST: usize = 261;

/// Fault of a reference. Each text begins with the reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// Another scheme, or none.
    #[error("{0:?} is not a reference; write oci://HOST/NAME:TAG or oci://HOST/NAME@sha256:DIGEST")]
    Scheme(String),
    /// The host or its port.
    #[error("{0:?}: the host is missing or malformed; write oci://HOST[:PORT]/NAME")]
    Host(String),
    /// The name of the repository.
    #[error(
        "{0:?}: the name of the repository is malformed; it has lower-case letters and digits, with single '.', '_' or \
         '-' between them, in parts divided by '/'"
    )]
    Name(String),
    /// The tag.
    #[error(
        "{0:?}: the tag is malformed; it has at most 128 letters, digits, '.', '_' and '-', and begins with neither '.' nor '-'"
    )]
    Tag(String),
    /// The digest.
    #[error("{0:?}: the digest is malformed; write sha256: and 64 hexadecimal digits in lower case")]
    Digest(String),
}

/// A repository: a host with its port, and a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Repository {
    /// Host, with the port if one is given.
    pub host: String,
    /// Name on that host, such as `acme/demo`.
    pub name: String,
}

impl Repository {
    /// The last part of the name.
    #[must_use]
    pub fn short_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.host, self.name)
    }
}

/// A component in a repository. A digest beats a tag.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reference {
    /// Its repository.
    pub repository: Repository,
    /// Its tag; `latest` counts if neither tag nor digest is given.
    pub tag: Option<String>,
    /// Digest of its manifest.
    pub digest: Option<Digest>,
}

impl Reference {
    /// Returns true for a text that begins as a reference.
    #[must_use]
    pub fn is_one(text: &str) -> bool {
        text.get(..SCHEME.len()).is_some_and(|own| own.eq_ignore_ascii_case(SCHEME))
    }

    /// The tag, or `latest`.
    #[must_use]
    pub fn tag(&self) -> &str {
        self.tag.as_deref().unwrap_or("latest")
    }

    /// The last part of its path in the API: the digest, or the tag.
    pub(crate) fn target(&self) -> String {
        self.digest.as_ref().map_or_else(|| self.tag().to_owned(), ToString::to_string)
    }

    /// The same repository and tag, with this digest.
    #[must_use]
    pub fn pinned(&self, digest: Digest) -> Self {
        Self { digest: Some(digest), ..self.clone() }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let whole = || without_login(text);
        if !Self::is_one(text) {
            return Err(ReferenceError::Scheme(whole()));
        }
        let (host, rest) = text.get(SCHEME.len()..).and_then(|rest| rest.split_once('/')).unwrap_or_default();
        if !is_host(host) {
            return Err(ReferenceError::Host(whole()));
        }
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest.parse().map_err(|_| ReferenceError::Digest(whole()))?)),
            None => (rest, None),
        };
        let (name, tag) = match rest.split_once(':') {
            Some((_, tag)) if !is_tag(tag) => return Err(ReferenceError::Tag(whole())),
            Some((name, tag)) => (name, Some(tag.to_owned())),
            None => (rest, None),
        };
        if !is_name(name) {
            return Err(ReferenceError::Name(whole()));
        }
        let repository = Repository { host: host.to_ascii_lowercase(), name: name.to_owned() };
        Ok(Self { repository, tag, digest })
    }
}

/// A text without the name and the password that may stand before its host.
fn without_login(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    match rest.split('/').next().and_then(|place| place.split_once('@')) {
        // In HOST@sha256:DIGEST, the text before the sign is a host.
        Some((login, _)) if login.contains(':') && !rest.contains("@sha256:") => {
            format!("{scheme}://…{}", rest.get(login.len()..).unwrap_or_default())
        }
        _ => text.to_owned(),
    }
}

/// A registry, and the start of the names in it that are of interest: `HOST[:PORT][/PREFIX]`, with or without `oci://`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Host, with the port if one is given.
    pub host: String,
    /// Start of the names; empty for all.
    pub prefix: String,
}

impl FromStr for Place {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let rest = if Reference::is_one(text) { text.get(SCHEME.len()..).unwrap_or_default() } else { text };
        let (host, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if !is_host(host) {
            return Err(ReferenceError::Host(text.to_owned()));
        }
        if prefix.len() > MAX_NAME || prefix.contains(|c: char| !is_name_char(c) && c != '/') {
            return Err(ReferenceError::Name(text.to_owned()));
        }
        Ok(Self { host: host.to_ascii_lowercase(), prefix: prefix.to_owned() })
    }
}

/// Checks a host with its port; IPv6 stands in brackets.
fn is_host(text: &str) -> bool {
    // A URL with this host alone must give it back: no name, no path, nothing that ends the host early.
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
    let parsed = url::Url::parse(&format!("https://{text}/"));
    !text.is_empty()
        && text.len() <= MAX_HOST
        && text.chars().all(plain)
        && !text.ends_with(':')
        && parsed.is_ok_and(|url| url.host_str().is_some_and(|host| text.to_ascii_lowercase().starts_with(host)))
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-')
}

/// Checks the name of a repository. The specification allows two `_` and any number of `-` in a row; nothing depends
/// on a stricter rule here, but each part must begin and end with a letter or a digit.
fn is_name(text: &str) -> bool {
    let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_part = |part: &str| {
        part.starts_with(ends) && part.ends_with(ends) && part.chars().all(is_name_char) && !part.contains("..")
    };
    text.len() <= MAX_NAME && text.split('/').all(is_part)
}

pub(crate) fn is_tag(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !text.is_empty() && text.len() <= MAX_TAG && text.chars().all(fits) && !text.starts_with(['.', '-'])
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn every_form_is_read_and_printed() {
        for (text, host, name, tag, has_digest) in [
            ("oci://ghcr.io/acme/demo".to_owned(), "ghcr.io", "acme/demo", None, false),
            ("oci://localhost:5000/demo:1.2.0".to_owned(), "localhost:5000", "demo", Some("1.2.0"), false),
            (format!("oci://[::1]:5000/a/b@sha256:{HEX}"), "[::1]:5000", "a/b", None, true),
            (format!("oci://h/a:x@sha256:{HEX}"), "h", "a", Some("x"), true),
        ] {
            let read: Reference = text.parse().unwrap();
            assert_eq!((read.repository.host.as_str(), read.repository.name.as_str()), (host, name));
            assert_eq!((read.tag.as_deref(), read.digest.is_some()), (tag, has_digest));
            assert_eq!(read.to_string(), text);
        }
        let read: Reference = format!("oci://h/a:x@sha256:{HEX}").parse().unwrap();
        assert_eq!(read.target(), format!("sha256:{HEX}"));
        assert_eq!("oci://h/a".parse::<Reference>().unwrap().target(), "latest");
    }

    #[test]
    fn a_malformed_one_is_refused_with_its_part() {
        type Fault = fn(String) -> ReferenceError;
        let cases: [(&str, Fault); 15] = [
            ("ghcr.io/acme/demo", ReferenceError::Scheme),
            ("https://ghcr.io/acme/demo", ReferenceError::Scheme),
            ("oci://", ReferenceError::Host),
            ("oci:///demo", ReferenceError::Host),
            ("oci://h:99999/demo", ReferenceError::Host),
            ("oci://h:/demo", ReferenceError::Host),
            ("oci://h\\@evil/demo", ReferenceError::Host),
            ("oci://h/", ReferenceError::Name),
            ("oci://h/Demo", ReferenceError::Name),
            ("oci://h/a//b", ReferenceError::Name),
            ("oci://h/../v2", ReferenceError::Name),
            ("oci://h/a?x=y", ReferenceError::Name),
            ("oci://h/a:", ReferenceError::Tag),
            ("oci://h/a:.x", ReferenceError::Tag),
            ("oci://h/a@sha256:xyz", ReferenceError::Digest),
        ];
        for (text, fault) in cases {
            assert_eq!(text.parse::<Reference>(), Err(fault(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn an_error_has_no_login_in_it() {
        let fault = "oci://me:secret@h/demo:1".parse::<Reference>().unwrap_err();
        assert_eq!(fault, ReferenceError::Host("oci://…@h/demo:1".to_owned()));
    }

    #[test]
    fn a_place_is_a_host_with_a_start_of_names() {
        let place = |text: &str| text.parse::<Place>().map(|place| (place.host, place.prefix));
        assert_eq!(place("h:5000"), Ok(("h:5000".into(), String::new())));
        assert_eq!(place("oci://h/acme/de"), Ok(("h".into(), "acme/de".into())));
        assert_eq!(place("h/A"), Err(ReferenceError::Name("h/A".into())));
        assert_eq!(place("/x"), Err(ReferenceError::Host("/x".into())));
    }
}
