//! Uses Rust's standard library as in a process; built for wasm32-wasip2 too. The name of a resource selects an
//! attempt, and the text gets its outcome; any other name is served normally.

use std::{
    env, fs,
    hash::{BuildHasher as _, RandomState},
    io::{ErrorKind, Read as _},
    net::{TcpListener, TcpStream, ToSocketAddrs as _, UdpSocket},
    thread,
    time::{Duration, Instant, SystemTime},
};

use mortise_plugin::{Plugin, ResourceType, Scope};
use mortise_test_guests::{DESCRIPTORS, Thing};

static PLUGIN: Plugin = Plugin::new(
    "wasi",
    "0.1.0",
    DESCRIPTORS,
    &[&ResourceType::<Thing>::new("wasi", "v1", "Thing", Scope::Namespace)
        .mutate(|thing| {
            if let Some(text) = attempt(thing.name()) {
                thing.data.text = text;
            }
            Ok(())
        })
        .validate(|thing, _, diagnostics| {
            if thing.name() == "refused" {
                diagnostics.error("this one is refused");
            }
        })],
);
mortise_plugin::export!(PLUGIN: mutating, validating);

fn attempt(what: &str) -> Option<String> {
    Some(match what {
        "files" => outcomes(&[
            fs::read("/etc/passwd").map(drop),
            fs::write("/tmp/mortise-was-here", "x"),
            fs::read_dir(".").map(drop),
            fs::create_dir("mortise-was-here"),
            fs::metadata("/").map(drop),
            fs::remove_file("/etc/passwd"),
        ]),
        "network" => outcomes(&[
            TcpStream::connect("127.0.0.1:22").map(drop),
            TcpListener::bind("127.0.0.1:0").map(drop),
            UdpSocket::bind("127.0.0.1:0").map(drop),
            ("localhost", 80).to_socket_addrs().map(drop),
        ]),
        "environment" => {
            let cwd = env::current_dir().map_or_else(|_| "none".to_owned(), |dir| dir.display().to_string());
            format!("{} variables, {} arguments, in {cwd}", env::vars_os().count(), env::args_os().count())
        }
        "stdin" => {
            let mut bytes = Vec::new();
            let read = std::io::stdin().read_to_end(&mut bytes);
            format!("{read:?}").replace("Ok", "read ")
        }
        #[allow(clippy::print_stdout, clippy::print_stderr, reason = "it is what is tried")]
        "print" => {
            println!("a line on stdout\nand another");
            eprintln!("a line on stderr");
            "printed".to_owned()
        }
        #[allow(clippy::print_stdout, reason = "it is what is tried")]
        "print-flood" => {
            for line in 0..1_000 {
                println!("flooding stdout with line {line} of very many");
            }
            "printed".to_owned()
        }
        #[allow(clippy::disallowed_methods, reason = "it is what is tried")]
        "time" => {
            let begun = Instant::now();
            thread::sleep(Duration::from_secs(3600));
            let hours = begun.elapsed().as_secs() / 3600;
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(1, |time| time.as_secs());
            format!("slept {hours} h at {since}")
        }
        "random" => format!("{:x}", RandomState::new().hash_one("mortise")),
        "exit" => std::process::exit(7),
        "abort" => std::process::abort(),
        _ => return None,
    })
}

/// Kinds of error of each attempt; a success is marked in capitals.
fn outcomes(all: &[std::io::Result<()>]) -> String {
    let kind = |one: &std::io::Result<()>| one.as_ref().map_or_else(|e| name(e.kind()), |()| "ESCAPED".to_owned());
    all.iter().map(kind).collect::<Vec<_>>().join(" ")
}

fn name(kind: ErrorKind) -> String {
    format!("{kind:?}")
}
