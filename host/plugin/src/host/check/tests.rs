use super::*;

const KEY: &str = "plugin.p.grants.directories.out.check";

/// A directory with the files `a.conf` and `b.conf`.
fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.conf", "b.conf"] {
        fs::write(dir.path().join(name), format!("former {name}")).unwrap();
    }
    fs::write(dir.path().join(format!("{TEMPORARY_PREFIX}x")), "unfinished").unwrap();
    fs::create_dir(dir.path().join("inner")).unwrap();
    dir
}

/// Runs a script of the shell, with the paths of placeholders as `$1` and so on.
fn script(dir: &Path, text: &str, placeholders: &[&str], time: Duration) -> Result<(), Failure> {
    let command = ["sh", "-c", text, "sh"].iter().chain(placeholders).map(|part| (*part).to_owned()).collect();
    tried(dir, Check { command, config: None }, time)
}

fn tried(dir: &Path, check: Check, time: Duration) -> Result<(), Failure> {
    let candidate = Candidate { directory: dir, name: "b.conf", content: b"new b" };
    run(&check, &candidate, KEY, Instant::now() + time)
}

const LONG: Duration = Duration::from_secs(30);

#[test]
fn a_candidate_is_checked_beside_the_files_in_place() {
    let dir = directory();
    script(dir.path(), "grep -q 'new b' \"$1\" && cmp \"$1\" \"$2/b.conf\"", &["{file}", "{dir}"], LONG).unwrap();
    let text = "ls \"$1\"; cat \"$1\"/*; echo; echo \"$1/a.conf:7\"; echo \"in $(pwd)\"; pwd | grep -qx \"$2\" || echo other; exit 3";
    let refused = script(dir.path(), text, &["{dir}", "{temp}"], LONG).unwrap_err();
    assert_eq!(refused.code, 3);
    let says =
        "file \"b.conf\" was refused by \"sh\" (exit status: 3): a.conf; b.conf; former a.confnew b; a.conf:7; in ";
    assert!(refused.message.starts_with(says) && !refused.message.contains("other"), "{}", refused.message);
    let silent = script(dir.path(), "exit 1", &[], LONG).unwrap_err();
    assert!(silent.message.ends_with("(exit status: 1): it printed nothing"), "{}", silent.message);
    assert_eq!(fs::read_to_string(dir.path().join("b.conf")).unwrap(), "former b.conf");
}

#[test]
fn a_config_is_copied_with_the_paths_filled_in() {
    let dir = directory();
    let config = dir.path().join("inner/check.conf");
    fs::write(&config, "include {dir}/*.conf; pid {temp}/pid;").unwrap();
    let command = ["sh", "-c", "cat \"$1\"; exit 1", "sh", "{config}"].map(str::to_owned).to_vec();
    let check = Check { command, config: Some(config.clone()) };
    let refused = tried(dir.path(), check.clone(), LONG).unwrap_err();
    assert!(refused.message.contains("include *.conf; pid {temp}/pid;"), "{refused:?}");
    fs::write(&config, vec![b' '; 1 << 20]).unwrap();
    assert_eq!(tried(dir.path(), check.clone(), LONG).unwrap_err().code, 3);
    fs::write(&config, vec![b' '; (1 << 20) + 1]).unwrap();
    assert!(tried(dir.path(), check.clone(), LONG).unwrap_err().message.contains("more than 1048576 bytes"));
    fs::remove_file(&config).unwrap();
    let failed = tried(dir.path(), check, LONG).unwrap_err();
    let text = format!("its config cannot be copied: No such file or directory (os error 2); see {KEY} in config.toml");
    assert!(failed.code == 9 && failed.message.ends_with(&text), "{failed:?}");
}

#[test]
fn a_program_that_is_missing_is_named() {
    let dir = directory();
    let check = Check { command: vec!["no-such-program".into()], config: None };
    let failed = tried(dir.path(), check, LONG).unwrap_err();
    let text = format!(
        "file \"b.conf\" was not checked: the program \"no-such-program\" cannot be started: No such file or directory (os \
         error 2); see {KEY} in config.toml"
    );
    assert_eq!((failed.code, failed.message), (9, text));
}

/// Time of a program that hangs: enough for its start on a busy machine.
const HANG: Duration = Duration::from_secs(3);

#[test]
fn a_program_that_hangs_is_stopped_with_its_children() {
    let dir = directory();
    let (begun, mark) = (Instant::now(), dir.path().join("inner/pid"));
    let text = "sleep 1000 & echo $! > \"$1\"; while :; do echo on; done";
    let failed = script(dir.path(), text, &[&mark.display().to_string()], HANG).unwrap_err();
    assert_eq!(failed.code, 4);
    assert!(failed.message.starts_with("file \"b.conf\" was not checked: \"sh\" did not end in time"), "{failed:?}");
    assert!((HANG..LONG).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    let pid = fs::read_to_string(mark).unwrap();
    let is_alive = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    while is_alive() {
        assert!(begun.elapsed() < LONG, "the child {pid} goes on");
        pause(POLL_INTERVAL);
    }
}

/// A program of another user, which cannot be killed, ends by itself at some time.
#[test]
fn a_program_that_ends_late_is_reaped() {
    static LEFT: Left = Left(Mutex::new(Children { children: Vec::new(), is_reaped: false }));
    for _ in 0..2 {
        let mut ids = Vec::new();
        for _ in 0..MAX_LEFT {
            assert!(LEFT.has_room());
            let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
            ids.push(child.id());
            LEFT.add(child);
        }
        assert!(!LEFT.has_room(), "none has ended");
        let inputs: Vec<_> = LEFT.0.lock().children.iter_mut().map(|child| child.stdin.take()).collect();
        drop(inputs);
        let begun = Instant::now();
        while ids.iter().any(|id| Path::new(&format!("/proc/{id}")).exists()) {
            assert!(begun.elapsed() < LONG, "zombies are left");
            pause(POLL_INTERVAL);
        }
        while LEFT.0.lock().is_reaped {
            assert!(begun.elapsed() < LONG, "the thread goes on");
            pause(POLL_INTERVAL);
        }
    }
}

#[test]
fn of_much_output_the_end_is_kept() {
    let dir = directory();
    let text = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; printf 'a\\033[1mb\\n'; exit 1";
    let refused = script(dir.path(), text, &[], LONG).unwrap_err();
    assert!(refused.message.len() < 1_400 && refused.message.ends_with("line 19999; a?[1mb"), "{}", refused.message);
}

#[test]
fn a_program_has_no_secrets_of_the_server() {
    let dir = directory();
    let refused = script(dir.path(), "env | sed 's/=.*//' | sort | tr '\\n' ' '; exit 1", &[], LONG).unwrap_err();
    let (_, names) = refused.message.rsplit_once(": ").unwrap();
    let known = |name: &str| matches!(name, "PATH" | "PWD" | "OLDPWD" | "SHLVL" | "_");
    assert!(names.split(' ').all(known) && names.contains("PATH"), "{names}");
}
