//! An issuer: certificate and key of the authority, and the certificates from it.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use mortise_keys::certificate::{Certificate, CertificateDer, PemFileError, Validity, read_certificates, read_key};
use rcgen::{
    CertificateParams, DistinguishedName, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PublicKeyData as _, SanType, SerialNumber, SubjectPublicKeyInfo,
};
use tokio_rustls::rustls::{
    self, RootCertStore,
    crypto::{CryptoProvider, ring},
    pki_types::UnixTime,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::CertifiedKey,
};

use super::{
    error::{AuthorityError, IssueError},
    options::{CERT_FILE, IdentityOptions},
};

/// Bytes of a serial number. The first bit is zero, since numbers are positive.
const SERIAL_BYTES: usize = 16;

/// First label of the trial certificate's name.
const TRIAL: &str = "mortise-trial";

/// The content of the files.
pub(super) struct LoadedIssuer {
    issuer: Issuer<'static, KeyPair>,
    pub(super) certificate: Certificate,
    /// The authorities between a leaf and the trust anchor, in DER; the issuer first.
    pub(super) intermediates: Vec<Vec<u8>>,
    verifier: Arc<dyn ClientCertVerifier>,
    provider: Arc<CryptoProvider>,
    lifetime: Duration,
    clock_allowance: Duration,
}

/// An issued certificate.
pub(super) struct Leaf {
    pub(super) der: Vec<u8>,
    /// Serial number: hexadecimal bytes joined by colons.
    pub(super) serial: String,
    pub(super) not_after: SystemTime,
}

impl LoadedIssuer {
    /// Reads the files, and makes a trial certificate. Blocks.
    ///
    /// # Errors
    /// [`AuthorityError`].
    pub(super) fn read(options: &IdentityOptions) -> Result<Self, AuthorityError> {
        let IdentityOptions { cert_file: path, key_file, trust_domain, lifetime, clock_allowance, .. } = options;
        let provider = Arc::new(ring::default_provider());
        let chain = read_certificates(path).map_err(|source| AuthorityError::File { setting: CERT_FILE, source })?;
        let malformed = |source| AuthorityError::Malformed { path: path.clone(), source };
        let described: Vec<_> =
            chain.iter().map(|der| Certificate::parse(der)).collect::<Result<_, _>>().map_err(malformed)?;
        let (Some(certificate), Some(der)) = (described.first().cloned(), chain.first().cloned()) else {
            let source = PemFileError::NoCertificate { path: path.clone() };
            return Err(AuthorityError::File { setting: CERT_FILE, source });
        };
        if !certificate.is_ca {
            return Err(AuthorityError::NotAuthority { path: path.clone() });
        }
        check_validity(path, &certificate)?;
        let key = certified_key(path, key_file, chain.clone(), &provider)?;
        let issuer = Issuer::from_ca_cert_der(&der, key);
        let issuer = issuer.map_err(|source| AuthorityError::Unusable { path: path.clone(), source })?;
        let intermediates = chain.iter().zip(&described).filter(|(_, described)| described.issuer != described.subject);
        let loaded = Self {
            issuer,
            certificate,
            intermediates: intermediates.map(|(der, _)| der.to_vec()).collect(),
            verifier: verifier(path, der, &provider)?,
            provider,
            lifetime: *lifetime,
            clock_allowance: *clock_allowance,
        };
        let refused = |source| AuthorityError::TrustDomain { path: path.clone(), domain: trust_domain.clone(), source };
        let trial = KeyPair::generate().map_err(|source| refused(source.into()))?;
        loaded.issue(&format!("{TRIAL}.{trust_domain}"), &trial.subject_public_key_info()).map_err(refused)?;
        Ok(loaded)
    }

    /// Issues a certificate for an identity with this public key (SubjectPublicKeyInfo in DER).
    ///
    /// # Errors
    /// [`IssueError`].
    pub(super) fn issue(&self, identity: &str, public_key: &[u8]) -> Result<Leaf, IssueError> {
        let now = SystemTime::now();
        let latest = timestamp(self.certificate.not_after);
        // Certificates have whole seconds.
        let wanted = (now + self.lifetime).duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let wanted = SystemTime::UNIX_EPOCH + Duration::from_secs(wanted.as_secs());
        let not_after = wanted.min(latest.into());
        if not_after <= now {
            return Err(IssueError::Expired(latest));
        }
        let mut serial = [0; SERIAL_BYTES];
        self.provider.secure_random.fill(&mut serial).map_err(|_| IssueError::Random)?;
        serial[0] = (serial[0] & 0x7f).max(1);
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        params.not_before = (now - self.clock_allowance).into();
        params.not_after = not_after.into();
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        params.subject_alt_names = vec![match identity.contains("://") {
            true => SanType::URI(identity.try_into()?),
            false => SanType::DnsName(identity.try_into()?),
        }];
        let leaf = params.signed_by(&SubjectPublicKeyInfo::from_der(public_key)?, &self.issuer)?;
        self.verifier.verify_client_cert(leaf.der(), &[], UnixTime::now()).map_err(IssueError::Refused)?;
        let serial = serial.map(|byte| format!("{byte:02x}")).join(":");
        Ok(Leaf { der: leaf.der().to_vec(), serial, not_after })
    }
}

/// The time of a certificate; the ends of time if it is beyond them.
fn timestamp(seconds: i64) -> Timestamp {
    let bound = if seconds > 0 { Timestamp::MAX } else { Timestamp::MIN };
    Timestamp::from_second(seconds).unwrap_or(bound)
}

fn check_validity(path: &Path, certificate: &Certificate) -> Result<(), AuthorityError> {
    match certificate.validity(Timestamp::now()) {
        Validity::Valid => Ok(()),
        Validity::Expired | Validity::NotYet => Err(AuthorityError::NotValid {
            path: path.to_owned(),
            from: timestamp(certificate.not_before),
            until: timestamp(certificate.not_after),
        }),
    }
}

/// The key; checks that it belongs to the first certificate.
fn certified_key(
    cert_file: &Path,
    key_file: &Path,
    chain: Vec<CertificateDer<'static>>,
    provider: &CryptoProvider,
) -> Result<KeyPair, AuthorityError> {
    let der = read_key(key_file).map_err(|source| AuthorityError::File { setting: "identity.key_file", source })?;
    let key = KeyPair::try_from(&der).map_err(|source| AuthorityError::Key { path: key_file.to_owned(), source })?;
    match CertifiedKey::from_der(chain, der, provider) {
        Ok(_) => Ok(key),
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err(AuthorityError::Mismatch { key: key_file.to_owned(), cert: cert_file.to_owned() })
        }
        Err(source) => Err(AuthorityError::Anchor { path: cert_file.to_owned(), source }),
    }
}

/// Verifies certificates as a client does, with the issuer as its trust anchor.
fn verifier(
    path: &Path,
    issuer: CertificateDer<'static>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, AuthorityError> {
    let mut roots = RootCertStore::empty();
    roots.add(issuer).map_err(|source| AuthorityError::Anchor { path: path.to_owned(), source })?;
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    builder.build().map_err(|source| AuthorityError::Verifier { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use rcgen::BasicConstraints;

    use super::*;

    #[test]
    fn a_certificate_ends_with_its_authority_at_the_latest() {
        let dir = tempfile::tempdir().unwrap();
        let (cert_file, key_file) = (dir.path().join("ca.pem"), dir.path().join("ca.key"));
        let key = KeyPair::generate().unwrap();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(now + 3_600);
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = SystemTime::UNIX_EPOCH.into();
        params.not_after = end.into();
        std::fs::write(&cert_file, params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        let end_of = |lifetime| {
            let options = IdentityOptions {
                cert_file: cert_file.clone(),
                key_file: key_file.clone(),
                trust_domain: "mesh.example".to_owned(),
                lifetime,
                clock_allowance: Duration::ZERO,
                rescan: Duration::from_secs(60),
            };
            let issuer = LoadedIssuer::read(&options).unwrap();
            issuer.issue("web.mesh.example", &key.subject_public_key_info()).unwrap().not_after
        };
        assert_eq!(end_of(Duration::from_secs(86_400)), end);
        assert!(end_of(Duration::from_secs(600)) < end);
    }
}
