//! The table of all tokens and policies, kept up to date.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use mortise_resource::{Error, data, pb};
use parking_lot::RwLock;
use prost::Message as _;
use subtle::ConstantTimeEq as _;
use tokio::sync::watch;

use crate::{
    GLOBAL_MANAGEMENT,
    identity::{Identity, TokenFacts, unknown_token},
    policy::{MAX_POLICIES, Policy},
    rule_set::RuleSet,
    secret::{MAX_SECRET_BYTES, hash_secret},
};

/// The name of callers without credentials, in Consul's words.
const ANONYMOUS: &str = "anonymous token";

/// Policies of callers without a token.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Names of the policies of callers without credentials.
    pub anonymous: Vec<String>,
    /// Names of the policies of the DNS port's callers.
    pub dns: Vec<String>,
    /// Names of the policies of client certificates, by a name in the certificate.
    pub certificates: Vec<(String, Vec<String>)>,
}

/// All tokens, policies and identities of a server.
#[derive(Debug)]
pub struct Access {
    tables: RwLock<Tables>,
    changes: watch::Sender<u64>,
    anonymous: Arc<Identity>,
    dns: Arc<Identity>,
    certificates: HashMap<String, Arc<Identity>>,
    management: Arc<RuleSet>,
}

#[derive(Debug, Default)]
struct Tables {
    /// The stored tokens by accessor.
    tokens: HashMap<String, (Hash, TokenFacts)>,
    /// Accessors of the tokens with a secret. A secret that several tokens share has no known owner and is rejected.
    owners: HashMap<Hash, Vec<String>>,
    /// Identities by the hash of a secret that exactly one token has.
    identities: HashMap<Hash, (TokenFacts, Arc<Identity>)>,
    policies: HashMap<String, Arc<Policy>>,
    /// Compiled rules by the sorted names of their policies.
    rules: HashMap<Vec<String>, Arc<RuleSet>>,
}

type Hash = [u8; 32];

impl Tables {
    /// The compiled rules of policies; compiles them if no other identity uses the same policies.
    fn rules(&mut self, names: &[String]) -> Arc<RuleSet> {
        let mut key = names.to_vec();
        key.sort();
        key.dedup();
        if let Some(rules) = self.rules.get(&key) {
            return rules.clone();
        }
        let management = key.iter().any(|name| name == GLOBAL_MANAGEMENT);
        let rules = Arc::new(RuleSet::new(key.iter().filter_map(|name| self.policies.get(name)), management));
        self.rules.insert(key, rules.clone());
        rules
    }

    /// Stores a token, or removes it for `None`. Returns whether identities changed.
    fn set_token(&mut self, accessor: &str, token: Option<(Hash, TokenFacts)>) -> bool {
        let before = match &token {
            Some(token) => self.tokens.insert(accessor.to_owned(), token.clone()),
            None => self.tokens.remove(accessor),
        };
        let (before, now) = (before.map(|(hash, _)| hash), token.map(|(hash, _)| hash));
        if let Some(hash) = before.filter(|_| before != now)
            && let Some(owners) = self.owners.get_mut(&hash)
        {
            owners.retain(|owner| owner != accessor);
        }
        if let Some(hash) = now.filter(|_| before != now) {
            self.owners.entry(hash).or_default().push(accessor.to_owned());
        }
        let changed = [before, now].into_iter().flatten().map(|hash| self.refresh_identity(hash));
        let changed = changed.fold(false, |any, other| any | other);
        // The table holds one reference; rules without another belong to no identity.
        self.rules.retain(|_, rules| Arc::strong_count(rules) > 1);
        changed
    }

    /// Updates the identity of a secret, and returns whether it changed. An identity stays if the facts of its token
    /// are the same, as after a write of a status.
    fn refresh_identity(&mut self, hash: Hash) -> bool {
        let owner = match self.owners.get(&hash).map(Vec::as_slice) {
            Some([policy]) => self.tokens.get(policy).map(|(_, facts)| facts.clone()),
            _ => None,
        };
        if self.owners.get(&hash).is_some_and(Vec::is_empty) {
            self.owners.remove(&hash);
        }
        let before = self.identities.remove(&hash);
        let changed = before.as_ref().map(|(facts, _)| facts) != owner.as_ref();
        match (owner, before) {
            (Some(_), Some(before)) if !changed => {
                self.identities.insert(hash, before);
            }
            (owner, before) => {
                if let Some((_, identity)) = before {
                    identity.invalidate();
                }
                if let Some(facts) = owner {
                    let rules = self.rules(&facts.policies);
                    let identity = Arc::new(Identity::from_token(facts.clone(), rules));
                    self.identities.insert(hash, (facts, identity));
                }
            }
        }
        changed
    }
}

impl Access {
    /// Creates the table with the identities of the settings; tokens and policies come later.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let mut tables = Tables::default();
        let mut named = |name: String, policies: &[String]| {
            Arc::new(Identity::named(name, policies.to_vec(), tables.rules(policies)))
        };
        let certificate =
            |(name, policies): &(String, Vec<String>)| (name.clone(), named(format!("certificate {name:?}"), policies));
        let certificates = options.certificates.iter().map(certificate).collect();
        let mut unauthenticated = |name: &str, policies: &[String]| {
            Arc::new(Identity::unauthenticated(name.to_owned(), policies.to_vec(), tables.rules(policies)))
        };
        let (anonymous, dns) = (unauthenticated(ANONYMOUS, &options.anonymous), unauthenticated("DNS", &options.dns));
        let management = tables.rules(&[GLOBAL_MANAGEMENT.to_owned()]);
        Self { tables: RwLock::new(tables), changes: watch::Sender::new(0), anonymous, dns, certificates, management }
    }

    /// The identity of a token's holder; an empty secret means the anonymous caller.
    ///
    /// # Errors
    /// `Unauthenticated`: the token does not exist.
    pub fn identity_for_secret(&self, secret: &str) -> Result<Arc<Identity>, Error> {
        if secret.is_empty() {
            return Ok(self.anonymous.clone());
        }
        if secret.len() > MAX_SECRET_BYTES {
            return Err(unknown_token());
        }
        let hash = hash_secret(secret);
        let tables = self.tables.read();
        let found = tables.identities.get_key_value(&hash).filter(|(known, _)| bool::from(known.ct_eq(&hash)));
        let identity = found.map(|(_, (_, identity))| identity.clone()).ok_or_else(unknown_token)?;
        drop(tables);
        mortise_resource::authorizer::Authorizer::check_valid(&*identity)?;
        Ok(identity)
    }

    /// The identity of a caller without credentials.
    #[must_use]
    pub fn anonymous(&self) -> &Arc<Identity> {
        &self.anonymous
    }

    /// The identity of every caller on the DNS port.
    #[must_use]
    pub fn dns(&self) -> &Arc<Identity> {
        &self.dns
    }

    /// The identity of a verified client certificate: that of the first of its names that the settings have; `None` if
    /// they have none of these.
    #[must_use]
    pub fn identity_for_certificate(&self, names: &[String]) -> Option<&Arc<Identity>> {
        names.iter().find_map(|name| self.certificates.get(name))
    }

    /// The identity of the machine's operator, such as root on a unix socket, with all permissions.
    #[must_use]
    pub fn operator(&self, name: String) -> Arc<Identity> {
        Arc::new(Identity::named(name, vec![GLOBAL_MANAGEMENT.to_owned()], self.management.clone()))
    }

    /// Counts changes of identities and of their permissions.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn signal_change(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Stores or replaces a token. An unreadable token is removed.
    pub fn put_token(&self, resource: &pb::Resource) {
        let accessor = resource.id.as_ref().map(|id| id.name.clone()).unwrap_or_default();
        let data = resource.data.as_ref().map(|data| data.value.as_slice()).unwrap_or_default();
        self.set_token(&accessor, data::Token::decode(data).ok().and_then(|token| read(&accessor, &token)));
    }

    /// Removes a token.
    pub fn remove_token(&self, accessor: &str) {
        self.set_token(accessor, None);
    }

    fn set_token(&self, accessor: &str, token: Option<(Hash, TokenFacts)>) {
        // The lock is released before others are notified.
        let changed = self.tables.write().set_token(accessor, token);
        if changed {
            self.signal_change();
        }
    }

    /// Stores or replaces a policy. An unreadable policy grants nothing.
    pub fn put_policy(&self, resource: &pb::Resource) {
        let name = resource.id.as_ref().map(|id| id.name.clone()).unwrap_or_default();
        let data = resource.data.as_ref().map(|data| data.value.as_slice()).unwrap_or_default();
        let policy = data::Policy::decode(data).ok().and_then(|policy| Policy::read(&policy).ok());
        self.set_policy(&name, policy.map(Arc::new));
    }

    /// Removes a policy.
    pub fn remove_policy(&self, name: &str) {
        self.set_policy(name, None);
    }

    fn set_policy(&self, name: &str, policy: Option<Arc<Policy>>) {
        let mut tables = self.tables.write();
        if tables.policies.get(name) == policy.as_ref() {
            return;
        }
        match policy {
            Some(policy) => tables.policies.insert(name.to_owned(), policy),
            None => tables.policies.remove(name),
        };
        tables.rules.retain(|names, _| !names.iter().any(|removed| removed == name));
        let tokens: Vec<_> = tables.identities.values().map(|(_, identity)| identity.clone()).collect();
        let others = [&self.anonymous, &self.dns].into_iter().chain(self.certificates.values()).cloned();
        for identity in tokens.into_iter().chain(others).filter(|identity| identity.has(name)) {
            let rules = tables.rules(identity.policies());
            identity.set_rules(rules);
        }
        drop(tables);
        self.signal_change();
    }

    /// Removes the tokens and policies for which the filters return false, after a complete snapshot.
    pub fn retain(&self, tokens: impl Fn(&str) -> bool, policies: impl Fn(&str) -> bool) {
        let tables = self.tables.read();
        let lost_tokens: Vec<_> = tables.tokens.keys().filter(|name| !tokens(name)).cloned().collect();
        let lost_policies: Vec<_> = tables.policies.keys().filter(|name| !policies(name)).cloned().collect();
        drop(tables);
        lost_tokens.iter().for_each(|name| self.remove_token(name));
        lost_policies.iter().for_each(|name| self.remove_policy(name));
    }

    /// Runs for ever and signals a change whenever a token expires. Tokens are rejected from their expiry on, even
    /// before the signal.
    pub async fn signal_expirations(&self) {
        let mut changes = self.changes.subscribe();
        let mut seen = mortise_clock::date();
        loop {
            let now = mortise_clock::date();
            let (expired, next) = self.check_expirations(seen, now);
            seen = now;
            if expired {
                self.signal_change();
            }
            // Waits one second at most, so that a clock that is set forward is noticed.
            let wait =
                next.map_or(MAX_EXPIRY_WAIT, |next| next.duration_since(now).unwrap_or_default().min(MAX_EXPIRY_WAIT));
            changes.borrow_and_update();
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = changes.changed() => {}
            }
        }
    }

    /// Whether a token expired after `seen`, and the time of the next expiry.
    fn check_expirations(&self, seen: SystemTime, now: SystemTime) -> (bool, Option<SystemTime>) {
        let tables = self.tables.read();
        let times = || tables.tokens.values().filter_map(|(_, facts)| facts.expires_at);
        (times().any(|time| seen < time && time <= now), times().filter(|time| *time > now).min())
    }
}

const MAX_EXPIRY_WAIT: Duration = Duration::from_secs(1);

/// Reads hash and facts of a token; `None` for an unusable one.
fn read(accessor: &str, token: &data::Token) -> Option<(Hash, TokenFacts)> {
    let hash = Hash::try_from(token.secret_sha256.as_slice()).ok()?;
    if token.policies.len() > MAX_POLICIES {
        return None;
    }
    // A time that `SystemTime` cannot represent counts as past.
    let expires_at = token.expires_at.map(|time| SystemTime::try_from(time).unwrap_or(SystemTime::UNIX_EPOCH));
    let defaults = pb::Tenancy { partition: token.partition.clone(), namespace: token.namespace.clone() };
    let facts = TokenFacts {
        accessor: accessor.to_owned(),
        policies: token.policies.clone(),
        expires_at,
        defaults: (defaults != pb::Tenancy::default()).then_some(defaults),
    };
    Some((hash, facts))
}
