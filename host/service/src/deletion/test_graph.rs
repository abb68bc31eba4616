//! A service in this process with a type whose data refers to others by every behaviour, for tests of deletions.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use mortise_controller::Outcome;
use mortise_plugin_host::ReferenceDecls;
use mortise_resource::{
    Error, Scope,
    data::PlanDeleteResponse,
    goten::{Meta, OwnerReference},
    pb, types,
    types::Gvk,
};
use mortise_store::{Backend, Consistency, Options as StoreOptions, SledBackend};
use prost::Message;
use prost_reflect::DescriptorPool;
use prost_types::{
    DescriptorProto, FieldDescriptorProto,
    field_descriptor_proto::{Label, Type},
};

use crate::{
    call::Caller,
    core::{Options, Placement, ids},
    registry::{Registry, ResourceType, builtin::host_type},
    service::ResourceService,
};

/// Fields of a node: names of other nodes, by behaviour. The field numbers are those of the behaviours.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Node {
    #[prost(string, repeated, tag = "1")]
    pub(super) block: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(super) unset: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub(super) cascade: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub(super) later_unset: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    pub(super) later_cascade: Vec<String>,
    #[prost(string, repeated, tag = "6")]
    pub(super) dangle: Vec<String>,
}

/// `mortise.v1.ReferenceOptions`.
#[derive(Clone, PartialEq, Message)]
struct Reference {
    #[prost(string, tag = "1")]
    r#type: String,
    #[prost(int32, tag = "2")]
    on_delete: i32,
}

/// Field options with the extension `mortise.v1.reference`.
#[derive(Clone, PartialEq, Message)]
struct FieldOptions {
    #[prost(message, optional, tag = "51001")]
    reference: Option<Reference>,
}

/// The part of a field that `prost_types` drops: merged with the rest on the wire.
#[derive(Clone, PartialEq, Message)]
struct WithOptions {
    #[prost(message, optional, tag = "8")]
    options: Option<FieldOptions>,
}

#[derive(Clone, PartialEq, Message)]
struct File {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    package: String,
    #[prost(bytes = "vec", repeated, tag = "4")]
    messages: Vec<Vec<u8>>,
    #[prost(string, tag = "12")]
    syntax: String,
}

#[derive(Clone, PartialEq, Message)]
struct Files {
    #[prost(message, repeated, tag = "1")]
    files: Vec<File>,
}

#[derive(Clone, PartialEq, Message)]
struct Fields {
    #[prost(bytes = "vec", repeated, tag = "2")]
    fields: Vec<Vec<u8>>,
}

fn node_type() -> ResourceType {
    let names = ["block", "unset", "cascade", "later_unset", "later_cascade", "dangle"];
    let fields = names.iter().zip(1..).map(|(name, number)| {
        let field = FieldDescriptorProto {
            name: Some((*name).to_owned()),
            number: Some(number),
            label: Some(Label::Repeated.into()),
            r#type: Some(Type::String.into()),
            ..FieldDescriptorProto::default()
        };
        let reference = Some(Reference { r#type: "graph.v1.Node".into(), on_delete: number });
        let options = WithOptions { options: Some(FieldOptions { reference }) };
        [field.encode_to_vec(), options.encode_to_vec()].concat()
    });
    let message = DescriptorProto { name: Some("Node".into()), ..DescriptorProto::default() };
    let message = [message.encode_to_vec(), Fields { fields: fields.collect() }.encode_to_vec()].concat();
    let file = File {
        name: "graph.proto".into(),
        package: "graph.v1".into(),
        messages: vec![message],
        syntax: "proto3".into(),
    };
    let pool = DescriptorPool::decode(Files { files: vec![file] }.encode_to_vec().as_slice()).unwrap();
    let message = pool.get_message_by_name("graph.v1.Node").unwrap();
    let references = ReferenceDecls::read(&pool, &message).unwrap();
    ResourceType { references, ..host_type(Gvk::new("graph", "v1", "Node"), Scope::Namespace, message) }
}

pub(super) struct Here {
    _dir: tempfile::TempDir,
    pub(super) service: ResourceService,
    pub(super) caller: Caller,
}

impl Here {
    /// A service without waits: each pass of the reaper is due at once.
    pub(super) fn new(grace: Duration, region: Option<&str>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let backend: Arc<dyn Backend> = Arc::new(SledBackend::open(StoreOptions::new(dir.path().join("s"))).unwrap());
        let registry = Registry::builtin().unwrap().with_type(node_type());
        let placement = Placement { region: region.map(str::to_owned), ..Placement::default() };
        let options = Options { second_pass: Duration::ZERO, owner_grace: grace, placement, ..Options::default() };
        let service = ResourceService::new(backend, Arc::new(ArcSwap::from_pointee(registry)), options);
        Self { _dir: dir, service, caller: Caller::host(Consistency::Consistent) }
    }

    pub(super) async fn write(&self, resource: pb::Resource) -> Result<crate::Written, Error> {
        self.service.write(&self.caller, pb::WriteRequest { resource: Some(resource) }).await
    }

    pub(super) async fn read(&self, name: &str) -> Option<pb::Resource> {
        self.service.core.backend.read(Consistency::Consistent, &id(name)).await.ok()
    }

    pub(super) async fn delete(&self, name: &str) -> Result<(), Error> {
        let request = pb::DeleteRequest { id: Some(id(name)), version: String::new() };
        self.service.delete(&self.caller, request).await.map(drop)
    }

    pub(super) async fn plan(&self, name: &str) -> PlanDeleteResponse {
        let request = mortise_resource::data::PlanDeleteRequest { id: Some(id(name)) };
        self.service.plan_delete(&self.caller, request).await.unwrap()
    }

    /// Names and versions of the nodes with a prefix.
    pub(super) async fn nodes(&self, prefix: &str) -> Vec<(String, String)> {
        self.of_type(&Gvk::new("graph", "v1", "Node"), prefix).await.into_iter().map(|(id, v)| (id.name, v)).collect()
    }

    async fn of_type(&self, gvk: &Gvk, prefix: &str) -> Vec<(pb::Id, String)> {
        let query = mortise_store::Query { name_prefix: prefix.to_owned(), ..ids::query_everywhere(&gvk.to_pb()) };
        let all = self.service.core.backend.list(Consistency::Consistent, &query).await.unwrap();
        all.into_iter().map(|one| (one.id.unwrap(), one.version)).collect()
    }

    /// Makes one pass of the collector over the work for the nodes with a prefix, in a random order, some of it at
    /// once.
    async fn pass(&self, prefix: &str, random: &mut fastrand::Rng) {
        let mut tombstones = self.of_type(&types::tombstone(), &format!("tombstone-{prefix}")).await;
        random.shuffle(&mut tombstones);
        let at_once = random.usize(1..5);
        for some in tombstones.chunks(at_once) {
            let work = some.iter().map(|(id, _)| self.service.deletions.process_tombstone(id));
            futures::future::join_all(work).await;
        }
        for (id, _) in self.of_type(&types::ownership_check(), "").await {
            self.service.deletions.process_check(&id).await.ok();
        }
    }

    /// Does the work of the collector until nothing changes any more.
    pub(super) async fn settle(&self, prefix: &str, random: &mut fastrand::Rng) {
        let state = async || {
            let tombstones = self.of_type(&types::tombstone(), &format!("tombstone-{prefix}")).await;
            (self.nodes(prefix).await, tombstones, self.of_type(&types::ownership_check(), "").await)
        };
        let mut before = state().await;
        loop {
            self.pass(prefix, random).await;
            let now = state().await;
            if now == before {
                return;
            }
            before = now;
        }
    }

    /// Whether a check of owner references is left.
    pub(super) async fn has_checks(&self) -> bool {
        !self.of_type(&types::ownership_check(), "").await.is_empty()
    }

    pub(super) async fn outcome_of_checks(&self) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for (id, _) in self.of_type(&types::ownership_check(), "").await {
            outcomes.push(self.service.deletions.process_check(&id).await.unwrap());
        }
        outcomes
    }
}

pub(super) fn id(name: &str) -> pb::Id {
    pb::Id {
        name: name.into(),
        r#type: Some(Gvk::new("graph", "v1", "Node").to_pb()),
        tenancy: Some(pb::Tenancy { partition: "default".into(), namespace: "default".into() }),
        uid: String::new(),
    }
}

pub(super) fn node(name: &str, data: &Node, owners: Vec<OwnerReference>) -> pb::Resource {
    let any = prost_types::Any { type_url: "type.googleapis.com/graph.v1.Node".into(), value: data.encode_to_vec() };
    let meta = Meta { owner_references: owners, ..Meta::default() };
    pb::Resource { id: Some(id(name)), data: Some(any), meta: Some(Box::new(meta)), ..pb::Resource::default() }
}

pub(super) fn owner(name: &str) -> OwnerReference {
    OwnerReference { kind: "graph/Node".into(), name: name.into(), ..OwnerReference::default() }
}
