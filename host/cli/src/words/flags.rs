//! Flags of other tools that no command here has.

use super::word::{Word, word};

/// Finds the entry of a flag for a command.
pub(super) fn find(flag: &str, command: &str) -> Option<&'static Word> {
    let name = flag.split('=').next().unwrap_or(flag);
    let own = OF_COMMANDS.iter().find(|(of, _)| *of == command).map(|(_, words)| *words).unwrap_or_default();
    own.iter().chain(FLAGS).find(|known| known.word == name)
}

/// Flags that mean something else for one command.
const OF_COMMANDS: &[(&str, &[Word])] = &[
    ("", &[word("-v", "", "`mortise --version` shows the version, `mortise version` that of the server, too")]),
    (
        "get",
        &[
            word("--force", "", "a read needs no force; `mortise delete --force` explains what holds a deletion"),
            word("--replicas", "", "give the fields of the type: `mortise patch TYPE NAME -p '{\"data\": {…}}'`"),
        ],
    ),
    (
        "delete",
        &[
            word(
                "--force",
                "no deletion skips finalizers",
                "`mortise describe` shows what holds a resource; `mortise edit` removes finalizers from it",
            ),
            word("--now", "a deletion starts at once", "leave the flag out; `--wait` waits for the end"),
            word("--all-namespaces", "", "mortise get TYPE -A -o name | xargs mortise delete"),
            word("-A", "", "mortise get TYPE -A -o name | xargs mortise delete"),
        ],
    ),
    ("explain", &[word("--recursive", "", "`mortise explain TYPE.FIELD` shows the fields of a field")]),
    ("version", &[word("--short", "the versions are on two lines", "leave the flag out")]),
    (
        "replace",
        &[word(
            "--force",
            "a replacement deletes nothing",
            "`mortise delete -f FILE --wait`, then `mortise create -f FILE`",
        )],
    ),
    (
        "apply",
        &[
            word("--force", "apply always writes, unless the file has a version", "leave the flag out"),
            word("--validate", "the server always validates", "leave the flag out"),
        ],
    ),
];

const FLAGS: &[Word] = &[
    word("-A", "", "--partition and --namespace name the place; `mortise get TYPE -A` covers all of them"),
    word(
        "--all-namespaces",
        "",
        "--partition and --namespace name the place; `mortise get TYPE -A` covers all of them",
    ),
    word("--all-containers", "Mortise runs no containers", "`mortise plugin logs NAME` shows the log of a plugin"),
    word(
        "--as",
        "a caller is a token",
        "give the token: --token-file FILE; `mortise auth can-i … --as` asks about one",
    ),
    word("--as-group", "callers have no groups", "policies have the rights of a token: `mortise policy --help`"),
    word("--cascade", "what a resource owns is always deleted with it", "leave the flag out"),
    word("--chunk-size", "", "`mortise get TYPE --limit COUNT` shows a page"),
    word("--cluster", "", "--context NAME uses a server of the contexts file"),
    word("--datacenter", "a server has one region", "give the server's address: --grpc-addr or --context"),
    word("--field-manager", "the server records the writers by itself", "leave the flag out"),
    word(
        "--grace-period",
        "a deletion ends when no finalizer is left",
        "leave the flag out; `--wait` waits for the end",
    ),
    word("--http-addr", "commands speak gRPC", "give the gRPC port: --grpc-addr HOST:8502"),
    word(
        "--insecure-skip-tls-verify",
        "certificates are always verified",
        "--ca-file FILE names the authority to trust",
    ),
    word("--kubeconfig", "", "MORTISE_CONTEXTS names the contexts file, --context one of its contexts"),
    word("--overrides", "", "`mortise patch TYPE NAME -p PATCH` changes fields"),
    word("--password", "a caller is a token", "--token-file FILE gives the token"),
    word("--raw", "commands speak gRPC", "ask the HTTP port: curl http://127.0.0.1:8500/api/GROUP/VERSION/KIND"),
    word("--record", "the server keeps the history", "leave the flag out; `mortise events TYPE NAME` shows it"),
    word("--output-watch-events", "", "`mortise get TYPE -w -o json` prints each event with its kind"),
    word("--server-side", "every apply is done with the server", "leave the flag out"),
    word("--show-managed-fields", "", "`--view full` shows the server's own data in meta"),
    word("--stale", "", "leave the flag out; `mortise resource read` takes -stale as Consul does"),
    word("--subresource", "", "`mortise status TYPE NAME` shows the status; controllers write it"),
    word("--template", "the format holds its template", "-o go-template=TEMPLATE or -o jsonpath=TEMPLATE"),
    word("--user", "a caller is a token", "--token-file FILE gives the token"),
    word("--username", "a caller is a token", "--token-file FILE gives the token"),
    word("--warnings-as-errors", "", "leave the flag out; warnings are on standard error"),
    word("--watch-only", "", "`mortise get TYPE -w -o json` marks what is present already as `present`"),
    word("-k", "Mortise has no overlays", "apply the text that another tool makes: mortise apply -f -"),
    word("-s", "", "--grpc-addr HOST:PORT gives the server's address"),
    word("-v", "commands have no log", "MORTISE_LOG_LEVEL=debug is for servers"),
];
