//! Files from the web: `-f https://…`.
//!
//! # Contract
//! An answer has the bounds of a file, and the command's `--timeout` to arrive whole. At most [`MAX_REDIRECTS`]
//! redirects are followed, and none from https to http. A name and a password in a URL go to its own server only;
//! neither they nor the query are part of an error. Content by http is not verified.

use std::{io, path::Path, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{
    HeaderValue, Request, Response, StatusCode,
    header::{ACCEPT, AUTHORIZATION, HOST, LOCATION, USER_AGENT},
};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName},
};
use url::{Host, ParseError, Url};

use crate::{CliError, Exit, error::innermost, output::table::one_line};

/// Most redirects in a row.
const MAX_REDIRECTS: usize = 5;

/// Fault of a fetch.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("the URL is malformed: {0}")]
    Malformed(#[from] ParseError),
    #[error("cannot connect to {host}: {source}")]
    Connect { host: String, source: io::Error },
    #[error("cannot speak TLS with {host}: {source}")]
    Tls { host: String, source: io::Error },
    #[error("this machine has no certificates of authorities")]
    NoAuthorities,
    #[error("the server answered {0}")]
    Code(StatusCode),
    #[error("more than {MAX_REDIRECTS} redirects follow each other")]
    TooManyRedirects,
    #[error("the server redirects from https to {0}, which is not encrypted")]
    Downgrade(String),
    #[error("the server redirects without a usable address")]
    BadRedirect,
    #[error("the answer did not arrive within {0:?}")]
    TooLate(Duration),
    #[error("the answer broke off: {}", innermost(.0))]
    Broken(#[from] hyper::Error),
}

impl FetchError {
    fn exit(&self) -> Exit {
        if matches!(self, Self::TooLate(_)) { Exit::TimedOut } else { Exit::Usage }
    }

    /// The next step.
    fn step(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "write it as https://HOST/PATH; put ./ before the name of a local file",
            Self::Connect { .. } => "check the host and the port; is its server running?",
            Self::Tls { .. } => "SSL_CERT_FILE=FILE names the authorities (PEM) to trust instead of the system's",
            Self::NoAuthorities => "install the system's certificates, or set SSL_CERT_FILE=FILE",
            Self::Code(code) if matches!(code.as_u16(), 401 | 403) => {
                "the server wants a login: fetch the file by another program, and give it by -f - or as a file"
            }
            Self::Code(_) | Self::BadRedirect | Self::TooManyRedirects => {
                "check the address with a browser or with curl -L; it must lead to the text itself"
            }
            Self::Downgrade(_) => "give the http:// address itself if its content need not be verified",
            Self::TooLate(_) => "--timeout DURATION allows more",
            Self::Broken(_) => "try again",
        }
    }
}

/// Returns true for the name of a file that is a URL.
pub(super) fn is_url(name: &Path) -> bool {
    let begins =
        |text: &str, scheme: &str| text.get(..scheme.len()).is_some_and(|own| own.eq_ignore_ascii_case(scheme));
    name.to_str().is_some_and(|text| begins(text, "https://") || begins(text, "http://"))
}

/// Fetches a file of at most `max` bytes; the rest is cut off. Returns its name without secrets, and its bytes.
pub(super) async fn fetch(name: &Path, max: u64, limit: Duration) -> Result<(String, Vec<u8>), CliError> {
    let text = name.to_string_lossy();
    let url = match Url::parse(&text) {
        Ok(url) => url,
        Err(error) => return Err(failure(&unparsed(&text), error.into())),
    };
    let shown = shown(&url);
    let fetched = match tokio::time::timeout(limit, follow(url, max)).await {
        Ok(fetched) => fetched,
        Err(_) => Err(FetchError::TooLate(limit)),
    };
    match fetched {
        Ok(bytes) => Ok((shown, bytes)),
        Err(error) => Err(failure(&shown, error)),
    }
}

fn failure(shown: &str, error: FetchError) -> CliError {
    let (exit, step) = (error.exit(), error.step());
    CliError { exit, ..CliError::usage(format!("cannot read {shown}")).caused_by(error) }.remedy(step)
}

/// A URL without its name, password, query and fragment.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // A URL with a host can have them, and so can lose them.
    let _ = (url.set_username(""), url.set_password(None));
    url.set_query(None);
    url.set_fragment(None);
    one_line(url.as_str())
}

/// The text of a malformed URL without its name, password, query and fragment.
fn unparsed(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    one_line(&format!("{scheme}://{rest}"))
}

/// Fetches a URL, and those to which it redirects.
async fn follow(url: Url, max: u64) -> Result<Vec<u8>, FetchError> {
    let mut url = url;
    for _ in 0..=MAX_REDIRECTS {
        let response = get(&url).await?;
        if !response.status().is_redirection() {
            return content(response, max).await;
        }
        let next = response.headers().get(LOCATION).and_then(|next| next.to_str().ok());
        url = redirected(&url, next.ok_or(FetchError::BadRedirect)?)?;
    }
    Err(FetchError::TooManyRedirects)
}

/// Returns the address to which a redirect leads.
fn redirected(from: &Url, location: &str) -> Result<Url, FetchError> {
    let mut next = from.join(location).map_err(|_| FetchError::BadRedirect)?;
    match (from.scheme(), next.scheme()) {
        (_, "https") | ("http", "http") => {}
        (_, "http") => return Err(FetchError::Downgrade(shown(&next))),
        _ => return Err(FetchError::BadRedirect),
    }
    if next.origin() != from.origin() {
        // The name and the password are for the server of the command line.
        let _ = (next.set_username(""), next.set_password(None));
    }
    Ok(next)
}

/// Sends the request for a URL, over a connection of its own.
async fn get(url: &Url) -> Result<Response<Incoming>, FetchError> {
    let host = match url.host() {
        Some(Host::Domain(domain)) => domain.to_owned(),
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Ipv6(address)) => address.to_string(),
        None => return Err(ParseError::EmptyHost.into()),
    };
    let port = url.port_or_known_default().ok_or(ParseError::InvalidPort)?;
    let connected = TcpStream::connect((host.as_str(), port)).await;
    let stream = connected.map_err(|source| FetchError::Connect { host: format!("{host}:{port}"), source })?;
    if url.scheme() == "https" { send(encrypted(host, stream).await?, url).await } else { send(stream, url).await }
}

/// Encrypts a connection, and verifies the certificate of its server.
async fn encrypted(host: String, stream: TcpStream) -> Result<impl AsyncRead + AsyncWrite + Unpin + Send, FetchError> {
    let fault = |error: &(dyn std::error::Error + Send + Sync)| io::Error::other(error.to_string());
    let tls = |source: io::Error| FetchError::Tls { host: host.clone(), source };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(FetchError::NoAuthorities);
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| tls(fault(&error)))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.clone()).map_err(|error| tls(fault(&error)))?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(tls)
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    url: &Url,
) -> Result<Response<Incoming>, FetchError> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the answer; its fault is that of the answer, too.
    tokio::spawn(connection);
    let mut request = Request::new(Empty::<Bytes>::new());
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    if let Ok(target) = format!("{}{query}", url.path()).parse() {
        *request.uri_mut() = target;
    }
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let host = format!("{}{port}", url.host_str().unwrap_or_default());
    let headers = request.headers_mut();
    if let Ok(host) = HeaderValue::from_str(&host) {
        headers.insert(HOST, host);
    }
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("mortise/", env!("CARGO_PKG_VERSION"))));
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    if let Some(login) = login(url) {
        headers.insert(AUTHORIZATION, login);
    }
    Ok(sender.send_request(request).await?)
}

/// Returns the header for the name and password of a URL, if it has them.
fn login(url: &Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let name: Vec<u8> = percent_decode_str(url.username()).collect();
    let password: Vec<u8> = percent_decode_str(url.password().unwrap_or_default()).collect();
    let both = [name.as_slice(), b":", &password].concat();
    let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(both))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Reads at most `max` bytes of an answer.
async fn content(response: Response<Incoming>, max: u64) -> Result<Vec<u8>, FetchError> {
    if response.status() != StatusCode::OK {
        return Err(FetchError::Code(response.status()));
    }
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame?.data_ref() {
            bytes.extend(data.iter().take(max.saturating_sub(bytes.len())));
        }
        if bytes.len() >= max {
            break;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    /// Serves these answers, one for each connection, and returns the requests.
    async fn server(answers: Vec<String>) -> (u16, tokio::task::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(async move {
            let mut requests = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    request.push(stream.read_u8().await.unwrap());
                }
                requests.push(String::from_utf8(request).unwrap());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            requests
        });
        (port, serving)
    }

    fn ok(body: &str) -> String {
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    }

    fn redirect(to: &str) -> String {
        format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n")
    }

    async fn fetched(url: String) -> Result<(String, Vec<u8>), CliError> {
        fetch(Path::new(&url), 1 << 20, LIMIT).await
    }

    #[test]
    fn urls_have_one_of_two_schemes() {
        for url in ["http://h/x", "https://h", "HTTPS://H/x"] {
            assert!(is_url(Path::new(url)), "{url}");
        }
        for file in ["http", "./http://x", "ftp://h/x", "a.yaml", "-", "é"] {
            assert!(!is_url(Path::new(file)), "{file}");
        }
    }

    #[test]
    fn names_passwords_and_queries_are_not_shown() {
        let url = Url::parse("https://me:secret@h:8443/a/b.yaml?token=secret#secret").unwrap();
        assert_eq!(shown(&url), "https://h:8443/a/b.yaml");
        assert_eq!(unparsed("https://me:secret@h:99999/a.yaml?token=secret"), "https://h:99999/a.yaml");
    }

    #[test]
    fn redirects_lead_to_no_weaker_place_and_take_no_password_along() {
        let from = Url::parse("https://me:secret@h/a/b").unwrap();
        assert_eq!(redirected(&from, "../c").unwrap().as_str(), "https://me:secret@h/c");
        assert_eq!(redirected(&from, "https://other/c").unwrap().as_str(), "https://other/c");
        assert!(matches!(redirected(&from, "http://h/c"), Err(FetchError::Downgrade(to)) if to == "http://h/c"));
        assert!(matches!(redirected(&from, "file:///etc/passwd"), Err(FetchError::BadRedirect)));
        let plain = Url::parse("http://me:secret@h/a").unwrap();
        assert_eq!(redirected(&plain, "http://h/c").unwrap().as_str(), "http://h/c");
        assert_eq!(redirected(&plain, "https://h/c").unwrap().as_str(), "https://h/c");
    }

    #[tokio::test]
    async fn a_file_comes_over_redirects_with_its_login() {
        let (port, serving) = server(vec![redirect("/there.yaml?v=2"), ok("type: x\n")]).await;
        let (name, bytes) = fetched(format!("http://me:p%40ss@127.0.0.1:{port}/here.yaml?token=t")).await.unwrap();
        assert_eq!((name, bytes), (format!("http://127.0.0.1:{port}/here.yaml"), b"type: x\n".to_vec()));
        let requests = serving.await.unwrap();
        assert!(requests[0].starts_with("GET /here.yaml?token=t HTTP/1.1\r\n"), "{requests:?}");
        assert!(requests[0].contains(&format!("host: 127.0.0.1:{port}\r\n")), "{requests:?}");
        assert!(requests[0].contains("authorization: Basic bWU6cEBzcw==\r\n"), "{requests:?}");
        assert!(requests[1].starts_with("GET /there.yaml?v=2 HTTP/1.1\r\n"), "{requests:?}");
    }

    #[tokio::test]
    async fn faults_name_the_url_and_no_secret() {
        let broken = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort".to_owned();
        let missing = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned();
        for (answers, expected) in [
            (vec![missing], "the server answered 404 Not Found"),
            (vec![broken], "the answer broke off: "),
            (vec![redirect("ftp://h/x")], "the server redirects without a usable address"),
            ((0..6).map(|_| redirect("/again")).collect(), "more than 5 redirects follow each other"),
        ] {
            let (port, _serving) = server(answers).await;
            let error = fetched(format!("http://me:secret@127.0.0.1:{port}/x?secret")).await.unwrap_err();
            let begin = format!("cannot read http://127.0.0.1:{port}/x: {expected}");
            assert!(error.message.starts_with(&begin), "{error}");
            assert!(!error.to_string().contains("secret") && error.remedy.is_some(), "{error}");
            assert_eq!(error.exit, Exit::Usage);
        }
        let error = fetched("http://me:secret@[::1/x".to_owned()).await.unwrap_err();
        assert!(error.message.starts_with("cannot read http://[::1/x: the URL is malformed: "), "{error}");
    }

    #[tokio::test]
    async fn an_answer_is_bounded_in_bytes_and_time() {
        let (port, _serving) = server(vec![ok("0123456789")]).await;
        let url = format!("http://127.0.0.1:{port}/x");
        assert_eq!(fetch(Path::new(&url), 4, LIMIT).await.unwrap().1, b"0123");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/x", listener.local_addr().unwrap());
        let error = fetch(Path::new(&url), 4, Duration::from_millis(20)).await.unwrap_err();
        assert_eq!(error.exit, Exit::TimedOut);
        assert!(error.message.contains("did not arrive within 20ms"), "{error}");
    }
}
