//! `mortise validate` and `mortise serve --print-config`: every finding with its place, and the origin of each setting.

use std::fs;

use rcgen::{CertificateParams, KeyPair};

use crate::support::transcript::Transcript;

/// An address without a server.
const NOWHERE: &str = "127.0.0.1:1";

/// A server's certificate and its key.
fn pair() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

#[tokio::test]
async fn all_findings_of_a_configuration_have_their_places() {
    let mut t = Transcript::at("validate", NOWHERE);
    let ((cert, key), (_, other)) = (pair(), pair());
    t.file("cert.pem", &cert);
    t.file("key.pem", &key);
    t.file("other.pem", &other);
    t.file("secret", "x");
    t.file("file", "");
    fs::create_dir(t.dir().join("out")).unwrap();
    let right = "http_addr = \"127.0.0.1:8500\"\n[tls]\ncert_file = \"cert.pem\"\nkey_file = \"key.pem\"\n\
                 [plugin.demo.grants]\ndirectories = { out = { path = \"out\", write = true } }\n\
                 secrets = { token = { file = \"secret\" } }\n";
    t.file("right.toml", right);
    t.works(&["validate", "right.toml"]).await;
    // Flags count, too.
    t.fails(1, &["validate", "right.toml", "--http-addr", "0.0.0.0:8500", "--data-dir", "file"]).await;
    let wrong = "htpp_addr = \"127.0.0.1:8500\"\nplugin_dir = \"file\"\n\n[log]\nlevel = \"loud\"\nspans = \"yes\"\n\n\
                 [tls]\ncert_file = \"cert.pem\"\nkey_file = \"other.pem\"\nclient_ca_file = \"missing.pem\"\n\n\
                 [kv]\nvalues = 7\nbytes = \"4 MB\"\n\n[http]\nallowed_hosts = [\"http://a\", \"b\", \"c/d\"]\n\n\
                 [acl]\nanonymous_policies = [\"Blue Team\"]\n\n[plugins]\ntrusted_keys = [\"nothing\"]\n\n\
                 [plugin.demo.grants]\nread = [\"Route\"]\n\
                 directories = { out = { path = \"missing\" }, in = { write = true } }\n\
                 secrets = { token = { file = \"missing\" }, two = { file = \"secret\", env = \"A\" } }\n";
    t.file("wrong.toml", wrong);
    let env = [("MORTISE_SANDBOX_FUEL", "much"), ("MORTISE_DATA_DR", "x"), ("MORTISE_KV_VALUES", "3")];
    let ran = t.run_with(&["validate", "wrong.toml"], "", &env).await;
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    t.file("syntax.toml", "[log\nlevel = \"loud\"\nspans =\n");
    t.fails(1, &["validate", "syntax.toml"]).await;
    t.fails(1, &["validate", "missing.toml"]).await;
    let elsewhere = [("MORTISE_HTTP_ADDR", "192.0.2.1:8500"), ("MORTISE_ALLOW_INSECURE", "true")];
    let ran = t.run_with(&["validate"], "", &elsewhere).await;
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    let same = [("MORTISE_HTTP_ADDR", NOWHERE)];
    let ran = t.run_with(&["validate"], "", &same).await;
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    // Nothing was made.
    let mut left: Vec<_> = fs::read_dir(t.dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    let mut files =
        ["cert.pem", "file", "key.pem", "other.pem", "out", "right.toml", "secret", "syntax.toml", "wrong.toml"];
    files.sort_unstable();
    assert_eq!(left, files);
    t.finish();
}

#[tokio::test]
async fn settings_in_force_are_printed_with_their_origins_and_without_secrets() {
    let t = Transcript::at("print_config", NOWHERE);
    t.file(
        "config.toml",
        "data_dir = \"from-file\"\nplugin_dir = \"from-file\"\n[store]\nhistory_events = 7\n\n[log]\nlevel = \"debug\"\n\
         [acl.certificates]\n\"laptop.example\" = [\"blue\"]\n\
         [plugin.demo]\nlog_level = \"warn\"\n[plugin.demo.settings]\ntoken = \"hunter2\"\ninner = { key = \"hunter3\" }\n\
         [plugin.demo.grants]\nsecrets = { token = { file = \"secret\" } }\n",
    );
    let args = ["serve", "--config", "config.toml", "--data-dir", "from-flag", "--print-config"];
    let ran = t.command(&args).env("MORTISE_SANDBOX_FUEL", "123456").output().await.unwrap();
    let out = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    for line in [
        "data_dir = \"from-flag\"  # flag --data-dir",
        "plugin_dir = \"from-file\"  # config.toml:2",
        "history_events = 7  # config.toml:4",
        "level = \"debug\"  # config.toml:7",
        "fuel = 123456  # environment variable MORTISE_SANDBOX_FUEL",
        "http_addr = \"127.0.0.1:8500\"  # default",
        "\"laptop.example\" = [\"blue\"]  # config.toml:9",
        "log_level = \"warn\"  # config.toml:11",
        "# settings.token is set and not shown  # config.toml:13",
        "# settings.inner is set and not shown  # config.toml:14",
    ] {
        assert!(out.lines().any(|printed| printed == line), "{line}\n{out}");
    }
    assert!(!out.contains("hunter"), "{out}");
    assert!(!t.dir().join("from-flag").exists(), "nothing was started");
    // The text is a configuration with the same settings, but for those of plugins.
    t.file("printed.toml", &out);
    let again = t.command(&["serve", "--config", "printed.toml", "--print-config"]).output().await.unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    let values = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.split("  # ").next().unwrap().to_owned()).collect()
    };
    assert_eq!(values(&String::from_utf8(again.stdout).unwrap()), values(&out));
    t.file("config.toml", "[log]\nlevl = \"debug\"\n");
    let ran = t.command(&args).output().await.unwrap();
    assert_eq!((ran.status.code(), ran.stdout.len()), (Some(2), 0));
}
