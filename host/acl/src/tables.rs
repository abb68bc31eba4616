//! The tables of tokens, policies and compiled rules.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicU64},
    time::SystemTime,
};

use mortise_resource::{data, pb};

use crate::{
    GLOBAL_MANAGEMENT,
    areas::Areas,
    identity::{Identity, TokenFacts},
    policy::{MAX_POLICIES, Policy},
    rule_set::RuleSet,
};

/// SHA-256 of a secret.
pub(crate) type Hash = [u8; 32];

/// A stored token.
#[derive(Debug, Clone)]
pub(crate) struct StoredToken {
    /// The facts by secret: of the present one, and of the one before a rotation, which expires earlier.
    pub(crate) secrets: Vec<(Hash, TokenFacts)>,
    /// Time of the last use, seconds since 1970; 0 if unknown.
    pub(crate) used: Arc<AtomicU64>,
}

/// The stored tokens and policies, and the identities and rules made from them.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// The stored tokens by accessor.
    pub(crate) tokens: HashMap<String, StoredToken>,
    /// Accessors of the tokens with a secret. A secret that several tokens share has no known owner and is rejected.
    owners: HashMap<Hash, Vec<String>>,
    /// Identities by the hash of a secret that exactly one token has.
    pub(crate) identities: HashMap<Hash, (TokenFacts, Arc<Identity>)>,
    pub(crate) policies: HashMap<String, Arc<Policy>>,
    /// Compiled rules by the sorted names of their policies.
    pub(crate) rules: HashMap<Vec<String>, Arc<RuleSet>>,
    pub(crate) areas: Areas,
}

impl Tables {
    /// The compiled rules of policies; compiles them if no other identity uses the same policies.
    pub(crate) fn rules(&mut self, names: &[String]) -> Arc<RuleSet> {
        let mut key = names.to_vec();
        key.sort();
        key.dedup();
        if let Some(rules) = self.rules.get(&key) {
            return rules.clone();
        }
        let rules = Arc::new(self.compile(&key, None));
        self.rules.insert(key, rules.clone());
        rules
    }

    /// Compiles the rules of policies, with another content of one of them, or without it.
    pub(crate) fn compile(&self, names: &[String], other: Option<(&str, Option<&Policy>)>) -> RuleSet {
        let management = names.iter().any(|name| name == GLOBAL_MANAGEMENT);
        let policy = |name: &String| match other {
            Some((replaced, policy)) if replaced == name => policy,
            _ => self.policies.get(name).map(|policy| &**policy),
        };
        let policies = names.iter().filter_map(|name| Some((name.as_str(), policy(name)?)));
        RuleSet::new(policies, &self.areas, management)
    }

    /// Stores a token, or removes it for an empty list. Returns whether identities changed.
    pub(crate) fn set_token(&mut self, accessor: &str, secrets: Vec<(Hash, TokenFacts)>) -> bool {
        let known = self.tokens.get(accessor);
        let used = known.map(|known| known.used.clone()).unwrap_or_default();
        let hashes = |secrets: &[(Hash, TokenFacts)]| secrets.iter().map(|(hash, _)| *hash).collect::<Vec<_>>();
        let before = known.map(|known| hashes(&known.secrets)).unwrap_or_default();
        let now = hashes(&secrets);
        match secrets.is_empty() {
            true => self.tokens.remove(accessor),
            false => self.tokens.insert(accessor.to_owned(), StoredToken { secrets, used }),
        };
        for hash in before.iter().filter(|hash| !now.contains(hash)) {
            if let Some(owners) = self.owners.get_mut(hash) {
                owners.retain(|owner| owner != accessor);
            }
        }
        for hash in now.iter().filter(|hash| !before.contains(hash)) {
            self.owners.entry(*hash).or_default().push(accessor.to_owned());
        }
        let gone = before.iter().filter(|hash| !now.contains(hash));
        let changed = gone.chain(&now).fold(false, |any, hash| any | self.refresh_identity(*hash));
        // The table holds one reference; rules without another belong to no identity.
        self.rules.retain(|_, rules| Arc::strong_count(rules) > 1);
        changed
    }

    /// Whether a secret belongs to other tokens, and not to this one.
    pub(crate) fn is_of_others(&self, hash: &Hash, accessor: &str) -> bool {
        self.owners.get(hash).is_some_and(|owners| !owners.is_empty() && owners.iter().all(|owner| owner != accessor))
    }

    /// Updates the identity of a secret, and returns whether it changed. An identity stays if the facts of its token
    /// are the same, as after a write of a status.
    fn refresh_identity(&mut self, hash: Hash) -> bool {
        let owner = match self.owners.get(&hash).map(Vec::as_slice) {
            Some([one]) => self.tokens.get(one).and_then(|token| {
                let facts = token.secrets.iter().find(|(own, _)| *own == hash);
                facts.map(|(_, facts)| (facts.clone(), token.used.clone()))
            }),
            _ => None,
        };
        if self.owners.get(&hash).is_some_and(Vec::is_empty) {
            self.owners.remove(&hash);
        }
        let before = self.identities.remove(&hash);
        let changed = before.as_ref().map(|(facts, _)| facts) != owner.as_ref().map(|(facts, _)| facts);
        match (owner, before) {
            (Some(_), Some(before)) if !changed => {
                self.identities.insert(hash, before);
            }
            (owner, before) => {
                if let Some((_, identity)) = before {
                    identity.invalidate();
                }
                if let Some((facts, used)) = owner {
                    let rules = self.rules(&facts.policies);
                    let identity = Arc::new(Identity::from_token(facts.clone(), rules, used));
                    self.identities.insert(hash, (facts, identity));
                }
            }
        }
        changed
    }
}

/// Reads secrets and facts of a token; an unusable one has none.
pub(crate) fn read(accessor: &str, token: &data::Token) -> Vec<(Hash, TokenFacts)> {
    let Ok(hash) = Hash::try_from(token.secret_sha256.as_slice()) else { return Vec::new() };
    if token.policies.len() > MAX_POLICIES {
        return Vec::new();
    }
    // A time that `SystemTime` cannot represent counts as past.
    let time = |timestamp: Option<prost_types::Timestamp>| {
        timestamp.map(|timestamp| SystemTime::try_from(timestamp).unwrap_or(SystemTime::UNIX_EPOCH))
    };
    let defaults = pb::Tenancy { partition: token.partition.clone(), namespace: token.namespace.clone() };
    let facts = TokenFacts {
        accessor: accessor.to_owned(),
        policies: token.policies.clone(),
        expires_at: time(token.expires_at),
        defaults: (defaults != pb::Tenancy::default()).then_some(defaults),
    };
    let previous = Hash::try_from(token.previous_secret_sha256.as_slice()).ok().filter(|previous| *previous != hash);
    let previous = previous.zip(time(token.previous_expires_at)).map(|(previous, until)| {
        let until = facts.expires_at.map_or(until, |expires| expires.min(until));
        (previous, TokenFacts { expires_at: Some(until), ..facts.clone() })
    });
    [(hash, facts)].into_iter().chain(previous).collect()
}
