//! Files of keys and certificates: reloads, faults at the start, expiry.

use std::{net::SocketAddr, path::Path};

use tokio::{io::AsyncReadExt as _, time::timeout};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tonic::transport::Identity;

use super::{Authority, Files, Pair, Rustls, is_served, metrics};
use crate::support::{PATIENCE, artist, eventually, gvk, mortise};

/// The certificate that the server shows to new clients of a port.
async fn shown(files: &Files, addr: SocketAddr) -> CertificateDer<'static> {
    let stream = Rustls::trusting(files).connect(addr).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

#[tokio::test]
async fn new_files_are_taken_and_no_connection_is_dropped() {
    let files = Files::new();
    let server = files.setup().start().await;
    let mut watch = server.watch(gvk("demo.v2.Artist"), None, "").await.unwrap();
    assert_eq!(watch.snapshot().await, []);
    assert_eq!(shown(&files, server.grpc).await, files.server.der());
    let renewed = files.ca.server();
    files.put_pair(&renewed);
    for addr in [server.grpc, server.http] {
        eventually("new connections see the new one", async || shown(&files, addr).await == renewed.der()).await;
    }
    server.write(artist("korn")).await.unwrap();
    assert_eq!(watch.upsert().await.id.unwrap().name, "korn");

    // certbot and Kubernetes do it so: a link is switched.
    let linked = files.ca.server();
    for version in ["1", "2"] {
        std::fs::create_dir(files.path(version)).unwrap();
        let pair = if version == "1" { &renewed } else { &linked };
        std::fs::write(files.path(version).join("server.pem"), &pair.cert).unwrap();
        std::fs::write(files.path(version).join("server.key"), &pair.key).unwrap();
    }
    let link = |from: &str, to: &str| {
        let temporary = files.path("link");
        std::os::unix::fs::symlink(to, &temporary).unwrap();
        std::fs::rename(temporary, files.path(from)).unwrap();
    };
    link("now", "1");
    link("server.pem", "now/server.pem");
    link("server.key", "now/server.key");
    link("now", "2");
    eventually("the new target is seen", async || shown(&files, server.http).await == linked.der()).await;
    server.write(artist("coltrane")).await.unwrap();
    assert_eq!(watch.upsert().await.id.unwrap().name, "coltrane");
    assert!(!metrics(&server, &files).await.contains("outcome=\"refused\""), "{}", server.log());
}

#[tokio::test]
async fn new_files_that_are_broken_leave_the_old_in_service() {
    let files = Files::new();
    let robot = files.ca.client("robot");
    let identity = Identity::from_pem(&robot.cert, &robot.key);
    let server = files.mutual("required").tls(files.trust().identity(identity.clone())).start().await;
    let refused = async |times: usize, says: &str| {
        let said = || {
            let log = server.log();
            let lines = log.lines().filter(|line| line.contains("ERROR") && line.contains("are refused"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        eventually("the error is logged", async || said().len() >= times).await;
        assert_eq!(said().len(), times, "once for each: {said:?}", said = said());
        assert!(said().last().unwrap().contains(says), "{says}: {}", said().last().unwrap());
        assert!(is_served(&server, files.trust().identity(identity.clone())).await, "{says}");
        let client = Rustls { own: Some(&robot), ..Rustls::trusting(&files) };
        let metrics = client.get(server.http, "/metrics", "localhost").await.unwrap().1;
        let line = format!("\nmortise_tls_reloads_total{{outcome=\"refused\"}} {times}\n");
        assert!(metrics.contains(&line), "{metrics}");
    };
    files.put("server.pem", "nonsense");
    refused(1, "tls.cert_file: ").await;
    // The certificate does not fit the former key.
    files.put("server.pem", &files.ca.server().cert);
    refused(2, "does not belong to the first certificate in").await;
    std::fs::remove_file(files.path("server.pem")).unwrap();
    refused(3, "cannot read").await;
    files.put("server.pem", &files.server.cert);
    eventually("the valid files are in service", async || server.log().contains("the changed files are in service"))
        .await;
    files.put("ca.pem", "");
    refused(4, "tls.client_ca_file: ").await;
    // Another authority for clients: clients of the former one are refused.
    let other = Authority::new("another");
    files.put("ca.pem", &other.pem);
    let new = other.client("robot");
    let new = files.trust().identity(Identity::from_pem(new.cert, new.key));
    eventually("the other authority is believed", async || is_served(&server, new.clone()).await).await;
    assert!(!is_served(&server, files.trust().identity(identity)).await);
    server.write(artist("korn")).await.unwrap();
}

/// SIGHUP does not wait for the next look at the files, which does not come here.
#[tokio::test]
async fn hangup_loads_the_files_at_once_and_names_a_fault_each_time() {
    let files = Files::new();
    let setup = files.setup().limit("tls_rescan_ms", 3_600_000).serve().env("MORTISE_PLUGINS_BUNDLED", "demo");
    let server = setup.start().await;
    let mut watch = server.watch(gvk("demo.v2.Artist"), None, "").await.unwrap();
    assert_eq!(watch.snapshot().await, []);
    let mut done = 0;
    let mut hang_up = async |outcome: &str| {
        server.signal("HUP");
        done += 1;
        eventually("the reload is logged", async || server.log().matches("SIGHUP: reloaded settings").count() == done)
            .await;
        let log = server.log();
        let line = log.lines().rfind(|line| line.contains("SIGHUP: reloaded settings")).unwrap();
        assert!(line.ends_with(outcome), "{outcome}: {log}");
    };
    let shows = async |pair: &Pair| {
        for addr in [server.grpc, server.http] {
            assert_eq!(shown(&files, addr).await, pair.der());
        }
    };
    let renewed = files.ca.server();
    files.put_pair(&renewed);
    shows(&files.server).await;
    hang_up(", the files of TLS").await;
    shows(&renewed).await;
    hang_up(", the files of TLS, which are the same").await;

    files.put("server.pem", "nonsense");
    for times in 1..=2 {
        hang_up("; the files of TLS are refused, so those from before stay in service").await;
        let fault = format!("tls.cert_file: {} holds no certificate", files.path("server.pem").display());
        assert_eq!(server.log().matches(&fault).count(), times, "{}", server.log());
        shows(&renewed).await;
    }
    let last = files.ca.server();
    files.put_pair(&last);
    hang_up(", the files of TLS").await;
    shows(&last).await;
    server.write(artist("korn")).await.unwrap();
    assert_eq!(watch.upsert().await.id.unwrap().name, "korn", "connections from before serve on");
}

#[tokio::test]
async fn faults_at_the_start_name_setting_file_and_remedy() {
    let files = Files::new();
    let other = files.ca.server();
    files.put("other.key", &other.key);
    files.put("empty.pem", "");
    let dir = files.dir.path().display().to_string();
    let data = format!("{dir}/data");
    let start = async |settings: &[(&str, &str)]| {
        let settings: Vec<_> = settings
            .iter()
            .map(|(key, value)| {
                let value = if value.contains('.') { format!("{dir}/{value}") } else { (*value).to_owned() };
                (format!("MORTISE_TLS_{key}"), value)
            })
            .collect();
        let env: Vec<_> = settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let (code, out, err) = mortise(&["serve", "--data-dir", &data], &env).await;
        assert_eq!(out, "", "{err}");
        (code, err)
    };
    let pair = [("CERT_FILE", "server.pem"), ("KEY_FILE", "server.key")];
    for (settings, code, says) in [
        (vec![pair[0]], 2, "tls.cert_file has no effect without tls.key_file; set both, or neither"),
        (vec![pair[1]], 2, "tls.key_file has no effect without tls.cert_file"),
        (vec![("CLIENT_CA_FILE", "ca.pem")], 2, "tls.client_ca_file has no effect without tls.cert_file"),
        (vec![pair[0], pair[1], ("CLIENT_CERTS", "required")], 2, "tls.client_certs has no effect without"),
        (vec![("CLIENT_CERTS", "perhaps")], 2, "unknown variant `perhaps`, expected `optional` or `required`"),
        (vec![("CERT_FILE", "missing.pem"), pair[1]], 1, "mortise: tls.cert_file: cannot read "),
        (vec![("CERT_FILE", "empty.pem"), pair[1]], 1, "empty.pem holds no certificate (PEM: -----BEGIN CERTIFICATE"),
        (vec![("CERT_FILE", "server.key"), pair[1]], 1, "server.key holds no certificate"),
        (vec![pair[0], ("KEY_FILE", "server.pem")], 1, "mortise: tls.key_file: "),
        (vec![pair[0], ("KEY_FILE", "other.key")], 1, "other.key does not belong to the first certificate in "),
        (vec![pair[0], pair[1], ("CLIENT_CA_FILE", "empty.pem")], 1, "mortise: tls.client_ca_file: "),
    ] {
        let (ended, err) = start(&settings).await;
        assert!(ended == Some(code) && err.contains(says), "{settings:?}: {ended:?}: {err}");
    }
    assert!(!Path::new(&data).exists(), "nothing is opened before");
}

#[tokio::test]
async fn an_expired_certificate_is_a_warning() {
    let files = Files::new();
    files.put_pair(&files.ca.issue(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1)));
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path(name).display().to_string();
    let settings = [("MORTISE_TLS_CERT_FILE", path("server.pem")), ("MORTISE_TLS_KEY_FILE", path("server.key"))];
    let mut server = tokio::process::Command::new(env!("CARGO_BIN_EXE_mortise"))
        .args(["serve", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--data-dir"])
        .arg(dir.path())
        .envs(settings)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut ready = [0; 14];
    timeout(PATIENCE, server.stdout.as_mut().unwrap().read_exact(&mut ready)).await.unwrap().unwrap();
    assert_eq!(&ready, b"mortise ready:");
    let mut log = String::new();
    let mut stderr = server.stderr.take().unwrap();
    while !log.contains("expired at 2020-01-01T00:00:00Z; put a new one into the file, since clients refuse this one") {
        let mut part = [0; 4096];
        let read = timeout(PATIENCE, stderr.read(&mut part)).await.expect("the error is logged").unwrap();
        assert!(read > 0, "{log}");
        log.push_str(&String::from_utf8_lossy(&part[..read]));
    }
}
