//! Credentials for registries, from the file that `docker login`, `oras login` and `crane auth login` write.
//!
//! # Contract
//! A helper (`credHelpers`, `credsStore`) is the program `docker-credential-NAME` on PATH. It has [`HELPER_TIME`] and
//! [`HELPER_BYTES`] for its answer, and is killed otherwise. Credentials are asked for by the registry's own host, and
//! no text of an error has a secret in it.

use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Longest time of a helper.
pub const HELPER_TIME: Duration = Duration::from_secs(10);

/// Most bytes of a helper's answer.
pub const HELPER_BYTES: usize = 64 << 10;

/// Most bytes of a file of credentials.
const MAX_FILE: u64 = 1 << 20;

/// The key of Docker Hub.
const DOCKER_HUB: &str = "https://index.docker.io/v1/";

/// Fault of credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// The file cannot be read.
    #[error("the credentials in {} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Fault of the system.
        source: io::Error,
    },
    /// The file is not as docker writes it.
    #[error("the credentials in {} are malformed: {source}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The fault, with its place.
        source: serde_json::Error,
    },
    /// An entry that is not base64 of `name:password`.
    #[error("the credentials for {host} in {} are malformed: `auth` is base64 of NAME:PASSWORD", path.display())]
    Entry {
        /// The file.
        path: PathBuf,
        /// Key of the entry.
        host: String,
    },
    /// A helper's name that could lead elsewhere.
    #[error("the credential helper {0:?} has a malformed name; it has letters, digits, '.', '_' and '-'")]
    HelperName(String),
    /// A helper that cannot run.
    #[error("the credential helper {program} cannot be run: {source}")]
    Helper {
        /// The program.
        program: String,
        /// Fault of the system.
        source: io::Error,
    },
    /// A helper without an answer.
    #[error("the credential helper {program} did not answer within {limit:?}", limit = HELPER_TIME)]
    HelperTooLate {
        /// The program.
        program: String,
    },
    /// A helper with an unusable answer.
    #[error("the credential helper {program} gave no usable answer ({fault})")]
    HelperAnswer {
        /// The program.
        program: String,
        /// The kind of the fault.
        fault: &'static str,
    },
}

/// Proof of identity for a registry.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// A name and a password.
    Password {
        /// The name.
        name: String,
        /// The password.
        password: String,
    },
    /// A refresh token, for which the registry's authority gives access tokens.
    Refresh(String),
    /// An access token.
    Bearer(String),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}

/// Source of credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CredentialSource {
    /// Requests without credentials.
    #[default]
    Anonymous,
    /// This file, which must exist.
    File(PathBuf),
    /// This file, if it exists.
    FileIfPresent(PathBuf),
}

impl CredentialSource {
    /// The usual file: `$DOCKER_CONFIG/config.json`, or `.docker/config.json` in the home directory.
    #[must_use]
    pub fn usual(env: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let folder = set("DOCKER_CONFIG").or_else(|| set("HOME").map(|home| home.join(".docker")));
        folder.map_or(Self::Anonymous, |folder| Self::FileIfPresent(folder.join("config.json")))
    }

    /// Finds the credentials for a host; `None` if the file has none.
    ///
    /// # Errors
    /// [`CredentialError`].
    pub async fn find(&self, host: &str) -> Result<Option<Credentials>, CredentialError> {
        let (path, may_lack) = match self {
            Self::Anonymous => return Ok(None),
            Self::File(path) => (path, false),
            Self::FileIfPresent(path) => (path, true),
        };
        match read(path).await {
            Ok(file) => file.find(path, host).await,
            Err(CredentialError::Unreadable { source, .. }) if may_lack && source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Docker's file.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct DockerConfig {
    auths: BTreeMap<String, Entry>,
    creds_store: String,
    cred_helpers: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Entry {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
    registrytoken: String,
}

/// Answer of a helper.
#[derive(Deserialize)]
struct HelperAnswer {
    #[serde(rename = "Username")]
    username: String,
    #[serde(rename = "Secret")]
    secret: String,
}

async fn read(path: &Path) -> Result<DockerConfig, CredentialError> {
    let unreadable = |source| CredentialError::Unreadable { path: path.to_owned(), source };
    let file = path.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        let found = std::fs::metadata(&file)?;
        if !found.is_file() || found.len() > MAX_FILE {
            let what = format!("it is not a file of at most {MAX_FILE} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        std::fs::read(&file)
    });
    let bytes = read.await.map_err(io::Error::other).and_then(|read| read).map_err(unreadable)?;
    serde_json::from_slice(&bytes).map_err(|source| CredentialError::Malformed { path: path.to_owned(), source })
}

/// A key of the file without scheme and path, as older programs write them.
fn bare(key: &str) -> &str {
    let key = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    key.split('/').next().unwrap_or(key)
}

/// Keys under which the credentials of a host may be: its own, and the historical one of Docker Hub.
fn keys(host: &str) -> impl Fn(&str) -> bool + '_ {
    let is_hub = host == "docker.io" || host == "registry-1.docker.io";
    move |key| bare(key).eq_ignore_ascii_case(host) || is_hub && matches!(bare(key), "index.docker.io" | "docker.io")
}

impl DockerConfig {
    async fn find(self, path: &Path, host: &str) -> Result<Option<Credentials>, CredentialError> {
        let is_key = keys(host);
        // What docker looks at, in its order: the helper of the host, the helper of all hosts, the file.
        if let Some((key, helper)) = self.cred_helpers.iter().find(|(key, _)| is_key(key)) {
            return ask(helper, key).await;
        }
        if !self.creds_store.is_empty() {
            let key = if is_key("docker.io") { DOCKER_HUB } else { host };
            if let Some(found) = ask(&self.creds_store, key).await? {
                return Ok(Some(found));
            }
        }
        let Some((key, entry)) = self.auths.into_iter().find(|(key, _)| is_key(key)) else { return Ok(None) };
        entry.read().map_err(|()| CredentialError::Entry { path: path.to_owned(), host: key })
    }
}

impl Entry {
    fn read(self) -> Result<Option<Credentials>, ()> {
        if !self.registrytoken.is_empty() {
            return Ok(Some(Credentials::Bearer(self.registrytoken)));
        }
        if !self.identitytoken.is_empty() {
            return Ok(Some(Credentials::Refresh(self.identitytoken)));
        }
        if self.auth.is_empty() {
            let is_set = !self.username.is_empty();
            return Ok(is_set.then_some(Credentials::Password { name: self.username, password: self.password }));
        }
        let bytes = STANDARD.decode(self.auth.trim()).map_err(|_| ())?;
        let text = String::from_utf8(bytes).map_err(|_| ())?;
        let (name, password) = text.split_once(':').ok_or(())?;
        // Docker's own files may end with zeros.
        let password = password.trim_end_matches('\0').to_owned();
        Ok(Some(Credentials::Password { name: name.to_owned(), password }))
    }
}

/// Asks a helper for the credentials of a host.
async fn ask(name: &str, host: &str) -> Result<Option<Credentials>, CredentialError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.len() > 100 || !name.chars().all(fits) {
        return Err(CredentialError::HelperName(name.chars().take(100).collect()));
    }
    let program = format!("docker-credential-{name}");
    match tokio::time::timeout(HELPER_TIME, run(&program, host)).await {
        Ok(answer) => answer,
        Err(_) => Err(CredentialError::HelperTooLate { program }),
    }
}

/// Runs a helper to its end. It is killed when this future is dropped.
async fn run(program: &str, host: &str) -> Result<Option<Credentials>, CredentialError> {
    let cannot = |source| CredentialError::Helper { program: program.to_owned(), source };
    let useless = |fault| CredentialError::HelperAnswer { program: program.to_owned(), fault };
    let mut command = tokio::process::Command::new(program);
    command.arg("get").kill_on_drop(true);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(cannot)?;
    if let Some(mut input) = child.stdin.take() {
        // A helper that reads nothing may still answer.
        let _ = input.write_all(host.as_bytes()).await;
    }
    let mut answer = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(HELPER_BYTES as u64 + 1).read_to_end(&mut answer).await.map_err(cannot)?;
    }
    if answer.len() > HELPER_BYTES {
        return Err(useless("it is too long"));
    }
    let status = child.wait().await.map_err(cannot)?;
    if !status.success() {
        // The one text that helpers agree on.
        let lacks = String::from_utf8_lossy(&answer).contains("credentials not found");
        return if lacks { Ok(None) } else { Err(useless("it failed")) };
    }
    let HelperAnswer { username, secret } = serde_json::from_slice(&answer).map_err(|_| useless("it is not JSON"))?;
    Ok(Some(match username.as_str() {
        "<token>" => Credentials::Refresh(secret),
        _ => Credentials::Password { name: username, password: secret },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn password(name: &str, password: &str) -> Option<Credentials> {
        Some(Credentials::Password { name: name.into(), password: password.into() })
    }

    async fn find(text: &str, host: &str) -> Result<Option<Credentials>, CredentialError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        std::fs::write(&path, text).unwrap();
        CredentialSource::File(path).find(host).await
    }

    #[tokio::test]
    async fn each_kind_of_entry_is_read_for_its_own_host_alone() {
        let text = r#"{"auths": {
            "h:5000": {"auth": "bWU6cDpzcw=="}, "https://old.example/v1/": {"username": "u", "password": "p"},
            "t.example": {"identitytoken": "id"}, "r.example": {"registrytoken": "rt"}, "e.example": {},
            "https://index.docker.io/v1/": {"auth": "aHViOng="}, "bad.example": {"auth": "%%"}}}"#;
        assert_eq!(find(text, "h:5000").await.unwrap(), password("me", "p:ss"));
        assert_eq!(find(text, "h").await.unwrap(), None);
        assert_eq!(find(text, "h:5001").await.unwrap(), None);
        assert_eq!(find(text, "old.example").await.unwrap(), password("u", "p"));
        assert_eq!(find(text, "t.example").await.unwrap(), Some(Credentials::Refresh("id".into())));
        assert_eq!(find(text, "r.example").await.unwrap(), Some(Credentials::Bearer("rt".into())));
        assert_eq!(find(text, "e.example").await.unwrap(), None);
        assert_eq!(find(text, "docker.io").await.unwrap(), password("hub", "x"));
        let fault = find(text, "bad.example").await.unwrap_err();
        assert!(matches!(fault, CredentialError::Entry { .. }), "{fault}");
    }

    #[tokio::test]
    async fn a_missing_file_counts_only_if_it_was_named() {
        let missing = PathBuf::from("/nonexistent/config.json");
        let found = CredentialSource::FileIfPresent(missing.clone()).find("h").await;
        assert_eq!(found.unwrap(), None);
        let fault = CredentialSource::File(missing).find("h").await.unwrap_err();
        assert!(matches!(fault, CredentialError::Unreadable { .. }), "{fault}");
        let fault = find("{\"auths\": 3}", "h").await.unwrap_err();
        assert!(matches!(fault, CredentialError::Malformed { .. }), "{fault}");
        let usual = |name: &str| (name == "DOCKER_CONFIG").then(|| "/d".to_owned());
        assert_eq!(CredentialSource::usual(usual), CredentialSource::FileIfPresent("/d/config.json".into()));
    }

    #[tokio::test]
    async fn a_helper_s_name_leads_nowhere_else() {
        for name in ["../evil", "a/b", "a b", ""] {
            let text = format!(r#"{{"credHelpers": {{"h": {name:?}}}}}"#);
            let fault = find(&text, "h").await.unwrap_err();
            assert!(matches!(fault, CredentialError::HelperName(_)), "{name}: {fault}");
        }
        let fault = find(r#"{"credsStore": "mortise-has-no-such"}"#, "h").await.unwrap_err();
        assert!(matches!(fault, CredentialError::Helper { .. }), "{fault}");
    }
}
