use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};

use super::*;

const LIMIT: usize = 1 << 20;

/// Large enough for every test but those of the quota.
const ROOM: DirQuota = DirQuota { bytes: 1 << 30, files: 1_000 };

/// A granted directory; its parent holds a file that must stay out of reach.
struct TestDir {
    _top: tempfile::TempDir,
    inside: PathBuf,
    outside: PathBuf,
}

impl TestDir {
    fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        let (inside, outside) = (top.path().join("granted"), top.path().join("outside"));
        fs::create_dir(&inside).unwrap();
        fs::write(&outside, "out of bounds").unwrap();
        Self { _top: top, inside, outside }
    }

    fn folder(&self) -> GrantedDir {
        GrantedDir::open(&self.inside).unwrap()
    }

    fn write(&self, name: &str, content: &str) -> Result<(), Failure> {
        self.folder().write(name, content.as_bytes(), ROOM, soon(), || Ok(()))
    }

    fn everything(&self) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        fs::read_dir(&self.inside).unwrap().map(name).collect()
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

#[test]
fn a_file_is_written_whole_read_listed_and_removed() {
    let place = TestDir::new();
    assert_eq!(place.folder().read("b.conf", LIMIT).unwrap(), None);
    place.write("b.conf", "one").unwrap();
    place.write("b.conf", "two").unwrap();
    place.write("a.conf", "").unwrap();
    assert_eq!(place.folder().read("b.conf", LIMIT).unwrap().unwrap(), b"two");
    assert_eq!(place.folder().read("a.conf", LIMIT).unwrap().unwrap(), b"");
    assert_eq!(place.folder().list(LIMIT).unwrap(), ["a.conf", "b.conf"]);
    place.folder().remove("b.conf").unwrap();
    place.folder().remove("b.conf").unwrap();
    assert_eq!(place.everything(), ["a.conf"]);
}

#[test]
fn no_name_leads_out_of_the_directory() {
    let place = TestDir::new();
    let long = "x".repeat(256);
    let names = [
        "",
        ".",
        "..",
        "../outside",
        "a/b",
        "/etc/passwd",
        "a\0b",
        &long,
        ".mortise-tmp-x",
        "./b",
        "granted/../outside",
    ];
    for name in names {
        let folder = place.folder();
        for failure in [
            folder.read(name, LIMIT).unwrap_err(),
            folder.write(name, b"x", ROOM, soon(), || Ok(())).unwrap_err(),
            folder.remove(name).unwrap_err(),
        ] {
            assert_eq!(failure.code, 3, "{name:?}: {failure:?}");
            assert!(failure.message.contains("is not a file name"), "{failure:?}");
        }
    }
    assert_eq!(fs::read(&place.outside).unwrap(), b"out of bounds");
    assert_eq!(place.everything(), [""; 0]);
    place.write(&"x".repeat(255), "the longest name").unwrap();
    place.write("...", "a plain name").unwrap();
}

#[test]
fn links_are_not_followed() {
    let place = TestDir::new();
    symlink(&place.outside, place.inside.join("link")).unwrap();
    symlink(place.inside.parent().unwrap(), place.inside.join("up")).unwrap();
    for name in ["link", "up"] {
        assert_eq!(place.folder().read(name, LIMIT).unwrap_err().code, 9);
        assert_eq!(place.write(name, "over").unwrap_err().code, 9);
    }
    assert_eq!(place.folder().list(LIMIT).unwrap(), [""; 0], "links are no files");
    place.folder().remove("link").unwrap();
    assert_eq!(fs::read(&place.outside).unwrap(), b"out of bounds");
}

/// A user who can write into the directory may put a link where the next temporary file will be.
#[test]
fn a_link_in_the_way_of_the_temporary_file_is_removed_and_not_followed() {
    let place = TestDir::new();
    symlink(&place.outside, place.inside.join(temporary("a.conf"))).unwrap();
    place.write("a.conf", "new").unwrap();
    assert_eq!(fs::read(&place.outside).unwrap(), b"out of bounds");
    assert_eq!(fs::read(place.inside.join("a.conf")).unwrap(), b"new");
    assert_eq!(place.everything(), ["a.conf"]);
}

#[test]
fn what_is_no_regular_file_is_a_failure_and_not_a_wait() {
    let place = TestDir::new();
    fs::create_dir(place.inside.join("directory")).unwrap();
    let pipe = place.inside.join("pipe");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    for name in ["directory", "pipe"] {
        assert_eq!(place.folder().read(name, LIMIT).unwrap_err().code, 9, "{name}");
        assert_eq!(place.write(name, "x").unwrap_err().code, 9, "{name}");
    }
    assert_eq!(place.folder().remove("directory").unwrap_err().code, 9);
    assert_eq!(place.folder().list(LIMIT).unwrap(), [""; 0]);
}

#[test]
fn what_a_crash_left_is_hidden_and_goes_with_the_next_write_of_that_name() {
    let place = TestDir::new();
    for name in ["a.conf", "b.conf"] {
        fs::write(place.inside.join(temporary(name)), "half of it").unwrap();
    }
    assert_eq!(place.folder().list(LIMIT).unwrap(), [""; 0]);
    place.write("a.conf", "whole").unwrap();
    let mut left = place.everything();
    left.sort();
    assert_eq!(left, [temporary("b.conf"), "a.conf".to_owned()]);
}

#[test]
fn sizes_are_bounded() {
    let place = TestDir::new();
    place.write("a", "12345").unwrap();
    place.write("b", "1").unwrap();
    assert_eq!(place.folder().read("a", 5).unwrap().unwrap().len(), 5);
    let failure = place.folder().read("a", 4).unwrap_err();
    assert_eq!((failure.code, failure.message.contains("sandbox.reply_bytes")), (8, true), "{failure:?}");
    assert_eq!(place.folder().list(18).unwrap().len(), 2);
    assert_eq!(place.folder().list(17).unwrap_err().code, 8);
}

#[test]
fn a_file_keeps_its_mode() {
    let place = TestDir::new();
    let path = place.inside.join("a.key");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    place.write("a.key", "new").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read(&path).unwrap(), b"new");
}

#[test]
fn a_writer_waits_for_its_turn_and_no_longer_than_told() {
    let place = TestDir::new();
    let other = place.folder();
    other.take_turn("a", soon()).unwrap();
    let failure =
        place.folder().write("a", b"x", ROOM, Instant::now() + Duration::from_millis(20), || Ok(())).unwrap_err();
    assert_eq!(failure.code, 14, "{failure:?}");
    drop(other);
    place.write("a", "x").unwrap();
}

/// Readers see one of the written contents, whole, however many writers there are.
#[test]
fn readers_see_the_old_content_or_the_new() {
    let place = TestDir::new();
    let contents = ["a".repeat(100_000), "b".repeat(50_000)];
    place.write("shared", &contents[0]).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers = contents.each_ref().map(|content| {
            let place = &place;
            scope.spawn(move || (0..20).for_each(|_| place.write("shared", content).unwrap()))
        });
        let reader = scope.spawn(|| {
            let mut looks = 0;
            while !done.load(Ordering::Relaxed) {
                let seen = place.folder().read("shared", LIMIT).unwrap().unwrap();
                assert!(contents.iter().any(|content| content.as_bytes() == seen), "{} bytes", seen.len());
                looks += 1;
            }
            looks
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0);
    });
    assert_eq!(place.everything(), ["shared"]);
}

#[test]
fn a_directory_holds_so_much_and_no_more() {
    let place = TestDir::new();
    let quota = DirQuota { bytes: 10, files: 2 };
    let write = |name: &str, content: &str| place.folder().write(name, content.as_bytes(), quota, soon(), || Ok(()));
    fs::write(place.inside.join("the-operators"), "123").unwrap();
    write("a", "1234567").unwrap();
    // In the place of the old content, not beside it.
    write("a", "7654321").unwrap();
    let failure = write("a", "12345678").unwrap_err();
    assert_eq!(failure.code, 8);
    assert!(failure.message.contains("would hold 11 bytes, more than its limit of 10"), "{}", failure.message);
    let failure = write("b", "").unwrap_err();
    assert!(failure.message.contains("would hold 3 files"));
    assert_eq!(place.folder().read("a", LIMIT).unwrap().unwrap(), b"7654321", "a refusal changes nothing");
    place.folder().remove("a").unwrap();
    write("b", "1234567").unwrap();
}

#[test]
fn content_that_is_refused_leaves_everything_as_it_was() {
    let place = TestDir::new();
    place.write("a", "former").unwrap();
    let refuse = || Err(Failure::new(Code::InvalidArgument, "no"));
    assert_eq!(place.folder().write("a", b"new", ROOM, soon(), refuse).unwrap_err().message, "no");
    assert_eq!(place.folder().write("b", b"new", ROOM, soon(), refuse).unwrap_err().message, "no");
    assert_eq!(place.folder().read("a", LIMIT).unwrap().unwrap(), b"former");
    assert_eq!(place.everything(), ["a"]);
    // The turn of the directory is free again.
    place.write("b", "x").unwrap();
}
