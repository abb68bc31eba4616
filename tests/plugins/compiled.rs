//! Code that another machine compiled: `mortise plugin compile`, a signature, and a server that takes it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use mortise_test_guests::{good_manifest, manifest_only};
use prost::Message as _;
use tempfile::TempDir;

use crate::support::{Setup, artist, mortise};

const TAKEN: &str = "compiled code from another machine is used";
const PASSED_OVER: &str = "compiled code in plugins.code_dir is not used, and the component is compiled here";

/// A component, its code for both kinds of machines, and keys.
struct Place(TempDir);

impl Place {
    async fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::write(place.path("good.wasm"), good()).unwrap();
        place.works(&["plugin", "compile", &place.text("good.wasm"), "-o", &place.text("code")]).await;
        place.works(&["plugin", "keygen", &place.text("code-key"), "--without-password"]).await;
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    async fn works(&self, args: &[&str]) -> String {
        let (code, out, err) = mortise(args, &[]).await;
        assert_eq!(code, Some(0), "{args:?}: {out}{err}");
        out
    }

    /// The files of code.
    fn files(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.path("code")).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|extension| extension == "code")).collect()
    }

    async fn sign(&self) {
        for file in self.files() {
            let file = file.display().to_string();
            self.works(&["plugin", "sign", &file, "--key", &self.text("code-key.key"), "--force"]).await;
        }
    }

    /// A server with an empty cache, and the text of its log once the plugin serves.
    async fn log(&self) -> String {
        self.log_with(&tempfile::tempdir().unwrap(), "code-key.pub").await
    }

    /// The same with this cache, and this key for code.
    async fn log_with(&self, cache: &TempDir, key: &str) -> String {
        let server = Setup::new()
            .component("good", good())
            .env("MORTISE_CACHE_DIR", cache.path().display())
            .env("MORTISE_PLUGINS_CODE_DIR", self.text("code"))
            .env("MORTISE_PLUGINS_CODE_KEYS", self.text(key))
            .start()
            .await;
        server.write(artist("korn")).await.unwrap();
        let log = server.log();
        assert!(server.stop().await.success());
        log
    }
}

fn good() -> Vec<u8> {
    manifest_only(&good_manifest().encode_to_vec())
}

fn change_last_byte(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn signed_code_of_another_machine_is_used_and_any_other_is_compiled_again() {
    let place = Place::new().await;
    assert_eq!(place.files().len(), 2, "for small and for larger machines");
    let unsigned = place.log().await;
    assert!(unsigned.contains(PASSED_OVER) && unsigned.contains("it has no signature beside it"), "{unsigned}");
    assert!(!unsigned.contains(TAKEN), "{unsigned}");

    place.sign().await;
    let signed = place.log().await;
    assert!(signed.contains(TAKEN) && !signed.contains(PASSED_OVER), "{signed}");

    place.files().iter().for_each(|file| change_last_byte(file));
    let changed = place.log().await;
    assert!(changed.contains(PASSED_OVER) && changed.contains("does not match the content"), "{changed}");
    assert!(!changed.contains(TAKEN), "{changed}");

    // Signed by a trusted key, but for another component.
    let files = place.files();
    for file in &files {
        let bytes = fs::read(file).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let start = text.find("\"component\":\"").unwrap() + 13;
        let mut other = bytes.clone();
        other[start] = if other[start] == b'0' { b'1' } else { b'0' };
        fs::write(file, other).unwrap();
    }
    place.sign().await;
    let other = place.log().await;
    assert!(other.contains(PASSED_OVER) && other.contains("its component is"), "{other}");
}

#[tokio::test]
async fn a_key_that_is_taken_out_no_longer_counts() {
    let place = Place::new().await;
    place.sign().await;
    let cache = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let taken = place.log_with(&cache, "code-key.pub").await;
        assert!(taken.contains(TAKEN), "{taken}");
    }
    place.works(&["plugin", "keygen", &place.text("other"), "--without-password"]).await;
    let refused = place.log_with(&cache, "other.pub").await;
    assert!(refused.contains("which is not trusted") && !refused.contains(TAKEN), "{refused}");
}

#[tokio::test]
async fn a_folder_of_code_needs_keys_and_keys_need_a_folder() {
    for (given, missing) in [("CODE_DIR", "plugins.code_keys"), ("CODE_KEYS", "plugins.code_dir")] {
        let variable = format!("MORTISE_PLUGINS_{given}");
        let (code, out, err) = mortise(&["validate"], &[(&variable, "/nowhere")]).await;
        assert_eq!(code, Some(1), "{out}{err}");
        assert!(err.contains(&format!("has no effect without {missing}")), "{err}");
    }
}
