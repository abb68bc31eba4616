//! `mortise upgrade --check`: settings, the format of a store that a server uses, and the plugins of a folder.

use std::fs;

use mortise_test_guests::{good_manifest, manifest_only};
use prost::Message as _;

use crate::support::{Setup, artist, mortise, transcript::Transcript};

fn good() -> Vec<u8> {
    manifest_only(&good_manifest().encode_to_vec())
}

#[tokio::test]
async fn what_is_in_the_way_of_an_upgrade_is_listed() {
    let mut t = Transcript::at("upgrade", "127.0.0.1:1");
    t.fails(2, &["upgrade"]).await;
    t.fails(1, &["upgrade", "--check", "--data-dir", "new", "--plugin-dir", "none"]).await;
    for (data, format) in [("same", "1"), ("newer", "9999"), ("odd", "one")] {
        let dir = t.dir().join(data).join("store/store");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("format"), format!("mortise-store {format}\n")).unwrap();
    }
    fs::create_dir(t.dir().join("plugins")).unwrap();
    t.file("plugins/good.wasm", good());
    t.file("plugins/notes.txt", "passed over");
    t.works(&["upgrade", "--check", "--data-dir", "same", "--plugin-dir", "plugins"]).await;
    t.file("plugins/bad.wasm", "no component");
    t.file("wrong.toml", "data_dir = \"newer\"\nplugin_dir = \"plugins\"\n[log]\nlevel = \"loud\"\n");
    t.fails(1, &["upgrade", "--check", "--config", "wrong.toml"]).await;
    t.fails(1, &["upgrade", "--check", "--data-dir", "odd", "--plugin-dir", "plugins"]).await;
    let signed = "data_dir = \"same\"\nplugin_dir = \"plugins\"\n[plugins]\nbundled = [\"demo\"]\nrequire_signed = true\n\
                  trusted_keys = [\"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\"]\n";
    t.file("signed.toml", signed);
    t.fails(1, &["upgrade", "--check", "--config", "signed.toml"]).await;
    t.file("syntax.toml", "[log\n");
    t.fails(1, &["upgrade", "--check", "--config", "syntax.toml"]).await;
    t.works(&["upgrade", "--check", "--store-engine", "etcd", "--plugin-dir", "none"]).await;
    // Nothing was made.
    let mut left: Vec<_> = fs::read_dir(t.dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["newer", "odd", "plugins", "same", "signed.toml", "syntax.toml", "wrong.toml"]);
    t.finish();
}

#[tokio::test]
async fn a_server_goes_on_while_its_upgrade_is_checked() {
    // Of a store in etcd the command only says where it is.
    let server = Setup::new().of_sled().component("good", good()).start().await;
    let [data, plugins] = [&server.data_dir, &server.plugin_dir].map(|dir| dir.to_str().unwrap());
    let (code, out, err) = mortise(&["upgrade", "--check", "--data-dir", data, "--plugin-dir", plugins], &[]).await;
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    for text in
        ["settings: valid\n", ": format 1, which stays", "plugin good.wasm: good 0.1.0 loads\n", "nothing is in"]
    {
        assert!(out.contains(text), "{out}");
    }
    server.write(artist("korn")).await.unwrap();
    assert!(server.stop().await.success());
}
