//! Addresses of providers.

/// The address of the provider, as configurations name it.
pub(super) const SOURCE: &str = "mortise.local/mortise/mortise";

/// The address of a provider: a host name, a namespace and a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) host: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// A text that is not the address of a provider.
#[derive(Debug, thiserror::Error)]
#[error("a source is HOST/NAMESPACE/TYPE with a dot in HOST, such as {SOURCE}")]
pub(super) struct SourceFormatError;

/// Reads an address.
pub(super) fn source(text: &str) -> Result<Source, SourceFormatError> {
    let part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    let host = |host: &str| host.contains('.') && host.split('.').all(part);
    match text.split('/').collect::<Vec<_>>().as_slice() {
        [first, namespace, name] if host(first) && part(namespace) && part(name) => {
            Ok(Source { host: (*first).to_owned(), namespace: (*namespace).to_owned(), name: (*name).to_owned() })
        }
        _ => Err(SourceFormatError),
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.host, self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_has_three_parts() {
        assert_eq!(source(SOURCE).unwrap().to_string(), SOURCE);
        for wrong in ["", "mortise", "a/b/c", "a.b/c", "a.b//c", "a.b/c/d/e", "a.b/C/d", "a.b/c/d_e", ".b/c/d"] {
            assert!(source(wrong).is_err(), "{wrong}");
        }
    }
}
