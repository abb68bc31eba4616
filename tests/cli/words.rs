//! Words of other tools: each command that kubectl's and consul's help lists is a command here, or its error names the
//! form to type. docs/cli.md has the table, which this test makes.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::Command,
};

use crate::support::{Server, transcript::Transcript};

/// Commands of kubectl 1.32, and those subcommands that its groups list.
const KUBECTL: &str = "\
    annotate, api-resources, api-versions, apply, apply edit-last-applied, apply set-last-applied, \
    apply view-last-applied, attach, auth, auth can-i, auth reconcile, auth whoami, autoscale, certificate, \
    cluster-info, completion, config, config current-context, config delete-cluster, config delete-context, \
    config delete-user, config get-clusters, config get-contexts, config get-users, config rename-context, config set, \
    config set-cluster, config set-context, config set-credentials, config unset, config use-context, config view, \
    cordon, cp, create, debug, delete, describe, diff, drain, edit, events, exec, explain, expose, get, kustomize, \
    label, logs, options, patch, plugin, plugin list, port-forward, proxy, replace, rollout, rollout history, \
    rollout pause, rollout restart, rollout resume, rollout status, rollout undo, run, scale, set, taint, top, uncordon, \
    version, wait";

/// Commands of Consul 2.0, and the subcommands of the groups that people use most.
const CONSUL: &str = "\
    acl, acl auth-method, acl binding-rule, acl bootstrap, acl policy, acl role, acl templated-policy, acl token, agent, \
    catalog, catalog datacenters, catalog nodes, catalog services, config, config delete, config list, config read, \
    config write, connect, debug, event, exec, force-leave, forget, info, intention, join, keygen, keyring, kv, leave, \
    lock, login, logout, maint, members, monitor, operator, peering, reload, resource, resource apply, resource delete, \
    resource list, resource read, rtt, services, snapshot, snapshot agent, snapshot decode, snapshot inspect, \
    snapshot restore, snapshot save, tls, tls ca, tls cert, troubleshoot, validate, version, watch";

/// Words that people try out of habit.
const HABIT: &str = "\
    add, cat, clone, connect-to, ctx, deploy, disable, doctor, dump, enable, find, fmt, health, history, init, inspect, \
    install, kill, list, load, log, ls, metrics, mv, namespaces, new, nodes, ns, open, ping, plugins, policies, ps, put, \
    query, read, remove, rename, restart, rm, rollback, save, schema, search, server, show, start, stop, test, tokens, \
    undo, uninstall, unlabel, update, upgrade, use, verify, whoami, write";

/// Marks of the table in docs/cli.md.
const BEGIN: &str = "<!-- words: made by tests/cli/words.rs -->\n";
const END: &str = "<!-- end of words -->\n";

fn words(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.split(',').map(str::trim)
}

/// Runs a command, and returns its exit code, output and error.
async fn typed(t: &Transcript, words: &[&str]) -> (Option<i32>, String, String) {
    let output = t.command(words).output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Commands in backquotes in a text: the words up to the first argument.
fn commands_in(text: &str) -> Vec<Vec<&str>> {
    let quoted = text.split('`').skip(1).step_by(2).filter_map(|quoted| quoted.strip_prefix("mortise "));
    let is_command = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-');
    quoted.map(|quoted| quoted.split(' ').take_while(is_command).collect()).collect()
}

/// The cell of the table for a word: the command here with its effect, or the error's texts.
async fn answer(t: &Transcript, word: &str) -> Result<String, String> {
    let split: Vec<&str> = word.split(' ').collect();
    let (code, out, _) = typed(t, &[&split[..], &["--help"]].concat()).await;
    if code == Some(0) {
        let about = out.lines().next().unwrap_or_default().trim_end_matches('.');
        let usage = out.split("Usage: ").nth(1).and_then(|usage| usage.lines().next()).unwrap_or_default();
        let name = usage.split(' ').take_while(|word| !word.starts_with(['[', '<'])).collect::<Vec<_>>().join(" ");
        return Ok(format!("`{name}`: {about}"));
    }
    let (code, out, err) = typed(t, &split).await;
    let bare = |code| format!("`mortise {word}` ends with {code:?}: {out}{err}");
    let lines: Vec<&str> = err.lines().collect();
    let [fault, hint] = lines[..] else { return Err(bare(code)) };
    let fault = fault.strip_prefix(&format!("mortise: the command `mortise {word}` does not exist"));
    let (Some(fault), Some(hint), Some(2)) = (fault, hint.strip_prefix("  hint: "), code) else {
        return Err(bare(code));
    };
    if hint.contains("did you mean") || hint.contains("lists the commands") {
        return Err(bare(code));
    }
    for command in commands_in(hint) {
        // A hint may name values after a command.
        let (code, ..) = typed(t, &[&command[..], &["--help"]].concat()).await;
        assert_eq!(code, Some(0), "the hint of {word} names `mortise {}`", command.join(" "));
    }
    Ok(match fault.strip_prefix(": ") {
        Some(fault) => format!("{fault}; {hint}"),
        None => hint.to_owned(),
    })
}

#[tokio::test]
async fn every_word_of_kubectl_and_consul_does_the_thing_or_is_explained() {
    let t = Transcript::at("words", "127.0.0.1:1");
    let (_, help, _) = typed(&t, &["--help"]).await;
    let listed = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let own = listed.lines().filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let own: Vec<&str> = own.filter_map(|line| line.split(' ').next()).filter(|word| *word != "help").collect();
    let mut all: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (tool, list) in [
        ("kubectl", words(KUBECTL).collect::<Vec<_>>()),
        ("consul", words(CONSUL).collect()),
        ("habit", words(HABIT).collect()),
        ("Mortise", own),
    ] {
        list.into_iter().for_each(|word| _ = all.entry(word).or_default().insert(tool));
    }
    let (mut rows, mut without) = (String::new(), Vec::new());
    for (word, tools) in &all {
        let tools: Vec<&str> =
            ["kubectl", "consul", "Mortise"].into_iter().filter(|tool| tools.contains(tool)).collect();
        match answer(&t, word).await {
            Ok(here) => rows.push_str(&format!("| `{word}` | {} | {} |\n", tools.join(", "), here.replace('|', "\\|"))),
            Err(bare) => without.push(bare),
        }
    }
    assert!(without.is_empty(), "{} words without help:\n{}", without.len(), without.join("\n"));
    let table = format!("| word | of | here |\n|---|---|---|\n{rows}");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (stored, after) = rest.split_once(END).unwrap();
    if std::env::var_os("MORTISE_UPDATE_GOLDEN").is_some_and(|wanted| wanted == "1") {
        std::fs::write(&path, [before, BEGIN, &table, END, after].concat()).unwrap();
        return;
    }
    assert_eq!(stored, table, "MORTISE_UPDATE_GOLDEN=1 writes the table in docs/cli.md");
}

/// The list above is that of kubectl where it is installed; the test does nothing elsewhere.
#[test]
fn the_list_of_kubectl_is_complete() {
    let Ok(output) = Command::new("kubectl").arg("--help").output() else { return };
    let help = String::from_utf8(output.stdout).unwrap();
    let known: BTreeSet<&str> = words(KUBECTL).collect();
    let listed = help.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let is_command = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase()) && *word != "kubectl";
    let missing: Vec<&str> = listed.filter(is_command).filter(|word| !known.contains(word)).collect();
    assert_eq!(missing, [""; 0]);
}

#[tokio::test]
async fn a_misspelt_command_type_or_flag_is_guessed_only_if_it_is_near() {
    let server = Server::start().await;
    let mut t = Transcript::new("words", &server);
    for args in [
        &["gte", "artists"][..],
        &["desc", "artist"],
        &["teleport"],
        &["tokn", "list"],
        &["context", "swich", "home"],
        &["plugin", "instal"],
        &["help", "logs"],
        &["get", "artst"],
        &["get", "teleport"],
        &["get", "artists", "--namespce", "blue"],
        &["get", "artists", "--teleport"],
        &["get", "artists", "--raw=/version"],
        &["delete", "artist", "korn", "--grace-period", "0"],
        &["-n", "blue", "logs", "demo"],
        &["--teleport", "get"],
    ] {
        t.fails(2, args).await;
    }
    t.finish();
}
