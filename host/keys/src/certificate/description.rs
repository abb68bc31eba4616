//! The claims of a certificate.

use std::{fmt, net::IpAddr};

use jiff::Timestamp;
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use x509_parser::{
    certificate::X509Certificate,
    extensions::GeneralName,
    nom,
    prelude::{FromDer as _, X509Error},
};

/// Seconds of a day.
const DAY: i64 = 24 * 60 * 60;

/// The bytes are not a certificate.
#[derive(Debug, thiserror::Error)]
#[error("not an X.509 certificate: {0}")]
pub struct MalformedCertificate(#[source] nom::Err<X509Error>);

/// The claims of a certificate; none of them is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The subject's distinguished name, such as `O=Example, CN=server`; may be empty.
    pub subject: String,
    /// The first common name of the subject.
    pub common_name: Option<String>,
    /// DNS names among the subject's alternative names, wildcards such as `*.example.org` included.
    pub dns_names: Vec<String>,
    /// Addresses among the subject's alternative names.
    pub addresses: Vec<IpAddr>,
    /// URIs among the subject's alternative names, such as SPIFFE ids.
    pub uris: Vec<String>,
    /// The issuer's distinguished name.
    pub issuer: String,
    /// The serial number: hexadecimal bytes joined by colons.
    pub serial: String,
    /// Start of validity, seconds since 1970.
    pub not_before: i64,
    /// End of validity, seconds since 1970.
    pub not_after: i64,
    /// Whether the certificate may issue others.
    pub is_ca: bool,
    /// Whether the certificate constrains the names of those that it issues.
    pub constrains_names: bool,
    /// Most authorities between the certificate and a leaf; `None` for any number.
    pub path_length: Option<u32>,
}

/// The validity of a certificate at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// Valid.
    Valid,
    /// Valid in the future.
    NotYet,
    /// Expired.
    Expired,
}

impl Validity {
    /// The validity in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::NotYet => "not yet valid",
            Self::Expired => "expired",
        }
    }
}

impl Certificate {
    /// Reads a certificate.
    ///
    /// # Errors
    /// [`MalformedCertificate`].
    pub fn parse(der: &[u8]) -> Result<Self, MalformedCertificate> {
        let (_, certificate) = X509Certificate::from_der(der).map_err(MalformedCertificate)?;
        let (mut dns_names, mut addresses, mut uris) = (Vec::new(), Vec::new(), Vec::new());
        // A broken or repeated extension counts as absent.
        if let Ok(Some(names)) = certificate.subject_alternative_name() {
            for name in &names.value.general_names {
                match name {
                    GeneralName::DNSName(name) => dns_names.push((*name).to_owned()),
                    GeneralName::IPAddress(bytes) => addresses.extend(address(bytes)),
                    GeneralName::URI(uri) => uris.push((*uri).to_owned()),
                    _ => {}
                }
            }
        }
        let common_name = certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
        Ok(Self {
            subject: certificate.subject().to_string(),
            common_name: common_name.map(str::to_owned),
            dns_names,
            addresses,
            uris,
            issuer: certificate.issuer().to_string(),
            serial: certificate.raw_serial_as_string(),
            not_before: certificate.validity().not_before.timestamp(),
            not_after: certificate.validity().not_after.timestamp(),
            is_ca: certificate.is_ca(),
            // A broken extension may constrain names.
            constrains_names: !matches!(certificate.name_constraints(), Ok(None)),
            path_length: match certificate.basic_constraints() {
                Ok(Some(constraints)) => constraints.value.path_len_constraint,
                Ok(None) | Err(_) => None,
            },
        })
    }

    /// Reads the first certificate of a PEM text.
    ///
    /// # Errors
    /// [`MalformedCertificate`], also for a text without a certificate.
    pub fn parse_pem(text: &str) -> Result<Self, MalformedCertificate> {
        let der = CertificateDer::from_pem_slice(text.as_bytes()).unwrap_or_else(|_| Vec::new().into());
        Self::parse(&der)
    }

    /// The names of a client: DNS names, URIs, then the common name, each once.
    #[must_use]
    pub fn identities(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in self.dns_names.iter().chain(&self.uris).chain(&self.common_name) {
            if !name.is_empty() && !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// All alternative names: DNS names, addresses, URIs.
    #[must_use]
    pub fn alternative_names(&self) -> Vec<String> {
        let addresses = self.addresses.iter().map(ToString::to_string);
        self.dns_names.iter().cloned().chain(addresses).chain(self.uris.iter().cloned()).collect()
    }

    /// The certificate's name in messages: its subject, or its first alternative name if the subject is empty.
    #[must_use]
    pub fn label(&self) -> String {
        match self.subject.is_empty() {
            true => self.alternative_names().into_iter().next().unwrap_or_else(|| format!("serial {}", self.serial)),
            false => self.subject.clone(),
        }
    }

    /// The validity at the given time.
    #[must_use]
    pub fn validity(&self, now: Timestamp) -> Validity {
        match now.as_second() {
            now if now > self.not_after => Validity::Expired,
            now if now < self.not_before => Validity::NotYet,
            _ => Validity::Valid,
        }
    }

    /// Seconds until it expires; negative afterwards.
    #[must_use]
    pub fn seconds_left(&self, now: Timestamp) -> i64 {
        self.not_after.saturating_sub(now.as_second())
    }

    /// Whole days until it expires; negative afterwards.
    #[must_use]
    pub fn days_left(&self, now: Timestamp) -> i64 {
        self.seconds_left(now).div_euclid(DAY)
    }

    /// End of validity, formatted as `2027-11-23T04:05:06Z`.
    #[must_use]
    pub fn expiry(&self) -> impl fmt::Display + use<> {
        Date(self.not_after)
    }

    /// Start of validity, in the same form.
    #[must_use]
    pub fn start(&self) -> impl fmt::Display + use<> {
        Date(self.not_before)
    }
}

/// Seconds since 1970, formatted as a date. A year beyond 9999, impossible in a certificate, is shown as a number.
struct Date(i64);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_second(self.0) {
            Ok(time) => time.fmt(f),
            Err(_) => self.0.fmt(f),
        }
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::{Duration, SystemTime};

    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn parsed(change: impl FnOnce(&mut CertificateParams)) -> Certificate {
        let mut params = CertificateParams::new(vec!["a.test".to_owned(), "::1".to_owned()]).unwrap();
        change(&mut params);
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        Certificate::parse(certificate.der()).unwrap()
    }

    #[test]
    fn names_are_those_of_the_certificate_in_order() {
        let certificate = parsed(|params| {
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(DnType::OrganizationName, "Example");
            params.distinguished_name.push(DnType::CommonName, "robot");
            params.subject_alt_names.push(SanType::URI("spiffe://example.org/robot".try_into().unwrap()));
            params.subject_alt_names.push(SanType::DnsName("robot".try_into().unwrap()));
        });
        assert_eq!(certificate.subject, "O=Example, CN=robot");
        assert_eq!(certificate.identities(), ["a.test", "robot", "spiffe://example.org/robot"]);
        assert_eq!(certificate.alternative_names(), ["a.test", "robot", "::1", "spiffe://example.org/robot"]);
        assert!(!certificate.is_ca);
    }

    #[test]
    fn validity_has_both_ends() {
        let now = SystemTime::now();
        let certificate = parsed(|params| {
            params.not_before = (now - Duration::from_secs(60)).into();
            params.not_after = (now + Duration::from_secs(3 * 86_400 + 60)).into();
        });
        let time = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        assert_eq!(certificate.validity(time(certificate.not_before)), Validity::Valid);
        assert_eq!(certificate.validity(time(certificate.not_before - 1)), Validity::NotYet);
        assert_eq!(certificate.validity(time(certificate.not_after)), Validity::Valid);
        assert_eq!(certificate.validity(time(certificate.not_after + 1)), Validity::Expired);
        assert_eq!(certificate.days_left(Timestamp::try_from(now).unwrap()), 3);
        assert_eq!(certificate.days_left(time(certificate.not_after + 1)), -1);
    }

    #[test]
    fn bytes_that_are_none_are_refused() {
        for bytes in [&b""[..], b"\x30\x03\x02\x01\x01", b"no certificate"] {
            assert!(Certificate::parse(bytes).unwrap_err().to_string().starts_with("not an X.509 certificate: "));
        }
    }
}
