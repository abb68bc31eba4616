//! Checks that a transcript shows every error text of the command line. The texts are read from the source: arguments
//! of `CliError`, its remedies, and the texts of error types.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Crates with errors that end a command.
const CRATES: [&str; 2] = ["host/cli/src", "host/mortise/src"];

/// Source text that stands before an error text.
const BEFORE: [&str; 9] = [
    "CliError::usage(",
    "CliError::failed(",
    "CliError::file(",
    "CliError::new(Exit::Unreachable,",
    "CliError::new(Exit::TimedOut,",
    ".remedy(",
    "let fault =",
    "let what =",
    "#[error(",
];

/// Fewest letters of a text, without its arguments; shorter ones are not checked.
const LETTERS: usize = 8;

/// Texts without a transcript, and the reason. A text that gets a transcript must be removed here.
const ELSEWHERE: [(&str, &[&str]); 14] = [
    (
        "it takes a server of before dry runs",
        &["the server knows no dry runs, and has installed …", "`mortise plugin rollback …` goes back, or remove it"],
    ),
    (
        "tests of their own show them (tests/cli/debug.rs, tests/authoring/server_config.rs)",
        &[
            "--interval …: at most …",
            "--config is for a component's file; a plugin of the server has its configuration",
            "leave --config out, or give the file: `mortise plugin inspect ./….wasm`",
            "`mortise validate …` lists all findings",
        ],
    ),
    (
        "it takes a component that is compiled for longer than a command waits (tests/cli/plugins.rs)",
        &["`mortise plugin list` shows the stage of … and the end; --timeout DURATION waits for longer, such as 10m"],
    ),
    (
        "it takes etcd (tests/cluster/migrate.rs)",
        &[
            "… has a store already; move it away first",
            "servers use the content in etcd: …; stop them first",
            "stopped before all was moved; run the command again",
        ],
    ),
    (
        "a report of parts that were left out names it, beside their lines (unit tests of the import)",
        &["… has the port … for … already", "its service has … workloads already"],
    ),
    (
        "the machine would have to be broken: no threads, no random numbers, no shell, no working directory",
        &[
            "cannot start threads",
            "the thread of the log cannot be started: …",
            "cannot listen for Ctrl-C",
            "cannot find this program",
            "cannot find",
            "cannot start the editor …",
            "no random numbers for a secret",
            "no random numbers for the bootstrap token: …",
            "cannot make the bootstrap token: …",
            "cannot make the keys",
            "cannot make a certificate",
            "cannot read the new certificate",
            "cannot read the token from standard input",
        ],
    ),
    (
        "its owner may not read or change it, which holds nobody back who may do everything",
        &[
            "cannot read the directory",
            "cannot set the mode of",
            "the work is done, but other users may read …: …",
            "change its owner, or take the permissions of others: chmod -R go= DIR",
        ],
    ),
    (
        "it takes a variable with bytes that a transcript cannot hold",
        &["environment variable …: its value is not UTF-8", "set it to UTF-8 text, or remove it: unset …"],
    ),
    (
        "it takes a terminal",
        &[
            "a backup is not text, and standard output is a terminal",
            "name a file, or send it somewhere: mortise backup - > FILE",
            "the token is missing",
            "give --token-file FILE, or the token on standard input",
            "cannot read the keyboard",
            "cannot ask for the password of the secret key",
            "give --password-file FILE, or set MORTISE_SIGNING_PASSWORD",
            "the two passwords differ",
        ],
    ),
    (
        "the server would have to answer what no server of ours does",
        &[
            "cannot use the server's answer",
            "cannot decode the server's answer",
            "…: the server's answer is empty",
            "…: the server has no descriptor of its data",
            "…: its data cannot be decoded",
            "cannot write the plan as JSON",
            "a Go template cannot use the resource: …",
            "no JSON of certificates",
            "-o table shows it",
            "cannot read tokens and policies: …",
        ],
    ),
    (
        "it comes about between two steps of a command, or while a store breaks",
        &[
            "…: somebody else keeps changing it",
            "try again later",
            "…: it changed after it was shown, so it stays",
            "apply again",
            "the server ended the watch",
            "the store is as it was",
            "run the command again",
            "backup: the server's answer ended early; the part received is not a backup",
            "the server's log says why; try again",
            "the server went away, or wants a certificate of this client that it trusts: --client-cert and --client-key",
        ],
    ),
    (
        "it takes a server with a certificate that the machine trusts (unit tests of the URLs of files)",
        &["the server redirects from https to …, which is not encrypted"],
    ),
    ("it takes a full disk", &["name a directory with space for a copy of the store: --work-dir DIR"]),
    (
        "no command prints it: Terraform shows it, the log has it, or TOML's own bound comes first",
        &[
            "core is attached to the server behind …, and the provider's configuration names another one",
            "leave `address` out, or unset TF_REATTACH_PROVIDERS",
            "no file with schemas of this release; `mortise provider export` writes one",
            "… panicked (…), so the server stops, to be started again; please report it with the log",
            "it took longer than … hours, and was ended",
            "the server refuses the component of …: …",
            "the component of … says that it is version …, older than …; push it under its own version, or give its digest in the source, without update",
            "the plugin's resource cannot be read: …",
            "another server takes the backups now, and this one ended its own",
            "it panicked (…); please report it with the log",
        ],
    ),
];

/// Pieces of the string at the start of `source`, split at its arguments.
fn pieces(source: &str) -> Option<Vec<String>> {
    let source = source.trim_start().trim_start_matches('&');
    let source = source.strip_prefix("format!(").unwrap_or(source).trim_start();
    let mut chars = source.strip_prefix('"')?.chars().peekable();
    let mut pieces = vec![String::new()];
    while let Some(c) = chars.next() {
        let piece = pieces.last_mut()?;
        match c {
            '"' => return Some(pieces),
            '\\' => match chars.next()? {
                '\n' => while chars.next_if(|c| c.is_whitespace()).is_some() {},
                'n' => piece.push('\n'),
                c => piece.push(c),
            },
            '{' | '}' if chars.next_if_eq(&c).is_some() => piece.push(c),
            '{' => {
                chars.by_ref().take_while(|c| *c != '}').for_each(drop);
                pieces.push(String::new());
            }
            c => piece.push(c),
        }
    }
    None
}

/// Whether a line contains the pieces in order.
fn has(line: &str, pieces: &[String]) -> bool {
    let mut rest = line;
    pieces.iter().all(|piece| {
        let found = rest.find(piece.trim_end());
        rest = found.map_or("", |at| &rest[at + piece.trim_end().len()..]);
        found.is_some()
    })
}

/// Collects the place and the pieces of every text in a file.
fn texts(path: &Path, found: &mut Vec<(String, Vec<String>)>) {
    let source = fs::read_to_string(path).unwrap();
    let shipped = source.split("#[cfg(test)]").next().unwrap();
    for (at, _) in shipped.match_indices(['C', '.', 'l', '#']) {
        let Some(before) = BEFORE.iter().find(|before| shipped[at..].starts_with(**before)) else { continue };
        let Some(pieces) = pieces(&shipped[at + before.len()..]) else { continue };
        let letters = pieces.iter().flat_map(|piece| piece.chars()).filter(|c| c.is_alphabetic()).count();
        if letters >= LETTERS {
            let line = shipped[..at].matches('\n').count() + 1;
            found.push((format!("{}:{line}", path.display()), pieces));
        }
    }
}

fn walk(dir: &Path, found: &mut Vec<(String, Vec<String>)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") && path.file_name().is_some_and(|name| name != "tests.rs")
        {
            texts(&path, found);
        }
    }
}

#[test]
fn every_error_text_stands_in_a_transcript() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut found = Vec::new();
    CRATES.iter().for_each(|folder| walk(&root.join(folder), &mut found));
    let golden = fs::read_dir(root.join("tests/golden/cli")).unwrap().map(|entry| entry.unwrap().path());
    let golden: String = golden.filter(|path| path.is_file()).map(|path| fs::read_to_string(path).unwrap()).collect();
    let elsewhere: Vec<&str> = ELSEWHERE.iter().flat_map(|(_, texts)| texts.iter().copied()).collect();
    let (mut missing, mut excused, mut shown) = (Vec::new(), Vec::new(), 0);
    for (place, pieces) in &found {
        let text = pieces.join("…");
        let stands = golden.lines().any(|line| line.starts_with(['!', '#']) && has(line, pieces));
        match (stands, elsewhere.contains(&&*text)) {
            (true, false) => shown += 1,
            (false, true) => excused.push(text),
            (true, true) => missing.push(format!("{place}: it has a transcript, and is excused: {text}")),
            (false, false) => missing.push(format!("{place}: {text}")),
        }
    }
    println!("{} error texts: {shown} in transcripts, {} excused", found.len(), excused.len());
    let gone: Vec<_> = elsewhere.iter().filter(|text| !excused.iter().any(|excused| excused == *text)).collect();
    assert!(missing.is_empty(), "{} without a transcript:\n{}", missing.len(), missing.join("\n"));
    assert!(gone.is_empty(), "excused, and not in the source any more: {gone:?}");
    assert!(found.len() > 150, "the texts are read: {}", found.len());
}
