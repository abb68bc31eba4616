//! Deletions of many resources, and resources that are being deleted.

use std::fs;

use crate::support::{Server, Setup, artist, id_in, mortise, noted, resource};

async fn run(server: &Server, args: &[&str]) -> (Option<i32>, String, String) {
    let addr = server.grpc.to_string();
    mortise(&[args, &["--grpc-addr", &addr]].concat(), &[]).await
}

#[tokio::test]
async fn a_deletion_of_many_ends_with_a_sum() {
    const ALL: usize = 25;
    let server = Setup::new().start().await;
    for n in 1..ALL {
        server.write(artist(&format!("a-{n}"))).await.unwrap();
    }
    server.write(noted(artist("held"), &[("finalizers", "one")])).await.unwrap();
    let (code, out, _) = run(&server, &["delete", "artist", "--all", "--yes", "--dry-run"]).await;
    assert!(code == Some(0) && out.ends_with(&format!("{ALL} deleted (dry run)\n")), "{out}");
    let (code, out, _) = run(&server, &["delete", "artist", "--all", "--yes"]).await;
    assert!(code == Some(0) && out.ends_with(&format!("{} deleted, 1 waiting for finalizers\n", ALL - 1)), "{out}");
    let (_, out, _) = run(&server, &["delete", "artist", "--all", "--yes"]).await;
    assert_eq!(out.lines().count(), 1, "few need no sum: {out}");
}

#[tokio::test]
async fn prune_reaches_the_last_resource_of_a_namespace_that_is_named() {
    let server = Setup::new().start().await;
    server.write(resource(id_in("tenancy.v2beta1.Namespace", "blue", "default", ""), None)).await.unwrap();
    let path = server.data_dir.join("set.yaml");
    let document = |name: &str, namespace: &str| {
        format!(
            "type: demo.v2.Artist\nname: {name}\nnamespace: {namespace}\nmetadata: {{app: shop}}\n\
             data: {{name: Some, genre: GENRE_JAZZ}}\n---\n"
        )
    };
    let (stays, goes) = (document("stays", "default"), document("goes", "blue"));
    let path = path.to_str().unwrap();
    let labels = |text: &str| text.replace("metadata: {app: shop}", "meta: {labels: {app: shop}}");
    fs::write(path, labels(&format!("{stays}{goes}"))).unwrap();
    let (code, out, err) = run(&server, &["apply", "-f", path]).await;
    assert!(code == Some(0) && out.contains("goes in default/blue created"), "{out}{err}");
    fs::write(path, labels(&stays)).unwrap();
    let prune = ["apply", "-f", path, "--prune", "-l", "app=shop", "--yes"];
    let (_, out, _) = run(&server, &prune).await;
    assert!(!out.contains("pruned"), "its namespace is nowhere: {out}");
    let (code, out, err) = run(&server, &[&prune[..], &["--prune-namespaces", "blue"]].concat()).await;
    assert!(code == Some(0) && out.contains("demo.v2.Artist/goes in default/blue pruned"), "{out}{err}");
}

#[tokio::test]
async fn apply_says_that_a_resource_is_being_deleted_and_by_what_it_is_held() {
    let server = Setup::new().start().await;
    let namespace = id_in("tenancy.v2beta1.Namespace", "blue", "default", "");
    server.write(resource(namespace, None)).await.unwrap();
    let file = |name: &str, text: &str| {
        let path = server.data_dir.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let document = "type: demo.v2.Artist\nname: held\nnamespace: blue\nmetadata: {finalizers: one}\n";
    let same = file("same.yaml", &format!("{document}data: {{name: The held, genre: GENRE_JAZZ}}\n"));
    let other = file("other.yaml", &format!("{document}data: {{name: Another, genre: GENRE_JAZZ}}\n"));
    let unit = file("namespace.yaml", "type: tenancy.v2beta1.Namespace\nname: blue\ndata: {description: new}\n");
    for done in ["created", "unchanged"] {
        let (_, out, err) = run(&server, &["apply", "-f", &same]).await;
        assert!(out.contains(done) && !err.contains("being deleted"), "{out}{err}");
    }

    let (code, _, err) = run(&server, &["delete", "namespace", "blue"]).await;
    assert_eq!(code, Some(0), "{err}");
    let (code, _, err) = run(&server, &["apply", "-f", &unit]).await;
    let says = "tenancy.v2beta1.Namespace/blue is being deleted, and waits for demo.v2.Artist/held in default/blue";
    assert!(code == Some(1) && err.contains(says), "{err}");

    let (code, _, err) = run(&server, &["delete", "artist", "held", "-n", "blue"]).await;
    assert_eq!(code, Some(0), "{err}");
    let says = "demo.v2.Artist/held in default/blue is being deleted, and waits for the finalizers one";
    let (code, out, err) = run(&server, &["apply", "-f", &same]).await;
    assert!(code == Some(0) && out.contains("unchanged") && err.contains(says), "{out}{err}");
    let (code, _, err) = run(&server, &["apply", "-f", &same, "--dry-run"]).await;
    assert!(code == Some(0) && err.contains(says), "{err}");
    let (code, _, err) = run(&server, &["apply", "-f", &other]).await;
    assert!(code == Some(1) && err.contains(says), "{err}");
}
