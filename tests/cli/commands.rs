//! The commands that kubectl's users know: create, replace, patch, wait, version, info, rollout; and `validate`.

use crate::support::{Server, artist, transcript::Transcript};

const KORN: &str = "type: demo.v2.Artist\nname: korn\ndata: {name: Korn, genre: GENRE_ROCK}\n";

#[tokio::test]
async fn resources_are_created_once_and_replaced_if_they_exist() {
    let server = Server::start().await;
    let mut t = Transcript::new("create", &server);
    t.file("korn.yaml", KORN);
    t.file("metal.yaml", KORN.replace("ROCK", "METAL"));
    t.fails(1, &["replace", "-f", "korn.yaml"]).await;
    t.fails(1, &["replace", "-f", "korn.yaml", "--dry-run"]).await;
    t.works(&["create", "-f", "korn.yaml", "--dry-run"]).await;
    t.works(&["create", "-f", "korn.yaml"]).await;
    t.fails(1, &["create", "-f", "korn.yaml"]).await;
    t.fails(1, &["create", "-f", "metal.yaml"]).await;
    t.fails(1, &["create", "-f", "korn.yaml", "--dry-run"]).await;
    let stored = t.works(&["get", "artist", "korn", "-o", "yaml"]).await;
    assert!(stored.contains("GENRE_ROCK"), "a creation that fails changes nothing: {stored}");
    t.works(&["replace", "-f", "metal.yaml"]).await;
    t.file("old.yaml", stored);
    t.fails(1, &["replace", "-f", "old.yaml"]).await;
    t.works(&["create", "namespace", "blue"]).await;
    t.fails(1, &["create", "namespace", "blue"]).await;
    t.works(&["create", "artist", "abba", "-n", "blue", "--data", "{\"name\": \"ABBA\"}"]).await;
    t.works(&["create", "artist/blue/abba2", "--data", "{\"name\": \"ABBA\"}"]).await;
    t.fails(2, &["create", "artist", "abba", "--data", "{name}"]).await;
    t.fails(2, &["create", "artist", "abba", "--data", "{\"nme\": 1}"]).await;
    t.fails(1, &["create", "artist", "abba", "-n", "green", "--data", "{\"name\": \"ABBA\"}"]).await;
    t.fails(2, &["create", "artist"]).await;
    t.finish();
}

/// Sixteen creations at once: one succeeds.
#[tokio::test]
async fn of_many_creations_one_succeeds() {
    let server = Server::start().await;
    let t = Transcript::new("create_race", &server);
    t.file("korn.yaml", KORN);
    let creations: Vec<_> = (0..16).map(|_| t.command(&["create", "-f", "korn.yaml"]).output()).collect();
    let codes = futures::future::join_all(creations).await.into_iter().map(|output| output.unwrap().status.code());
    let codes: Vec<_> = codes.collect();
    assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == Some(1)).count(), 15, "{codes:?}");
}

#[tokio::test]
async fn fields_are_patched() {
    let server = Server::start().await;
    server.write(artist("korn")).await.unwrap();
    let mut t = Transcript::new("patch", &server);
    t.file("patch.json", "{\"data\": {\"group_members\": {\"ray\": \"drums\"}}}");
    let merge = |patch: &'static str| ["patch", "artist", "korn", "-p", patch];
    t.works(&merge("{\"data\": {\"genre\": \"GENRE_METAL\"}}")).await;
    t.works(&merge("{\"data\": {\"genre\": \"GENRE_METAL\"}}")).await;
    t.works(&["patch", "artist/korn", "--patch-file", "patch.json"]).await;
    t.works(&merge("{\"data\": {\"group_members\": {\"munky\": \"guitar\"}}, \"metadata\": {\"city\": \"B\"}}")).await;
    t.works(&[&merge("{\"data\": {\"name\": \"X\"}}")[..], &["--dry-run"]].concat()).await;
    t.works(&["get", "artist", "korn", "-o", "yaml"]).await;
    t.works(&merge("{\"data\": {\"group_members\": null}}")).await;
    let json = |patch: &'static str| ["patch", "artist", "korn", "--type", "json", "-p", patch];
    t.works(&json("[{\"op\": \"replace\", \"path\": \"/data/name\", \"value\": \"KoRn\"}]")).await;
    let shown = t.works(&["get", "artist", "korn", "-o", "yaml"]).await;
    assert!(shown.contains("KoRn") && !shown.contains("drums"), "{shown}");
    t.fails(1, &json("[{\"op\": \"test\", \"path\": \"/data/name\", \"value\": \"Korn\"}]")).await;
    t.fails(1, &json("[{\"op\": \"remove\", \"path\": \"/data/nme\"}]")).await;
    t.fails(2, &json("{}")).await;
    t.fails(2, &merge("[]")).await;
    t.fails(2, &merge("{data}")).await;
    t.fails(2, &merge("{\"data\": {\"nme\": 1}}")).await;
    t.fails(2, &merge("{\"id\": {\"name\": \"abba\"}}")).await;
    t.fails(1, &merge("{\"version\": \"1\", \"data\": {\"name\": \"X\"}}")).await;
    t.fails(1, &["patch", "artist", "abba", "-p", "{}"]).await;
    t.finish();
}

/// Patches of different fields at once: each is kept.
#[tokio::test]
async fn patches_at_once_lose_nothing() {
    let server = Server::start().await;
    server.write(artist("korn")).await.unwrap();
    let t = Transcript::new("patch_race", &server);
    let patches: Vec<String> = (0..8).map(|n| format!("{{\"metadata\": {{\"key-{n}\": \"x\"}}}}")).collect();
    let patches = patches.iter().map(|patch| t.command(&["patch", "artist", "korn", "-p", patch]).output());
    for output in futures::future::join_all(patches).await {
        assert!(output.unwrap().status.success());
    }
    let stored = server.read(&crate::support::id("demo.v2.Artist", "korn")).await.unwrap();
    assert_eq!(stored.metadata.keys().filter(|key| key.starts_with("key-")).count(), 8, "{:?}", stored.metadata);
}

#[tokio::test]
async fn states_of_resources_are_waited_for() {
    let server = Server::start().await;
    server.write(artist("korn")).await.unwrap();
    let mut t = Transcript::new("wait", &server);
    t.works(&["patch", "artist", "korn", "-p", "{\"data\": {\"genre\": \"GENRE_METAL\"}}"]).await;
    let wait = |goal: &'static str| ["wait", "artist", "korn", "--timeout", "100ms", "--for", goal];
    t.works(&wait("create")).await;
    t.works(&wait("data.genre=GENRE_METAL")).await;
    t.works(&wait("jsonpath={.data.genre}=GENRE_METAL")).await;
    t.works(&wait("jsonpath={.data.genre}")).await;
    t.works(&["wait", "artists", "--all", "--for", "data.genre=GENRE_METAL"]).await;
    t.fails(5, &wait("data.genre=GENRE_JAZZ")).await;
    t.fails(5, &wait("data.groupMembers=x")).await;
    t.fails(5, &wait("condition=Ready")).await;
    t.fails(5, &wait("delete")).await;
    t.fails(2, &wait("teleport")).await;
    t.fails(2, &wait("condition=")).await;
    t.fails(1, &["wait", "artist", "abba", "--for", "condition=Ready"]).await;
    t.works(&["wait", "artist", "abba", "--for", "delete"]).await;
    t.fails(5, &["wait", "artist", "abba", "--for", "create", "--timeout", "100ms"]).await;
    t.fails(1, &["wait", "artists", "-l", "a=b", "--for", "condition=Ready"]).await;
    t.fails(2, &["wait", "artists", "--for", "condition=Ready"]).await;
    t.fails(2, &["wait", "artist", "korn", "--all", "--for", "condition=Ready"]).await;
    t.finish();

    // What comes during the wait ends it.
    let t = Transcript::new("wait_live", &server);
    let waiting = t.command(&["wait", "artist", "korn", "--for", "data.genre=GENRE_JAZZ"]).spawn().unwrap();
    let patch = ["patch", "artist", "korn", "-p", "{\"data\": {\"genre\": \"GENRE_JAZZ\"}}"];
    assert!(t.command(&patch).output().await.unwrap().status.success());
    assert!(waiting.wait_with_output().await.unwrap().status.success());
}

#[tokio::test]
async fn versions_of_client_server_and_plugins_are_shown() {
    let server = Server::start().await;
    let mut t = Transcript::new("info", &server);
    t.works(&["version"]).await;
    t.works(&["version", "--client"]).await;
    t.works(&["version", "--client", "-o", "json"]).await;
    t.works(&["version", "-o", "json"]).await;
    t.fails(3, &["version", "--grpc-addr", "127.0.0.1:1"]).await;
    t.works(&["info"]).await;
    t.works(&["context", "set", "home", "--namespace", "blue"]).await;
    t.works(&["config", "current-context"]).await;
    t.works(&["config", "get-contexts"]).await;
    t.works(&["cluster-info", "--partition", "east"]).await;
    let serving = t.works(&["rollout", "status", "plugin/demo"]).await;
    t.call(serving.split("sha256 ").nth(1).unwrap().split(')').next().unwrap(), "<digest>");
    t.works(&["rollout", "history", "demo"]).await;
    t.fails(1, &["rollout", "undo", "demo"]).await;
    t.works(&["plugin", "disable", "demo"]).await;
    t.fails(1, &["rollout", "status", "demo"]).await;
    t.fails(1, &["rollout", "status", "nobody"]).await;
    t.file("config.toml", "grpc_addr = \"127.0.0.1:8502\"\n");
    t.file("wrong.toml", "grpc_adr = \"127.0.0.1:8502\"\n");
    t.works(&["validate", "config.toml"]).await;
    t.works(&["validate"]).await;
    t.fails(1, &["validate", "wrong.toml"]).await;
    t.finish();
}

#[tokio::test]
async fn names_are_printed_as_commands_take_them() {
    let server = Server::start().await;
    let mut t = Transcript::new("names", &server);
    for command in [
        &["create", "partition", "east"][..],
        &["create", "namespace", "blue"],
        &["create", "artist", "korn", "--data", "{\"name\": \"Korn\"}"],
        &["create", "artist", "korn", "-n", "blue", "--data", "{\"name\": \"Blue\"}"],
        &["create", "artist", "korn", "--partition", "east", "--data", "{\"name\": \"East\"}"],
        &["create", "demo.v1.RecordLabel", "epic", "--partition", "east", "--data", "{\"name\": \"Epic\"}"],
        &["create", "demo.v1.Executive", "ceo", "--data", "{\"position\": \"ceo\"}"],
    ] {
        t.works(command).await;
    }
    t.works(&["get", "artists", "-o", "name"]).await;
    t.works(&["get", "artists", "-n", "blue", "-o", "name"]).await;
    t.works(&["get", "demo.v1.RecordLabel,demo.v1.Executive", "--partition", "east", "-o", "name"]).await;
    t.works(&["get", "artist/blue/korn", "artist/east/default/korn"]).await;
    t.works(&["get", "artist/blue/korn", "-n", "blue", "-o", "name"]).await;
    t.fails(2, &["get", "artist/blue/korn", "-n", "green"]).await;
    t.fails(2, &["get", "artist/a/b/c/d"]).await;
    t.fails(2, &["get", "artist//korn"]).await;
    t.fails(2, &["get", "artist/korn", "artist/blue/korn", "--watch"]).await;
    let env = [("MORTISE_NAMESPACE", "blue")];
    assert_eq!(t.run_with(&["get", "artists", "-o", "name"], "", &env).await.out, "demo.v2.Artist/korn\n");
    assert_eq!(
        t.run_with(&["get", "artists", "-n", "default", "-o", "name"], "", &env).await.out,
        "demo.v2.Artist/default/default/korn\n"
    );
    // Each name that a list of everything prints deletes that resource, and no other.
    let all = t.works(&["get", "artists", "-A", "-o", "name"]).await;
    assert_eq!(all.lines().count(), 3);
    t.works(&["delete", all.lines().find(|name| name.contains("blue")).unwrap()]).await;
    let left = t.works(&["get", "artists", "-A", "-o", "name"]).await;
    assert!(left.lines().count() == 2 && !left.contains("blue"), "{left}");
    t.works(&[&["delete"][..], &left.lines().collect::<Vec<_>>()].concat()).await;
    t.works(&["get", "artists", "-A", "-o", "name"]).await;
    t.finish();
}
