//! The order of writes and deletions of dependent resources, and the number of calls to the server.

use std::collections::BTreeMap;

use tonic::Code;

use crate::{
    cli::resources::bags,
    support::{
        Server, Setup, id, id_in, is_gone,
        transcript::{Ran, Transcript},
        until_gone,
    },
};

const ARTIST: &str = "demo.v2.Artist";
const NAMESPACE: &str = "tenancy.v2beta1.Namespace";
const PARTITION: &str = "tenancy.v2beta1.Partition";

/// A namespace, an artist in it and an album of the artist, in the worst order.
const BLUE: &str = "\
type: demo.v2.Album
name: issues
namespace: blue
owner: demo.v2.Artist/korn
meta: {labels: {app: shop}}
data: {title: Issues}
---
type: demo.v2.Artist
name: korn
namespace: blue
meta: {labels: {app: shop}}
data: {name: Korn}
---
type: tenancy.v2beta1.Namespace
name: blue
meta: {labels: {app: shop}}
";

/// A partition, a namespace in it and an artist in that, in the worst order.
const NORTH: &str = "\
type: demo.v2.Artist
name: bjork
partition: north
namespace: blue
data: {name: Bjork}
---
type: tenancy.v2beta1.Namespace
name: blue
partition: north
---
type: tenancy.v2beta1.Partition
name: north
";

const KEPT: &str = "---\ntype: demo.v2.Artist\nname: kept\nmeta: {labels: {app: shop}}\ndata: {name: Kept}\n";

/// Asserts that the output of a command contains these words in this order.
#[track_caller]
fn in_order(out: &str, words: &[&str]) {
    let mut rest = out;
    for word in words {
        let at = rest.find(word).unwrap_or_else(|| panic!("{word:?} is missing, or too early:\n{out}"));
        rest = &rest[at + word.len()..];
    }
}

/// Calls of the server so far, by method.
async fn calls(server: &Server) -> BTreeMap<String, u64> {
    let metrics = server.metrics().await;
    let line = |line: &str| {
        let (labels, count) = line.strip_prefix("mortise_grpc_requests_total{method=\"")?.rsplit_once("\"} ")?;
        Some((labels.rsplit('/').next()?.to_owned(), count.parse::<f64>().ok()? as u64))
    };
    metrics.lines().filter_map(line).filter(|(_, count)| *count > 0).collect()
}

/// Runs a command, and counts the calls that it makes.
async fn counted(server: &Server, t: &mut Transcript, args: &[&str]) -> (Ran, Vec<(String, u64)>) {
    let before = calls(server).await;
    let ran = t.run(args).await;
    let made = calls(server).await.into_iter().map(|(method, count)| {
        let earlier = before.get(&method).copied().unwrap_or_default();
        (method, count - earlier)
    });
    let made = made.filter(|(_, count)| *count > 0).collect();
    (ran, made)
}

fn made(calls: &[(&str, u64)]) -> Vec<(String, u64)> {
    calls.iter().map(|(method, count)| ((*method).to_owned(), *count)).collect()
}

#[tokio::test]
async fn a_new_namespace_and_what_is_in_it_apply_at_once() {
    let server = Server::start().await;
    let mut t = Transcript::new("order", &server);
    t.file("blue.yaml", BLUE);
    let out = t.works(&["apply", "-f", "blue.yaml"]).await;
    in_order(
        &out,
        &["Namespace/blue created", "Artist/korn in default/blue created", "Album/issues in default/blue created"],
    );
    let korn = server.read(&id_in(ARTIST, "korn", "default", "blue")).await.unwrap();
    let album = server.read(&id_in("demo.v2.Album", "issues", "default", "blue")).await.unwrap();
    assert_eq!(album.owner, korn.id);
    let out = t.works(&["apply", "-f", "blue.yaml"]).await;
    assert_eq!(out.matches(" unchanged\n").count(), 3, "{out}");

    let out = t.works(&["delete", "-f", "blue.yaml"]).await;
    in_order(&out, &["Album/issues in default/blue deleted", "Artist/korn in default/blue deleted", "Namespace/blue"]);
    until_gone(&server, &id_in(NAMESPACE, "blue", "default", "")).await;
}

#[tokio::test]
async fn a_new_partition_comes_first_and_goes_last() {
    let server = Server::start().await;
    let mut t = Transcript::new("order", &server);
    t.file("north.yaml", NORTH);
    let out = t.works(&["apply", "-f", "north.yaml"]).await;
    in_order(
        &out,
        &["Partition/north created", "Namespace/blue in north created", "Artist/bjork in north/blue created"],
    );
    server.read(&id_in(ARTIST, "bjork", "north", "blue")).await.unwrap();
    let out = t.works(&["delete", "-f", "north.yaml", "--wait"]).await;
    in_order(&out, &["Artist/bjork in north/blue", "Namespace/blue in north", "Partition/north"]);
    assert!(is_gone(&server, &id(PARTITION, "north")).await);
}

#[tokio::test]
async fn a_dry_run_lists_resources_that_the_server_could_not_check() {
    let server = Server::start().await;
    let mut t = Transcript::new("order", &server);
    for (file, text, unchecked) in [
        (
            "blue.yaml",
            BLUE,
            vec![
                "warning: blue.yaml:8:1: demo.v2.Artist/korn in default/blue: not validated, and without defaults: namespace blue \
             does not exist before these files are applied",
                "warning: blue.yaml:1:1: demo.v2.Album/issues in default/blue: not validated",
            ],
        ),
        (
            "north.yaml",
            NORTH,
            vec![
                "warning: north.yaml:1:1: demo.v2.Artist/bjork in north/blue: not validated, and without defaults: partition north \
             does not exist before these files are applied",
                "warning: north.yaml:7:1: tenancy.v2beta1.Namespace/blue in north: not validated",
            ],
        ),
    ] {
        t.file(file, text);
        let dry = t.run(&["apply", "-f", file, "--dry-run"]).await;
        assert_eq!(dry.code, Some(0), "{}{}", dry.out, dry.err);
        assert_eq!(dry.out.matches(" created (dry run)\n").count(), 3, "{}", dry.out);
        let diff = t.run(&["diff", "-f", file]).await;
        assert_eq!(diff.code, Some(4), "{}{}", diff.out, diff.err);
        for text in &unchecked {
            assert!(dry.err.contains(text) && diff.err.contains(text), "{text}\n{}\n{}", dry.err, diff.err);
        }
        assert_eq!(dry.err.matches("not validated").count(), 2, "{}", dry.err);
        assert_eq!(diff.err.matches("not validated").count(), 2, "{}", diff.err);
    }
    let read = server.read(&id_in(NAMESPACE, "blue", "default", "")).await;
    assert_eq!(read.unwrap_err().code(), Code::NotFound, "a dry run writes nothing");

    // A namespace that no file creates is still missing, whether or not its partition is created.
    let artist = "type: demo.v2.Artist\nname: korn\nnamespace: green\ndata: {name: Korn}\n";
    t.file("green.yaml", format!("{artist}---\n{BLUE}"));
    t.file("far.yaml", format!("{artist}partition: north\n---\n{NORTH}"));
    for file in ["green.yaml", "far.yaml"] {
        for args in [&["apply", "-f", file, "--dry-run"][..], &["diff", "-f", file]] {
            let ran = t.run(args).await;
            assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
            assert!(ran.err.contains(" not found: "), "{}", ran.err);
        }
    }
    // The server checks the resources that it can check.
    t.file("wrong.yaml", format!("type: demo.v2.Artist\nname: korn\ndata: {{}}\n---\n{BLUE}"));
    t.fails(1, &["apply", "-f", "wrong.yaml", "--dry-run"]).await;
}

#[tokio::test]
async fn pruned_resources_go_before_their_owner_and_namespace() {
    let server = Server::start().await;
    let mut t = Transcript::new("order", &server);
    t.file("set.yaml", format!("{BLUE}{KEPT}"));
    t.works(&["apply", "-f", "set.yaml"]).await;
    // Units that are deleted come from the files or, for further types, from the command line.
    t.file("set.yaml", KEPT.replace("name: kept", "name: kept\nnamespace: default"));
    let args =
        ["apply", "-f", "set.yaml", "--prune", "-l", "app=shop", "--yes", "--prune-types", "namespace,artist,album"];
    let ran = t.run_with(&args, "", &[("MORTISE_NAMESPACE", "blue")]).await;
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let pruned = ["Album/issues in default/blue pruned", "Artist/korn in default/blue pruned", "Namespace/blue pruned"];
    in_order(&ran.out, &pruned);
    server.read(&id(ARTIST, "kept")).await.unwrap();
    until_gone(&server, &id_in(NAMESPACE, "blue", "default", "")).await;
}

#[tokio::test]
async fn a_changed_document_costs_three_calls_and_an_unchanged_document_one() {
    let server = Server::start().await;
    let mut t = Transcript::new("order", &server);
    let artist = |genre: &str| format!("type: demo.v2.Artist\nname: korn\ndata: {{name: Korn, genre: {genre}}}\n");
    t.file("one.yaml", artist("GENRE_METAL"));
    let types = [("GetType", 1), ("ListTypes", 1)];

    let (ran, new) = counted(&server, &mut t, &["apply", "-f", "one.yaml"]).await;
    assert!(ran.out.contains(" created\n"), "{}{}", ran.out, ran.err);
    assert_eq!(new, made(&[types[0], types[1], ("Read", 1), ("Write", 1)]));

    let (ran, same) = counted(&server, &mut t, &["apply", "-f", "one.yaml"]).await;
    assert!(ran.out.contains(" unchanged\n"), "{}{}", ran.out, ran.err);
    assert_eq!(same, made(&[types[0], types[1], ("Read", 1)]));

    t.file("one.yaml", artist("GENRE_ROCK"));
    let (ran, changed) = counted(&server, &mut t, &["apply", "-f", "one.yaml"]).await;
    assert!(ran.out.contains(" updated\n"), "{}{}", ran.out, ran.err);
    assert_eq!(changed, made(&[types[0], types[1], ("MutateAndValidate", 1), ("Read", 1), ("Write", 1)]));
}

#[tokio::test]
async fn descriptors_are_asked_for_once() {
    let server = Setup::new().component("bag", bags()).start().await;
    let mut t = Transcript::new("order", &server);
    let names: Vec<String> = (0..10).map(|n| format!("bag-{n}")).collect();
    t.file(
        "all.yaml",
        names
            .iter()
            .map(|name| format!("---\ntype: bag.v1.Bag\nname: {name}\ndata: {{text: x}}\n"))
            .collect::<String>(),
    );
    t.works(&["apply", "-f", "all.yaml"]).await;
    for name in &names {
        let mut stored = server.read(&id("bag.v1.Bag", name)).await.unwrap();
        // Field 2, an empty list: other bytes with the same meaning.
        stored.data.as_mut().unwrap().value.extend([0x12, 0]);
        server.write(stored).await.unwrap();
    }
    let (ran, alike) = counted(&server, &mut t, &["apply", "-f", "all.yaml"]).await;
    assert_eq!(ran.out.matches(" unchanged\n").count(), 10, "{}{}", ran.out, ran.err);
    assert_eq!(alike, made(&[("GetType", 1), ("ListTypes", 1), ("MutateAndValidate", 10), ("Read", 10)]));
}
