//! Sessions of browsers: a cookie stands for a token, so that no script ever has the token.
//!
//! # Contract
//! - A session ends with its token, after [`SESSION_LIFE`], with a sign-out, and with the server.
//! - The cookie is out of reach for scripts, and browsers send it with requests of this server's pages alone. With TLS,
//!   its name makes browsers refuse it from anything but this very host. Requests that change something need the header
//!   [`PAGE_HEADER`] besides, which a form of another page cannot send.
//!
//! # Limits
//! [`MAX_TOKEN_SESSIONS`] of a token, and [`MAX_SESSIONS`] of all; the oldest gives way to a new one, of the same token first.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header::COOKIE};
use mortise_resource::{Code, Error};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

/// Longest life of a session.
pub(super) const SESSION_LIFE: Duration = Duration::from_secs(12 * 60 * 60);
/// Most sessions at once.
const MAX_SESSIONS: usize = 1_024;
/// Most sessions of a token at once: its holder alone cannot end those of others.
const MAX_TOKEN_SESSIONS: usize = 16;
/// Header of the page's requests.
static PAGE_HEADER: HeaderName = HeaderName::from_static("x-mortise-ui");

/// Hash of a session's secret: the table has no secret that a cookie could have.
type Key = [u8; 32];

/// A session.
struct Session {
    token: Arc<str>,
    ends: Instant,
}

/// The sessions of a server. Cheap to clone.
#[derive(Clone)]
pub(in crate::http) struct Sessions {
    by_key: Arc<Mutex<HashMap<Key, Session>>>,
    has_tls: bool,
    /// Name of the cookie. Browsers do not tell ports of a host apart, so it has the port.
    name: Arc<str>,
}

impl Sessions {
    /// Makes the empty table of a port. With TLS, cookies are bound to it.
    pub(in crate::http) fn new(has_tls: bool, port: u16) -> Self {
        let prefix = if has_tls { "__Host-" } else { "" };
        Self { by_key: Arc::default(), has_tls, name: format!("{prefix}mortise-{port}").into() }
    }

    /// Returns the token of a request's session; `None` without a session.
    ///
    /// # Errors
    /// `Unauthenticated`: the session has ended. `PermissionDenied`: a request that changes something lacks the page's
    /// header.
    pub(in crate::http) fn token(&self, method: &Method, headers: &HeaderMap) -> Result<Option<Arc<str>>, Error> {
        let Some(secret) = self.secret(headers) else { return Ok(None) };
        let mut by_key = self.by_key.lock();
        let key = key(secret);
        let token =
            by_key.get(&key).filter(|session| session.ends > Instant::now()).map(|session| session.token.clone());
        let Some(token) = token else {
            by_key.remove(&key);
            return Err(Error::new(Code::Unauthenticated, "the session has ended; sign in again"));
        };
        let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        match reads || is_of_page(headers) {
            true => Ok(Some(token)),
            false => {
                Err(Error::denied("with a session, a change needs the header X-Mortise-UI: 1; programs use a token"))
            }
        }
    }

    /// Begins a session; returns its cookie.
    ///
    /// # Errors
    /// `Internal`: the system has no random numbers.
    pub(super) fn begin(&self, token: &str) -> Result<HeaderValue, Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|e| Error::internal(format!("no random numbers for a session: {e}")))?;
        let secret: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut by_key = self.by_key.lock();
        let now = Instant::now();
        by_key.retain(|_, session| session.ends > now);
        let is_own = |session: &Session| *session.token == *token;
        let has_many = by_key.values().filter(|session| is_own(session)).count() >= MAX_TOKEN_SESSIONS;
        if has_many || by_key.len() >= MAX_SESSIONS {
            let ending = by_key.iter().filter(|(_, session)| !has_many || is_own(session));
            let oldest = ending.min_by_key(|(_, session)| session.ends).map(|(key, _)| *key);
            oldest.map(|key| by_key.remove(&key));
        }
        by_key.insert(key(&secret), Session { token: token.into(), ends: now + SESSION_LIFE });
        Ok(self.cookie(&secret, SESSION_LIFE))
    }

    /// Ends the session of a request; returns a cookie that removes the earlier one.
    pub(super) fn end(&self, headers: &HeaderMap) -> HeaderValue {
        if let Some(secret) = self.secret(headers) {
            self.by_key.lock().remove(&key(secret));
        }
        self.cookie("", Duration::ZERO)
    }

    fn cookie(&self, secret: &str, life: Duration) -> HeaderValue {
        let secure = if self.has_tls { "; Secure" } else { "" };
        let (name, life) = (&self.name, life.as_secs());
        let text = format!("{name}={secret}; Path=/; Max-Age={life}; HttpOnly; SameSite=Strict{secure}");
        HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
    }

    fn secret<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.filter(|(name, _)| *name == &*self.name).map(|(_, secret)| secret).find(|secret| !secret.is_empty())
    }
}

/// Returns whether the request is one of the page's.
pub(super) fn is_of_page(headers: &HeaderMap) -> bool {
    headers.get(&PAGE_HEADER).is_some_and(|value| value.as_bytes() == b"1")
}

fn key(secret: &str) -> Key {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_cookie(cookie: &HeaderValue, is_of_page: bool) -> HeaderMap {
        let pair = cookie.to_str().unwrap().split(';').next().unwrap().to_owned();
        let mut headers = HeaderMap::from_iter([(COOKIE, HeaderValue::try_from(format!("a=b; {pair}")).unwrap())]);
        if is_of_page {
            headers.insert(&PAGE_HEADER, HeaderValue::from_static("1"));
        }
        headers
    }

    fn token(sessions: &Sessions, method: Method, headers: &HeaderMap) -> Result<Option<String>, Code> {
        let found = sessions.token(&method, headers).map(|token| token.map(|token| token.to_string()));
        found.map_err(|error| error.code)
    }

    #[test]
    fn a_session_stands_for_its_token_until_it_ends() {
        let sessions = Sessions::new(false, 8500);
        let cookie = sessions.begin("secret").unwrap();
        let text = cookie.to_str().unwrap();
        assert!(
            text.contains("HttpOnly; SameSite=Strict") && !text.contains("Secure") && !text.contains("secret"),
            "{text}"
        );
        let (page, form) = (with_cookie(&cookie, true), with_cookie(&cookie, false));
        assert_eq!(token(&sessions, Method::GET, &form), Ok(Some("secret".into())));
        assert_eq!(token(&sessions, Method::PUT, &page), Ok(Some("secret".into())));
        assert_eq!(token(&sessions, Method::PUT, &form), Err(Code::PermissionDenied));
        assert_eq!(token(&sessions, Method::PUT, &HeaderMap::new()), Ok(None));
        sessions.end(&page);
        assert_eq!(token(&sessions, Method::GET, &page), Err(Code::Unauthenticated));
    }

    #[test]
    fn with_tls_the_cookie_is_of_this_host_alone() {
        let sessions = Sessions::new(true, 8500);
        let cookie = sessions.begin("secret").unwrap();
        let text = cookie.to_str().unwrap();
        assert!(
            text.starts_with("__Host-mortise-8500=") && text.contains("; Secure") && text.contains("Path=/;"),
            "{text}"
        );
        let plain = Sessions::new(false, 8500).begin("secret").unwrap();
        assert_eq!(token(&sessions, Method::GET, &with_cookie(&plain, false)), Ok(None), "another name");
        let other = Sessions::new(true, 8600).begin("secret").unwrap();
        assert_eq!(token(&sessions, Method::GET, &with_cookie(&other, false)), Ok(None), "another server of the host");
    }

    #[test]
    fn the_oldest_session_gives_way() {
        let sessions = Sessions::new(false, 8500);
        let first = sessions.begin("first").unwrap();
        let rest: Vec<_> = (0..MAX_SESSIONS).map(|n| sessions.begin(&n.to_string()).unwrap()).collect();
        assert_eq!(sessions.by_key.lock().len(), MAX_SESSIONS);
        assert_eq!(token(&sessions, Method::GET, &with_cookie(&first, false)), Err(Code::Unauthenticated));
        assert_eq!(token(&sessions, Method::GET, &with_cookie(&rest[0], false)), Ok(Some("0".into())));
    }

    #[test]
    fn the_holder_of_a_token_ends_its_own_sessions_alone() {
        let sessions = Sessions::new(false, 8500);
        let other = sessions.begin("other").unwrap();
        let first = sessions.begin("many").unwrap();
        for _ in 0..2 * MAX_SESSIONS {
            sessions.begin("many").unwrap();
        }
        assert_eq!(sessions.by_key.lock().len(), MAX_TOKEN_SESSIONS + 1);
        assert_eq!(token(&sessions, Method::GET, &with_cookie(&first, false)), Err(Code::Unauthenticated));
        assert_eq!(token(&sessions, Method::GET, &with_cookie(&other, false)), Ok(Some("other".into())));
    }
}
