use std::fs;

use super::*;
use crate::{chain::HEAD, files::RotatingFile};

/// A log in `dir`: closed files of one or two records each, then the current file with the rest.
fn log(dir: &Path, records: usize) -> RotatingFile {
    // A record takes about 95 bytes.
    let mut files = RotatingFile::open(dir, 150, 100).unwrap();
    write(&mut files, 0..records);
    files
}

fn write(files: &mut RotatingFile, records: std::ops::Range<usize>) {
    for i in records {
        files.append(&[format!("{{\"line\":{i}}}\n")]).unwrap();
    }
    files.sync().unwrap();
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(|line| format!("{line}\n")).collect()
}

fn broken(paths: &[PathBuf]) -> (String, u64, String) {
    match verify(paths) {
        Err(VerifyError::Broken { path, line, fault }) => {
            (path.file_name().unwrap().to_str().unwrap().to_owned(), line, fault)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_whole_chain_goes_through_files_restarts_moves_and_unfinished_lines() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_owned();
    drop(log(&dir, 5));
    let whole = verify(std::slice::from_ref(&dir)).unwrap();
    assert_eq!((whole.records, whole.first, whole.last, whole.has_head), (5, 1, 5, true));
    assert!(whole.files > 2, "{whole:?}");
    // A restart, then a kill in a line.
    let mut files = RotatingFile::open(&dir, 100_000, 100).unwrap();
    write(&mut files, 5..8);
    let current = dir.join(CURRENT);
    let mut text = fs::read(&current).unwrap();
    text.extend_from_slice(b"{\"time\":\"hal");
    fs::write(&current, text).unwrap();
    assert!(verify(std::slice::from_ref(&dir)).unwrap().ends_unfinished);
    files = RotatingFile::open(&dir, 100_000, 100).unwrap();
    write(&mut files, 8..10);
    let whole = verify(std::slice::from_ref(&dir)).unwrap();
    assert_eq!((whole.last, whole.unfinished, whole.ends_unfinished), (10, 1, false));
    // A sink gets whole lines only.
    let copy = dir.join("copy");
    let text = fs::read_to_string(&current).unwrap();
    fs::write(
        &copy,
        text.lines().filter(|line| line.ends_with('}')).map(|line| format!("{line}\n")).collect::<String>(),
    )
    .unwrap();
    let found = verify(std::slice::from_ref(&copy)).unwrap();
    assert_eq!((found.last, found.unfinished, found.unfinished_elsewhere), (10, 0, 1));
    // logrotate moves the file, also while no server runs.
    let moved = dir.join("moved.1");
    fs::rename(&current, &moved).unwrap();
    write(&mut files, 10..12);
    let away = dir.join("moved.2");
    fs::rename(&current, &away).unwrap();
    files = RotatingFile::open(&dir, 100_000, 100).unwrap();
    write(&mut files, 12..13);
    assert_eq!(verify(&[away.clone(), dir.clone(), moved.clone()]).unwrap().records, 13, "in any order");
    let (file, line, fault) = broken(std::slice::from_ref(&dir));
    assert_eq!((&*file, line), (CURRENT, 1), "{fault}");
    assert!(fault.contains(" to 12 are missing before it"), "{fault}");
    // A removed file is a gap, and the chain goes on.
    fs::remove_file(&away).unwrap();
    assert_eq!(broken(&[moved, dir.clone()]).2, "records 11 to 12 are missing before it");
    // The oldest files go by themselves: the start is named.
    for path in closed_files(&dir).unwrap() {
        fs::remove_file(path).unwrap();
    }
    assert_eq!(verify(&[dir]).unwrap().first, 13);
}

#[test]
fn the_first_line_that_breaks_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let paths = [dir.path().to_owned()];
    let mut files = RotatingFile::open(dir.path(), 100_000, 2).unwrap();
    write(&mut files, 0..8);
    let current = dir.path().join(CURRENT);
    let all = lines(&current);
    let with = |change: &dyn Fn(&mut Vec<String>)| {
        let mut changed = all.clone();
        change(&mut changed);
        fs::write(&current, changed.concat()).unwrap();
        let (_, line, fault) = broken(&paths);
        (line, fault)
    };
    // Two lines are taken out, at any place.
    assert_eq!(with(&|all| drop(all.drain(3..5))), (4, "records 4 to 5 are missing before it".to_owned()));
    let (line, fault) = with(&|all| drop(all.drain(6..)));
    assert_eq!((line, &*fault), (6, "records 7 to 8 are missing behind it, at the end; audit.head names record 8"));
    fs::write(&current, all[2..].concat()).unwrap();
    assert_eq!(verify(&paths).unwrap().first, 3, "as if they were in an older file: the start is named");
    // Changed, exchanged, doubled, added.
    assert_eq!(with(&|all| all[3] = all[3].replace("line", "mine")).0, 5);
    assert_eq!(with(&|all| all[7] = all[7].replace("line", "mine")).0, 8);
    assert_eq!(with(&|all| all.swap(3, 4)).0, 4);
    let doubled = "it is record 4, but record 4 comes before it".to_owned();
    assert_eq!(with(&|all| all.insert(4, all[3].clone())), (5, doubled));
    assert_eq!(with(&|all| all.insert(4, "{\"line\":9}\n".to_owned())).0, 5);
    assert_eq!(with(&|all| all.insert(4, "noise\n".to_owned())).0, 5);
    assert_eq!(with(&|all| all.push("noise\n".to_owned())).0, 9);
    assert_eq!(with(&|all| all[4] = all[4].replace("\"prev\"", "\"prep\"")).0, 5);
    assert_eq!(with(&|all| all[4].truncate(20)).0, 5);
    let long = "x".repeat(3 * MAX_LINE_BYTES as usize) + "\n";
    assert_eq!(with(&|all| all.insert(2, long.clone())).0, 3);
    // A chain that begins again.
    let (line, fault) = with(&|all| all.extend(all.clone()));
    assert!(line == 9 && fault.starts_with("a new chain begins"), "{fault}");
    fs::write(&current, all.concat()).unwrap();
    assert_eq!(verify(&paths).unwrap().records, 8);
}

#[test]
fn a_server_notices_removed_lines_and_the_gap_stays() {
    let dir = tempfile::tempdir().unwrap();
    let paths = [dir.path().to_owned()];
    let mut files = RotatingFile::open(dir.path(), 100_000, 2).unwrap();
    write(&mut files, 0..4);
    let current = dir.path().join(CURRENT);
    let all = lines(&current);
    fs::write(&current, all[..2].concat()).unwrap();
    files = RotatingFile::open(dir.path(), 100_000, 2).unwrap();
    write(&mut files, 4..6);
    assert_eq!(broken(&paths).2, "records 3 to 4 are missing before it");
    // Without audit.head the end cannot be compared.
    fs::write(&current, all.concat()).unwrap();
    fs::remove_file(dir.path().join(HEAD)).unwrap();
    assert!(!verify(&paths).unwrap().has_head);
}

#[test]
fn lines_of_a_release_without_chain_come_first() {
    let dir = tempfile::tempdir().unwrap();
    let current = dir.path().join(CURRENT);
    let long = "x".repeat(3 * MAX_LINE_BYTES as usize);
    fs::write(&current, format!("{long}\n{{\"old\":1}}\n{{\"old\":2}}\n{{\"ol")).unwrap();
    let mut files = RotatingFile::open(dir.path(), 10 * MAX_LINE_BYTES, 2).unwrap();
    write(&mut files, 0..2);
    let paths = [dir.path().to_owned()];
    let whole = verify(&paths).unwrap();
    assert_eq!((whole.before_chain, whole.first, whole.last), (4, 1, 2));
    let text = fs::read_to_string(&current).unwrap().replace("\"old\":2", "\"old\":3");
    fs::write(&current, text).unwrap();
    assert_eq!(broken(&paths).1, 5);
    let none = dir.path().join("none");
    fs::create_dir(&none).unwrap();
    assert!(matches!(verify(&[none]), Err(VerifyError::Empty(_))));
    assert!(matches!(verify(&[dir.path().join("absent")]), Err(VerifyError::File(_))));
}

/// Power fails between a record and its line feed.
#[test]
fn a_record_without_its_line_feed_is_a_record() {
    let dir = tempfile::tempdir().unwrap();
    let paths = [dir.path().to_owned()];
    drop(log(dir.path(), 3));
    let current = dir.path().join(CURRENT);
    let text = fs::read(&current).unwrap();
    fs::write(&current, text.trim_ascii_end()).unwrap();
    fs::remove_file(dir.path().join(HEAD)).unwrap();
    let cut = verify(&paths).unwrap();
    assert_eq!((cut.last, cut.ends_unfinished), (3, false));
    let mut files = RotatingFile::open(dir.path(), 100_000, 100).unwrap();
    write(&mut files, 3..5);
    let whole = verify(&paths).unwrap();
    assert_eq!((whole.records, whole.last, whole.unfinished), (5, 5, 0));
    assert!(lines(&current).iter().all(|line| line.ends_with("}\n")));
}

#[test]
fn an_unfinished_line_of_a_file_that_takes_the_name_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut files = RotatingFile::open(dir.path(), 100_000, 100).unwrap();
    write(&mut files, 0..2);
    let current = dir.path().join(CURRENT);
    fs::rename(&current, dir.path().join("audit-0.jsonl")).unwrap();
    fs::write(&current, "{\"time\":\"hal").unwrap();
    write(&mut files, 2..4);
    let whole = verify(&[dir.path().to_owned()]).unwrap();
    assert_eq!((whole.files, whole.last, whole.unfinished), (2, 4, 1));
}
