//! Pages on terminals of several sizes.

use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    style::{Color, Modifier},
};

use super::{
    grid::{MAX_CELL, MAX_ROWS, Row, Section, Update},
    page::Page,
    view::draw,
};
use crate::{Cell, Exit, Style, Table};

const SIZES: [(u16, u16); 4] = [(80, 24), (120, 40), (200, 50), (20, 5)];

fn row(name: &str, genre: &str) -> Row {
    Row { cells: vec![name.into(), Cell::styled(Style::Good, genre), "1s".into()], age: None }
}

fn put(name: &str, genre: &str) -> Update {
    Update::Put(name.to_owned(), row(name, genre))
}

fn page(updates: impl IntoIterator<Item = Update>) -> Page {
    let columns = Table::new(["name", "genre", "age"]);
    let mut page = Page::new("artists at http://x", vec![Section::new(&columns, Some(2), "artists")], true);
    updates.into_iter().for_each(|update| page.apply((0, update)));
    page
}

fn many(count: usize) -> Page {
    let rows = (0..count).map(|n| put(&format!("artist-{n:05}"), "METAL"));
    page([Update::Begin].into_iter().chain(rows).chain([Update::Complete]))
}

fn terminal(page: &mut Page, (width, height): (u16, u16)) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, page)).unwrap();
    terminal
}

fn lines(page: &mut Page, size: (u16, u16)) -> Vec<String> {
    let terminal = terminal(page, size);
    let buffer = terminal.backend().buffer();
    let line = |y| (0..size.0).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..size.1).map(line).collect()
}

fn text(page: &mut Page, size: (u16, u16)) -> String {
    lines(page, size).join("\n")
}

fn press(page: &mut Page, code: KeyCode) -> Option<Exit> {
    page.press(KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn rows_change_in_their_place_and_columns_stay() {
    let mut page = page([Update::Begin, put("b", "METAL"), put("a", "POP"), Update::Complete]);
    let before = lines(&mut page, (80, 24));
    assert_eq!(before[0], "artists at http://x");
    assert_eq!(before[1], "NAME   GENRE   AGE");
    assert_eq!(before[2], "a      POP     1s");
    assert_eq!(before[3], "b      METAL   1s");
    assert!(before[23].starts_with("q quit") && before[23].ends_with("1-2 of 2"), "{before:?}");
    page.apply((0, put("a", "A LONG GENRE")));
    assert_eq!(lines(&mut page, (80, 24))[2], "a      A LONG GENRE   1s");
    page.apply((0, put("a", "POP")));
    assert_eq!(lines(&mut page, (80, 24))[2], "a      POP            1s", "the column does not become narrower");
    page.apply((0, Update::Remove("a".into())));
    assert_eq!(lines(&mut page, (80, 24))[2], "b      METAL          1s");
}

#[test]
fn what_changes_stands_out_and_what_was_there_does_not() {
    let mut page = page([Update::Begin, put("a", "POP"), put("b", "POP"), Update::Complete]);
    let marked = |page: &mut Page| {
        let terminal = terminal(page, (80, 24));
        let cells = terminal.backend().buffer().content().iter();
        cells.filter(|cell| cell.modifier.contains(Modifier::REVERSED)).map(|cell| cell.symbol()).collect::<String>()
    };
    assert_eq!(marked(&mut page), "");
    page.apply((0, put("a", "POP")));
    assert_eq!(marked(&mut page), "", "the same content");
    page.apply((0, put("b", "METAL")));
    page.apply((0, put("c", "METAL")));
    assert_eq!(marked(&mut page), "bc");
}

#[test]
fn a_state_that_comes_again_removes_what_is_gone() {
    let mut page = page([Update::Begin, put("a", "POP"), put("b", "POP"), Update::Complete]);
    page.apply((0, Update::Fault("no changes, trying again: gone".into())));
    assert!(lines(&mut page, (80, 24))[0].contains("no changes, trying again: gone"));
    page.apply((0, Update::Begin));
    page.apply((0, put("b", "METAL")));
    assert!(text(&mut page, (80, 24)).contains("a      POP"), "the old state stays until the new one is complete");
    page.apply((0, Update::Complete));
    let lines = lines(&mut page, (80, 24));
    assert_eq!((lines[0].as_str(), lines[2].as_str()), ("artists at http://x", "b      METAL   1s"));
    page.apply((0, Update::Whole(vec![("1".into(), row("z", "POP"))])));
    assert!(text(&mut page, (80, 24)).contains("1-1 of 1"));
}

#[test]
fn more_rows_than_the_screen_are_counted_and_reached_by_keys() {
    let mut page = many(140);
    let seen = lines(&mut page, (80, 24));
    assert_eq!((seen[2].as_str(), seen[22].as_str()), ("artist-00000   METAL   1s", "… 120 more"), "{seen:?}");
    assert!(seen[23].ends_with("1-20 of 140"), "{seen:?}");
    press(&mut page, KeyCode::PageDown);
    assert!(lines(&mut page, (80, 24))[23].ends_with("20-39 of 140"));
    press(&mut page, KeyCode::End);
    let seen = lines(&mut page, (80, 24));
    assert!(seen[23].ends_with("121-140 of 140") && !seen.join("\n").contains("more"), "{seen:?}");
    press(&mut page, KeyCode::Home);
    press(&mut page, KeyCode::Down);
    assert!(lines(&mut page, (80, 24))[23].ends_with("2-21 of 140"));
}

#[test]
fn a_filter_is_typed_kept_and_cleared() {
    let mut page = many(140);
    for letter in "/ARTIST-0000".chars() {
        assert_eq!(press(&mut page, KeyCode::Char(letter)), None);
    }
    let seen = text(&mut page, (80, 24));
    assert!(seen.contains("filter: ARTIST-0000_") && seen.contains("1-10 of 10"), "{seen}");
    press(&mut page, KeyCode::Char('q'));
    assert!(text(&mut page, (80, 24)).contains("no artists with this text"));
    press(&mut page, KeyCode::Backspace);
    press(&mut page, KeyCode::Enter);
    assert!(text(&mut page, (80, 24)).contains("filter: ARTIST-0000  (Esc clears)"));
    assert_eq!(press(&mut page, KeyCode::Esc), None);
    assert!(text(&mut page, (80, 24)).contains("of 140"));
}

#[test]
fn keys_end_the_page() {
    let mut page = many(1);
    assert_eq!(press(&mut page, KeyCode::F(5)), None);
    assert_eq!(press(&mut page, KeyCode::Char('q')), Some(Exit::Done));
    assert_eq!(press(&mut page, KeyCode::Esc), Some(Exit::Done));
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(page.press(interrupt), Some(Exit::Interrupted));
    press(&mut page, KeyCode::Char('/'));
    assert_eq!(page.press(interrupt), Some(Exit::Interrupted));
}

#[test]
fn rows_beyond_the_bound_are_counted() {
    let mut page = many(MAX_ROWS + 7);
    let seen = text(&mut page, (80, 24));
    assert!(seen.contains("7 artists left out") && seen.contains(&format!("of {MAX_ROWS}")), "{seen}");
    // One in front of the others takes the place of the last.
    page.apply((0, put("a", "POP")));
    let seen = text(&mut page, (80, 24));
    assert!(seen.contains("8 artists left out") && seen.contains("a              POP"), "{seen}");
    page.apply((0, put("zz", "POP")));
    page.apply((0, put("zz", "METAL")));
    assert!(text(&mut page, (80, 24)).contains("9 artists left out"));
    page.apply((0, Update::Remove("zz".into())));
    assert!(text(&mut page, (80, 24)).contains("8 artists left out"));
    page.apply((0, put("aa", &"x".repeat(100_000))));
    let kept = page.sections[0].matching("xxx").next().unwrap().0.cells[1].text().chars().count();
    assert_eq!(kept, MAX_CELL);
}

#[test]
fn columns_without_room_are_named_and_the_name_stays() {
    let mut page = page([Update::Begin, put(&"n".repeat(70), "METAL"), Update::Complete]);
    let seen = text(&mut page, (80, 24));
    assert!(seen.contains(&"n".repeat(70)) && seen.contains("… no room for AGE"), "{seen}");
    let seen = text(&mut page, (40, 10));
    assert!(seen.contains(&format!("{}…", "n".repeat(39))) && seen.contains("no room for GENRE, AGE"), "{seen}");
}

#[test]
fn optional_columns_appear_with_their_first_text() {
    let columns = Table::new(["name", "genre", "age"]).with_optional(vec![1]);
    let mut page = Page::new("x", vec![Section::new(&columns, None, "artists")], true);
    page.apply((0, put("a", "")));
    assert_eq!(lines(&mut page, (80, 24))[1], "NAME   AGE");
    page.apply((0, put("a", "POP")));
    assert_eq!(lines(&mut page, (80, 24))[1], "NAME   GENRE   AGE");
    page.apply((0, put("a", "")));
    assert_eq!(lines(&mut page, (80, 24))[1], "NAME   GENRE   AGE", "it stays");
}

#[test]
fn tables_of_several_types_stand_below_each_other() {
    let sections = vec![
        Section::new(&Table::new(["name", "genre", "age"]), None, "artists"),
        Section::new(&Table::new(["name", "title"]), None, "albums"),
        Section::new(&Table::new(["name"]), None, "labels"),
    ];
    let mut page = Page::new("all", sections, true);
    for n in 0..30 {
        page.apply((0, put(&format!("artist/{n:02}"), "POP")));
        let album = Row { cells: vec![format!("album/{n:02}").into(), "x".into()], age: None };
        page.apply((1, Update::Put(format!("{n:02}"), album)));
    }
    assert!(text(&mut page, (80, 24)).contains("loading"));
    (0..3).for_each(|section| page.apply((section, Update::Complete)));
    // Rows of the first round stay.
    let seen = lines(&mut page, (80, 24));
    assert_eq!(seen[1], "NAME        GENRE   AGE");
    press(&mut page, KeyCode::PageDown);
    press(&mut page, KeyCode::PageDown);
    let seen = lines(&mut page, (80, 24));
    assert_eq!(seen[1], "NAME       TITLE", "the headings are those of the first row: {seen:?}");
    press(&mut page, KeyCode::End);
    let seen = text(&mut page, (80, 24));
    assert!(seen.contains("no labels") && seen.contains("of 60"), "{seen}");
    press(&mut page, KeyCode::Home);
    for _ in 0..70 {
        press(&mut page, KeyCode::Down);
        for size in SIZES {
            assert_eq!(lines(&mut page, size).len(), usize::from(size.1));
        }
    }
}

#[test]
fn names_cannot_change_the_terminal() {
    let mut page = page([Update::Begin, put("a\u{202e}b\x1b[2Jc\u{2066}", "POP"), Update::Complete]);
    page.apply((0, Update::Fault("gone\x1b[31m\u{202e}".into())));
    for size in SIZES {
        assert!(!text(&mut page, size).contains(['\x1b', '\u{202e}', '\u{2066}']));
    }
    assert!(text(&mut page, (80, 24)).contains("a b [2Jc"));
}

#[test]
fn without_colours_there_are_none() {
    let mut page = many(3);
    page.color = false;
    page.apply((0, Update::Fault("gone".into())));
    let shown = terminal(&mut page, (80, 24));
    assert!(shown.backend().buffer().content().iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    page.color = true;
    let shown = terminal(&mut page, (80, 24));
    assert!(shown.backend().buffer().content().iter().any(|cell| cell.fg == Color::Green));
}

#[test]
fn any_size_has_a_page() {
    for count in [0, 3, 500] {
        let mut page = many(count);
        for (width, height) in [(1, 1), (1, 50), (200, 1), (2, 2), (7, 3), (30, 4), (30, 9), (300, 100)] {
            for code in [KeyCode::End, KeyCode::Home, KeyCode::PageDown] {
                press(&mut page, code);
                assert_eq!(lines(&mut page, (width, height)).len(), usize::from(height));
            }
        }
    }
    assert!(text(&mut many(0), (80, 24)).contains("no artists"));
}
