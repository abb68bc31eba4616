//! A registry, and the login that it wants.
//!
//! # Contract
//! Credentials go to the registry's own origin and, as the protocol of tokens has it, to the authority that the
//! registry names; never over plain http if the registry itself speaks TLS, and never to an address to which a request
//! is redirected. A request is repeated once after a challenge.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderValue, Method, StatusCode, header};
use serde::Deserialize;
use url::Url;

use crate::{
    challenge::Challenge,
    credentials::{CredentialSource, Credentials},
    error::RegistryError,
    reference::ReferenceError,
    transport::{Answer, Call, Transport, shown_host},
};

/// Most redirects in a row.
const MAX_REDIRECTS: usize = 5;

/// Most bytes of the answer of an authority.
const MAX_TOKEN: usize = 64 << 10;

/// Most bytes of an error's text that are read, and most characters that are shown.
const MAX_ERROR: usize = 16 << 10;
const SHOWN_CHARS: usize = 300;

/// A registry.
#[derive(Debug)]
pub(crate) struct Session {
    transport: Transport,
    credentials: CredentialSource,
    /// Host as in references.
    pub(crate) host: String,
    /// Address of the API, up to its host.
    base: Url,
    /// The header that the last challenge led to.
    login: tokio::sync::Mutex<Option<HeaderValue>>,
}

/// Answer of an authority.
#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

/// Faults in a registry's words.
#[derive(Deserialize)]
struct Faults {
    errors: Vec<Fault>,
}

#[derive(Deserialize)]
struct Fault {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

impl Session {
    pub(crate) fn new(host: &str, transport: Transport, credentials: CredentialSource) -> Result<Self, RegistryError> {
        // References to Docker Hub have a host that does not serve the API.
        let server = if host == "docker.io" { "registry-1.docker.io" } else { host };
        let malformed = || ReferenceError::Host(host.to_owned());
        let mut base = Url::parse(&format!("https://{server}/")).map_err(|_| malformed())?;
        if transport.scheme(&base) == "http" {
            base = Url::parse(&format!("http://{server}/")).map_err(|_| malformed())?;
        }
        Ok(Self { transport, credentials, host: host.to_owned(), base, login: tokio::sync::Mutex::default() })
    }

    /// An address of the API.
    pub(crate) fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(path);
        url
    }

    /// The address behind a header of an answer.
    pub(crate) fn join(&self, from: &Url, location: &str, what: &str) -> Result<Url, RegistryError> {
        let fault = |why| RegistryError::Redirect { what: what.to_owned(), why };
        let next = from.join(location).map_err(|_| fault("to a malformed address"))?;
        match (from.scheme(), next.scheme()) {
            (_, "https") | ("http", "http") if next.host().is_some() => Ok(next),
            ("https", "http") => Err(fault("from https to an address without encryption")),
            _ => Err(fault("to an address that is neither https nor http")),
        }
    }

    /// Sends a request, with the login if it goes to the registry itself. Answers a challenge once.
    pub(crate) async fn send(&self, call: Call, what: &str) -> Result<Answer, RegistryError> {
        let is_own = call.url.origin() == self.base.origin();
        let login = if is_own { self.login.lock().await.clone() } else { None };
        let answer = self.send_as(call.clone(), login).await?;
        if answer.response.status() != StatusCode::UNAUTHORIZED || !is_own {
            return Ok(answer);
        }
        let challenges = answer.response.headers().get_all(header::WWW_AUTHENTICATE).iter();
        let challenge = challenges.filter_map(|value| value.to_str().ok()).find_map(Challenge::read);
        let Some(login) = self.log_in(challenge, what).await? else { return Ok(answer) };
        *self.login.lock().await = Some(login.clone());
        self.send_as(call, Some(login)).await
    }

    /// Sends a request for content, and follows redirects.
    pub(crate) async fn get(&self, call: Call, what: &str) -> Result<Answer, RegistryError> {
        let mut call = call;
        for _ in 0..=MAX_REDIRECTS {
            let answer = self.send(call.clone(), what).await?;
            if !answer.response.status().is_redirection() {
                return Ok(answer);
            }
            let fault = |why| RegistryError::Redirect { what: what.to_owned(), why };
            let next = answer.header(&header::LOCATION).ok_or_else(|| fault("without an address"))?;
            call.url = self.join(&call.url, next, what)?;
        }
        Err(RegistryError::Redirect { what: what.to_owned(), why: "more than five times" })
    }

    async fn send_as(&self, mut call: Call, login: Option<HeaderValue>) -> Result<Answer, RegistryError> {
        if let Some(login) = login {
            call.headers.insert(header::AUTHORIZATION, login);
        }
        self.transport.send(call).await
    }

    /// Finds the header that a challenge wants; `None` without one.
    async fn log_in(&self, challenge: Option<Challenge>, what: &str) -> Result<Option<HeaderValue>, RegistryError> {
        let found = self.credentials.find(&self.host).await?;
        match (challenge, found) {
            (_, Some(Credentials::Bearer(token))) => secret(&format!("Bearer {token}"), &self.host, what).map(Some),
            (Some(Challenge::Basic), Some(Credentials::Password { name, password })) => {
                secret(&basic(&name, &password), &self.host, what).map(Some)
            }
            (Some(Challenge::Bearer { realm, service, scope }), found) => {
                let token = self.token(&realm, service, scope, found, what).await?;
                secret(&format!("Bearer {token}"), &self.host, what).map(Some)
            }
            (_, _) => Ok(None),
        }
    }

    /// Asks an authority for a token.
    async fn token(
        &self,
        realm: &str,
        service: Option<String>,
        scope: Option<String>,
        found: Option<Credentials>,
        what: &str,
    ) -> Result<String, RegistryError> {
        let url = self.join(&self.base, realm, what)?;
        let host = shown_host(&url);
        let has_login = found.is_some();
        let mut asked: Vec<(&str, String)> = Vec::new();
        asked.extend(service.map(|service| ("service", service)));
        // A challenge may ask for several scopes at once.
        asked.extend(scope.iter().flat_map(|scope| scope.split(' ')).map(|scope| ("scope", scope.to_owned())));
        let form = |fields: &[(&str, String)]| {
            form_urlencoded::Serializer::new(String::new()).extend_pairs(fields.iter().map(|(k, v)| (*k, v))).finish()
        };
        let call = match found {
            Some(Credentials::Refresh(token)) => {
                asked.extend([
                    ("grant_type", "refresh_token".to_owned()),
                    ("client_id", "mortise".to_owned()),
                    ("refresh_token", token),
                ]);
                Call::new(Method::POST, url)
                    .with(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
                    .body(form(&asked).into())
            }
            found => {
                let mut url = url;
                let query = form(&asked);
                if !query.is_empty() {
                    let before = url.query().map(|before| format!("{before}&")).unwrap_or_default();
                    url.set_query(Some(&format!("{before}{query}")));
                }
                let call = Call::new(Method::GET, url);
                match found {
                    Some(Credentials::Password { name, password }) => {
                        let login = secret(&basic(&name, &password), &self.host, what)?;
                        let mut call = call;
                        call.headers.insert(header::AUTHORIZATION, login);
                        call
                    }
                    _ => call,
                }
            }
        };
        let answer = self.transport.send(call).await?;
        let about = format!("{what}: the token from {host}");
        match answer.response.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let detail = words(answer).await;
                let what = what.to_owned();
                return Err(RegistryError::Denied { what, host, has_login, detail: or_nothing(detail) });
            }
            code => return Err(refused(about, code, answer).await),
        }
        let bytes = answer.bytes(&about, MAX_TOKEN).await?;
        let token: Option<Token> = serde_json::from_slice(&bytes).ok();
        let token = token.and_then(|token| token.token.or(token.access_token)).filter(|token| !token.is_empty());
        token.ok_or_else(|| RegistryError::Malformed { what: about, fault: "the answer has no token".to_owned() })
    }

    /// Makes the error for an answer that reports a failure.
    pub(crate) async fn fault(&self, what: &str, answer: Answer) -> RegistryError {
        let (what, host) = (what.to_owned(), answer.host.clone());
        match answer.response.status() {
            StatusCode::NOT_FOUND => RegistryError::NotFound { what },
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let has_login = !matches!(self.credentials.find(&self.host).await, Ok(None));
                RegistryError::Denied { what, host, has_login, detail: or_nothing(words(answer).await) }
            }
            code => refused(what, code, answer).await,
        }
    }
}

async fn refused(what: String, code: StatusCode, answer: Answer) -> RegistryError {
    let words = words(answer).await;
    let detail = if words.is_empty() { words } else { format!(": {words}") };
    RegistryError::Refused { what, code, detail }
}

fn or_nothing(words: String) -> String {
    if words.is_empty() { "it gives no reason".to_owned() } else { words }
}

/// The registry's own words about a fault, as one line without control characters.
async fn words(answer: Answer) -> String {
    let bytes = answer.beginning(MAX_ERROR).await;
    let Ok(Faults { errors }) = serde_json::from_slice(&bytes) else { return String::new() };
    let texts = errors.into_iter().take(3).map(|Fault { code, message }| match message.is_empty() {
        true => code,
        false => message,
    });
    let text = texts.collect::<Vec<_>>().join("; ");
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN_CHARS).collect()
}

fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

/// A header that no log shows.
fn secret(text: &str, host: &str, what: &str) -> Result<HeaderValue, RegistryError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| RegistryError::Malformed {
        what: what.to_owned(),
        fault: format!("the credentials for {host} have characters that no header can have"),
    })?;
    value.set_sensitive(true);
    Ok(value)
}
