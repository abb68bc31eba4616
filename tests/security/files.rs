//! Modes of files: what a server and its commands write is its user's alone, under any mask of the process.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use crate::support::{tokens::*, *};

/// Every path in a directory, itself included, with its mode; links are not followed.
fn modes(path: &Path) -> Vec<(PathBuf, u32)> {
    let found = fs::symlink_metadata(path).unwrap();
    let mut all = vec![(path.to_owned(), found.permissions().mode() & 0o777)];
    if found.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| all.extend(modes(&entry.unwrap().path())));
    }
    all
}

#[track_caller]
fn assert_private(path: &Path) {
    let open: Vec<_> = modes(path).into_iter().filter(|(_, mode)| mode & 0o077 != 0).collect();
    assert!(
        open.is_empty(),
        "{}",
        open.iter().map(|(path, mode)| format!("{mode:o} {}\n", path.display())).collect::<String>()
    );
}

/// Runs a command with a mask that takes nothing away, which has to succeed.
async fn run(args: &[&str], env: &[(&str, &str)]) {
    let mut command = masked("000");
    let output = command.args(args).envs(env.iter().copied()).output().await.unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn everything_that_is_written_is_the_users_alone_whatever_the_mask() {
    if is_left_out_over_etcd("the data directory holds a copy, not the content") {
        return;
    }
    let outer = tempfile::tempdir().unwrap();
    let at = |name: &str| outer.path().join(name).display().to_string();
    let data = outer.path().join("data");
    let setup = || {
        let setup = Setup::new().guest("deny").mask("000").data_dir(&data);
        setup.env("MORTISE_AUDIT_EVENTS", "changes").env("MORTISE_CACHE_DIR", data.join("cache").display())
    };
    let guarded = Guarded::start(setup()).await;
    guarded.write(artist("korn")).await;
    let socket = format!("unix://{}", data.join("mortise.sock").display());
    let address = [("MORTISE_GRPC_ADDR", &*socket), ("MORTISE_CONTEXTS", &*at("home/contexts.toml"))];
    let guest = outer.path().join("infinite-loop.wasm");
    fs::copy(mortise_test_guests::component("infinite-loop"), &guest).unwrap();
    let installed_dir = guarded.server.plugin_dir.clone();
    run(&["plugin", "install", &guest.display().to_string()], &address).await;
    run(&["token", "create", "phone", "--policy", "global-management", "--out", &at("phone.token")], &address).await;
    run(&["login", "home", "--token-file", &at("phone.token")], &address).await;
    run(&["export", "-f", &at("export.yaml")], &address).await;
    run(&["backup", &at("backup.tar.gz")], &address).await;
    assert_private(&data);
    for file in ["phone.token", "home", "export.yaml", "backup.tar.gz"] {
        assert_private(&outer.path().join(file));
    }
    assert_private(&installed_dir.join("infinite-loop.wasm"));
    assert!(data.join("audit/audit.jsonl").exists() && data.join("cache").exists());
    guarded.server.stop().await;
    assert_private(&data);

    let data_dir = data.display().to_string();
    run(&["check", "--data-dir", &data_dir], &[]).await;
    run(&["compact", "--data-dir", &data_dir], &[]).await;
    assert_private(&data);
    let (restored, folder) = (at("restored"), at("restored-plugins"));
    run(&["restore", &at("backup.tar.gz"), "--data-dir", &restored, "--plugin-dir", &folder], &[]).await;
    assert!(Path::new(&restored).join("restored").exists());
    // An existing directory, which others could read before.
    let (salvaged, mode) = (at("salvaged"), Permissions::from_mode(0o755));
    fs::create_dir(&salvaged).and_then(|()| fs::set_permissions(&salvaged, mode)).unwrap();
    run(&["restore", "--salvage", &data_dir, "--data-dir", &salvaged], &[]).await;
    for made in [&restored, &folder, &salvaged] {
        assert_private(Path::new(made));
    }
    // Servers and clients of other users may read certificates; where keys are, no others may write.
    run(&["tls", "init", "--dir", &at("new/tls"), "--host", "home.example.net"], &[]).await;
    for (path, mode) in modes(Path::new(&at("new"))) {
        let is_key = path.extension().is_some_and(|extension| extension == "key");
        assert_eq!(mode & if is_key { 0o077 } else { 0o022 }, 0, "{mode:o} {}", path.display());
    }
    // What is for other programs has the user's mask.
    run(&["man", "--dir", &at("man")], &[]).await;
    let (page, mode) = modes(Path::new(&at("man"))).pop().unwrap();
    assert_eq!(mode, 0o666, "{}", page.display());
}

#[tokio::test]
async fn a_data_directory_of_an_earlier_release_is_closed_at_a_start() {
    let outer = tempfile::tempdir().unwrap();
    let data = outer.path().join("data");
    let setup = || Setup::new().data_dir(&data).env("MORTISE_AUDIT_EVENTS", "changes");
    let server = setup().start().await;
    server.write(artist("korn")).await.unwrap();
    server.stop().await;
    for (path, mode) in modes(&data) {
        fs::set_permissions(path, Permissions::from_mode(mode | (mode & 0o500) >> 3 | (mode & 0o500) >> 6)).unwrap();
    }
    let mine = data.join("mine");
    fs::write(&mine, "mine").unwrap();
    fs::set_permissions(&mine, Permissions::from_mode(0o644)).unwrap();
    let server = setup().start().await;
    assert!(server.log().contains("other users could read the data directory"), "{}", server.log());
    server.read(&id("demo.v2.Artist", "korn")).await.unwrap();
    assert_eq!(modes(&mine)[0].1, 0o644, "a user's own file stays as it is");
    fs::remove_file(mine).unwrap();
    assert_private(&data);
}

/// Elsewhere the unix socket is for every user of the machine, as a token decides what they may do.
#[tokio::test]
async fn a_socket_in_an_open_directory_is_open() {
    let outer = tempfile::tempdir().unwrap();
    fs::set_permissions(outer.path(), Permissions::from_mode(0o755)).unwrap();
    let socket = outer.path().join("s.sock");
    let _server = Setup::new().env("MORTISE_SOCKET", socket.display()).start().await;
    assert_eq!(modes(&socket)[0].1, 0o666);
}
