//! Hostile text.

use super::check;

const GOOD: &str = "# a comment; with { marks } of nginx's\n\
    \n\
    upstream mortise_a_b_c {\n    server 10.0.0.1:80 weight=1;\n    server [::1]:8080 weight=1000;\n}\n\
    \n\
    server {\n    listen 127.0.0.1:8080;\n    server_name *.example.org;\n    proxy_set_header Host $host;\n    \
    location = /api {\n        proxy_pass http://mortise_a_b_c;\n    }\n    \
    location / {\n        return 404;\n    }\n}\n";

fn judge(text: &str) -> Result<(), String> {
    check(text, &|name| matches!(name, "mortise_a_b_c" | "mortise_a_b_d" | "$mortise_a_b_d"))
        .map_err(|error| error.to_string())
}

/// The good text with one place of it changed.
#[track_caller]
fn changed(from: &str, to: &str) -> Result<(), String> {
    assert_eq!(GOOD.matches(from).count(), 1, "{from:?} stands there once");
    judge(&GOOD.replacen(from, to, 1))
}

#[test]
fn what_is_meant_passes() {
    assert_eq!(judge(GOOD), Ok(()));
    assert_eq!(changed("127.0.0.1:8080;", "[::]:80 default_server;"), Ok(()));
    assert_eq!(changed("http://mortise_a_b_c", "http://mortise_a_b_d"), Ok(()));
    assert_eq!(changed("return 404", "proxy_pass http://mortise_a_b_d"), Ok(()));
}

#[test]
fn an_upstream_without_servers_has_the_one_that_is_down() {
    let alone = "    server 127.0.0.1:1 down;\n";
    let all = "    server 10.0.0.1:80 weight=1;\n    server [::1]:8080 weight=1000;\n";
    assert_eq!(changed(all, alone), Ok(()));
    assert!(changed("server [::1]:8080 weight=1000;", "server 127.0.0.1:1 down;").is_err(), "beside another");
    assert!(changed(all, "    server 127.0.0.2:1 down;\n").is_err(), "another address");
}

#[test]
fn every_place_resists_every_mark() {
    let marks = [
        ";", "{", "}", "\"", "'", "\\", "$", "$host", "`", "\n", "\r", "\t", "\0", "\x7f", "#", " x", "; x", ";}", "é",
        "\u{2028}", "%", "\u{feff}", "(", "|", ",", "@", "&", "<", "+", "?", "!", "^",
    ];
    for place in
        ["10.0.0.1:80", "127.0.0.1:8080", "*.example.org", "= /api", "http://mortise_a_b_c", "upstream mortise_a_b_c"]
    {
        for mark in marks {
            // A block may end its line anywhere; that has no meaning.
            if mark == "\n" {
                continue;
            }
            for text in [format!("{place}{mark}"), format!("{mark}{place}")] {
                assert!(changed(place, &text).is_err(), "{text:?} passed");
            }
        }
    }
}

#[test]
fn nothing_is_smuggled_in() {
    for (from, to) in [
        ("weight=1;", "weight=1; server 10.0.0.9:80;"),
        ("weight=1;", "weight=0;"),
        ("weight=1;", "weight=1001;"),
        ("weight=1;", "max_fails=0;"),
        ("server 10.0.0.1:80", "server unix:/run/x"),
        ("*.example.org;", "a b;"),
        ("*.example.org;", "~.;"),
        ("*.example.org;", "a; root /etc;"),
        ("*.example.org;", "a; server_name b;"),
        ("Host $host;", "Host $http_host;"),
        ("Host $host;", "Host $host; access_log /etc/x;"),
        ("http://mortise_a_b_c;", "http://127.0.0.1:80;"),
        ("http://mortise_a_b_c;", "http://mortise_a_b_x;"),
        ("http://mortise_a_b_c;", "http://mortise_a_b_c/x;"),
        ("http://mortise_a_b_c;", "http://mortise_a_b_c; root /;"),
        ("http://mortise_a_b_c;", "http://mortise_a_b_c; return 404;"),
        ("return 404", "return 200 x"),
        ("return 404", "alias /etc"),
        ("return 404;", ""),
        ("location = /api", "location ~ /api"),
        ("location = /api", "location /"),
        ("location = /api", "location /api"),
        ("location = /api", "location = /api/../x"),
        ("location = /api", "if = /api"),
        ("location / {", "location /x/ {"),
        ("upstream mortise_a_b_c", "upstream x"),
        ("upstream mortise_a_b_c", "stream"),
        ("listen 127.0.0.1:8080;", ""),
        ("listen 127.0.0.1:8080;", "listen 127.0.0.1:8080; listen 127.0.0.1:8081;"),
        ("listen 127.0.0.1:8080;", "listen 127.0.0.1:8080 ssl;"),
        ("server_name *.example.org;", ""),
    ] {
        assert!(changed(from, to).is_err(), "{to:?} passed");
    }
    for more in
        ["include /etc/passwd;\n", "server {\n}\n", "}\n", "upstream mortise_a_b_d {\n", "x", "load_module x;\n"]
    {
        assert!(judge(&format!("{GOOD}{more}")).is_err(), "{more:?} passed behind");
        assert!(judge(&format!("{more}{GOOD}")).is_err(), "{more:?} passed before");
    }
    for (place, _) in GOOD.char_indices().skip(1) {
        let short = &GOOD[..place];
        // The upstream block alone is a whole file.
        let whole = short.trim_end().ends_with("weight=1000;\n}") && short.ends_with('\n');
        assert_eq!(judge(short).is_ok(), whole, "cut at {place}");
    }
    assert!(judge("").is_err() && judge("# nothing\n").is_err());
}

#[test]
fn faults_name_their_line() {
    assert_eq!(changed("return 404", "return 200"), Err("line 16: \"return 200\" is not allowed here".to_owned()));
    assert_eq!(changed("10.0.0.1:80", "10.0.0.1:80'"), Err("line 4: '\\'' is not allowed here".to_owned()));
}

#[test]
fn splits_are_as_they_are_made_here() {
    let split = |inner: &str| {
        let block = format!("split_clients $request_id $mortise_a_b_d {{\n{inner}}}\n\nserver {{\n    listen");
        changed("server {\n    listen", &block)
    };
    assert_eq!(split("    25.00% a.example:80;\n    * mortise_a_b_c;\n"), Ok(()));
    for bad in [
        "",
        "    25.00% a.example:80;\n",
        "    60.00% a.example:80;\n    60.00% b.example:80;\n    * mortise_a_b_c;\n",
        "    * mortise_a_b_c;\n    * mortise_a_b_c;\n",
        "    0.00% a.example:80;\n    * mortise_a_b_c;\n",
        "    * 10.0.0.1:80;\n",
        "    * $mortise_a_b_d;\n",
        "    * $host;\n",
        "    * unix:/run/x;\n",
        "    * a.example:80/x;\n",
        "    * mortise_a_b_x;\n",
        "    * a.example:80; return 404;\n",
    ] {
        assert!(split(bad).is_err(), "{bad:?} passed");
    }
    for (from, to) in [
        ("http://mortise_a_b_c", "http://$mortise_a_b_c"),
        ("http://mortise_a_b_c", "http://$host"),
        ("upstream mortise_a_b_c", "upstream $mortise_a_b_d"),
        ("*.example.org;", "*.example.org;\n    resolver dns.example:53;"),
        ("*.example.org;", "*.example.org;\n    resolver 10.0.0.1:53;\n    resolver 10.0.0.1:53;"),
    ] {
        assert!(changed(from, to).is_err(), "{to:?} passed");
    }
    assert_eq!(changed("http://mortise_a_b_c", "http://$mortise_a_b_d"), Ok(()));
    assert_eq!(changed("*.example.org;", "*.example.org;\n    resolver 10.0.0.1:53;"), Ok(()));
}
