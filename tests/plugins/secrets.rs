//! Plugin secrets in files that are encrypted with age.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use mortise_resource::pb::condition::State;
use mortise_test_guests::Thing;

use crate::support::{Server, Setup, controllers::condition_until, eventually, id, mortise, skipped, thing};

const IDENTITY: &str = "AGE-SECRET-KEY-1PQKRTJHPEXPEN9XQ9U7AYEV2ERPQGK8AK467688EM9JE0CNYCJDQL0HE3K";
/// Text `s3cret` and a newline, encrypted for both recipients by the program `age`.
const ENCRYPTED: &str = "-----BEGIN AGE ENCRYPTED FILE-----\n\
        YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSA1ZS9VOEJ1d0JCbjc2bysv\n\
        UDZCd1ZLRFZGcXVtZ3VqbEhobmo3cXBXLzBnCjRoRVREei9XMzRLM1FPKzNnVE0r\n\
        S2J4MFdYRmthUmtBWVRrdnVnRmhWclkKLT4gWDI1NTE5IHFQd2ZaOFduSFd4SUQv\n\
        WUI4SlI5clUxZEs3MERiRWp0T1B6SnRDUlRlMWsKMmVycTlHK0t4bDZGWHYzcXhE\n\
        MzJOZTh2TXFRQytFZXhEWHcrYUtJMko4awotLS0gOHltSGlVd0d6MUVTREc1U1g4\n\
        NEFNQ2pvUGcvRFEzelg5TERuT3gyR3ZDcwriqXJp+jjvlB2CWb+M34SOAMcv07sz\n\
        1Eyoth6EO7N0cDVmfr1b9OA=\n\
        -----END AGE ENCRYPTED FILE-----\n";
const KEY: &str = "reconcile-files/things";

/// A directory with a secret's file and the identities that open it.
struct Place {
    dir: tempfile::TempDir,
    out: PathBuf,
    grants: String,
}

impl Place {
    fn new(secret: &[u8], identity: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        fs::create_dir(&out).unwrap();
        fs::write(dir.path().join("token.age"), secret).unwrap();
        let place = Self { dir, out, grants: String::new() };
        place.identities(identity, 0o600);
        let grants = format!(
            "[plugin.reconcile-files.grants]\ndirectories = {{ out = {{ path = {:?}, write = true }} }}\n\
             secrets = {{ token = {{ file = {:?} }} }}\n",
            place.out,
            place.path("token.age")
        );
        Self { grants, ..place }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn identities(&self, identity: &str, mode: u32) {
        fs::write(self.path("age.key"), format!("# a comment\n{identity}\n")).unwrap();
        fs::set_permissions(self.path("age.key"), fs::Permissions::from_mode(mode)).unwrap();
    }

    async fn start(&self, identities: &Path) -> Server {
        let setup =
            Setup::new().guest("reconcile-files").env("MORTISE_PLUGINS_AGE_IDENTITY_FILE", identities.display());
        let server = setup.config(&self.grants).start().await;
        let note = Thing { text: "hello".into(), ..Thing::default() };
        server.write(thing("reconcile_files", "note", &note)).await.unwrap();
        server
    }

    /// The error that the plugin gets instead of its secret.
    async fn refusal(&self, server: &Server) -> String {
        let note = id("reconcile_files.v1.Thing", "note");
        let refused = condition_until(server, &note, KEY, "Written", |c| c.state() == State::False).await;
        assert!(!self.out.join("note.txt").exists());
        refused.message
    }
}

async fn comes(place: &Place, text: &str) {
    let file = place.out.join("note.txt");
    eventually("the secret arrives", async || fs::read_to_string(&file).is_ok_and(|found| found == text)).await;
}

#[tokio::test]
async fn an_encrypted_secret_is_decrypted_each_time_it_is_asked_for() {
    let place = Place::new(ENCRYPTED.as_bytes(), IDENTITY);
    let server = place.start(&place.path("age.key")).await;
    comes(&place, "hello\ns3cret").await;

    // A plain file works as before; the current file counts.
    fs::write(place.path("token.age"), "plain\n").unwrap();
    let note = Thing { text: "again".into(), ..Thing::default() };
    server.write(thing("reconcile_files", "note", &note)).await.unwrap();
    comes(&place, "again\nplain").await;
    let log = server.log();
    assert!(!log.contains("s3cret") && !log.contains("SECRET-KEY"), "{log}");
}

#[tokio::test]
async fn a_secret_that_cannot_be_decrypted_is_an_error_that_names_everything_but_its_content() {
    let at = ENCRYPTED.find("\n-----END").unwrap() - 10;
    let mut changed = ENCRYPTED.to_owned();
    let other = if &changed[at..=at] == "A" { "B" } else { "A" };
    changed.replace_range(at..=at, other);
    let scrypt = format!("age-encryption.org/v1\n-> scrypt c2FsdA 30\n\n--- {}\ns3cret", "A".repeat(43));
    let cases: [(&str, Option<&str>, &str); 5] = [
        (ENCRYPTED, None, "plugins.age_identity_file is not set"),
        (ENCRYPTED, Some("stranger"), "encrypted for other identities than the configured ones"),
        (&changed, Some(IDENTITY), "cannot be decrypted"),
        ("age-encryption.org/v1\ns3cret", Some(IDENTITY), "not an age file of version 1"),
        (&scrypt, Some(IDENTITY), "with a passphrase"),
    ];
    for (secret, identity, says) in cases {
        // Belongs to neither of the two recipients.
        let stranger = "AGE-SECRET-KEY-1MM6FRPH5L3GRDDN3DPLM6ZREU8AXA9E6E6A8QEPMAFH92AS06D2S4Y0U5K";
        let identity = identity.map(|identity| if identity == "stranger" { stranger } else { identity });
        let place = Place::new(secret.as_bytes(), identity.unwrap_or(IDENTITY));
        let path = if identity.is_some() { place.path("age.key") } else { PathBuf::new() };
        let server = place.start(&path).await;
        let message = place.refusal(&server).await;
        let file = place.path("token.age").display().to_string();
        for part in [says, "\"token\"", "plugin.reconcile-files.grants.secrets.token", &file] {
            assert!(message.contains(part), "{part}: {message}");
        }
        let said = format!("{message}{}", server.log());
        assert!(!said.contains("s3cret") && !said.contains("SECRET-KEY"), "{said}");
    }
}

#[tokio::test]
async fn a_file_of_identities_that_is_exposed_ends_the_start() {
    let place = Place::new(ENCRYPTED.as_bytes(), IDENTITY);
    let data = place.path("data");
    fs::create_dir(&data).unwrap();
    fs::copy(place.path("age.key"), data.join("age.key")).unwrap();
    std::os::unix::fs::symlink(data.join("age.key"), place.path("link.key")).unwrap();
    fs::write(place.path("other"), "no identity\n").unwrap();
    fs::set_permissions(place.path("other"), fs::Permissions::from_mode(0o600)).unwrap();
    let start = async |file: PathBuf| {
        let (data, file) = (data.display().to_string(), file.display().to_string());
        let settings = [("MORTISE_PLUGINS_AGE_IDENTITY_FILE", file.as_str())];
        mortise(&["serve", "--data-dir", &data], &settings).await
    };
    for (file, says) in [
        (data.join("age.key"), "is in data_dir"),
        (place.path("link.key"), "is in data_dir"),
        (place.path("nothing"), "cannot be read"),
        (place.path("other"), "line 1: not an X25519 identity"),
    ] {
        let (code, _, said) = start(file).await;
        assert!(code == Some(1) && said.contains("plugins.age_identity_file") && said.contains(says), "{says}: {said}");
        assert!(!said.contains("no identity\n"), "{said}");
    }
    place.identities(IDENTITY, 0o644);
    let (code, _, said) = start(place.path("age.key")).await;
    assert!(code == Some(1) && said.contains("is readable by others (mode 644); run chmod 600 on it"), "{said}");
}

/// Files of every length around the chunk size of the format, encrypted by the program `age`.
#[tokio::test]
async fn files_of_the_program_age_are_read() {
    let Ok(keys) = Command::new("age-keygen").output() else {
        return skipped("the program age is not there: that its files are read is not tested");
    };
    let text = String::from_utf8(keys.stdout).unwrap();
    let identity = text.lines().find(|line| line.starts_with("AGE-SECRET-KEY-")).unwrap();
    let recipient = text.lines().find_map(|line| line.strip_prefix("# public key: ")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    fs::write(&path, identity).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let identities = mortise_plugin_host::Identities::read(&path).unwrap();
    for length in [0, 1, 65_535, 65_536, 65_537, 131_072, 200_000] {
        for armor in [&["-a"][..], &[]] {
            let plain: Vec<u8> = (0..length).map(|at: u32| (at % 251) as u8).collect();
            let mut age = Command::new("age")
                .args(["-r", recipient])
                .args(armor)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut input = age.stdin.take().unwrap();
            let writing = {
                let plain = plain.clone();
                std::thread::spawn(move || std::io::Write::write_all(&mut input, &plain))
            };
            let sealed = age.wait_with_output().unwrap().stdout;
            writing.join().unwrap().unwrap();
            assert!(identities.decrypt(&sealed).unwrap() == plain, "{length}");
            assert!(identities.decrypt(&sealed[..sealed.len() - 5]).is_err(), "{length}");
        }
    }
}
