//! Flags that kubectl's users type: each works here, or its error names the form to type.

use crate::support::{Server, Setup, artist, tokens::Guarded, transcript::Transcript};

const ARTISTS: &str = "\
type: demo.v2.Artist\nname: korn\nmeta: {labels: {app: shop, tier: web}}\ndata: {name: Korn, genre: GENRE_METAL}\n---\n\
type: demo.v2.Artist\nname: abba\nmeta: {labels: {app: shop}}\ndata: {name: ABBA, genre: GENRE_POP}\n";

const ALBUM: &str = "type: demo.v2.Album\nname: issues\nowner: demo.v2.Artist/korn\ndata: {title: Issues}\n";

#[tokio::test]
async fn flags_of_tables_order_and_selection_work() {
    let server = Server::start().await;
    let mut t = Transcript::new("flags", &server);
    t.file("artists.yaml", ARTISTS);
    t.file("album.yaml", ALBUM);
    t.file("none.yaml", "type: demo.v2.Artist\nname: nobody\ndata: {name: X}\n");
    t.file("names.tmpl", "{{range $i, $a := .items}}{{if $i}}, {{end}}{{$a.id.name}}{{end}}\n");
    t.works(&["apply", "-f", "artists.yaml", "album.yaml"]).await;
    t.works(&["create", "namespace", "blue"]).await;
    for args in [
        &["get", "artists", "--all-namespaces"][..],
        &["get", "artists", "--no-headers"],
        &["get", "artists", "--show-labels"],
        &["get", "artists", "-L", "tier,app"],
        &["get", "artists", "--sort-by=.data.name"],
        &["get", "artists", "--sort-by", "{.metadata.name} desc"],
        &["get", "artists", "--limit", "1", "--no-headers", "-o", "name"],
        &["get", "artists", "--field-selector", "metadata.name=korn"],
        &["get", "artists", "--field-selector", "data.genre!=GENRE_METAL", "--filter", "data.name = \"ABBA\""],
        &["get", "artist", "korn", "nobody", "--ignore-not-found"],
        &["get", "artist", "nobody", "--ignore-not-found"],
        &["get", "-f", "artists.yaml", "album.yaml"],
        &["get", "artists", "-o", "jsonpath={range .items[*]}{.id.name}{\"\\t\"}{.data.genre}{\"\\n\"}{end}"],
        &["get", "artist", "korn", "-o", "jsonpath={.data.name}{\"\\n\"}"],
        &["get", "artists", "-o", "custom-columns=NAME:.id.name,TIER:.meta.labels.tier"],
        &["get", "artists", "-o", "custom-columns=NAME:.metadata.name,NS:.metadata.namespace"],
        &["get", "ns", "default"],
        &["get", "artists", "-o", "go-template={{range .items}}{{.id.name}} {{.data.none}}{{\"\\n\"}}{{end}}"],
        &["get", "artist", "korn", "-o", "go-template={{.data.name | printf \"%q\"}}{{\"\\n\"}}"],
        &["get", "artists", "-o", "go-template-file=names.tmpl"],
        &["describe", "artist", "korn", "abba"],
        &["describe", "albums"],
        &["describe", "-f", "album.yaml"],
        &["describe", "artists", "-l", "app=none"],
        &["-n", "blue", "get", "artists"],
        &["-n", "blue", "types", "-o", "name"],
        &["apply", "-f", "artists.yaml", "--dry-run=server"],
        &["apply", "-f", "artists.yaml", "--dry-run=client", "-q"],
        &["apply", "-f", "artists.yaml", "--dry-run=none", "-q"],
        &["delete", "album", "issues", "--dry-run=client"],
        &["delete", "album", "issues", "--wait=false"],
        &["delete", "artists", "--all", "--dry-run"],
        &["delete", "artists", "--all", "--yes"],
        &["delete", "artists", "--all", "--yes"],
    ] {
        t.works(args).await;
    }
    t.finish();
}

#[tokio::test]
async fn flags_that_do_not_exist_name_the_form_here() {
    let server = Server::start().await;
    server.write(artist("korn")).await.unwrap();
    let mut t = Transcript::new("flags_refused", &server);
    let (long, deep) = (format!("jsonpath={{{}}}", ".a".repeat(3_000)), "jsonpath={range .a}{.b");
    t.file("none.yaml", "type: demo.v2.Artist\nname: nobody\ndata: {name: X}\n");
    t.file("long.tmpl", "x".repeat(20_000));
    for args in [
        &["get", "artists", "--field-selector", "data.name"][..],
        &["get", "artists", "--field-selector", "data.nme=x"],
        &["get", "artists", "-o", "xml"],
        &["get", "artists", "-o", "go-template={{range .items}}"],
        &["get", "artists", "-o", "go-template={{nothing .}}"],
        &["get", "artists", "-o", "go-template={{end}}"],
        &["get", "artists", "-o", "go-template={{index .items 7}}"],
        &["get", "artists", "-o", "go-template={{range 1100}}{{printf \"%*d\" 65000 1}}{{end}}"],
        &["get", "artists", "-o", "go-template-file=absent.tmpl"],
        &["get", "artists", "-o", "go-template-file=long.tmpl"],
        &["get", "artists", "-o", "go-templates={{.}}"],
        &["get", "artists", "-o", "jsonpath={.a"],
        &["get", "artists", "-o", "jsonpath={end}"],
        &["get", "artists", "-o", deep],
        &["get", "artists", "-o", "jsonpath={.a b}"],
        &["get", "artists", "-o", "custom-columns=NAME"],
        &["get", "-f", "none.yaml"],
        &["describe", "-f", "none.yaml"],
        &["describe", "artist", "nobody", "-l", "a=b"],
        &["delete", "artists", "--all"],
        &["delete", "artist", "korn", "--all"],
        &["delete", "artists", "--all-namespaces"],
        &["delete", "artist", "korn", "--force"],
        &["replace", "-f", "none.yaml", "--force"],
        &["apply", "-f", "none.yaml", "--server-side"],
        &["apply", "-k", "shop"],
        &["apply", "-f", "none.yaml", "--dry-run=perhaps"],
        &["get", "artists", "--kubeconfig", "file"],
        &["describe", "artists", "-A"],
        &["explain", "artist", "--recursive"],
        &["get", "artists", "--watch-only"],
        &["get", "artists", "-w", "--output-watch-events"],
        &["apply", "-f", "none.yaml", "--record"],
        &["version", "--short"],
        &["-s", "127.0.0.1:1", "get", "artists"],
    ] {
        let ran = t.run(args).await;
        assert!(matches!(ran.code, Some(1 | 2)), "{args:?}: {:?} {}{}", ran.code, ran.out, ran.err);
    }
    t.call(&long, "<long>");
    t.fails(2, &["get", "artists", "-o", &long]).await;
    t.finish();
}

#[tokio::test]
async fn places_ports_and_variables_that_are_wrong_are_said() {
    let server = Server::start().await;
    let mut t = Transcript::new("places", &server);
    let (grpc, http) = (server.grpc.to_string(), server.http.to_string());
    t.call(&http, "<http>");
    t.works(&["create", "namespace", "blue"]).await;
    t.works(&["get", "artists", "-n", "blue"]).await;
    t.fails(1, &["get", "artists", "-n", "green"]).await;
    t.fails(1, &["get", "artists", "--partition", "east", "-n", "green"]).await;
    t.works(&["get", "namespaces"]).await;
    t.works(&["get", "namespaces", "-A", "--no-headers"]).await;
    t.works(&["get", "partitions"]).await;
    t.works(&["get", "namespaces", "-o", "name"]).await;
    t.fails(3, &["types", "--grpc-addr", &http]).await;
    let with = [("MORTISE_ADDR", grpc.as_str()), ("MORTISE_GRPC_ADDR", "127.0.0.1:1")];
    assert_eq!(t.run_with(&["get", "partitions"], "", &with).await.code, Some(0));
    let misspelt = [("MORTISE_TOKN_FILE", "token"), ("MORTISE_GRPC_ADR", "127.0.0.1:1"), ("MORTISE_SHOP_KEY", "x")];
    assert_eq!(t.run_with(&["get", "partitions"], "", &misspelt).await.code, Some(0));
    t.finish();
}

#[tokio::test]
async fn can_i_answers_no_with_1_and_everything_else_otherwise() {
    let guarded = Guarded::start(Setup::new()).await;
    let mut t = Transcript::new("can_i", &guarded.server);
    t.file("token", &guarded.management);
    let known = [("MORTISE_TOKEN_FILE", "token")];
    for (args, code) in [
        (&["get", "artists"][..], 0),
        (&["create", "artists"], 0),
        (&["patch", "artist/korn"], 0),
        (&["deletecollection", "artists"], 0),
        (&["list", "artists", "--quiet"], 0),
        (&["get", "artists", "--as", "nobody"], 2),
        (&["shout", "artists"], 2),
        (&["get", "teleports"], 2),
        (&["get", "artist", "korn", "abba"], 2),
    ] {
        let args = [&["auth", "can-i"], args].concat();
        assert_eq!(t.run_with(&args, "", &known).await.code, Some(code), "{args:?}");
    }
    // A caller that may not ask gets no answer.
    t.fails(2, &["auth", "can-i", "get", "artists"]).await;
    t.fails(3, &["auth", "can-i", "list", "artists", "--grpc-addr", "127.0.0.1:1"]).await;
    t.file("rules.hcl", "operator = \"read\"\n");
    let policy = ["policy", "create", "reader", "--rules", "rules.hcl", "--allow", "read,list:demo/Artist"];
    assert_eq!(t.run_with(&policy, "", &known).await.code, Some(0));
    let made = ["token", "create", "reader", "--policy", "reader", "--out", "reader.token"];
    assert_eq!(t.run_with(&made, "", &known).await.code, Some(0));
    let reader = [("MORTISE_TOKEN_FILE", "reader.token")];
    for (args, code) in [
        (&["auth", "can-i", "get", "artists"][..], 0),
        (&["auth", "can-i", "create", "artists"], 1),
        (&["auth", "can-i", "delete", "artist/korn", "-q"], 1),
        (&["create", "artist", "abba", "--data", "{\"name\": \"ABBA\"}"], 1),
    ] {
        assert_eq!(t.run_with(args, "", &reader).await.code, Some(code), "{args:?}");
    }
    t.finish();
}
