//! Short-lived tokens: made when core opens one, renewed while core uses it, deleted when core closes it. The server
//! keeps the hash of the secret, core the secret in its memory alone. If core cannot close a token, it expires. The
//! server's rules for writers of tokens hold: no token grants more than the provider's own has.

use std::time::{Duration, SystemTime};

use mortise_resource::{data, meta, name, pb, types};
use prost::Message as _;
use prost_types::{Any, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tonic::{Code, Status};

use super::{
    diagnostic::{error, error_at},
    ephemeral::{Opened, Renewal},
    session::Server,
    wait::wait_timeout,
};
use crate::{
    proto::tfplugin6::Diagnostic,
    value::{Step, Value},
};

type Faults = Vec<Diagnostic>;

/// Shortest life of a token without a renewal.
const MIN_LIFE: Duration = Duration::from_secs(60);
/// Longest life of a token without a renewal.
const MAX_LIFE: Duration = Duration::from_secs(86_400);
/// Life of a token whose configuration sets none.
const DEFAULT_LIFE: Duration = Duration::from_secs(3_600);
/// Most policies of a token.
const MAX_POLICIES: usize = 32;
/// Most attempts of a renewal: the server stores the last use of a token in its status.
const ATTEMPTS: usize = 4;

/// An open token, as core keeps it in its memory: without the secret.
#[derive(Debug, Serialize, Deserialize)]
struct OpenToken {
    name: String,
    uid: String,
    life_seconds: u64,
}

impl OpenToken {
    fn read(private: &[u8]) -> Result<Self, Faults> {
        let detail = "Another version of the provider opened it. The token expires by itself.";
        serde_json::from_slice(private)
            .map_err(|fault| vec![error(format!("the open token is unknown: {fault}"), detail)])
    }

    fn id(&self) -> pb::Id {
        pb::Id { uid: self.uid.clone(), ..id(&self.name) }
    }

    /// The renewal, after two thirds of the life.
    fn renewal(&self) -> Renewal {
        let time = SystemTime::now() + Duration::from_secs(self.life_seconds) * 2 / 3;
        Renewal { time: time.into(), private: serde_json::to_vec(self).unwrap_or_default() }
    }

    fn expiry(&self) -> Timestamp {
        (SystemTime::now() + Duration::from_secs(self.life_seconds)).into()
    }
}

fn id(name: &str) -> pb::Id {
    let (uid, tenancy) = (String::new(), Some(pb::Tenancy::default()));
    pb::Id { name: name.to_owned(), uid, r#type: Some(types::token().to_pb()), tenancy }
}

fn at(attribute: &str, summary: impl Into<String>) -> Diagnostic {
    error_at(&[Step::Attribute(attribute.to_owned())], summary)
}

/// The life that a configuration sets.
fn life(config: &Value) -> Result<Duration, Diagnostic> {
    let Some(text) = config.get("expires_in").as_str() else { return Ok(DEFAULT_LIFE) };
    let found = wait_timeout(text).ok().filter(|life| (MIN_LIFE..=MAX_LIFE).contains(life));
    found.ok_or_else(|| at("expires_in", format!("{text:?} is not a duration from 1m to 24h, such as 15m or 1h30m")))
}

/// The faults of a configuration; skips unknown parts.
pub(super) fn faults(config: &Value) -> Faults {
    let mut found: Faults = life(config).err().into_iter().collect();
    for unit in ["partition", "namespace"] {
        found.extend(config.get(unit).as_str().and_then(name::fault).map(|fault| at(unit, fault)));
    }
    if let Value::List(policies) = config.get("policies") {
        if policies.is_empty() || policies.len() > MAX_POLICIES {
            let summary = format!("there are {} policies; a token has 1 to {MAX_POLICIES}", policies.len());
            found.push(at("policies", summary));
        }
        for (index, policy) in policies.iter().enumerate() {
            let fault = match policy {
                Value::Null => Some("null cannot be an element".to_owned()),
                policy => policy.as_str().and_then(name::fault),
            };
            let path = [Step::Attribute("policies".to_owned()), Step::Index(index)];
            found.extend(fault.map(|fault| error_at(&path, fault)));
        }
    }
    found
}

/// Makes a token.
pub(super) async fn open(server: &Server, config: &Value) -> Result<Opened, Faults> {
    let faults = faults(config);
    if !faults.is_empty() {
        return Err(faults);
    }
    let life = life(config).map_err(|fault| vec![fault])?;
    let text = |name: &str| config.get(name).as_str().unwrap_or_default().to_owned();
    let policies = match config.get("policies") {
        Value::List(policies) => policies.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect(),
        _ => Vec::new(),
    };
    let secret = secret()?;
    let name = ulid::Ulid::generate().to_string().to_lowercase();
    let mut token = OpenToken { name, uid: String::new(), life_seconds: life.as_secs() };
    let expires_at = token.expiry();
    let data = data::Token {
        description: text("description"),
        secret_sha256: Sha256::digest(secret.as_bytes()).to_vec(),
        policies,
        partition: text("partition"),
        namespace: text("namespace"),
        expires_at: Some(expires_at),
        ..data::Token::default()
    };
    let resource = pb::Resource { id: Some(token.id()), data: Some(encoded(&data)), ..pb::Resource::default() };
    let made = server.client.write(resource).await;
    let made = made.map_err(|status| unmade(server, &status, &token.name, &expires_at))?;
    // The server gives the uid. With another one, a deletion would find nothing, and succeed.
    token.uid = made.id.unwrap_or_default().uid;
    let Value::Map(mut parts) = config.clone() else { return Err(vec![error("core sent no configuration", "")]) };
    parts.insert("accessor_id".to_owned(), Value::String(token.name.clone()));
    parts.insert("secret".to_owned(), Value::String(secret));
    parts.insert("expires_at".to_owned(), Value::String(expires_at.to_string()));
    Ok(Opened { result: Value::Map(parts), diagnostics: Vec::new(), renewal: Some(token.renewal()) })
}

/// The faults of a token that was not made, as far as the server's answer shows that.
fn unmade(server: &Server, status: &Status, name: &str, expiry: &Timestamp) -> Faults {
    let mut faults = server.faults("making a token", status);
    if matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Unknown | Code::Cancelled)
        && let Some(first) = faults.first_mut()
    {
        first.detail = format!("{} If the server has stored the token {name}, it expires at {expiry}.", first.detail);
    }
    faults
}

/// Extends the life of an open token.
pub(super) async fn renew(server: &Server, private: &[u8]) -> Result<Renewal, Faults> {
    let token = OpenToken::read(private)?;
    for _ in 0..ATTEMPTS {
        let stored = server.read(token.id()).await?.filter(|stored| !meta::is_marked(&stored.metadata));
        let Some(stored) = stored else {
            let summary = format!("the token {} was deleted, or has expired", token.name);
            return Err(vec![error(summary, "The run cannot use it any more. Run the command again.")]);
        };
        let bytes = stored.data.as_ref().map(|data| data.value.as_slice()).unwrap_or_default();
        let data = data::Token::decode(bytes)
            .map_err(|fault| vec![error(format!("the token {} cannot be read: {fault}", token.name), "")])?;
        let data = data::Token { expires_at: Some(token.expiry()), ..data };
        let resource = pb::Resource { data: Some(encoded(&data)), ..stored };
        match server.client.write(resource).await {
            Ok(_) => return Ok(token.renewal()),
            Err(status) if status.code() == Code::Aborted => {}
            Err(status) => return Err(server.faults("renewing a token", &status)),
        }
    }
    let detail = "Another client keeps writing it.";
    Err(vec![error(format!("the token {} was not renewed in {ATTEMPTS} attempts", token.name), detail)])
}

/// Deletes an open token. One that is gone was deleted or has expired.
pub(super) async fn close(server: &Server, private: &[u8]) -> Result<(), Faults> {
    let token = OpenToken::read(private)?;
    server.client.delete(token.id()).await.map_err(|status| server.faults("deleting a token", &status))
}

fn encoded(token: &data::Token) -> Any {
    Any { type_url: "type.googleapis.com/mortise.v1.Token".to_owned(), value: token.encode_to_vec() }
}

/// Makes a secret of 256 random bits.
fn secret() -> Result<String, Faults> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|fault| vec![error(format!("no random numbers for a secret: {fault}"), "")])?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
