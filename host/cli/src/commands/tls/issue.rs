//! Makes certificates: an authority, and those that it issues for servers, clients and the authority for identities.
//! All keys are P-256.

use std::{
    net::IpAddr,
    time::{Duration, SystemTime},
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use mortise_keys::certificate::Certificate;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
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

/// A request for a certificate, with its key.
pub(super) struct SigningRequest {
    pub(super) der: Vec<u8>,
    pub(super) key_pem: String,
    /// The key in PKCS#8.
    pub(super) key_der: Vec<u8>,
}

impl SigningRequest {
    /// Asks for an identity: a URI if it has a scheme, and otherwise a DNS name. Makes a key, unless one is given in
    /// PEM.
    pub(super) fn new(identity: &str, key: Option<&str>) -> Result<Self, rcgen::Error> {
        let key = match key {
            Some(pem) => KeyPair::from_pem(pem)?,
            None => KeyPair::generate()?,
        };
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.subject_alt_names = vec![match identity.contains("://") {
            true => SanType::URI(identity.try_into()?),
            false => SanType::DnsName(identity.try_into()?),
        }];
        let der = params.serialize_request(&key)?.der().to_vec();
        Ok(Self { der, key_pem: key.serialize_pem(), key_der: key.serialize_der() })
    }
}

/// A certificate as PEM.
pub(super) fn pem(der: &[u8]) -> String {
    /// Bytes of a line: 64 characters.
    const LINE_BYTES: usize = 48;
    let lines = der.chunks(LINE_BYTES).map(|line| BASE64.encode(line) + "\n");
    format!("-----BEGIN CERTIFICATE-----\n{}-----END CERTIFICATE-----\n", lines.collect::<String>())
}

/// Certificate authority.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Unix time in seconds after which no certificate of the authority is valid.
    not_after: i64,
    /// Most authorities between this one and a leaf; `None` for any number.
    path_length: Option<u32>,
}

impl Authority {
    /// Makes a new authority. It may issue certificates, and authorities that issue no further ones.
    pub(super) fn create(name: &str) -> Result<(Self, Pair), rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = params(name, AUTHORITY_DAYS, None);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?;
        let pair = Pair { certificate: certificate.pem(), key: key.serialize_pem() };
        let not_after = params.not_after.unix_timestamp();
        Ok((Self { issuer: Issuer::new(params, key), not_after, path_length: Some(1) }, pair))
    }

    /// Loads an existing authority. The key must belong to the certificate.
    pub(super) fn of(certificate: &str, key: &str, described: &Certificate) -> Result<Self, rcgen::Error> {
        let issuer = Issuer::from_ca_cert_pem(certificate, KeyPair::from_pem(key)?)?;
        Ok(Self { issuer, not_after: described.not_after, path_length: described.path_length })
    }

    /// Whether the authority may issue another one.
    pub(super) fn allows_authorities(&self) -> bool {
        self.path_length != Some(0)
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

    /// Issues the authority for identities in a domain. Its key is in the reach of the server, so the certificate names
    /// all that the key may sign: leaves for TLS, with DNS names in the domain.
    pub(super) fn mesh(&self, domain: &str, days: u32) -> Result<Pair, rcgen::Error> {
        let mut params = params(&format!("mortise identities in {domain}"), days, Some(self.not_after));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let mut constraints = CustomExtension::from_oid_content(&NAME_CONSTRAINTS, name_constraints(domain));
        constraints.set_criticality(true);
        params.custom_extensions = vec![constraints];
        self.sign(params)
    }

    fn issue(&self, mut params: CertificateParams) -> Result<Pair, rcgen::Error> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Pair, rcgen::Error> {
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// The extension of name constraints (RFC 5280, 4.2.1.10).
const NAME_CONSTRAINTS: [u64; 4] = [2, 5, 29, 30];

/// Name constraints for DNS names in a domain, in DER: no addresses, and URIs with the domain as their host alone,
/// which rustls refuses altogether. rcgen has no constraints for URIs.
fn name_constraints(domain: &str) -> Vec<u8> {
    const SEQUENCE: u8 = 0x30;
    const DNS_NAME: u8 = 0x82;
    const URI: u8 = 0x86;
    const ADDRESS: u8 = 0x87;
    const PERMITTED: u8 = 0xa0;
    const EXCLUDED: u8 = 0xa1;
    let subtree = |tag, base: &[u8]| der(SEQUENCE, &der(tag, base));
    let permitted = [subtree(DNS_NAME, domain.as_bytes()), subtree(URI, domain.as_bytes())].concat();
    // An address and a mask of zeros: every address.
    let excluded = [subtree(ADDRESS, &[0; 8]), subtree(ADDRESS, &[0; 32])].concat();
    der(SEQUENCE, &[der(PERMITTED, &permitted), der(EXCLUDED, &excluded)].concat())
}

/// A value of DER.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let bytes = length.to_be_bytes();
    let significant = bytes.iter().copied().skip_while(|byte| *byte == 0).collect::<Vec<_>>();
    let mut out = vec![tag];
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => out.push(short),
        // At most eight bytes.
        _ => {
            out.push(0x80 | significant.len() as u8);
            out.extend(significant);
        }
    }
    out.extend_from_slice(content);
    out
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
