//! The resource commands: their output on success and on failure.

use std::process::Stdio;

use mortise_resource::data::ServerStatusRequest;
use prost::Message as _;
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet, MessageOptions,
    field_descriptor_proto::{Label, Type},
};
use tokio::{io::AsyncReadExt as _, time::timeout};

use crate::support::{
    PATIENCE, Server, Setup, album, artist, controllers::report_until, eventually, id, labelled, noted, resource,
    thing, transcript::Transcript,
};

pub const SHOP: &str = "\
# An artist with two albums; the owner may come last.
id:
  type: demo.v2.Album
  name: issues
owner: demo.v2.Artist/korn
data:
  title: Issues
  yearOfRelease: 1999
---
type: demo.v2.Album
name: untouchables
owner: demo.v2.Artist/korn
data:
  title: Untouchables
  tracks: [Here to Stay, Make Believe]
---
type: demo.v2.Artist
name: korn
meta:
  labels:
    app: shop
data:
  name: Korn
  genre: GENRE_METAL
";

#[tokio::test]
async fn resource_commands_print_their_results() {
    let server = Server::start().await;
    let mut t = Transcript::new("resources", &server);
    t.file("shop.yaml", SHOP);
    t.works(&["types"]).await;
    t.works(&["types", "-o", "name"]).await;
    t.works(&["types", "-o", "wide"]).await;
    t.works(&["explain", "artist"]).await;
    t.works(&["explain", "demo.v2.Artist.genre"]).await;
    t.fails(2, &["explain", "artist.nope"]).await;
    t.fails(2, &["explain", "nope.field"]).await;
    t.fails(4, &["diff", "-f", "shop.yaml"]).await;
    t.works(&["apply", "-f", "shop.yaml", "--dry-run"]).await;
    t.works(&["get", "artists"]).await;
    let out = t.works(&["apply", "-f", "shop.yaml"]).await;
    assert!(out.starts_with("demo.v2.Artist/korn created\n"), "the owner goes first: {out}");
    t.works(&["apply", "-f", "shop.yaml"]).await;
    t.works(&["diff", "-f", "shop.yaml"]).await;
    t.file("shop.yaml", SHOP.replace("GENRE_METAL", "GENRE_ROCK"));
    t.fails(4, &["diff", "-f", "shop.yaml"]).await;
    t.works(&["apply", "-f", "shop.yaml", "--dry-run"]).await;
    t.works(&["apply", "-f", "shop.yaml"]).await;
    t.works(&["apply", "-f", "shop.yaml", "-q"]).await;
    t.works(&["get", "artists"]).await;
    t.works(&["list", "demo.v2.Album"]).await;
    t.works(&["get", "artist", "korn", "-o", "yaml"]).await;
    t.works(&["get", "artist", "korn", "-o", "json"]).await;
    t.works(&["get", "artist/korn", "album/issues"]).await;
    t.works(&["get", "albums", "-o", "name"]).await;
    t.works(&["get", "albums", "-o", "json"]).await;
    t.works(&["get", "albums", "-A", "--prefix", "un"]).await;
    t.works(&["get", "artists", "-l", "app=shop", "-o", "name"]).await;
    t.works(&["get", "artists", "-l", "app=other"]).await;
    t.fails(1, &["get", "artist", "korn", "nobody"]).await;
    t.fails(1, &["get", "artist", "nobody", "-o", "yaml"]).await;
    t.fails(1, &["get", "artist", "-n", "nowhere", "korn"]).await;
    t.fails(1, &["get", "artist", "Korn"]).await;
    t.fails(2, &["get", "painters"]).await;
    t.fails(2, &["get", "artist/korn", "issues"]).await;
    t.fails(2, &["get", "artist", "korn", "--prefix", "k"]).await;
    t.fails(2, &["get"]).await;
    t.fails(2, &["get", "artists", "-o", "xml"]).await;
    t.works(&["describe", "artist", "korn"]).await;
    t.works(&["describe", "album/issues"]).await;
    t.fails(1, &["describe", "album", "nope"]).await;
    t.works(&["describe", "album"]).await;
    t.works(&["status", "artist", "korn"]).await;
    t.works(&["tree", "artist", "korn"]).await;
    t.works(&["tree", "album/issues"]).await;
    t.works(&["tree", "artist", "korn", "--limit", "1"]).await;
    t.works(&["tree", "artist", "korn", "--depth", "0"]).await;
    t.works(&["delete", "album", "issues"]).await;
    t.fails(1, &["delete", "album", "issues"]).await;
    t.works(&["delete", "album", "issues", "--ignore-not-found"]).await;
    t.works(&["delete", "albums", "--prefix", "un", "--dry-run"]).await;
    t.fails(2, &["delete", "albums", "--prefix", "un"]).await;
    t.fails(2, &["delete", "albums"]).await;
    t.fails(2, &["delete", "albums", "x", "--prefix", "un"]).await;
    t.works(&["delete", "albums", "--prefix", "un", "--yes"]).await;
    t.works(&["delete", "albums", "--prefix", "un", "--yes"]).await;
    t.fails(1, &["delete", "-f", "shop.yaml"]).await;
    t.finish();
}

#[tokio::test]
async fn faults_of_input_have_file_line_and_field() {
    let server = Server::start().await;
    let mut t = Transcript::new("apply_errors", &server);
    let artist = |rest: &str| format!("type: demo.v2.Artist\nname: korn\n{rest}");
    let cases = [
        ("unknown_field.yaml", artist("data:\n  name: Korn\n  gener: GENRE_ROCK\n")),
        ("wrong_kind.yaml", artist("data:\n  name: [Korn]\n  genre: GENRE_POLKA\n")),
        ("not_yaml.yaml", "id: [\n".to_owned()),
        ("unknown_type.yaml", "type: demo.v9.Artist\nname: korn\n".to_owned()),
        ("no_name.yaml", "type: demo.v2.Artist\ndata: {}\n".to_owned()),
        ("two_faults.yaml", artist("data:\n  nope: 1\n---\ntype: nope\nname: x\n")),
        ("twice.yaml", format!("{}---\n{}", artist("data: {name: Korn}\n"), artist("partition: default\n"))),
        ("empty.yaml", "# nothing\n".to_owned()),
        ("broken.json", "{\"id\": }".to_owned()),
        (
            "circle.yaml",
            "type: demo.v2.Album\nname: a\nowner: demo.v2.Album/b\n---\ntype: demo.v2.Album\nname: b\nowner: demo.v2.Album/a\n"
                .to_owned(),
        ),
    ];
    for (name, text) in &cases {
        t.file(name, text);
        t.fails(2, &["apply", "-f", name]).await;
    }
    t.file("latin1.yaml", b"type: demo.v2.Artist\nname: caf\xe9\n");
    t.fails(2, &["apply", "-f", "latin1.yaml"]).await;
    t.fails(2, &["apply", "-f", "missing.yaml"]).await;
    t.fails(2, &["apply"]).await;
    t.file("empty/readme.txt", "nothing");
    t.fails(2, &["apply", "-f", "empty"]).await;
    // A refusal of the server does not prevent the other writes.
    t.file("refused.yaml", "type: demo.v2.Artist\nname: good\ndata: {name: Good}\n---\ntype: demo.v2.Artist\nname: bad\ndata: {genre: GENRE_ROCK}\n---\ntype: demo.v2.Album\nname: hers\nowner: demo.v2.Artist/bad\ndata: {title: Hers}\n");
    t.fails(1, &["apply", "-f", "refused.yaml"]).await;
    t.fails(1, &["diff", "-f", "refused.yaml"]).await;
    t.file("dangling.yaml", "type: demo.v2.Album\nname: lost\nowner: demo.v2.Artist/nobody\ndata: {title: Lost}\n");
    t.fails(1, &["apply", "-f", "dangling.yaml"]).await;
    t.file("stale.yaml", "type: demo.v2.Artist\nname: good\nversion: \"1\"\ndata: {name: Other}\n");
    t.fails(1, &["apply", "-f", "stale.yaml"]).await;
    t.fails(2, &["apply", "-f", "refused.yaml", "--prune"]).await;
    t.fails(2, &["apply", "-f", "refused.yaml", "--wait", "Accepted"]).await;
    t.fails(2, &["apply", "-f", "refused.yaml", "--format", "xml"]).await;
    let names: Vec<_> = t.works(&["get", "artists", "-o", "name"]).await.lines().map(str::to_owned).collect();
    assert_eq!(names, ["demo.v2.Artist/good"]);
    t.finish();
}

#[tokio::test]
async fn every_way_to_hand_in_resources() {
    let server = Server::start().await;
    let mut t = Transcript::new("inputs", &server);
    let json = r#"{"id": {"type": {"group": "demo", "groupVersion": "v2", "kind": "Artist"}, "name": "json"}, "data": {"name": "J"}}"#;
    let hcl = "ID {\n  Type = gvk(\"demo.v2.Artist\")\n  Name = \"hcl\"\n}\nData {\n  Name = \"H\"\n}\n";
    t.file("set/a.json", json);
    t.file("set/b.hcl", hcl);
    t.file("set/c.yml", "type: demo.v2.Artist\nname: yaml\ndata: {name: Y}\n");
    t.file("set/deeper/d.yaml", "type: demo.v1.Executive\nname: deep\ndata: {position: CEO}\n");
    t.file("set/notes.txt", "not a resource");
    t.works(&["apply", "-f", "set"]).await;
    t.works(&["apply", "-f", "set", "-R"]).await;
    t.works(&["apply", "-f", "set/a.json", "-f", "set/b.hcl"]).await;
    let lines = format!("{json}\n{}\n", json.replace("\"json\"", "\"other\""));
    assert_eq!(t.run_with(&["apply", "-f", "-"], &lines, &[]).await.code, Some(0));
    assert_eq!(t.run_with(&["apply", "-f", "-"], hcl, &[]).await.code, Some(0));
    // `apply` accepts the output of `get`.
    let list = t.works(&["get", "artists", "-o", "json"]).await;
    assert_eq!(t.run_with(&["apply", "-f", "-"], &list, &[]).await.code, Some(0));
    let list = t.works(&["get", "artists", "-o", "yaml"]).await;
    assert_eq!(t.run_with(&["apply", "-f", "-"], &list, &[]).await.code, Some(0));
    // Units from a flag apply to resources that name none.
    server.write(crate::support::resource(id("tenancy.v2beta1.Partition", "east"), None)).await.unwrap();
    t.works(&["apply", "-f", "set/deeper", "-f", "set/c.yml", "--partition", "east"]).await;
    t.works(&["get", "artists", "-A"]).await;
    t.finish();
}

#[tokio::test]
async fn pruning_deletes_selected_resources_and_asks() {
    let server = Server::start().await;
    let mut t = Transcript::new("prune", &server);
    let document = |name: &str| {
        format!("type: demo.v2.Artist\nname: {name}\nmeta: {{labels: {{app: shop}}}}\ndata: {{name: X}}\n---\n")
    };
    t.file("set.yaml", ["a", "b", "c"].map(document).concat());
    t.works(&["apply", "-f", "set.yaml"]).await;
    server.write(artist("unlabelled")).await.unwrap();
    server.write(labelled(artist("other"), &[("app", "other")])).await.unwrap();
    server.write(labelled(noted(album("album", None), &[("app", "other")]), &[("app", "shop")])).await.unwrap();
    t.file("set.yaml", document("a"));
    t.works(&["apply", "-f", "set.yaml", "--prune", "-l", "app=shop", "--dry-run"]).await;
    t.fails(1, &["apply", "-f", "set.yaml", "--prune", "-l", "app=shop"]).await;
    t.fails(2, &["apply", "-f", "set.yaml", "--prune"]).await;
    t.works(&["get", "artists", "-o", "name"]).await;
    t.works(&["apply", "-f", "set.yaml", "--prune", "-l", "app=shop", "--yes"]).await;
    t.works(&["apply", "-f", "set.yaml", "--prune", "-l", "app=shop", "--prune-types", "album", "--yes"]).await;
    t.works(&["apply", "-f", "set.yaml", "--prune", "-l", "app=nothing", "--yes"]).await;
    t.works(&["get", "artists,albums", "-o", "name"]).await;
    // Owned resources are deleted first, and once each, though their type is named twice: in the files and by name.
    let owner = labelled(artist("owner"), &[("app", "shop")]);
    let owner = server.write(owner).await.unwrap();
    let owned = noted(album("owned", owner.id.as_ref()), &[("finalizers", "held")]);
    server.write(labelled(owned, &[("app", "shop")])).await.unwrap();
    let args = ["apply", "-f", "set.yaml", "--prune", "-l", "app=shop", "--prune-types", "album,artist", "--yes"];
    t.works(&args).await;
    t.finish();
}

/// Another version of a type is the same resource: it is replaced without a conflict.
#[tokio::test]
async fn another_version_of_a_type_can_be_applied() {
    let server = Server::start().await;
    let mut t = Transcript::new("versions", &server);
    t.file("one.yaml", "type: demo.v1.Artist\nname: korn\ndata: {name: Korn, genre: GENRE_METAL}\n");
    t.file("two.yaml", "type: demo.v2.Artist\nname: korn\ndata: {name: Korn, genre: GENRE_METAL}\n");
    t.works(&["apply", "-f", "one.yaml"]).await;
    t.fails(4, &["diff", "-f", "two.yaml"]).await;
    t.works(&["apply", "-f", "two.yaml", "--dry-run"]).await;
    t.works(&["apply", "-f", "two.yaml"]).await;
    t.works(&["apply", "-f", "two.yaml"]).await;
    t.works(&["get", "demo.v2.Artist", "korn", "-o", "name"]).await;
    t.finish();
}

/// A plugin with the type `bag.v1.Bag`, without hooks: text = 1, numbers = 2 (repeated int32), notes = 3 (map of
/// strings).
pub fn bags() -> Vec<u8> {
    let field = |name: &str, number, label: Label, ty: Type| FieldDescriptorProto {
        name: Some(name.into()),
        number: Some(number),
        label: Some(label.into()),
        r#type: Some(ty.into()),
        ..FieldDescriptorProto::default()
    };
    let one = |name, number| field(name, number, Label::Optional, Type::String);
    let notes = FieldDescriptorProto {
        type_name: Some(".bag.v1.Bag.NotesEntry".into()),
        ..field("notes", 3, Label::Repeated, Type::Message)
    };
    let entry = DescriptorProto {
        name: Some("NotesEntry".into()),
        field: vec![one("key", 1), one("value", 2)],
        options: Some(MessageOptions { map_entry: Some(true), ..MessageOptions::default() }),
        ..DescriptorProto::default()
    };
    let bag = DescriptorProto {
        name: Some("Bag".into()),
        field: vec![one("text", 1), field("numbers", 2, Label::Repeated, Type::Int32), notes],
        nested_type: vec![entry],
        ..DescriptorProto::default()
    };
    let file = FileDescriptorProto {
        name: Some("bag/v1/bag.proto".into()),
        package: Some("bag.v1".into()),
        syntax: Some("proto3".into()),
        message_type: vec![bag],
        ..FileDescriptorProto::default()
    };
    let mut manifest = mortise_test_guests::good_manifest();
    manifest.name = "bag".into();
    manifest.descriptors = Some(FileDescriptorSet { file: vec![file] }.into());
    let ty = &mut manifest.types[0];
    (ty.group, ty.kind, ty.message) = ("bag".into(), "Bag".into(), "bag.v1.Bag".into());
    mortise_test_guests::manifest_only(&manifest.encode_to_vec())
}

/// Clients in other languages write map entries in any order, and default values that could be left out.
#[tokio::test]
async fn equal_data_in_other_bytes_is_not_written() {
    let server = Setup::new().component("bag", bags()).start().await;
    let mut t = Transcript::new("other_bytes", &server);
    // Notes in the order b, a, with a's empty value written out; numbers unpacked; the first field last, and empty.
    let value = b"\x1a\x06\x0a\x01b\x12\x012\x1a\x05\x0a\x01a\x12\x00\x10\x01\x10\x02\x0a\x00".to_vec();
    let data = prost_types::Any { type_url: "type.googleapis.com/bag.v1.Bag".into(), value: value.clone() };
    let stored = server.write(resource(id("bag.v1.Bag", "b"), Some(data))).await.unwrap();
    assert_eq!(stored.data.as_ref().unwrap().value, value, "a server keeps the bytes");
    let printed = t.works(&["get", "bag.v1.Bag", "b", "-o", "yaml"]).await;
    let written = "type: bag.v1.Bag\nname: b\ndata: {numbers: [1, 2], notes: {a: \"\", b: \"2\"}}\n";
    for text in [printed.as_str(), written] {
        for (args, out) in [
            (&["diff", "-f", "-"][..], ""),
            (&["apply", "-f", "-", "--dry-run"][..], "bag.v1.Bag/b unchanged (dry run)\n"),
            (&["apply", "-f", "-"][..], "bag.v1.Bag/b unchanged\n"),
        ] {
            let ran = t.run_with(args, text, &[]).await;
            assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), out, ""), "{args:?}: {text}");
        }
    }
    assert_eq!(server.read(&id("bag.v1.Bag", "b")).await.unwrap(), stored, "its generation rests");
    // A difference beside the data, or other data, causes a write.
    for text in [written.replace("name: b", "name: b\nmetadata: {app: shop}"), written.replace("b: \"2\"", "b: \"\"")] {
        let ran = t.run_with(&["apply", "-f", "-"], &text, &[]).await;
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), "bag.v1.Bag/b updated\n"), "{text}: {}", ran.err);
    }
}

#[tokio::test]
async fn finalizers_and_waiting() {
    let server = Setup::new().start().await;
    let mut t = Transcript::new("waiting", &server);
    server.write(noted(artist("held"), &[("finalizers", "a b")])).await.unwrap();
    t.works(&["delete", "artist", "held"]).await;
    t.works(&["describe", "artist", "held"]).await;
    t.fails(5, &["delete", "artist", "held", "--wait", "--timeout", "3s"]).await;
    t.file("artist.yaml", "type: demo.v2.Artist\nname: korn\ndata: {name: Korn}\n");
    t.fails(5, &["apply", "-f", "artist.yaml", "--wait", "condition=Accepted", "--timeout", "3s"]).await;
    let mut stored = server.read(&id("demo.v2.Artist", "korn")).await.unwrap();
    let waiting = t.command(&["apply", "-f", "artist.yaml", "--wait", "condition=Accepted"]).output();
    let says = async {
        let mut client = mortise_api::ServerServiceClient::new(server.channel().await);
        let mut status = async || client.status(ServerStatusRequest {}).await.unwrap().into_inner();
        eventually("it is watched", async || status().await.watches == 1).await;
        let condition = mortise_resource::pb::Condition { r#type: "Accepted".into(), state: 1, ..Default::default() };
        let status = mortise_resource::pb::Status {
            observed_generation: stored.generation.clone(),
            conditions: vec![condition],
            updated_at: None,
        };
        let request = mortise_resource::pb::WriteStatusRequest {
            id: stored.id.take(),
            version: String::new(),
            key: "test".into(),
            status: Some(status),
        };
        server.write_status(request).await.unwrap();
    };
    let (output, ()) = tokio::join!(waiting, says);
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "demo.v2.Artist/korn unchanged\ncondition met: Accepted=True\n"
    );
    t.works(&["status", "artist/korn"]).await;
    t.works(&["delete", "artist", "korn", "--wait"]).await;
    t.finish();
}

#[tokio::test]
async fn a_watch_shows_changes_until_ctrl_c() {
    let server = Server::start().await;
    let t = Transcript::new("watch", &server);
    server.write(artist("first")).await.unwrap();
    for (format, expected) in [
        (
            "name",
            ["demo.v2.Artist/first present\n", "demo.v2.Artist/second written\n", "demo.v2.Artist/second deleted\n"],
        ),
        ("table", ["present   first", "written   second", "deleted   second"]),
        ("json", ["{\"event\":\"present\",\"resource\":{\"id\"", "{\"event\":\"written\"", "{\"event\":\"deleted\""]),
        ("yaml", ["---\n# present\nid:", "---\n# written\nid:", "---\n# deleted\nid:"]),
    ] {
        let mut child = t.command(&["get", "artists", "--watch", "-o", format]).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut seen = String::new();
        let mut until = async |text: &str| {
            let mut buffer = [0; 4096];
            while !seen.contains(text) {
                let read = timeout(PATIENCE, out.read(&mut buffer)).await.expect("in time").unwrap();
                assert!(read > 0, "ended: {seen}");
                seen.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
            }
        };
        until(expected[0]).await;
        server.write(artist("second")).await.unwrap();
        until(expected[1]).await;
        server.delete(&id("demo.v2.Artist", "second"), "").await.unwrap();
        until(expected[2]).await;
        // Ctrl-C.
        let pid = child.id().unwrap().to_string();
        assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let ended = timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap();
        assert_eq!(ended.status.code(), Some(130));
        assert_eq!(String::from_utf8(ended.stderr).unwrap(), "");
    }
}

#[tokio::test]
async fn a_closed_pipe_is_no_panic() {
    let server = Server::start().await;
    let t = Transcript::new("pipe", &server);
    let many: String = (0..50).map(|n| format!("type: demo.v2.Artist\nname: a{n}\ndata: {{name: X}}\n---\n")).collect();
    t.file("many.yaml", many);
    assert!(t.command(&["apply", "-q", "-f", "many.yaml"]).output().await.unwrap().status.success());
    for args in [&["get", "artists"][..], &["get", "artists", "-o", "name"], &["get", "artists", "-o", "yaml"]] {
        let mut child = t.command(args).stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap();
        assert_eq!(ended.status.code(), Some(141), "{args:?}");
        assert_eq!(String::from_utf8(ended.stderr).unwrap(), "", "{args:?}");
    }
}

#[tokio::test]
async fn a_watch_that_ends_with_the_server_ends_as_if_the_server_were_away() {
    let server = Server::start().await;
    let t = Transcript::new("stopped", &server);
    server.write(artist("first")).await.unwrap();
    let mut child = t.command(&["get", "artists", "--watch", "-o", "name"]).spawn().unwrap();
    let mut out = tokio::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    timeout(PATIENCE, tokio::io::AsyncBufReadExt::read_line(&mut out, &mut line)).await.expect("in time").unwrap();
    assert!(line.contains("first"), "{line}");
    assert!(server.stop().await.success());
    let ended = timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap();
    let text = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(3), "{text}");
    assert!(text.contains("the server is stopping\n  hint: try again when it is back"), "{text}");
}

#[tokio::test]
async fn failures_of_controllers_are_events() {
    let server = Setup::new().guest("reconcile-fail").start().await;
    let t = Transcript::new("events", &server);
    let number = mortise_test_guests::Thing { number: 1, ..Default::default() };
    server.write(thing("reconcile_fail", "poor", &number)).await.unwrap();
    report_until(&server, "reconcile-fail/fails", |seen| seen.errors >= 3).await;
    let output = t.command(&["describe", "reconcile_fail.v1.Thing", "poor"]).output().await.unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let (_, events) = out.split_once("\nEvents:\n").unwrap_or_else(|| panic!("{out}"));
    assert!(events.starts_with("  CONTROLLER             COUNT   FIRST"), "{events}");
    assert!(events.lines().nth(1).unwrap().starts_with("  reconcile-fail/fails   "), "{events}");
}

#[tokio::test]
async fn a_deletion_by_another_uid_tells_that_nothing_was_deleted() {
    let server = Server::start().await;
    let korn = server.write(artist("korn")).await.unwrap();
    let t = Transcript::new("delete_uid", &server);
    let other = "id:\n  type: demo.v2.Artist\n  name: korn\n  uid: 01ARZ3NDEKTSV4RRFFQ69G5FAV\ndata:\n  name: Korn\n";
    t.file("korn.yaml", other);
    let ran = t.command(&["delete", "-f", "korn.yaml"]).output().await.unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(
        said.contains("nothing deleted: no resource of this name has the uid 01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        "{said}"
    );
    assert_eq!(server.read(korn.id.as_ref().unwrap()).await.unwrap(), korn);
}
