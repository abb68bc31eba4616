//! Makes certificates: an authority, and those that it issues for servers and clients. All keys are P-256.

use std::{
    net::IpAddr,
    time::{Duration, SystemTime},
};

use mortise_keys::certificate::Certificate;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Validity of the authority in days: every client trusts it, and it is hard to replace.
const AUTHORITY_DAYS: u32 = 3_650;

/// Time before now at which certificates begin to be valid, for machines with slow clocks.
const CLOCK_SKEW: Duration = Duration::from_secs(60 * 60);

/// A certificate with its key, as PEM.
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// Certificate authority.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Unix time in seconds after which no certificate of the authority is valid.
    not_after: i64,
}

impl Authority {
    /// Makes a new authority. It may issue certificates, but no further authorities.
    pub(super) fn create(name: &str) -> Result<(Self, Pair), rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = params(name, AUTHORITY_DAYS, None);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?;
        let pair = Pair { certificate: certificate.pem(), key: key.serialize_pem() };
        let not_after = params.not_after.unix_timestamp();
        Ok((Self { issuer: Issuer::new(params, key), not_after }, pair))
    }

    /// Loads an existing authority. The key must belong to the certificate.
    pub(super) fn of(certificate: &str, key: &str, described: &Certificate) -> Result<Self, rcgen::Error> {
        let issuer = Issuer::from_ca_cert_pem(certificate, KeyPair::from_pem(key)?)?;
        Ok(Self { issuer, not_after: described.not_after })
    }

    /// Issues a certificate for a server with these names and addresses.
    pub(super) fn server(&self, hosts: &[String], days: u32) -> Result<Pair, rcgen::Error> {
        let mut params = params("mortise server", days, Some(self.not_after));
        for host in hosts {
            params.subject_alt_names.push(match host.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(host.as_str().try_into()?),
            });
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(params)
    }

    /// Issues a certificate for a client of this name.
    pub(super) fn client(&self, name: &str, days: u32) -> Result<Pair, rcgen::Error> {
        let mut params = params(name, days, Some(self.not_after));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params)
    }

    fn issue(&self, mut params: CertificateParams) -> Result<Pair, rcgen::Error> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// Parameters that all certificates share. The validity does not go beyond `latest`.
fn params(name: &str, days: u32, latest: Option<i64>) -> CertificateParams {
    let now = SystemTime::now();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = (now - CLOCK_SKEW).into();
    let wanted = now + DAY * days;
    let latest = latest.and_then(|latest| u64::try_from(latest).ok());
    let latest = latest.map_or(wanted, |latest| SystemTime::UNIX_EPOCH + Duration::from_secs(latest));
    params.not_after = wanted.min(latest).into();
    params
}
