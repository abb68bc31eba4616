//! Prints `config.toml` from the table. `MORTISE_UPDATE_GOLDEN=1 cargo test -p mortise` updates the file.

use std::collections::HashMap;

use toml::{Table, Value};

use super::{
    declare::{Section, Setting, check_ranges, range},
    environment::variable,
    load::{Overrides, Settings},
    table::{Config, SECTIONS},
};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config.toml");

/// Columns of a comment, its `# ` included.
const WIDTH: usize = 128;

const HEAD: &str = "\
# Every setting of Mortise with its default. An unset key keeps its default. Unknown keys are errors, and so are numbers outside
# their range, which ends the comment of a number.
#
# Sizes are written with B, KiB, MiB, GiB or TiB, times with ms, s, m or h: \"256MiB\", \"30s\". A bare number counts bytes, or the unit
# at the end of the key: milliseconds (_ms) or seconds (_s).
#
# The environment can set each key that has a default: MORTISE_ and its path in upper case, such as MORTISE_GRPC_ADDR or
# MORTISE_STORE_CACHE_BYTES, with commas between the items of a list. Only this file can have tables with names of your own: for
# plugins, peers and certificates. A flag beats the environment, and the environment beats this file. The comments and defaults
# are those of host/mortise/src/settings/table.rs.

";

/// Tables of single plugins and peers, which have names of their own.
const TAIL: &str = r#"
# Each plugin can have a table of its own, by its name. The plugin gets all of `settings` as JSON, and may refuse it.
# `log_level` is the lowest level that is taken from the plugin's log: off, error, warn, info (the default), debug or trace;
# log.level then decides which lines go to stderr. Changes of `settings` and `grants` apply at once. `source` is the place of the
# plugin in a registry, from which the server installs it, and `update` the newer versions that it installs by itself, too:
# "pin" (the default, none), "patch" or "minor" (docs/registries.md).
#
# [plugin.demo]
# log_level = "debug"
# source = "oci://ghcr.io/acme/demo:1.2.0"
# update = "patch"
# [plugin.demo.settings]
# controller = true   # gives every artist albums
#
# A plugin's controllers may read and write resources of the plugin's own types. `grants` adds to that: types of others to read or
# to write ("edge.v1.*" is every kind), directories and secrets by the names that the plugin uses, and hosts for HTTP and TCP.
# "api.example.org" is https on port 443 alone, plain HTTP needs "http://", "*.example.net" is every name below, and of an entry
# with `requests` and `per_s` so many may pass at once, and then one every `per_s` / `requests` seconds. A granted name covers all
# addresses that it resolves to, private ones included, and "*" covers all that this server reaches (docs/operations.md). The
# files of a directory take at most `bytes`, 64 MiB by default. `check` is a command of yours that refuses a file before it takes
# its place: check = { command = ["nginx", "-t", "-c", "{config}"], config = "/etc/x.conf" }, with {dir} for the directory with
# the new file, {file}, {temp} and {config} (plugins/routes/README.md). `instances = "reuse"` lets an instance serve several
# requests of one caller in one namespace, if the plugin declares its hooks pure; otherwise each request has a fresh one
# (docs/languages.md). `limits` lets the hooks of the plugin have as much as its manifest asks for, up to these, beyond
# sandbox.memory_bytes, sandbox.fuel and sandbox.deadline_ms.
#
# [plugin.demo.grants]
# read = ["edge.v1.Route"]
# write = ["edge.v1.Certificate"]
# directories = { out = { path = "/var/lib/edge", write = true, bytes = "1GiB" } }
# secrets = { token = { file = "/run/secrets/token" }, key = { env = "EDGE_KEY" } }
# http = ["api.example.org", "api.example.org:8443", "http://127.0.0.1:8080", "*.example.net",
#   { host = "api.github.com", requests = 60, per_s = 3600 }]
# tcp = ["db.internal:5432", "192.0.2.7:22", "*.example.net:5432"]
# instances = "reuse"
# limits = { memory_bytes = "64MiB", fuel = 200000000, deadline_ms = "1s" }
#
# Each peer, a server of another region whose resources have replicas here, has a table by the name of its region
# (docs/regions.md): the address of its gRPC port; the authorities (PEM) of its certificate, or those of the system without
# `ca_file`; this server's own certificate and key for it; and the file with a token of the peer. `tls_server_name` is the name
# in its certificate, if that is not the name in the address.
#
# [region.peers.us-1]
# address = "https://us-1.example.net:8502"
# ca_file = "/etc/mortise/us-1/ca.pem"
# cert_file = "/etc/mortise/us-1/eu-1.pem"
# key_file = "/etc/mortise/us-1/eu-1.key"
# token_file = "/etc/mortise/us-1/token"
"#;

/// The whole file.
fn print() -> String {
    let defaults = Table::try_from(Config::default()).unwrap();
    let mut out = HEAD.to_owned();
    for section in SECTIONS {
        let mut values = &defaults;
        if !section.name.is_empty() {
            values = section.name.split('.').fold(values, |within, part| within[part].as_table().unwrap());
            out.push('\n');
            comment(&mut out, section.about);
            out.push_str(&format!("[{}]\n", section.name));
        }
        for setting in section.settings {
            comment(&mut out, &explained(setting));
            let default = values.get(setting.name).unwrap_or_else(|| panic!("{} is no setting", setting.name));
            out.push_str(&format!("{} = {default}\n", setting.name));
        }
    }
    out + TAIL
}

/// The text of a setting, with its range.
fn explained(setting: &Setting) -> String {
    let Some(range) = setting.range else { return setting.doc.to_owned() };
    // On one line.
    format!("{} {}", setting.doc, format!("{range}.").replace(' ', "\u{a0}"))
}

/// Adds a comment, wrapped at spaces, though not at those that do not break.
fn comment(out: &mut String, text: &str) {
    let mut line = String::from("#");
    for word in text.split([' ', '\n']).filter(|word| !word.is_empty()) {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            out.push_str(&line);
            out.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(&word.replace('\u{a0}', " "));
    }
    if line.len() > 1 {
        out.push_str(&line);
        out.push('\n');
    }
}

/// Every dotted key of a table with its default, tables of single plugins left out.
fn leaves(within: &str, table: &Table) -> Vec<(String, Value)> {
    table
        .iter()
        .flat_map(|(key, value)| match value {
            Value::Table(inner) => leaves(&format!("{within}{key}."), inner),
            other => vec![(format!("{within}{key}"), other.clone())],
        })
        .collect()
}

/// Every setting that is a number, with its default.
fn numbers() -> Vec<(String, i64)> {
    let all = leaves("", &Table::try_from(Config::default()).unwrap());
    let number = |(key, value): (String, Value)| match (value, range(SECTIONS, &key)) {
        (Value::Integer(number), _) => Some((key, number)),
        (Value::String(text), Some(range)) => Some((key.clone(), range.read(&key, &text).unwrap())),
        _ => None,
    };
    all.into_iter().filter_map(number).collect()
}

#[test]
fn the_file_is_printed_from_the_table() {
    let printed = print();
    if std::env::var_os("MORTISE_UPDATE_GOLDEN").is_some_and(|wanted| wanted == "1") {
        std::fs::write(FILE, &printed).unwrap();
    }
    let file = std::fs::read_to_string(FILE).unwrap();
    for (number, (file, printed)) in file.lines().zip(printed.lines()).enumerate() {
        assert_eq!(file, printed, "line {}; MORTISE_UPDATE_GOLDEN=1 updates the file", number + 1);
    }
    assert!(file == printed, "the file has other line ends, or not as many");
}

#[test]
fn the_documented_file_lists_every_setting_with_its_default() {
    let settings = Settings::load(Some(FILE.as_ref()), &|_| None, Overrides::default()).unwrap();
    assert_eq!(settings.config, Config::default());
    let keys = |table: &Table| -> Vec<String> {
        let mut keys: Vec<_> = leaves("", table).into_iter().map(|(key, _)| key).collect();
        keys.sort();
        keys
    };
    let documented: Table = std::fs::read_to_string(FILE).unwrap().parse().unwrap();
    assert_eq!(keys(&documented), keys(&Table::try_from(Config::default()).unwrap()));
}

#[test]
fn every_setting_has_a_line_of_why() {
    let known = |section: &Section| section.settings.iter().all(|setting| !setting.doc.trim().is_empty());
    assert!(SECTIONS.iter().all(known));
    let text = std::fs::read_to_string(FILE).unwrap();
    let mut commented = false;
    for line in text.lines() {
        let is_key = line.contains(" = ") && !line.starts_with('#');
        assert!(!is_key || commented, "no comment above: {line}");
        commented = line.starts_with('#');
    }
}

#[test]
fn every_number_has_a_range_with_its_default_in_it_and_just_its_ends_are_taken() {
    let check =
        |key: &str, number: i128| range(SECTIONS, key).unwrap().check(key, number).map(drop).map_err(|e| e.to_string());
    for (key, default) in numbers() {
        let range = range(SECTIONS, &key).unwrap_or_else(|| panic!("{key} has no range"));
        let (least, most) = (range.least.into(), range.most.into());
        for number in [default.into(), least, most] {
            assert_eq!(check(&key, number), Ok(()), "{key}");
        }
        let fault = check(&key, most + 1).unwrap_err();
        assert!(fault.starts_with(&format!("{key} must be {range}, got {}", most + 1)), "{fault}");
        assert_eq!(check(&key, -1), Err(format!("{key} must be {range}, got -1")));
        if least > 0 {
            assert!(check(&key, least - 1).is_err(), "{key}");
            assert_eq!(check(&key, 0).is_ok(), range.or_zero, "{key}");
        }
        let table: Table = format!("{key} = -1").parse().unwrap();
        assert!(check_ranges(SECTIONS, "", &table).is_err(), "{key}");
    }
}

#[test]
fn the_ends_of_ranges_are_taken_by_the_parts_that_judge_for_themselves() {
    for (key, _) in numbers() {
        let range = range(SECTIONS, &key).unwrap();
        let (least, most) = (range.least, range.most);
        for number in [least, most] {
            // dns.prefer_zone_alone_from needs a zone.
            let zone = (variable("dns.prefer_zone"), "rack-1".to_owned());
            let env = HashMap::from([zone, (variable(&key), number.to_string())]);
            let taken = Settings::load(None, &|name| env.get(name).cloned(), Overrides::default());
            assert!(taken.is_ok(), "{key}: {taken:?}");
        }
    }
}
