//! `mortise events`: the kept history of resources.

use serde_json::Value;

use super::resources::SHOP;
use crate::support::{Server, transcript::Transcript};

#[tokio::test]
async fn the_events_of_resources() {
    let server = Server::start().await;
    let mut t = Transcript::new("events", &server);
    t.file("shop.yaml", SHOP);
    t.works(&["events", "artists"]).await;
    t.works(&["apply", "-f", "shop.yaml", "-q"]).await;
    t.file("shop.yaml", SHOP.replace("GENRE_METAL", "GENRE_ROCK"));
    t.works(&["apply", "-f", "shop.yaml", "-q"]).await;
    t.works(&["label", "artist", "korn", "env=prod"]).await;
    t.works(&["delete", "album", "issues"]).await;
    let out = t.works(&["events", "artist", "korn"]).await;
    let at = |text: &str| out.find(text).unwrap_or_else(|| panic!("{text}: {out}"));
    assert!(at("created") < at("data.genre") && at("data.genre") < at("meta.labels.env"), "{out}");
    let out = t.works(&["events", "album/issues"]).await;
    assert!(out.contains("created") && out.contains("deleted"), "{out}");
    // The order of two albums of one file is that in which they happen to be written.
    t.works(&["events", "album/issues", "--since", "1h", "-o", "name"]).await;
    t.works(&["events", "artists", "-n", "blue"]).await;
    t.works(&["events", "artists", "-n", "blue", "-o", "yaml"]).await;
    t.fails(2, &["events", "artist", "korn", "-A"]).await;
    t.fails(2, &["events", "painters"]).await;
    t.fails(2, &["events", "artists", "--since", "soon"]).await;
    t.finish_without_numbers();
}

#[tokio::test]
async fn events_for_programs() {
    let server = Server::start().await;
    let mut t = Transcript::new("events_json", &server);
    t.file("shop.yaml", SHOP);
    t.works(&["apply", "-f", "shop.yaml", "-q"]).await;
    let events: Value = serde_json::from_str(&t.works(&["events", "-o", "json"]).await).unwrap();
    let events = events["events"].as_array().unwrap().clone();
    let of =
        |event: &Value| (event["event"].as_str().unwrap().to_owned(), event["resource"].as_str().unwrap().to_owned());
    let seen: Vec<_> = events.iter().map(of).collect();
    for resource in ["demo.v2.Artist/korn", "demo.v2.Album/issues", "demo.v2.Album/untouchables"] {
        assert!(seen.contains(&("created".to_owned(), resource.to_owned())), "{resource}: {seen:?}");
    }
    let times: Vec<_> = events.iter().filter_map(|event| event["time"].as_str()).collect();
    assert!(times.len() >= 3 && times.is_sorted(), "{times:?}");
}
