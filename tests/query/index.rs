//! Queries by fields with declared indexes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
};

use fastrand::Rng;
use mortise_api::QueryServiceClient;
use mortise_resource::{
    data::{QueryPlan, SearchRequest, query_plan::Access},
    goten::View,
    pb,
};
use tokio::time::timeout;

use crate::support::{
    PATIENCE, Server, Setup, any, at, demo, eventually, gvk, id, make_place, places, resource, tenancy,
};

const ARTIST: &str = "demo.v2.Artist";
const GENRES: [demo::v2::Genre; 4] =
    [demo::v2::Genre::Jazz, demo::v2::Genre::Folk, demo::v2::Genre::Pop, demo::v2::Genre::Metal];

fn of(name: &str, genre: demo::v2::Genre, lead: &str) -> pb::Resource {
    let group_members = [("lead".to_owned(), lead.to_owned())].into_iter().collect();
    let data = demo::v2::Artist { name: name.into(), genre: genre.into(), group_members };
    resource(id(ARTIST, name), Some(any("hashicorp.consul.internal.demo.v2.Artist", &data)))
}

/// All pages of a search in all namespaces, and the plan of the first.
async fn found(server: &Server, filter: &str, page_size: i32) -> (Vec<String>, QueryPlan) {
    sorted(server, filter, "", page_size).await
}

/// All pages of a search in an order, forwards; from the last one on, its pages backwards have to be the same.
async fn sorted(server: &Server, filter: &str, order_by: &str, page_size: i32) -> (Vec<String>, QueryPlan) {
    let mut client = QueryServiceClient::new(server.channel().await);
    let mut request = SearchRequest {
        r#type: Some(gvk(ARTIST)),
        tenancy: Some(tenancy("default", "*")),
        filter: filter.into(),
        order_by: order_by.into(),
        page_size,
        explain: true,
        view: View::Name.into(),
        ..SearchRequest::default()
    };
    let (mut found, mut plan) = (Vec::new(), None);
    loop {
        let answer = client.search(request.clone()).await.unwrap().into_inner();
        found.extend(in_order(&answer.resources));
        plan = plan.or(answer.plan);
        if answer.next_page_token.is_empty() {
            let mut end = in_order(&answer.resources);
            request.page_token = answer.prev_page_token;
            while !request.page_token.is_empty() {
                let answer = client.search(request.clone()).await.unwrap().into_inner();
                end.splice(..0, in_order(&answer.resources));
                request.page_token = answer.prev_page_token;
            }
            assert_eq!(end, found, "backwards");
            return (found, plan.unwrap());
        }
        request.page_token = answer.next_page_token;
    }
}

/// The places of resources, in their order.
fn in_order(resources: &[pb::Resource]) -> Vec<String> {
    resources.iter().flat_map(|resource| places(std::slice::from_ref(resource))).collect()
}

/// A search by an indexed field returns the acknowledged resources, in order, and reads nothing else, while several
/// clients write, change and delete.
#[tokio::test]
async fn an_index_has_every_acknowledged_write() {
    let server = Server::start().await;
    make_place(&server, "default", "other").await;
    let mut random = Rng::with_seed(2026);
    let mut model: BTreeMap<(&str, String), (pb::Resource, usize, String)> = BTreeMap::new();
    let mut searches = 0;
    for step in 0..400 {
        let namespace = ["default", "other"][random.usize(..2)];
        let name = format!("a-{:02}", random.usize(..60));
        let (genre, lead) = (random.usize(..GENRES.len()), format!("l{}", random.usize(..3)));
        let key = (namespace, name.clone());
        match (random.usize(..4), model.get(&key)) {
            (0, Some((stored, ..))) => {
                let id = stored.id.clone().unwrap();
                server.delete(&id, &stored.version).await.unwrap();
                model.remove(&key);
            }
            _ => {
                let written = server.write(at(of(&name, GENRES[genre], &lead), "default", namespace)).await.unwrap();
                model.insert(key, (written, genre, lead));
            }
        }
        if step % 4 > 0 {
            continue;
        }
        let sought = random.usize(..GENRES.len());
        let filter = format!("data.genre = \"{}\"", GENRES[sought].as_str_name());
        let (found_by_field, plan) = found(&server, &filter, 7).await;
        let expected = |is_sought: &dyn Fn(usize, &str) -> bool| -> BTreeSet<String> {
            let matching = model.values().filter(|(_, genre, lead)| is_sought(*genre, lead));
            matching.flat_map(|(resource, ..)| places(std::slice::from_ref(resource))).collect()
        };
        let of_genre: Vec<_> = expected(&|genre, _| genre == sought).into_iter().collect();
        assert_eq!(found_by_field, of_genre, "step {step}");
        assert_eq!(plan.access(), Access::Field, "step {step}: {plan:?}");
        assert!(usize::try_from(plan.scanned).unwrap() <= of_genre.len(), "{plan:?}");
        let (by_two, plan) = found(&server, "data.groupMembers.lead IN (\"l1\", \"l2\")", 1_000).await;
        assert_eq!(by_two, expected(&|_, lead| lead != "l0").into_iter().collect::<Vec<_>>(), "step {step}");
        assert_eq!((plan.access(), plan.scanned), (Access::Field, i64::try_from(by_two.len()).unwrap()));
        // Ranges, and orders by an indexed field.
        let (by_prefix, plan) = found(&server, "data.group_members.lead STARTS_WITH \"l1\"", 1_000).await;
        assert_eq!(by_prefix, expected(&|_, lead| lead == "l1").into_iter().collect::<Vec<_>>(), "step {step}");
        assert_eq!((plan.access(), plan.scanned), (Access::Field, i64::try_from(by_prefix.len()).unwrap()), "{plan:?}");
        let most = i32::from(GENRES[sought]);
        for (order, is_descending) in [("data.genre", false), ("data.genre desc", true)] {
            for (filter, most) in [(String::new(), i32::MAX), (format!("data.genre <= {most}"), most)] {
                let mut sought: Vec<_> =
                    model.iter().filter(|(_, (_, genre, _))| i32::from(GENRES[*genre]) <= most).collect();
                sought.sort_by_key(|(key, (_, genre, _))| (i32::from(GENRES[*genre]), *key));
                if is_descending {
                    sought.reverse();
                }
                let expected: Vec<_> =
                    sought.iter().flat_map(|(_, (one, ..))| in_order(std::slice::from_ref(one))).collect();
                let (found, plan) = sorted(&server, &filter, order, [1, 7, 1_000][random.usize(..3)]).await;
                assert_eq!(found, expected, "step {step}: {filter} {order}");
                assert_eq!((plan.access(), plan.sorted), (Access::Field, false), "{plan:?}");
            }
        }
        searches += 2;
    }
    assert_eq!(searches, 200);
}

/// The index contains resources from before the server's start, and changes made while it was built.
#[tokio::test]
async fn an_index_covers_stored_resources_and_concurrent_writes() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().data_dir(dir.path()).start().await;
    for n in 0..500 {
        server.write(of(&format!("a-{n:03}"), GENRES[n % 4], "x")).await.unwrap();
    }
    server.stop().await;
    let server = std::sync::Arc::new(Setup::new().data_dir(dir.path()).start().await);
    let is_over = std::sync::Arc::new(AtomicBool::new(false));
    let writer = {
        let (server, is_over) = (server.clone(), is_over.clone());
        tokio::spawn(async move {
            // All of them once, and again until enough was found meanwhile.
            for n in (0..300).chain((0..300).cycle().take_while(|_| !is_over.load(Ordering::Relaxed))) {
                server.write(of(&format!("a-{n:03}"), GENRES[3], "y")).await.unwrap();
            }
        })
    };
    let mut by_field = 0;
    let searches = async {
        while by_field < 20 {
            let (folk, plan) = found(&server, "data.genre = \"GENRE_FOLK\"", 1_000).await;
            // 50 of the 125 keep their value; the others are being rewritten.
            assert!((50..=125).contains(&folk.len()), "{}", folk.len());
            by_field += usize::from(plan.access() == Access::Field);
        }
    };
    timeout(PATIENCE, searches).await.expect("searches by the field while others write");
    is_over.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    let (metal, plan) = found(&server, "data.genre = \"GENRE_METAL\"", 1_000).await;
    assert_eq!((metal.len(), plan.access(), plan.scanned), (350, Access::Field, 350));
}

/// Without room no index is built: answers stay right, the plan and the log say how resources were found, and writes
/// continue.
#[tokio::test]
async fn a_type_whose_indexes_do_not_fit_has_none() {
    let server = Setup::new().env("MORTISE_SERVICE_INDEX_BYTES", 65_536).start().await;
    for n in 0..400 {
        server.write(of(&format!("a-{n:03}"), GENRES[n % 4], &"lead".repeat(100))).await.unwrap();
    }
    let (folk, plan) = found(&server, "data.genre = \"GENRE_FOLK\"", 1_000).await;
    assert_eq!((folk.len(), plan.access()), (100, Access::NameRange), "{plan:?}");
    eventually("the log says why", async || server.log().contains("service.index_bytes")).await;
    server.write(of("b", GENRES[1], "x")).await.unwrap();
    assert_eq!(found(&server, "data.genre = \"GENRE_FOLK\"", 1_000).await.0.len(), 101);
}

/// A namespace in all partitions is found behind pages of other places.
#[tokio::test]
async fn places_elsewhere_are_passed_over() {
    let server = Server::start().await;
    make_place(&server, "default", "other").await;
    for n in 0..300 {
        server.write(of(&format!("a-{n:03}"), GENRES[0], "x")).await.unwrap();
    }
    server.write(at(of("b", GENRES[0], "x"), "default", "other")).await.unwrap();
    let request = SearchRequest {
        r#type: Some(gvk(ARTIST)),
        tenancy: Some(tenancy("*", "other")),
        filter: "data.genre = \"GENRE_JAZZ\"".into(),
        explain: true,
        ..SearchRequest::default()
    };
    let mut client = QueryServiceClient::new(server.channel().await);
    // While the index is being built, the search goes through the names.
    let mut found = Vec::new();
    eventually("the index is used", async || {
        let answer = client.search(request.clone()).await.unwrap().into_inner();
        let plan = answer.plan.unwrap();
        assert_eq!(places(&answer.resources).len(), 1);
        found.push((plan.access(), plan.scanned));
        plan.access() == Access::Field
    })
    .await;
    assert_eq!(found.last(), Some(&(Access::Field, 1)));
}

/// The index compares long values by a prefix only; the query compares them in full.
#[tokio::test]
async fn long_values_are_told_apart() {
    let server = Server::start().await;
    let long = "é".repeat(400);
    for (name, lead) in [("a", format!("{long}1")), ("b", format!("{long}2")), ("c", "short".to_owned())] {
        server.write(of(name, GENRES[0], &lead)).await.unwrap();
    }
    let (found, plan) = found(&server, &format!("data.group_members.lead = \"{long}2\""), 10).await;
    assert_eq!((found.len(), plan.access(), plan.scanned, plan.matched), (1, Access::Field, 2, 1));
}

/// A page in the order of an indexed field reads little more than the page, wherever it begins; so do a range and a
/// beginning.
#[tokio::test]
async fn pages_in_the_order_of_an_index_read_the_page() {
    let server = Server::start().await;
    let count = 1_500;
    for n in 0..count {
        // Names and values have opposite orders.
        server.write(of(&format!("a-{n:04}"), GENRES[n % 4], &format!("v{:04}", count - n))).await.unwrap();
    }
    let mut client = QueryServiceClient::new(server.channel().await);
    let base = SearchRequest {
        r#type: Some(gvk(ARTIST)),
        tenancy: Some(tenancy("default", "default")),
        page_size: 10,
        explain: true,
        view: View::Name.into(),
        ..SearchRequest::default()
    };
    let mut ask = async |request: SearchRequest| client.search(request).await.unwrap().into_inner();
    let names = |resources: &[pb::Resource]| -> Vec<String> {
        resources.iter().map(|one| one.id.clone().unwrap().name).collect()
    };
    eventually("the index is there", async || {
        let filter = "data.genre = \"GENRE_FOLK\"".to_owned();
        ask(SearchRequest { filter, ..base.clone() }).await.plan.unwrap().access() == Access::Field
    })
    .await;
    let lead = "data.group_members.lead";
    for (order, first) in [(lead.to_owned(), "a-1499"), (format!("{lead} desc"), "a-0000")] {
        let mut request = SearchRequest { order_by: order.clone(), ..base.clone() };
        let mut all = Vec::new();
        for page in 0..5 {
            let answer = ask(request.clone()).await;
            let plan = answer.plan.unwrap();
            assert_eq!((plan.access(), plan.sorted), (Access::Field, false), "{order} {page}: {plan:?}");
            assert!(plan.scanned <= 12, "{order} {page}: {plan:?}");
            all.extend(names(&answer.resources));
            request.page_token = answer.next_page_token;
        }
        assert_eq!((all.len(), all[0].as_str()), (50, first));
        let is_sorted = all.windows(2).all(|pair| (pair[0] > pair[1]) == (first == "a-1499"));
        assert!(is_sorted, "{all:?}");
    }
    // Few values in a large type, with a count of all.
    for filter in
        [format!("{lead} STARTS_WITH \"v001\""), format!("{lead} LIKE \"v001%\""), format!("{lead} < \"v0011\"")]
    {
        let answer = ask(SearchRequest { filter: filter.clone(), include_paging_info: true, ..base.clone() }).await;
        let plan = answer.plan.unwrap();
        assert_eq!(
            (plan.access(), plan.scanned, answer.total_results_count),
            (Access::Field, 10, 10),
            "{filter} {plan:?}"
        );
    }
    // Names with a beginning are a range of names.
    let answer =
        ask(SearchRequest { filter: "id.name STARTS_WITH \"a-10\"".into(), page_size: 1_000, ..base.clone() }).await;
    assert_eq!(answer.plan.map(|plan| (plan.access(), plan.scanned)), Some((Access::NameRange, 100)));
    // Many resources with one value, whose places are in the order, too.
    let mut request = SearchRequest { order_by: "data.genre".into(), ..base.clone() };
    for page in 0..5 {
        let answer = ask(request.clone()).await;
        let plan = answer.plan.unwrap();
        assert!(plan.scanned <= 64, "{page}: {plan:?}");
        request.page_token = answer.next_page_token;
    }
    // A filter that finds nothing does not read the type one by one.
    let none = SearchRequest { filter: "data.name = \"nothing\"".into(), order_by: lead.into(), ..base };
    let plan = ask(none).await.plan.unwrap();
    assert!(plan.scanned <= 2 * 2_000, "{plan:?}");
}

/// A walk reads the places of a value in parts of 64, and an order with a second key needs all of them before a page is
/// complete.
#[tokio::test]
async fn a_walk_over_a_value_with_many_places_has_each_row_once() {
    let server = Server::start().await;
    let mut random = Rng::with_seed(64);
    let mut rows: Vec<(i32, String, String)> = Vec::new();
    for n in 0..63 {
        let mut numbers: Vec<usize> = (0..4).map(|part| part * 63 + n).collect();
        random.shuffle(&mut numbers);
        for (genre, number) in GENRES.into_iter().zip(numbers) {
            rows.push((genre.into(), format!("a-{number:03}"), format!("n-{:03}", random.usize(..40))));
        }
    }
    // 63 of each genre, then one more of some: 64 and 65, and another whole part.
    for (genre, more) in [(GENRES[1], 1), (GENRES[2], 2), (GENRES[3], 66)] {
        for n in 0..more {
            let id = format!("b-{}-{:03}", i32::from(genre), random.usize(..1_000) * 100 + n);
            rows.push((genre.into(), id, format!("n-{:03}", random.usize(..40))));
        }
    }
    for (genre, id_name, name) in &rows {
        let data = demo::v2::Artist { name: name.clone(), genre: *genre, ..demo::v2::Artist::default() };
        let data = any("hashicorp.consul.internal.demo.v2.Artist", &data);
        server.write(resource(id(ARTIST, id_name), Some(data))).await.unwrap();
    }
    eventually("the index is used", async || {
        found(&server, "data.genre = \"GENRE_FOLK\"", 10).await.1.access() == Access::Field
    })
    .await;
    type Row = (i32, String, String);
    type Compare<'c> = &'c dyn Fn(&Row, &Row) -> std::cmp::Ordering;
    let by_name = |a: &Row, b: &Row| (a.0, &b.2, &b.1).cmp(&(b.0, &a.2, &a.1));
    let from_last = |a: &Row, b: &Row| (b.0, &a.2, &a.1).cmp(&(a.0, &b.2, &b.1));
    let orders: [(&str, Compare<'_>); 2] =
        [("data.genre, data.name desc", &by_name), ("data.genre desc, data.name", &from_last)];
    for (order, compare) in orders {
        rows.sort_by(compare);
        let expected: Vec<String> = rows.iter().map(|(_, id, _)| format!("default/default/{id}")).collect();
        for page_size in [10, 64] {
            let (found, plan) = sorted(&server, "", order, page_size).await;
            assert_eq!(found, expected, "{order} by {page_size}");
            assert_eq!((plan.access(), plan.sorted), (Access::Field, false), "{order}: {plan:?}");
        }
    }
}

/// An absent value compares as its zero value, also where a range is read from an index.
#[tokio::test]
async fn ranges_of_an_index_have_absent_values() {
    let server = Server::start().await;
    let without = demo::v2::Artist { name: "without".into(), genre: GENRES[0].into(), ..demo::v2::Artist::default() };
    let without = any("hashicorp.consul.internal.demo.v2.Artist", &without);
    server.write(resource(id(ARTIST, "absent"), Some(without))).await.unwrap();
    server.write(of("empty", GENRES[0], "")).await.unwrap();
    server.write(of("low", GENRES[0], "l")).await.unwrap();
    server.write(of("middle", GENRES[0], "m")).await.unwrap();
    let is = |found: Vec<String>, expected: &[&str], case: &str| {
        let names: Vec<&str> = found.iter().filter_map(|place| place.rsplit('/').next()).collect();
        assert_eq!(names, expected, "{case}");
    };
    eventually("the index is used", async || {
        found(&server, "data.group_members.lead = \"l\"", 10).await.1.access() == Access::Field
    })
    .await;
    let (all, lead) = (["absent", "empty", "low", "middle"], "data.group_members.lead");
    for (filter, expected) in [
        (format!("{lead} STARTS_WITH \"\""), &all[..]),
        (format!("{lead} LIKE \"%\""), &all[..]),
        (format!("{lead} LIKE \"\""), &all[..2]),
        (format!("{lead} >= \"\""), &all[..]),
        (format!("{lead} > \"\""), &all[2..]),
        (format!("{lead} < \"m\""), &all[..3]),
        (format!("{lead} <= \"\""), &all[..2]),
        (format!("{lead} STARTS_WITH \"m\""), &all[3..]),
    ] {
        let (found, plan) = found(&server, &filter, 10).await;
        is(found, expected, &filter);
        assert_eq!(plan.access(), Access::Field, "{filter}: {plan:?}");
    }
    for (order_by, expected) in
        [(lead.to_owned(), all), (format!("{lead} desc, name desc"), ["middle", "low", "empty", "absent"])]
    {
        is(sorted(&server, "", &order_by, 10).await.0, &expected, &order_by);
    }
}
