//! The plugin author's commands with the real binary: a plugin is created, built, tested, served, and changed while it
//! serves.
//!
//! Builds take long, so one test does all steps in order, in one folder with one target directory.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use crate::support::{Server, Setup, id, resource};
use mortise_resource::pb;
use prost::Message as _;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

/// Longest time of a build on a busy machine.
const BUILD: Duration = Duration::from_secs(900);

/// Exit code and output of a finished command.
pub struct Done {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// The message of the template's type.
#[derive(Clone, PartialEq, prost::Message)]
struct GuestBook {
    #[prost(string, tag = "1")]
    title: String,
    #[prost(uint32, tag = "2")]
    priority: u32,
}

fn command(dir: &Path) -> Command {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_mortise"));
    command
        .current_dir(dir)
        .env("MORTISE_CACHE_DIR", temporary.join("mortise-cache"))
        .env("CARGO_TARGET_DIR", temporary.join("author"))
        .env_remove("MORTISE_GRPC_ADDR")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Runs `mortise plugin …` in a folder.
pub async fn plugin(dir: &Path, args: &[&str]) -> Done {
    let output = timeout(BUILD, command(dir).arg("plugin").args(args).output()).await.expect("it ends").unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Done { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Replaces a text in a file; the file must contain it.
fn edit(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{from:?} is not in {}", path.display());
    fs::write(path, text.replace(from, to)).unwrap();
}

async fn write(server: &Server, name: &str, title: &str) -> Result<GuestBook, String> {
    let data = GuestBook { title: title.into(), priority: 0 };
    let any = prost_types::Any {
        type_url: "type.googleapis.com/guest_book.v1.GuestBook".into(),
        value: data.encode_to_vec(),
    };
    let written: pb::Resource = server
        .write(resource(id("guest_book.v1.GuestBook", name), Some(any)))
        .await
        .map_err(|e| e.message().to_owned())?;
    Ok(GuestBook::decode(written.data.unwrap().value.as_slice()).unwrap())
}

/// A running `plugin dev`, and its output.
struct Loop {
    child: Child,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
    output: String,
}

impl Loop {
    fn start(dir: &Path, server: &Server) -> Self {
        let mut command = command(dir);
        command.args(["plugin", "dev", "--grpc-addr", &server.grpc.to_string()]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines, output: String::new() }
    }

    /// Waits for the next line with this beginning and this part.
    async fn says(&mut self, begins: &str, part: &str) -> String {
        let wanted = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                self.output.push_str(&line);
                self.output.push('\n');
                if line.starts_with(begins) && line.contains(part) {
                    return line;
                }
            }
            panic!("it ended: {}", self.output);
        };
        timeout(BUILD, wanted).await.unwrap()
    }

    async fn interrupted(mut self) -> Option<i32> {
        let pid = self.child.id().unwrap();
        Command::new("kill").args(["-INT", &pid.to_string()]).status().await.unwrap();
        timeout(Duration::from_secs(20), self.child.wait()).await.expect("it ends").unwrap().code()
    }
}

#[tokio::test]
async fn from_nothing_to_a_served_type() {
    // The same folder each time, so that what was compiled last time serves again.
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR")).join("author-loop");
    let dir = parent.join("guest-book");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&parent).unwrap();

    let new = plugin(&parent, &["new", "guest-book", "--with-reconciler"]).await;
    let expected = "created plugin guest-book in guest-book, with the type guest_book.v1.GuestBook\n\
                    next: cd guest-book && mortise plugin build && mortise plugin test\n";
    assert_eq!((new.code, new.out.as_str()), (Some(0), expected), "{}", new.err);
    let again = plugin(&parent, &["new", "guest-book"]).await;
    let expected = "mortise: guest-book exists and is not empty; nothing was written\n  \
                    hint: `mortise plugin new guest-book --path ANOTHER`, or move the content of guest-book away\n";
    assert_eq!((again.code, again.err.as_str()), (Some(2), expected));

    let component = build(&dir).await;
    cases(&dir).await;
    recordings(&dir).await;
    looked_at(&dir, &component).await;
    broken_builds(&dir).await;
    served(&dir).await;
    native(&dir).await;
}

/// Builds the plugin; returns the component's path.
async fn build(dir: &Path) -> PathBuf {
    let built = plugin(dir, &["build", "--locked"]).await;
    assert_eq!(built.code, Some(0), "{}", built.err);
    let path = built.out.lines().next().unwrap().strip_prefix("built ").unwrap();
    assert!(path.ends_with("/plugins/guest-book.wasm"), "{path}");
    for line in [
        "  plugin      guest-book 0.1.0",
        "  type        guest_book.v1.GuestBook (namespace): mutate, validate",
        "  controller  guest-book manages guest_book.v1.GuestBook",
        "next: mortise plugin test",
    ] {
        assert!(built.out.lines().any(|one| one == line), "{line:?} is not in {}", built.out);
    }
    assert!(built.out.contains("  exports     controlling, mutating, plugin, validating"), "{}", built.out);
    PathBuf::from(path)
}

async fn cases(dir: &Path) {
    let tested = plugin(dir, &["test"]).await;
    assert_eq!(tested.code, Some(0), "{}{}", tested.out, tested.err);
    assert!(tested.out.contains("running 7 cases of guest-book 0.1.0 (tests/cases)"), "{}", tested.out);
    assert!(tested.out.contains("test result: ok. 7 passed; 0 failed; 0 filtered out"), "{}", tested.out);

    edit(&dir.join("src/lib.rs"), "\"title required\"", "\"titel required\"");
    let tested = plugin(dir, &["test", "--filter", "hooks.yaml"]).await;
    assert_eq!(tested.code, Some(1));
    for part in [
        "test hooks.yaml: title is required ... FAILED",
        "---- hooks.yaml:26: title is required\nother diagnostics than expected:\n-error at data.title: title required\n\
         +error at data.title: titel required\n",
        "test result: FAILED. 4 passed; 1 failed; 2 filtered out",
    ] {
        assert!(tested.out.contains(part), "{part:?} is not in {}", tested.out);
    }
    assert!(tested.err.ends_with(
        "mortise: 1 of 5 cases failed\n  hint: fix the plugin or the case; `mortise plugin test --filter \"title is required\"` \
         runs the first alone\n"
    ), "{}", tested.err);
    edit(&dir.join("src/lib.rs"), "\"titel required\"", "\"title required\"");
}

async fn recordings(dir: &Path) {
    let recorded = plugin(dir, &["test", "--record"]).await;
    assert_eq!(recorded.code, Some(0), "{}{}", recorded.out, recorded.err);
    let file = dir.join("tests/cases/reconciler.recorded.json");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("resources.write-status") && text.contains("has priority 3."), "{text}");
    assert_eq!(plugin(dir, &["test"]).await.code, Some(0));

    fs::write(&file, text.replace("has priority 3.", "has priority 9.")).unwrap();
    let differs = plugin(dir, &["test", "--filter", "a new resource is accepted"]).await;
    assert_eq!(differs.code, Some(1), "{}", differs.out);
    assert!(
        differs.out.contains("host call 2 of 2 differs from the recorded one:\n--- recorded\n+++ asked\n"),
        "{}",
        differs.out
    );
    fs::remove_file(file).unwrap();
}

async fn looked_at(dir: &Path, component: &Path) {
    let component = component.to_str().unwrap();
    let inspected = plugin(dir, &["inspect", component]).await;
    assert_eq!(inspected.code, Some(0), "{}", inspected.err);
    assert!(inspected.out.contains("verdict     this host (contract 0.1.0) accepts it"), "{}", inspected.out);

    let schema = plugin(dir, &["schema", component]).await;
    assert_eq!(schema.code, Some(0), "{}", schema.err);
    let expected = "# guest_book.v1.GuestBook (namespace)\ntype: guest_book.v1.GuestBook\nname: sample\n";
    assert!(schema.out.starts_with(expected), "{}", schema.out);
    for part in ["  title: ", "# Required; at most 100 characters.", "  priority: ", "# 1 to 10; by default 3."] {
        assert!(schema.out.contains(part), "{part:?} is not in {}", schema.out);
    }
    let schema = plugin(dir, &["schema", component, "-o", "json-schema"]).await;
    let schema: serde_json::Value = serde_json::from_str(&schema.out).unwrap();
    assert_eq!(schema["title"], "guest_book.v1.GuestBook");

    let measured = plugin(dir, &["bench", component, "-n", "20", "-o", "json"]).await;
    assert_eq!(measured.code, Some(0), "{}", measured.err);
    let measured: serde_json::Value = serde_json::from_str(&measured.out).unwrap();
    let rows = measured["rows"].as_array().unwrap();
    let hooks: Vec<_> = rows.iter().map(|row| row["hook"].as_str().unwrap()).collect();
    assert_eq!(hooks, ["(empty)", "mutate", "validate", "reconcile guest-book"]);
    for row in rows {
        assert!(row["medianNs"].as_u64() <= row["p99Ns"].as_u64() && row["memoryBytes"].as_u64() > Some(0), "{row}");
    }
    assert!(rows[1]["fuel"].as_u64() > Some(1_000) && rows[0]["fuel"] == 0, "{rows:?}");
}

async fn broken_builds(dir: &Path) {
    edit(&dir.join("src/lib.rs"), "resource.data.priority = 3;", "resource.data.priority = \"three\";");
    let built = plugin(dir, &["build"]).await;
    assert_eq!((built.code, built.out.as_str()), (Some(1), ""));
    assert!(built.err.contains("mismatched types"), "rustc's words come through: {}", built.err);
    assert!(
        built.err.ends_with(
            "mortise: compiling `guest-book` for WebAssembly failed (exit status: 101)\n  \
         hint: fix what cargo reports above, and run `mortise plugin build` again\n"
        ),
        "{}",
        built.err
    );
    edit(&dir.join("src/lib.rs"), "resource.data.priority = \"three\";", "resource.data.priority = 3;");
}

/// Serves the plugin, and changes it while it serves.
async fn served(dir: &Path) {
    let server = Setup::new().start().await;
    let once = plugin(dir, &["dev", "--once", "--test", "--grpc-addr", &server.grpc.to_string()]).await;
    assert_eq!(once.code, Some(0), "{}{}", once.out, once.err);
    assert!(
        once.out.contains("live   guest-book 0.1.0 serves, ") && once.out.contains("plugin Loaded yes"),
        "{}",
        once.out
    );
    assert_eq!(write(&server, "one", "One").await.unwrap().priority, 3);
    assert!(write(&server, "nobody", "").await.unwrap_err().contains("title required"));

    let mut dev = Loop::start(dir, &server);
    dev.says("live", "serves already, unchanged").await;
    dev.says("log", "accepted one").await;
    let library = dir.join("src/lib.rs");
    let begun = Instant::now();
    edit(&library, "resource.data.priority = 3;", "resource.data.priority = 4;");
    dev.says("live", "guest-book 0.1.0 serves, ").await;
    eprintln!("edit to live: {:?}", begun.elapsed());
    assert_eq!(write(&server, "two", "Two").await.unwrap().priority, 4);

    edit(&library, "resource.data.priority = 4;", "resource.data.priority = ;");
    dev.says("FAULT", "compiling `guest-book` for WebAssembly failed").await;
    dev.says("       the installed version keeps serving", "").await;
    assert_eq!(write(&server, "three", "Three").await.unwrap().priority, 4, "the old one serves on");
    edit(&library, "resource.data.priority = ;", "resource.data.priority = 3;");
    dev.says("live", "guest-book 0.1.0 serves, ").await;
    assert_eq!(write(&server, "four", "Four").await.unwrap().priority, 3);
    assert_eq!(dev.interrupted().await, Some(130), "Ctrl-C");
}

/// Runs the plugin's own tests, as its author does.
async fn native(dir: &Path) {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("author");
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--quiet", "--locked"]).current_dir(dir).env("CARGO_TARGET_DIR", target).kill_on_drop(true);
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"] {
        cargo.env_remove(name);
    }
    let tested = timeout(BUILD, cargo.output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&tested.stdout).into_owned() + &String::from_utf8_lossy(&tested.stderr);
    assert!(tested.status.success() && said.contains("2 passed"), "{said}");
    assert!(!said.contains("warning"), "{said}");
}
