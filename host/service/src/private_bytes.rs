//! What plugins keep for single resources: type `mortise.v1.PrivateBytes`, one for each plugin and resource.
//!
//! # Contract
//! They are resources, and as durable. Each is owned by the resource that it is for, and the reaper deletes it after
//! that one. The last write wins. Keeping something for a resource that is not there, or not in this incarnation, is
//! refused in the commit itself.
//!
//! # Limits
//! [`MAX_PRIVATE_BYTES`] each, and the quotas of stored resources.

use mortise_plugin_host::MAX_PRIVATE_BYTES;
use mortise_resource::{Code, Error, data, pb, types};
use mortise_store::{Batch, Consistency, Expectation, ExpectedId, Mutation, StoreError};
use prost::Message as _;
use sha2::{Digest as _, Sha256};

use crate::{ids, references::carry_out::RemovalError, service::ResourceService, store_fault::store_fault};

const TYPE_URL: &str = "type.googleapis.com/mortise.v1.PrivateBytes";

/// Attempts of a change that meets another one.
const ATTEMPTS: u32 = 10;

impl ResourceService {
    /// What a plugin keeps for a resource, in the incarnation that the id's uid names.
    ///
    /// # Errors
    /// Faults of the store.
    pub async fn private_bytes(&self, plugin: &str, of: &pb::Id) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.stored_private_bytes(plugin, of).await?.map(|resource| content(&resource)))
    }

    /// Keeps something for a resource.
    ///
    /// # Errors
    /// `NotFound`: the resource is not there in this incarnation. `ResourceExhausted`: more than 64 KiB, or a quota.
    /// `Aborted`: a conflict in each of ten attempts. Faults of the store.
    pub async fn set_private_bytes(&self, plugin: &str, of: &pb::Id, value: Vec<u8>) -> Result<(), Error> {
        if value.len() > MAX_PRIVATE_BYTES {
            let text = format!("at most {MAX_PRIVATE_BYTES} private bytes, got: {}; keep less", value.len());
            return Err(Error::new(Code::ResourceExhausted, text));
        }
        for _ in 0..ATTEMPTS {
            let mut resource = fresh(plugin, of, value.clone());
            if let Some(stored) = self.stored_private_bytes(plugin, of).await.map_err(|e| failed(&e))? {
                (resource.id, resource.version) = (stored.id, stored.version);
            }
            let expect = vec![Expectation { id: ExpectedId::from(of), generation: None, is_unmarked: false }];
            let batch = Batch { expect, ..Batch::single(Mutation::Put(Box::new(resource))).limited() };
            match self.backend.commit(batch).await {
                Ok(_) => return Ok(()),
                Err(StoreError::CasFailure { .. } | StoreError::WrongUid) => {}
                Err(StoreError::ExpectationFailed { .. }) => {
                    return Err(Error::not_found(format!("{} is not there (any more)", types::describe(of))));
                }
                Err(e) => return Err(failed(&e)),
            }
        }
        Err(Error::new(Code::Aborted, "its private bytes keep changing; try again"))
    }

    /// Keeps nothing for a resource any more.
    ///
    /// # Errors
    /// Faults of the store, and a conflict in each of ten attempts.
    pub async fn remove_private_bytes(&self, plugin: &str, of: &pb::Id) -> Result<(), Error> {
        match self.stored_private_bytes(plugin, of).await.map_err(|e| failed(&e))? {
            Some(stored) => {
                let id = stored.id.unwrap_or_default();
                self.delete_unchecked(&id).await.map(drop).map_err(|e| match e {
                    RemovalError::Store(e) => failed(&e),
                    RemovalError::Refused(error) => error,
                })
            }
            None => Ok(()),
        }
    }

    async fn stored_private_bytes(&self, plugin: &str, of: &pb::Id) -> Result<Option<pb::Resource>, StoreError> {
        match self.backend.read(Consistency::Consistent, &id(plugin, of)).await {
            Ok(resource) => Ok(Some(resource)),
            Err(StoreError::NotFound) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Private bytes that are not stored yet.
pub(crate) fn fresh(plugin: &str, of: &pb::Id, value: Vec<u8>) -> pb::Resource {
    let content = data::PrivateBytes { plugin: plugin.to_owned(), value };
    pb::Resource {
        id: Some(pb::Id { uid: ids::ulid(), ..id(plugin, of) }),
        owner: Some(of.clone()),
        generation: ids::ulid(),
        data: Some(prost_types::Any { type_url: TYPE_URL.into(), value: content.encode_to_vec() }),
        ..pb::Resource::default()
    }
}

fn content(resource: &pb::Resource) -> Vec<u8> {
    let bytes = resource.data.as_ref().map(|any| any.value.as_slice()).unwrap_or_default();
    data::PrivateBytes::decode(bytes).unwrap_or_default().value
}

/// Their id: the digest of the plugin's name and the resource's uid.
fn id(plugin: &str, of: &pb::Id) -> pb::Id {
    let digest = Sha256::new().chain_update(plugin).chain_update([0]).chain_update(&of.uid).finalize();
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
