//! Requests to a service with the types that every server has.

use std::{io::Write as _, num::NonZeroU32, os::unix::fs::PermissionsExt as _, sync::Arc, sync::OnceLock};

use arc_swap::ArcSwap;
use mortise_keys::age::Identities;
use mortise_resource::pb;
use mortise_service::{Caller, Consistency, Options, Rates, ResourceService, registry::Registry};
use mortise_store::SledBackend;
use prost::Message as _;
use tokio::runtime::Runtime;

/// A service over an empty store in a temporary directory.
struct Server {
    runtime: Runtime,
    service: ResourceService,
}

fn server() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    let make = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        // The directory stays for as long as the process.
        let dir = tempfile::tempdir().ok()?.keep();
        let rate = NonZeroU32::MAX;
        let rates = Rates { reads: rate, writes: rate, caller_reads: rate, caller_writes: rate };
        let service = runtime.block_on(async {
            let store = SledBackend::open(mortise_store::Options::new(dir)).ok()?;
            let registry = Arc::new(ArcSwap::from_pointee(Registry::builtin().ok()?));
            Some(ResourceService::new(Arc::new(store), registry, Options { rates, ..Options::default() }))
        })?;
        Some(Server { runtime, service })
    };
    SERVER.get_or_init(make).as_ref()
}

/// Handles messages of requests; the first byte selects the method. Nothing is stored: `MutateAndValidate` does the
/// work of a write up to its commit.
pub fn requests(bytes: &[u8]) {
    let Some((which, message)) = bytes.split_first() else { return };
    let Some(Server { runtime, service }) = server() else { return };
    let caller = Caller::host(Consistency::Consistent);
    runtime.block_on(async {
        match which % 4 {
            0 => {
                if let Ok(request) = pb::WriteRequest::decode(message) {
                    let request = pb::MutateAndValidateRequest { resource: request.resource };
                    let _ = service.mutate_and_validate(&caller, request).await;
                }
            }
            1 => {
                if let Ok(request) = pb::ReadRequest::decode(message) {
                    let _ = service.read(&caller, request).await;
                }
            }
            2 => {
                if let Ok(request) = pb::ListRequest::decode(message) {
                    let _ = service.list(&caller, request).await;
                }
            }
            _ => {
                if let Ok(request) = pb::ListByOwnerRequest::decode(message) {
                    let _ = service.list(&caller, request).await;
                }
            }
        }
    });
}

/// Returns the identity of age that decrypts the encrypted seeds.
pub(crate) fn identities() -> Option<&'static Identities> {
    const IDENTITY: &str = "AGE-SECRET-KEY-1PQKRTJHPEXPEN9XQ9U7AYEV2ERPQGK8AK467688EM9JE0CNYCJDQL0HE3K";
    static IDENTITIES: OnceLock<Option<Identities>> = OnceLock::new();
    let make = || {
        let mut file = tempfile::NamedTempFile::new().ok()?;
        file.write_all(IDENTITY.as_bytes()).ok()?;
        file.as_file().set_permissions(std::fs::Permissions::from_mode(0o600)).ok()?;
        Identities::read(file.path()).ok()
    };
    IDENTITIES.get_or_init(make).as_ref()
}
