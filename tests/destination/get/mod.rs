//! The destination API: messages to proxies about services, by the rules of docs/destination.md, each for an old client
//! and a new one.

mod messages;
mod requests;
mod streams;

use std::collections::BTreeMap;

use crate::{
    destination::proxy::{BOTH, Get, Said, Told, addrs},
    support::{Server, metadata},
};

const A: &str = "10.0.0.1:8080";
const B: &str = "10.0.0.2:8080";
const C: &str = "10.0.0.3:8080";

const ABSENT: Said = Said::NoEndpoints { exists: false };
const EMPTY: Said = Said::NoEndpoints { exists: true };

/// A client of each kind that asks for `web`.
async fn clients(server: &Server) -> Vec<Get> {
    let mut all = Vec::new();
    for api in BOTH {
        all.push(api.of(server, "web").await);
    }
    all
}

/// Expects these messages as the next ones of every client.
#[track_caller]
fn told<'a>(clients: &'a mut [Get], expected: &'a [Said]) -> impl Future<Output = ()> + 'a {
    let at = std::panic::Location::caller();
    async move {
        for client in clients {
            for said in expected {
                assert_eq!(client.next().await, *said, "{at}");
            }
        }
    }
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    metadata(pairs)
}

/// The labels of `web`.
fn of_web() -> BTreeMap<String, String> {
    labels(&[("namespace", "default"), ("service", "web")])
}

/// An `add` of addresses of `web` of weight 1.
fn add(all: &[&str]) -> Said {
    let told = Told { weight: 1, ..Told::default() };
    Said::Add(addrs(all).into_iter().map(|addr| (addr, told.clone())).collect(), of_web())
}

fn remove(all: &[&str]) -> Said {
    Said::Remove(addrs(all))
}
