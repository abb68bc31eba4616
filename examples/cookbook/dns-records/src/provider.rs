//! Client of the provider's API: JSON over HTTP, with a bearer token.
//!
//! A record has a URL of its own, `ENDPOINT/zones/DOMAIN/records/HOST/TYPE`. A repeated PUT or DELETE therefore does no
//! harm, and a reconciler that was interrupted can begin again.

use std::time::Duration;

use mortise_plugin::{CleanUp, Context, Failure, Http, HttpRequest, HttpResponse, SettingsError, settings_as};
use serde::{Deserialize, Serialize};

use crate::settings::Settings;

/// Shortest pause between two attempts.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause that a provider can ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// Reason that the provider did not do as it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProviderError {
    /// The provider asks for a pause.
    #[error("the provider is busy (HTTP {status}); the next attempt is in {} s", .pause.as_secs())]
    Busy { status: u16, pause: Duration },
    /// The provider cannot be reached, or has a fault of its own.
    #[error("the provider does not answer: {text}; the next attempt is in {} s", .pause.as_secs())]
    Away { text: String, pause: Duration },
    /// The token is wrong.
    #[error("the provider refuses the token (HTTP {0}); set `token` in [plugin.dns-records.settings]")]
    Token(u16),
    /// The provider refuses the record.
    #[error("the provider refuses {url} (HTTP {status}): {text}; change the record")]
    Refused { url: String, status: u16, text: String },
    /// The answer is not the expected JSON.
    #[error("the answer to {url} cannot be read: {fault}; is `endpoint` the API of the provider?")]
    Answer { url: String, fault: serde_json::Error },
    /// The zone of the record is missing.
    #[error("the zone {0:?} is missing in the record's namespace; create it")]
    NoZone(String),
    /// The settings lack a key, or have a wrong one.
    #[error("{0}; correct [plugin.dns-records.settings]")]
    Settings(#[from] SettingsError),
    /// The request cannot be written as JSON.
    #[error("the record cannot be sent: {0}; change the record")]
    Entry(serde_json::Error),
    /// The host refuses the request or the secret, and says which grant is missing.
    #[error(transparent)]
    Host(#[from] Failure),
}

impl ProviderError {
    /// Word for the reason of a condition.
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::Busy { .. } => "ProviderBusy",
            Self::Away { .. } => "ProviderAway",
            Self::Token(_) => "TokenRefused",
            Self::Refused { .. } | Self::Entry(_) => "RecordRefused",
            Self::Answer { .. } => "AnswerUnreadable",
            Self::NoZone(_) => "ZoneMissing",
            Self::Settings(_) | Self::Host(_) => "NotConfigured",
        }
    }

    /// Time until the next attempt; `None` if only a change can help.
    pub(crate) const fn pause(&self) -> Option<Duration> {
        match self {
            Self::Busy { pause, .. } | Self::Away { pause, .. } => Some(*pause),
            _ => None,
        }
    }
}

/// Content of a record at the provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Time to live, in seconds.
    pub(crate) ttl: u32,
    /// Values, in the provider's order.
    pub(crate) values: Vec<String>,
}

/// Place of a record at the provider.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) domain: &'a str,
    pub(crate) host: &'a str,
    pub(crate) kind: &'a str,
}

/// Connection to the provider.
pub(crate) struct Provider<'a> {
    http: Http<'a>,
    settings: Settings,
    token: String,
}

impl<'a> Provider<'a> {
    /// Takes address and token from the settings; the token may also be a granted secret.
    pub(crate) fn new(ctx: &Context<'a>) -> Result<Self, ProviderError> {
        let settings: Settings = settings_as()?;
        let token = match &settings.token {
            Some(token) => token.clone(),
            None => String::from_utf8_lossy(&ctx.secret("token")?).trim().to_owned(),
        };
        Ok(Self { http: ctx.http(), settings, token })
    }

    /// Reads a record; `None` if the provider has none.
    pub(crate) fn get(&self, place: Place<'_>) -> Result<Option<Entry>, ProviderError> {
        let url = self.url(place);
        let Some(answer) = self.send(HttpRequest::get(&url))? else { return Ok(None) };
        serde_json::from_slice(&answer.body).map(Some).map_err(|fault| ProviderError::Answer { url, fault })
    }

    /// Writes a record, or replaces it.
    pub(crate) fn put(&self, place: Place<'_>, entry: &Entry) -> Result<(), ProviderError> {
        let body = serde_json::to_vec(entry).map_err(ProviderError::Entry)?;
        let request = HttpRequest::put(self.url(place)).header("content-type", "application/json").body(body);
        let url = request.url.clone();
        let refused = || ProviderError::Refused { url, status: 404, text: "the zone is missing".to_owned() };
        self.send(request)?.map(drop).ok_or_else(refused)
    }

    /// Removes a record, which is finished if it is gone already. A provider that answers 202 has only begun.
    pub(crate) fn delete(&self, place: Place<'_>) -> Result<CleanUp, ProviderError> {
        let answer = self.send(HttpRequest::delete(self.url(place)))?;
        let Some(begun) = answer.filter(|answer| answer.status == 202) else { return Ok(CleanUp::Finished) };
        Ok(CleanUp::Deferred(self.pause(&begun), "the provider removes the record".to_owned()))
    }

    /// Returns the time that the provider asks for, or that of the settings.
    fn pause(&self, answer: &HttpResponse) -> Duration {
        let pause = answer.retry_after().unwrap_or(Duration::from_secs(self.settings.retry_seconds));
        pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
    }

    fn url(&self, Place { domain, host, kind }: Place<'_>) -> String {
        format!("{}/zones/{domain}/records/{host}/{kind}", self.settings.endpoint)
    }

    /// Sends a request; `None` means 404.
    fn send(&self, request: HttpRequest) -> Result<Option<HttpResponse>, ProviderError> {
        let url = request.url.clone();
        let request = request.bearer(&self.token);
        let pause = Duration::from_secs(self.settings.retry_seconds).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        let answer = match self.http.send(&request.timeout(Duration::from_secs(10))) {
            Ok(answer) => answer,
            // The host's text names the provider, and the reason.
            Err(Failure { code: Failure::UNAVAILABLE | Failure::LATE, message }) => {
                return Err(ProviderError::Away { text: message, pause });
            }
            Err(failure) => return Err(failure.into()),
        };
        match answer.status {
            200..=299 => Ok(Some(answer)),
            404 => Ok(None),
            401 | 403 => Err(ProviderError::Token(answer.status)),
            status @ (429 | 503) => Err(ProviderError::Busy { status, pause: self.pause(&answer) }),
            status @ 500.. => Err(ProviderError::Away { text: format!("HTTP {status}"), pause }),
            status => Err(ProviderError::Refused { url, status, text: answer.text().into_owned() }),
        }
    }
}
