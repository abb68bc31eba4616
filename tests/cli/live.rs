//! `get --watch` and `controllers --watch`: tables on a terminal that are kept up to date, and lines elsewhere.

use tokio::{io::AsyncReadExt as _, time::timeout};

use crate::support::{
    PATIENCE, Server, Setup, album, artist, controllers::report_until, id, terminal::OnTerminal, transcript::Transcript,
};

/// The sequences that a terminal gets at the end of a page: the other screen, and the cursor.
const LEFT: [&str; 2] = ["\x1b[?1049l", "\x1b[?25h"];

#[tokio::test]
async fn a_watch_on_a_terminal_is_a_table_that_q_ends() {
    let server = Server::start().await;
    let t = Transcript::new("live", &server);
    for n in 0..140 {
        server.write(artist(&format!("a{n:03}"))).await.unwrap();
    }
    let mut page = OnTerminal::start(t.command(&["get", "artists", "-w"]), 80, 24);
    page.shows("1-20 of 140").await;
    let screen = page.screen();
    let lines: Vec<&str> = screen.lines().collect();
    assert!(lines[0].starts_with("demo.v2.Artist at http://"), "{screen}");
    assert!(lines[1].starts_with("NAME   ARTIST     GENRE        AGE"), "{screen}");
    assert!(lines[2].starts_with("a000   The a000   GENRE_JAZZ") && lines[21].starts_with("a019"), "{screen}");
    assert_eq!((lines.len(), lines[22]), (24, "… 120 more"), "{screen}");
    assert!(lines[23].starts_with("q quit") && page.is_raw(), "{screen}");
    // A new first row, then its end; the others stay.
    server.write(artist("a00")).await.unwrap();
    page.until("a new row", |screen| screen.contains("\na00 ") && screen.contains("… 121 more")).await;
    server.delete(&id("demo.v2.Artist", "a00"), "").await.unwrap();
    page.until("no such row", |screen| !screen.contains("\na00 ") && screen.contains("… 120 more")).await;
    // The filter, and the rest of the rows.
    page.keys("/a13");
    page.shows("1-10 of 10").await;
    page.keys("\x15\r");
    page.shows("1-20 of 140").await;
    page.keys("\x1b[F");
    page.shows("121-140 of 140").await;
    page.keys("q");
    assert_eq!(page.ended().await, Some(0));
    assert!(!page.is_raw() && LEFT.iter().all(|part| page.drawn().contains(part)));
}

#[tokio::test]
async fn the_terminal_is_restored_whatever_ends_the_table() {
    let server = Server::start().await;
    let t = Transcript::new("live_ends", &server);
    server.write(artist("first")).await.unwrap();
    let args = ["get", "artists", "--watch"];
    let shown = async || {
        let page = OnTerminal::start(t.command(&args), 80, 24);
        page.shows("1-1 of 1").await;
        assert!(page.is_raw());
        page
    };
    let mut by_key = shown().await;
    by_key.keys("\x03");
    assert_eq!(by_key.ended().await, Some(130));
    let mut pages = vec![by_key];
    for signal in ["-TERM", "-HUP", "-INT"] {
        let mut page = shown().await;
        let pid = page.pid().to_string();
        assert!(std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success());
        assert_eq!(page.ended().await, Some(130), "{signal}");
        pages.push(page);
    }
    for page in &pages {
        assert!(!page.is_raw() && LEFT.iter().all(|part| page.drawn().contains(part)));
    }
    // Colours only where they are wanted.
    assert!(pages[0].drawn().contains("\x1b[38;5;"), "{}", pages[0].drawn());
    let mut plain = t.command(&args);
    plain.env("NO_COLOR", "1");
    let mut plain = OnTerminal::start(plain, 80, 24);
    plain.shows("1-1 of 1").await;
    plain.keys("q");
    assert_eq!(plain.ended().await, Some(0));
    assert!(!plain.drawn().contains("38;5;"), "{}", plain.drawn());
}

#[tokio::test]
async fn texts_of_resources_do_not_reach_the_terminal_as_controls() {
    let server = Server::start().await;
    let mut hostile = artist("evil");
    let data = crate::support::demo::v2::Artist {
        name: "safe\u{202e}txet\u{2066}\u{9b}31m\u{1b}[31m".into(),
        ..Default::default()
    };
    hostile.data = Some(crate::support::any("hashicorp.consul.internal.demo.v2.Artist", &data));
    server.write(hostile).await.unwrap();
    let t = Transcript::new("live_hostile", &server);
    let mut page = OnTerminal::start(t.command(&["get", "artists", "-w"]), 80, 24);
    page.shows("safe txet").await;
    page.keys("q");
    assert_eq!(page.ended().await, Some(0));
    let hostile = ['\u{202e}', '\u{2066}', '\u{9b}'];
    assert!(!page.drawn().contains(hostile) && !page.drawn().contains("\u{1b}[31m"));
    // The other formats, too; a file gets the text as it is.
    for format in ["table", "yaml", "json", "jsonpath={.data.name}", "go-template={{.data.name}}"] {
        let mut shown = OnTerminal::start(t.command(&["get", "artist", "evil", "-o", format]), 80, 24);
        assert_eq!(shown.ended().await, Some(0));
        shown.shows("txet").await;
        assert!(
            !shown.drawn().contains(hostile) && !shown.drawn().contains("\u{1b}[31m"),
            "{format}: {}",
            shown.drawn()
        );
    }
    let raw = t.command(&["get", "artist", "evil", "-o", "jsonpath={.data.name}"]).output().await.unwrap();
    assert_eq!(String::from_utf8(raw.stdout).unwrap(), data.name);
}

#[tokio::test]
async fn a_table_names_a_server_that_went_away_and_goes_on_when_it_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().data_dir(dir.path()).start().await;
    let (grpc, http) = (server.grpc, server.http);
    server.write(artist("first")).await.unwrap();
    let t = Transcript::new("live_restart", &server);
    let mut pages = [
        &["get", "artists,albums", "-w"][..],
        &["get", "artists", "-w", "--sort-by", "id.name"],
        &["get", "artists", "-w", "-l", "!x"],
    ]
    .map(|args| OnTerminal::start(t.command(args), 120, 24));
    for page in &pages {
        page.shows("1-1 of 1").await;
    }
    assert!(server.stop().await.success());
    for page in &pages {
        page.shows("trying again").await;
        assert!(page.screen().contains("first"), "the rows stay: {}", page.screen());
    }
    let server = Setup::new().data_dir(dir.path()).addrs(grpc, http).start().await;
    server.delete(&id("demo.v2.Artist", "first"), "").await.unwrap();
    server.write(artist("second")).await.unwrap();
    server.write(album("third", None)).await.unwrap();
    for page in &mut pages {
        page.until("the new state", |screen| {
            screen.contains("second") && !screen.contains("first") && !screen.contains("trying again")
        })
        .await;
    }
    pages[0].shows("demo.v2.Album/third").await;
    for page in &mut pages {
        page.keys("q");
        assert_eq!(page.ended().await, Some(0));
    }
}

#[tokio::test]
async fn lines_are_printed_on_a_terminal_when_they_are_wanted() {
    let server = Server::start().await;
    let t = Transcript::new("live_lines", &server);
    server.write(artist("first")).await.unwrap();
    for args in [&["get", "artists", "-w", "--lines"][..], &["get", "artists", "-w", "-o", "name"]] {
        let mut lines = OnTerminal::start(t.command(args), 80, 24);
        lines.shows("present").await;
        server.write(artist("second")).await.unwrap();
        lines.shows("written").await;
        server.delete(&id("demo.v2.Artist", "second"), "").await.unwrap();
        lines.shows("deleted").await;
        assert!(!lines.is_raw() && !lines.drawn().contains("\x1b[?1049h"), "{}", lines.drawn());
        let pid = lines.pid().to_string();
        assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        assert_eq!(lines.ended().await, Some(130));
    }
}

/// The output of a command off a terminal, once it has these texts; after each, `act` is called with its number.
async fn piped(t: &Transcript, args: &[&str], mut act: impl AsyncFnMut(usize), texts: &[&str]) -> String {
    let mut child = t.command(args).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut seen = String::new();
    for (step, text) in texts.iter().enumerate() {
        let mut buffer = [0; 4096];
        while !seen.contains(text) {
            let read = timeout(PATIENCE, out.read(&mut buffer)).await.expect("in time").unwrap();
            assert!(read > 0, "ended: {seen}");
            seen.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
        }
        act(step).await;
    }
    let pid = child.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(timeout(PATIENCE, child.wait()).await.unwrap().unwrap().code(), Some(130));
    seen
}

#[tokio::test]
async fn several_types_are_watched_beside_each_other() {
    let server = Server::start().await;
    let t = Transcript::new("live_types", &server);
    server.write(artist("first")).await.unwrap();
    server.write(album("other", None)).await.unwrap();
    // Once both watches have shown what was there, an album is written.
    let write = async |step: usize| {
        if step == 1 {
            server.write(album("second", None)).await.unwrap();
        }
    };
    for (args, texts) in [
        (
            &["get", "artists,albums", "-w"][..],
            ["present   demo.v2.Artist/first", "present   demo.v2.Album/other", "written   demo.v2.Album/second"],
        ),
        (
            &["get", "artists,albums", "-w", "-l", "!x", "-o", "name"],
            ["Artist/first present", "Album/other present", "Album/second written"],
        ),
        // The watch of an album that is not there yet shows nothing: it may be there when the watch begins.
        (
            &["get", "artist/first", "album/other", "album/second", "-w", "-o", "json"],
            ["\"name\":\"first\"", "\"name\":\"other\"", "\"name\":\"second\""],
        ),
    ] {
        let seen = piped(&t, args, write, &texts).await;
        assert!(!seen.contains("resumeToken"), "no token continues both: {seen}");
        server.delete(&id("demo.v2.Album", "second"), "").await.unwrap();
    }
}

#[tokio::test]
async fn controllers_are_followed_in_a_table_and_in_lines() {
    let server = Setup::new().guest("reconcile-copy").start().await;
    report_until(&server, "reconcile-copy/copies", |seen| seen.state == "Running").await;
    let t = Transcript::new("live_controllers", &server);
    let args = ["controllers", "-w", "--interval", "100ms", "--plugin", "reconcile-copy"];
    let mut page = OnTerminal::start(t.command(&args), 120, 24);
    page.shows("reconcile-copy/copies").await;
    let screen = page.screen();
    assert!(screen.contains("RECONCILES") && screen.contains("controllers at http://"), "{screen}");
    page.keys("q");
    assert_eq!(page.ended().await, Some(0));
    let number = mortise_test_guests::Thing { number: 1, ..Default::default() };
    let write = async |step: usize| {
        if step == 0 {
            server.write(crate::support::thing("reconcile_copy", "a", &number)).await.unwrap();
        }
    };
    let seen = piped(&t, &args, write, &["reconcile-copy/copies   ", "\nreconcile-copy/copies   "]).await;
    assert!(seen.starts_with("NAME "), "{seen}");
    let args = [&args[..], &["-o", "json"]].concat();
    let seen = piped(&t, &args, async |_| {}, &["\n"]).await;
    let report: serde_json::Value = serde_json::from_str(seen.lines().next().unwrap()).unwrap();
    assert_eq!(report["name"], "reconcile-copy/copies");
}
