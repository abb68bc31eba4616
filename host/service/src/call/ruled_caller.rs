//! The permissions of a caller, as an authorize hook asks for them. If a rule by type and place allows the request
//! itself, the caller has every permission that no rule by area, such as `key`, denies.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use mortise_resource::authorizer::Authorizer;

/// Part of the fingerprint while a rule by type and place allows the request.
const FINGERPRINT_SALT: u64 = 0x9e37_79b9_7f4a_7c15;

/// A caller, and whether a rule by type and place allows its request.
pub(crate) struct RuledCaller {
    caller: Arc<dyn Authorizer>,
    allows: AtomicBool,
}

impl RuledCaller {
    pub(crate) fn new(caller: Arc<dyn Authorizer>, allows: bool) -> Self {
        Self { caller, allows: AtomicBool::new(allows) }
    }

    /// Whether such a rule allows the current request.
    pub(crate) fn allows(&self) -> bool {
        self.allows.load(Ordering::Relaxed)
    }

    /// Sets whether such a rule allows the next request.
    pub(crate) fn set(&self, allows: bool) {
        self.allows.store(allows, Ordering::Relaxed);
    }
}

impl Authorizer for RuledCaller {
    fn is_allowed(&self, permission: &str, name: &str) -> bool {
        match self.allows() {
            true => !self.caller.is_denied(permission, name),
            false => self.caller.is_allowed(permission, name),
        }
    }

    fn is_denied(&self, permission: &str, name: &str) -> bool {
        self.caller.is_denied(permission, name)
    }

    fn caller(&self) -> &str {
        self.caller.caller()
    }

    fn fingerprint(&self) -> u64 {
        let of_caller = self.caller.fingerprint();
        if self.allows() { of_caller ^ FINGERPRINT_SALT } else { of_caller }
    }
}
