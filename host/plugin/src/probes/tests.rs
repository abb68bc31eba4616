//! Probes on a clock that moves only when everything waits: 500 checks of which half hang take no time, and a slow
//! machine changes nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    time::Duration,
};

use async_trait::async_trait;
use mortise_resource::probes::{HttpProbe, Probe as WantedProbe, TcpProbe, probe::Check as WantedCheck};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    time::{Instant, sleep},
};

use super::{attempt::Finding, specification::Check, *};
use crate::grants::{Grants, http_hosts::HttpHost};

/// A status that was written: when, of which resource, whether it passes, and its reason.
type Write = (Instant, String, bool, String);

/// Writes into memory.
#[derive(Default)]
pub(super) struct Memory {
    writes: Mutex<Vec<Write>>,
    /// The messages of the writes.
    pub(super) messages: Mutex<Vec<String>>,
    deleted: Mutex<Vec<(Instant, String)>>,
    conflicts: Mutex<usize>,
}

#[async_trait]
impl ProbeWriter for Memory {
    async fn write_status(&self, id: pb::Id, _: String, _: String, status: pb::Status) -> Result<(), Failure> {
        let left = self.conflicts.lock().checked_sub(1);
        if let Some(left) = left {
            *self.conflicts.lock() = left;
            return Err(Failure::new(Code::Aborted, "changed"));
        }
        let condition = status.conditions[0].clone();
        let passes = condition.state() == pb::condition::State::True;
        self.writes.lock().push((Instant::now(), id.name, passes, condition.reason));
        self.messages.lock().push(condition.message);
        Ok(())
    }

    async fn delete(&self, id: pb::Id) -> Result<(), Failure> {
        self.deleted.lock().push((Instant::now(), id.name));
        Ok(())
    }
}

/// Answers by host: `hangs` never, `flaps` as the table says, all others at once.
pub(super) struct Script {
    begun: Instant,
    attempts: Mutex<BTreeMap<String, Vec<Instant>>>,
    pub(super) flaps: Mutex<Vec<bool>>,
}

#[async_trait]
impl Attempt for Script {
    fn ran(&self) -> Duration {
        self.begun.elapsed()
    }

    async fn attempt(&self, check: &Check, _: &Permit) -> Finding {
        let Check::Tcp { host, .. } = check else { panic!("only connections") };
        self.attempts.lock().entry(host.clone()).or_default().push(Instant::now());
        if host.starts_with("hangs") {
            pending::<()>().await;
        }
        let passes = !host.starts_with("flaps") || self.flaps.lock().pop().unwrap_or(true);
        Finding { passes, reason: if passes { "Connected" } else { "Unreachable" }, message: String::new() }
    }
}

pub(super) struct Bench {
    pub(super) probes: Probes,
    pub(super) script: Arc<Script>,
    pub(super) memory: Arc<Memory>,
    pub(super) permit: Arc<Permit>,
}

pub(super) fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

pub(super) fn id(name: &str) -> pb::Id {
    pb::Id { uid: format!("uid-{name}"), name: name.to_owned(), ..pb::Id::default() }
}

pub(super) fn tcp(host: &str) -> WantedProbe {
    WantedProbe {
        key: "up".to_owned(),
        condition: "Passing".to_owned(),
        check: Some(WantedCheck::Tcp(TcpProbe { host: host.to_owned(), port: 80 })),
        interval: seconds(10),
        timeout: seconds(5),
        ..WantedProbe::default()
    }
}

/// A probe by report; `reported` is the date of a passing report.
pub(super) fn report(ttl: i64, reported: Option<i64>) -> WantedProbe {
    let stored = reported.map(|seconds| {
        let state = pb::condition::State::True.into();
        let condition = pb::Condition { r#type: "Passing".to_owned(), state, ..pb::Condition::default() };
        let updated_at = Some(prost_types::Timestamp { seconds, nanos: 0 });
        pb::Status { updated_at, conditions: vec![condition], ..pb::Status::default() }
    });
    WantedProbe { check: seconds(ttl).map(WantedCheck::Report), interval: None, timeout: None, stored, ..tcp("") }
}

impl Bench {
    pub(super) fn new() -> Self {
        let script = Arc::new(Script { begun: Instant::now(), attempts: Mutex::default(), flaps: Mutex::default() });
        let permit = Arc::new(Permit::of("p", Grants::default()));
        Self { probes: Probes::with("p".to_owned(), script.clone()), script, memory: Arc::default(), permit }
    }

    pub(super) fn set(&self, name: &str, group: &str, probes: Vec<WantedProbe>) {
        let wanted = Wanted { probes, group: group.to_owned(), ..Wanted::default() };
        let writer: Arc<dyn ProbeWriter> = self.memory.clone();
        self.probes.set(id(name), wanted, &self.permit, &writer).unwrap();
    }

    pub(super) fn of(&self, name: &str) -> Vec<(bool, String)> {
        let writes = self.memory.writes.lock();
        writes.iter().filter(|(_, of, ..)| of == name).map(|(_, _, passes, reason)| (*passes, reason.clone())).collect()
    }
}

/// The figures that were asked for: 500 checks of which half hang, and 100 reports that expire.
#[tokio::test(start_paused = true)]
async fn checks_that_hang_delay_neither_reports_nor_checks_of_other_groups() {
    let bench = Bench::new();
    let begun = Instant::now();
    for number in 0..250 {
        bench.set(&format!("hangs-{number}"), "slow", vec![tcp(&format!("hangs-{number}"))]);
    }
    for number in 0..250 {
        bench.set(
            &format!("passes-{number}"),
            &format!("quick-{}", number % 10),
            vec![tcp(&format!("passes-{number}"))],
        );
    }
    for number in 0..100 {
        bench.set(&format!("reports-{number}"), "reports", vec![report(7, Some(1))]);
    }
    sleep(Duration::from_secs(60)).await;
    let late = Duration::from_millis(100);
    let writes = bench.memory.writes.lock();
    let expired: Vec<_> = writes.iter().filter(|(_, name, ..)| name.starts_with("reports-")).collect();
    assert_eq!(expired.len(), 100);
    for (at, name, passes, reason) in expired {
        let took = at.duration_since(begun);
        assert!(!passes && reason == "Expired", "{name}");
        assert!((Duration::from_secs(7)..Duration::from_secs(7) + late).contains(&took), "{name}: {took:?}");
    }
    let attempts = bench.script.attempts.lock();
    let mut fourth = BTreeSet::new();
    for (name, times) in attempts.iter().filter(|(name, _)| name.starts_with("passes-")) {
        assert!(times.len() >= 6, "{name}: {}", times.len());
        for pair in times.windows(2) {
            let between = pair[1].duration_since(pair[0]);
            let jittered = Duration::from_millis(9_500)..=Duration::from_millis(10_500) + late;
            assert!(jittered.contains(&between), "{name}: {between:?}");
        }
        fourth.insert(times[3]);
    }
    assert!(fourth.len() > 100, "checks with one interval spread: {} times", fourth.len());
}

#[tokio::test(start_paused = true)]
async fn a_group_that_hangs_on_every_place_leaves_the_next_one_to_others() {
    let bench = Bench::new();
    for number in 0..3 * places::PLACES {
        bench.set(&format!("hangs-{number}"), "slow", vec![tcp(&format!("hangs-{number}"))]);
    }
    sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    bench.set("web", "quick", vec![tcp("web")]);
    bench.set("silent", "slow", vec![report(1, Some(1))]);
    sleep(Duration::from_millis(1_100)).await;
    assert_eq!(bench.of("silent"), [(false, "Expired".to_owned())], "a report needs no place");
    sleep(Duration::from_secs(10)).await;
    let first = bench.script.attempts.lock()["web"][0].duration_since(begun);
    assert!(first <= Duration::from_millis(4_100), "the places come back after a timeout: {first:?}");
    assert_eq!(bench.of("web"), [(true, "Connected".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_report_holds_for_its_time_and_begins_again_with_the_next() {
    let bench = Bench::new();
    bench.set("web", "g", vec![report(10, None)]);
    sleep(Duration::from_secs(100)).await;
    assert_eq!(bench.of("web"), [], "nothing was reported");
    bench.set("web", "g", vec![report(10, Some(1))]);
    sleep(Duration::from_secs(9)).await;
    // The controller also runs for other reasons: that is no report.
    bench.set("web", "g", vec![report(10, Some(1))]);
    bench.set("web", "g", vec![report(10, Some(2))]);
    sleep(Duration::from_secs(9)).await;
    assert_eq!(bench.of("web"), []);
    *bench.memory.conflicts.lock() = 1;
    sleep(Duration::from_millis(1_100)).await;
    assert_eq!(bench.of("web"), [], "the resource changed in that moment");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.of("web"), [(false, "Expired".to_owned())]);
    sleep(Duration::from_secs(100)).await;
    assert_eq!(bench.of("web").len(), 1);
    bench.set("web", "g", vec![report(10, Some(200))]);
    sleep(Duration::from_secs(11)).await;
    assert_eq!(bench.of("web").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn thresholds_count_results_in_a_row() {
    let bench = Bench::new();
    // Popped from the end: passes twice, fails twice, passes, fails three times, passes twice.
    *bench.script.flaps.lock() = vec![true, true, false, false, false, true, false, false, true, true];
    let probe = WantedProbe { passing_after: 2, failing_after: 3, ..tcp("flaps") };
    bench.set("web", "g", vec![probe]);
    let mut seen = Vec::new();
    for _ in 0..10 {
        sleep(Duration::from_millis(10_000)).await;
        seen.push(bench.of("web").last().map(|(passes, _)| *passes));
    }
    let expected = [(false, "Pending"), (true, "Connected"), (false, "Unreachable"), (true, "Connected")];
    let expected = expected.map(|(passes, reason)| (passes, reason.to_owned()));
    assert_eq!(bench.of("web"), expected, "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn a_resource_goes_when_its_check_failed_for_too_long() {
    let bench = Bench::new();
    let delete_after = seconds(60);
    bench.set("dead", "g", vec![WantedProbe { delete_after, ..tcp("hangs") }]);
    bench.set("silent", "g", vec![WantedProbe { delete_after, ..report(10, Some(1)) }]);
    bench.set("alive", "g", vec![WantedProbe { delete_after, ..tcp("passes") }]);
    let begun = Instant::now();
    sleep(Duration::from_secs(30)).await;
    // The controller passes the status on.
    bench.set("silent", "g", vec![WantedProbe { delete_after, ..report(10, None) }]);
    sleep(Duration::from_secs(200)).await;
    let deleted = bench.memory.deleted.lock();
    let names: Vec<_> = deleted.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["dead", "silent"]);
    assert!(deleted.iter().all(|(at, _)| at.duration_since(begun) >= Duration::from_secs(60)));
}

#[tokio::test(start_paused = true)]
async fn probes_end_with_their_resource_and_change_with_their_limits() {
    let bench = Bench::new();
    bench.set("web", "g", vec![tcp("web")]);
    sleep(Duration::from_secs(1)).await;
    bench.set("web", "g", vec![tcp("web")]);
    sleep(Duration::from_secs(1)).await;
    let attempts = || bench.script.attempts.lock()["web"].len();
    assert_eq!(attempts(), 1, "the same probe goes on");
    bench.set("web", "g", vec![WantedProbe { timeout: seconds(2), ..tcp("web") }]);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(attempts(), 2, "another one begins at once");
    bench.probes.end(&id("web"));
    sleep(Duration::from_secs(100)).await;
    assert_eq!((attempts(), bench.probes.table.lock().count), (2, 0));
    let writer: Arc<dyn ProbeWriter> = bench.memory.clone();
    for (bad, fault) in [
        (WantedProbe { check: None, ..tcp("web") }, "needs one of"),
        (WantedProbe { interval: None, ..tcp("web") }, "an interval is 1s to"),
        (WantedProbe { timeout: seconds(61), ..tcp("web") }, "a timeout is 10ms to 60s, got 61s"),
        (WantedProbe { failing_after: 1_001, ..tcp("web") }, "a threshold is at most 1000"),
        (WantedProbe { key: String::new(), ..tcp("web") }, "needs a key"),
    ] {
        let wanted = Wanted { probes: vec![bad], ..Wanted::default() };
        let refused = bench.probes.set(id("web"), wanted, &bench.permit, &writer).unwrap_err();
        assert!(refused.is(Code::InvalidArgument) && refused.message.contains(fault), "{}", refused.message);
    }
}

/// A server that answers each connection with the next of these, and its port.
pub(super) async fn server(answers: Vec<&'static str>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4_096];
            let length = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let answer = match answer {
                "echo" => format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{request}", request.len()),
                answer => answer.to_owned(),
            };
            stream.write_all(answer.as_bytes()).await.unwrap();
            // The rest of a body never comes: what is enough has to be enough.
            tokio::spawn(async move {
                let _ = stream.read(&mut [0]).await;
            });
        }
    });
    port
}

#[tokio::test]
async fn requests_are_as_the_check_says_and_bodies_are_read_as_far_as_needed() {
    let endless = "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nstate: ready";
    let port = server(vec![
        "echo",
        endless,
        endless,
        "HTTP/1.1 418 I'm a teapot\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n",
        "echo",
        "HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nlocation: http://elsewhere.example/\r\ncontent-length: 0\r\n\r\n",
        "no HTTP at all\r\n\r\n",
    ])
    .await;
    let granted = HttpHost::try_from(format!("http://127.0.0.1:{port}")).unwrap();
    let permit = Permit::of("p", Grants { http: vec![granted.into()], ..Grants::default() });
    let network = Network::new();
    let ask = async |change: &dyn Fn(&mut HttpProbe)| {
        let mut http = HttpProbe { url: format!("http://127.0.0.1:{port}/up?x=1"), ..HttpProbe::default() };
        change(&mut http);
        let wanted = WantedProbe { check: Some(WantedCheck::Http(http)), ..tcp("") };
        let read = Specification::read(wanted).unwrap();
        let specification::Kind::Active { check, .. } = read.kind else { panic!() };
        let found = network.attempt(&check, &permit).await;
        (found.reason, found.message)
    };
    let echoed = ask(&|http| {
        http.method = "HEAD".replace("HEAD", "OPTIONS");
        http.headers = [("host", "web.example"), ("x-check", "yes")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        http.body = "OPTIONS /up?x=1 HTTP/1.1\r\nhost: web.example\r\nx-check: yes".to_owned();
    });
    assert_eq!(echoed.await.0, "Answered");
    assert_eq!(ask(&|http| http.body = "ready".to_owned()).await.0, "Answered");
    assert_eq!(ask(&|_| {}).await.0, "Answered", "a body that nothing asks for is not read");
    let teapot = mortise_resource::probes::StatusRange { from: 410, to: 418 };
    assert_eq!(ask(&|http| http.statuses = vec![teapot]).await.0, "Answered");
    let (reason, text) = ask(&|_| {}).await;
    let url = format!("http://127.0.0.1:{port}/up?x=1");
    assert_eq!((reason, text), ("Status", format!("GET {url} was answered 500 Internal Server Error")));
    let followed = ask(&|http| (http.redirects, http.body) = (1, "GET /elsewhere ".to_owned()));
    assert_eq!(followed.await.0, "Answered");
    assert_eq!(ask(&|_| {}).await.0, "Status", "a redirect is an answer unless it is followed");
    let (reason, text) = ask(&|http| http.redirects = 1).await;
    assert!(reason == "NotGranted" && text.contains("elsewhere.example"), "{text}");
    assert_eq!(ask(&|_| {}).await.0, "Unreachable");
    let elsewhere = ask(&|http| http.url = "http://127.0.0.1:1/".to_owned()).await;
    assert_eq!(elsewhere.0, "NotGranted");
}

/// Headers of a check go to its own server, and nowhere else.
#[tokio::test]
async fn a_redirect_to_another_server_takes_no_headers_along() {
    let other = server(vec!["echo", "echo"]).await;
    let elsewhere = |status: &str, port: u16| {
        let head = format!("HTTP/1.1 {status}\r\nlocation: http://127.0.0.1:{port}/there\r\ncontent-length: 0\r\n\r\n");
        &*Box::leak(head.into_boxed_str())
    };
    let here = "HTTP/1.1 307 Temporary Redirect\r\nlocation: there\r\ncontent-length: 0\r\n\r\n";
    let port =
        server(vec![here, "echo", elsewhere("307 Temporary Redirect", other), elsewhere("302 Found", other)]).await;
    let granted = [port, other].map(|port| HttpHost::try_from(format!("http://127.0.0.1:{port}")).unwrap());
    let permit = Permit::of("p", Grants { http: granted.map(Into::into).into(), ..Grants::default() });
    let network = Network::new();
    let echoed = async |body: &str| {
        let headers = [("host", "web.example"), ("authorization", "Basic c2VjcmV0")];
        let http = HttpProbe {
            url: format!("http://127.0.0.1:{port}/up"),
            method: "POST".into(),
            headers: headers.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            body: body.to_owned(),
            redirects: 1,
            ..HttpProbe::default()
        };
        let read = Specification::read(WantedProbe { check: Some(WantedCheck::Http(http)), ..tcp("") }).unwrap();
        let specification::Kind::Active { check, .. } = read.kind else { panic!() };
        network.attempt(&check, &permit).await
    };
    let same = echoed("POST /there HTTP/1.1\r\nauthorization: Basic c2VjcmV0\r\nhost: web.example\r\n").await;
    assert_eq!(same.reason, "Answered", "{}", same.message);
    for method in ["POST", "GET"] {
        let expected = format!("{method} /there HTTP/1.1\r\nhost: 127.0.0.1:{other}\r\nuser-agent: mortise-check\r\n");
        let found = echoed(&expected).await;
        assert_eq!(found.reason, "Answered", "{method}: {}", found.message);
    }
}
