//! A host in memory, for reconcilers.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    time::Duration,
};

use mortise_resource::{
    descriptors::FileDescriptorSet,
    manifest::{self, Controller, Manifest, TypeName, index::By},
    pb,
    probes::Probes,
};
use prost::Message;

use super::{
    failures::{decode, refusal as refused},
    fields,
    lookup::Lookup,
    store::{Store, is_type, is_under},
};
use crate::{
    Context, Data, Diagnostics, Error, Failure, HttpRequest, HttpResponse, Key, Kind, Outcome, Plugin, Reconciler,
    Request, Typed,
};

/// Contents by name or key.
pub(super) type Values = BTreeMap<String, Vec<u8>>;

/// Function that answers HTTP requests.
pub(super) type Answers = Box<dyn Fn(&HttpRequest) -> Result<HttpResponse, Failure>>;

/// Function that answers TCP connects with their duration.
pub(super) type Connects = Box<dyn Fn(&str, u16) -> Result<Duration, Failure>>;

/// A host in memory, for one plugin.
///
/// ```
/// # use mortise_plugin::{*, testing::World};
/// # #[derive(Clone, PartialEq, prost::Message)] pub struct Song { #[prost(string, tag = "1")] pub title: String }
/// # impl prost::Name for Song { const PACKAGE: &'static str = "jukebox.v1"; const NAME: &'static str = "Song"; }
/// # const SONG: Kind<Song> = Kind::new("jukebox", "v1", "Song");
/// # struct Songs;
/// # impl Reconciler for Songs {
/// #     type Managed = Song;
/// #     fn reconcile(&self, ctx: &Context<'_>, request: &Request<Song>) -> Result<Outcome, Error> {
/// #         let Some(song) = request.read(ctx)? else { return Ok(Outcome::Done) };
/// #         Status::new("jukebox/songs", &song).with(Condition::holds("Heard")).write_if_changed(ctx, &song)?;
/// #         Ok(Outcome::Done)
/// #     }
/// # }
/// # static PLUGIN: Plugin = Plugin::new("jukebox", "0.1.0", &[], &[&ResourceType::of(SONG, Scope::Namespace)])
/// #     .controllers(&[&Controller::new("songs", SONG, Songs)]);
/// let world = World::new(&PLUGIN);
/// let song = world.put(&Typed::new(SONG.id("hit", &World::tenancy()), Song::default()))?;
/// world.settle()?;
/// assert!(world.get::<Song>(song.id()).is_some_and(|song| song.status_under("jukebox/songs").is_some()));
/// # Ok::<(), mortise_plugin::Error>(())
/// ```
///
/// # Contract
/// Versions, uids, generations, owners, status, finalizers and marks follow the server's rules, and so do the codes of
/// failures. Writes call the plugin's own `mutate` and `validate`. Resources are deleted with their owner, at once. The
/// cache is never behind.
///
/// # Limits
/// Nothing is authorised, every type is granted, and data is never upgraded. An index by a float finds nothing.
pub struct World {
    plugin: &'static Plugin,
    manifest: Rc<Manifest>,
    pub(super) files: Rc<prost_types::FileDescriptorSet>,
    pub(super) store: Rc<RefCell<Store>>,
    pub(super) values: RefCell<Values>,
    /// Private bytes, by uid.
    pub(super) private: RefCell<Values>,
    pub(super) directories: RefCell<BTreeMap<String, Values>>,
    pub(super) secrets: RefCell<Values>,
    pub(super) answers: RefCell<Option<Answers>>,
    pub(super) connects: RefCell<Option<Connects>>,
    /// Probes by the name of their resource.
    pub(super) probes: RefCell<BTreeMap<String, Probes>>,
    failing: RefCell<Vec<(&'static str, Failure)>>,
    pub(super) now: Cell<u64>,
    /// Part of `now` for which the server did not run, milliseconds.
    pub(super) slept: Cell<u64>,
    pub(super) cancelled: Cell<bool>,
    /// Set while a hook describes an external object.
    pub(super) importing: Cell<bool>,
}

impl World {
    /// Makes an empty world, on 1 January 2025.
    ///
    /// # Panics
    /// If the plugin's descriptors do not decode.
    #[must_use]
    #[allow(clippy::expect_used, reason = "for tests: the input is the plugin's own")]
    pub fn new(plugin: &'static Plugin) -> Self {
        let manifest = Manifest::decode(plugin.describe().as_slice()).expect("the plugin's descriptors do not decode");
        let files = manifest.descriptors.as_ref().map(FileDescriptorSet::decoded).transpose();
        let files = files.expect("the plugin's descriptors do not decode").unwrap_or_default();
        Self {
            plugin,
            manifest: Rc::new(manifest),
            files: Rc::new(files),
            store: Rc::default(),
            values: RefCell::default(),
            private: RefCell::default(),
            directories: RefCell::default(),
            secrets: RefCell::default(),
            answers: RefCell::default(),
            connects: RefCell::default(),
            probes: RefCell::default(),
            failing: RefCell::default(),
            now: Cell::new(1_735_689_600_000),
            slept: Cell::new(0),
            cancelled: Cell::new(false),
            importing: Cell::new(false),
        }
    }

    /// Makes a world like [`Self::new`], with these descriptors instead of the plugin's own: for mappers and indexes by
    /// fields of messages without descriptors.
    #[must_use]
    pub fn with_descriptors(plugin: &'static Plugin, descriptors: prost_types::FileDescriptorSet) -> Self {
        let mut world = Self::new(plugin);
        world.files = Rc::new(descriptors);
        world
    }

    /// The partition `default` and the namespace `default`.
    #[must_use]
    pub fn tenancy() -> pb::Tenancy {
        pb::Tenancy { partition: "default".to_owned(), namespace: "default".to_owned() }
    }

    /// Writes a resource as a client would; answers the stored one.
    ///
    /// # Errors
    /// The server's.
    pub fn put<M: Data>(&self, resource: &Typed<M>) -> Result<Typed<M>, Failure> {
        self.context().write(resource)
    }

    /// The resource, if it exists.
    ///
    /// # Panics
    /// If it holds another message than `M`.
    #[must_use]
    #[allow(clippy::expect_used, reason = "for tests: a bug of the test")]
    pub fn get<M: Data>(&self, id: &pb::Id) -> Option<Typed<M>> {
        self.store.borrow().read(id).map(|found| Typed::stored(&found.encode_to_vec()).expect("another message"))
    }

    /// All resources of a type, in any tenancy, in order of their names.
    ///
    /// # Panics
    /// Those of [`Self::get`].
    #[must_use]
    #[allow(clippy::expect_used, reason = "for tests: a bug of the test")]
    pub fn list<M: Data>(&self, of: Kind<M>) -> Vec<Typed<M>> {
        self.context().list(of, &crate::everywhere(), "").expect("another message")
    }

    /// Deletes a resource as a client would.
    ///
    /// # Errors
    /// The server's.
    pub fn delete(&self, id: &pb::Id) -> Result<(), Failure> {
        self.context().delete(id)
    }

    /// Calls a reconciler once.
    ///
    /// # Errors
    /// The reconciler's.
    pub fn reconcile<R: Reconciler>(&self, reconciler: &R, id: &pb::Id) -> Result<Outcome, Error> {
        reconciler.reconcile(&self.context(), &Request::new(id.clone()))
    }

    /// The context that reconcilers get.
    #[must_use]
    pub fn context(&self) -> Context<'_> {
        Context::new(self)
    }

    /// Advances the clock.
    pub fn advance(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.now.set(self.now.get().saturating_add(millis));
    }

    /// Advances the date alone, as when the machine sleeps, the server is stopped, or its clock is set forward.
    pub fn sleep(&self, time: Duration) {
        self.advance(time);
        self.slept.set(self.slept.get().saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)));
    }

    /// Makes [`Context::cancelled`] true from now on.
    pub fn cancel(&self) {
        self.cancelled.set(true);
    }

    /// Grants a directory for reading and writing; it is empty at first.
    pub fn grant_directory(&self, name: &str) {
        self.directories.borrow_mut().entry(name.to_owned()).or_default();
    }

    /// Content of a file in a granted directory.
    #[must_use]
    pub fn file(&self, directory: &str, name: &str) -> Option<Vec<u8>> {
        self.directories.borrow().get(directory)?.get(name).cloned()
    }

    /// Answers HTTP requests with a function; without one, no host is granted.
    pub fn answer_http(&self, answer: impl Fn(&HttpRequest) -> Result<HttpResponse, Failure> + 'static) {
        self.answers.replace(Some(Box::new(answer)));
    }

    /// Answers TCP connects to a host and a port with their duration; without a function, no host is granted. A connect
    /// that took longer than its timeout fails with [`Failure::LATE`].
    pub fn answer_tcp(&self, answer: impl Fn(&str, u16) -> Result<Duration, Failure> + 'static) {
        self.connects.replace(Some(Box::new(answer)));
    }

    /// The checks that the host would perform for the resource of this name. A world performs none: write their results
    /// as statuses.
    #[must_use]
    pub fn probes(&self, name: &str) -> Probes {
        self.probes.borrow().get(name).cloned().unwrap_or_default()
    }

    /// Grants a secret, or replaces its content.
    pub fn grant_secret(&self, name: &str, secret: &[u8]) {
        self.secrets.borrow_mut().insert(name.to_owned(), secret.to_owned());
    }

    /// A value of the plugin's own.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<Vec<u8>> {
        self.values.borrow().get(key).cloned()
    }

    /// Private bytes of a resource; `None` if it is gone, or the id has no uid.
    #[must_use]
    pub fn private_bytes(&self, id: &pb::Id) -> Option<Vec<u8>> {
        self.store.borrow().read(id)?;
        self.private.borrow().get(&id.uid).cloned()
    }

    /// Makes the next call of that name fail: `read`, `list`, `list-by-owner`, `write`, `write-status`, `delete`, or
    /// one of another interface, such as `kv.set`.
    pub fn fail_next(&self, call: &'static str, failure: Failure) {
        self.failing.borrow_mut().push((call, failure));
    }

    pub(super) const fn plugin(&self) -> &'static Plugin {
        self.plugin
    }

    /// Controllers that a host would run with the current settings ([`with_settings`](super::with_settings)).
    pub(super) fn controllers(&self) -> Vec<&Controller> {
        let settings: serde_json::Value = serde_json::from_str(&super::settings()).unwrap_or_default();
        let runs = |one: &&Controller| one.only_if.is_empty() || settings.get(&one.only_if) == Some(&true.into());
        self.manifest.controllers.iter().filter(runs).collect()
    }

    pub(super) fn all(&self) -> Vec<pb::Resource> {
        self.store.borrow().all().cloned().collect()
    }

    pub(super) fn take_changes(&self) -> Vec<pb::Resource> {
        self.store.borrow_mut().take_changes()
    }

    /// Searchable resources.
    pub(super) fn lookup(&self) -> Lookup {
        Lookup { manifest: self.manifest.clone(), files: self.files.clone(), store: self.store.clone() }
    }

    /// Runs `body`, whose hooks find this world's resources when they [search](crate::query). Hooks of writes into the
    /// world find them anyway. Holds for this thread.
    pub fn with_lookups<T>(&self, body: impl FnOnce() -> T) -> T {
        self.lookup().within(body)
    }

    /// Ids that a field of a resource refers to.
    pub(super) fn references(&self, resource: &pb::Resource, field: &str) -> Vec<pb::Id> {
        let Some((message, data)) = self.message(resource) else { return Vec::new() };
        fields::references(&self.files, &message, field, &data)
    }

    /// Values of a resource in an index by value, name or metadata.
    fn values(&self, resource: &pb::Resource, by: &By, in_tenancy: bool) -> Vec<String> {
        let id = resource.id.as_ref();
        let tenancy = id.and_then(|id| id.tenancy.clone()).unwrap_or_default();
        let before = if in_tenancy { format!("{}/{}/", tenancy.partition, tenancy.namespace) } else { String::new() };
        let found = match by {
            By::ValueField(field) => self
                .message(resource)
                .map_or_else(Vec::new, |(message, data)| fields::values(&self.files, &message, field, &data)),
            By::ResourceName(_) => id.map(|id| id.name.clone()).into_iter().collect(),
            By::Metadata(_) => resource.metadata.iter().map(|(key, value)| format!("{key}={value}")).collect(),
            By::Owner(_) | By::ReferenceField(_) => Vec::new(),
        };
        found.into_iter().filter(|value| !value.contains('\0')).map(|value| format!("{before}{value}")).collect()
    }

    fn message(&self, resource: &pb::Resource) -> Option<(String, Vec<u8>)> {
        let data = resource.data.as_ref()?;
        Some((data.type_url.rsplit('/').next()?.to_owned(), data.value.clone()))
    }

    pub(super) fn fails(&self, call: &str) -> Result<(), Failure> {
        const GRANTED: [&str; 4] = ["files", "secrets", "http", "tcp"];
        let interface = call.split('.').next().unwrap_or_default();
        if self.importing.get() && !GRANTED.contains(&interface) {
            return Err(Failure::new(Failure::DENIED, format!("an import hook may not call {call}")));
        }
        let mut failing = self.failing.borrow_mut();
        let place = failing.iter().position(|(one, _)| *one == call);
        place.map_or(Ok(()), |place| Err(failing.remove(place).1))
    }

    /// Calls the plugin's own hooks for a write; answers the mutated resource.
    pub(super) fn hooks(&self, resource: pb::Resource) -> Result<pb::Resource, Failure> {
        let stored = resource.id.as_ref().and_then(|id| self.store.borrow().read(id).cloned());
        self.with_lookups(|| self.admit(resource, stored.as_ref())).map(|(resource, _)| resource)
    }

    /// Calls `mutate`, then `validate` with the stored resource; answers the mutated resource, and warnings.
    pub(super) fn admit(
        &self,
        mut resource: pb::Resource,
        stored: Option<&pb::Resource>,
    ) -> Result<(pb::Resource, Diagnostics), Failure> {
        if self.type_of(&resource).and_then(|of| of.hooks).unwrap_or_default().mutate {
            let mutated = self.plugin.mutate(&resource.encode_to_vec()).map_err(|said| refused(&said))?;
            resource = mutated.map_or(Ok(resource), |bytes| decode(&bytes))?;
        }
        let warnings = self.validate(&resource, stored)?;
        Ok((resource, warnings))
    }

    /// Calls `validate` with the stored resource; answers warnings.
    pub(super) fn validate(
        &self,
        resource: &pb::Resource,
        stored: Option<&pb::Resource>,
    ) -> Result<Diagnostics, Failure> {
        if !self.type_of(resource).and_then(|of| of.hooks).unwrap_or_default().validate {
            return Ok(Diagnostics::new());
        }
        let stored = stored.map(Message::encode_to_vec);
        let said = self.plugin.validate(&resource.encode_to_vec(), stored.as_deref());
        if said.has_errors() { Err(refused(&said)) } else { Ok(said) }
    }

    /// Declaration of a resource's type, if it is the plugin's own.
    pub(super) fn type_of(&self, resource: &pb::Resource) -> Option<&manifest::ResourceType> {
        let of = resource.id.as_ref()?.r#type.as_ref()?;
        let name = (&of.group, &of.group_version, &of.kind);
        self.manifest.types.iter().find(|one| (&one.group, &one.group_version, &one.kind) == name)
    }

    /// Resources of a type under a key of an index.
    pub(super) fn indexed(
        &self,
        of: &pb::Type,
        index: &str,
        key: Key<'_>,
        listing: bool,
    ) -> Result<Vec<pb::Resource>, Failure> {
        let is =
            |name: &Option<TypeName>| name.as_ref().is_some_and(|name| name.group == of.group && name.kind == of.kind);
        let mut known = false;
        let mut by: Option<&manifest::Index> = None;
        for controller in self.controllers() {
            let watched = controller.watches.iter().filter(|watch| is(&watch.r#type)).map(|watch| &watch.indexes);
            for indexes in watched.chain(is(&controller.manages).then_some(&controller.indexes)) {
                known = true;
                by = by.or_else(|| indexes.iter().find(|one| one.name == index));
            }
        }
        if !known {
            return Err(Failure::new(Failure::INVALID, "the resource type specified is not indexed"));
        }
        if by.is_none() && index != "id" {
            return Err(Failure::new(Failure::INVALID, format!("No index with name {index:?} exists")));
        }
        let matches = |resource: &pb::Resource| match (by.and_then(|index| Some((index, index.by.as_ref()?))), key) {
            (None, Key::Id(key)) => resource.id.as_ref().is_some_and(|id| is_under(id, key, listing)),
            (Some((_, By::Owner(_))), Key::Id(key)) => {
                resource.owner.as_ref().is_some_and(|id| is_under(id, key, listing))
            }
            (Some((_, By::ReferenceField(field))), Key::Id(key)) => {
                self.references(resource, field).iter().any(|id| is_under(id, key, listing))
            }
            (Some((index, by)), Key::Value(wanted) | Key::Exact(wanted)) => {
                let prefix = listing && matches!(key, Key::Value(_));
                let found = self.values(resource, by, index.in_tenancy);
                found.iter().any(|value| if prefix { value.starts_with(wanted) } else { value == wanted })
            }
            _ => false,
        };
        Ok(self.store.borrow().all().filter(|one| is_type(one, of) && matches(one)).cloned().collect())
    }
}
