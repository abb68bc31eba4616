//! Every token and policy, as they are now.

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

/// The name of a caller without credentials, in Consul's words.
const ANONYMOUS: &str = "anonymous token";

/// Who has which policies without a token.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Policies of callers without credentials.
    pub anonymous: Vec<String>,
    /// Policies of the DNS port's callers.
    pub dns: Vec<String>,
    /// Policies of client certificates, by a name in the certificate.
    pub certificates: Vec<(String, Vec<String>)>,
}

/// Tokens, policies and identities. One for each server.
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
    /// What is stored, by accessor.
    tokens: HashMap<String, (Hash, TokenFacts)>,
    /// The tokens of each secret. Of a secret that several tokens have, it is not known whose it is, so it is unknown.
    owners: HashMap<Hash, Vec<String>>,
    /// The holders of secrets that one token has.
    identities: HashMap<Hash, (TokenFacts, Arc<Identity>)>,
    policies: HashMap<String, Arc<Policy>>,
    /// Rules by the policies that they are made of.
    rules: HashMap<Vec<String>, Arc<RuleSet>>,
}

type Hash = [u8; 32];

impl Tables {
    /// The rules of policies by name, compiled or as they were.
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

    /// Takes a token as it is now; `None` for one that is not. Answers whether identities changed.
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
        let changed = changed.fold(false, |any, one| any | one);
        // Rules that only this table holds are nobody's any more.
        self.rules.retain(|_, rules| Arc::strong_count(rules) > 1);
        changed
    }

    /// Brings the identity of a secret up to date. One whose token is as it was (a status was written) stays.
    fn refresh_identity(&mut self, hash: Hash) -> bool {
        let owner = match self.owners.get(&hash).map(Vec::as_slice) {
            Some([one]) => self.tokens.get(one).map(|(_, facts)| facts.clone()),
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
    /// Knows nothing but what the settings say.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let mut tables = Tables::default();
        let mut named = |name: String, policies: &[String]| {
            Arc::new(Identity::named(name, policies.to_vec(), tables.rules(policies)))
        };
        let certificate =
            |(name, policies): &(String, Vec<String>)| (name.clone(), named(format!("certificate {name:?}"), policies));
        let certificates = options.certificates.iter().map(certificate).collect();
        let (anonymous, dns) = (named(ANONYMOUS.to_owned(), &options.anonymous), named("DNS".to_owned(), &options.dns));
        let management = tables.rules(&[GLOBAL_MANAGEMENT.to_owned()]);
        Self { tables: RwLock::new(tables), changes: watch::Sender::new(0), anonymous, dns, certificates, management }
    }

    /// The identity of a token's holder; an empty secret is the anonymous one's.
    ///
    /// # Errors
    /// `Unauthenticated`: there is no such token.
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

    /// The identity of everyone who asks the DNS port.
    #[must_use]
    pub fn dns(&self) -> &Arc<Identity> {
        &self.dns
    }

    /// The identity of a verified client certificate, by the first of its names that the settings know.
    #[must_use]
    pub fn identity_for_certificate(&self, names: &[String]) -> Option<&Arc<Identity>> {
        names.iter().find_map(|name| self.certificates.get(name))
    }

    /// The identity of the host's own operator, such as root on a unix socket, who may do everything.
    #[must_use]
    pub fn operator(&self, name: String) -> Arc<Identity> {
        Arc::new(Identity::named(name, vec![GLOBAL_MANAGEMENT.to_owned()], self.management.clone()))
    }

    /// Counts changes of what identities are and may do.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn signal_change(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Takes a token as it is stored now. One that cannot be read is none.
    pub fn put_token(&self, resource: &pb::Resource) {
        let accessor = resource.id.as_ref().map(|id| id.name.clone()).unwrap_or_default();
        let data = resource.data.as_ref().map(|data| data.value.as_slice()).unwrap_or_default();
        self.set_token(&accessor, data::Token::decode(data).ok().and_then(|token| read(&accessor, &token)));
    }

    /// Forgets a token.
    pub fn remove_token(&self, accessor: &str) {
        self.set_token(accessor, None);
    }

    fn set_token(&self, accessor: &str, token: Option<(Hash, TokenFacts)>) {
        // The guard is gone before others are told.
        let changed = self.tables.write().set_token(accessor, token);
        if changed {
            self.signal_change();
        }
    }

    /// Takes a policy as it is stored now. One that cannot be read grants nothing.
    pub fn put_policy(&self, resource: &pb::Resource) {
        let name = resource.id.as_ref().map(|id| id.name.clone()).unwrap_or_default();
        let data = resource.data.as_ref().map(|data| data.value.as_slice()).unwrap_or_default();
        let policy = data::Policy::decode(data).ok().and_then(|policy| Policy::read(&policy).ok());
        self.set_policy(&name, policy.map(Arc::new));
    }

    /// Forgets a policy.
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
        tables.rules.retain(|names, _| !names.iter().any(|one| one == name));
        let tokens: Vec<_> = tables.identities.values().map(|(_, identity)| identity.clone()).collect();
        let others = [&self.anonymous, &self.dns].into_iter().chain(self.certificates.values()).cloned();
        for identity in tokens.into_iter().chain(others).filter(|identity| identity.has(name)) {
            let rules = tables.rules(identity.policies());
            identity.set_rules(rules);
        }
        drop(tables);
        self.signal_change();
    }

    /// Forgets the tokens and policies that are not among these, after a complete snapshot.
    pub fn retain(&self, tokens: impl Fn(&str) -> bool, policies: impl Fn(&str) -> bool) {
        let tables = self.tables.read();
        let lost_tokens: Vec<_> = tables.tokens.keys().filter(|name| !tokens(name)).cloned().collect();
        let lost_policies: Vec<_> = tables.policies.keys().filter(|name| !policies(name)).cloned().collect();
        drop(tables);
        lost_tokens.iter().for_each(|name| self.remove_token(name));
        lost_policies.iter().for_each(|name| self.remove_policy(name));
    }

    /// Tells of tokens that have expired, for ever. They are none from that moment on, told or not.
    pub async fn signal_expirations(&self) {
        let mut changes = self.changes.subscribe();
        let mut seen = SystemTime::now();
        loop {
            let now = SystemTime::now();
            let (expired, next) = self.check_expirations(seen, now);
            seen = now;
            if expired {
                self.signal_change();
            }
            // A clock that is set forward is noticed, too.
            let wait =
                next.map_or(MAX_EXPIRY_WAIT, |next| next.duration_since(now).unwrap_or_default().min(MAX_EXPIRY_WAIT));
            changes.borrow_and_update();
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = changes.changed() => {}
            }
        }
    }

    /// Whether a token expired after `seen`, and when the next will.
    fn check_expirations(&self, seen: SystemTime, now: SystemTime) -> (bool, Option<SystemTime>) {
        let tables = self.tables.read();
        let times = || tables.tokens.values().filter_map(|(_, facts)| facts.expires_at);
        (times().any(|at| seen < at && at <= now), times().filter(|at| *at > now).min())
    }
}

const MAX_EXPIRY_WAIT: Duration = Duration::from_secs(1);

/// The hash of a token, and what else it says; `None` for one that cannot be used.
fn read(accessor: &str, token: &data::Token) -> Option<(Hash, TokenFacts)> {
    let hash = Hash::try_from(token.secret_sha256.as_slice()).ok()?;
    if token.policies.len() > MAX_POLICIES {
        return None;
    }
    // A time before all times is past.
    let expires_at = token.expires_at.map(|at| SystemTime::try_from(at).unwrap_or(SystemTime::UNIX_EPOCH));
    let defaults = pb::Tenancy { partition: token.partition.clone(), namespace: token.namespace.clone() };
    let facts = TokenFacts {
        accessor: accessor.to_owned(),
        policies: token.policies.clone(),
        expires_at,
        defaults: (defaults != pb::Tenancy::default()).then_some(defaults),
    };
    Some((hash, facts))
}
