//! Rules for loading components: one function, [`TrustRules::verify`], for components of every origin.
//!
//! It is called before a component is compiled, with the bytes that are compiled then. A rejection changes only the
//! condition `Loaded`.

use std::{collections::BTreeSet, sync::Arc};

use mortise_keys::signature::{FileError, PublicKey, SignatureError, Verified};

use crate::load::stage::{Failure, Stage};

/// Rules for loading components. Part of config.toml.
#[derive(Debug, Clone, Default)]
pub struct TrustRules {
    /// Keys with trusted signatures.
    pub keys: Vec<PublicKey>,
    /// Whether components outside the binary need a signature.
    pub require_signed: bool,
    /// Whether files of the folder are loaded without a signature.
    pub load_unsigned: bool,
    /// SHA-256, in lower-case hexadecimal, of files that are loaded without a signature.
    pub pinned: BTreeSet<String>,
}

/// Origin of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The binary.
    Binary,
    /// A file of the folder.
    Folder,
    /// A caller who may install plugins.
    Caller,
    /// The copies in data_dir, which hold only accepted components.
    Kept,
}

/// Reasons for accepting a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TrustDecision {
    Bundled,
    /// A trusted key signed it; the bytes are the signature.
    Signed(Verified, Vec<u8>),
    Installed,
    /// It serves, or served before.
    Served,
    /// A caller installed it on another server that shares the store.
    Planned,
    Pinned,
    TrustedFolder,
}

impl TrustDecision {
    /// The text in the plugin's resource.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Bundled => "it is inside the binary".to_owned(),
            Self::Signed(Verified { key, comment }, _) => format!("signed by the key {key}: {comment}"),
            Self::Installed => "installed by a caller".to_owned(),
            Self::Served => "it was served before".to_owned(),
            Self::Planned => "installed by a caller on another server".to_owned(),
            Self::Pinned => "its SHA-256 is in plugins.pinned".to_owned(),
            Self::TrustedFolder => "plugins.load_unsigned".to_owned(),
        }
    }

    /// The signature to keep with the component.
    pub(crate) fn signature(&self) -> Option<&[u8]> {
        match self {
            Self::Signed(_, bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Reasons why a component has no valid signature.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignatureFault {
    #[error("it has no signature")]
    Missing,
    #[error(transparent)]
    Unreadable(#[from] Arc<FileError>),
    #[error(transparent)]
    Refused(#[from] SignatureError),
}

/// Known facts about a component.
#[derive(Debug)]
pub(crate) struct TrustFacts<'f> {
    pub(crate) origin: Origin,
    pub(crate) digest: &'f str,
    /// The signer, with the signature.
    pub(crate) signed: Result<(Verified, Vec<u8>), SignatureFault>,
    /// Whether it has the digest of an enabled bundled plugin.
    pub(crate) is_bundled: bool,
    /// Whether a plugin that no operator has removed serves it, or served it before.
    pub(crate) has_served: bool,
    /// True if a caller installed it on another server that shares the store.
    pub(crate) is_planned: bool,
}

impl TrustRules {
    /// Decides whether a component may be loaded:
    ///
    /// | origin | `require_signed = false` | `require_signed = true` |
    /// |---|---|---|
    /// | the binary | yes | yes |
    /// | the folder | if it is signed, has served before, was installed on another server of the same store, is pinned, or with `load_unsigned` | if it is signed |
    /// | a caller who may install | yes | if it is signed |
    /// | the copies in data_dir | yes | if it is signed |
    ///
    /// Signed means: by one of `keys`, beside the component or kept with a copy of it. A component with the digest of
    /// an enabled bundled plugin counts as from the binary. `mortise dev` has `load_unsigned` unless it is set.
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
            Origin::Folder if facts.is_planned => Ok(TrustDecision::Planned),
            Origin::Folder if self.pinned.contains(facts.digest) => Ok(TrustDecision::Pinned),
            Origin::Folder if self.load_unsigned => Ok(TrustDecision::TrustedFolder),
            Origin::Folder => refused(
                "NotTrusted",
                format!(
                    "the folder is not trusted, and {unsigned}; sign it with one of plugins.trusted_keys (`mortise plugin sign`), add its \
                     SHA-256 {} to plugins.pinned, install it (`mortise plugin install`), or set plugins.load_unsigned",
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
        TrustFacts {
            origin,
            digest: DIGEST,
            signed,
            is_bundled: origin == Origin::Binary,
            has_served: false,
            is_planned: false,
        }
    }

    fn signed(origin: Origin) -> TrustFacts<'static> {
        let verified = Verified { key: "K".into(), comment: "c".into() };
        TrustFacts { signed: Ok((verified, "text".into())), ..facts(origin) }
    }

    fn rules(require_signed: bool, load_unsigned: bool, pinned: &[&str]) -> TrustRules {
        let pinned = pinned.iter().map(|digest| (*digest).to_owned()).collect();
        TrustRules { keys: Vec::new(), require_signed, load_unsigned, pinned }
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
        let planned = TrustFacts { is_planned: true, ..facts(Folder) };
        assert_eq!(reason(&plain, planned), Ok(TrustDecision::Planned));
        assert_eq!(reason(&strict, TrustFacts { is_planned: true, ..facts(Folder) }), Err("NotSigned"));
        assert_eq!(reason(&rules(false, false, &[DIGEST]), facts(Folder)), Ok(TrustDecision::Pinned));
        assert_eq!(reason(&rules(false, true, &[]), facts(Folder)), Ok(TrustDecision::TrustedFolder));
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let failure = rules(false, false, &[]).verify(facts(Origin::Folder)).unwrap_err();
        for part in ["it has no signature", "mortise plugin sign", DIGEST, "plugins.pinned", "plugins.load_unsigned"] {
            assert!(failure.message.contains(part), "{part}: {}", failure.message);
        }
        let failure = rules(true, true, &[]).verify(facts(Origin::Caller)).unwrap_err();
        assert!(failure.message.contains("plugins.require_signed is set, and it has no signature"), "{failure:?}");
    }
}
