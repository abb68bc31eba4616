//! Messages to systemd, over a socket in its place.

use std::{
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixDatagram},
    },
    time::Duration,
};

use crate::support::{PATIENCE, Setup};

/// Messages up to one that contains `what`.
fn messages_until(socket: &UnixDatagram, what: &str) -> Vec<String> {
    let mut heard = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let len = socket.recv(&mut buffer).unwrap_or_else(|e| panic!("{what}: {e}, heard {heard:?}"));
        heard.push(String::from_utf8(buffer[..len].to_vec()).unwrap());
        if heard.last().unwrap().contains(what) {
            return heard;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn systemd_hears_of_start_life_and_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let server = Setup::new().env("NOTIFY_SOCKET", path.display()).env("WATCHDOG_USEC", 200_000).start().await;
    let heard = messages_until(&socket, "READY=1");
    assert!(heard.last().unwrap().contains(&format!("grpc={}", server.grpc)), "{heard:?}");
    assert!(heard.iter().any(|text| text.contains("STATUS=opening the store")), "{heard:?}");
    for _ in 0..5 {
        messages_until(&socket, "WATCHDOG=1");
    }
    assert!(server.stop().await.success());
    messages_until(&socket, "STOPPING=1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_in_the_abstract_namespace_is_reached() {
    let name = format!("mortise-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let socket = UnixDatagram::bind_addr(&address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let setup = Setup::new().env("NOTIFY_SOCKET", format!("@{name}")).env("WATCHDOG_USEC", 200_000);
    let server = setup.start().await;
    messages_until(&socket, "READY=1");
    messages_until(&socket, "WATCHDOG=1");
    assert!(server.stop().await.success());
    messages_until(&socket, "STOPPING=1");
}

#[tokio::test]
async fn without_a_watchdog_there_are_no_pings_and_a_dead_socket_is_no_matter() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let server = Setup::new().env("NOTIFY_SOCKET", path.display()).start().await;
    messages_until(&socket, "READY=1");
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(socket.recv(&mut [0; 100]).is_err());
    drop(socket);
    assert!(server.stop().await.success());
    let server = Setup::new().env("NOTIFY_SOCKET", dir.path().join("nowhere").display()).start().await;
    assert!(server.log().contains("cannot notify systemd"), "{}", server.log());
}

/// The unit matches the server, and systemd, if it is installed, accepts it.
#[test]
fn the_unit_is_sound() {
    let text = include_str!("../../packaging/mortise.service");
    let exec = "ExecStart=/usr/bin/mortise serve --config /etc/mortise/config.toml";
    for line in ["Type=notify-reload", "Restart=always", "WatchdogSec=30", exec] {
        assert!(text.lines().any(|found| found == line), "{line}");
    }
    let dir = tempfile::tempdir().unwrap();
    let unit = dir.path().join("mortise.service");
    std::fs::write(&unit, text.replace("/usr/bin/mortise", "/bin/true")).unwrap();
    match std::process::Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output() {
        Ok(output) => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            // From systemd before 253.
            let is_known = |line: &&str| !line.contains("Failed to parse service type, ignoring: notify-reload");
            let faults: Vec<_> =
                stderr.lines().filter(is_known).filter(|line| line.contains("mortise.service:")).collect();
            assert!(output.status.success() && faults.is_empty(), "{stderr}");
        }
        Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::NotFound, "{e}"),
    }
}
