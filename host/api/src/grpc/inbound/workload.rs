//! The name of a workload, as proxies send it (`LINKERD2_PROXY_POLICY_WORKLOAD`): `{"ns":"NAMESPACE","pod":"WORKLOAD"}`
//! with `external_workload` as another word for `pod`, or `NAMESPACE:WORKLOAD`.

use mortise_resource::{Error, name};
use serde::Deserialize;

use crate::call::truncate;

/// Most bytes of a name.
const MAX_BYTES: usize = 4 << 10;

/// Most bytes of a wrong name that the error repeats.
const MAX_QUOTED_BYTES: usize = 300;

/// A workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WorkloadName {
    pub(super) namespace: String,
    pub(super) name: String,
}

#[derive(Deserialize)]
struct Token {
    ns: String,
    #[serde(alias = "external_workload")]
    pod: String,
}

impl WorkloadName {
    /// Parses a name.
    ///
    /// # Errors
    /// `InvalidArgument`, with the right forms.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let parsed = match text.len() <= MAX_BYTES {
            true if text.trim_start().starts_with('{') => {
                serde_json::from_str::<Token>(text).ok().map(|token| (token.ns, token.pod))
            }
            true => text.split_once(':').map(|(namespace, name)| (namespace.to_owned(), name.to_owned())),
            false => None,
        };
        match parsed.filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty()) {
            Some((namespace, name)) => Ok(Self { namespace, name }),
            None => {
                let form = r#"{"ns":"NAMESPACE","pod":"WORKLOAD"} or NAMESPACE:WORKLOAD"#;
                let fault = format!("{:?} is not a workload; write {form}", truncate(text, MAX_QUOTED_BYTES));
                Err(Error::invalid(format!("workload: {fault}")).with_violation("workload", fault))
            }
        }
    }

    /// Whether a resource can have this name.
    pub(super) fn is_possible(&self) -> bool {
        name::is_valid(&self.name) && name::is_valid(&self.namespace)
    }
}

/// Checks the number of a port.
///
/// # Errors
/// `InvalidArgument`.
pub(super) fn port_number(number: u32) -> Result<u16, Error> {
    u16::try_from(number).ok().filter(|port| *port > 0).ok_or_else(|| {
        let fault = format!("a port is a number from 1 to 65535, got {number}");
        Error::invalid(format!("port: {fault}")).with_violation("port", fault)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        for text in [
            r#"{"ns":"default", "pod":"web-1"}"#,
            r#"{"ns":"default","external_workload":"web-1","more":[1]}"#,
            "default:web-1",
        ] {
            let name = WorkloadName::parse(text).expect(text);
            assert_eq!((name.namespace.as_str(), name.name.as_str()), ("default", "web-1"), "{text}");
            assert!(name.is_possible());
        }
        assert!(!WorkloadName::parse("default:WEB").expect("a name").is_possible());
        let long = format!("default:{}", "a".repeat(MAX_BYTES));
        for wrong in ["", "web", ":web", "default:", "{", r#"{"ns":"default"}"#, r#"{"ns":1,"pod":"a"}"#, &long] {
            let fault = WorkloadName::parse(wrong).expect_err(wrong).message;
            assert!(fault.starts_with("workload: ") && fault.contains("NAMESPACE:WORKLOAD"), "{fault}");
        }
    }

    #[test]
    fn ports_are_numbers_of_ports() {
        assert_eq!((port_number(1).ok(), port_number(65_535).ok()), (Some(1), Some(65_535)));
        assert!(port_number(0).is_err() && port_number(65_536).is_err());
    }
}
