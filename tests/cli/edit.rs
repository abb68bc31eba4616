//! `mortise edit`, with shell scripts as editors.

use std::net::SocketAddr;

use tokio::time::timeout;

use crate::support::{PATIENCE, Server, artist, decoded, demo, eventually, id, pause, transcript::Transcript, until};

/// Runs `edit artist korn` with a script for an editor.
async fn edit(t: &mut Transcript, script: &str) -> (Option<i32>, String) {
    let name = "editor.sh";
    t.file(name, format!("#!/bin/sh\nset -e\n{script}\n"));
    let editor = format!("sh {}", t.dir().join(name).display());
    let ran = t.run_with(&["edit", "artist", "korn"], "", &[("EDITOR", &editor)]).await;
    (ran.code, ran.out + &ran.err)
}

#[tokio::test]
async fn edits_are_applied_refused_or_given_up() {
    let server = Server::start().await;
    let mut t = Transcript::new("edit", &server);
    server.write(artist("korn")).await.unwrap();
    let genre =
        async || decoded::<demo::v2::Artist>(&server.read(&id("demo.v2.Artist", "korn")).await.unwrap()).genre();
    assert_eq!(edit(&mut t, "true").await.0, Some(0));
    assert_eq!(edit(&mut t, ": > \"$1\"").await.0, Some(0));
    assert_eq!(edit(&mut t, "exit 3").await.0, Some(1));
    assert_eq!(genre().await, demo::v2::Genre::Jazz);
    assert_eq!(edit(&mut t, "sed -i s/GENRE_JAZZ/GENRE_METAL/ \"$1\"").await.0, Some(0));
    assert_eq!(genre().await, demo::v2::Genre::Metal);
    // The text is refused locally, then by the server, then accepted; each refused text comes back with the reason on
    // top.
    let mended = "\
case $(cat \"$0.count\" 2>/dev/null) in
'') echo 1 > \"$0.count\"; sed -i s/GENRE_METAL/GENRE_POLKA/ \"$1\" ;;
1) echo 2 > \"$0.count\"; grep -q '^#.*GENRE_POLKA' \"$1\"; sed -i -e 's/GENRE_POLKA/GENRE_SKA/' -e '/^data:/,$s/  name: .*/  name: \"\"/' \"$1\" ;;
2) echo 3 > \"$0.count\"; grep -q '^#.*artist.name required' \"$1\"; sed -i 's/name: \"\"/name: Korn/' \"$1\" ;;
esac";
    let (code, said) = edit(&mut t, mended).await;
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(genre().await, demo::v2::Genre::Ska);
    // The text is left unchanged after a refusal: the edit ends, and the text is kept.
    let (code, said) = edit(&mut t, "sed -i s/GENRE_SKA/GENRE_POLKA/ \"$1\"").await;
    assert_eq!(code, Some(1), "{said}");
    let kept = said.split("what you typed is in ").nth(1).unwrap().lines().next().unwrap().trim();
    assert!(std::fs::read_to_string(kept).unwrap().contains("GENRE_POLKA"));
    std::fs::remove_file(kept).unwrap();
    t.call(kept, "<kept>");
    // The name of another resource.
    let (code, said) = edit(&mut t, "sed -i 's/^  name: korn/  name: other/' \"$1\"").await;
    assert_eq!(code, Some(1), "{said}");
    let kept = said.split("what you typed is in ").nth(1).unwrap().lines().next().unwrap().trim();
    std::fs::remove_file(kept).unwrap();
    t.call(kept, "<kept>");
    t.finish();
}

/// The message names no kept copy, since no file is left.
#[tokio::test]
async fn a_file_that_the_editor_removed_is_reported() {
    let server = Server::start().await;
    let mut t = Transcript::new("edit_removed", &server);
    server.write(artist("korn")).await.unwrap();
    // The file is removed at once, and after a refused text.
    let later = "[ ! -e \"$0.once\" ] || exec rm \"$1\"\ntouch \"$0.once\"\nsed -i s/GENRE_JAZZ/GENRE_POLKA/ \"$1\"";
    for script in ["rm \"$1\"", later] {
        let (code, said) = edit(&mut t, script).await;
        assert_eq!(code, Some(1), "{script}: {said}");
        assert!(said.contains(", and what you typed with it; nothing was written"), "{said}");
        assert!(!said.contains("what you typed is in"), "{said}");
    }
}

/// Bytes that have arrived at a port on loopback and were not read by the process.
fn unread_bytes(port: SocketAddr) -> usize {
    let local = format!("0100007F:{:04X}", port.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let unread = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (_sending, receiving) = fields.get(4)?.split_once(':')?;
        usize::from_str_radix(receiving, 16).ok().filter(|_| fields[1] == local)
    };
    table.lines().filter_map(unread).sum()
}

/// The interruption is Ctrl-C during the write.
#[tokio::test]
async fn typed_text_outlives_an_interruption() {
    let server = Server::start().await;
    let t = Transcript::new("edit_interrupted", &server);
    server.write(artist("korn")).await.unwrap();
    // The editor ends when the server no longer answers, so the write has no answer.
    t.file(
        "editor.sh",
        "sed -i s/JAZZ/METAL/ \"$1\"; touch \"$0.begun\"; until [ -e \"$0.end\" ] || [ ! -e \"$0\" ]; do sleep 0.01; done",
    );
    let mut command = t.command(&["edit", "artist", "korn"]);
    let mut child = command.env("EDITOR", format!("sh {}", t.dir().join("editor.sh").display())).spawn().unwrap();
    eventually("the editor has begun", async || t.dir().join("editor.sh.begun").exists()).await;
    pause(&server).await;
    t.file("editor.sh.end", "");
    // The text has reached the server's system, which the server does not read.
    until("the text is sent", async || {
        let (unread, ended) = (unread_bytes(server.grpc), child.try_wait().unwrap());
        if unread > 100 { Ok(()) } else { Err((unread, ended)) }
    })
    .await;
    let pid = child.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let ended = timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap();
    server.signal("CONT");
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(130), "{said}");
    let kept = said.trim().strip_prefix("mortise: what you typed is in ").unwrap();
    assert!(std::fs::read_to_string(kept).unwrap().contains("GENRE_METAL"));
    std::fs::remove_file(kept).unwrap();
}

#[tokio::test]
async fn two_people_at_once() {
    let server = Server::start().await;
    let mut t = Transcript::new("edit_conflict", &server);
    server.write(artist("korn")).await.unwrap();
    let program = env!("CARGO_BIN_EXE_mortise");
    let read = async || decoded::<demo::v2::Artist>(&server.read(&id("demo.v2.Artist", "korn")).await.unwrap());
    // Changes of other lines: both are kept.
    let theirs = |from: &str, to: &str| {
        format!(
            "[ -e \"$0.once\" ] || {{ touch \"$0.once\"; {program} get artist korn -o yaml | sed -e '/^version/d' -e '/^generation/d' -e 's/{from}/{to}/' | {program} apply -q -f - > /dev/null; }}"
        )
    };
    let both =
        format!("{}\nsed -i 's/GENRE_JAZZ/GENRE_METAL/' \"$1\"", theirs("^data:", "metadata: {by: them}\\ndata:"));
    let (code, said) = edit(&mut t, &both).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("that change and yours are put together"), "{said}");
    assert_eq!(read().await.genre(), demo::v2::Genre::Metal);
    let stored = server.read(&id("demo.v2.Artist", "korn")).await.unwrap();
    assert_eq!(stored.metadata.get("by").map(String::as_str), Some("them"));
    // Changes of the same line: the editor comes back with both, until the user chooses.
    std::fs::remove_file(t.dir().join("editor.sh.once")).unwrap();
    let conflict = format!(
        "{}\nif grep -q '^<<<<<<<' \"$1\"; then sed -i -e '/^<<<<<<</d' -e '/^|||||||/,/^>>>>>>>/d' \"$1\"; else sed -i 's/GENRE_METAL/GENRE_SKA/' \"$1\"; fi",
        theirs("GENRE_METAL", "GENRE_FOLK")
    );
    let (code, said) = edit(&mut t, &conflict).await;
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(read().await.genre(), demo::v2::Genre::Ska);
}
