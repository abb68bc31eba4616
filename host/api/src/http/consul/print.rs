//! Entries of answers, as Consul prints them. Fields of functions that this server does not have are empty.
//!
//! A node is an address: the catalog knows no machines, and processes at one address share one. Indexes of single
//! entries are 0; the index of the answer is in its header.

use serde_json::{Map, Value, json};

use super::instance::{Check, Instance};

/// The place of entries.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) datacenter: String,
    pub(super) partition: String,
    pub(super) namespace: String,
}

impl Place {
    /// An instance in `/v1/catalog/service/NAME`.
    pub(super) fn catalog_service(&self, instance: &Instance) -> Value {
        let mut entry = json!({
            "ID": "",
            "Node": instance.address,
            "Address": instance.address,
            "Datacenter": self.datacenter,
            "TaggedAddresses": tagged(&instance.address),
            "NodeMeta": {},
            "ServiceKind": "",
            "ServiceID": instance.id,
            "ServiceName": instance.service,
            "ServiceTags": instance.tags,
            "ServiceAddress": instance.address,
            "ServiceTaggedAddresses": {},
            "ServiceWeights": weights(instance),
            "ServiceMeta": instance.meta,
            "ServicePort": instance.port(),
            "ServiceSocketPath": "",
            "ServiceEnableTagOverride": false,
            "ServiceProxy": {},
            "ServiceConnect": {},
            "Namespace": self.namespace,
            "Partition": self.partition,
            "CreateIndex": 0,
            "ModifyIndex": 0,
        });
        self.add_locality(&mut entry, "ServiceLocality", &instance.zone);
        entry
    }

    /// An instance in `/v1/health/service/NAME`.
    pub(super) fn health_service(&self, instance: &Instance) -> Value {
        json!({
            "Node": self.node(&instance.address),
            "Service": self.agent_service(instance),
            "Checks": self.checks(instance),
        })
    }

    /// An instance without its node.
    pub(super) fn agent_service(&self, instance: &Instance) -> Value {
        let mut entry = json!({
            "ID": instance.id,
            "Service": instance.service,
            "Tags": instance.tags,
            "Address": instance.address,
            "TaggedAddresses": {},
            "Meta": instance.meta,
            "Port": instance.port(),
            "Weights": weights(instance),
            "EnableTagOverride": false,
            "Proxy": {},
            "Connect": {},
            "PeerName": "",
            "Namespace": self.namespace,
            "Partition": self.partition,
            "CreateIndex": 0,
            "ModifyIndex": 0,
        });
        if instance.ports.len() > 1 {
            let ports = instance.ports.iter().enumerate();
            let ports: Vec<_> = ports
                .map(|(number, port)| json!({ "Name": port.name, "Port": port.port, "Default": number == 0 }))
                .collect();
            add(&mut entry, "Ports", Value::Array(ports));
        }
        self.add_locality(&mut entry, "Locality", &instance.zone);
        entry
    }

    /// A node.
    pub(super) fn node(&self, address: &str) -> Value {
        json!({
            "ID": "",
            "Node": address,
            "Address": address,
            "Datacenter": self.datacenter,
            "TaggedAddresses": tagged(address),
            "Meta": {},
            "Partition": self.partition,
            "CreateIndex": 0,
            "ModifyIndex": 0,
        })
    }

    /// The checks of an instance.
    pub(super) fn checks(&self, instance: &Instance) -> Vec<Value> {
        instance.checks.iter().map(|check| self.check(instance, check)).collect()
    }

    /// A check of an instance.
    pub(super) fn check(&self, instance: &Instance, check: &Check) -> Value {
        let (id, name) = match check.name.as_str() {
            "" => (format!("service:{}", instance.id), "health"),
            name => (format!("service:{}:{name}", instance.id), name),
        };
        json!({
            "Node": instance.address,
            "CheckID": id,
            "Name": name,
            "Status": check.status.word(),
            "Notes": "",
            "Output": check.output,
            "ServiceID": instance.id,
            "ServiceName": instance.service,
            "ServiceTags": instance.tags,
            "Type": check.kind,
            "Interval": check.interval,
            "Timeout": check.timeout,
            "ExposedPort": 0,
            "PeerName": "",
            "Definition": {},
            "Namespace": self.namespace,
            "Partition": self.partition,
            "CreateIndex": 0,
            "ModifyIndex": 0,
        })
    }

    /// Adds the region and the zone of an instance that has a zone.
    fn add_locality(&self, entry: &mut Value, name: &str, zone: &str) {
        if !zone.is_empty() {
            add(entry, name, json!({ "Region": self.datacenter, "Zone": zone }));
        }
    }
}

fn add(entry: &mut Value, name: &str, value: Value) {
    if let Some(fields) = entry.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}

fn tagged(address: &str) -> Value {
    json!({ "lan": address, "wan": address })
}

/// The weight while checks warn is the same: the catalog has one.
fn weights(instance: &Instance) -> Value {
    json!({ "Passing": instance.weight, "Warning": instance.weight })
}

/// An object of entries by name.
pub(super) fn by_name(entries: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::Object(Map::from_iter(entries))
}
