//! Queries: searches in pages, several reads at once, changes of single fields.

use std::collections::{BTreeMap, BTreeSet};

use mortise_api::QueryServiceClient;
use mortise_resource::{
    data::{
        BatchGetRequest, SearchRequest, SearchResponse, UpdateRequest, UpdateResponse,
        query_plan::Access,
        update_request::{Cas, ResponseMask},
    },
    goten::{LabelSelector, LabelSelectorRequirement, Meta, View},
    pb,
};
use prost_types::FieldMask;
use tonic::{Code, Status, transport::Channel};

use crate::support::{
    Server, Setup, any, artist, at, decoded, demo, eventually, gvk, id, id_of, make_place, names, noted, refusal,
    resource, tenancy,
};

const ARTIST: &str = "demo.v2.Artist";

async fn queries(server: &Server) -> QueryServiceClient<Channel> {
    QueryServiceClient::new(server.channel().await)
}

fn search(filter: &str) -> SearchRequest {
    SearchRequest { r#type: Some(gvk(ARTIST)), filter: filter.into(), explain: true, ..SearchRequest::default() }
}

async fn answer(server: &Server, request: SearchRequest) -> Result<SearchResponse, Status> {
    Ok(queries(server).await.search(request).await?.into_inner())
}

async fn found(server: &Server, filter: &str) -> Vec<String> {
    names(&answer(server, search(filter)).await.unwrap_or_else(|e| panic!("{filter}: {e}")).resources)
}

fn of_genre(name: &str, genre: demo::v2::Genre, labels: &[(&str, &str)]) -> pb::Resource {
    let data = demo::v2::Artist {
        name: name.into(),
        genre: genre.into(),
        group_members: BTreeMap::from([("bass.guitar".to_owned(), name.to_owned())]).into_iter().collect(),
    };
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let meta = Meta { labels, tags: vec![name.to_owned(), "all".into()], ..Meta::default() };
    pb::Resource {
        meta: Some(Box::new(meta)),
        ..resource(id(ARTIST, name), Some(any("hashicorp.consul.internal.demo.v2.Artist", &data)))
    }
}

fn selector(pairs: &[(&str, &str)]) -> LabelSelector {
    let match_labels = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    LabelSelector { match_labels, match_expressions: Vec::new() }
}

fn mask(paths: &[&str]) -> Option<FieldMask> {
    Some(FieldMask { paths: paths.iter().map(|path| (*path).to_owned()).collect() })
}

/// Four artists of three genres, in two environments.
async fn filled() -> Server {
    let server = Server::start().await;
    for (name, genre, labels) in [
        ("a", demo::v2::Genre::Jazz, &[("env", "prod"), ("tier", "1")][..]),
        ("b", demo::v2::Genre::Folk, &[("env", "test")]),
        ("c", demo::v2::Genre::Jazz, &[("env", "prod")]),
        ("d", demo::v2::Genre::Metal, &[]),
    ] {
        server.write(of_genre(name, genre, labels)).await.unwrap();
    }
    server
}

#[tokio::test]
async fn filters_reach_every_part_of_a_resource() {
    let server = filled().await;
    let b = server.write(noted(of_genre("b", demo::v2::Genre::Folk, &[("env", "test")]), &[("k", "v")])).await.unwrap();
    for (filter, expected) in [
        ("()", &["a", "b", "c", "d"][..]),
        ("data.genre = \"GENRE_JAZZ\"", &["a", "c"]),
        ("data.genre = 2", &["b"]),
        ("data.genre IN (\"GENRE_JAZZ\", \"GENRE_FOLK\") NOT id.name = \"a\"", &["b", "c"]),
        ("meta.labels.env = \"prod\"", &["a", "c"]),
        ("meta.labels.env != \"prod\"", &["b", "d"]),
        ("meta.labels.env IS NULL", &["d"]),
        ("meta.tags CONTAINS \"a\" OR meta.tags HAS ANY (\"b\", \"zz\")", &["a", "b"]),
        ("data.groupMembers.bass\\.guitar = \"c\"", &["c"]),
        ("data.group-members.bass\\.guitar > \"b\"", &["c", "d"]),
        ("metadata.k = \"v\"", &["b"]),
        ("name = \"default/-/d\"", &["d"]),
        ("data.name STARTS_WITH \"a\" | id.name LIKE \"b%\"", &["a", "b"]),
        ("data.group_members.\"bass.guitar\" = \"c\"", &["c"]),
        ("id.name >= \"c\" -- the rest", &["c", "d"]),
        (&format!("version = \"{}\"", b.version), &["b"]),
        (&format!("meta.uuid = \"{}\"", id_of(&b).uid), &["b"]),
        ("meta.generation = 1 meta.createTime > \"2020-01-01T00:00:00Z\"", &["a", "b", "c", "d"]),
        ("meta.delete_time IS NOT NULL", &[]),
        ("status.k.observed_generation = \"x\"", &[]),
    ] {
        assert_eq!(found(&server, filter).await, expected, "{filter}");
    }
    for (filter, code) in [
        ("data.genre = \"NOPE\"", Code::InvalidArgument),
        ("data.nothing = 1", Code::InvalidArgument),
        ("a", Code::InvalidArgument),
        ("data.genre LIKE \"x\"", Code::InvalidArgument),
        ("data.group_members = {}", Code::InvalidArgument),
        ("meta.tags NOT IN [1]", Code::InvalidArgument),
        (&"(".repeat(60_000), Code::InvalidArgument),
    ] {
        assert_eq!(answer(&server, search(filter)).await.unwrap_err().code(), code, "{filter:.40}");
    }
}

#[tokio::test]
async fn the_plan_reports_the_resources_read() {
    let server = filled().await;
    for n in 0..200 {
        server.write(of_genre(&format!("z-{n:03}"), demo::v2::Genre::Pop, &[("env", "bulk")])).await.unwrap();
    }
    let plan = async |request: SearchRequest| answer(&server, request).await.unwrap().plan.unwrap();
    let by_label = plan(SearchRequest { selector: Some(selector(&[("env", "prod")])), ..search("") }).await;
    assert_eq!((by_label.access(), by_label.scanned, by_label.matched), (Access::Label, 2, 2));
    assert_eq!(by_label.keys, ["env=prod"]);
    let rarest = plan(search("meta.labels.env = \"prod\" meta.labels.tier IN (\"1\", \"2\")")).await;
    assert_eq!((rarest.access(), rarest.matched), (Access::Label, 1));
    let by_name = plan(search("id.name IN (\"a\", \"nope\", \"z-100\")")).await;
    assert_eq!((by_name.access(), by_name.scanned, by_name.matched), (Access::Names, 2, 2));
    let by_range = plan(SearchRequest { parent: "z-01".into(), ..search("") }).await;
    assert_eq!((by_range.access(), by_range.scanned, by_range.decoded), (Access::NameRange, 10, 0));
    assert_eq!(by_range.keys, ["z-01"]);
    let all = plan(search("data.name != \"x\"")).await;
    // Two pages are read; the search ends with the resource that proves that another page follows.
    assert_eq!((all.access(), all.scanned, all.decoded, all.matched), (Access::NameRange, 204, 101, 101), "{all:?}");
    assert!(all.duration_us > 0 && all.keys.is_empty(), "{all:?}");
    let mut by_field = plan(search("data.genre = \"GENRE_POP\"")).await;
    eventually("the index is used", async || {
        by_field = plan(search("data.genre = \"GENRE_POP\"")).await;
        by_field.access() == Access::Field
    })
    .await;
    assert_eq!((by_field.access(), by_field.scanned, by_field.matched), (Access::Field, 128, 101), "{by_field:?}");
    let genre = demo::v2::Genre::Pop as i32;
    assert_eq!(by_field.keys, [format!("data.genre={genre}")]);
    let few = plan(search("data.genre = \"GENRE_FOLK\" meta.labels.env = \"test\" data.name = \"b\"")).await;
    assert_eq!((few.access(), few.scanned, few.matched), (Access::Label, 1, 1), "{few:?}");
    let rarer =
        plan(search("data.genre = \"GENRE_POP\" meta.labels.env = \"bulk\" data.group_members.lead = \"x\"")).await;
    assert_eq!((rarer.access(), rarer.scanned, rarer.matched), (Access::Field, 0, 0), "{rarer:?}");
    let none = answer(&server, SearchRequest { explain: false, ..search("") }).await.unwrap();
    assert_eq!(none.plan, None);
}

#[tokio::test]
async fn selectors_are_those_of_kubernetes() {
    let server = filled().await;
    let select = async |selector: LabelSelector| {
        answer(&server, SearchRequest { selector: Some(selector), ..search("") })
            .await
            .map(|found| names(&found.resources))
    };
    let expression = |key: &str, operator: &str, values: &[&str]| LabelSelector {
        match_expressions: vec![LabelSelectorRequirement {
            key: key.into(),
            operator: operator.into(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        }],
        ..LabelSelector::default()
    };
    assert_eq!(select(LabelSelector::default()).await.unwrap(), ["a", "b", "c", "d"], "an empty one");
    assert_eq!(select(selector(&[("env", "prod"), ("tier", "1")])).await.unwrap(), ["a"]);
    assert_eq!(select(expression("env", "In", &["prod", "test"])).await.unwrap(), ["a", "b", "c"]);
    assert_eq!(select(expression("env", "NotIn", &["prod"])).await.unwrap(), ["b", "d"]);
    assert_eq!(select(expression("tier", "Exists", &[])).await.unwrap(), ["a"]);
    assert_eq!(select(expression("env", "DoesNotExist", &[])).await.unwrap(), ["d"]);
    for bad in [expression("env", "In", &[]), expression("env", "Exists", &["x"]), expression("env", "is", &["x"])] {
        assert_eq!(select(bad).await.unwrap_err().code(), Code::InvalidArgument);
    }
}

/// Every resource comes once, forward and back, in each order, with any page size.
#[tokio::test]
async fn pages_walk_forward_and_back() {
    let server = filled().await;
    make_place(&server, "default", "other").await;
    for n in 0..25 {
        let genre = if n % 3 == 0 { demo::v2::Genre::Jazz } else { demo::v2::Genre::Pop };
        let one = of_genre(&format!("n-{n:02}"), genre, &[("env", if n % 2 == 0 { "prod" } else { "test" })]);
        server.write(at(one, "default", if n % 5 == 0 { "other" } else { "default" })).await.unwrap();
    }
    let everywhere = Some(tenancy("*", "*"));
    let mut walked = 0;
    for order in ["", "name desc", "data.genre desc", "data.name", "meta.update_time desc, id.name"] {
        for (filter, selector) in
            [("", None), ("data.genre = \"GENRE_JAZZ\"", None), ("", Some(selector(&[("env", "prod")])))]
        {
            let request = |page_size: i32, token: &str| SearchRequest {
                tenancy: everywhere.clone(),
                order_by: order.into(),
                selector: selector.clone(),
                include_paging_info: page_size == 2,
                page_size,
                page_token: token.into(),
                ..search(filter)
            };
            let whole = answer(&server, request(1_000, "")).await.unwrap();
            assert_eq!((&*whole.prev_page_token, &*whole.next_page_token), ("", ""));
            for size in [1, 2, 7] {
                let mut pages = vec![answer(&server, request(size, "")).await.unwrap()];
                while let Some(token) = pages.last().map(|page| page.next_page_token.clone()).filter(|t| !t.is_empty())
                {
                    pages.push(answer(&server, request(size, &token)).await.unwrap());
                }
                let together: Vec<_> = pages.iter().flat_map(|page| page.resources.clone()).collect();
                assert_eq!(together, whole.resources, "{order:?} {filter:?} by {size}");
                if size == 2 {
                    let mut offset = 0;
                    for page in &pages {
                        assert_eq!(
                            (page.current_offset, page.total_results_count),
                            (offset, whole.resources.len() as i32)
                        );
                        offset += page.resources.len() as i32;
                    }
                }
                // Backward: each page equals the one before it.
                let mut page = pages.pop().unwrap();
                while let Some(before) = pages.pop() {
                    let back = answer(&server, request(size, &page.prev_page_token)).await.unwrap();
                    assert_eq!(back.resources, before.resources, "{order:?} {filter:?} by {size}");
                    assert_eq!(back.current_offset, before.current_offset);
                    let again = answer(&server, request(size, &back.next_page_token)).await.unwrap();
                    assert_eq!(again.resources, page.resources, "{order:?} {filter:?} by {size}");
                    page = back;
                    walked += 1;
                }
                assert_eq!(page.prev_page_token, "", "{order:?} {filter:?} by {size}");
            }
        }
    }
    assert!(walked > 200, "{walked} pages back");
}

#[tokio::test]
async fn pages_neither_skip_nor_repeat_when_others_come_and_go() {
    let server = Server::start().await;
    for n in (0..60).step_by(2) {
        server.write(of_genre(&format!("n-{n:02}"), demo::v2::Genre::Jazz, &[])).await.unwrap();
    }
    let mut seen = BTreeSet::new();
    let (mut token, mut n) = (String::new(), 1);
    loop {
        let page = answer(&server, SearchRequest { page_size: 3, page_token: token, ..search("") }).await.unwrap();
        for name in names(&page.resources) {
            assert!(seen.insert(name.clone()), "{name} comes again");
        }
        // The resource at the boundary goes; one comes before the boundary, and one after it.
        let gone = page.resources[0].clone();
        server.delete(&id_of(&gone), "").await.unwrap();
        server.write(of_genre(&format!("a-{n:02}"), demo::v2::Genre::Jazz, &[])).await.unwrap();
        server.write(of_genre(&format!("z-{n:02}"), demo::v2::Genre::Jazz, &[])).await.unwrap();
        n += 1;
        token = page.next_page_token;
        if token.is_empty() || n > 60 {
            break;
        }
    }
    let old = seen.iter().filter(|name| name.starts_with("n-")).count();
    assert_eq!(old, 30, "{seen:?}");
}

#[tokio::test]
async fn tokens_belong_to_their_query() {
    let server = filled().await;
    let first = answer(&server, SearchRequest { page_size: 1, ..search("") }).await.unwrap();
    let token = first.next_page_token;
    let with = |filter: &str, token: &str| SearchRequest { page_token: token.into(), ..search(filter) };
    assert_eq!(answer(&server, with("", &token)).await.unwrap().resources.len(), 3, "another size");
    for request in [
        with("data.genre = 1", &token),
        with("", "nonsense"),
        with("", &token.replace("r.e", "x.e")),
        with("", &format!("{token}AAAA")),
        SearchRequest { order_by: "data.name".into(), ..with("", &token) },
        SearchRequest { page_size: -1, ..search("") },
        SearchRequest { order_by: "data.name sideways".into(), ..search("") },
        SearchRequest { order_by: "data.name, data.name desc".into(), ..search("") },
        SearchRequest { view: 9, ..search("") },
        SearchRequest { field_mask: mask(&["data.nope"]), ..search("") },
        SearchRequest { r#type: None, ..search("") },
        SearchRequest { parent: "UPPER".into(), ..search("") },
    ] {
        assert_eq!(answer(&server, request.clone()).await.unwrap_err().code(), Code::InvalidArgument, "{request:?}");
    }
}

#[tokio::test]
async fn a_search_ends_when_its_time_is_up() {
    let server = Setup::new().env("MORTISE_SERVICE_SEARCH_MS", 0).start().await;
    server.write(artist("a")).await.unwrap();
    let refused = refusal(answer(&server, search("")).await);
    assert_eq!(refused.0, Code::DeadlineExceeded);
    assert!(refused.1.contains("longer than 0 ms (limit service.search_ms)"), "{}", refused.1);
}

#[tokio::test]
async fn masks_and_views_show_the_requested_fields() {
    let server = filled().await;
    let shown = async |view: View, paths: &[&str]| {
        let request = SearchRequest { view: view.into(), field_mask: mask(paths), ..search("id.name = \"a\"") };
        answer(&server, request).await.unwrap().resources[0].clone()
    };
    let whole = server.read(&id(ARTIST, "a")).await.unwrap();
    assert_eq!(shown(View::Unspecified, &[]).await, whole);
    assert_eq!(shown(View::Full, &["data.name"]).await, whole);
    assert_eq!(shown(View::Name, &[]).await, pb::Resource { id: whole.id.clone(), ..pb::Resource::default() });
    let some = shown(View::Name, &["data.genre", "meta.labels.env", "meta.labels.nope"]).await;
    let data: demo::v2::Artist = decoded(&some);
    assert_eq!((data.name.as_str(), data.genre()), ("", demo::v2::Genre::Jazz));
    let labels = &some.meta.as_ref().unwrap().labels;
    assert_eq!(labels.iter().collect::<Vec<_>>(), [(&"env".to_owned(), &"prod".to_owned())]);
    assert_eq!((some.id, some.version.as_str()), (whole.id, ""));
}

#[tokio::test]
async fn batch_get_returns_each_once_and_names_missing_ones() {
    let server = filled().await;
    let get = async |ids: &[pb::Id], paths: &[&str]| {
        let request = BatchGetRequest { ids: ids.to_vec(), field_mask: mask(paths), ..BatchGetRequest::default() };
        queries(&server).await.batch_get(request).await.map(tonic::Response::into_inner)
    };
    let ids = ["c", "nope", "a", "c"].map(|name| id(ARTIST, name));
    let answer = get(&ids, &[]).await.unwrap();
    assert_eq!(names(&answer.resources), ["c", "a"]);
    assert_eq!(answer.missing, [id(ARTIST, "nope")]);
    assert_eq!(get(&ids[..1], &["name"]).await.unwrap().resources[0].data, None);
    for bad in [vec![pb::Id { name: String::new(), ..id(ARTIST, "a") }], vec![id("demo.v2.Nope", "a")]] {
        assert_eq!(get(&bad, &[]).await.unwrap_err().code(), Code::InvalidArgument);
    }
    assert_eq!(get(&vec![id(ARTIST, "a"); 1_001], &[]).await.unwrap_err().code(), Code::InvalidArgument);
}

async fn update(server: &Server, request: UpdateRequest) -> Result<UpdateResponse, Status> {
    Ok(queries(server).await.update(request).await?.into_inner())
}

fn change(resource: pb::Resource, paths: &[&str]) -> UpdateRequest {
    UpdateRequest { resource: Some(resource), update_mask: mask(paths), ..UpdateRequest::default() }
}

#[tokio::test]
async fn updates_change_the_fields_of_their_mask() {
    let server = filled().await;
    let before = server.read(&id(ARTIST, "a")).await.unwrap();
    let renamed = of_genre("a", demo::v2::Genre::Ska, &[("env", "new")]);
    let one = update(&server, change(renamed.clone(), &["data.genre"])).await.unwrap().resource.unwrap();
    let data: demo::v2::Artist = decoded(&one);
    assert_eq!((data.genre(), data.group_members.len()), (demo::v2::Genre::Ska, 1));
    let meta = one.meta.as_ref().unwrap();
    assert_eq!((meta.labels["env"].as_str(), meta.generation), ("prod", 2));

    let two = update(&server, change(renamed.clone(), &["meta.labels.env"])).await.unwrap().resource.unwrap();
    assert_eq!(two.meta.as_ref().unwrap().labels["env"], "new");
    assert_eq!((two.meta.as_ref().unwrap().generation, two.data.clone()), (2, one.data.clone()));
    assert_eq!(two.meta.as_ref().unwrap().labels["tier"], "1");
    // Absent in the request: removed.
    let none = resource(id(ARTIST, "a"), None);
    let three =
        update(&server, change(none, &["meta.labels.env", "metadata.k", "version", "meta.uuid"])).await.unwrap();
    let three = three.resource.unwrap();
    assert_eq!(three.meta.as_ref().unwrap().labels.keys().collect::<Vec<_>>(), ["tier"]);
    assert_eq!(three.meta.as_ref().unwrap().uuid, id_of(&before).uid);

    // The same change again, by mask and as a whole: no effect.
    let still = update(&server, change(three.clone(), &["meta.labels", "data"])).await.unwrap().resource.unwrap();
    assert_eq!(still, three);
    let still = update(&server, change(pb::Resource { version: String::new(), ..three.clone() }, &[])).await.unwrap();
    assert_eq!((still.resource.unwrap(), server.read(&id(ARTIST, "a")).await.unwrap()), (three.clone(), three.clone()));

    let whole = update(&server, change(artist("a"), &[])).await.unwrap().resource.unwrap();
    assert_eq!((whole.data, whole.meta.unwrap().labels.len()), (artist("a").data, 0));
    let refused = update(&server, change(pb::Resource { version: "1".into(), ..artist("a") }, &["data.name"])).await;
    assert_eq!(refused.unwrap_err().code(), Code::Aborted);
    assert_eq!(update(&server, change(artist("a"), &["data.nope"])).await.unwrap_err().code(), Code::InvalidArgument);
    let invalid = resource(id(ARTIST, "a"), None);
    assert_eq!(update(&server, change(invalid, &["data.name"])).await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn updates_have_conditions_and_may_create() {
    let server = filled().await;
    let stored = server.read(&id(ARTIST, "a")).await.unwrap();
    let cas = |state: &pb::Resource, paths: &[&str]| {
        Some(Cas { conditional_state: Some(state.clone()), field_mask: mask(paths) })
    };
    let ska = of_genre("a", demo::v2::Genre::Ska, &[]);
    let first = UpdateRequest {
        cas: cas(&stored, &["meta.resource_version", "data.genre"]),
        ..change(ska.clone(), &["data.genre"])
    };
    update(&server, first.clone()).await.unwrap();
    let after = server.read(&id(ARTIST, "a")).await.unwrap();
    assert_eq!(update(&server, first).await.unwrap_err().code(), Code::Aborted);
    assert_eq!(server.read(&id(ARTIST, "a")).await.unwrap(), after);
    let no_mask = UpdateRequest { cas: cas(&stored, &[]), ..change(ska.clone(), &["data.genre"]) };
    assert_eq!(update(&server, no_mask).await.unwrap_err().code(), Code::InvalidArgument);

    let new = of_genre("new", demo::v2::Genre::Ska, &[("env", "new")]);
    assert_eq!(update(&server, change(new.clone(), &["data.genre"])).await.unwrap_err().code(), Code::NotFound);
    let made = UpdateRequest { allow_missing: true, ..change(new, &["data.genre"]) };
    let made = update(&server, made).await.unwrap().resource.unwrap();
    assert_eq!((decoded::<demo::v2::Artist>(&made).name, made.meta.unwrap().labels.len()), ("new".to_owned(), 1));
    let both = UpdateRequest { allow_missing: true, cas: cas(&stored, &["version"]), ..change(ska.clone(), &[]) };
    assert_eq!(refusal(update(&server, both).await).0, Code::InvalidArgument);

    let answered = async |mask: ResponseMask| {
        let genre = if mask.skip_entire_response_body { demo::v2::Genre::Pop } else { demo::v2::Genre::Jazz };
        let request = change(of_genre("b", genre, &[]), &["data.genre"]);
        update(&server, UpdateRequest { response_mask: Some(mask), ..request }).await.unwrap().resource
    };
    assert_eq!(answered(ResponseMask { skip_entire_response_body: true, ..Default::default() }).await, None);
    let changed = answered(ResponseMask { updated_fields_only: true, ..Default::default() }).await.unwrap();
    let data: demo::v2::Artist = decoded(&changed);
    assert_eq!((data.name.as_str(), data.genre()), ("", demo::v2::Genre::Jazz));
    assert!(!changed.version.is_empty() && changed.meta.as_ref().unwrap().labels.is_empty());
    let body = answered(ResponseMask { body_mask: mask(&["version"]), ..Default::default() }).await.unwrap();
    assert!(body.data.is_none() && !body.version.is_empty());
}

/// Concurrent conditional increments of a counter are all counted.
#[tokio::test]
async fn conditions_hold_under_contention() {
    let server = Server::start().await;
    server.write(noted(artist("a"), &[("n", "0")])).await.unwrap();
    let add = async |_| {
        loop {
            let stored = server.read(&id(ARTIST, "a")).await.unwrap();
            let n: u32 = stored.metadata["n"].parse().unwrap();
            let next = noted(resource(id(ARTIST, "a"), None), &[("n", &(n + 1).to_string())]);
            let cas = Some(Cas { conditional_state: Some(stored), field_mask: mask(&["metadata.n"]) });
            match update(&server, UpdateRequest { cas, ..change(next, &["metadata.n"]) }).await {
                Ok(_) => return,
                Err(status) => assert_eq!(status.code(), Code::Aborted, "{status}"),
            }
        }
    };
    tokio::join!(add(0), add(1), add(2), add(3), add(4), add(5), add(6), add(7), add(8), add(9));
    assert_eq!(server.read(&id(ARTIST, "a")).await.unwrap().metadata["n"], "10");
}
