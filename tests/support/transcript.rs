//! Golden files: output of commands, compared with the reviewed output.
//!
//! A transcript is a sequence of commands with their output and exit codes, under `tests/golden/cli`. With
//! `MORTISE_UPDATE_GOLDEN=1` the files are rewritten; review the difference before you commit it.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use tempfile::TempDir;
use tokio::{io::AsyncWriteExt as _, process::Command, time::timeout};

use crate::support::{PATIENCE, Server};

/// Exit code and output of a command.
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Commands in a directory of their own, one after the other.
pub struct Transcript {
    name: &'static str,
    server: String,
    dir: TempDir,
    text: String,
    /// Texts that differ in each run, and their replacements.
    called: Vec<(String, &'static str)>,
}

impl Transcript {
    /// Starts a transcript of commands for this server.
    pub fn new(name: &'static str, server: &Server) -> Self {
        Self::at(name, &server.grpc.to_string())
    }

    /// Starts a transcript of commands for an address.
    pub fn at(name: &'static str, server: &str) -> Self {
        Self {
            name,
            server: server.to_owned(),
            dir: tempfile::tempdir().unwrap(),
            text: String::new(),
            called: Vec::new(),
        }
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Replaces a text by a name from here on.
    pub fn call(&mut self, text: &str, name: &'static str) {
        self.called.push((text.to_owned(), name));
    }

    /// Writes a file that commands can name.
    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A prepared command: in the directory, without the caller's settings.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mortise"));
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy().into_owned();
            if ["MORTISE_", "CONSUL_", "XDG_", "COLUMNS", "NO_COLOR", "VISUAL", "EDITOR"]
                .iter()
                .any(|p| text.starts_with(p))
            {
                command.env_remove(name);
            }
        }
        command
            .args(args)
            .current_dir(self.dir.path())
            .env("HOME", self.dir.path())
            .env("MORTISE_GRPC_ADDR", &self.server)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs a command and records its output.
    pub async fn run(&mut self, args: &[&str]) -> Ran {
        self.run_with(args, "", &[]).await
    }

    /// Runs a command that must fail with this code.
    pub async fn fails(&mut self, code: i32, args: &[&str]) {
        let ran = self.run(args).await;
        assert_eq!(ran.code, Some(code), "{args:?}: {}{}", ran.out, ran.err);
    }

    /// Runs a command that must succeed.
    pub async fn works(&mut self, args: &[&str]) -> String {
        let ran = self.run(args).await;
        assert_eq!(ran.code, Some(0), "{args:?}: {}{}", ran.out, ran.err);
        ran.out
    }

    /// Runs a command with standard input and variables.
    pub async fn run_with(&mut self, args: &[&str], input: &str, env: &[(&str, &str)]) -> Ran {
        let mut command = self.command(args);
        command.envs(env.iter().copied());
        if !input.is_empty() {
            command.stdin(Stdio::piped());
        }
        let mut child = command.spawn().unwrap();
        if let Some(mut stdin) = child.stdin.take() {
            // A command that does not read its input closes it.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        let output = timeout(PATIENCE, child.wait_with_output()).await.expect("it ends by itself").unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let ran = Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) };
        assert!(!ran.err.contains("panicked"), "{args:?}: {}", ran.err);
        let variables: String = env.iter().map(|(name, value)| format!("{name}={value:?} ")).collect();
        self.text.push_str(&format!("$ {variables}mortise {}\n{}", quoted(args), ran.out));
        self.text.extend(ran.err.lines().map(|line| format!("! {line}\n")));
        self.text.push_str(&format!("=> {}\n\n", ran.code.map_or("killed".into(), |code| code.to_string())));
        ran
    }

    /// Records a comment about the next command.
    pub fn say(&mut self, text: &str) {
        self.text.extend(text.lines().map(|line| format!("# {line}\n")));
    }

    /// Records only the standard error of a command whose other output differs in each run.
    pub fn note(&mut self, command: &str, said: &[u8]) {
        let lines = String::from_utf8_lossy(said).lines().map(|line| format!("! {line}\n")).collect::<String>();
        self.text.push_str(&format!("$ mortise {command}\n{lines}\n"));
    }

    /// Compares everything with the golden file.
    #[track_caller]
    pub fn finish(self) {
        compare(self.name, &mask(&self.named()));
    }

    /// The same for output whose numbers, and so column widths, differ in each run.
    #[track_caller]
    pub fn finish_without_numbers(self) {
        compare(self.name, &without_numbers(&mask(&self.named())));
    }

    fn named(&self) -> String {
        let dir = self.dir.path().to_str().unwrap();
        let text = self.text.replace(dir, "<dir>").replace(&self.server, "<server>");
        self.called.iter().fold(text, |text, (called, name)| text.replace(called, name))
    }
}

/// Arguments as typed in a shell.
fn quoted(args: &[&str]) -> String {
    let plain = |arg: &str| !arg.is_empty() && arg.chars().all(|c| c.is_alphanumeric() || "-_./:=,@*".contains(c));
    args.iter().map(|arg| if plain(arg) { (*arg).to_owned() } else { format!("'{arg}'") }).collect::<Vec<_>>().join(" ")
}

/// Compares a text with a golden file, or writes the file if updates are requested.
#[track_caller]
pub fn compare(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/cli").join(format!("{name}.txt"));
    if std::env::var_os("MORTISE_UPDATE_GOLDEN").is_some_and(|wanted| wanted == "1") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        return;
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    for (number, (golden, own)) in golden.lines().zip(text.lines()).enumerate() {
        assert_eq!(golden, own, "line {} of {}; MORTISE_UPDATE_GOLDEN=1 writes it anew", number + 1, path.display());
    }
    assert_eq!(golden.lines().count(), text.lines().count(), "{}: {text}", path.display());
}

/// Each number becomes `<n>`, with its unit if it has one; each digest becomes `<digest>`; columns are separated by two
/// blanks. Command lines and errors stay.
fn without_numbers(text: &str) -> String {
    let unit = |word: &str| {
        let word = word.trim_end_matches([',', ';', ')']);
        ["B", "KiB", "MiB", "GiB", "second", "seconds", "minute", "minutes", "ms"].contains(&word)
    };
    let mut out = String::new();
    for line in text.lines() {
        if line.starts_with(['=', '$', '!', '#']) {
            out.push_str(&format!("{line}\n"));
            continue;
        }
        let mut numbered = false;
        for (at, part) in line.split(' ').enumerate() {
            let bare = part.trim_matches(['(', ')', ',', ';', ':']);
            let is_digest = bare.len() >= 12 && bare.chars().all(|c| c.is_ascii_hexdigit());
            let is_number = bare.starts_with(|c: char| c.is_ascii_digit());
            if part.is_empty() {
                // Keeps the first of several blanks.
                if !out.ends_with("  ") && at > 0 {
                    out.push(' ');
                }
                continue;
            }
            if at > 0 && !out.ends_with("  ") && !out.ends_with('\n') {
                out.push(' ');
            }
            match () {
                () if is_digest => out.push_str(&part.replace(bare, "<digest>")),
                () if is_number => out.push_str(&part.replace(bare, "<n>")),
                () if numbered && unit(part) => {
                    let bare = part.trim_end_matches([',', ';', ')']);
                    out.push_str(&part.replace(bare, "<unit>"));
                }
                () => out.push_str(part),
            }
            numbered = is_number;
        }
        out.push('\n');
    }
    out
}

/// Replaces values that differ in each run: ids, versions, times, ages.
pub fn mask(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut line = line.to_owned();
        for key in ["version: \"", "\"version\": \"", "Version:      "] {
            if let Some(at) = line.find(key).map(|at| at + key.len()) {
                let digits = line[at..].chars().take_while(char::is_ascii_digit).count();
                line.replace_range(at..at + digits, "<n>");
            }
        }
        // Command lines and errors are the same in each run, except for waits that the server computes.
        let ages = !line.starts_with(['$', '!', '#']) || line.contains("try again in");
        let mut masked = String::new();
        let mut word = String::new();
        for c in line.chars().chain(['\n']) {
            if c.is_alphanumeric() || "-:.+<>".contains(c) {
                word.push(c);
                continue;
            }
            masked.push_str(&masked_word(&word, ages));
            word.clear();
            masked.push(c);
        }
        out.push_str(&masked);
    }
    out
}

fn masked_word(word: &str, ages: bool) -> String {
    let is_ulid = word.len() == 26 && word.chars().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase());
    let is_age = ages
        && word.ends_with('s')
        && word[..word.len() - 1].chars().all(|c| c.is_ascii_digit() || c == 'm')
        && word.starts_with(|c: char| c.is_ascii_digit());
    let is_time = word.len() >= 20 && word.contains('T') && word.ends_with('Z') && word.starts_with("20");
    match () {
        () if is_ulid => "<ulid>".into(),
        () if is_age => "<age>".into(),
        () if is_time => "<time>".into(),
        () => word.into(),
    }
}
