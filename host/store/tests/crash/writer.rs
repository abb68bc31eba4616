//! The child's work: writers that print what they do.

use std::{io::Write, sync::Arc};

use mortise_resource::pb;
use mortise_store::{Backend, Batch, Mutation, SledBackend};

/// Number of resources of one writer.
pub(crate) const NAMES: usize = 6;

fn id(name: &str, uid: String) -> pb::Id {
    pb::Id {
        uid,
        name: name.into(),
        r#type: Some(pb::Type { group: "crash".into(), group_version: "v1".into(), kind: "Thing".into() }),
        tenancy: Some(pb::Tenancy { partition: "default".into(), namespace: "default".into() }),
    }
}

pub(crate) fn name(resource: &pb::Resource) -> &str {
    resource.id.as_ref().map_or("", |id| &id.name)
}

/// Returns the number of a resource, whose text must be that of the number.
pub(crate) fn number(resource: &pb::Resource) -> u64 {
    let number = resource.metadata["n"].parse().unwrap();
    let fill = (b'a' + (number % 23) as u8) as char;
    assert!(resource.metadata["text"].chars().all(|c| c == fill), "{} has a text of another version", name(resource));
    number
}

/// A writer; it alone changes its resources, so it knows their states.
pub(crate) struct Writer {
    pub(crate) store: Arc<SledBackend>,
    pub(crate) known: Vec<(String, Option<pb::Resource>)>,
    pub(crate) owner: Option<pb::Id>,
    pub(crate) number: u64,
}

pub(crate) fn print_line(line: &str) {
    // One system call: a kill cannot tear the line of a step already begun.
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
}

impl Writer {
    fn next(&mut self, slot: usize) -> pb::Resource {
        self.number += 1;
        let (name, stored) = &self.known[slot];
        let mut resource = stored.clone().unwrap_or_else(|| pb::Resource {
            id: Some(id(name, format!("{:026}", fastrand::u64(..)))),
            owner: self.owner.clone(),
            ..pb::Resource::default()
        });
        let len = match fastrand::u8(..) {
            0..200 => fastrand::usize(..300),
            200..250 => fastrand::usize(..9_000),
            _ => fastrand::usize(..100_000),
        };
        let fill = ((b'a' + (self.number % 23) as u8) as char).to_string();
        resource.metadata.insert("n".into(), self.number.to_string());
        resource.metadata.insert("text".into(), fill.repeat(len));
        resource
    }

    /// Writes two of its resources in one batch.
    async fn pair(&mut self) {
        let (a, b) = (fastrand::usize(..NAMES), fastrand::usize(..NAMES));
        if a == b {
            return;
        }
        let (first, second) = (self.next(a), self.next(b));
        let (m, n) = (number(&first), number(&second));
        let names = (self.known[a].0.clone(), self.known[b].0.clone());
        print_line(&format!("pair {} {m} {} {n}", names.0, names.1));
        let mutations = vec![Mutation::Put(Box::new(first)), Mutation::Put(Box::new(second))];
        let mut results = self.store.commit(Batch::new(mutations)).await.unwrap();
        for (slot, name) in [(b, names.1), (a, names.0)] {
            let stored = results.pop().unwrap().unwrap();
            print_line(&format!("done {name} {}", stored.version()));
            self.known[slot].1 = Some(stored.decode().unwrap());
        }
    }

    /// Runs until it is killed.
    pub(crate) async fn run(mut self) {
        loop {
            self.step().await;
        }
    }

    async fn step(&mut self) {
        if fastrand::u8(..) < 30 {
            return self.pair().await;
        }
        let slot = fastrand::usize(..NAMES);
        let name = self.known[slot].0.clone();
        match self.known[slot].1.clone() {
            Some(stored) if fastrand::u8(..) < 60 => {
                print_line(&format!("delete {name}"));
                self.store.delete_cas(stored.id.as_ref().unwrap(), &stored.version).await.unwrap();
                print_line(&format!("done {name} 0"));
                self.known[slot].1 = None;
            }
            _ => {
                let resource = self.next(slot);
                print_line(&format!("put {name} {}", self.number));
                let stored = self.store.write_cas(resource).await.unwrap();
                print_line(&format!("done {name} {}", stored.version));
                if slot == 0 {
                    // The first resource owns those created from here on.
                    self.owner = stored.id.clone();
                }
                self.known[slot].1 = Some(stored);
            }
        }
    }
}
