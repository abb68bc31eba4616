//! Unix sockets whose names are removed or taken while servers use them.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::{UnixListener, UnixStream},
    process::Command,
    time::timeout,
};

use crate::support::{PATIENCE, Server, Setup, artist, eventually, mortise};

/// The names of artists, by way of a socket.
async fn artists(socket: &Path) -> String {
    let address = format!("unix://{}", socket.display());
    let (code, out, errors) = mortise(&["get", "artists", "-o", "name", "--grpc-addr", &address], &[]).await;
    assert_eq!(code, Some(0), "{errors}");
    out
}

async fn logged(server: &Server, text: &str, count: usize) {
    eventually(text, async || server.log().matches(text).count() >= count).await;
}

#[tokio::test]
async fn a_removed_socket_is_made_again_and_open_connections_serve_on() {
    let server = Server::start().await;
    server.write(artist("first")).await.unwrap();
    let names = ["mortise.sock", "provider.sock"];
    let [socket, provider] = names.map(|name| server.data_dir.join(name));
    let mut follower = Command::new(env!("CARGO_BIN_EXE_mortise"))
        .args(["get", "artists", "--watch", "-o", "name", "--grpc-addr", &format!("unix://{}", socket.display())])
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut next = async || timeout(PATIENCE, lines.next_line()).await.expect("a line").unwrap().expect("it goes on");
    assert!(next().await.contains("first"));
    for round in 1..=2 {
        for path in [&socket, &provider] {
            fs::remove_file(path).unwrap();
        }
        logged(&server, "was removed, and is made again", 2 * round).await;
        for name in names {
            let made = fs::metadata(server.data_dir.join(name)).unwrap();
            assert_eq!(made.permissions().mode() & 0o777, 0o600, "{name}");
        }
        assert!(artists(&socket).await.contains("first"));
        UnixStream::connect(&provider).await.unwrap();
        server.write(artist(&format!("second-{round}"))).await.unwrap();
        assert!(next().await.contains(&format!("second-{round}")));
    }
    let data = server.data_dir.clone();
    let dir = tempfile::tempdir().unwrap();
    // Another directory at the place of the former one, as after a restore by hand.
    fs::rename(&data, dir.path().join("data")).unwrap();
    logged(&server, "cannot be made again", 2).await;
    fs::create_dir(&data).unwrap();
    logged(&server, "was removed, and is made again", 6).await;
    assert_eq!(server.log().matches("cannot be made again").count(), 2, "once for each: {}", server.log());
    assert_eq!(server.stop().await.code(), Some(1), "its store is away");
    assert!(!socket.exists() && !provider.exists());
}

/// Two servers may have one name by mistake: neither takes it from the other.
#[tokio::test]
async fn a_socket_of_another_process_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shared.sock");
    let setup = || Setup::new().env("MORTISE_SOCKET", path.display()).env("MORTISE_PROVIDER_SOCKET", "");
    let first = setup().start().await;
    first.write(artist("of-first")).await.unwrap();
    let second = setup().start().await;
    logged(&second, "another process serves the socket at this path", 1).await;
    assert!(second.stop().await.success());
    assert!(artists(&path).await.contains("of-first"));

    let other = UnixListener::bind(dir.path().join("other.sock")).unwrap();
    fs::rename(dir.path().join("other.sock"), &path).unwrap();
    logged(&first, "another file has its name; remove that file", 1).await;
    assert!(first.stop().await.success());
    UnixStream::connect(&path).await.unwrap();
    other.accept().await.unwrap();
    // The name of a process that is gone is taken over.
    drop(other);
    let third = setup().start().await;
    third.write(artist("of-third")).await.unwrap();
    assert!(artists(&path).await.contains("of-third"));
}
