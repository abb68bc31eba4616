//! `mortise resource`: the argument forms, outputs and wordings of `consul resource`.

use crate::support::{Server, artist, transcript::Transcript};

const HCL: &str = "\
ID {
  Type = gvk(\"demo.v2.Artist\")
  Name = \"korn\"
  Tenancy {
    Namespace = \"default\"
  }
}

Data {
  Name  = \"Korn\"
  Genre = \"GENRE_METAL\"
}
";

#[tokio::test]
async fn the_four_commands_and_their_twins() {
    let server = Server::start().await;
    let mut t = Transcript::new("consul", &server);
    t.file("artist.hcl", HCL);
    t.file(
        "artist.json",
        r#"{"id": {"type": {"group": "demo", "groupVersion": "v2", "kind": "Artist"}, "name": "tool"}, "data": {"name": "Tool"}, "metadata": {"a": "b"}}"#,
    );
    t.works(&["resource", "apply", "-f", "artist.hcl"]).await;
    t.works(&["resource", "apply", "artist.json"]).await;
    assert_eq!(t.run_with(&["resource", "apply", "-"], HCL, &[]).await.code, Some(0));
    assert_eq!(t.run_with(&["resource", "apply-grpc", "-f", "-"], HCL, &[]).await.code, Some(0));
    t.works(&["resource", "read", "demo.v2.Artist", "korn", "-namespace", "default", "-partition=default"]).await;
    t.works(&["resource", "read", "-f", "artist.hcl"]).await;
    t.works(&["resource", "read-grpc", "demo.v2.Artist", "korn", "-stale"]).await;
    t.works(&["resource", "list", "demo.v2.Artist", "-namespace=default"]).await;
    t.works(&["resource", "list", "demo.v1.Executive"]).await;
    t.works(&["resource", "list-grpc", "demo.v2.Artist", "-p", "ko"]).await;
    t.works(&["resource", "list-grpc", "Executive"]).await;
    t.works(&["resource", "list", "-f", "artist.hcl"]).await;
    let addr = server.grpc.to_string();
    let away = [("MORTISE_GRPC_ADDR", "127.0.0.1:1"), ("CONSUL_GRPC_ADDR", addr.as_str())];
    assert_eq!(t.run_with(&["resource", "read", "demo.v2.Artist", "tool"], "", &away).await.code, Some(0));
    t.works(&["resource", "delete", "demo.v2.Artist", "korn"]).await;
    t.works(&["resource", "delete", "demo.v2.Artist", "korn", "-namespace", "default"]).await;
    t.works(&["resource", "delete-grpc", "-f", "artist.json"]).await;
    // A file from a server names a resource, not the incarnation of that time.
    let stale = server.write(artist("again")).await.unwrap();
    let text = t.command(&["resource", "read", "demo.v2.Artist", "again"]).output().await.unwrap().stdout;
    t.file("again.json", text);
    server.delete(stale.id.as_ref().unwrap(), "").await.unwrap();
    server.write(artist("again")).await.unwrap();
    t.works(&["resource", "delete", "-f", "again.json"]).await;
    t.fails(1, &["resource", "read", "demo.v2.Artist", "again"]).await;
    t.works(&["resource", "read", "-help"]).await;
    t.finish();
}

#[tokio::test]
async fn the_wordings_of_errors_are_consuls() {
    let server = Server::start().await;
    let mut t = Transcript::new("consul_errors", &server);
    t.file("artist.hcl", HCL);
    t.file("unknown.hcl", HCL.replace("Genre ", "Foo "));
    t.file("number.hcl", HCL.replace("\"Korn\"", "3"));
    t.file("type.hcl", HCL.replace("demo.v2.Artist", "foo.bar.Baz"));
    t.file("gvk.hcl", HCL.replace("demo.v2.Artist", "nope"));
    t.file("noid.json", "{\"data\": {}}");
    let argument = "Incorrect argument format: ";
    let cases: [(&[&str], String); 24] = [
        (&["read"], format!("{argument}Must specify two arguments: resource type and resource name")),
        (&["read", "demo.v2.Artist"], format!("{argument}Must specify two arguments: resource type and resource name")),
        (&["read", "demo.v2.Artist", "-namespace", "default"], format!("{argument}Must provide resource name right after type")),
        (
            &["read", "a.b", "korn"],
            format!("{argument}Must provide resource type argument with either in group.version.kind format or its shorthand name"),
        ),
        (
            &["read", "demo.v2.Artist", "korn", "-f", "artist.hcl"],
            format!("{argument}File argument is not needed when resource information is provided with the command"),
        ),
        (&["read-grpc", "Painter", "korn"], "The shorthand name does not map to any existing resource type".into()),
        (&["read-grpc", "Artist", "korn"], "The shorthand name does not map to any existing resource type".into()),
        (&["read", "-f"], "Failed to parse args: flag needs an argument: -f".into()),
        (&["read", "-nope"], "Failed to parse args: flag provided but not defined: -nope".into()),
        (
            &["read", "-f", "missing.hcl"],
            "Failed to load data: Failed to read file: open missing.hcl: no such file or directory".into(),
        ),
        (
            &["read", "demo.v2.Artist", "fake-korn"],
            "Error reading resource demo.v2.Artist/fake-korn: Unexpected response code: 404 (rpc error: code = NotFound \
             desc = resource not found)"
                .into(),
        ),
        (
            &["read-grpc", "demo.v2.Artist", "fake-korn"],
            "Error reading resource demo.v2.Artist/fake-korn: rpc error: code = NotFound desc = resource not found".into(),
        ),
        (&["list"], format!("{argument}Must include resource type argument")),
        (&["list", "Artist"], format!("{argument}Must include resource type argument in group.version.kind format")),
        (&["list", "demo.v2.Artist", "korn"], format!("{argument}Must include flag arguments after resource type")),
        (&["list", "demo.v2.Artist", "-p", "x"], "Failed to parse args: flag provided but not defined: -p".into()),
        (
            &["apply"],
            format!("{argument}Must provide exactly one positional argument to specify the resource to write"),
        ),
        (
            &["apply", "a", "b"],
            format!("{argument}Must provide exactly one positional argument to specify the resource to write"),
        ),
        (
            &["apply-grpc"],
            "Required '-f' flag was not provided to specify where to load the resource content from".into(),
        ),
        (&["apply", "-f", "unknown.hcl"], "Failed to decode resource from input file".into()),
        (&["apply", "-f", "number.hcl"], "Failed to decode resource from input file".into()),
        (&["apply", "-f", "type.hcl"], "Failed to decode resource from input file".into()),
        (&["apply", "-f", "gvk.hcl"], "Failed to decode resource from input file".into()),
        (&["apply", "-f", "noid.json"], "Failed to decode resource from input file".into()),
    ];
    for (args, says) in cases {
        let ran = t.run(&[&["resource"][..], args].concat()).await;
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{args:?}");
        assert!(ran.err.starts_with(&says), "{args:?}: {}", ran.err);
    }
    let away = [("CONSUL_GRPC_ADDR", "127.0.0.1:1")];
    assert_eq!(t.run_with(&["resource", "list", "demo.v2.Artist"], "", &away).await.code, Some(1));
    t.finish();
}
