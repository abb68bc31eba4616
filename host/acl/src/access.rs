//! The table of all tokens and policies, kept up to date.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
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
    policy::Policy,
    rule_set::RuleSet,
    secret::{MAX_SECRET_BYTES, hash_secret},
    tables::{Hash, Tables, read},
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
    pub(crate) tables: RwLock<Tables>,
    changes: watch::Sender<u64>,
    anonymous: Arc<Identity>,
    dns: Arc<Identity>,
    certificates: HashMap<String, Arc<Identity>>,
    management: Arc<RuleSet>,
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
        identity.note_use();
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

    /// The identity of client certificates with a name.
    pub(crate) fn certificate_named(&self, name: &str) -> Option<&Arc<Identity>> {
        self.certificates.get(name)
    }

    /// The identity of the machine's operator, such as root on a unix socket, with all permissions.
    #[must_use]
    pub fn operator(&self, name: String) -> Arc<Identity> {
        Arc::new(Identity::named(name, vec![GLOBAL_MANAGEMENT.to_owned()], self.management.clone()))
    }

    /// Returns the number of changes so far of identities and of their permissions; a receiver wakes at each.
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
        let secrets = data::Token::decode(data).map(|token| read(&accessor, &token)).unwrap_or_default();
        self.set_token(&accessor, secrets);
    }

    /// Removes a token; its holders have no valid credentials from now on.
    pub fn remove_token(&self, accessor: &str) {
        self.set_token(accessor, Vec::new());
    }

    fn set_token(&self, accessor: &str, secrets: Vec<(Hash, TokenFacts)>) {
        // The lock is released before others are notified.
        let changed = self.tables.write().set_token(accessor, secrets);
        if changed {
            self.signal_change();
        }
    }

    /// Stores or replaces a policy. Of a policy with a fault, only the rules that deny are used.
    pub fn put_policy(&self, resource: &pb::Resource) {
        let name = resource.id.as_ref().map(|id| id.name.clone()).unwrap_or_default();
        let data = resource.data.as_ref().map(|data| data.value.as_slice()).unwrap_or_default();
        let policy = data::Policy::decode(data).map_or_else(|_| Policy::unreadable(), |policy| Policy::load(&policy));
        self.set_policy(&name, Some(Arc::new(policy)));
    }

    /// Removes a policy; it grants nothing from now on.
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
        self.renew_rules(&mut tables, |identity| identity.has(name));
        drop(tables);
        self.signal_change();
    }

    /// Adds areas that plugins ask about, which may mend policies.
    pub fn add_areas<'a>(&self, areas: impl IntoIterator<Item = &'a str>) {
        let mut tables = self.tables.write();
        if !tables.areas.add(areas) {
            return;
        }
        tables.rules.clear();
        self.renew_rules(&mut tables, |_| true);
        drop(tables);
        self.signal_change();
    }

    /// Compiles the rules of some identities again.
    fn renew_rules(&self, tables: &mut Tables, is_concerned: impl Fn(&Identity) -> bool) {
        let tokens: Vec<_> = tables.identities.values().map(|(_, identity)| identity.clone()).collect();
        let others = [&self.anonymous, &self.dns].into_iter().chain(self.certificates.values()).cloned();
        for identity in tokens.into_iter().chain(others).filter(|identity| is_concerned(identity)) {
            let rules = tables.rules(identity.policies());
            identity.set_rules(rules);
        }
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

    /// Looks for a secret that expired after `seen`, and returns the time of the next expiry, too.
    fn check_expirations(&self, seen: SystemTime, now: SystemTime) -> (bool, Option<SystemTime>) {
        let tables = self.tables.read();
        let secrets = || tables.tokens.values().flat_map(|token| &token.secrets);
        let times = || secrets().filter_map(|(_, facts)| facts.expires_at);
        (times().any(|time| seen < time && time <= now), times().filter(|time| *time > now).min())
    }

    /// The accessors of the expired tokens.
    #[must_use]
    pub fn expired_tokens(&self, now: SystemTime) -> Vec<String> {
        let tables = self.tables.read();
        let is_over = |(_, facts): &(Hash, TokenFacts)| facts.expires_at.is_some_and(|at| at <= now);
        let expired = tables.tokens.iter().filter(|(_, token)| token.secrets.first().is_some_and(is_over));
        expired.map(|(accessor, _)| accessor.clone()).collect()
    }

    /// The accessors of the tokens that this process has seen in use, with the time of the last use, in seconds since
    /// 1970.
    #[must_use]
    pub fn token_uses(&self) -> Vec<(String, u64)> {
        let tables = self.tables.read();
        let uses = tables.tokens.iter().map(|(accessor, token)| (accessor, token.used.load(Ordering::Relaxed)));
        uses.filter(|(_, used)| *used > 0).map(|(accessor, used)| (accessor.clone(), used)).collect()
    }

    /// Whether a secret of this token, which is to be written, is that of another token. It would hold for neither.
    #[must_use]
    pub fn takes_secret(&self, accessor: &str, token: &data::Token) -> bool {
        let tables = self.tables.read();
        read(accessor, token).iter().any(|(hash, _)| tables.is_of_others(hash, accessor))
    }

    /// The accessors of the tokens that name a policy, sorted.
    #[must_use]
    pub fn tokens_with(&self, policy: &str) -> Vec<String> {
        let tables = self.tables.read();
        let names = |(_, facts): &(Hash, TokenFacts)| facts.policies.iter().any(|name| name == policy);
        let found = tables.tokens.iter().filter(|(_, token)| token.secrets.first().is_some_and(names));
        let mut found: Vec<_> = found.map(|(accessor, _)| accessor.clone()).collect();
        found.sort_unstable();
        found
    }

    /// The settings that name a policy.
    #[must_use]
    pub fn settings_with(&self, policy: &str) -> Vec<String> {
        let fixed = [("acl.anonymous_policies", &self.anonymous), ("acl.dns_policies", &self.dns)];
        let fixed = fixed.into_iter().filter(|(_, identity)| identity.has(policy)).map(|(name, _)| name.to_owned());
        let certificates = self.certificates.iter().filter(|(_, identity)| identity.has(policy));
        let mut found: Vec<_> = certificates.map(|(name, _)| format!("acl.certificates.{name}")).collect();
        found.sort_unstable();
        fixed.chain(found).collect()
    }

    /// The faults of the stored policies, `policy NAME: FAULT`, sorted.
    #[must_use]
    pub fn policy_faults(&self) -> Vec<String> {
        let tables = self.tables.read();
        let fault = |(name, policy): (&String, &Arc<Policy>)| {
            policy.fault(&tables.areas).map(|fault| format!("policy {name}: {}", fault.text))
        };
        let mut faults: Vec<_> = tables.policies.iter().filter_map(fault).collect();
        faults.sort_unstable();
        faults
    }

    /// The policies that the settings name and that do not exist, each once.
    #[must_use]
    pub fn missing_policies(&self) -> Vec<String> {
        let tables = self.tables.read();
        let callers = [&self.anonymous, &self.dns].into_iter().chain(self.certificates.values());
        let named = callers.flat_map(|identity| identity.policies());
        let is_missing = |name: &&String| *name != GLOBAL_MANAGEMENT && !tables.policies.contains_key(*name);
        let mut missing: Vec<_> = named.filter(is_missing).cloned().collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// The identity of a token's holder, by accessor, for questions about it; `None` if the token does not exist.
    #[must_use]
    pub fn identity_of_token(&self, accessor: &str) -> Option<Arc<Identity>> {
        let tables = self.tables.read();
        let (_, facts) = tables.tokens.get(accessor)?.secrets.first()?;
        let rules = Arc::new(tables.compile(&facts.policies, None));
        Some(Arc::new(Identity::from_token(facts.clone(), rules, Arc::default())))
    }

    /// The identity of a holder of policies, for questions about it.
    #[must_use]
    pub fn identity_of_policies(&self, policies: &[String]) -> Arc<Identity> {
        let rules = Arc::new(self.tables.read().compile(policies, None));
        Arc::new(Identity::named(format!("holder of {}", policies.join(", ")), policies.to_vec(), rules))
    }
}

/// Longest time between two looks for expired tokens.
const MAX_EXPIRY_WAIT: Duration = Duration::from_secs(1);

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
