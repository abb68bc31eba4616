//! Identities of a trust domain.

use mortise_resource::Error;

use crate::call::truncate;

/// Longest identity, bytes; that of the catalog.
const MAX_IDENTITY_BYTES: usize = 253;

/// Longest label of a DNS name, bytes.
const MAX_LABEL_BYTES: usize = 63;

/// Most bytes of a wrong identity that the error repeats.
const MAX_SHOWN_BYTES: usize = 128;

/// Checks an identity: a DNS name below the trust domain, or a SPIFFE ID in it.
///
/// # Errors
/// `InvalidArgument`.
pub(super) fn check_identity(identity: &str, trust_domain: &str) -> Result<(), Error> {
    let is_known = match identity.strip_prefix("spiffe://") {
        Some(rest) => rest.split_once('/').is_some_and(|(domain, path)| domain == trust_domain && is_path(path)),
        None => {
            let below = identity.strip_suffix(trust_domain).and_then(|rest| rest.strip_suffix('.'));
            below.is_some_and(|labels| labels.split('.').all(is_label))
        }
    };
    if is_known && identity.len() <= MAX_IDENTITY_BYTES {
        return Ok(());
    }
    let shown = truncate(identity, MAX_SHOWN_BYTES);
    let fault = format!(
        "{shown:?} is not an identity of the trust domain {trust_domain:?} (setting identity.trust_domain); use a DNS \
         name below it in lower case, such as web.{trust_domain}, or a SPIFFE ID, such as spiffe://{trust_domain}/web"
    );
    Err(Error::invalid(format!("identity: {fault}")).with_violation("identity", fault))
}

fn is_label(label: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=MAX_LABEL_BYTES).contains(&label.len())
        && label.bytes().all(is_part)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn is_path(path: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    path.split('/').all(|segment| !matches!(segment, "" | "." | "..") && segment.bytes().all(is_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_below_the_trust_domain() {
        for identity in
            ["web.mesh.test", "web.default.mesh.test", "spiffe://mesh.test/web", "spiffe://mesh.test/ns/a_B"]
        {
            assert_eq!(check_identity(identity, "mesh.test").map_err(|e| e.message), Ok(()), "{identity}");
        }
        let long = format!("{}.mesh.test", "a".repeat(64));
        let longer = format!("{}mesh.test", "a.".repeat(130));
        for identity in [
            "",
            "mesh.test",
            ".mesh.test",
            "webmesh.test",
            "Web.mesh.test",
            "*.mesh.test",
            "web..mesh.test",
            "web.mesh.test.",
            "web.other.test",
            "-web.mesh.test",
            "web.mesh.test/x",
            "spiffe://mesh.test",
            "spiffe://mesh.test/",
            "spiffe://mesh.test/a//b",
            "spiffe://mesh.test/../b",
            "spiffe://mesh.test/a?b",
            "spiffe://web.mesh.test/a",
            "spiffe://mesh.test:1/a",
            "https://mesh.test/a",
            &long,
            &longer,
        ] {
            let fault = check_identity(identity, "mesh.test").expect_err(identity).message;
            assert!(fault.starts_with("identity: ") && fault.contains("such as web.mesh.test"), "{fault}");
        }
    }
}
