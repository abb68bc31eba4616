//! `export` and `import`: a server's resources as text, and back into another one.

use crate::{
    cli::resources::SHOP,
    support::{
        Server, Setup, artist, gvk, id, is_left_out_over_etcd, make_place, noted, tenancy, transcript::Transcript,
    },
};
use mortise_resource::pb;

/// The content that two servers have in common after an import from one into the other.
async fn content(server: &Server, t: &str) -> Vec<(String, String, Vec<u8>, Option<String>)> {
    let listed = server.list(gvk(t), tenancy("*", "*"), "").await.unwrap();
    let mut content: Vec<_> = listed
        .into_iter()
        .map(|one: pb::Resource| {
            let id = one.id.unwrap();
            let tenancy = id.tenancy.unwrap();
            let place = format!("{}/{}", tenancy.partition, tenancy.namespace);
            (place, id.name, one.data.map(|data| data.value).unwrap_or_default(), one.owner.map(|owner| owner.name))
        })
        .collect();
    content.sort();
    content
}

#[tokio::test]
async fn exports_can_be_imported() {
    let (old, new) = (Server::start().await, Server::start().await);
    make_place(&old, "east", "shop").await;
    let mut t = Transcript::new("export", &old);
    t.call(&new.grpc.to_string(), "<other>");
    t.file("shop.yaml", SHOP);
    t.file("elsewhere.yaml", "type: demo.v2.Artist\nname: tricky\ndata: {name: Tricky}\n");
    t.works(&["apply", "-f", "shop.yaml", "-q"]).await;
    t.works(&["apply", "-f", "elsewhere.yaml", "-q", "--partition", "east", "-n", "shop"]).await;
    t.works(&["export"]).await;
    t.works(&["export", "demo.v2.Artist", "-o", "yaml"]).await;
    t.works(&["export", "-f", "all.jsonl"]).await;
    t.fails(2, &["export", "-f", "all.jsonl"]).await;
    t.works(&["export", "-f", "all.jsonl", "--force"]).await;
    t.works(&["export", "album", "artist", "-o", "yaml", "-f", "music.yaml"]).await;
    t.fails(2, &["export", "painters"]).await;
    t.fails(2, &["export", "-f", "nowhere/all.jsonl"]).await;

    let addr = new.grpc.to_string();
    t.works(&["import", "all.jsonl", "--grpc-addr", &addr]).await;
    for t in ["demo.v2.Artist", "demo.v2.Album", "tenancy.v2beta1.Namespace", "tenancy.v2beta1.Partition"] {
        let there = content(&new, t).await;
        assert_eq!(there, content(&old, t).await, "{t}");
        assert!(!there.is_empty(), "{t}");
    }
    // A resource marked for deletion is not exported.
    let held = noted(artist("held"), &[("finalizers", "held")]);
    let held = old.write(held).await.unwrap();
    old.delete(held.id.as_ref().unwrap(), "").await.unwrap();
    t.works(&["export", "artist", "-f", "artists.jsonl"]).await;
    // A second import, from files and from a pipe, changes nothing.
    t.works(&["import", "all.jsonl", "music.yaml", "--grpc-addr", &addr]).await;
    let text = std::fs::read_to_string(t.dir().join("all.jsonl")).unwrap();
    let ran = t.run_with(&["import", "-", "--grpc-addr", &addr], &text, &[]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let korn = new.read(&id("demo.v2.Artist", "korn")).await.unwrap();
    assert_eq!(korn.meta.unwrap().labels["app"], "shop");
    t.finish();
}

#[tokio::test]
async fn failed_imports_are_named() {
    let server = Server::start().await;
    let mut t = Transcript::new("import_errors", &server);
    let good = r#"{"type":"demo.v2.Artist","name":"good","data":{"name":"G"}}"#;
    let refused = r#"{"type":"demo.v2.Artist","name":"bad","data":{}}"#;
    let unknown = r#"{"type":"demo.v2.Artist","name":"odd","data":{"nome":"x"}}"#;
    let orphan = r#"{"type":"demo.v2.Album","name":"alone","owner":"demo.v2.Artist/nobody","data":{"title":"A"}}"#;
    t.file("good.jsonl", good);
    t.file("refused.jsonl", format!("{good}\n{refused}\n"));
    t.file("unknown.jsonl", format!("{unknown}\n{good}\n"));
    t.file("orphan.jsonl", format!("{orphan}\n{good}\n"));
    t.file("all.jsonl", format!("{unknown}\n{refused}\n{orphan}\n{good}\n"));
    t.file("cut.jsonl", &good[..30]);
    t.file("empty.jsonl", "");
    t.file("broken.yaml", "type: [\n");
    t.file("binary.jsonl", [0xff_u8, 0xfe, 0]);
    for file in ["refused", "unknown", "orphan", "cut", "binary"] {
        t.run(&["import", &format!("{file}.jsonl")]).await;
    }
    t.run(&["import", "broken.yaml"]).await;
    t.fails(2, &["import", "unknown.jsonl", "good.jsonl"]).await;
    t.fails(1, &["import", "good.jsonl", "unknown.jsonl"]).await;
    t.works(&["import", "empty.jsonl"]).await;
    t.fails(1, &["import", "all.jsonl", "--keep-going"]).await;
    t.fails(2, &["import", "nowhere.jsonl"]).await;
    t.fails(2, &["import"]).await;
    t.finish();
    let there = server.list(gvk("demo.v2.Artist"), tenancy("*", "*"), "").await.unwrap();
    assert_eq!(there.len(), 1, "only the good one was written");
    assert!(server.list(gvk("demo.v2.Album"), tenancy("*", "*"), "").await.unwrap().is_empty());
}

/// Many owners of owners, in the worst order.
#[tokio::test]
async fn owners_are_waited_for() {
    let (old, new) = (Server::start().await, Server::start().await);
    let mut owner = old.write(artist("root")).await.unwrap();
    for n in (0..8).rev() {
        let mut next = artist(&format!("a-{n}"));
        next.owner = owner.id.clone();
        owner = old.write(next).await.unwrap();
    }
    for n in 0..300 {
        old.write(artist(&format!("b-{n}"))).await.unwrap();
    }
    let mut t = Transcript::new("import_owners", &old);
    t.works(&["export", "artist", "-f", "all.jsonl"]).await;
    let addr = new.grpc.to_string();
    let said = t.works(&["import", "all.jsonl", "--grpc-addr", &addr]).await;
    assert!(said.starts_with("309 resources written, 0 refused"), "{said}");
    assert_eq!(content(&new, "demo.v2.Artist").await, content(&old, "demo.v2.Artist").await);
    let first = new.read(&id("demo.v2.Artist", "a-0")).await.unwrap();
    assert_eq!(first.owner.as_ref().unwrap().name, "a-1");
}

/// The export skips damaged resources of a store, lists them, and writes the others.
#[tokio::test]
async fn unreadable_resources_are_skipped_and_listed() {
    const DAMAGED: [&str; 3] = ["a-0", "m-1", "m-2"];
    if is_left_out_over_etcd("the data directory holds a copy, not the content") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let server = Setup::new().data_dir(&data).start().await;
    for n in 0..200 {
        server.write(artist(&format!("{}-{n}", if n % 2 == 0 { "a" } else { "z" }))).await.unwrap();
    }
    for name in ["m-1", "m-2", "m-3"] {
        server.write(artist(name)).await.unwrap();
    }
    server.stop().await;
    let db = sled::Config::new().path(data.join("store/store")).flush_every_ms(None).open().unwrap();
    for name in DAMAGED {
        // docs/storage-format.md: the key of a resource ends with its name, and its value with its bytes.
        let end = format!("\0{name}\0").into_bytes();
        let (key, value) = db.scan_prefix("r").map(Result::unwrap).find(|(key, _)| key.ends_with(&end)).unwrap();
        let mut value = value.to_vec();
        *value.last_mut().unwrap() ^= 1;
        db.insert(key, value).unwrap();
    }
    db.flush().unwrap();
    drop(db);

    let server = Setup::new().data_dir(&data).tolerant().start().await;
    let mut t = Transcript::new("export_of_a_damaged_store", &server);
    t.call(&data.display().to_string(), "<data>");
    let ran = t.run(&["export", "artist", "-f", "all.jsonl"]).await;
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("not everything can be read"), "{}", ran.err);
    for name in DAMAGED {
        assert_eq!(ran.err.matches(&format!("/{name}: ")).count(), 1, "{name}: {}", ran.err);
    }
    let text = std::fs::read_to_string(t.dir().join("all.jsonl")).unwrap();
    assert_eq!(text.lines().count(), 200);
    assert!(text.contains("\"m-3\"") && !DAMAGED.iter().any(|name| text.contains(&format!("\"{name}\""))));
    let other = Server::start().await;
    t.call(&other.grpc.to_string(), "<other>");
    let said = t.works(&["import", "all.jsonl", "--grpc-addr", &other.grpc.to_string()]).await;
    assert!(said.starts_with("200 resources written, 0 refused"), "{said}");
    t.finish();
}
