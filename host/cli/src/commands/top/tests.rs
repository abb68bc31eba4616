//! The page on terminals of several sizes.

use std::time::{Duration, Instant};

use mortise_resource::data::ServerStatusResponse;
use ratatui::{
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    style::Color,
};

use super::{
    app::{App, Mode},
    fixtures::{SIZES, app, key, lines, page, sample, selected, terminal, typed},
    keys::{Flow, HELP, press},
    sample::{MAX_HISTORY, Sample, Span, Times},
    sheet::MAX_ROWS,
    tabs::{Tab, short},
};

#[test]
fn the_page_shows_the_server_its_figures_and_the_requests_of_both_ports() {
    for size in [(80, 24), (120, 40), (200, 50)] {
        let page = page(&mut app(3), size);
        for expected in [
            "mortise 1.2.3 (serve) at http://127.0.0.1:8502, up",
            "25% cpu, 3.00 MiB memory",
            "62.0 requests/s, 20.0 changes/s, version 60, watches 3 of 100",
            "warning: the store refuses writes (and 1 more)",
            "requests/s 62.0",
            "REQ/S▼",
            "ResourceService/Write",
            "HTTP",
            "/api",
            "1-3 of 3",
            "? help",
        ] {
            assert!(page.contains(expected), "{expected} at {size:?}:\n{page}");
        }
    }
}

#[test]
fn rates_quantiles_faults_and_codes_have_columns() {
    let page = page(&mut app(3), (200, 50));
    let write = page.lines().find(|line| line.contains("ResourceService/Write")).unwrap();
    let words: Vec<_> = write.split_whitespace().collect();
    let expected = [
        "gRPC",
        "hashicorp.consul.resource.ResourceService/Write",
        "50.0",
        "5.6ms",
        ">10ms",
        "5.0",
        "150",
        "NotFound",
        "15,",
        "OK",
        "135",
    ];
    // Of 100 answers two are beyond the last bound.
    assert_eq!(words, expected, "{page}");
    let api = page.lines().find(|line| line.contains("/api")).unwrap();
    assert_eq!(
        api.split_whitespace().collect::<Vec<_>>(),
        ["HTTP", "/api", "2.0", "-", "-", "1.0", "6", "200", "3,", "404", "3"]
    );
}

#[test]
fn each_tab_is_chosen_by_number_and_in_turn() {
    let mut app = app(3);
    for (digit, name, shown) in [
        ('1', " 1 Requests ", "ResourceService/Read"),
        ('2', " 2 Plugins ", "Serving"),
        ('3', " 3 Controllers ", "demo/albums"),
        ('4', " 4 Types ", "demo.Kind00002"),
        ('5', " 5 Watches ", "100%"),
        ('6', " 6 Regions ", "demo.v2.Album"),
    ] {
        key(&mut app, KeyCode::Char(digit));
        for size in [(80, 24), (120, 40), (200, 50)] {
            assert_eq!(selected(&mut app, size), name);
            let page = page(&mut app, size);
            assert!(page.contains(shown), "{shown} at {size:?}:\n{page}");
        }
        assert_eq!(selected(&mut app, (20, 5)), name);
    }
    key(&mut app, KeyCode::Tab);
    assert_eq!(app.tab, Tab::Requests);
    key(&mut app, KeyCode::BackTab);
    assert_eq!(app.tab, Tab::Regions);
}

#[test]
fn rows_are_sorted_by_any_column_in_both_directions() {
    let mut app = app(20);
    key(&mut app, KeyCode::Char('4'));
    let first = |app: &mut App| {
        let lines = lines(app, (80, 24));
        let heading = lines.iter().position(|line| line.contains("RESOURCES")).unwrap();
        lines[heading + 1].split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(first(&mut app), "demo.Kind00019");
    key(&mut app, KeyCode::Char('S'));
    assert_eq!(first(&mut app), "demo.Kind00000");
    // The next columns: growth, watches, and the type again.
    key(&mut app, KeyCode::Char('s'));
    key(&mut app, KeyCode::Char('s'));
    key(&mut app, KeyCode::Char('S'));
    assert_eq!(first(&mut app), "demo.Kind00001");
    key(&mut app, KeyCode::Char('s'));
    assert_eq!(first(&mut app), "demo.Kind00019");
    // Each tab has its own order.
    key(&mut app, KeyCode::Char('1'));
    assert_eq!(app.order(), Tab::Requests.order());
}

#[test]
fn a_filter_is_typed_kept_and_cleared() {
    let mut app = app(300);
    typed(&mut app, "4/KIND0001");
    assert_eq!(app.mode, Mode::Filter);
    let text = page(&mut app, (80, 24));
    assert!(text.contains("filter: KIND0001_") && text.contains("of 10"), "{text}");
    key(&mut app, KeyCode::Enter);
    // Letters are commands again.
    typed(&mut app, "p");
    assert!(app.is_paused);
    assert!(page(&mut app, (80, 24)).contains("filter: KIND0001  (Esc clears)"));
    assert_eq!(key(&mut app, KeyCode::Esc), Flow::GoOn);
    assert_eq!(app.positions.len(), 300);
    typed(&mut app, "/no such row");
    assert!(page(&mut app, (80, 24)).contains("no rows"));
    key(&mut app, KeyCode::Backspace);
    assert_eq!(app.filter(), "no such ro");
    key(&mut app, KeyCode::Esc);
    assert_eq!((app.mode, app.filter()), (Mode::Commands, ""));
    typed(&mut app, "/");
    typed(&mut app, &"x".repeat(1_000));
    assert_eq!(app.filter().len(), 100);
}

#[test]
fn a_pause_holds_the_figures_and_the_history_goes_on() {
    let mut app = app(3);
    key(&mut app, KeyCode::Char(' '));
    app.take(sample(Instant::now() + Duration::from_secs(60), 1_000, 3));
    let text = page(&mut app, (80, 24));
    assert!(text.contains("paused") && text.contains("version 60,"), "{text}");
    key(&mut app, KeyCode::Char('p'));
    let text = page(&mut app, (80, 24));
    assert!(!text.contains("paused") && text.contains("version 20000,"), "{text}");
    assert_eq!(app.history.cpu.last(10).len(), 2);
}

#[test]
fn a_server_that_goes_away_is_named_and_comes_back() {
    let mut app = app(3);
    app.miss("status: lost the connection:\n\x1b[31mconnection refused");
    for size in SIZES {
        assert!(!page(&mut app, size).contains('\x1b'));
    }
    assert!(page(&mut app, (120, 40)).contains("no answer, trying again: status: lost the connection: "));
    assert!(page(&mut app, (80, 24)).contains("no answer, trying again: status: lost"));
    app.take(sample(Instant::now() + Duration::from_secs(9), 2, 3));
    assert!(!page(&mut app, (120, 40)).contains("no answer"));
}

#[test]
fn the_page_scrolls_within_its_rows() {
    let mut app = app(100);
    key(&mut app, KeyCode::Char('4'));
    let place =
        |app: &mut App| page(app, (80, 24)).lines().last().unwrap().split_whitespace().rev().nth(2).unwrap().to_owned();
    assert_eq!(place(&mut app), "1-14");
    key(&mut app, KeyCode::Down);
    assert_eq!(place(&mut app), "2-15");
    key(&mut app, KeyCode::PageDown);
    assert_eq!(place(&mut app), "15-28");
    key(&mut app, KeyCode::End);
    assert_eq!(place(&mut app), "87-100");
    key(&mut app, KeyCode::PageUp);
    key(&mut app, KeyCode::Up);
    assert_eq!(place(&mut app), "73-86");
    key(&mut app, KeyCode::Home);
    key(&mut app, KeyCode::Up);
    assert_eq!(place(&mut app), "1-14");
    // A taller frame has room for more.
    key(&mut app, KeyCode::End);
    assert!(page(&mut app, (80, 60)).contains("of 100"));
}

#[test]
fn keys_end_the_page_or_leave_it() {
    let control = |code| KeyEvent::new(code, KeyModifiers::CONTROL);
    let mut app = app(3);
    assert_eq!(key(&mut app, KeyCode::Char('?')), Flow::GoOn);
    let text = page(&mut app, (80, 24));
    assert!(text.contains("sort by the next column") && text.contains("quit"), "{text}");
    for (key, effect) in HELP {
        assert!(text.contains(key) && text.contains(effect), "{effect}:\n{text}");
    }
    // Any key ends the help, and does nothing else.
    assert_eq!(key(&mut app, KeyCode::Esc), Flow::GoOn);
    assert_eq!(key(&mut app, KeyCode::F(5)), Flow::GoOn);
    assert_eq!(key(&mut app, KeyCode::Char('q')), Flow::Quit);
    assert_eq!(key(&mut app, KeyCode::Esc), Flow::Quit);
    assert_eq!(press(&mut app, control(KeyCode::Char('c'))), Flow::Quit);
    typed(&mut app, "/q");
    assert_eq!(app.filter(), "q");
    assert_eq!(press(&mut app, control(KeyCode::Char('c'))), Flow::Quit);
}

#[test]
fn without_colours_there_are_none() {
    let mut app = app(3);
    app.color = false;
    app.miss("gone");
    for tab in Tab::ALL {
        app.open(tab);
        let terminal = terminal(&mut app, (120, 40));
        let mut cells = terminal.backend().buffer().content().iter();
        assert!(cells.all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    }
    app.color = true;
    let terminal = terminal(&mut app, (120, 40));
    assert!(terminal.backend().buffer().content().iter().any(|cell| cell.fg == Color::Red));
}

#[test]
fn names_cannot_change_the_terminal() {
    let mut app = app(3);
    key(&mut app, KeyCode::Char('2'));
    let page = page(&mut app, (120, 40));
    assert!(page.contains("de mo [2J"), "{page}");
    assert!(!page.contains(['\x1b', '\u{202e}']));
}

#[test]
fn any_size_has_a_page_with_many_rows_and_without_rows() {
    let start = Instant::now();
    let mut empty = App::new("", true, Sample::of(start, ServerStatusResponse::default()));
    empty.take(Sample::of(start, ServerStatusResponse::default()));
    let mut refused = App::new("", true, Sample::of(start, ServerStatusResponse::default()));
    refused.take(Sample { regions: Err("regions: denied".into()), ..sample(start, 1, 10_000) });
    for app in [&mut empty, &mut app(10_000), &mut refused] {
        for tab in Tab::ALL {
            app.open(tab);
            for size in SIZES {
                assert_eq!(lines(app, size).len(), usize::from(size.1));
            }
            for (width, height) in [(1, 1), (1, 50), (200, 1), (2, 2), (7, 3), (30, 13), (30, 19), (300, 100)] {
                for code in [KeyCode::End, KeyCode::Char('?'), KeyCode::Char('/'), KeyCode::Home] {
                    key(app, code);
                    lines(app, (width, height));
                }
                key(app, KeyCode::Esc);
                app.mode = Mode::Commands;
            }
        }
    }
    refused.open(Tab::Regions);
    assert!(page(&mut refused, (80, 24)).contains("regions: denied"));
}

#[test]
fn rows_and_history_are_bounded() {
    let mut app = app(MAX_ROWS as u64 + 5);
    key(&mut app, KeyCode::Char('4'));
    assert_eq!(app.sheet.rows.len(), MAX_ROWS);
    assert!(page(&mut app, (80, 24)).contains("5 more rows are left out"));
    let start = Instant::now();
    for n in 0..MAX_HISTORY as u64 + 9 {
        app.take(sample(start + Duration::from_secs(n), n, 1));
    }
    assert_eq!(app.history.memory.last(usize::MAX).len(), MAX_HISTORY);
}

#[test]
fn a_restarted_server_counts_from_zero() {
    let start = Instant::now();
    let (before, now) = (sample(start, 100, 1), sample(start + Duration::from_secs(2), 2, 1));
    let span = Span::between(&before, &now);
    assert_eq!((span.changes(), span.requests()), (20.0, 62.0));
    let times = Times::between(&now.status.requests[0], Some(&before.status.requests[0])).unwrap();
    assert_eq!(times, Times::all(&now.status.requests[0]));
    assert_eq!(Times::between(&now.status.requests[0], Some(&now.status.requests[0])), None);
}

#[test]
fn times_are_short() {
    for (micros, text) in [(7, "7µs"), (1_250, "1.2ms"), (25_000, "25ms"), (2_500_000, "2.5s"), (61_000_000, "61s")] {
        assert_eq!(short(Duration::from_micros(micros)), text);
    }
}
