//! `mortise plugin keygen`, and the password of a secret key.

use std::{
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use clap::Args;
use mortise_durable_fs::{AtomicFile, FsError};
use mortise_keys::signature::{KeyPair, PublicKey, SigningError};

use crate::{CliError, Exit, output::ui};

pub(super) const EXAMPLES: &str = "\
mortise plugin keygen release
mortise plugin keygen release --password-file /run/secrets/signing
mortise plugin keygen ci --without-password";

/// Password of a secret key: given by option, or asked for.
#[derive(Debug, Args)]
pub(super) struct Password {
    /// A file with the password of the secret key [default: asked for on the terminal]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// The password of the secret key
    #[arg(
        long,
        value_name = "PASSWORD",
        env = "MORTISE_SIGNING_PASSWORD",
        hide_env_values = true,
        conflicts_with = "password_file"
    )]
    password: Option<String>,
}

impl Password {
    /// Returns the password given by option, if any.
    fn given(&self) -> Result<Option<String>, CliError> {
        let read = |path: &Path| {
            let text = std::fs::read_to_string(path).map_err(|e| CliError::file("cannot read", path, e))?;
            Ok(text.trim_end_matches(['\r', '\n']).to_owned())
        };
        match (&self.password, &self.password_file) {
            (Some(password), _) => Ok(Some(password.clone())),
            (None, Some(path)) => read(path).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Returns the password of a protected key.
    pub(super) fn read(&self) -> Result<String, CliError> {
        self.given()?.map_or_else(|| ask("Password of the secret key: "), Ok)
    }
}

fn ask(prompt: &str) -> Result<String, CliError> {
    rpassword::prompt_password(prompt).map_err(|e| {
        let error = CliError::usage("cannot ask for the password of the secret key").caused_by(e);
        error.remedy("give --password-file FILE, or set MORTISE_SIGNING_PASSWORD")
    })
}

/// Arguments of `plugin keygen`.
#[derive(Debug, Args)]
pub struct Keygen {
    /// The files to write: NAME.pub and NAME.key
    #[arg(value_name = "NAME")]
    name: PathBuf,
    #[command(flatten)]
    password: Password,
    /// Leaves the secret key without a password: everyone who reads the file can sign
    #[arg(long, conflicts_with_all = ["password", "password_file"])]
    without_password: bool,
}

impl Keygen {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let file = |extension: &str| {
            let mut name = self.name.clone().into_os_string();
            name.push(extension);
            PathBuf::from(name)
        };
        let (public_path, secret_path) = (file(".pub"), file(".key"));
        if let Some(there) = [&public_path, &secret_path].into_iter().find(|path| path.symlink_metadata().is_ok()) {
            let what = format!("{} exists already; servers that trust it would not trust a new key", there.display());
            return Err(CliError::usage(what).remedy("choose another name, or move the file away"));
        }
        let password = match (self.without_password, self.password.given()?) {
            (true, _) => None,
            (false, Some(password)) => Some(password),
            (false, None) => {
                let password = ask("Password for the new secret key: ")?;
                if ask("Once more: ")? != password {
                    return Err(CliError::usage("the two passwords differ").remedy("try again"));
                }
                Some(password)
            }
        };
        if password.as_deref() == Some("") {
            return Err(CliError::usage("the password is empty").remedy("--without-password makes a key without one"));
        }
        let pair = KeyPair::generate(password).map_err(|e| CliError::failed("cannot make the keys").caused_by(e))?;
        write_new(&secret_path, pair.secret.as_bytes(), 0o600, false)?;
        write_new(&public_path, pair.public.as_bytes(), 0o644, false)?;
        let line = pair.public.lines().nth(1).unwrap_or_default();
        let id = PublicKey::parse(line).map(|key| key.id().to_owned()).unwrap_or_default();
        ui::print(format!(
            "{}, {}: the key {id}\n\nThe server's config.toml:\n\n  [plugins]\n  trusted_keys = [\"{line}\"]\n",
            public_path.display(),
            secret_path.display(),
        ))?;
        Ok(Exit::Done)
    }
}

/// Writes a whole file; replaces an existing one only if `replace` is set.
pub(super) fn write_new(path: &Path, content: &[u8], mode: u32, replace: bool) -> Result<(), CliError> {
    let write = || {
        let mut file = AtomicFile::new_beside(path)?;
        file.write_all(content).map_err(FsError::with_path(path, "write"))?;
        file.file()
            .set_permissions(std::fs::Permissions::from_mode(mode))
            .map_err(FsError::with_path(path, "write"))?;
        if replace { file.replace_durably() } else { file.create_durably() }
    };
    write().map_err(CliError::fs)
}

impl From<SigningError> for CliError {
    fn from(error: SigningError) -> Self {
        CliError::usage("cannot sign").caused_by(error)
    }
}
