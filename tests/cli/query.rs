//! Queries from the command line: selectors, filters, orders, fields, pages, watches, labels and annotations.

use std::process::Stdio;

use mortise_resource::pb;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout},
    time::timeout,
};

use crate::support::{PATIENCE, Server, artist, id, labelled, noted, transcript::Transcript};

const SHOP: &str = "\
type: demo.v2.Artist
name: abba
meta: {labels: {env: prod, app.example.com/tier: web}, tags: [live]}
data: {name: Abba, genre: GENRE_POP}
---
type: demo.v2.Artist
name: korn
meta: {labels: {env: test}}
metadata: {env: prod}
data: {name: Korn, genre: GENRE_METAL, groupMembers: {a.b: dotted}}
---
type: demo.v2.Artist
name: miles
data: {name: Miles, genre: GENRE_JAZZ}
";

#[tokio::test]
async fn results_of_queries_are_shown() {
    let server = Server::start().await;
    let mut t = Transcript::new("query", &server);
    t.file("shop.yaml", SHOP);
    t.works(&["apply", "-f", "shop.yaml"]).await;
    for selector in [
        "env=prod",
        "env",
        "!env",
        "env in (prod, test)",
        "env notin (prod)",
        "env!=test,app.example.com/tier",
        "env=x",
    ] {
        t.works(&["get", "artists", "-l", selector, "-o", "name"]).await;
    }
    t.fails(2, &["get", "artists", "-l", "env=a=b"]).await;
    t.fails(2, &["get", "artists", "-l", ""]).await;
    t.works(&["get", "artists", "--filter", r#"data.genre IN ("GENRE_JAZZ", "GENRE_POP")"#]).await;
    t.works(&["get", "artists", "--filter", r#"metadata.env = "prod""#, "-o", "name"]).await;
    t.fails(1, &["get", "artists", "--filter", "data.gener = 1"]).await;
    t.works(&["get", "artists", "--sort-by", "data.genre desc, name", "-o", "name"]).await;
    t.works(&["get", "artists", "--fields", r"data.genre,meta.labels,data.group-members.a\.b,meta.generation"]).await;
    t.works(&["get", "artists", "--fields", "data.genre", "-o", "yaml"]).await;
    t.works(&["get", "artist", "abba", "--fields", "meta.tags", "-o", "json"]).await;
    t.works(&["get", "artist", "abba", "--view", "name", "-o", "yaml"]).await;
    t.fails(1, &["get", "artist", "nobody", "--view", "name"]).await;
    t.fails(2, &["get", "artist", "abba", "-l", "env=prod"]).await;
    t.fails(2, &["get", "artists,albums", "--page-size", "1"]).await;
    t.fails(2, &["get", "artists", "--page-size", "0"]).await;
    t.fails(1, &["get", "artists", "--page-token", "nope"]).await;
    t.fails(2, &["get", "artists", "--resume", "x"]).await;
    t.fails(2, &["get", "artists", "-w", "--resume", "x", "--page-size", "1"]).await;
    t.fails(2, &["get", "artist", "abba", "-w", "--view", "full"]).await;
    // All fields that the server keeps, including a version that differs in each run.
    let full = t.command(&["get", "artist", "abba", "--view", "full", "-o", "json"]).output().await.unwrap();
    let full: Value = serde_json::from_slice(&full.stdout).unwrap();
    assert_eq!(full["meta"]["generation"], "1", "{full}");
    assert!(full["meta"]["createTime"].is_string(), "{full}");

    t.works(&["label", "artist", "miles", "env=prod", "kind=live"]).await;
    t.works(&["label", "artist", "miles", "env=prod"]).await;
    t.fails(1, &["label", "artist", "miles", "env=test"]).await;
    t.works(&["label", "artist", "miles", "env=test", "kind-", "--overwrite"]).await;
    t.works(&["label", "artists", "-l", "env=test", "batch=1", "--dry-run"]).await;
    t.works(&["label", "artists", "-l", "env=test", "batch=1"]).await;
    t.works(&["label", "artists", "--filter", r#"data.genre = "GENRE_JAZZ""#, "app.example.com/tier=db"]).await;
    t.works(&["label", "artists", "--all", "--list"]).await;
    t.fails(1, &["label", "artist", "nobody", "a=b"]).await;
    t.fails(2, &["label", "artist", "miles"]).await;
    t.fails(2, &["label", "artists", "a=b"]).await;
    t.fails(2, &["label", "artist", "miles", "a=b", "a-"]).await;
    t.fails(2, &["label", "artist", "miles", "a=b", "--list"]).await;
    t.fails(1, &["label", "artist", "miles", &format!("long={}", "x".repeat(300))]).await;
    t.works(&["annotate", "artist/miles", "note=blue, in green"]).await;
    t.works(&["annotate", "artist/miles", "--list"]).await;
    t.works(&["annotate", "artist/miles", "note-", "gone-"]).await;
    t.works(&["get", "artist/miles", "-o", "yaml"]).await;
    t.works(&["delete", "artists", "-l", "batch=1", "--dry-run"]).await;
    t.works(&["delete", "artists", "-l", "batch=1", "--yes"]).await;
    t.finish();
}

#[tokio::test]
async fn pages_have_tokens_and_plans_are_shown() {
    let server = Server::start().await;
    let mut t = Transcript::new("pages", &server);
    for n in 0..5 {
        server.write(labelled(artist(&format!("a{n}")), &[("env", "prod")])).await.unwrap();
    }
    let first = t.run(&["get", "artists", "--page-size", "2", "-o", "name", "--explain", "-l", "env=prod"]).await;
    assert_eq!(first.out, "demo.v2.Artist/a0\ndemo.v2.Artist/a1\n");
    assert!(first.err.starts_with("demo.v2.Artist: read from the index of labels: env=prod; "), "{}", first.err);
    let token = first.err.rsplit_once("--page-token ").unwrap().1.trim();
    let query = ["get", "artists", "--page-size", "2", "-l", "env=prod"];
    let second = t.run(&[&query[..], &["-o", "json", "--page-token", token]].concat()).await;
    let page: Value = serde_json::from_str(&second.out).unwrap();
    assert_eq!(page["resources"].as_array().unwrap().len(), 2);
    assert_eq!(page["resources"][0]["id"]["name"], "a2");
    let back = page["prevPageToken"].as_str().unwrap();
    let back = t.run(&[&query[..], &["-o", "name", "--page-token", back]].concat()).await;
    assert_eq!(back.out, first.out);
    // Without a size, all pages are fetched.
    let all = t.run(&["get", "artists", "--sort-by", "id.name desc", "-o", "name"]).await;
    assert_eq!(
        all.out.lines().collect::<Vec<_>>(),
        ["a4", "a3", "a2", "a1", "a0"].map(|a| format!("demo.v2.Artist/{a}"))
    );
}

/// A watch that prints lines.
struct Watched {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watched {
    fn open(t: &Transcript, args: &[&str]) -> Self {
        let args = [&["get", "artists", "--watch", "-o", "json"], args].concat();
        let mut child = t.command(&args).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    async fn next(&mut self) -> Value {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("in time").unwrap().expect("it goes on");
        serde_json::from_str(&line).unwrap()
    }

    /// Reads events and names up to the next position.
    async fn told(&mut self) -> Vec<(String, String)> {
        let mut told = Vec::new();
        loop {
            let line = self.next().await;
            let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            match word(&line["event"]).as_str() {
                "current" => return told,
                event => told.push((event.to_owned(), word(&line["resource"]["id"]["name"]))),
            }
        }
    }

    /// Presses Ctrl-C; returns the token for the next watch.
    async fn end(self) -> String {
        let pid = self.child.id().unwrap().to_string();
        assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let ended = timeout(PATIENCE, self.child.wait_with_output()).await.unwrap().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(130), "{said}");
        said.trim().strip_prefix("to continue from here: --resume ").expect("a token").to_owned()
    }
}

fn pairs(told: &[(&str, &str)]) -> Vec<(String, String)> {
    told.iter().map(|(event, name)| ((*event).to_owned(), (*name).to_owned())).collect()
}

fn prod(name: &str) -> pb::Resource {
    labelled(artist(name), &[("env", "prod")])
}

#[tokio::test]
async fn a_watch_of_a_query_goes_on_where_it_was() {
    let server = Server::start().await;
    let t = Transcript::new("watch_query", &server);
    server.write(prod("a")).await.unwrap();
    server.write(artist("other")).await.unwrap();
    let query = ["-l", "env=prod"];
    let mut watched = Watched::open(&t, &query);
    assert_eq!(watched.told().await, pairs(&[("present", "a")]));
    server.write(prod("b")).await.unwrap();
    assert_eq!(watched.told().await, pairs(&[("written", "b")]));
    // It no longer matches the selector.
    server.write(labelled(artist("b"), &[("env", "test")])).await.unwrap();
    assert_eq!(watched.told().await, pairs(&[("removed", "b")]));
    let token = watched.end().await;

    server.write(prod("c")).await.unwrap();
    server.delete(&id("demo.v2.Artist", "a"), "").await.unwrap();
    server.write(noted(artist("other"), &[("x", "y")])).await.unwrap();
    let mut resumed = Watched::open(&t, &[&query[..], &["--resume", &token]].concat());
    assert_eq!(resumed.told().await, pairs(&[("written", "c"), ("removed", "a")]), "what happened meanwhile, once");
    server.write(prod("d")).await.unwrap();
    assert_eq!(resumed.told().await, pairs(&[("written", "d")]));
    resumed.end().await;
}

#[tokio::test]
async fn a_page_is_shown_whenever_it_changes() {
    let server = Server::start().await;
    let t = Transcript::new("watch_page", &server);
    for name in ["b", "d", "e"] {
        server.write(prod(name)).await.unwrap();
    }
    let mut watched = Watched::open(&t, &["--sort-by", "id.name", "--page-size", "2"]);
    let mut page = async || -> Vec<String> {
        let line = watched.next().await;
        let names = line["resources"].as_array().unwrap().iter();
        names.map(|resource| resource["id"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(page().await, ["b", "d"]);
    server.write(prod("c")).await.unwrap();
    assert_eq!(page().await, ["b", "c"]);
    server.delete(&id("demo.v2.Artist", "b"), "").await.unwrap();
    // Both rows may change in one message or in two.
    let mut shown = page().await;
    if shown == ["c"] {
        shown = page().await;
    }
    assert_eq!(shown, ["c", "d"]);
}
