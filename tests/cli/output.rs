//! Output without a reader, on a full disk, and unread: a command ends with a code of docs/cli.md, never by a panic,
//! and at Ctrl-C.

use std::{fs::OpenOptions, io::Read as _, process::Stdio};

use mortise_provider::serve::MAGIC_COOKIE;
use tokio::time::timeout;

use crate::support::{PATIENCE, Server, Setup, artist, eventually, is_left_out_over_etcd, transcript::Transcript};

fn without_reader() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

fn full_disk() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

async fn code(t: &Transcript, args: &[&str], stdout: Stdio, stderr: Stdio) -> Option<i32> {
    let mut command = t.command(args);
    command.stdout(stdout).stderr(stderr);
    timeout(PATIENCE, command.status()).await.unwrap_or_else(|_| panic!("{args:?} hangs")).unwrap().code()
}

/// Commands that print results: each way to print in the crates of the command line is among them.
const PRINTING: &[&[&str]] = &[
    &["--help"],
    &["apply", "--help"],
    &["--version"],
    &["help", "get"],
    &["completions", "bash"],
    &["man"],
    &["man", "get"],
    &["types"],
    &["explain", "artist"],
    &["get", "artists"],
    &["get", "artists", "-o", "yaml"],
    &["get", "artist", "korn", "-o", "json"],
    &["get", "artists", "--watch"],
    &["describe", "artist", "korn"],
    &["tree", "artist", "korn"],
    &["apply", "-f", "korn.yaml"],
    &["plan", "-f", "new.yaml"],
    &["diff", "-f", "new.yaml"],
    &["export"],
    &["backup", "-"],
    &["backup", "--force", "there.tar.gz"],
    &["restore", "--dry-run", "backup.tar.gz"],
    &["check", "--data-dir", "stopped"],
    &["compact", "--data-dir", "stopped"],
    &["status"],
    &["top", "--once", "--interval", "10ms"],
    &["events", "artists"],
    &["controllers"],
    &["regions"],
    &["context", "list"],
    &["auth", "whoami"],
    &["plugin", "list"],
    &["plugin", "inspect", "demo"],
    &["plugin", "inspect", "./demo.wasm"],
    &["plugin", "schema", "./demo.wasm"],
    &["plugin", "new", "made"],
    &["tls", "show", "tls/server.pem"],
    &["provider", "attach"],
];

/// Commands that fail, or that have something to say, on standard error alone, and their codes.
const FAILING: &[(&[&str], i32)] = &[
    (&["no-such-command"], 2),
    (&["get"], 2),
    (&["get", "artist", "nobody"], 1),
    (&["get", "no-such-type"], 2),
    (&["get", "albums"], 0),
    (&["apply", "-f", "no-such-file.yaml"], 2),
    (&["delete", "artist", "nobody"], 1),
    (&["export", "-o", "no-such-format"], 2),
    (&["status", "--grpc-addr", "127.0.0.1:1"], 3),
    (&["check", "--data-dir", "no-such-directory"], 2),
    (&["restore", "no-such-file"], 2),
    (&["compact", "--data-dir", "no-such-directory"], 2),
    (&["serve", "--config", "no-such-file"], 2),
    (&["dev", "--insecure", "--grpc-addr", "192.0.2.1:1"], 1),
];

#[tokio::test]
async fn results_without_a_reader_or_on_a_full_disk_end_the_command() {
    if is_left_out_over_etcd("the data directory holds a copy, not the content") {
        return;
    }
    let stopped = Server::start().await;
    let data = stopped.data_dir.clone();
    let server = Setup::new().start().await;
    server.write(artist("korn")).await.unwrap();
    let mut t = Transcript::new("output", &server);
    t.file("korn.yaml", "type: demo.v2.Artist\nname: korn\ndata: {name: Korn}\n");
    t.file("new.yaml", "type: demo.v2.Artist\nname: new\ndata: {name: New}\n");
    t.file("demo.wasm", std::fs::read(mortise_test_guests::component("version-stamp-1")).unwrap());
    t.works(&["tls", "init", "--dir", "tls", "--host", "localhost"]).await;
    t.works(&["backup", "backup.tar.gz"]).await;
    std::fs::create_dir(t.dir().join("stopped")).unwrap();
    std::fs::rename(data.join("store"), t.dir().join("stopped/store")).unwrap();
    drop(stopped);
    let mut wrong = Vec::new();
    for args in PRINTING {
        for (stdout, stderr, expected) in [(without_reader(), without_reader(), 141), (full_disk(), full_disk(), 1)] {
            // `plugin new` makes it.
            let _ = std::fs::remove_dir_all(t.dir().join("made"));
            let ended = code(&t, args, stdout, stderr).await;
            if ended != Some(expected) {
                wrong.push(format!("{args:?}: {ended:?} instead of {expected}"));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[tokio::test]
async fn faults_without_a_reader_or_on_a_full_disk_keep_their_code() {
    let server = Server::start().await;
    let t = Transcript::new("output_faults", &server);
    for (args, expected) in FAILING {
        for (stdout, stderr) in [
            (Stdio::null(), without_reader()),
            (Stdio::null(), full_disk()),
            (without_reader(), without_reader()),
            (full_disk(), full_disk()),
        ] {
            assert_eq!(code(&t, args, stdout, stderr).await, Some(*expected), "{args:?}");
        }
    }
}

/// Terraform's core starts the provider, and reads a line of its standard output.
#[tokio::test]
async fn a_provider_whose_line_has_no_reader_ends() {
    let server = Server::start().await;
    let t = Transcript::new("output_provider", &server);
    for stdout in [without_reader(), full_disk()] {
        let mut command = t.command(&[]);
        command.envs([MAGIC_COOKIE, ("PLUGIN_PROTOCOL_VERSIONS", "6")]);
        let ended = timeout(PATIENCE, command.stdout(stdout).stderr(without_reader()).status()).await;
        assert_eq!(ended.expect("it ends").unwrap().code(), Some(1));
    }
}

/// A pager that waits for its user reads nothing, and Ctrl-C reaches the command as well.
#[tokio::test]
async fn a_command_whose_output_is_not_read_ends_at_an_interrupt() {
    let server = Server::start().await;
    for n in 0..4 {
        let metadata = [("text".to_owned(), "x".repeat(50_000))].into();
        server.write(mortise_resource::pb::Resource { metadata, ..artist(&format!("a-{n}")) }).await.unwrap();
    }
    let t = Transcript::new("output_unread", &server);
    let (mut unread, stdout) = std::io::pipe().unwrap();
    let mut child = t.command(&["get", "artists", "-o", "yaml"]).stdout(stdout).spawn().unwrap();
    let pid = child.id().unwrap().to_string();
    eventually("the pipe is full", async || rustix::io::ioctl_fionread(&unread).unwrap() > 60_000).await;
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let ended = timeout(PATIENCE, child.wait()).await.expect("it ends").unwrap();
    assert_eq!(ended.code(), Some(130));
    assert!(unread.read(&mut [0; 9]).unwrap() > 0);
}
