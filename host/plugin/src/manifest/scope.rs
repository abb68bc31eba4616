//! The scope of a type, from its declaration in the manifest or from Consul's option of its message.

use std::collections::HashMap;

use mortise_resource::{Scope, descriptors, manifest as wire, pb};
use prost::{DecodeError, Message};
use prost_reflect::{DescriptorPool, MessageDescriptor};

use crate::manifest::error::ManifestError;

/// Name of the option, as authors write it.
const OPTION: &str = "hashicorp.consul.resource.spec";

/// The used part of `google.protobuf.MessageOptions`.
#[derive(Clone, PartialEq, Message)]
struct Options {
    #[prost(message, optional, tag = "8500")]
    spec: Option<pb::ResourceTypeSpec>,
}

/// The options of all messages of a manifest, by message.
pub(crate) struct ScopeOptions(HashMap<String, Result<Options, DecodeError>>);

impl ScopeOptions {
    pub(crate) fn read(pool: &DescriptorPool) -> Self {
        let files = pool.files().map(|file| descriptors::message_options(&file.encode_to_vec()));
        Self(files.flatten().collect())
    }

    /// Decides the scope of a type from its declaration and the option of its message, which must agree.
    pub(crate) fn scope(&self, declared: i32, message: &MessageDescriptor) -> Result<Scope, ManifestError> {
        decide(declared, message.full_name(), self.0.get(message.full_name()))
    }
}

fn decide(declared: i32, name: &str, options: Option<&Result<Options, DecodeError>>) -> Result<Scope, ManifestError> {
    let fault = |fault: String| ManifestError::new(format!("the option {OPTION} of message {name} {fault}"));
    let options = options.map(Result::as_ref).transpose();
    let spec = options.map_err(|error| fault(format!("does not decode: {error}")))?.and_then(|options| options.spec);
    let option = match spec.map(|spec| (pb::Scope::try_from(spec.scope), spec.scope)) {
        None | Some((Ok(pb::Scope::Undefined), _)) => None,
        Some((Ok(pb::Scope::Cluster), _)) => Some(Scope::Cluster),
        Some((Ok(pb::Scope::Partition), _)) => Some(Scope::Partition),
        Some((Ok(pb::Scope::Namespace), _)) => Some(Scope::Namespace),
        Some((Err(_), number)) => return Err(fault(format!("has the scope {number}; give one of the enum's"))),
    };
    let declared = match wire::Scope::try_from(declared) {
        Ok(wire::Scope::Unspecified) => None,
        Ok(wire::Scope::Cluster) => Some(Scope::Cluster),
        Ok(wire::Scope::Partition) => Some(Scope::Partition),
        Ok(wire::Scope::Namespace) => Some(Scope::Namespace),
        Err(_) => return Err(required(name)),
    };
    match (declared, option) {
        (Some(declared), Some(option)) if declared != option => {
            Err(fault(format!("says {}, and the manifest {}; take out one of them", word(option), word(declared))))
        }
        (Some(scope), _) | (None, Some(scope)) => Ok(scope),
        (None, None) => Err(required(name)),
    }
}

fn required(name: &str) -> ManifestError {
    ManifestError::new(format!(
        "scope is required: cluster, partition or namespace, in the manifest or by the option {OPTION} of message {name}"
    ))
}

fn word(scope: Scope) -> &'static str {
    match scope {
        Scope::Cluster => "cluster",
        Scope::Partition => "partition",
        Scope::Namespace => "namespace",
        Scope::Undefined => "undefined",
    }
}

#[cfg(test)]
mod tests {
    use mortise_resource::descriptors::FileDescriptorSet;
    use prost::encoding::{bytes, message};

    use super::*;
    use crate::manifest::descriptors;

    /// A message with these bytes as its options.
    fn described(options: &[u8]) -> MessageDescriptor {
        let mut declared = Vec::new();
        bytes::encode(1, &b"Cart".to_vec(), &mut declared);
        bytes::encode(7, &options.to_vec(), &mut declared);
        let mut file = Vec::new();
        for (tag, content) in
            [(1, b"cart.proto".to_vec()), (2, b"shop".to_vec()), (4, declared), (12, b"proto3".to_vec())]
        {
            bytes::encode(tag, &content, &mut file);
        }
        descriptors::pool(&FileDescriptorSet { file: vec![file] }).unwrap().get_message_by_name("shop.Cart").unwrap()
    }

    fn option(scope: i32) -> MessageDescriptor {
        let spec = pb::ResourceTypeSpec { scope, ..pb::ResourceTypeSpec::default() };
        let mut options = Vec::new();
        message::encode(8500, &spec, &mut options);
        described(&options)
    }

    fn read(declared: i32, message: &MessageDescriptor) -> Result<Scope, ManifestError> {
        ScopeOptions::read(message.parent_pool()).scope(declared, message)
    }

    #[test]
    fn the_option_counts_without_a_declaration_and_must_agree_with_one() {
        let unspecified = wire::Scope::Unspecified.into();
        let fault = |declared, message: &MessageDescriptor| read(declared, message).unwrap_err().to_string();
        for (number, scope) in [(1, Scope::Cluster), (2, Scope::Partition), (3, Scope::Namespace)] {
            assert_eq!(read(unspecified, &option(number)).unwrap(), scope);
            assert_eq!(read(number, &described(&[])).unwrap(), scope);
            assert_eq!(read(number, &option(number)).unwrap(), scope);
            assert_eq!(read(number, &option(0)).unwrap(), scope);
        }
        let differs = fault(wire::Scope::Namespace.into(), &option(1));
        assert_eq!(
            differs,
            "the option hashicorp.consul.resource.spec of message shop.Cart says cluster, and the manifest namespace; \
             take out one of them"
        );
        for none in [described(&[]), option(0)] {
            assert!(fault(unspecified, &none).starts_with("scope is required: cluster, partition or namespace, in"));
        }
        assert!(fault(9, &option(1)).starts_with("scope is required"));
        assert!(fault(unspecified, &option(7)).ends_with("shop.Cart has the scope 7; give one of the enum's"));
        // The field 8500 with a number instead of a message.
        let malformed = fault(unspecified, &described(&[0xa0, 0x93, 0x04, 1]));
        assert!(malformed.contains("does not decode"), "{malformed}");
    }
}
