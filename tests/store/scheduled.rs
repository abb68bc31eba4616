//! Scheduled backups: taken at their times, verified, bounded in number, shown, and tried again after a failure.

use std::{fs, path::Path};

use dates::{now, stamp};
use mortise_api::ServerServiceClient;
use mortise_resource::data::{ServerStatusRequest, server_status_response::ScheduledBackups};

use crate::support::{Server, Setup, artist, id, mortise, until};

/// Names of files by their times.
mod dates {
    use std::time::{Duration, SystemTime};

    /// The current date less a number of hours.
    pub fn now(hours_before: u64) -> SystemTime {
        SystemTime::now() - Duration::from_secs(hours_before * 3_600)
    }

    /// The date in the form of a name: `20260301T030000Z`.
    pub fn stamp(time: SystemTime) -> String {
        let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let out = std::process::Command::new("date")
            .args(["-u", "-d", &format!("@{seconds}"), "+%Y%m%dT%H%M%SZ"])
            .output()
            .unwrap();
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }
}

/// Files of scheduled backups in a directory, the oldest first.
fn files(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.starts_with("mortise-") && name.ends_with(".tar.gz"));
    names.sort();
    names
}

/// The state in the status of the server, once it fits.
async fn state_until(server: &Server, what: &str, fits: impl Fn(&ScheduledBackups) -> bool) -> ScheduledBackups {
    let mut client = ServerServiceClient::new(server.channel().await);
    until(what, async || {
        let status = client.status(ServerStatusRequest {}).await.unwrap().into_inner();
        let state = status.scheduled_backups.expect("there is a schedule");
        if fits(&state) { Ok(state) } else { Err(state) }
    })
    .await
}

async fn runs(server: &Server, outcome: &str) -> f64 {
    let series = format!("mortise_backup_runs_total{{outcome=\"{outcome}\"}}");
    server.metric(&series).await.expect("it exists from the start")
}

#[tokio::test]
async fn a_server_without_a_schedule_has_its_metrics_and_takes_none() {
    let server = Server::start().await;
    assert_eq!((runs(&server, "done").await, runs(&server, "failed").await), (0.0, 0.0));
    assert_eq!(server.metric("mortise_backup_last_success_timestamp_seconds").await, Some(0.0));
    let mut client = ServerServiceClient::new(server.channel().await);
    let status = client.status(ServerStatusRequest {}).await.unwrap().into_inner();
    assert_eq!(status.scheduled_backups, None);
    assert!(!server.data_dir.join("backups").exists());
}

#[tokio::test]
async fn backups_are_taken_verified_bounded_in_number_and_can_be_restored() {
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().join("kept");
    let setup = || {
        Setup::new()
            .data_dir(&data.path().join("data"))
            .env("MORTISE_BACKUP_SCHEDULE", "every 1h")
            .env("MORTISE_BACKUP_DIR", dir.display())
            .env("MORTISE_BACKUP_KEEP", 2)
    };
    let server = setup().limit("backup_interval_ms", 1_100).start().await;
    server.write(artist("korn")).await.unwrap();
    // The first one is due at once, since the directory is empty.
    until("four runs", async || match runs(&server, "done").await {
        done if done >= 4.0 => Ok(()),
        done => Err(done),
    })
    .await;
    let state = state_until(&server, "two files", |state| state.files == 2).await;
    assert!(state.is_here && state.fault.is_empty() && state.last_bytes > 0, "{state:?}");
    assert_eq!(runs(&server, "failed").await, 0.0);
    assert!(server.metric("mortise_backup_last_success_timestamp_seconds").await.unwrap() > 1e9);
    let addr = server.grpc.to_string();
    let (_, out, _) = mortise(&["status", "--grpc-addr", &addr], &[]).await;
    assert!(out.contains("\nbackup        every 1h: the last of "), "{out}");
    assert!(server.stop().await.success());

    let found = files(&dir);
    assert!((1..=3).contains(&found.len()), "{found:?}");
    let newest = dir.join(found.last().unwrap()).display().to_string();
    let (code, out, err) = mortise(&["backup", "verify", &newest], &[]).await;
    assert!(code == Some(0) && out.contains("a whole backup; it can be restored"), "{out}{err}");
    let (code, out, _) = mortise(&["backup", "list", dir.to_str().unwrap()], &[]).await;
    assert_eq!((code, out.lines().count()), (Some(0), found.len() + 1), "{out}");
    assert!(out.lines().nth(1).unwrap().starts_with(&newest), "{out}");

    let to = data.path().join("restored");
    let (into, plugins) = (to.join("data"), to.join("plugins"));
    let args = ["--data-dir", into.to_str().unwrap(), "--plugin-dir", plugins.to_str().unwrap()];
    let (code, out, err) = mortise(&[&["backup", "restore", "--from", &newest], &args[..]].concat(), &[]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    let restored = Setup::new().of_sled().data_dir(&into).plugin_dir(&plugins).start().await;
    restored.read(&id("demo.v2.Artist", "korn")).await.unwrap();

    // A file with one byte changed is refused.
    let mut bytes = fs::read(&newest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&newest, bytes).unwrap();
    let (code, _, err) = mortise(&["backup", "verify", &newest], &[]).await;
    assert!(code == Some(1) && err.contains("it was altered"), "{err}");
}

#[tokio::test]
async fn a_missed_backup_is_made_up_for_by_one_and_a_recent_one_is_enough() {
    let data = tempfile::tempdir().unwrap();
    for (hours, expected) in [(100, 1.0), (1, 0.0)] {
        let dir = data.path().join(format!("kept-{hours}"));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join(format!("mortise-{}.tar.gz", stamp(now(hours)))), "x").unwrap();
        let server = Setup::new()
            .env("MORTISE_BACKUP_SCHEDULE", "every 6h")
            .env("MORTISE_BACKUP_DIR", dir.display())
            .start()
            .await;
        let state = state_until(&server, "the next one is known", |state| state.next.is_some()).await;
        assert_eq!(runs(&server, "done").await, expected, "{state:?}");
        assert_eq!(files(&dir).len() as f64, 1.0 + expected);
        let next = std::time::SystemTime::try_from(state.next.unwrap()).unwrap();
        let wait = next.duration_since(now(0)).unwrap().as_secs();
        let whole = if hours == 1 { 5 * 3_600 } else { 6 * 3_600 };
        assert!((whole - 600..=whole).contains(&wait), "{wait}");
    }
}

#[tokio::test]
async fn a_failure_is_shown_counted_and_tried_again_at_the_next_time() {
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().join("kept");
    fs::write(&dir, "a file").unwrap();
    let server = Setup::new()
        .env("MORTISE_BACKUP_SCHEDULE", "0 3 * * *")
        .env("MORTISE_BACKUP_DIR", dir.display())
        .limit("backup_interval_ms", 1_100)
        .start()
        .await;
    let state = state_until(&server, "a failure", |state| !state.fault.is_empty()).await;
    assert!(state.fault.contains("kept") && state.failed_at.is_some() && state.last_file.is_empty(), "{state:?}");
    assert!(runs(&server, "failed").await >= 1.0);
    let addr = server.grpc.to_string();
    let (_, out, _) = mortise(&["status", "--grpc-addr", &addr], &[]).await;
    assert!(out.contains("warning: the last scheduled backup failed"), "{out}");
    assert!(server.log().contains("scheduled backup: "), "{}", server.log());
    fs::remove_file(&dir).unwrap();
    let state = state_until(&server, "a success", |state| state.fault.is_empty() && state.files > 0).await;
    assert!(state.failed_at.is_none() && runs(&server, "done").await >= 1.0, "{state:?}");
}
