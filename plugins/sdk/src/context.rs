//! What a reconciler has to work with: resources here, the rest behind [`Context::cache`], [`Context::kv`] and their
//! like.

use std::time::Duration;

use mortise_resource::{data::UpdateRequest, goten::Meta, pb};
use prost::Message;

#[cfg(target_arch = "wasm32")]
use crate::host::Host as _;
use crate::{
    Failure, Kind, Typed,
    cache::Cache,
    envelope::Envelope,
    grants::{Files, Kv, PrivateBytes},
    host::AnyHost,
    http::Http,
    kind::Data,
    query::{self, Query},
    tcp::Tcp,
    typed::{typed, unreadable},
};

/// The host, as reconcilers, mappers and initializers see it; hooks of [`crate::ResourceType::import`] have of it what
/// was granted.
///
/// Resources go the way of every request: hooks, checks and events are the same as for any client. Ids need the whole
/// tenancy. Every call costs the host some work, so there is a limit on how many one reconcile makes.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    host: &'a AnyHost,
}

impl<'a> Context<'a> {
    /// For exports and tests.
    #[must_use]
    pub const fn new(host: &'a AnyHost) -> Self {
        Self { host }
    }

    /// Reads a resource; none if it is not there. With a uid in the id, only that incarnation counts.
    ///
    /// # Errors
    /// The host's, or that the resource holds something else than an `M`.
    pub fn read<M: Data>(&self, id: &pb::Id) -> Result<Option<Typed<M>>, Failure> {
        match self.host.read(&id.encode_to_vec()) {
            Ok(bytes) => Typed::stored(&bytes).map(Some),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Lists a type in a tenancy ([`crate::everywhere`] is all of them), names that begin with a prefix; an empty one
    /// is every name.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn list<M: Data>(
        &self,
        of: Kind<M>,
        tenancy: &pb::Tenancy,
        name_prefix: &str,
    ) -> Result<Vec<Typed<M>>, Failure> {
        typed(&self.host.list(of.to_pb(), tenancy.clone(), name_prefix)?)
    }

    /// Looks for resources of a type by what is in them, in a tenancy ([`crate::everywhere`] is all of them).
    pub fn query<M: Data>(&self, of: Kind<M>, tenancy: &pb::Tenancy) -> Query<'a, M> {
        Query::new(self.host, of, tenancy)
    }

    /// Changes fields of a resource to what they are in this one, and leaves the others; answers what is stored. What
    /// would change nothing is not written. One that was read is changed in the version that was read, or not at all
    /// ([`Failure::is_conflict`]).
    ///
    /// Paths are those of queries, such as `data.title` and `meta.labels`; in the key of a map a dot is `\\.`.
    ///
    /// # Errors
    /// The host's: [`Failure::INVALID`] for a path that leads nowhere.
    pub fn update<M: Data>(&self, resource: &Typed<M>, fields: &[&str]) -> Result<Typed<M>, Failure> {
        let resource = pb::Resource::decode(resource.to_bytes()?.as_slice()).map_err(|fault| unreadable(&fault))?;
        Typed::stored(&self.updated(resource, fields.iter().map(|field| (*field).to_owned()).collect())?)
    }

    /// Sets a label of a resource, or removes it. With a uid in the id, only that incarnation counts.
    ///
    /// # Errors
    /// The host's.
    pub fn label(&self, id: &pb::Id, key: &str, value: Option<&str>) -> Result<(), Failure> {
        let labels = value.map(|value| (key.to_owned(), value.to_owned())).into_iter().collect();
        let meta = Some(Box::new(Meta { labels, ..Meta::default() }));
        let resource = pb::Resource { id: Some(id.clone()), meta, ..pb::Resource::default() };
        self.updated(resource, vec![format!("meta.labels.{}", key.replace('.', "\\."))]).map(drop)
    }

    /// Changes fields; answers the resource as it is stored, encoded.
    fn updated(&self, resource: pb::Resource, paths: Vec<String>) -> Result<Vec<u8>, Failure> {
        /// The part of `mortise.v1.UpdateResponse` that is looked at.
        #[derive(Clone, PartialEq, prost::Message)]
        struct Updated {
            #[prost(bytes = "vec", tag = "1")]
            resource: Vec<u8>,
        }
        let update_mask = Some(prost_types::FieldMask { paths });
        let request = UpdateRequest { resource: Some(resource), update_mask, ..UpdateRequest::default() };
        let answer = self.host.update(&request.encode_to_vec())?;
        let updated =
            Updated::decode(answer.as_slice()).map_err(|fault| query::unreadable("UpdateResponse", &fault))?;
        Ok(updated.resource)
    }

    /// What a resource owns, whatever its type. The id must have a uid, as that of a resource that was read has.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn list_by_owner(&self, owner: &pb::Id) -> Result<Vec<pb::Resource>, Failure> {
        let owned = self.host.list_by_owner(&owner.encode_to_vec())?;
        owned.iter().map(|bytes| pb::Resource::decode(bytes.as_slice()).map_err(|fault| unreadable(&fault))).collect()
    }

    /// What a resource owns of one type.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn owned<M: Data>(&self, of: Kind<M>, owner: &pb::Id) -> Result<Vec<Typed<M>>, Failure> {
        let mut found = Vec::new();
        for bytes in self.host.list_by_owner(&owner.encode_to_vec())? {
            let resource = Envelope::read(&bytes).map_err(|fault| unreadable(&fault))?;
            if resource.of().is_some_and(|one| of.name().is(one)) {
                found.push(Typed::of_envelope(resource)?);
            }
        }
        Ok(found)
    }

    /// Creates or updates a resource; answers what is stored.
    ///
    /// A resource that was read is written over the version that was read, or not at all ([`Failure::is_conflict`]).
    /// One made by [`Typed::new`] takes whatever is there, but its owner.
    ///
    /// # Errors
    /// The host's.
    pub fn write<M: Data>(&self, resource: &Typed<M>) -> Result<Typed<M>, Failure> {
        Typed::stored(&self.host.write(&resource.to_bytes()?)?)
    }

    /// Deletes a resource: one with finalizers is marked, any other goes, with all that it owns. What is not there is
    /// deleted already. With a uid, only that incarnation counts.
    ///
    /// # Errors
    /// The host's.
    pub fn delete(&self, id: &pb::Id) -> Result<(), Failure> {
        self.host.delete(&id.encode_to_vec(), "")
    }

    /// Deletes a resource unless it changed since it was read.
    ///
    /// # Errors
    /// The host's; [`Failure::is_conflict`] if it changed.
    pub fn delete_unchanged<M>(&self, resource: &Typed<M>) -> Result<(), Failure> {
        self.host.delete(&resource.id().encode_to_vec(), resource.version())
    }

    /// Replaces the status under one key. [`crate::Status`] does that with care.
    ///
    /// # Errors
    /// The host's.
    pub fn write_status(&self, id: &pb::Id, key: &str, status: &pb::Status) -> Result<(), Failure> {
        self.host.write_status(&id.encode_to_vec(), "", key, &status.encode_to_vec()).map(drop)
    }

    /// Replaces the status under one key unless the resource changed since it was read.
    ///
    /// # Errors
    /// The host's; [`Failure::is_conflict`] if it changed.
    pub fn write_status_unchanged<M>(
        &self,
        resource: &Typed<M>,
        key: &str,
        status: &pb::Status,
    ) -> Result<(), Failure> {
        let id = resource.id().encode_to_vec();
        self.host.write_status(&id, resource.version(), key, &status.encode_to_vec()).map(drop)
    }

    /// What the controller's watches have seen.
    #[must_use]
    pub fn cache(&self) -> Cache<'a> {
        Cache::new(self.host)
    }

    /// The plugin's own durable values.
    #[must_use]
    pub fn kv(&self) -> Kv<'a> {
        Kv::new(self.host)
    }

    /// What the plugin keeps for a resource of a type that it may write. The id must have a uid, as that of a resource
    /// that was read has.
    #[must_use]
    pub fn private_bytes(&self, id: &pb::Id) -> PrivateBytes<'a> {
        PrivateBytes::new(self.host, id.encode_to_vec())
    }

    /// A directory that the operator granted, by the name that he gave it.
    #[must_use]
    pub fn files(&self, directory: &'a str) -> Files<'a> {
        Files::new(self.host, directory)
    }

    /// HTTP requests, to hosts that the operator granted.
    #[must_use]
    pub fn http(&self) -> Http<'a> {
        Http::new(self.host)
    }

    /// Connections, to hosts and ports that the operator granted.
    #[must_use]
    pub fn tcp(&self) -> Tcp<'a> {
        Tcp::new(self.host)
    }

    /// A secret that the operator granted, as it is now.
    ///
    /// # Errors
    /// The host's: [`Failure::DENIED`] if it was not granted.
    pub fn secret(&self, name: &str) -> Result<Vec<u8>, Failure> {
        self.host.secret(name)
    }

    /// The time since the beginning of 1970, UTC, to the millisecond.
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_millis(self.host.now())
    }

    /// The time since some moment before the plugin was loaded; never goes back.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.host.elapsed())
    }

    /// Whether this reconcile should come to an end soon, in whatever way: a long one asks now and then.
    #[must_use]
    pub fn cancelled(&self) -> bool {
        self.host.cancelled()
    }
}
