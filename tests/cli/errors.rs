//! Error texts of the command line that no other transcript shows. Those missing here need a broken machine (no
//! threads, an unreadable directory, a terminal that goes away) or a server with senseless answers.

use mortise_resource::data::ServerStatusRequest;
use tokio::net::TcpListener;

use crate::support::{Server, Setup, artist, eventually, id, tokens::Guarded, transcript::Transcript};

#[tokio::test]
async fn errors_name_their_subject_and_a_remedy() {
    // Two plugins with a kind of the same name.
    let server = Setup::new().guest("prior").guest("version-stamp-1").start().await;
    let mut t = Transcript::new("errors", &server);
    server.write(artist("korn")).await.unwrap();
    t.file("file", "");

    t.fails(2, &["types", "--timeout", "5x"]).await;
    t.fails(2, &["types", "--timeout", "0s"]).await;
    t.fails(2, &["get", "artists", "-l", "!="]).await;
    t.fails(2, &["get", "artists,albums", "--watch", "--resume", "x"]).await;
    t.fails(2, &["get", "things"]).await;
    t.fails(2, &["explain", "artist.name.first"]).await;
    t.fails(2, &["man", "teleport"]).await;
    t.fails(2, &["man", "context", "teleport"]).await;
    t.fails(2, &["man", "--dir", "file/below"]).await;
    t.fails(2, &["plugin", "install", ".."]).await;
    t.fails(2, &["label", "artist", "korn", "=x"]).await;

    let at = |place: &'static str| [("MORTISE_CONTEXTS", place)];
    assert_eq!(t.run_with(&["context", "list"], "", &at(".")).await.code, Some(2));
    assert_eq!(t.run_with(&["context", "set", "a"], "", &at("/proc/contexts/file")).await.code, Some(2));
    assert_eq!(t.run_with(&["context", "set", "a"], "", &[("HOME", "")]).await.code, Some(2));
    t.finish();
}

#[tokio::test]
async fn foreign_servers_and_vanishing_resources_are_reported() {
    let server = Server::start().await;
    let mut t = Transcript::new("errors_meanwhile", &server);
    t.file("korn.yaml", "type: demo.v2.Artist\nname: korn\ndata: {name: Korn}\n");
    let listening = format!("https://{}", server.grpc);
    t.fails(3, &["types", "--grpc-addr", &listening]).await;
    // A server that accepts connections and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    t.call(&address, "<silent>");
    t.fails(5, &["types", "--timeout", "300ms", "--grpc-addr", &address]).await;

    let going = async {
        let korn = id("demo.v2.Artist", "korn");
        let mut client = mortise_api::ServerServiceClient::new(server.channel().await);
        let mut status = async || client.status(ServerStatusRequest {}).await.unwrap().into_inner();
        eventually("it is watched", async || status().await.watches == 1).await;
        server.delete(&korn, "").await.unwrap();
    };
    let waiting = ["apply", "-f", "korn.yaml", "--wait", "condition=Ready", "--timeout", "30s"];
    let (ran, ()) = tokio::join!(t.run(&waiting), going);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    t.finish();
}

/// The editor copies the comments of its file to standard output, after it has written a fault.
#[tokio::test]
async fn faults_of_an_edited_text_are_shown_in_it() {
    let server = Server::start().await;
    let mut t = Transcript::new("errors_edit", &server);
    server.write(artist("korn")).await.unwrap();
    t.file("editor.sh", "if [ -e shown ]; then grep '^#' \"$2\"; else printf \"$1\" > \"$2\"; : > shown; fi\n");
    let document = |name: &str| format!("type: demo.v2.Artist\\nname: {name}\\ndata: {{name: X}}\\n");
    let texts = [
        "type: demo.v2.Artist\\nname: korn\\ndata: {teleport: 1}\\n".to_owned(),
        document("korn") + "---\\n" + &document("other"),
        document("other"),
    ];
    for text in &texts {
        let editor = format!("sh editor.sh '{text}'");
        let ran = t.run_with(&["edit", "artist", "korn"], "", &[("EDITOR", &editor)]).await;
        assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
        let kept = ran.err.split("what you typed is in ").nth(1).unwrap().lines().next().unwrap().trim();
        std::fs::remove_file(kept).unwrap();
        t.call(kept, "<kept>");
        std::fs::remove_file(t.dir().join("shown")).unwrap();
    }
    t.finish();
}

#[tokio::test]
async fn tokens_and_policies_that_are_refused() {
    let guarded = Guarded::start(Setup::new()).await;
    let mut t = Transcript::new("errors_access", &guarded.server);
    t.file("token", &guarded.management);
    t.file("rules.hcl", "operator = \"perhaps\"\n");
    t.file("misspelt.hcl", "key_prefx \"secret\" { policy = \"deny\" }\n");
    t.file("laptop.token.new", "perhaps in use");
    let known = [("MORTISE_TOKEN_FILE", "token")];
    for args in [
        &["token", "create", "laptop", "--policy", "nobody"][..],
        &["token", "create", "bootstrap", "--policy", "global-management"],
        &["token", "show", "nobody"],
        &["token", "delete", "nobody"],
        &["policy", "show", "nobody"],
        &["policy", "create", "p"],
        &["policy", "create", "p", "--allow", "nonsense"],
        &["policy", "create", "p", "--rules", "missing.hcl"],
        &["policy", "create", "p", "--rules", "rules.hcl"],
        &["policy", "create", "p", "--rules", "misspelt.hcl"],
        &["policy", "create", "p", "--allow", "shout:*"],
        &["token", "create", "laptop", "--policy", "global-management", "--out", "laptop.token"],
        &["login", "Bad_Name"],
    ] {
        let ran = t.run_with(args, "", &known).await;
        assert!(matches!(ran.code, Some(1 | 2)), "{args:?}: {:?} {}{}", ran.code, ran.out, ran.err);
    }
    assert_eq!(t.run_with(&["policy", "create", "p", "--allow", "read:*"], "", &known).await.code, Some(0));
    assert_eq!(t.run_with(&["policy", "create", "p", "--allow", "read:*"], "", &known).await.code, Some(1));
    assert_eq!(t.run_with(&["login"], "", &[]).await.code, Some(2));
    assert_eq!(t.run_with(&["login"], "unknown\n", &[]).await.code, Some(1));
    assert_eq!(t.run_with(&["login"], &guarded.management, &[("HOME", "")]).await.code, Some(2));
    // Without a token, and with an unknown one.
    t.fails(1, &["get", "tokens"]).await;
    t.fails(1, &["get", "artists", "--token", "unknown"]).await;
    t.finish();
}

#[tokio::test]
async fn providers_that_cannot_be_had() {
    let without = Setup::new().env("MORTISE_PROVIDER_SOCKET", "").start().await;
    let server = Server::start().await;
    let mut t = Transcript::new("errors_provider", &server);
    t.call(&without.grpc.to_string(), "<without>");
    t.call(&server.data_dir.display().to_string(), "<data_dir>");
    t.file("file", "");
    t.fails(2, &["provider", "attach", "--source", "mortise"]).await;
    t.fails(1, &["provider", "attach", "--grpc-addr", &without.grpc.to_string()]).await;
    std::fs::remove_file(server.data_dir.join("provider.sock")).unwrap();
    t.fails(1, &["provider", "attach"]).await;
    t.fails(2, &["provider", "export", "--out", "file/below"]).await;
    t.fails(3, &["provider", "export", "--grpc-addr", "127.0.0.1:1"]).await;
    let mut program = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0];
    program.resize(18, 0);
    t.file("arm64", [program.as_slice(), &[183, 0]].concat());
    let export = |binary: &'static str| ["provider", "export", "--out", "mirror", "--binary", binary];
    for wrong in ["mortise-arm64", "linux_arm64=.", "linux_arm64=file", "darwin_arm64=arm64"] {
        t.fails(2, &export(wrong)).await;
    }
    let twice = [&export("linux_arm64=arm64")[..], &["--binary", "linux_arm64=other"]].concat();
    t.fails(2, &twice).await;
    let mirror = "mirror/mortise.local/mortise/mortise";
    let (version, place) = (env!("CARGO_PKG_VERSION"), t.dir().join(mirror));
    t.file(&format!("{mirror}/index.json"), "{\"versions\":[]}");
    t.fails(2, &export("linux_arm64=arm64")).await;
    std::fs::remove_file(place.join("index.json")).unwrap();
    t.file(&format!("{mirror}/{version}/linux_arm64/terraform-provider-mortise_v{version}"), "another");
    t.fails(1, &export("linux_arm64=arm64")).await;
    t.file("docs/index.md", "# By hand\n");
    t.fails(2, &["provider", "docs"]).await;
    t.finish();
}

#[tokio::test]
async fn catalogs_that_cannot_be_imported_or_watched() {
    let server = Server::start().await;
    let mut t = Transcript::new("errors_catalog", &server);
    t.file("hosts", "# nothing\n");
    t.file("latin1.hosts", b"10.0.0.1 caf\xe9\n");
    t.file("large.hosts", " ".repeat((16 << 20) + 1));
    for file in ["latin1.hosts", "large.hosts"] {
        t.fails(2, &["catalog", "load", file, "--format", "hosts"]).await;
    }
    t.fails(1, &["catalog", "load", "hosts"]).await;
    t.fails(2, &["catalog", "watch", "web", "--once", "--partition", "other"]).await;
    let without = Setup::new().serve().start().await;
    t.call(&without.grpc.to_string(), "<without>");
    t.file("hosts", "10.0.0.1 web\n");
    t.fails(2, &["catalog", "load", "hosts", "--grpc-addr", &without.grpc.to_string()]).await;
    t.finish();
}
