//! Error texts of the command line that no other transcript shows. What is missing here needs a machine that is broken
//! (no threads, an unreadable directory, a terminal that goes away) or a server that answers nonsense.

use std::time::Duration;

use tokio::{net::TcpListener, time::sleep};

use crate::{
    common::{Server, Setup, artist, eventually, id},
    golden::Transcript,
};

#[tokio::test]
async fn what_is_wrong_is_said_with_its_name_and_a_remedy() {
    // Two plugins with a kind of the same name.
    let server = Setup::new().guest("prior").guest("version-stamp-1").start().await;
    let mut t = Transcript::new("errors", &server);
    server.write(artist("korn")).await.unwrap();
    t.file("file", "");

    t.fails(2, &["types", "--timeout", "5x"]).await;
    t.fails(2, &["types", "--timeout", "0s"]).await;
    t.fails(2, &["get", "artists", "-l", "!="]).await;
    t.fails(2, &["get", "artists,albums", "--watch"]).await;
    t.fails(2, &["get", "things"]).await;
    t.fails(2, &["explain", "artist.name.first"]).await;
    t.fails(2, &["man", "teleport"]).await;
    t.fails(2, &["man", "context", "teleport"]).await;
    t.fails(2, &["man", "--dir", "file/below"]).await;
    t.fails(2, &["plugin", "install", ".."]).await;

    let at = |place: &'static str| [("MORTISE_CONTEXTS", place)];
    assert_eq!(t.run_with(&["context", "list"], "", &at(".")).await.code, Some(2));
    assert_eq!(t.run_with(&["context", "set", "a"], "", &at("/proc/contexts/file")).await.code, Some(2));
    assert_eq!(t.run_with(&["context", "set", "a"], "", &[("HOME", "")]).await.code, Some(2));
    t.finish();
}

#[tokio::test]
async fn a_server_that_is_none_and_a_resource_that_goes_are_said() {
    let server = Server::start().await;
    let mut t = Transcript::new("errors_meanwhile", &server);
    t.file("korn.yaml", "type: demo.v2.Artist\nname: korn\ndata: {name: Korn}\n");
    let listening = format!("https://{}", server.grpc);
    t.fails(3, &["types", "--grpc-addr", &listening]).await;
    // It takes connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    t.call(&address, "<silent>");
    t.fails(5, &["types", "--timeout", "300ms", "--grpc-addr", &address]).await;

    let going = async {
        let korn = id("demo.v2.Artist", "korn");
        eventually("it is there", async || server.read(&korn).await.is_ok()).await;
        sleep(Duration::from_secs(1)).await;
        server.delete(&korn, "").await.unwrap();
    };
    let waiting = ["apply", "-f", "korn.yaml", "--wait", "condition=Ready", "--timeout", "30s"];
    let (ran, ()) = tokio::join!(t.run(&waiting), going);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    t.finish();
}

/// The editor shows on standard output what it is shown as comments, after it has written what is wrong.
#[tokio::test]
async fn what_is_wrong_with_an_edited_text_is_shown_in_it() {
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
