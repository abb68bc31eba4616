//! The distribution API of one registry: manifests, blobs, referrers, tags, the catalog.

use http::{HeaderName, Method, StatusCode, header};
use serde::Deserialize;

use crate::{
    digest::Digest,
    error::RegistryError,
    manifest::{Descriptor, INDEX, Index, MANIFEST},
    reference::Place,
    session::Session,
    transport::Call,
};

/// Most bytes of a manifest, as the specification advises.
pub(crate) const MAX_MANIFEST: usize = 4 << 20;

/// Most bytes of one page of a list.
const MAX_PAGE: usize = 4 << 20;

/// Most pages and names of a list.
const MAX_PAGES: usize = 100;
const MAX_NAMES: usize = 20_000;

/// Most bytes of a name in a list; longer ones are no names, and are left out.
const MAX_NAME: usize = 255;

/// Most characters of a registry's text in an error.
const MAX_WORDS: usize = 300;

/// Media types that the client takes for a manifest.
const ACCEPT: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, \
                      application/vnd.docker.distribution.manifest.v2+json, \
                      application/vnd.docker.distribution.manifest.list.v2+json";

/// Names in a registry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// The names, in the registry's order.
    pub names: Vec<String>,
    /// Whether the registry has more than the client reads.
    pub is_cut: bool,
}

/// A manifest as it came.
#[derive(Debug, Clone)]
pub(crate) struct RawManifest {
    pub(crate) media_type: String,
    pub(crate) digest: Digest,
    pub(crate) bytes: Vec<u8>,
}

/// Reads a manifest by tag or digest.
pub(crate) async fn manifest(session: &Session, name: &str, target: &str) -> Result<RawManifest, RegistryError> {
    let what = shown(session, name, target);
    let call = Call::new(Method::GET, session.url(&format!("/v2/{name}/manifests/{target}")));
    let answer = session.get(call.with(header::ACCEPT, ACCEPT), &what).await?;
    if answer.response.status() != StatusCode::OK {
        return Err(session.fault(&what, answer).await);
    }
    let media_type = answer.header(&header::CONTENT_TYPE).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim().to_owned();
    let bytes = answer.bytes(&format!("the manifest of {what}"), MAX_MANIFEST).await?;
    let digest = Digest::of(&bytes);
    if let Ok(expected) = target.parse::<Digest>()
        && expected != digest
    {
        return Err(RegistryError::WrongDigest { what, expected, actual: digest });
    }
    Ok(RawManifest { media_type, digest, bytes })
}

/// Reads a blob, and verifies its size and its digest.
pub(crate) async fn blob(
    session: &Session,
    name: &str,
    blob: &Descriptor,
    limit: usize,
) -> Result<Vec<u8>, RegistryError> {
    let what = shown(session, name, &blob.digest.to_string());
    let size = usize::try_from(blob.size).unwrap_or(usize::MAX);
    if size > limit {
        return Err(RegistryError::TooLarge { what, limit });
    }
    let call = Call::new(Method::GET, session.url(&format!("/v2/{name}/blobs/{}", blob.digest)));
    let answer = session.get(call, &what).await?;
    if answer.response.status() != StatusCode::OK {
        return Err(session.fault(&what, answer).await);
    }
    let bytes = answer.bytes(&what, size).await?;
    let actual = Digest::of(&bytes);
    if actual != blob.digest {
        return Err(RegistryError::WrongDigest { what, expected: blob.digest.clone(), actual });
    }
    Ok(bytes)
}

/// Puts a blob, unless the registry has it.
pub(crate) async fn put_blob(session: &Session, name: &str, bytes: &[u8]) -> Result<(), RegistryError> {
    let digest = Digest::of(bytes);
    let what = shown(session, name, &digest.to_string());
    let call = Call::new(Method::HEAD, session.url(&format!("/v2/{name}/blobs/{digest}")));
    if session.send(call, &what).await?.response.status() == StatusCode::OK {
        return Ok(());
    }
    let begin = session.url(&format!("/v2/{name}/blobs/uploads/"));
    let answer = session.send(Call::new(Method::POST, begin.clone()), &what).await?;
    if answer.response.status() != StatusCode::ACCEPTED {
        return Err(session.fault(&what, answer).await);
    }
    let fault = || RegistryError::Redirect { what: what.clone(), why: "an upload without an address" };
    let location = answer.header(&header::LOCATION).ok_or_else(fault)?;
    let mut place = session.join(&begin, location, &what)?;
    place.query_pairs_mut().append_pair("digest", &digest.to_string());
    let call = Call::new(Method::PUT, place).with(header::CONTENT_TYPE, "application/octet-stream");
    let answer = session.send(call.body(bytes.to_vec().into()), &what).await?;
    match answer.response.status() {
        StatusCode::CREATED | StatusCode::NO_CONTENT | StatusCode::ACCEPTED => Ok(()),
        _ => Err(session.fault(&what, answer).await),
    }
}

/// Puts a manifest under a tag or its digest. Returns whether the registry lists it with its subject.
pub(crate) async fn put_manifest(
    session: &Session,
    name: &str,
    target: &str,
    media_type: &str,
    bytes: Vec<u8>,
) -> Result<bool, RegistryError> {
    let what = shown(session, name, target);
    let call = Call::new(Method::PUT, session.url(&format!("/v2/{name}/manifests/{target}")));
    let answer = session.send(call.with(header::CONTENT_TYPE, media_type).body(bytes.into()), &what).await?;
    match answer.response.status() {
        StatusCode::CREATED | StatusCode::OK | StatusCode::ACCEPTED => {
            Ok(answer.header(&HeaderName::from_static("oci-subject")).is_some())
        }
        _ => Err(session.fault(&what, answer).await),
    }
}

/// Lists what refers to a manifest: by the referrers API, or by the tag that stands for it.
pub(crate) async fn referrers(
    session: &Session,
    name: &str,
    digest: &Digest,
) -> Result<Vec<Descriptor>, RegistryError> {
    let what = format!("the referrers of {}", shown(session, name, &digest.to_string()));
    let call = Call::new(Method::GET, session.url(&format!("/v2/{name}/referrers/{digest}")));
    let answer = session.get(call.with(header::ACCEPT, INDEX), &what).await?;
    match answer.response.status() {
        StatusCode::OK => {
            let bytes = answer.bytes(&what, MAX_MANIFEST).await?;
            let index: Index = parse(&bytes, &what)?;
            Ok(index.manifests)
        }
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
            Ok(fallback(session, name, digest).await?.map(|index| index.manifests).unwrap_or_default())
        }
        _ => Err(session.fault(&what, answer).await),
    }
}

/// Reads the index under the tag that stands for referrers; `None` without one.
async fn fallback(session: &Session, name: &str, digest: &Digest) -> Result<Option<Index>, RegistryError> {
    match manifest(session, name, &digest.fallback_tag()).await {
        Ok(found) => parse(&found.bytes, &shown(session, name, &digest.fallback_tag())).map(Some),
        Err(RegistryError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puts a manifest that refers to another one, and lists it there. Two pushers at the same time may lose an entry of
/// the tag that stands for referrers; the specification knows no remedy.
pub(crate) async fn put_referrer(
    session: &Session,
    name: &str,
    subject: &Digest,
    entry: Descriptor,
    bytes: Vec<u8>,
) -> Result<(), RegistryError> {
    let is_listed = put_manifest(session, name, &entry.digest.to_string(), MANIFEST, bytes).await?;
    if is_listed {
        return Ok(());
    }
    let mut index = fallback(session, name, subject).await?.unwrap_or_default();
    if index.manifests.iter().any(|known| known.digest == entry.digest) {
        return Ok(());
    }
    index.manifests.push(entry);
    let bytes = json(&index, &shown(session, name, &subject.fallback_tag()))?;
    put_manifest(session, name, &subject.fallback_tag(), INDEX, bytes).await.map(drop)
}

/// Lists the tags of a repository; without those that stand for referrers.
pub(crate) async fn tags(session: &Session, name: &str) -> Result<Listing, RegistryError> {
    #[derive(Deserialize)]
    struct Page {
        tags: Option<Vec<String>>,
    }
    let what = format!("the tags of {}/{name}", session.host);
    let read = |bytes: &[u8]| parse::<Page>(bytes, &what).map(|page| page.tags.unwrap_or_default());
    let mut listing = pages(session, &format!("/v2/{name}/tags/list"), &what, read).await?;
    listing.names.retain(|tag| !tag.starts_with("sha256-"));
    Ok(listing)
}

/// Lists the repositories of a registry whose names begin so.
pub(crate) async fn catalog(session: &Session, place: &Place) -> Result<Listing, RegistryError> {
    #[derive(Deserialize)]
    struct Page {
        repositories: Option<Vec<String>>,
    }
    let what = format!("the catalog of {}", session.host);
    let read = |bytes: &[u8]| parse::<Page>(bytes, &what).map(|page| page.repositories.unwrap_or_default());
    let mut listing = pages(session, "/v2/_catalog", &what, read).await?;
    listing.names.retain(|name| name.starts_with(&place.prefix));
    Ok(listing)
}

/// Reads the pages of a list.
async fn pages(
    session: &Session,
    path: &str,
    what: &str,
    read: impl Fn(&[u8]) -> Result<Vec<String>, RegistryError>,
) -> Result<Listing, RegistryError> {
    let mut url = session.url(path);
    url.query_pairs_mut().append_pair("n", "1000");
    let mut listing = Listing::default();
    for _ in 0..MAX_PAGES {
        let answer = session.get(Call::new(Method::GET, url.clone()), what).await?;
        if answer.response.status() != StatusCode::OK {
            return Err(session.fault(what, answer).await);
        }
        let next = answer.header(&header::LINK).and_then(next_page).map(str::to_owned);
        let next = next.map(|next| session.join(&url, &next, what)).transpose()?;
        let names = read(&answer.bytes(what, MAX_PAGE).await?)?;
        listing.names.extend(names.into_iter().filter(|name| name.len() <= MAX_NAME));
        if listing.names.len() > MAX_NAMES {
            listing.names.truncate(MAX_NAMES);
            listing.is_cut = true;
            return Ok(listing);
        }
        // A list has its pages at one place.
        match next.filter(|next| next.origin() == url.origin()) {
            Some(next) => url = next,
            None => return Ok(listing),
        }
    }
    listing.is_cut = true;
    Ok(listing)
}

/// The address in `<…>; rel="next"`.
fn next_page(header: &str) -> Option<&str> {
    let link = header.split(',').find(|link| link.contains("rel=\"next\"") || link.contains("rel=next"))?;
    link.split_once('<')?.1.split_once('>').map(|(address, _)| address)
}

/// Text of a thing in a repository, for errors.
fn shown(session: &Session, name: &str, target: &str) -> String {
    let between = if target.parse::<Digest>().is_ok() { '@' } else { ':' };
    format!("{}/{name}{between}{target}", session.host)
}

pub(crate) fn parse<'j, T: Deserialize<'j>>(bytes: &'j [u8], what: &str) -> Result<T, RegistryError> {
    serde_json::from_slice(bytes)
        .map_err(|error| RegistryError::Malformed { what: what.to_owned(), fault: clean(&error.to_string()) })
}

/// The visible characters of a registry's text, as many as an error may have.
pub(crate) fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_WORDS).collect()
}

pub(crate) fn json<T: serde::Serialize>(value: &T, what: &str) -> Result<Vec<u8>, RegistryError> {
    serde_json::to_vec(value)
        .map_err(|error| RegistryError::Malformed { what: what.to_owned(), fault: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_found_among_links() {
        assert_eq!(next_page("</v2/_catalog?n=2&last=b>; rel=\"next\""), Some("/v2/_catalog?n=2&last=b"));
        assert_eq!(next_page("<a>; rel=\"prev\", <b>; rel=next"), Some("b"));
        assert_eq!(next_page("<a>; rel=\"prev\""), None);
    }
}
