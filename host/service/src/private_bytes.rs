//! Private bytes of plugins for single resources: type `mortise.v1.PrivateBytes`, one for each plugin and resource.
//!
//! # Contract
//! Private bytes are resources, and as durable. Their owner is the resource that they belong to, and the reaper deletes
//! them after it. The last write wins. The commit itself refuses private bytes for a resource that does not exist in
//! this incarnation.
//!
//! # Limits
//! [`MAX_PRIVATE_BYTES`] for each resource, and the quotas of stored resources.

use mortise_plugin_host::MAX_PRIVATE_BYTES;
use mortise_resource::{Code, Error, data, pb, types};
use mortise_store::{Batch, Consistency, Expectation, ExpectedId, Mutation, StoreError};
use prost::Message as _;
use sha2::{Digest as _, Sha256};

use crate::{
    call::store_fault::store_fault,
    core::{Core, MAX_CAS_ATTEMPTS, ids},
    deletion::{Deletions, RemovalError},
};

const TYPE_URL: &str = "type.googleapis.com/mortise.v1.PrivateBytes";

/// Private bytes of plugins for single resources. Cheap to clone.
#[derive(Clone)]
pub struct PrivateBytes {
    core: Core,
    deletions: Deletions,
}

impl PrivateBytes {
    pub(crate) fn new(core: Core, deletions: Deletions) -> Self {
        Self { core, deletions }
    }

    /// Reads a plugin's private bytes for a resource, in the incarnation of the id's uid.
    ///
    /// # Errors
    /// Faults of the store.
    pub async fn get(&self, plugin: &str, owner: &pb::Id) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.stored(plugin, owner).await?.map(|resource| content(&resource)))
    }

    /// Stores a plugin's private bytes for a resource.
    ///
    /// # Errors
    /// `NotFound`: the resource does not exist in this incarnation. `ResourceExhausted`: more than 64 KiB, or a quota.
    /// `Aborted`: a conflict in each of ten attempts. Faults of the store.
    pub async fn set(&self, plugin: &str, owner: &pb::Id, value: Vec<u8>) -> Result<(), Error> {
        if value.len() > MAX_PRIVATE_BYTES {
            let text = format!("at most {MAX_PRIVATE_BYTES} private bytes, got: {}; keep less", value.len());
            return Err(Error::new(Code::ResourceExhausted, text));
        }
        for _ in 0..MAX_CAS_ATTEMPTS {
            let mut resource = fresh(plugin, owner, value.clone());
            if let Some(stored) = self.stored(plugin, owner).await.map_err(|e| failed(&e))? {
                (resource.id, resource.version) = (stored.id, stored.version);
            }
            let expect = vec![Expectation { id: ExpectedId::from(owner), generation: None, is_unmarked: false }];
            let batch = Batch { expect, ..Batch::single(Mutation::Put(Box::new(resource))).limited() };
            match self.core.backend.commit(batch).await {
                Ok(_) => return Ok(()),
                Err(StoreError::CasFailure { .. } | StoreError::WrongUid) => {}
                Err(StoreError::ExpectationFailed { .. }) => {
                    return Err(Error::not_found(format!("{} is not there (any more)", types::describe(owner))));
                }
                Err(e) => return Err(failed(&e)),
            }
        }
        Err(Error::new(Code::Aborted, "the private bytes of the resource keep changing; try again"))
    }

    /// Removes a plugin's private bytes for a resource.
    ///
    /// # Errors
    /// Faults of the store, and a conflict in each of ten attempts.
    pub async fn remove(&self, plugin: &str, owner: &pb::Id) -> Result<(), Error> {
        match self.stored(plugin, owner).await.map_err(|e| failed(&e))? {
            Some(stored) => {
                let id = stored.id.unwrap_or_default();
                self.deletions.delete_unchecked(&id).await.map(drop).map_err(|e| match e {
                    RemovalError::Store(e) => failed(&e),
                    RemovalError::Refused(error) => error,
                })
            }
            None => Ok(()),
        }
    }

    async fn stored(&self, plugin: &str, owner: &pb::Id) -> Result<Option<pb::Resource>, StoreError> {
        match self.core.backend.read(Consistency::Consistent, &id(plugin, owner)).await {
            Ok(resource) => Ok(Some(resource)),
            Err(StoreError::NotFound) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Makes private bytes that are not stored yet.
pub(crate) fn fresh(plugin: &str, owner: &pb::Id, value: Vec<u8>) -> pb::Resource {
    let content = data::PrivateBytes { plugin: plugin.to_owned(), value };
    pb::Resource {
        id: Some(pb::Id { uid: ids::ulid(), ..id(plugin, owner) }),
        owner: Some(owner.clone()),
        generation: ids::ulid(),
        data: Some(prost_types::Any { type_url: TYPE_URL.into(), value: content.encode_to_vec() }),
        ..pb::Resource::default()
    }
}

fn content(resource: &pb::Resource) -> Vec<u8> {
    let bytes = resource.data.as_ref().map(|any| any.value.as_slice()).unwrap_or_default();
    data::PrivateBytes::decode(bytes).unwrap_or_default().value
}

/// Returns their id: the digest of the plugin's name and the resource's uid.
fn id(plugin: &str, owner: &pb::Id) -> pb::Id {
    let digest = Sha256::new().chain_update(plugin).chain_update([0]).chain_update(&owner.uid).finalize();
    pb::Id {
        uid: String::new(),
        // The precision is that of hexadecimal digits: 20 bytes.
        name: format!("p{digest:.40x}"),
        r#type: Some(types::private_bytes().to_pb()),
        tenancy: Some(pb::Tenancy::default()),
    }
}

fn failed(error: &StoreError) -> Error {
    store_fault("failed to keep private bytes", error)
}
