//! A scripted source, resources, and a reconciler that records its requests.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use async_trait::async_trait;
use mortise_resource::{EncodedResource, pb, types::Gvk};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::{Event, Source, SourceError, Watch};

pub(super) fn artist() -> pb::Type {
    Gvk::new("demo", "v2", "Artist").to_pb()
}

pub(super) fn album() -> pb::Type {
    Gvk::new("demo", "v2", "Album").to_pb()
}

pub(super) fn id(resource_type: &pb::Type, name: &str) -> pb::Id {
    pb::Id {
        uid: format!("uid-{name}"),
        name: name.into(),
        r#type: Some(resource_type.clone()),
        tenancy: Some(pb::Tenancy { partition: "default".into(), namespace: "default".into() }),
    }
}

pub(super) fn resource(resource_type: &pb::Type, name: &str, version: u64) -> pb::Resource {
    pb::Resource {
        id: Some(id(resource_type, name)),
        version: version.to_string(),
        generation: format!("g{version}"),
        ..pb::Resource::default()
    }
}

/// A resource with `to` in its metadata, the name of the resource that it refers to; see [`refers`].
pub(super) fn pointing(resource_type: &pb::Type, name: &str, version: u64, to: &str) -> pb::Resource {
    let mut resource = resource(resource_type, name, version);
    resource.metadata.insert("to".into(), to.into());
    resource
}

/// The artist that a resource made by [`pointing`] refers to.
pub(super) fn refers(resource: &pb::Resource) -> Result<Vec<pb::Reference>, crate::ReconcileError> {
    let to = resource.metadata.get("to").ok_or("refers to nothing")?;
    let target = id(&artist(), to);
    let names = to.split(',').map(str::to_owned);
    Ok(names
        .map(|name| pb::Reference {
            r#type: target.r#type.clone(),
            tenancy: target.tenancy.clone(),
            name,
            section: String::new(),
        })
        .collect())
}

/// Stored resources and their watches. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Store(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    stored: BTreeMap<(String, String), Arc<EncodedResource>>,
    watches: Vec<(String, mpsc::UnboundedSender<Result<Event, String>>)>,
    /// Kinds with held-up snapshots, and the watches that wait for their end.
    stuck: HashMap<String, bool>,
    refusal: Option<String>,
    pub(super) version: u64,
    opened: usize,
}

impl Store {
    /// Stores a new version, and returns it.
    pub(super) fn put(&self, resource_type: &pb::Type, name: &str) -> u64 {
        self.put_as(|version| resource(resource_type, name, version))
    }

    pub(super) fn point(&self, resource_type: &pb::Type, name: &str, to: &str) -> u64 {
        self.put_as(|version| pointing(resource_type, name, version, to))
    }

    pub(super) fn put_as(&self, make: impl FnOnce(u64) -> pb::Resource) -> u64 {
        let mut state = self.0.lock();
        state.version += 1;
        let resource = make(state.version);
        let id = resource.id.clone().unwrap();
        let resource = Arc::new(EncodedResource::encode(&resource).unwrap());
        let kind = id.r#type.unwrap().kind;
        state.stored.insert((kind.clone(), id.name), resource.clone());
        state.tell(&kind, &Event::Upsert(resource));
        state.version
    }

    pub(super) fn delete(&self, resource_type: &pb::Type, name: &str) {
        let mut state = self.0.lock();
        let gone = state.stored.remove(&(resource_type.kind.clone(), name.to_owned())).unwrap();
        state.tell(&resource_type.kind, &Event::Delete(gone));
    }

    /// Breaks every open watch.
    pub(super) fn break_watches(&self) {
        for (_, watch) in self.0.lock().watches.drain(..) {
            let _ = watch.send(Err("the script says so".into()));
        }
    }

    /// Holds up the end of a type's snapshots until [`Store::release`].
    pub(super) fn hold(&self, resource_type: &pb::Type) {
        self.0.lock().stuck.insert(resource_type.kind.clone(), true);
    }

    pub(super) fn release(&self, resource_type: &pb::Type) {
        let mut state = self.0.lock();
        state.stuck.remove(&resource_type.kind);
        state.tell(&resource_type.kind, &Event::EndOfSnapshot);
    }

    /// Lets opening watches fail with this reason.
    pub(super) fn refuse(&self, why: Option<&str>) {
        self.0.lock().refusal = why.map(str::to_owned);
    }

    /// Number of opened watches so far.
    pub(super) fn opened(&self) -> usize {
        self.0.lock().opened
    }
}

impl State {
    fn tell(&mut self, kind: &str, event: &Event) {
        self.watches.retain(|(watche, watch)| watche != kind || watch.send(Ok(event.clone())).is_ok());
    }
}

#[async_trait]
impl Source for Store {
    async fn watch(&self, resource_type: &pb::Type) -> Result<Box<dyn Watch>, SourceError> {
        let mut state = self.0.lock();
        state.opened += 1;
        if let Some(why) = &state.refusal {
            return Err(SourceError::new(why.clone()));
        }
        let (sender, events) = mpsc::unbounded_channel();
        for ((kind, _), resource) in &state.stored {
            if *kind == resource_type.kind {
                let _ = sender.send(Ok(Event::Upsert(resource.clone())));
            }
        }
        if !state.stuck.contains_key(&resource_type.kind) {
            let _ = sender.send(Ok(Event::EndOfSnapshot));
        }
        state.watches.push((resource_type.kind.clone(), sender));
        Ok(Box::new(Events(events)))
    }
}

struct Events(mpsc::UnboundedReceiver<Result<Event, String>>);

#[async_trait]
impl Watch for Events {
    async fn next(&mut self) -> Result<Event, SourceError> {
        match self.0.recv().await {
            Some(event) => event.map_err(SourceError::new),
            None => std::future::pending().await,
        }
    }
}
