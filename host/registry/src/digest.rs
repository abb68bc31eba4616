//! Digests as registries write them: `sha256:` and 64 hexadecimal digits. Other algorithms are refused, since nothing
//! here would verify them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

/// A text that is not such a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a digest; it is sha256: and 64 hexadecimal digits in lower case")]
pub struct DigestError(String);

impl Digest {
    /// Computes the digest of bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(format!("{:x}", Sha256::digest(bytes)))
    }

    /// The hexadecimal digits alone.
    #[must_use]
    pub fn hex(&self) -> &str {
        &self.0
    }

    /// The tag under which registries without the referrers API list what refers to this digest.
    #[must_use]
    pub fn fallback_tag(&self) -> String {
        format!("sha256-{}", self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let hex = text.strip_prefix("sha256:").filter(|hex| hex.len() == 64);
        let hex = hex.filter(|hex| hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
        hex.map(|hex| Self(hex.to_owned())).ok_or_else(|| DigestError(text.chars().take(100).collect()))
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sha_256_in_lower_case_is_one() {
        let empty = Digest::of(b"");
        let text = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(empty.to_string(), text);
        assert_eq!(text.parse(), Ok(empty.clone()));
        assert_eq!(empty.fallback_tag(), text.replace(':', "-"));
        for wrong in ["", "sha256:", "sha512:ab", &text.to_uppercase(), &text[..70], &format!("{text}0")] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }
}
