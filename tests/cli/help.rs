//! Every command says what it does, with an example, and a manual page; every shell has a script.

use std::collections::BTreeSet;

use crate::support::transcript::{Transcript, compare};

/// Collects every command from the help of its parent commands.
async fn commands(t: &Transcript, above: Vec<String>, found: &mut Vec<(Vec<String>, String)>) {
    let mut args: Vec<&str> = above.iter().map(String::as_str).collect();
    args.push("--help");
    let output = t.command(&args).output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{above:?}");
    let help = String::from_utf8(output.stdout).unwrap();
    if let Some((_, rest)) = help.split_once("Commands:\n") {
        // Names are indented by two blanks; continuation lines are indented further.
        let names = rest.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("  "));
        for name in names.filter(|line| !line.starts_with(' ')).filter_map(|line| line.split_whitespace().next()) {
            if name != "help" {
                let mut inner = above.clone();
                inner.push(name.to_owned());
                Box::pin(commands(t, inner, found)).await;
            }
        }
    }
    found.push((above, help));
}

#[tokio::test]
async fn every_command_has_help_with_an_example() {
    let t = Transcript::at("help", "127.0.0.1:1");
    let mut found = Vec::new();
    commands(&t, Vec::new(), &mut found).await;
    assert!(found.len() > 25, "{}", found.len());
    for (command, help) in &found {
        let name = ["mortise"].into_iter().chain(command.iter().map(String::as_str)).collect::<Vec<_>>();
        assert!(!help.trim_start().starts_with("Usage:"), "{name:?} says nothing about itself: {help}");
        compare(&format!("help/{}", name.join("-")), help);
        if command.is_empty() {
            continue;
        }
        let example = help.split_once("Example:\n").or_else(|| help.split_once("Examples:\n"));
        let (_, example) = example.unwrap_or_else(|| panic!("{name:?} has no example: {help}"));
        let examples: Vec<_> = example.lines().take_while(|line| !line.is_empty()).collect();
        assert!(examples.iter().all(|line| line.contains("mortise")), "{name:?}: {examples:?}");
        assert!(help.lines().all(|line| line.chars().count() <= 120), "{name:?} is too wide: {help}");
    }
}

#[tokio::test]
async fn every_shell_has_a_script_and_every_command_a_manual_page() {
    let t = Transcript::at("man", "127.0.0.1:1");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = t.command(&["completions", shell]).output().await.unwrap();
        assert_eq!(output.status.code(), Some(0));
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains("MORTISE_COMPLETE") && script.contains("mortise"), "{shell}: {script}");
    }
    let output = t.command(&["completions", "nosuch"]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(2));

    let output = t.command(&["man", "--dir", "pages"]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let mut found = Vec::new();
    commands(&t, Vec::new(), &mut found).await;
    let wanted: BTreeSet<String> = found
        .iter()
        .map(|(command, _)| {
            ["mortise".to_owned()].into_iter().chain(command.clone()).collect::<Vec<_>>().join("-") + ".1"
        })
        .collect();
    let pages = std::fs::read_dir(t.dir().join("pages")).unwrap();
    let pages: BTreeSet<String> = pages.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(pages, wanted);
    let page = t.command(&["man", "context", "set"]).output().await.unwrap();
    let page = String::from_utf8(page.stdout).unwrap();
    assert!(page.contains(".TH mortise-context-set 1") && page.contains("grpc\\-addr"), "{page}");
    let page = String::from_utf8(t.command(&["man", "get"]).output().await.unwrap().stdout).unwrap();
    for part in [
        ".SH \"ENVIRONMENT\"\n",
        "\\fBMORTISE_ADDR\\fR\nThe value of \\-\\-grpc\\-addr.",
        ".SH \"FILES\"\n",
        ".SH \"EXIT STATUS\"\n",
        "\\fB4\\fR\ndifferences (diff, plan)",
        ".SH \"SEE ALSO\"\n\\fBmortise\\fR(1)",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("Exit codes:"), "{page}");
    let output = t.command(&["man", "nosuch"]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(2));
}
