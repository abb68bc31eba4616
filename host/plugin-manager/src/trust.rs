//! Which components are loaded: one rule, [`TrustRules::judge`], for every way that a component comes.
//!
//! It is asked before anything of a component is compiled, and about the bytes that are compiled then. What it refuses
//! changes nothing but the condition `Loaded`.

use std::{collections::BTreeSet, sync::Arc};

use mortise_signature::{FileError, PublicKey, SignatureError, Verified};

use crate::load::stage::{Failure, Stage};

/// Which components are loaded. Part of config.toml.
#[derive(Debug, Clone, Default)]
pub struct TrustRules {
    /// Whose signatures count.
    pub keys: Vec<PublicKey>,
    /// Nothing else counts, but what is inside the binary.
    pub require_signed: bool,
    /// Every file of the folder is loaded.
    pub trust_folder: bool,
    /// SHA-256, in lower-case hexadecimal, of files that are loaded without a signature.
    pub pinned: BTreeSet<String>,
}

/// How a component comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// From the binary.
    Binary,
    /// From a file of the folder.
    Folder,
    /// From a caller who may install plugins.
    Caller,
    /// From the copies in data_dir, which holds what was accepted.
    Kept,
}

/// Why a component is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TrustDecision {
    Bundled,
    /// A trusted key signed it; the text is the signature.
    Signed(Verified, String),
    Installed,
    /// It serves, or served before.
    Served,
    Pinned,
    TrustedFolder,
}

impl TrustDecision {
    /// As the plugin's resource says it.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Bundled => "it is inside the binary".to_owned(),
            Self::Signed(Verified { key, comment }, _) => format!("signed by the key {key}: {comment}"),
            Self::Installed => "installed by a caller".to_owned(),
            Self::Served => "it was served before".to_owned(),
            Self::Pinned => "its SHA-256 is in plugins.pinned".to_owned(),
            Self::TrustedFolder => "plugins.trust_folder".to_owned(),
        }
    }

    /// The signature, to be kept with the component.
    pub(crate) fn signature(&self) -> Option<&str> {
        match self {
            Self::Signed(_, text) => Some(text),
            _ => None,
        }
    }
}

/// Why no signature speaks for a component.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignatureFault {
    #[error("it has no signature")]
    Missing,
    #[error(transparent)]
    Unreadable(#[from] Arc<FileError>),
    #[error(transparent)]
    Refused(#[from] SignatureError),
}

/// What is known of a component.
#[derive(Debug)]
pub(crate) struct TrustFacts<'f> {
    pub(crate) origin: Origin,
    pub(crate) digest: &'f str,
    /// Who signed it, with the signature.
    pub(crate) signed: Result<(Verified, String), SignatureFault>,
    /// It has the digest of a bundled plugin that is switched on.
    pub(crate) is_bundled: bool,
    /// A plugin that has not been removed by an operator serves it, or served it before.
    pub(crate) has_served: bool,
}

impl TrustRules {
    /// The rule.
    ///
    /// | where it comes from | `require_signed = false` | `require_signed = true` |
    /// |---|---|---|
    /// | the binary | yes | yes |
    /// | the folder | if it is signed, has served before, is pinned, or with `trust_folder` | if it is signed |
    /// | a caller who may install | yes | if it is signed |
    /// | the copies in data_dir | yes | if it is signed |
    ///
    /// Signed means: by one of `keys`, beside the component or kept with a copy of it. What has the digest of a bundled
    /// plugin that is switched on counts as from the binary. `mortise dev` has `trust_folder` unless it is set.
    pub(crate) fn verify(&self, facts: TrustFacts<'_>) -> Result<TrustDecision, Failure> {
        let unsigned = match facts.signed {
            _ if facts.is_bundled => return Ok(TrustDecision::Bundled),
            Ok((verified, signature)) => return Ok(TrustDecision::Signed(verified, signature)),
            Err(unsigned) => unsigned,
        };
        let refused = |reason, text| Err(Failure::new(Stage::Checking, reason, text));
        match facts.origin {
            _ if self.require_signed => refused(
                "NotSigned",
                format!(
                    "plugins.require_signed is set, and {unsigned}; sign it with one of plugins.trusted_keys (`mortise plugin sign`)"
                ),
            ),
            Origin::Binary => Ok(TrustDecision::Bundled),
            Origin::Caller => Ok(TrustDecision::Installed),
            Origin::Kept => Ok(TrustDecision::Served),
            Origin::Folder if facts.has_served => Ok(TrustDecision::Served),
            Origin::Folder if self.pinned.contains(facts.digest) => Ok(TrustDecision::Pinned),
            Origin::Folder if self.trust_folder => Ok(TrustDecision::TrustedFolder),
            Origin::Folder => refused(
                "NotTrusted",
                format!(
                    "the folder is not trusted, and {unsigned}; sign it with one of plugins.trusted_keys (`mortise plugin sign`), add its \
                     SHA-256 {} to plugins.pinned, install it (`mortise plugin install`), or set plugins.trust_folder",
                    facts.digest
                ),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "d1ge57";

    fn facts(origin: Origin) -> TrustFacts<'static> {
        let signed = Err(SignatureFault::Missing);
        TrustFacts { origin, digest: DIGEST, signed, is_bundled: origin == Origin::Binary, has_served: false }
    }

    fn signed(origin: Origin) -> TrustFacts<'static> {
        let verified = Verified { key: "K".into(), comment: "c".into() };
        TrustFacts { signed: Ok((verified, "text".into())), ..facts(origin) }
    }

    fn rules(require_signed: bool, trust_folder: bool, pinned: &[&str]) -> TrustRules {
        let pinned = pinned.iter().map(|digest| (*digest).to_owned()).collect();
        TrustRules { keys: Vec::new(), require_signed, trust_folder, pinned }
    }

    #[test]
    fn each_cell_of_the_table() {
        use Origin::{Binary, Caller, Folder, Kept};
        let reason = |rules: &TrustRules, facts| rules.verify(facts).map_err(|failure| failure.reason);
        let strict = rules(true, true, &[DIGEST]);
        let plain = rules(false, false, &["another"]);
        for rules in [&strict, &plain] {
            assert_eq!(reason(rules, facts(Binary)), Ok(TrustDecision::Bundled));
            assert_eq!(reason(rules, TrustFacts { is_bundled: true, ..facts(Kept) }), Ok(TrustDecision::Bundled));
            for origin in [Folder, Caller, Kept] {
                assert!(matches!(reason(rules, signed(origin)), Ok(TrustDecision::Signed(..))), "{origin:?}");
            }
        }
        for origin in [Folder, Caller, Kept] {
            let served = TrustFacts { has_served: true, ..facts(origin) };
            assert_eq!(reason(&strict, served), Err("NotSigned"), "{origin:?}");
        }
        assert_eq!(reason(&plain, facts(Caller)), Ok(TrustDecision::Installed));
        assert_eq!(reason(&plain, facts(Kept)), Ok(TrustDecision::Served));
        assert_eq!(reason(&plain, facts(Folder)), Err("NotTrusted"));
        assert_eq!(reason(&plain, TrustFacts { has_served: true, ..facts(Folder) }), Ok(TrustDecision::Served));
        assert_eq!(reason(&rules(false, false, &[DIGEST]), facts(Folder)), Ok(TrustDecision::Pinned));
        assert_eq!(reason(&rules(false, true, &[]), facts(Folder)), Ok(TrustDecision::TrustedFolder));
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let failure = rules(false, false, &[]).verify(facts(Origin::Folder)).unwrap_err();
        for part in ["it has no signature", "mortise plugin sign", DIGEST, "plugins.pinned", "plugins.trust_folder"] {
            assert!(failure.message.contains(part), "{part}: {}", failure.message);
        }
        let failure = rules(true, true, &[]).verify(facts(Origin::Caller)).unwrap_err();
        assert!(failure.message.contains("plugins.require_signed is set, and it has no signature"), "{failure:?}");
    }
}
