//! `/ui`: the web page, which is built into the program, and its sessions. `web/` has its sources, docs/web.md describes
//! it; the built files are in `host/api/ui`.
//!
//! # Contract
//! Files and nothing else: all that the page shows comes from the public API, with the rights of its caller. Every path
//! below `/ui/` without a file is the page itself, since its addresses are made in the browser; a missing file below
//! `/ui/assets/` is 404. Scripts and styles come from this server alone, and no other page may frame it.
//!
//! # Cost
//! The files take some 600 KiB of the program. Their names below `/ui/assets/` change with their content, so browsers
//! keep them.

pub(super) mod session;
pub(super) mod sessions;

use axum::{
    extract::State,
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode, Uri,
        header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY},
    },
    response::{IntoResponse as _, Redirect, Response},
};
use include_dir::{Dir, include_dir};
use sha2::{Digest as _, Sha256};

use super::{
    Shared,
    accept::Form,
    error::{ErrorKind, HttpError},
};

static FILES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/ui");

/// The page.
const INDEX: &str = "index.html";

/// Beginning of the paths of files whose names change with their content.
const ASSETS: &str = "assets/";

const POLICY: (HeaderName, HeaderValue) = (
    CONTENT_SECURITY_POLICY,
    HeaderValue::from_static(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; \
         base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'",
    ),
);

const NO_REFERRER: (HeaderName, HeaderValue) = (REFERRER_POLICY, HeaderValue::from_static("no-referrer"));

/// GET `/ui`: leads to the page.
pub(super) async fn lead() -> Redirect {
    Redirect::to("/ui/")
}

/// GET below `/ui/`: answers a file, or the page.
pub(super) async fn file(State(_): State<Shared>, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().strip_prefix("/ui/").unwrap_or_default();
    match FILES.get_file(path) {
        Some(file) => answer(path, file.contents(), &headers),
        None if path.starts_with(ASSETS) => {
            let what = "the page has no such file; it may be of another release: load the page again";
            HttpError::new(ErrorKind::NoRoute, what).into_response(Form::of_ours(&headers), uri.path())
        }
        None => match FILES.get_file(INDEX) {
            Some(file) => answer(INDEX, file.contents(), &headers),
            None => StatusCode::NOT_FOUND.into_response(),
        },
    }
}

fn answer(path: &str, content: &'static [u8], headers: &HeaderMap) -> Response {
    let kind = match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    };
    let kind = (CONTENT_TYPE, HeaderValue::from_static(kind));
    if path.starts_with(ASSETS) {
        let kept = (CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
        return ([kind, POLICY, NO_REFERRER, kept], content).into_response();
    }
    let digest = Sha256::digest(content);
    let tag = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>();
    let tag = HeaderValue::try_from(format!("\"{tag}\"")).unwrap_or(HeaderValue::from_static("\"\""));
    let asked_again = (CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // A compressed answer has a weak tag, which a browser brings back as it is.
    let is_known = headers.get_all(IF_NONE_MATCH).iter().any(|known| {
        known.to_str().is_ok_and(|known| {
            known.split(',').any(|one| one.trim().trim_start_matches("W/").as_bytes() == tag.as_bytes())
        })
    });
    let headers = [kind, POLICY, NO_REFERRER, asked_again, (ETAG, tag)];
    match is_known {
        true => (StatusCode::NOT_MODIFIED, headers).into_response(),
        false => (headers, content).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_and_everything_that_it_names_is_there() {
        let index = FILES.get_file(INDEX).unwrap().contents_utf8().unwrap();
        let named: Vec<_> = index.split("\"/ui/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(named.len() >= 3, "{named:?}");
        for path in named {
            assert!(FILES.get_file(path).is_some(), "{path}");
        }
        assert!(!index.contains("<script>") && !index.contains("<style"), "the policy permits none within the page");
    }
}
