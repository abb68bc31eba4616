//! Checks of writes of tokens and policies: each may grant only what its writer holds.

use mortise_resource::data;

use crate::{
    GLOBAL_MANAGEMENT,
    access::Access,
    grant::{self, GrantError},
    identity::Identity,
    policy::Policy,
    rule_set::RuleSet,
};

impl Access {
    /// Checks that a caller holds what a token grants, unless the write gives its holders nothing new: the secrets are
    /// those of `before`, and neither permissions nor the time of expiry grow.
    ///
    /// # Errors
    /// The caller lacks a permission, or a policy that the token names does not exist.
    pub fn check_token(
        &self,
        by: &Identity,
        before: Option<&data::Token>,
        token: &data::Token,
    ) -> Result<(), GrantError> {
        let held = by.rules();
        if held.management {
            return Ok(());
        }
        let tables = self.tables.read();
        let given = tables.compile(&token.policies, None);
        if let Some(before) = before.filter(|before| is_same_holder(before, token)) {
            // By name first: a policy that does not exist yet grants nothing now.
            let keeps = token.policies.iter().all(|name| before.policies.contains(name));
            let drops = before.policies.iter().any(|name| !token.policies.contains(name));
            if keeps && (!drops || grant::check(&given, &tables.compile(&before.policies, None)).is_ok()) {
                return Ok(());
            }
        }
        let exists = |name: &&String| *name == GLOBAL_MANAGEMENT || tables.policies.contains_key(*name);
        if let Some(name) = token.policies.iter().find(|name| !exists(name)) {
            return Err(GrantError::NotHeld(format!("policy {name}, which does not exist yet")));
        }
        grant::check(&given, &held)
    }

    /// Checks that a caller may have a client certificate with a name: it holds what the setting `acl.certificates`
    /// grants to that name.
    ///
    /// # Errors
    /// The caller lacks a permission.
    pub fn check_certificate(&self, by: &Identity, name: &str) -> Result<(), GrantError> {
        let held = by.rules();
        match self.certificate_named(name) {
            Some(named) if !held.management => grant::check(&named.rules(), &held),
            Some(_) | None => Ok(()),
        }
    }

    /// Checks that a caller holds what a policy grants, and what the callers with the policy gain because it denies
    /// less than before. `None` stands for a policy that does not exist.
    ///
    /// # Errors
    /// The caller lacks a permission.
    pub fn check_policy(
        &self,
        by: &Identity,
        name: &str,
        before: Option<&data::Policy>,
        now: Option<&data::Policy>,
    ) -> Result<(), GrantError> {
        let held = by.rules();
        let rules =
            |policy: Option<&data::Policy>| policy.map(|policy| (policy.rules.clone(), policy.type_rules.clone()));
        if held.management || rules(before) == rules(now) {
            return Ok(());
        }
        let tables = self.tables.read();
        let now = now.map(Policy::load);
        if let Some(now) = &now {
            grant::check(&RuleSet::new([(name, now)], &tables.areas, false), &held)?;
        }
        let before = before.map(Policy::load).unwrap_or_default();
        if let Some(fault) = before.fault(&tables.areas).filter(|fault| fault.may_deny) {
            return Err(GrantError::NotHeld(format!("what the stored policy may deny ({})", fault.text)));
        }
        let mut removed = Policy::default();
        let kept = now.clone().unwrap_or_default();
        let denies = before.type_rules.iter().filter(|rule| rule.deny && !kept.type_rules.contains(rule));
        removed.type_rules = denies.map(|rule| rule.allowing()).collect();
        let adds_allows = grant::adds_allows(&before.type_rules, &kept.type_rules);
        if removed.type_rules.is_empty() && before.area_rules == kept.area_rules && !adds_allows {
            return Ok(());
        }
        let removed = RuleSet::new([(name, &removed)], &tables.areas, false);
        for (names, in_use) in tables.rules.iter().filter(|(names, _)| names.iter().any(|one| one == name)) {
            let after = tables.compile(names, Some((name, now.as_ref())));
            grant::check_change(&removed, in_use, &after, &held)?;
        }
        Ok(())
    }
}

/// Compares a token with the one before: whether it adds no secret, and expires no later.
fn is_same_holder(before: &data::Token, token: &data::Token) -> bool {
    let known = |secret: &[u8]| secret.is_empty() || secret == before.secret_sha256;
    let time = |at: &Option<prost_types::Timestamp>| at.as_ref().map_or((i64::MAX, 0), |at| (at.seconds, at.nanos));
    let keeps_previous = token.previous_secret_sha256 == before.previous_secret_sha256
        && time(&token.previous_expires_at) <= time(&before.previous_expires_at);
    known(&token.secret_sha256)
        && (keeps_previous || known(&token.previous_secret_sha256))
        && time(&token.expires_at) <= time(&before.expires_at)
}
