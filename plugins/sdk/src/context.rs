//! Host access of a reconciler: resources here, the rest behind [`Context::cache`], [`Context::kv`] and the like.

use std::time::Duration;

use mortise_resource::{
    data::UpdateRequest,
    goten::{Lifecycle, Meta},
    pb,
    probes::Probes,
};
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

/// The host, for reconcilers, mappers and initializers. Hooks of [`crate::ResourceType::import`] get one with the
/// granted things alone.
///
/// Requests for resources take the same way as those of any client, with hooks, checks and events. Ids need the whole
/// tenancy. Every call costs the host some work, so the number of calls in one reconcile is limited.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    host: &'a AnyHost,
}

impl<'a> Context<'a> {
    /// Makes a context, for exports and tests.
    #[must_use]
    pub const fn new(host: &'a AnyHost) -> Self {
        Self { host }
    }

    /// Reads a resource; `None` if it does not exist. If the id has a uid, only that incarnation is read.
    ///
    /// # Errors
    /// The host's; or the resource holds another message than `M`.
    pub fn read<M: Data>(&self, id: &pb::Id) -> Result<Option<Typed<M>>, Failure> {
        match self.host.read(&id.encode_to_vec()) {
            Ok(bytes) => Typed::stored(&bytes).map(Some),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Lists resources of a type in a tenancy ([`crate::everywhere`] is all of them) with a prefix of the name; an
    /// empty one is every name.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub fn list<M: Data>(
        &self,
        of: Kind<M>,
        tenancy: &pb::Tenancy,
        name_prefix: &str,
    ) -> Result<Vec<Typed<M>>, Failure> {
        typed(&self.host.list(of.to_pb(), tenancy.clone(), name_prefix)?)
    }

    /// Searches resources of a type by their content, in a tenancy ([`crate::everywhere`] is all of them).
    pub fn query<M: Data>(&self, of: Kind<M>, tenancy: &pb::Tenancy) -> Query<'a, M> {
        Query::new(self.host, of, tenancy)
    }

    /// Copies the named fields from this resource to the stored one, and leaves its other fields; answers the stored
    /// resource. An update without a change is not written. A resource that was read is changed only in the version
    /// that was read ([`Failure::is_conflict`] otherwise).
    ///
    /// Paths are those of queries, such as `data.title` and `meta.labels`; in the key of a map a dot is `\\.`.
    ///
    /// # Errors
    /// The host's: [`Failure::INVALID`] for a path that names no field.
    pub fn update<M: Data>(&self, resource: &Typed<M>, fields: &[&str]) -> Result<Typed<M>, Failure> {
        let resource = pb::Resource::decode(resource.to_bytes()?.as_slice()).map_err(|fault| unreadable(&fault))?;
        Typed::stored(&self.updated(resource, fields.iter().map(|field| (*field).to_owned()).collect())?)
    }

    /// Sets a label of a resource, or removes it. If the id has a uid, only that incarnation is changed.
    ///
    /// # Errors
    /// The host's.
    pub fn label(&self, id: &pb::Id, key: &str, value: Option<&str>) -> Result<(), Failure> {
        let labels = value.map(|value| (key.to_owned(), value.to_owned())).into_iter().collect();
        let meta = Some(Box::new(Meta { labels, ..Meta::default() }));
        let resource = pb::Resource { id: Some(id.clone()), meta, ..pb::Resource::default() };
        self.updated(resource, vec![format!("meta.labels[{key:?}]")]).map(drop)
    }

    /// Protects a resource of the plugin's own types from deletion, or ends the protection
    /// (`meta.lifecycle.block_deletion`). If the id has a uid, only that incarnation is changed.
    ///
    /// # Errors
    /// The host's.
    pub fn block_deletion(&self, id: &pb::Id, block: bool) -> Result<(), Failure> {
        let lifecycle = Lifecycle { block_deletion: block, ..Lifecycle::default() };
        let meta = Some(Box::new(Meta { lifecycle: Some(lifecycle), ..Meta::default() }));
        let resource = pb::Resource { id: Some(id.clone()), meta, ..pb::Resource::default() };
        self.updated(resource, vec!["meta.lifecycle.block_deletion".to_owned()]).map(drop)
    }

    /// Changes fields; answers the stored resource, encoded.
    fn updated(&self, resource: pb::Resource, paths: Vec<String>) -> Result<Vec<u8>, Failure> {
        /// The used part of `mortise.v1.UpdateResponse`.
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

    /// Lists the resources that a resource owns, of any type. The id must have a uid, like that of a resource that was
    /// read.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub fn list_by_owner(&self, owner: &pb::Id) -> Result<Vec<pb::Resource>, Failure> {
        let owned = self.host.list_by_owner(&owner.encode_to_vec())?;
        owned.iter().map(|bytes| pb::Resource::decode(bytes.as_slice()).map_err(|fault| unreadable(&fault))).collect()
    }

    /// Lists the resources of one type that a resource owns.
    ///
    /// # Errors
    /// Those of [`Self::read`].
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

    /// Creates or updates a resource; answers the stored resource.
    ///
    /// A resource that was read replaces only the version that was read ([`Failure::is_conflict`] otherwise). A
    /// resource made by [`Typed::new`] replaces any version, but cannot change the owner.
    ///
    /// # Errors
    /// The host's.
    pub fn write<M: Data>(&self, resource: &Typed<M>) -> Result<Typed<M>, Failure> {
        Typed::stored(&self.host.write(&resource.to_bytes()?)?)
    }

    /// Deletes a resource and all that it owns; a resource with finalizers is marked instead. A missing resource is not
    /// an error. If the id has a uid, only that incarnation is deleted.
    ///
    /// # Errors
    /// The host's.
    pub fn delete(&self, id: &pb::Id) -> Result<(), Failure> {
        self.host.delete(&id.encode_to_vec(), "")
    }

    /// Deletes a resource unless it has changed since it was read.
    ///
    /// # Errors
    /// The host's; [`Failure::is_conflict`] if it changed.
    pub fn delete_unchanged<M>(&self, resource: &Typed<M>) -> Result<(), Failure> {
        self.host.delete(&resource.id().encode_to_vec(), resource.version())
    }

    /// Replaces the status under one key, always. [`crate::Status`] writes it only when it has changed.
    ///
    /// # Errors
    /// The host's.
    pub fn write_status(&self, id: &pb::Id, key: &str, status: &pb::Status) -> Result<(), Failure> {
        self.host.write_status(&id.encode_to_vec(), "", key, &status.encode_to_vec()).map(drop)
    }

    /// Replaces the status under one key unless the resource has changed since it was read.
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

    /// Reader of the controller's cache.
    #[must_use]
    pub fn cache(&self) -> Cache<'a> {
        Cache::new(self.host)
    }

    /// The plugin's own durable values.
    #[must_use]
    pub fn kv(&self) -> Kv<'a> {
        Kv::new(self.host)
    }

    /// Private bytes of the plugin for a resource of a type that it may write. The id must have a uid, like that of a
    /// resource that was read.
    #[must_use]
    pub fn private_bytes(&self, id: &pb::Id) -> PrivateBytes<'a> {
        PrivateBytes::new(self.host, id.encode_to_vec())
    }

    /// A granted directory, by its name in the grant.
    #[must_use]
    pub fn files(&self, directory: &'a str) -> Files<'a> {
        Files::new(self.host, directory)
    }

    /// HTTP requests, to granted hosts.
    #[must_use]
    pub fn http(&self) -> Http<'a> {
        Http::new(self.host)
    }

    /// TCP connections, to granted hosts and ports.
    #[must_use]
    pub fn tcp(&self) -> Tcp<'a> {
        Tcp::new(self.host)
    }

    /// Replaces the checks that the host performs for a resource; without any, they end. The host makes the attempts,
    /// counts what they find, and writes it to the statuses that they name. The id must have a uid, unless they end.
    ///
    /// Set them in each reconcile of the resource: a probe that is the same as before goes on, and one by report learns
    /// of the reports in this way alone.
    ///
    /// # Errors
    /// The host's: [`Failure::INVALID`] if one is malformed, [`Failure::EXHAUSTED`] if there are too many.
    pub fn set_probes(&self, of: &pb::Id, probes: &Probes) -> Result<(), Failure> {
        self.host.set_probes(&of.encode_to_vec(), &probes.encode_to_vec())
    }

    /// Reads the current content of a granted secret.
    ///
    /// # Errors
    /// The host's: [`Failure::DENIED`] if it is not granted.
    pub fn secret(&self, name: &str) -> Result<Vec<u8>, Failure> {
        self.host.secret(name)
    }

    /// Time since the beginning of 1970, UTC, to the millisecond. Never goes back while the server runs.
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_millis(self.host.now())
    }

    /// Time since some moment before the plugin was loaded; never goes back. Leaves out the time for which the server
    /// was stopped or its machine slept.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.host.elapsed())
    }

    /// Whether this reconcile should end soon, with any outcome: a long one should ask now and then.
    #[must_use]
    pub fn cancelled(&self) -> bool {
        self.host.cancelled()
    }
}
