//! The methods that are served, by the host's descriptors.

use mortise_text::schema::{RpcDoc, Upload};
use prost_reflect::{DescriptorPool, MethodDescriptor, ServiceDescriptor};

/// The start of every path of an RPC.
pub(super) const PREFIX: &str = "/rpc/";

/// The package of the services that are served here.
const PACKAGE: &str = "mortise.v1";

/// Methods that are not served here, with the next step.
const UNSERVED: [(&str, &str); 1] =
    [("mortise.v1.ServerService.Backup", "a backup is a file, not JSON; take it with `mortise backup`")];

/// Media type of the body of an upload.
const COMPONENT_TYPE: &str = "application/wasm";

/// The header with the signature of a component: its `.minisig` file in base64.
pub(super) const SIGNATURE_HEADER: &str = "x-mortise-signature";

/// Parameters and headers of an upload, each with its place and its description.
pub(super) const UPLOAD_PARAMETERS: [(&str, &str, &str); 5] = [
    ("name", "query", "Name of the plugin."),
    ("named_by_manifest", "query", "Takes the name in the component's manifest: `true`, instead of `name`."),
    ("sha256", "query", "SHA-256 of the component in hexadecimal; required."),
    ("dry_run", "query", "Makes every check, and no change: `true`."),
    (SIGNATURE_HEADER, "header", "Signature of the component: its .minisig file in base64."),
];

/// The services, by name.
pub(super) fn services(pool: &DescriptorPool) -> impl Iterator<Item = ServiceDescriptor> {
    pool.services().filter(|service| service.package_name() == PACKAGE)
}

/// The method of a path.
pub(super) fn find(pool: &DescriptorPool, path: &str) -> Option<MethodDescriptor> {
    let (service, method) = path.strip_prefix(PREFIX)?.split_once('/')?;
    let service = pool.get_service_by_name(service).filter(|service| service.package_name() == PACKAGE)?;
    service.methods().find(|known| known.name() == method)
}

/// The next step in place of a method that is not served; `None` for all others.
pub(super) fn unserved(method: &MethodDescriptor) -> Option<&'static str> {
    UNSERVED.iter().find(|(name, _)| *name == method.full_name()).map(|(_, why)| *why)
}

/// The path of a method.
pub(super) fn path_of(method: &MethodDescriptor) -> String {
    format!("{PREFIX}{}/{}", method.parent_service().full_name(), method.name())
}

/// The methods for the OpenAPI document.
pub(in crate::http) fn documented(pool: &DescriptorPool) -> Vec<RpcDoc> {
    let methods = services(pool).flat_map(|service| service.methods().collect::<Vec<_>>());
    let upload = || Upload { media: COMPONENT_TYPE, parameters: UPLOAD_PARAMETERS.into() };
    let document = |method: MethodDescriptor| RpcDoc {
        path: path_of(&method),
        upload: method.is_client_streaming().then(upload),
        method,
    };
    methods.filter(|method| unserved(method).is_none()).map(document).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_has_its_path_and_unserved_ones_exist() {
        let pool = DescriptorPool::decode(mortise_resource::DESCRIPTORS).unwrap();
        let all: Vec<_> = services(&pool).flat_map(|service| service.methods().collect::<Vec<_>>()).collect();
        for (name, _) in UNSERVED {
            assert!(all.iter().any(|method| method.full_name() == name), "{name}");
        }
        assert!(all.iter().all(|method| find(&pool, &path_of(method)).is_some()));
        assert_eq!(documented(&pool).len(), all.len() - UNSERVED.len());
    }
}
