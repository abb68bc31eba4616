//! The identity of a caller.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::SystemTime,
};

use arc_swap::ArcSwap;
use mortise_resource::{
    Code, Error, IdRef,
    authorizer::{Authorizer, Effect, Names, Verb},
    pb,
};

use crate::rule_set::RuleSet;

/// A recognised caller. Its answers are as of now, even while a stream is open.
#[derive(Debug)]
pub struct Identity {
    /// The name in refusals.
    name: String,
    /// The token's name; empty for callers without a token.
    accessor: String,
    is_authenticated: bool,
    policies: Vec<String>,
    rules: ArcSwap<RuleSet>,
    expires_at: Option<SystemTime>,
    defaults: Option<pb::Tenancy>,
    gone: AtomicBool,
    /// Time of the token's last use, seconds since 1970.
    used: Arc<AtomicU64>,
}

/// The facts of a token that decide about its identity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TokenFacts {
    pub(crate) accessor: String,
    pub(crate) policies: Vec<String>,
    pub(crate) expires_at: Option<SystemTime>,
    pub(crate) defaults: Option<pb::Tenancy>,
}

impl Identity {
    /// Creates the identity of a caller that has proved its name in another way than by a token.
    pub(crate) fn named(name: String, policies: Vec<String>, rules: Arc<RuleSet>) -> Self {
        Self { is_authenticated: true, ..Self::unauthenticated(name, policies, rules) }
    }

    /// Creates the identity of callers without credentials.
    pub(crate) fn unauthenticated(name: String, policies: Vec<String>, rules: Arc<RuleSet>) -> Self {
        Self {
            name,
            accessor: String::new(),
            is_authenticated: false,
            policies,
            rules: ArcSwap::new(rules),
            expires_at: None,
            defaults: None,
            gone: AtomicBool::new(false),
            used: Arc::default(),
        }
    }

    pub(crate) fn from_token(facts: TokenFacts, rules: Arc<RuleSet>, used: Arc<AtomicU64>) -> Self {
        let TokenFacts { accessor, policies, expires_at, defaults } = facts;
        let name = format!("token with AccessorID '{accessor}'");
        Self {
            name,
            accessor,
            is_authenticated: true,
            policies,
            rules: ArcSwap::new(rules),
            expires_at,
            defaults,
            gone: AtomicBool::new(false),
            used,
        }
    }

    /// Notes a use of the token, in memory.
    pub(crate) fn note_use(&self) {
        let now = mortise_clock::date().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.used.store(now.as_secs(), Ordering::Relaxed);
    }

    /// The rules as of now.
    pub(crate) fn rules(&self) -> Arc<RuleSet> {
        self.rules.load_full()
    }

    /// Faults of the caller's policies.
    #[must_use]
    pub fn policy_faults(&self) -> Vec<String> {
        self.rules.load().faults.clone()
    }

    /// Names of the policies.
    #[must_use]
    pub fn policies(&self) -> &[String] {
        &self.policies
    }

    /// Time of the token's expiry; `None` for never.
    #[must_use]
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.expires_at
    }

    pub(crate) fn has(&self, policy: &str) -> bool {
        self.policies.iter().any(|held| held == policy)
    }

    pub(crate) fn set_rules(&self, rules: Arc<RuleSet>) {
        self.rules.store(rules);
    }

    pub(crate) fn invalidate(&self) {
        self.gone.store(true, Ordering::Release);
    }

    fn is_valid(&self) -> bool {
        !self.gone.load(Ordering::Acquire)
            && self.expires_at.is_none_or(|expires_at| mortise_clock::date() < expires_at)
    }
}

impl Authorizer for Identity {
    fn is_allowed(&self, permission: &str, name: &str) -> bool {
        self.is_valid() && self.rules.load().is_allowed(permission, name)
    }

    fn is_denied(&self, permission: &str, name: &str) -> bool {
        self.rules.load().is_denied(permission, name)
    }

    fn effect(&self, verb: Verb, id: IdRef<'_>, name: Option<&str>) -> Effect {
        match self.is_valid() {
            true => self.rules.load().effect(verb, id, name),
            false => Effect::Deny,
        }
    }

    fn allows_every(&self, verb: Verb, of: IdRef<'_>, permission: &str, names: Names<'_>) -> bool {
        self.is_valid() && self.rules.load().allows_every(verb, of, permission, names)
    }

    fn has_permissions(&self) -> bool {
        !self.policies.is_empty()
    }

    fn caller(&self) -> &str {
        &self.name
    }

    fn accessor(&self) -> &str {
        &self.accessor
    }

    fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    fn fingerprint(&self) -> u64 {
        // Fingerprints are keyed: strangers choose names, and decisions are cached under fingerprints.
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        KEYS.hash_one((self.rules.load().number, &self.name, self.is_valid()))
    }

    fn check_valid(&self) -> Result<(), Error> {
        match self.is_valid() {
            true => Ok(()),
            false => Err(unknown_token()),
        }
    }

    fn default_tenancy(&self) -> Option<&pb::Tenancy> {
        self.defaults.as_ref()
    }
}

/// The refusal of an unknown, deleted or expired token. The text is the same for all three, since the difference would
/// reveal too much.
pub(crate) fn unknown_token() -> Error {
    Error::new(
        Code::Unauthenticated,
        "ACL not found: the token is unknown, was deleted, or has expired; `mortise auth whoami` shows what a token is",
    )
}
