//! A resource is returned in the bytes in which it was stored, and data in the bytes in which it was sent, with any
//! content: Read, List, ListByOwner and WatchList return the bytes of the answer to Write or WriteStatus, before and
//! after a restart. Unknown fields of a resource are dropped; those of its data are kept.
//!
//! The calls use raw bytes, since a decoding client loses unknown fields. `MORTISE_BYTES_RESOURCES` sets the number of
//! resources, `MORTISE_BYTES_SEED` selects them.

mod random_resources;
mod raw_client;

use std::{collections::BTreeMap, path::Path};

use bytes::Bytes;
use fastrand::Rng;
use mortise_resource::pb;
use prost::Message;
use tonic::Request;

use self::{
    random_resources::{KINDS, data, delimited, metadata, raw_types, status, unknown},
    raw_client::{Client, DELETE, Key, UPSERT, Watch, key, parts},
};
use crate::support::{Server, Setup, gvk, id, make_place, tenancy, with_metadata};

const RESOURCES: u64 = 300;

/// Numbers of compared resources.
#[derive(Debug, Default)]
struct Compared {
    data: usize,
    data_bytes: usize,
    written: usize,
    with_status: usize,
    upserts: usize,
    deletes: usize,
    reads: usize,
    listed: usize,
    owned: usize,
    in_snapshots: usize,
}

/// A server, its expected content, and the number of resources made so far.
struct Run {
    seed: u64,
    rng: Rng,
    /// Bytes of the last answer about each resource.
    stored: BTreeMap<Key, Bytes>,
    /// Ids of possible owners, which are never deleted.
    owners: Vec<pb::Id>,
    made: u64,
    compared: Compared,
}

impl Run {
    #[track_caller]
    fn same(&self, what: &str, key: &Key, found: Option<&Bytes>, expected: &Bytes) {
        let seed = self.seed;
        let found = found.unwrap_or_else(|| panic!("seed {seed}: {what}: {key:?} is missing"));
        if found != expected {
            let at = found.iter().zip(expected).take_while(|(a, b)| a == b).count();
            let (found, expected) = (found.len(), expected.len());
            panic!("seed {seed}: {what}: {key:?} differs from byte {at}; it has {found} bytes instead of {expected}");
        }
    }

    /// Compares a whole answer with the stored resources that `belongs` selects.
    #[track_caller]
    fn all_same(&self, what: &str, found: &BTreeMap<Key, Bytes>, belongs: impl Fn(&Key, &Bytes) -> bool) -> usize {
        let expected: Vec<_> = self.stored.iter().filter(|(key, bytes)| belongs(key, bytes)).collect();
        for (key, bytes) in &expected {
            self.same(what, key, found.get(*key), bytes);
        }
        assert_eq!(found.len(), expected.len(), "seed {}: {what}: and no others", self.seed);
        expected.len()
    }

    fn pick(&mut self) -> (Key, pb::Resource) {
        let (key, bytes) = self.stored.iter().nth(self.rng.usize(..self.stored.len())).unwrap();
        (key.clone(), pb::Resource::decode(bytes.clone()).unwrap())
    }

    /// Makes a random change, and checks its events.
    async fn step(&mut self, client: &Client, watches: &mut [Watch]) {
        let choice = if self.stored.len() < 20 { 0 } else { self.rng.u32(..20) };
        let (key, number, bytes) = match choice {
            0..=9 => {
                let resource = self.new_resource();
                self.write(client, resource).await
            }
            10..=13 => {
                let (key, mut resource) = self.pick();
                let kind = KINDS.iter().find(|kind| kind.gvk == key[0]).unwrap();
                (resource.data, resource.metadata) = (data(&mut self.rng, kind), metadata(&mut self.rng));
                (resource.version, resource.generation) = (String::new(), String::new());
                resource.status.clear();
                self.write(client, resource).await
            }
            14..=18 => self.write_status(client).await,
            _ => {
                let (key, resource) = self.pick();
                if resource.id.as_ref().is_some_and(|id| self.owners.contains(id)) {
                    return;
                }
                let request = pb::DeleteRequest { id: resource.id, version: String::new() };
                client.call("Delete", Request::new(request.encode_to_vec())).await;
                let bytes = self.stored.remove(&key).unwrap();
                (key, DELETE, bytes)
            }
        };
        let watched = KINDS.iter().position(|kind| kind.gvk == key[0]).unwrap();
        let (heard, found) = watches[watched].next().await;
        assert_eq!(heard, number, "seed {}: the event of {key:?}", self.seed);
        self.same("an event", &key, Some(&found), &bytes);
        if number == UPSERT {
            self.compared.upserts += 1;
            self.stored.insert(key, bytes);
        } else {
            self.compared.deletes += 1;
        }
    }

    fn new_resource(&mut self) -> pb::Resource {
        let rng = &mut self.rng;
        let kind = &KINDS[rng.usize(..KINDS.len())];
        let (partition, namespace) = (["default", "p"][rng.usize(..2)], ["default", "n"][rng.usize(..2)]);
        let place = tenancy(if kind.units > 0 { partition } else { "" }, if kind.units > 1 { namespace } else { "" });
        // Names are unique, since the versions of a kind share them.
        self.made += 1;
        let name = format!("{}-{}", ["a", "b", "c"][rng.usize(..3)], self.made);
        let owner =
            (!self.owners.is_empty() && rng.u32(..3) == 0).then(|| self.owners[rng.usize(..self.owners.len())].clone());
        let id = pb::Id { tenancy: Some(place), ..id(kind.gvk, &name) };
        let (data, metadata) = (data(rng, kind), metadata(rng));
        pb::Resource { id: Some(id), owner, metadata, data, ..Default::default() }
    }

    async fn write(&mut self, client: &Client, resource: pb::Resource) -> (Key, u32, Bytes) {
        // An unknown field of a resource is harmless.
        let mut encoded = resource.encode_to_vec();
        if self.rng.u32(..4) == 0 {
            encoded.extend(unknown(&mut self.rng, 2));
        }
        let request = delimited(&mut self.rng, 1, &encoded);
        let stored = client.resource("Write", Request::new(request)).await;
        let key = key(&stored);
        let sent = resource.data.as_ref();
        let kind = KINDS.iter().find(|kind| kind.gvk == key[0]).unwrap();
        let any = parts(&stored, 7);
        assert_eq!(any.len(), usize::from(sent.is_some()), "data is there if it was sent");
        if let (Some(any), Some(sent), false) = (any.first(), sent, kind.has_mutate) {
            let part = |number| parts(any, number).pop().unwrap_or_default();
            self.same("the data", &key, Some(&part(2)), &Bytes::copy_from_slice(&sent.value));
            assert_eq!(part(1), sent.type_url.as_bytes());
            self.compared.data += 1;
            self.compared.data_bytes += sent.value.len();
        }
        let decoded = pb::Resource::decode(stored.clone()).unwrap();
        assert_eq!((&decoded.metadata, &decoded.owner), (&resource.metadata, &resource.owner));
        if self.owners.len() < 6 && decoded.owner.is_none() && !self.stored.contains_key(&key) {
            self.owners.extend(decoded.id);
        }
        self.compared.written += 1;
        (key, UPSERT, stored)
    }

    async fn write_status(&mut self, client: &Client) -> (Key, u32, Bytes) {
        let (key, resource) = self.pick();
        let rng = &mut self.rng;
        let entry = ["one", "two", "ü 3"][rng.usize(..3)];
        let status = status(rng, &resource.generation);
        let mut request =
            pb::WriteStatusRequest { id: resource.id, key: entry.to_owned(), ..Default::default() }.encode_to_vec();
        let with_unknown = [status.encode_to_vec(), unknown(rng, 2)].concat();
        request.extend(delimited(rng, 4, &with_unknown));
        let stored = client.resource("WriteStatus", Request::new(request)).await;
        let data = |resource| parts(resource, 7).pop().unwrap_or_default();
        self.same("the data beside a status", &key, Some(&data(&stored)), &data(&self.stored[&key]));
        let decoded = pb::Resource::decode(stored.clone()).unwrap();
        assert_eq!(decoded.status[entry].conditions, status.conditions);
        self.compared.with_status += 1;
        (key, UPSERT, stored)
    }

    /// Compares all answers with the stored resources.
    async fn compare(&mut self, client: &Client) {
        let mut compared = std::mem::take(&mut self.compared);
        for (key, bytes) in &self.stored {
            let id = pb::Resource::decode(bytes.clone()).unwrap().id;
            let request = pb::ReadRequest { id }.encode_to_vec();
            let found = client.resource("Read", Request::new(request.clone())).await;
            self.same("a read", key, Some(&found), bytes);
            let consistently = with_metadata(request, "x-consul-consistency-mode", "consistent");
            let found = client.resource("Read", consistently).await;
            self.same("a consistent read", key, Some(&found), bytes);
            compared.reads += 2;
        }
        for kind in KINDS {
            for (partition, namespace, prefix) in [("*", "*", ""), ("*", "*", "b-"), ("p", "*", ""), ("p", "n", "a")] {
                let within = |unit: &'static str, from| if kind.units < from && unit != "*" { "" } else { unit };
                let (partition, namespace) = (within(partition, 1), within(namespace, 2));
                let request = pb::ListRequest {
                    r#type: Some(gvk(kind.gvk)),
                    tenancy: Some(tenancy(partition, namespace)),
                    name_prefix: prefix.to_owned(),
                };
                let found = client.resources("List", request).await;
                let is_within = |asked: &str, is: &str| asked == "*" || asked == is;
                compared.listed += self.all_same("a list", &found, |key, _| {
                    key[0] == kind.gvk
                        && is_within(partition, &key[1])
                        && is_within(namespace, &key[2])
                        && key[3].starts_with(prefix)
                });
            }
            let found = client.watch(kind).await.snapshot().await;
            compared.in_snapshots += self.all_same("a snapshot", &found, |key, _| key[0] == kind.gvk);
        }
        for owner in &self.owners {
            let found = client.resources("ListByOwner", pb::ListByOwnerRequest { owner: Some(owner.clone()) }).await;
            compared.owned += self.all_same("a list by owner", &found, |_, bytes| {
                pb::Resource::decode(bytes.clone()).unwrap().owner.as_ref() == Some(owner)
            });
        }
        self.compared = compared;
    }

    async fn change(&mut self, client: &Client, steps: u64) {
        let mut watches = Vec::new();
        for kind in KINDS {
            let mut watch = client.watch(kind).await;
            watch.snapshot().await;
            watches.push(watch);
        }
        for _ in 0..steps {
            self.step(client, &mut watches).await;
        }
    }
}

async fn start(data_dir: &Path) -> (Server, Client) {
    let server = Setup::new().component("raw", raw_types()).data_dir(data_dir).start().await;
    let client = Client::of(&server).await;
    (server, client)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

#[tokio::test]
async fn random_resources_unknown_fields_included_are_read_listed_and_watched_as_they_were_written() {
    let resources = number("MORTISE_BYTES_RESOURCES").unwrap_or(RESOURCES).max(100);
    let seed = number("MORTISE_BYTES_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    eprintln!("MORTISE_BYTES_SEED={seed}");
    let dir = tempfile::tempdir().unwrap();
    let mut run = Run {
        seed,
        rng: Rng::with_seed(seed),
        stored: BTreeMap::new(),
        owners: Vec::new(),
        made: 0,
        compared: Compared::default(),
    };
    let (server, client) = start(dir.path()).await;
    make_place(&server, "default", "n").await;
    make_place(&server, "p", "n").await;
    // Half of the steps create a resource.
    run.change(&client, resources * 3 / 2).await;
    run.compare(&client).await;
    assert!(server.stop().await.success());

    let (mut server, client) = start(dir.path()).await;
    run.compare(&client).await;
    run.change(&client, resources / 2).await;
    server.child.kill().await.unwrap();

    let (_server, client) = start(dir.path()).await;
    run.compare(&client).await;
    let Compared { data, data_bytes, written, with_status, upserts, deletes, reads, listed, owned, in_snapshots } =
        run.compared;
    eprintln!(
        "seed {seed}: {} resources made, {} at the end; compared the data of {data} writes ({data_bytes} bytes), and the \
         bytes of {written} writes and {with_status} statuses with {upserts} upserts, {deletes} deletes, {reads} reads, \
         {listed} in lists, {owned} in lists by owner, {in_snapshots} in snapshots",
        run.made,
        run.stored.len(),
    );
    for count in [data, data_bytes, written, with_status, upserts, deletes, reads, listed, owned, in_snapshots] {
        assert!(count > 0);
    }
    assert_eq!(upserts, written + with_status);
}
