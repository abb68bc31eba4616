//! Completion in a shell: commands and flags by their definition, values from the server, and silence about any fault.

use std::collections::BTreeMap;

use mortise_resource::pb;
use tokio::{net::TcpListener, process::Command};

use crate::support::{transcript::Transcript, *};

/// Candidates for the last of these words, as bash asks for them. Asserts that nothing else is printed.
async fn candidates(t: &Transcript, words: &[&str]) -> Vec<String> {
    let mut command = t.command(&["--", "mortise"]);
    command.args(words).env("MORTISE_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    let output = command.output().await.unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{words:?}");
    text(&output.stdout).lines().map(str::to_owned).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A server with a namespace, artists and labels.
async fn serving() -> (Server, Transcript) {
    let server = Server::start().await;
    let place = pb::Tenancy { partition: "default".into(), namespace: String::new() };
    let blue = pb::Id { tenancy: Some(place), ..id("tenancy.v2beta1.Namespace", "blue") };
    server.write(resource(blue, None)).await.unwrap();
    for name in ["korn", "korpiklaani", "limp"] {
        server.write(artist(name)).await.unwrap();
    }
    let elsewhere = pb::Id { tenancy: Some(tenancy("default", "blue")), ..id("demo.v2.Artist", "kraftwerk") };
    server.write(pb::Resource { id: Some(elsewhere), ..artist("kraftwerk") }).await.unwrap();
    let t = Transcript::new("completion", &server);
    let labelled = t.command(&["label", "artist", "korn", "tier=front", "team=red"]).output().await.unwrap();
    assert_eq!(labelled.status.code(), Some(0), "{labelled:?}");
    (server, t)
}

#[tokio::test]
async fn values_come_from_the_server() {
    let (_server, t) = serving().await;
    t.command(&["context", "set", "home", "--grpc-addr", "127.0.0.1:1"]).output().await.unwrap();
    for (words, expected) in [
        (&["get", "art"][..], &["artist"][..]),
        (&["get", "demo.v2.Ar"], &["demo.v2.Artist"]),
        (&["describe", "arti"], &["artist"]),
        (&["get", "album,art"], &["album,artist"]),
        (&["get", "artist", "ko"], &["korn", "korpiklaani"]),
        (&["get", "artist", "korn", "ko"], &["korpiklaani"]),
        (&["delete", "artist/li"], &["artist/limp"]),
        (&["get", "-n", "blue", "artist", "k"], &["kraftwerk"]),
        (&["-n", "blue", "get", "artist", "k"], &["kraftwerk"]),
        (&["get", "artist", "--namespace=blue", "k"], &["kraftwerk"]),
        (&["get", "artist", "-n", "bl"], &["blue"]),
        (&["get", "artist", "--namespace", "d"], &["default"]),
        (&["get", "artist", "--partition", "d"], &["default"]),
        (&["explain", "artist.ge"], &["artist.genre"]),
        (&["get", "artist", "--sort-by", "data.ge"], &["data.genre"]),
        (&["get", "artist", "--fields", "id.name,data.na"], &["id.name,data.name"]),
        (&["get", "artist", "-l", "t"], &["team", "tier"]),
        (&["get", "artist", "-l", "team=red,tier="], &["team=red,tier=front"]),
        (&["plugin", "logs", "dem"], &["demo"]),
        (&["rollout", "history", "dem"], &["demo"]),
        (&["get", "--context", "h"], &["home"]),
        (&["context", "use", "h"], &["home"]),
        (&["export", "demo.v1.Al"], &["demo.v1.Album"]),
        // Aliases, and words of other tools.
        (&["ls", "artist", "li"], &["limp"]),
        (&["rm", "artist", "li"], &["limp"]),
        // Commands and flags.
        (&["compl"], &["completion"]),
        (&["plugin", "roll"], &["rollback"]),
        (&["get", "artist", "--show-l"], &["--show-labels"]),
        // Names of a type that does not exist.
        (&["get", "artits", "ko"], &[]),
    ] {
        assert_eq!(candidates(&t, words).await, expected, "{words:?}");
    }
}

/// A server that is away, takes connections and says nothing, or speaks another protocol leaves its values out; so does
/// an address that is misspelt.
#[tokio::test]
async fn without_a_server_commands_and_flags_complete_in_silence() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_addr = silent.local_addr().unwrap().to_string();
    for server in ["127.0.0.1:1", &silent_addr, "no address"] {
        let t = Transcript::at("completion", server);
        assert_eq!(candidates(&t, &["get", "artist", "ko"]).await, Vec::<String>::new(), "{server}");
        assert_eq!(candidates(&t, &["get", "artist", "--show-l"]).await, ["--show-labels"], "{server}");
        assert!(candidates(&t, &["des"]).await.contains(&"describe".to_owned()), "{server}");
    }
}

/// The script does in bash what it should, and an unknown shell is refused.
#[tokio::test]
async fn the_script_completes_in_bash() {
    let (_server, t) = serving().await;
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_mortise")).parent().unwrap();
    let script = text(&t.command(&["completions", "bash"]).output().await.unwrap().stdout);
    t.file("typed", format!("{script}\nCOMP_WORDS=(mortise get artist kor) COMP_CWORD=3\n_clap_complete_mortise mortise kor artist\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n"));
    let variables: BTreeMap<_, _> = t
        .command(&[])
        .as_std()
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.arg(t.dir().join("typed")).envs(variables).env("PATH", path).current_dir(t.dir());
    let output = bash.output().await.unwrap();
    let mut words: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    words.sort();
    assert_eq!(words, ["korn", "korpiklaani"], "{output:?}");

    let refused = t.command(&["--", "mortise", "get"]).env("MORTISE_COMPLETE", "nosuch").output().await.unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("MORTISE_COMPLETE is nosuch"), "{refused:?}");
}
