//! Queries over HTTP: parameters, answers, errors, and watches that resume.

use serde_json::{Value, json};

use crate::support::{
    Server, artist,
    http::{ARTISTS, Events},
    id, is_left_out_over_etcd, labelled,
};

async fn shop() -> Server {
    let server = Server::start().await;
    for (name, genre, env) in
        [("abba", "GENRE_POP", "prod"), ("korn", "GENRE_METAL", "test"), ("miles", "GENRE_JAZZ", "")]
    {
        let labels = if env.is_empty() { json!({}) } else { json!({ "env": env }) };
        let body = json!({ "data": { "name": name, "genre": genre }, "meta": { "labels": labels, "tags": [name] } });
        server.ask("PUT", &format!("{ARTISTS}/{name}")).json(&body).await_answer().await.ok();
    }
    server
}

fn names(page: &Value) -> Vec<&str> {
    page["resources"].as_array().unwrap().iter().map(|one| one["id"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn every_parameter_of_a_query_counts() {
    let server = shop().await;
    for (query, expected) in [
        ("selector=env%3Dprod", vec!["abba"]),
        ("selector=env", vec!["abba", "korn"]),
        ("selector=%21env", vec!["miles"]),
        ("selector=env%20in%20(prod,test)&filter=data.genre%20%3D%20%22GENRE_METAL%22", vec!["korn"]),
        ("filter=meta.tags%20CONTAINS%20%22miles%22", vec!["miles"]),
        // Ordered by the numbers of the genres.
        ("order_by=data.genre%20desc", vec!["korn", "abba", "miles"]),
        ("sort-by=id.name%20desc", vec!["miles", "korn", "abba"]),
        ("name_prefix=k&view=name", vec!["korn"]),
        ("page_size=2", vec!["abba", "korn"]),
        ("partition=nope&explain", vec![]),
    ] {
        let page = server.fetch(&format!("{ARTISTS}?{query}")).await.ok();
        assert_eq!(names(&page), expected, "{query}");
    }
    // A list still works as a list.
    let list = server.fetch(&format!("{ARTISTS}?name_prefix=k")).await.ok();
    assert!(list["resources"][0]["meta"]["createTime"].is_null(), "{list}");
}

#[tokio::test]
async fn answers_have_pages_counts_plans_and_parts() {
    let server = shop().await;
    let first = server.fetch(&format!("{ARTISTS}?page_size=2&paging_info&explain&selector=env")).await.ok();
    assert_eq!((first["currentOffset"].clone(), first["totalResultsCount"].clone()), (json!(0), json!(2)));
    assert_eq!((first["plan"]["access"].clone(), first["plan"]["matched"].clone()), (json!("NAME_RANGE"), json!(2)));
    let first = server.fetch(&format!("{ARTISTS}?page_size=2")).await.ok();
    assert!(first["prevPageToken"].is_null() && first["plan"].is_null());
    let next = first["nextPageToken"].as_str().unwrap();
    let second = server.fetch(&format!("{ARTISTS}?page_size=2&page_token={next}")).await.ok();
    assert_eq!(names(&second), ["miles"]);
    let back = second["prevPageToken"].as_str().unwrap();
    assert_eq!(names(&server.fetch(&format!("{ARTISTS}?page-size=2&page-token={back}")).await.ok()), ["abba", "korn"]);
    let plan = server.fetch(&format!("{ARTISTS}?selector=env%3Dprod&explain")).await.ok()["plan"].clone();
    assert_eq!(
        (plan["access"].clone(), plan["keys"].clone(), plan["scanned"].clone()),
        (json!("LABEL"), json!(["env=prod"]), json!(1))
    );

    let part =
        server.fetch(&format!("{ARTISTS}?fields=data.genre,meta.generation&filter=id.name%3D%22korn%22")).await.ok();
    assert_eq!(part["resources"][0]["data"], json!({ "genre": "GENRE_METAL" }));
    assert_eq!(part["resources"][0]["meta"], json!({ "generation": "1" }));
    let item = server.fetch(&format!("{ARTISTS}/korn?fields=data.genre")).await.ok();
    assert_eq!((item["data"].clone(), item["id"]["name"].clone()), (json!({ "genre": "GENRE_METAL" }), json!("korn")));
    let full = server.fetch(&format!("{ARTISTS}/korn?view=full")).await.ok();
    assert!(full["meta"]["createTime"].is_string() && full["data"]["name"] == "korn", "{full}");
    assert_eq!(server.fetch(&format!("{ARTISTS}/nobody?view=full")).await.code(), 404);
}

/// A page sent in several pieces is one JSON text.
#[tokio::test]
async fn a_large_page_is_whole() {
    let server = Server::start().await;
    let long = "x".repeat(5_000);
    for n in 0..60 {
        server.put(&format!("{ARTISTS}/a{n:02}"), json!({ "name": long })).await.ok();
    }
    let answer = server.fetch(&format!("{ARTISTS}?page_size=50&explain")).await;
    assert!(answer.body.len() > 50 * long.len(), "{}", answer.body.len());
    let page = answer.ok();
    assert_eq!((names(&page).len(), names(&page)[49]), (50, "a49"));
    assert!(page["nextPageToken"].is_string() && page["plan"]["matched"] == 51, "{}", page["plan"]);
    assert_eq!(page["resources"][7]["data"]["name"], long);
}

#[tokio::test]
async fn an_invalid_query_is_a_problem() {
    let server = shop().await;
    for (query, words) in [
        ("filter=data.gener%3D1", "gener"),
        ("selector=a%3Db%3Dc", "is not a selector"),
        ("order_by=data", "order"),
        ("fields=nope", "nope"),
        ("view=whole", "use name, basic, detail or full"),
        ("page_size=many", "is not a number"),
        ("page_size=-1", "negative"),
        ("page_token=xyz", "page_token"),
        ("watch&page_size=3", "page_size is not for"),
        ("watch&order_by=name", "order_by is not for"),
        ("watch&resume_token=xyz", "resume_token"),
    ] {
        let refused = server.fetch(&format!("{ARTISTS}?{query}")).await;
        assert_eq!(refused.code(), 400, "{query}: {}", refused.body);
        let problem: Value = serde_json::from_str(&refused.body).unwrap();
        assert!(problem["detail"].as_str().unwrap().contains(words), "{query}: {problem}");
    }
    assert_eq!(server.fetch(&format!("{ARTISTS}/korn?fields=nope")).await.code(), 400);
}

#[tokio::test]
async fn a_watch_of_a_query_goes_on_where_it_was() {
    if is_left_out_over_etcd("the history of a copy begins with its filling") {
        return;
    }
    let server = shop().await;
    let path = format!("{ARTISTS}?watch&selector=env%3Dprod");
    let mut events = Events::open(&server, &path).await;
    assert_eq!(events.next().await.unwrap().about(), ("upsert", "abba".to_owned()));
    let end = events.next().await.unwrap();
    assert_eq!((end.event.as_str(), end.id.is_empty()), ("end-of-snapshot", false));
    server.write(labelled(artist("new"), &[("env", "prod")])).await.unwrap();
    let new = events.next().await.unwrap();
    assert_eq!(new.about(), ("upsert", "new".to_owned()));
    server.write(labelled(artist("new"), &[("env", "test")])).await.unwrap();
    let gone = events.next().await.unwrap();
    assert_eq!(gone.about(), ("delete", "new".to_owned()));
    assert_eq!(gone.json().as_object().unwrap().len(), 1, "the id alone");
    server.write(artist("unlabelled")).await.unwrap();
    server.write(labelled(artist("later"), &[("env", "prod")])).await.unwrap();
    assert_eq!(events.next().await.unwrap().about(), ("upsert", "later".to_owned()));
    drop(events);

    server.delete(&id("demo.v2.Artist", "abba"), "").await.unwrap();
    let mut resumed = Events::open(&server, &format!("{path}&resume_token={}", new.id)).await;
    assert_eq!(resumed.next().await.unwrap().about(), ("delete", "new".to_owned()));
    assert_eq!(resumed.next().await.unwrap().about(), ("upsert", "later".to_owned()));
    let last = resumed.next().await.unwrap();
    assert_eq!(last.about(), ("delete", "abba".to_owned()));
    assert!(!last.id.is_empty() && last.id != new.id);
    server.delete(&id("demo.v2.Artist", "later"), "").await.unwrap();
    assert_eq!(resumed.next().await.unwrap().about(), ("delete", "later".to_owned()));

    // The position of another query does not apply: everything is sent again.
    let mut other =
        Events::open(&server, &format!("{ARTISTS}?watch&selector=env%3Dtest&resume_token={}", last.id)).await;
    assert_eq!(other.next().await.unwrap().event, "reset");
    assert_eq!(other.snapshot().await, ["korn", "new"]);
}

/// `at` begins a version, which later pages name, and the answer has the token of a watch behind it.
#[tokio::test]
async fn pages_of_one_version_have_its_number_and_a_token() {
    let server = shop().await;
    let first = server.fetch(&format!("{ARTISTS}?page_size=1&sort_by=data.genre&at=now")).await.ok();
    let (version, next) = (first["at"].as_str().unwrap(), first["nextPageToken"].as_str().unwrap());
    let mut seen = names(&first);
    // The first of the page becomes the last.
    server.put(&format!("{ARTISTS}/{}", seen[0]), json!({ "name": "moved", "genre": "GENRE_METAL" })).await.ok();
    let rest = format!("{ARTISTS}?page_size=9&sort_by=data.genre&at={version}&page_token={next}");
    let rest = server.fetch(&rest).await.ok();
    seen.extend(names(&rest));
    seen.sort();
    assert_eq!(seen, ["abba", "korn", "miles"]);
    assert!(first["resumeToken"].is_string(), "{first}");
    assert_eq!(server.fetch(&format!("{ARTISTS}?at=latest")).await.code(), 400);
    assert_eq!(server.fetch(&format!("{ARTISTS}?at=1")).await.code(), 409);
}

#[tokio::test]
async fn reads_are_not_older_than_the_version_of_a_header() {
    let server = shop().await;
    let newest = server.read(&id("demo.v2.Artist", "miles")).await.unwrap().version;
    let later = (newest.parse::<u64>().unwrap() + 1_000).to_string();
    for path in [
        format!("{ARTISTS}/abba"),
        ARTISTS.to_owned(),
        format!("{ARTISTS}?selector=env"),
        format!("{ARTISTS}/abba?view=full"),
    ] {
        for (version, code) in [(newest.as_str(), 200), (later.as_str(), 409), ("latest", 400)] {
            let asking = server.ask("GET", &path).header("accept", "application/json");
            let answer = asking.header("x-mortise-at-least", version).await_answer().await;
            assert_eq!(answer.code(), code, "{path} {version}: {}", answer.body);
            assert_eq!(answer.body.contains("x-mortise-at-least"), code != 200, "{path} {version}: {}", answer.body);
        }
    }
}
