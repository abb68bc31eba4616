//! Samples of a server, and frames on a terminal of a test.

use std::time::{Duration, Instant};

use mortise_resource::{
    data::{
        PeerRegion, PeerState, PeerType, RegionStatusResponse, ServerStatusResponse,
        server_status_response::{CodeCount, ControllerState, PluginState, Process, Requests, Store, TypeCount},
    },
    pb,
};
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    style::Modifier,
};

use super::{
    app::App,
    keys::{Flow, press},
    sample::Sample,
    view::draw,
};

pub(super) const SIZES: [(u16, u16); 4] = [(80, 24), (120, 40), (200, 50), (20, 5)];

fn duration(millis: i64) -> prost_types::Duration {
    prost_types::Duration { seconds: millis / 1000, nanos: i32::try_from(millis % 1000).unwrap() * 1_000_000 }
}

fn requests(method: &str, count: u64, durations: [u64; 3], codes: &[(&str, u64)]) -> Requests {
    let code = |(code, count): &(&str, u64)| CodeCount { code: (*code).to_owned(), count: *count };
    Requests {
        method: method.to_owned(),
        count,
        codes: codes.iter().map(code).collect(),
        durations: durations.to_vec(),
    }
}

fn types(count: u64) -> Vec<TypeCount> {
    (0..count).map(|n| TypeCount { group: "demo".into(), kind: format!("Kind{n:05}"), count: n }).collect()
}

/// A server after `n` seconds.
pub(super) fn sample(at: Instant, n: u64, rows: u64) -> Sample {
    let status = ServerStatusResponse {
        version: "1.2.3".into(),
        mode: "serve".into(),
        uptime: Some(duration(60_000)),
        watches: 3,
        max_watches: 100,
        warnings: vec!["the store refuses writes".into(), "another".into()],
        requests: vec![
            requests("hashicorp.consul.resource.ResourceService/Read", n * 10, [n * 10, 0, 0], &[("OK", n * 10)]),
            requests(
                "hashicorp.consul.resource.ResourceService/Write",
                n * 50,
                [0, n * 49, n],
                &[("NotFound", n * 5), ("OK", n * 45)],
            ),
        ],
        http_requests: vec![requests("/api", n * 2, [0, 0, 0], &[("200", n), ("404", n)])],
        duration_bounds: vec![duration(1), duration(10)],
        watches_by_type: vec![TypeCount { group: "demo".into(), kind: "Kind00001".into(), count: 3 }],
        plugins: vec![PluginState {
            name: "de\u{202e}mo\x1b[2J".into(),
            version: "2.0.0".into(),
            stage: "Serving".into(),
            health: "Healthy".into(),
            calls: n * 4,
            time: Some(duration(i64::try_from(n).unwrap() * 200)),
            ..PluginState::default()
        }],
        controllers: vec![ControllerState {
            name: "demo/albums".into(),
            state: "BackingOff".into(),
            queued: 7,
            reconciles: n * 3,
            errors: n,
        }],
        store: Some(Store { commit: n * 20, resources: types(rows), ..Store::default() }),
        process: Some(Process {
            resident_bytes: 3 << 20,
            cpu: Some(duration(i64::try_from(n).unwrap() * 250)),
            ..Process::default()
        }),
        ..ServerStatusResponse::default()
    };
    let ty = pb::Type { group: "demo".into(), group_version: "v2".into(), kind: "Album".into() };
    let peer = PeerRegion {
        name: "us-1".into(),
        types: vec![PeerType {
            r#type: Some(ty),
            state: PeerState::Current.into(),
            applied: n * 6,
            ..PeerType::default()
        }],
        ..PeerRegion::default()
    };
    Sample { regions: Ok(RegionStatusResponse { region: "eu-1".into(), peers: vec![peer] }), ..Sample::of(at, status) }
}

pub(super) fn app(rows: u64) -> App {
    let start = Instant::now();
    let mut app = App::new("http://127.0.0.1:8502", true, sample(start, 1, rows));
    app.take(sample(start + Duration::from_secs(2), 3, rows));
    app
}

pub(super) fn key(app: &mut App, code: KeyCode) -> Flow {
    press(app, KeyEvent::new(code, KeyModifiers::NONE))
}

pub(super) fn typed(app: &mut App, text: &str) {
    for letter in text.chars() {
        assert_eq!(key(app, KeyCode::Char(letter)), Flow::GoOn);
    }
}

pub(super) fn terminal(app: &mut App, (width, height): (u16, u16)) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app)).unwrap();
    terminal
}

/// The lines of a frame.
pub(super) fn lines(app: &mut App, size: (u16, u16)) -> Vec<String> {
    let terminal = terminal(app, size);
    let buffer = terminal.backend().buffer();
    let line = |y| (0..size.0).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..size.1).map(line).collect()
}

/// The text of a frame.
pub(super) fn page(app: &mut App, size: (u16, u16)) -> String {
    lines(app, size).join("\n")
}

/// The reversed letters of a frame: the tab that is shown.
pub(super) fn selected(app: &mut App, size: (u16, u16)) -> String {
    let terminal = terminal(app, size);
    let cells = terminal.backend().buffer().content().iter();
    cells.filter(|cell| cell.modifier.contains(Modifier::REVERSED)).map(|cell| cell.symbol()).collect()
}
