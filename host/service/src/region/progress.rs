//! How far the copies of one type from one peer are: type `mortise.v1.RegionProgress`, stored in the same commit as the
//! copies that it covers. So neither is there without the other, whenever the server ends.

use mortise_resource::{
    Error,
    data::{HeldBack, HeldBackReason, RegionProgress},
    pb, types,
};
use mortise_store::{Consistency, Mutation, StoreError};
use prost::Message as _;
use sha2::{Digest as _, Sha256};

use super::copies::CopyChange;
use crate::{ids, service::ResourceService, store_fault::store_fault};

/// Resources that a progress names as held back.
pub const MAX_HELD_BACK: usize = 1_000;
/// Bytes of what is said of one.
const MAX_DETAIL: usize = 512;
const TYPE_URL: &str = "type.googleapis.com/mortise.v1.RegionProgress";

impl ResourceService {
    /// The progress of a type's copies from a peer; an empty one, if nothing was copied yet.
    ///
    /// # Errors
    /// Faults of the store.
    pub async fn region_progress(&self, peer: &str, of: &pb::Type) -> Result<RegionProgress, Error> {
        let stored = self.stored_progress(peer, of).await.map_err(|e| store_fault("failed read", &e))?;
        let fresh = || RegionProgress { peer: peer.to_owned(), r#type: Some(of.clone()), ..RegionProgress::default() };
        Ok(stored.as_ref().and_then(content).unwrap_or_else(fresh))
    }

    /// What stores a progress, over what is stored now.
    pub(super) async fn progress_mutation(&self, progress: &RegionProgress) -> Result<Mutation, StoreError> {
        let of = progress.r#type.clone().unwrap_or_default();
        let mut resource = match self.stored_progress(&progress.peer, &of).await? {
            Some(stored) => stored,
            None => {
                pb::Resource { id: Some(pb::Id { uid: ids::ulid(), ..id(&progress.peer, &of) }), ..Default::default() }
            }
        };
        resource.generation = ids::ulid();
        resource.data = Some(prost_types::Any { type_url: TYPE_URL.into(), value: progress.encode_to_vec() });
        Ok(Mutation::Put(Box::new(resource)))
    }

    async fn stored_progress(&self, peer: &str, of: &pb::Type) -> Result<Option<pb::Resource>, StoreError> {
        match self.backend.read(Consistency::Consistent, &id(peer, of)).await {
            Ok(stored) => Ok(Some(stored)),
            Err(StoreError::NotFound) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

fn content(resource: &pb::Resource) -> Option<RegionProgress> {
    RegionProgress::decode(resource.data.as_ref()?.value.as_slice()).ok()
}

/// Its id: the digest of the peer's name and the type, whose versions share one.
fn id(peer: &str, of: &pb::Type) -> pb::Id {
    let parts = [peer, &of.group, &of.kind];
    let digest = parts.into_iter().fold(Sha256::new(), |digest, part| digest.chain_update(part).chain_update([0]));
    pb::Id {
        uid: String::new(),
        // The precision is that of hexadecimal digits: 20 bytes.
        name: format!("r{:.40x}", digest.finalize()),
        r#type: Some(types::region_progress().to_pb()),
        tenancy: Some(pb::Tenancy::default()),
    }
}

/// Notes that a change is not applied, and why.
pub(super) fn hold_back(
    progress: &mut RegionProgress,
    change: &CopyChange,
    reason: HeldBackReason,
    mut detail: String,
) {
    let id = pb::Id { uid: String::new(), ..change.id() };
    progress.held_back.retain(|held| !is_same_name(held.id.as_ref(), &id));
    if progress.held_back.len() >= MAX_HELD_BACK {
        progress.held_back_more = true;
        return;
    }
    detail.truncate(detail.floor_char_boundary(MAX_DETAIL));
    progress.held_back.push(HeldBack { id: Some(id), reason: reason.into(), detail });
}

/// Whether what is held back has this name.
pub(super) fn is_same_name(held: Option<&pb::Id>, id: &pb::Id) -> bool {
    held.is_some_and(|held| held.name == id.name && held.tenancy == id.tenancy)
}
