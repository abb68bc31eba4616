//! Figures of health checks in real time.

use std::{collections::BTreeMap, time::Duration};

use mortise_plugin_catalog::proto::catalog::v1::{HttpCheck, TcpCheck, health_check::Check};
use mortise_resource::pb;
use tokio::net::TcpListener;

use super::endpoints::{check, checked, report};
use crate::support::{Server, Setup, controllers::condition_until, id_of};

const TTL: Duration = Duration::from_secs(10);

/// The date of a check's last result.
async fn date(server: &Server, workload: &pb::Id, check: &str) -> Duration {
    let stored = server.read(workload).await.unwrap();
    let date = stored.status[&format!("catalog.v1/check-{check}")].updated_at.unwrap();
    Duration::new(date.seconds.unsigned_abs(), date.nanos.unsigned_abs())
}

async fn until(server: &Server, workload: &pb::Id, check: &str, reason: &str) {
    let key = format!("catalog.v1/check-{check}");
    condition_until(server, workload, &key, "Passing", |found| found.reason == reason).await;
}

/// 500 checks of which half hang, and 100 that clients report: how late each of the latter expires, and when the first
/// results of those that pass were there. `cargo test --test wire -- --ignored --nocapture catalog::checks`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints figures of 500 checks, and takes a minute"]
async fn checks_that_hang_delay_no_others() {
    // Connections to the silent one are accepted by the system, and get no answer.
    let (silent, open) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let (hangs, passes) = (silent.local_addr().unwrap().port(), open.local_addr().unwrap().port());
    tokio::spawn(async move { while open.accept().await.is_ok() {} });
    let grants =
        format!("[plugin.catalog.grants]\nhttp = [\"http://127.0.0.1:{hangs}\"]\ntcp = [\"127.0.0.1:{passes}\"]\n");
    let server = Setup::new().config(grants).start().await;
    let mut passing = Vec::new();
    for number in 0..250 {
        let hangs = checked(
            &format!("hangs-{number}"),
            "127.0.0.1",
            hangs,
            vec![check("up", Check::Http(HttpCheck::default()), 10)],
        );
        server.write(hangs).await.unwrap();
        let one = checked(
            &format!("passes{}-{number}", number % 10),
            "127.0.0.1",
            passes,
            vec![check("up", Check::Tcp(TcpCheck::default()), 10)],
        );
        passing.push(server.write(one).await.unwrap());
    }
    let mut firsts = Vec::new();
    for stored in &passing {
        let id = id_of(stored);
        until(&server, &id, "up", "Connected").await;
        let generation = ulid_date(&stored.generation);
        firsts.push(date(&server, &id, "up").await.saturating_sub(generation));
    }
    let mut reported = BTreeMap::new();
    for number in 0..100 {
        let ttl = Check::Ttl(TTL.try_into().unwrap());
        let one = checked(&format!("reports-{number}"), "127.0.0.1", 80, vec![check("alive", ttl, 0)]);
        let id = id_of(&server.write(one).await.unwrap());
        report(&server, &id, "alive", true).await;
        reported.insert(number, (date(&server, &id, "alive").await, id));
    }
    let mut late = Vec::new();
    for (at, id) in reported.values() {
        until(&server, id, "alive", "Expired").await;
        let ended = date(&server, id, "alive").await;
        assert!(ended >= *at + TTL, "{at:?} {ended:?}");
        late.push(ended - *at - TTL);
    }
    for times in [&mut firsts, &mut late] {
        times.sort();
    }
    println!("first results of 250 checks beside 250 that hang: p50 {:?}, last {:?}", firsts[125], firsts[249]);
    println!("100 reports expired late by: p50 {:?}, last {:?}", late[50], late[99]);
}

/// The date in a generation, a ULID.
fn ulid_date(text: &str) -> Duration {
    const LETTERS: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let digits = text.chars().take(10).map(|letter| LETTERS.find(letter).unwrap() as u64);
    Duration::from_millis(digits.fold(0, |sum, digit| sum << 5 | digit))
}
