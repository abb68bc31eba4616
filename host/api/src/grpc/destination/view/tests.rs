//! Streams that fall behind at random reach the true state as soon as they catch up, by any sequence of changes.

use fastrand::Rng;
use prost::Message as _;

use super::*;
use crate::{
    catalog::{Endpoint, EndpointPort, Health, ServiceEndpoints, ServicePort},
    grpc::destination::{
        memory::Memory,
        state::{HEAD, facts},
    },
    linkerd::destination::{Update as Message, WeightedAddr, update::Update as Kind},
};

fn view() -> View {
    View::new(Selection { port: 80, instance: None }, AnswerBytes::default(), Memory::default().share())
}

fn web() -> ServiceName {
    ServiceName { namespace: "default".to_owned(), name: "web".to_owned() }
}

/// The change to these endpoints, or to a service that does not exist.
fn change(service: Option<ServiceEndpoints>) -> Update {
    let parts = service.iter().map(|service| (HEAD.to_owned(), Some(service.endpoints.clone()))).collect();
    Update { facts: facts(None, service.as_ref(), None), is_whole: true, parts }
}

/// An endpoint for each of these hosts and weights.
fn endpoints(all: &BTreeMap<u8, u32>) -> ServiceEndpoints {
    let endpoint = |(host, weight): (&u8, &u32)| Endpoint {
        address: format!("10.0.0.{host}"),
        weight: *weight,
        health: Health::Passing.into(),
        ports: vec![EndpointPort { name: "http".to_owned(), port: 8080, ..EndpointPort::default() }],
        ..Endpoint::default()
    };
    let http = ServicePort { name: "http".to_owned(), port: 80, ..ServicePort::default() };
    ServiceEndpoints { endpoints: all.iter().map(endpoint).collect(), ports: vec![http], ..ServiceEndpoints::default() }
}

/// The knowledge of a client; `None` means that the service does not exist.
#[derive(Default)]
struct Client {
    position: Position,
    known: Option<Option<BTreeMap<u8, u32>>>,
}

impl Client {
    /// Takes all pending messages and returns their bytes. Fails on a message without news.
    fn catch_up(&mut self, view: &View) -> Result<usize, StreamError> {
        let Some(bytes) = view.next(&mut self.position, Dialect::Linkerd)? else { return Ok(0) };
        let mut rest = &bytes[..];
        while let Some((prefix, after)) = rest.split_at_checked(5) {
            let length = u32::from_be_bytes(prefix[1..].try_into().unwrap()) as usize;
            let (message, after) = after.split_at(length);
            rest = after;
            self.hear(Message::decode(message).unwrap().update.unwrap());
        }
        Ok(bytes.len())
    }

    fn hear(&mut self, update: Kind) {
        let host = |addr: &crate::linkerd::net::TcpAddress| match addr.ip.as_ref().and_then(|ip| ip.ip.as_ref()) {
            Some(crate::linkerd::net::ip_address::Ip::Ipv4(ip)) => (*ip & 0xff) as u8,
            other => panic!("{other:?}"),
        };
        match update {
            Kind::Add(set) => {
                let known = self.known.get_or_insert_default().get_or_insert_default();
                for WeightedAddr { addr, weight, .. } in set.addrs {
                    let before = known.insert(host(&addr.unwrap()), weight);
                    assert_ne!(before, Some(weight), "it is told again");
                }
            }
            Kind::Remove(set) => {
                let known = self.known.as_mut().and_then(Option::as_mut).expect("no remove comes first");
                for addr in set.addrs {
                    known.remove(&host(&addr)).expect("it was known");
                }
                assert!(!known.is_empty(), "the last one goes with no_endpoints");
            }
            Kind::NoEndpoints(none) => self.known = Some(none.exists.then(BTreeMap::new)),
        }
    }
}

#[test]
fn differences_are_exact_however_far_behind_a_stream_is() {
    let (mut caught_up, mut shared) = (0, 0);
    for seed in 0..200 {
        let mut random = Rng::with_seed(seed);
        let view = view();
        let mut clients: Vec<Client> = (0..4).map(|_| Client::default()).collect();
        let mut truth: Option<BTreeMap<u8, u32>> = None;
        for seen in 1..=200 {
            match random.u32(..20) {
                0 => truth = None,
                1 => truth = Some(BTreeMap::new()),
                2 => truth = Some((0..random.u8(..40)).map(|host| (host, 1)).collect()),
                3..10 => _ = truth.get_or_insert_default().remove(&random.u8(..40)),
                _ => _ = truth.get_or_insert_default().insert(random.u8(..40), random.u32(..3)),
            }
            view.apply(seen, &web(), &change(truth.as_ref().map(endpoints)));
            for client in &mut clients {
                if random.u32(..6) == 0 {
                    caught_up += usize::from(client.catch_up(&view).unwrap() > 0);
                    assert_eq!(client.known, Some(truth.clone()), "seed {seed}, state {seen}");
                }
                if random.u32(..60) == 0 {
                    *client = Client::default();
                }
            }
        }
        let held = view.answers.held();
        assert_eq!(held, 0, "nothing is on its way");
        let (mut left, mut other) = (Position::default(), Position::default());
        let both = (view.next(&mut left, Dialect::Linkerd).unwrap(), view.next(&mut other, Dialect::Linkerd).unwrap());
        if let (Some(left), Some(other)) = both
            && left.len() > 20
        {
            assert_eq!(left.as_ptr(), other.as_ptr(), "bytes are shared");
            assert_eq!(view.answers.held(), left.len(), "and counted once");
            shared += 1;
        }
    }
    assert!(caught_up > 10_000 && shared > 50, "{caught_up} messages, {shared} shared");
}

#[test]
fn a_stream_that_is_too_far_behind_has_lagged_and_others_have_not() {
    let view = view();
    let (mut slow, mut quick, mut empty) = (Client::default(), Client::default(), Client::default());
    view.apply(1, &web(), &change(Some(endpoints(&BTreeMap::new()))));
    empty.catch_up(&view).unwrap();
    let mut truth = BTreeMap::from([(1, 1), (2, 1)]);
    view.apply(2, &web(), &change(Some(endpoints(&truth))));
    slow.catch_up(&view).unwrap();
    let most = (2 * truth.len() + MIN_LOG_ENTRIES) as u32;
    for weight in 0..most {
        truth.insert(1, 2 + weight);
        view.apply(3 + u64::from(weight), &web(), &change(Some(endpoints(&truth))));
        quick.catch_up(&view).unwrap();
    }
    let size = view.inner.lock().size();
    assert!(size < 512 << 10, "{size} bytes");
    let mut edge = Client { position: slow.position, known: slow.known.clone() };
    edge.catch_up(&view).unwrap();
    assert_eq!(edge.known, Some(Some(truth.clone())), "all of the log");
    truth.insert(1, 0);
    view.apply(u64::from(most) + 3, &web(), &change(Some(endpoints(&truth))));
    assert!(matches!(slow.catch_up(&view), Err(StreamError::Lagged)));
    empty.catch_up(&view).unwrap();
    quick.catch_up(&view).unwrap();
    assert_eq!((quick.known, empty.known), (Some(Some(truth.clone())), Some(Some(truth))));
}

/// Endpoints that move between parts at random, also by being in two for a while, are never lost to a client.
#[test]
fn slices_that_change_one_by_one_add_up() {
    let mut messages = 0;
    for seed in 0..100 {
        let mut random = Rng::with_seed(seed);
        let view = view();
        let mut client = Client::default();
        let mut parts: BTreeMap<String, BTreeMap<u8, u32>> = BTreeMap::from([(HEAD.to_owned(), BTreeMap::new())]);
        let whole = |parts: &BTreeMap<String, BTreeMap<u8, u32>>| {
            let parts = parts.iter().map(|(name, part)| (name.clone(), Some(endpoints(part).endpoints)));
            Update { is_whole: true, parts: parts.collect(), ..change(Some(endpoints(&BTreeMap::new()))) }
        };
        view.apply(1, &web(), &whole(&parts));
        for seen in 2..=150 {
            let name = match random.u32(..4) {
                0 => HEAD.to_owned(),
                number => format!("web-{number}"),
            };
            let part = parts.entry(name.clone()).or_default();
            for _ in 0..random.u32(..4) {
                let host = random.u8(..20);
                // An endpoint has one weight wherever it is.
                _ = if random.bool() { part.insert(host, host.into()) } else { part.remove(&host) };
            }
            let is_gone = random.u32(..10) == 0 && name != HEAD;
            if is_gone {
                parts.remove(&name);
            }
            let now = parts.get(&name).map(|part| endpoints(part).endpoints);
            let partial = Update { is_whole: false, parts: BTreeMap::from([(name, now)]), ..whole(&parts) };
            if random.u32(..10) == 0 {
                assert!(view.apply(seen, &web(), &whole(&parts)));
            } else {
                assert!(!view.apply(seen + 1, &web(), &partial), "a state is missing");
                assert!(view.apply(seen, &web(), &partial));
            }
            messages += usize::from(client.catch_up(&view).unwrap() > 0);
            let truth: BTreeMap<u8, u32> = parts.values().flatten().map(|(host, weight)| (*host, *weight)).collect();
            assert_eq!(client.known, Some(Some(truth)), "seed {seed}, state {seen}");
        }
        let inner = view.inner.lock();
        assert_eq!(inner.address_bytes, inner.addresses.iter().map(|address| address.size()).sum::<usize>());
    }
    assert!(messages > 5_000, "{messages}");
}
