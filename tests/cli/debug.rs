//! `mortise debug`: what is in the archive, what is absent, and that no secret is in it.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::support::{Server, Setup, artist, mortise, tokens::Guarded};

/// Collects an archive of the server; returns exit code, output and errors.
async fn debug(server: &Server, file: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let addr = server.grpc.to_string();
    let first = ["debug", file.to_str().unwrap(), "--grpc-addr", &addr, "--interval", "10ms"];
    mortise(&[&first, args].concat(), &[]).await
}

/// Names of an archive in order, and the contents by name, without the folder.
fn unpacked(file: &Path) -> (Vec<String>, BTreeMap<String, String>) {
    let tar = |args: &[&str]| {
        let output = Command::new("tar").args(args).arg("-f").arg(file).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let names: Vec<String> = tar(&["-tz"]).lines().map(str::to_owned).collect();
    let folder = names[0].split_once('/').unwrap().0.to_owned() + "/";
    let into = tempfile::tempdir().unwrap();
    tar(&["-xz", "-C", into.path().to_str().unwrap()]);
    let names: Vec<String> = names.iter().map(|name| name.strip_prefix(&folder).unwrap().to_owned()).collect();
    let read = |name: &String| (name.clone(), fs::read_to_string(into.path().join(&folder).join(name)).unwrap());
    let contents = names.iter().map(read).collect();
    (names, contents)
}

#[tokio::test]
async fn the_archive_lists_its_parts_first_and_has_them() {
    let server = Setup::new().config("[log]\nlevel = \"info\"\n").start().await;
    server.write(artist("korn")).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("d.tar.gz");
    let log = dir.path().join("log");
    fs::write(&log, "a line of the log\n").unwrap();
    let (code, out, err) = debug(&server, &file, &["--log", log.to_str().unwrap()]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    let (names, contents) = unpacked(&file);
    assert_eq!(names[0], "CONTENTS.txt");
    for name in &names[1..] {
        assert!(contents["CONTENTS.txt"].contains(&format!("\n{name} ")), "{name}: {}", contents["CONTENTS.txt"]);
        assert!(out.contains(name.as_str()), "{name}: {out}");
    }
    for (name, has) in [
        ("version.json", "\"server\": \""),
        ("status-1.json", "\"uptime\""),
        ("status-2.json", "\"uptime\""),
        ("metrics-1.txt", "mortise_grpc_requests_total{"),
        ("metrics-2.txt", "mortise_grpc_requests_total{"),
        ("settings.toml", "level = \"info\"  # "),
        ("members.json", "\"isThis\": true"),
        ("controllers.json", "catalog/endpoints"),
        ("regions.json", "{"),
        ("types.json", "\"Artist\""),
        ("plugins/demo.json", "\"stage\""),
        ("plugins/demo.log", ""),
        ("process/threads.txt", "mortise"),
        ("process/status.txt", "VmRSS"),
        ("process/limits.txt", "Max open files"),
        ("server.log", "a line of the log\n"),
    ] {
        assert!(contents[name].contains(has), "{name}: {}", contents[name]);
    }
    // The second sample counts the calls after the first one.
    let calls = |name: &str| {
        let line = contents[name].lines().find(|line| line.contains("ServerService/Metrics\"")).unwrap_or("x 0");
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    assert!(calls("metrics-2.txt") > calls("metrics-1.txt"));

    let before = fs::read(&file).unwrap();
    let (code, _, err) = debug(&server, &file, &[]).await;
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("exists already") && err.contains("--force replaces it"), "{err}");
    assert_eq!(fs::read(&file).unwrap(), before);
    let long = mortise(&["debug", "x.tar.gz", "--interval", "11m"], &[]).await;
    assert_eq!((long.0, long.2.as_str()), (Some(2), "mortise: --interval 660s: at most 600s\n"));
    let (code, out, err) = debug(&server, &file, &["--force", "--log", "/no/such/log"]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("absent: cannot read /no/such/log: No such file"), "{out}");
    // So is a pipe, whose writer may never come.
    let (code, out, err) = debug(&server, &file, &["--force", "--log", "/"]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("absent: cannot read /: it is not a regular file"), "{out}");
}

#[tokio::test]
async fn no_secret_is_in_the_archive() {
    let dir = tempfile::tempdir().unwrap();
    let (file, secret) = (dir.path().join("d.tar.gz"), dir.path().join("secret"));
    fs::write(&secret, "SECRET-of-a-file").unwrap();
    let config = format!(
        "[plugin.demo.settings]\npassword = \"SECRET-of-a-setting\"\n[plugin.demo.grants.secrets]\ntoken = {{ file = {:?} }}\n",
        secret.to_str().unwrap()
    );
    let guarded = Guarded::start(Setup::new().config(&config)).await;
    guarded.policy("reads", "operator = \"read\"\n", Vec::new()).await;
    let token = guarded.token("secret-token", &["reads"], |_| {}).await;
    let mut named = artist("private");
    named.metadata.insert("note".into(), "SECRET-of-a-resource".into());
    guarded.write(named).await;
    let token_file = dir.path().join("token");
    fs::write(&token_file, &token).unwrap();
    let (code, out, err) = debug(&guarded.server, &file, &["--token-file", token_file.to_str().unwrap()]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    let (names, contents) = unpacked(&file);
    assert!(names.len() > 12 && !out.contains("absent"), "{out}");
    assert!(
        contents["settings.toml"].contains("settings.password is set and not shown"),
        "{}",
        contents["settings.toml"]
    );
    for (name, content) in &contents {
        for secret in ["SECRET-of", token.as_str(), guarded.management.as_str()] {
            assert!(!content.contains(secret), "{name} has {secret}");
        }
    }
}

/// A caller without the rights of an operator gets what it may have; one without any gets a reason.
#[tokio::test]
async fn absent_parts_have_their_reason() {
    let guarded = Guarded::start(Setup::new()).await;
    guarded.policy("songs", "key_prefix \"resource/\" { policy = \"read\" }\n", Vec::new()).await;
    let token = guarded.token("listener", &["songs"], |_| {}).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("d.tar.gz");
    let (code, out, err) = debug(&guarded.server, &file, &["--token", &token]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    let (names, contents) = unpacked(&file);
    assert_eq!(names, ["CONTENTS.txt", "types.json"]);
    let list = &contents["CONTENTS.txt"];
    for part in ["metrics-1.txt", "settings.toml", "status-1.json"] {
        let line = list.lines().find(|line| line.starts_with(part)).unwrap();
        assert!(line.contains("(absent: ") && line.contains("operator:read"), "{line}");
    }
    let none = dir.path().join("none.tar.gz");
    let (code, out, err) = debug(&guarded.server, &none, &[]).await;
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.starts_with("mortise: status: ") && err.contains("hint: give a token"), "{err}");
    assert!(!none.exists());
}
