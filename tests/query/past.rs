//! Searches as of one version: pages miss nothing that moves meanwhile, and a watch goes on behind them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
};

use fastrand::Rng;
use mortise_api::{QueryServiceClient, WatchServiceClient};
use mortise_resource::{
    data::{
        SearchRequest, SearchResponse, WatchResourcesRequest,
        resource_change::{ChangeType, Current, Removed},
    },
    goten::{Meta, WatchType},
    pb,
};
use tokio::time::timeout;
use tonic::{Code, Request, Status, transport::Channel};

use crate::support::{PATIENCE, Server, any, at, demo, gvk, id, make_place, names, places, refusal, resource, tenancy};

const ARTIST: &str = "demo.v2.Artist";
const GENRES: [demo::v2::Genre; 3] = [demo::v2::Genre::Jazz, demo::v2::Genre::Folk, demo::v2::Genre::Pop];

/// An artist with a random place in every order and filter.
fn random_artist(name: &str, random: &mut Rng) -> pb::Resource {
    let data = demo::v2::Artist {
        name: format!("by-{:02}", random.usize(..30)),
        genre: GENRES[random.usize(..3)].into(),
        group_members: [("lead".to_owned(), format!("l{}", random.usize(..3)))].into_iter().collect(),
    };
    let labels = BTreeMap::from([("env".to_owned(), ["prod", "test"][random.usize(..2)].to_owned())]);
    let meta = Some(Box::new(Meta { labels, ..Meta::default() }));
    pb::Resource { meta, ..resource(id(ARTIST, name), Some(any("hashicorp.consul.internal.demo.v2.Artist", &data))) }
}

fn search(filter: &str, order_by: &str) -> SearchRequest {
    SearchRequest {
        r#type: Some(gvk(ARTIST)),
        tenancy: Some(tenancy("default", "*")),
        filter: filter.into(),
        order_by: order_by.into(),
        ..SearchRequest::default()
    }
}

async fn answer(client: &mut QueryServiceClient<Channel>, request: SearchRequest) -> Result<SearchResponse, Status> {
    Ok(client.search(request).await?.into_inner())
}

/// Moves, removes and adds some resources.
async fn disturb(server: &Server, random: &mut Rng) {
    for _ in 0..6 {
        let (name, namespace) = (format!("a-{:02}", random.usize(..40)), ["default", "other"][random.usize(..2)]);
        let changed = at(random_artist(&name, random), "default", namespace);
        match random.usize(..4) {
            0 => drop(server.delete(changed.id.as_ref().unwrap(), "").await),
            _ => drop(server.write(changed).await.unwrap()),
        }
    }
}

/// Each access path and order: the pages of one version, forwards and backwards, are the result as it was, with its
/// counts, even if resources move, go and come between them; a watch behind them leads to the present result.
#[tokio::test]
async fn pages_of_one_version_are_the_result_as_it_was() {
    let server = Server::start().await;
    make_place(&server, "default", "other").await;
    let random = &mut Rng::with_seed(47);
    for n in 0..40 {
        for namespace in ["default", "other"] {
            server.write(at(random_artist(&format!("a-{n:02}"), random), "default", namespace)).await.unwrap();
        }
    }
    let mut client = QueryServiceClient::new(server.channel().await);
    let mut moved = 0;
    for (filter, order_by) in [
        ("", ""),
        ("", "name desc"),
        ("", "data.name"),
        ("", "data.genre desc"),
        ("", "data.group_members.lead, data.name desc"),
        ("data.genre = \"GENRE_JAZZ\"", ""),
        ("data.genre = \"GENRE_JAZZ\"", "data.name desc"),
        ("data.group_members.lead STARTS_WITH \"l1\"", ""),
        ("meta.labels.env = \"prod\"", ""),
        ("meta.labels.env IN [\"prod\", \"none\"]", "data.name"),
        ("id.name IN [\"a-01\", \"a-02\", \"a-03\", \"a-04\", \"a-05\", \"a-06\"]", "data.name"),
        ("id.name STARTS_WITH \"a-1\"", "data.genre"),
    ] {
        for counts in [false, true] {
            let case = format!("{filter:?} by {order_by:?}, counts {counts}");
            let base = SearchRequest { page_size: 5, include_paging_info: counts, ..search(filter, order_by) };
            let whole = answer(&mut client, SearchRequest { page_size: 1_000, ..base.clone() }).await.unwrap();
            assert_eq!((&*whole.at, &*whole.resume_token), ("", ""), "{case}");
            let mut pages =
                vec![answer(&mut client, SearchRequest { at: "now".into(), ..base.clone() }).await.unwrap()];
            let version = pages[0].at.clone();
            version.parse::<u64>().unwrap();
            while let Some(token) = pages.last().map(|page| page.next_page_token.clone()).filter(|t| !t.is_empty()) {
                disturb(&server, random).await;
                let next = SearchRequest { at: version.clone(), page_token: token, ..base.clone() };
                pages.push(answer(&mut client, next).await.unwrap_or_else(|fault| panic!("{case}: {fault}")));
            }
            let (mut found, mut offset) = (Vec::new(), 0);
            for page in &pages {
                assert_eq!((&page.at, &page.resume_token), (&version, &pages[0].resume_token), "{case}");
                let (expected_offset, total) = if counts { (offset, whole.resources.len() as i32) } else { (0, 0) };
                assert_eq!((page.current_offset, page.total_results_count), (expected_offset, total), "{case}");
                offset += page.resources.len() as i32;
                found.extend(page.resources.clone());
            }
            assert_eq!(places(&found), places(&whole.resources), "{case}");
            assert_eq!(found, whole.resources, "{case}");
            let mut token = pages.last().unwrap().prev_page_token.clone();
            for before in pages.iter().rev().skip(1) {
                let back = SearchRequest { at: version.clone(), page_token: token, ..base.clone() };
                let back = answer(&mut client, back).await.unwrap();
                assert_eq!(back.resources, before.resources, "{case}, backwards");
                token = back.prev_page_token;
            }
            assert_eq!(token, "", "{case}");

            // A watch of the same matches, in no order, begins behind the version.
            let first = SearchRequest { at: "now".into(), order_by: String::new(), page_size: 1_000, ..base.clone() };
            let first = answer(&mut client, first).await.unwrap();
            disturb(&server, random).await;
            let watch = WatchResourcesRequest::from_search(
                SearchRequest { page_size: 0, ..search(filter, "") },
                WatchType::Stateless,
                first.resume_token,
            );
            let mut watch =
                WatchServiceClient::new(server.channel().await).watch_resources(watch).await.unwrap().into_inner();
            let key = |id: &pb::Id| (id.tenancy.clone().unwrap().namespace, id.name.clone());
            let mut has: BTreeMap<_, _> =
                first.resources.into_iter().map(|one| (key(one.id.as_ref().unwrap()), one)).collect();
            loop {
                let message = timeout(PATIENCE, watch.message()).await.expect("a message comes").unwrap().unwrap();
                assert!(!message.is_hard_reset && !message.is_soft_reset, "{case}: {message:?}");
                for change in message.changes {
                    moved += 1;
                    match change.change_type.unwrap() {
                        ChangeType::Current(Current { resource }) => {
                            let resource = resource.unwrap();
                            has.insert(key(resource.id.as_ref().unwrap()), resource);
                        }
                        ChangeType::Removed(Removed { name, .. }) => drop(has.remove(&key(name.as_ref().unwrap()))),
                        other => panic!("{other:?} in STATELESS"),
                    }
                }
                if message.is_current {
                    break;
                }
            }
            let now = answer(&mut client, SearchRequest { page_size: 1_000, ..search(filter, "") }).await.unwrap();
            let expected: BTreeMap<_, _> =
                now.resources.into_iter().map(|one| (key(one.id.as_ref().unwrap()), one)).collect();
            assert_eq!(has, expected, "{case}, watched");
        }
    }
    assert!(moved > 50, "{moved}");
}

/// Under steady writes too, each resource that is there all the time is on the pages exactly once.
#[tokio::test]
async fn resources_that_move_while_pages_are_read_come_once() {
    let server = Server::start().await;
    let random = &mut Rng::with_seed(48);
    for n in 0..120 {
        server.write(random_artist(&format!("a-{n:03}"), random)).await.unwrap();
    }
    let ends = AtomicBool::new(false);
    let write = async |seed: u64| {
        let random = &mut Rng::with_seed(seed);
        let mut writes = 0;
        while !ends.load(Ordering::Relaxed) {
            let name = format!("a-{:03}", random.usize(..120));
            server.write(random_artist(&name, random)).await.unwrap();
            writes += 1;
        }
        writes
    };
    let read = async {
        let mut client = QueryServiceClient::new(server.channel().await);
        for order_by in ["data.name", "data.genre desc", "data.group_members.lead", "name desc"].repeat(4) {
            let mut seen = BTreeSet::new();
            let mut request = SearchRequest { page_size: 9, at: "now".into(), ..search("", order_by) };
            loop {
                let page = answer(&mut client, request.clone()).await.unwrap();
                for name in names(&page.resources) {
                    assert!(seen.insert(name.clone()), "{name} comes again, by {order_by}");
                }
                if page.next_page_token.is_empty() {
                    break;
                }
                (request.page_token, request.at) = (page.next_page_token, page.at);
            }
            assert_eq!(seen.len(), 120, "by {order_by}");
        }
        ends.store(true, Ordering::Relaxed);
    };
    let (first, second, ()) = tokio::join!(write(1), write(2), read);
    assert!(first + second > 20, "{first} and {second} writes");
}

/// A walk over an index that gives up begins again with all names, and with what was overwritten.
#[tokio::test]
async fn a_page_of_a_version_survives_a_walk_that_gives_up() {
    let server = Server::start().await;
    let named = |number: usize, name: &str| {
        let group_members = [("lead".to_owned(), format!("l{number:04}"))].into_iter().collect();
        let data = demo::v2::Artist { name: name.into(), genre: GENRES[0].into(), group_members };
        resource(id(ARTIST, &format!("a-{number:04}")), Some(any("hashicorp.consul.internal.demo.v2.Artist", &data)))
    };
    // More than a walk reads, with what is sought at both ends.
    let count = 2_300;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..20 {
        let mut client = server.client();
        let is_sought = |number: usize| number < 2 || number == count - 1;
        let mine: Vec<_> = (writer..count)
            .step_by(20)
            .map(|number| named(number, if is_sought(number) { "sought" } else { "other" }))
            .collect();
        writers.spawn(async move {
            for resource in mine {
                client.write(pb::WriteRequest { resource: Some(resource) }).await.unwrap();
            }
        });
    }
    writers.join_all().await;
    let mut client = QueryServiceClient::new(server.channel().await);
    let base =
        SearchRequest { page_size: 1, explain: true, ..search("data.name = \"sought\"", "data.group_members.lead") };
    let mut page = answer(&mut client, SearchRequest { at: "now".into(), ..base.clone() }).await.unwrap();
    let mut found = names(&page.resources);
    server.write(named(1, "other")).await.unwrap();
    while !page.next_page_token.is_empty() {
        let next = SearchRequest { at: page.at, page_token: page.next_page_token, ..base.clone() };
        page = answer(&mut client, next).await.unwrap();
        found.extend(names(&page.resources));
    }
    assert_eq!(found, ["a-0000", "a-0001", "a-2299"]);
}

/// A version that is not kept is refused with the next step.
#[tokio::test]
async fn a_version_is_kept_for_its_place_while_there_are_pages() {
    let server = Server::start().await;
    make_place(&server, "default", "other").await;
    let random = &mut Rng::with_seed(49);
    for n in 0..4 {
        server.write(random_artist(&format!("a-{n}"), random)).await.unwrap();
    }
    let mut client = QueryServiceClient::new(server.channel().await);
    let whole = SearchRequest { at: "now".into(), ..search("", "") };
    let whole = answer(&mut client, whole).await.unwrap();
    let newer = server.write(random_artist("a-9", random)).await.unwrap();
    let mut refused = async |request: SearchRequest| refusal(answer(&mut client, request).await);
    for text in ["latest", "NOW", "-1", "1.0", "18446744073709551616"] {
        let (code, text) = refused(SearchRequest { at: text.into(), ..search("", "") }).await;
        assert!(code == Code::InvalidArgument && text.starts_with("at: "), "{code:?} {text}");
    }
    // Everything was on one page, so nothing is kept.
    for version in [whole.at.as_str(), "0", newer.version.as_str(), "18446744073709551615"] {
        let (code, text) = refused(SearchRequest { at: version.into(), ..search("", "") }).await;
        assert!(code == Code::Aborted && text.contains("begin again with at = \"now\""), "{code:?} {text}");
    }
    let first = SearchRequest { at: "now".into(), page_size: 2, ..search("", "data.name") };
    let first = answer(&mut client, first).await.unwrap();
    let kept = SearchRequest { at: first.at.clone(), ..search("", "") };
    // Another filter and another order of the same place are answered; another place is not.
    let of_version = answer(&mut client, SearchRequest { filter: "id.name = \"a-9\"".into(), ..kept.clone() }).await;
    assert_eq!(names(&of_version.unwrap().resources), ["a-9"]);
    for other in [
        SearchRequest { tenancy: Some(tenancy("default", "default")), ..kept.clone() },
        SearchRequest { parent: "a".into(), ..kept.clone() },
        SearchRequest {
            r#type: Some(gvk("demo.v1.Artist")),
            tenancy: Some(tenancy("default", "other")),
            ..kept.clone()
        },
    ] {
        assert_eq!(refusal(answer(&mut client, other).await).0, Code::Aborted);
    }
    let newest = server.write(random_artist("a-8", random)).await.unwrap();
    let mut request = Request::new(kept.clone());
    request.metadata_mut().insert("x-mortise-at-least", newest.version.parse().unwrap());
    let (code, text) = refusal(client.search(request).await);
    assert!(code == Code::FailedPrecondition && text.contains("older"), "{code:?} {text}");
    assert_eq!(answer(&mut client, kept).await.unwrap().resources.len(), 5);
}
