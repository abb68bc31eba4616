//! Requests for certificates (PKCS#10), from strangers.

use x509_parser::{
    certification_request::X509CertificationRequest,
    cri_attributes::ParsedCriAttribute,
    extensions::{GeneralName, ParsedExtension},
    nom,
    oid_registry::{
        OID_EC_P256, OID_KEY_TYPE_EC_PUBLIC_KEY, OID_NIST_EC_P384, OID_PKCS1_RSAENCRYPTION, OID_SIG_ED25519,
    },
    prelude::{FromDer as _, X509Error},
    public_key::PublicKey,
    x509::SubjectPublicKeyInfo,
};

/// Most bytes of a request. One with an RSA key of 4,096 bits has a quarter.
pub const MAX_REQUEST_BYTES: usize = 8 << 10;

/// Bits of an RSA key, both included: weaker ones are refused by clients, and larger ones take long to verify.
const MIN_RSA_BITS: usize = 2_048;
const MAX_RSA_BITS: usize = 4_096;

/// The reason why a request is refused. Each text goes on after the name of the field.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The request is too large.
    #[error("has {0} bytes, and the limit is {MAX_REQUEST_BYTES}")]
    TooLarge(usize),
    /// The bytes are not a request.
    #[error("is not a certificate request in DER (PKCS#10): {0}")]
    Malformed(#[source] nom::Err<X509Error>),
    /// Other bytes follow.
    #[error("has {0} more bytes behind the certificate request; send the request alone")]
    Trailing(usize),
    /// The key is of another kind, or too small or large.
    #[error("has an unsupported key; use RSA ({MIN_RSA_BITS} to {MAX_RSA_BITS} bits), P-256, P-384 or Ed25519")]
    Key,
    /// The signature is wrong.
    #[error("has a signature that does not belong to its key; sign the request with the key in it: {0}")]
    Signature(#[source] X509Error),
    /// The request lacks an alternative name.
    #[error("asks for no alternative name; it has to ask for {0:?} alone")]
    NoName(String),
    /// Another name is requested.
    #[error("asks for the alternative name {got:?}; it has to ask for the identity {identity:?}")]
    OtherName {
        /// The requested name.
        got: String,
        /// The identity of the call.
        identity: String,
    },
    /// Several names are requested.
    #[error("asks for {got} alternative names; it has to ask for {identity:?} alone")]
    MoreNames {
        /// Number of requested names.
        got: usize,
        /// The identity of the call.
        identity: String,
    },
    /// The certificate of an authority is requested.
    #[error("asks for the certificate of an authority; leave the basic constraints out")]
    Authority,
    /// Another extension is requested.
    #[error("asks for the extension {0}; leave out all but the alternative name and the uses of the key")]
    Extension(String),
}

/// Checks a request for a certificate with one alternative name: `identity`, which is a URI if it has a scheme, and
/// otherwise a DNS name. Returns the public key (SubjectPublicKeyInfo in DER). The request's subject is ignored.
///
/// # Errors
/// [`RequestError`].
pub fn check_request(der: &[u8], identity: &str) -> Result<Vec<u8>, RequestError> {
    if der.len() > MAX_REQUEST_BYTES {
        return Err(RequestError::TooLarge(der.len()));
    }
    let (rest, request) = X509CertificationRequest::from_der(der).map_err(RequestError::Malformed)?;
    if !rest.is_empty() {
        return Err(RequestError::Trailing(rest.len()));
    }
    let key = &request.certification_request_info.subject_pki;
    if !is_supported(key) {
        return Err(RequestError::Key);
    }
    request.verify_signature().map_err(RequestError::Signature)?;
    check_names(&request, identity)?;
    Ok(key.raw.to_vec())
}

fn is_supported(key: &SubjectPublicKeyInfo<'_>) -> bool {
    let kind = &key.algorithm.algorithm;
    if *kind == OID_SIG_ED25519 {
        return true;
    }
    if *kind == OID_PKCS1_RSAENCRYPTION {
        let Ok(PublicKey::RSA(rsa)) = key.parsed() else { return false };
        return (MIN_RSA_BITS..=MAX_RSA_BITS).contains(&rsa.key_size());
    }
    let curve = key.algorithm.parameters.as_ref().and_then(|curve| curve.as_oid().ok());
    *kind == OID_KEY_TYPE_EC_PUBLIC_KEY && curve.is_some_and(|curve| curve == OID_EC_P256 || curve == OID_NIST_EC_P384)
}

/// Checks the requested extensions. Other attributes are ignored, since the certificate repeats none of them.
fn check_names(request: &X509CertificationRequest<'_>, identity: &str) -> Result<(), RequestError> {
    let mut names = Vec::new();
    for attribute in request.certification_request_info.iter_attributes() {
        let ParsedCriAttribute::ExtensionRequest(requested) = attribute.parsed_attribute() else { continue };
        for extension in &requested.extensions {
            match extension.parsed_extension() {
                ParsedExtension::SubjectAlternativeName(requested) => names.extend(&requested.general_names),
                ParsedExtension::BasicConstraints(constraints) if constraints.ca => {
                    return Err(RequestError::Authority);
                }
                ParsedExtension::BasicConstraints(_)
                | ParsedExtension::KeyUsage(_)
                | ParsedExtension::ExtendedKeyUsage(_)
                | ParsedExtension::SubjectKeyIdentifier(_) => {}
                _ => return Err(RequestError::Extension(extension.oid.to_id_string())),
            }
        }
    }
    let identity = identity.to_owned();
    match names.as_slice() {
        [] => Err(RequestError::NoName(identity)),
        [GeneralName::URI(uri)] if **uri == *identity && identity.contains("://") => Ok(()),
        [GeneralName::DNSName(name)] if **name == *identity && !identity.contains("://") => Ok(()),
        [GeneralName::URI(got) | GeneralName::DNSName(got)] => {
            Err(RequestError::OtherName { got: (*got).to_owned(), identity })
        }
        [other] => Err(RequestError::OtherName { got: other.to_string(), identity }),
        more => Err(RequestError::MoreNames { got: more.len(), identity }),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
        PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SanType,
    };

    use super::*;

    const IDENTITY: &str = "web.mesh.test";

    fn request(key: &KeyPair, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        params.serialize_request(key).unwrap().der().to_vec()
    }

    fn fault(der: &[u8]) -> String {
        check_request(der, IDENTITY).unwrap_err().to_string()
    }

    #[test]
    fn requests_for_the_identity_alone_are_taken_with_each_kind_of_key() {
        for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519] {
            let key = KeyPair::generate_for(algorithm).unwrap();
            let der = request(&key, &[IDENTITY], |params| {
                params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            });
            assert_eq!(check_request(&der, IDENTITY).unwrap(), rcgen::PublicKeyData::subject_public_key_info(&key));
        }
        let spiffe = "spiffe://mesh.test/web";
        let key = KeyPair::generate().unwrap();
        let der = request(&key, &[], |params| {
            params.subject_alt_names.push(SanType::URI(spiffe.try_into().unwrap()));
        });
        check_request(&der, spiffe).unwrap();
        assert!(fault(&der).contains("spiffe://mesh.test/web"));
    }

    /// Requests by openssl: `openssl req -new -newkey rsa:2048 -addext subjectAltName=DNS:web.mesh.test -outform DER`.
    #[test]
    fn weak_and_large_keys_are_refused() {
        check_request(include_bytes!("requests/rsa-2048.der"), IDENTITY).unwrap();
        check_request(include_bytes!("requests/rsa-4096.der"), IDENTITY).unwrap();
        for other in [&include_bytes!("requests/rsa-1024.der")[..], include_bytes!("requests/p521.der")] {
            assert!(fault(other).starts_with("has an unsupported key"), "{}", fault(other));
        }
    }

    #[test]
    fn other_names_are_refused_with_their_text() {
        let key = KeyPair::generate().unwrap();
        assert!(fault(&request(&key, &["api.mesh.test"], |_| ())).contains("api.mesh.test"));
        assert!(fault(&request(&key, &[IDENTITY, "api.mesh.test"], |_| ())).contains("asks for 2 alternative names"));
        assert!(fault(&request(&key, &[], |_| ())).contains("asks for no alternative name"));
        let twice = request(&key, &[IDENTITY], |params| {
            params.subject_alt_names.push(SanType::URI("spiffe://mesh.test/web".try_into().unwrap()));
        });
        assert!(fault(&twice).contains("asks for 2 alternative names"));
        // A DNS name that reads like a URI, and a URI that is a DNS name.
        let uri = request(&key, &[], |params| {
            params.subject_alt_names.push(SanType::URI(IDENTITY.try_into().unwrap()));
        });
        assert!(fault(&uri).contains("it has to ask for the identity"));
        let address = request(&key, &["192.0.2.1"], |_| ());
        assert!(fault(&address).contains("it has to ask for the identity"));
    }

    #[test]
    fn other_extensions_are_refused() {
        let key = KeyPair::generate().unwrap();
        let authority = request(&key, &[IDENTITY], |params| {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        });
        assert!(fault(&authority).contains("certificate of an authority"), "{}", fault(&authority));
        let other = request(&key, &[IDENTITY], |params| {
            params.custom_extensions.push(CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]));
        });
        assert!(fault(&other).contains("the extension 1.2.3.4"), "{}", fault(&other));
    }

    #[test]
    fn bytes_that_are_no_signed_request_are_refused() {
        let key = KeyPair::generate().unwrap();
        let good = request(&key, &[IDENTITY], |_| ());
        check_request(&good, IDENTITY).unwrap();
        let mut wrong = good.clone();
        *wrong.last_mut().unwrap() ^= 1;
        assert!(fault(&wrong).contains("signature that does not belong to its key"), "{}", fault(&wrong));
        let mut longer = good.clone();
        longer.extend([0; 3]);
        assert!(fault(&longer).contains("3 more bytes"));
        assert!(fault(&[0x30; 40]).contains("not a certificate request"));
        assert!(fault(b"").contains("not a certificate request"));
        assert!(fault(&vec![0; MAX_REQUEST_BYTES + 1]).contains("the limit is 8192"));
        for cut in 0..good.len() {
            check_request(good.get(..cut).unwrap(), IDENTITY).unwrap_err();
        }
    }
}
