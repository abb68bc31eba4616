//! Formats of bodies, by their content type.
//!
//! JSON is also accepted with the content type of a form, which is curl's default, of plain text or bytes, or without
//! one. A patch has to name its format. Other content types, and all content encodings, are rejected: nothing is
//! decompressed here.

use axum::http::{
    HeaderMap, HeaderName,
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE},
};

use super::error::{ErrorKind, HttpError};

/// The formats of patches, as a header.
pub(super) const PATCH_FORMATS: &str = "application/merge-patch+json, application/json-patch+json";

/// The header with the formats of patches that a path accepts (RFC 5789).
pub(super) const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");

/// The format of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Media {
    Json,
    Yaml,
    /// RFC 7396.
    MergePatch,
    /// RFC 6902.
    JsonPatch,
    /// A component.
    Wasm,
}

/// The content that a request has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Resource,
    Patch,
    /// The request of an RPC.
    Message,
    /// A component of a plugin.
    Component,
}

impl Content {
    /// Recognises the format of a body by its headers.
    ///
    /// # Errors
    /// 415, with the supported formats.
    pub(super) fn format(self, headers: &HeaderMap) -> Result<Media, HttpError> {
        for value in headers.get_all(CONTENT_ENCODING) {
            let encoding = value.to_str().unwrap_or("?");
            if !encoding.eq_ignore_ascii_case("identity") {
                let what = format!("content encoding {encoding:?} is not supported; send the body as it is");
                return Err(HttpError::new(ErrorKind::MediaType, what).with_header(ACCEPT_ENCODING, "identity"));
            }
        }
        let text = headers.get(CONTENT_TYPE).map_or("", |value| value.to_str().unwrap_or("?"));
        let mut parts = text.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let charset = parts.find_map(|part| part.to_ascii_lowercase().strip_prefix("charset=").map(str::to_owned));
        let is_utf8 = charset.is_none_or(|c| matches!(c.trim_matches('"'), "utf-8" | "utf8" | "us-ascii"));
        let named = match self {
            Self::Resource => resource_format(&name),
            Self::Patch => patch_format(&name),
            Self::Message => resource_format(&name).filter(|media| *media == Media::Json),
            Self::Component => (name == "application/wasm").then_some(Media::Wasm),
        };
        match named {
            Some(media) if is_utf8 => Ok(media),
            _ => Err(self.refused(text)),
        }
    }

    fn refused(self, text: &str) -> HttpError {
        let (header, formats) = match self {
            Self::Resource => (ACCEPT, "application/json, application/yaml"),
            Self::Patch => (ACCEPT_PATCH, PATCH_FORMATS),
            Self::Message => (ACCEPT, "application/json"),
            Self::Component => (ACCEPT, "application/wasm"),
        };
        let choice = formats.replace(", ", " or ");
        let charset = if self == Self::Component { "" } else { ", in UTF-8" };
        let what = format!("media type {text:?} is not supported; send {choice}{charset}");
        HttpError::new(ErrorKind::MediaType, what).with_header(header, formats)
    }
}

fn resource_format(name: &str) -> Option<Media> {
    match name {
        "" | "application/json" | "application/x-www-form-urlencoded" | "text/plain" | "application/octet-stream" => {
            Some(Media::Json)
        }
        "application/yaml" | "application/x-yaml" | "text/yaml" | "text/x-yaml" => Some(Media::Yaml),
        _ => match name.strip_prefix("application/") {
            Some(rest) if rest.ends_with("+json") => Some(Media::Json),
            Some(rest) if rest.ends_with("+yaml") => Some(Media::Yaml),
            _ => None,
        },
    }
}

fn patch_format(name: &str) -> Option<Media> {
    match name {
        "application/merge-patch+json" => Some(Media::MergePatch),
        "application/json-patch+json" => Some(Media::JsonPatch),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn format(content: Content, name: &'static str) -> Option<Media> {
        content.format(&[(CONTENT_TYPE, HeaderValue::from_static(name))].into_iter().collect()).ok()
    }

    #[test]
    fn formats_are_known_by_their_names() {
        for (name, resource, patch) in [
            ("application/json", Some(Media::Json), None),
            ("Application/JSON; charset=UTF-8", Some(Media::Json), None),
            ("application/problem+json", Some(Media::Json), None),
            ("application/yaml", Some(Media::Yaml), None),
            ("text/x-yaml; charset=\"utf-8\"", Some(Media::Yaml), None),
            ("application/merge-patch+json", Some(Media::Json), Some(Media::MergePatch)),
            ("application/json-patch+json; charset=utf-8", Some(Media::Json), Some(Media::JsonPatch)),
            ("application/strategic-merge-patch+json", Some(Media::Json), None),
            ("application/json; charset=latin1", None, None),
            ("application/xml", None, None),
            ("image/png", None, None),
        ] {
            assert_eq!(format(Content::Resource, name), resource, "{name}");
            assert_eq!(format(Content::Patch, name), patch, "{name}");
        }
        assert_eq!(Content::Resource.format(&HeaderMap::new()).ok(), Some(Media::Json));
        assert!(Content::Patch.format(&HeaderMap::new()).is_err(), "a patch names its format");
    }
}
