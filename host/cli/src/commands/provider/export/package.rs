//! A package: the provider's program for a platform, in a folder and in a zip with the same content.
//!
//! The zip depends on the program and its name alone: no time and no owner are in it. Its hashes, and those of the
//! folder, are the ones that core writes into `.terraform.lock.hcl`.

use std::{
    fs::{File, Permissions},
    io::{self, Seek as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use mortise_durable_fs::AtomicFile;
use sha2::{Digest as _, Sha256};

use super::{platform::Binary, zip::pack};
use crate::CliError;

/// Places of a provider's version in a mirror.
pub(super) struct Places {
    /// Directory of the provider: HOST/NAMESPACE/TYPE.
    pub(super) dir: PathBuf,
    /// The provider's type.
    pub(super) name: String,
    /// The provider's version.
    pub(super) version: String,
}

impl Places {
    /// The directory of the version.
    pub(super) fn version_dir(&self) -> PathBuf {
        self.dir.join(&self.version)
    }

    /// The program's name in every package.
    fn program_name(&self) -> String {
        format!("terraform-provider-{}_v{}", self.name, self.version)
    }

    fn program(&self, platform: &str) -> PathBuf {
        self.version_dir().join(platform).join(self.program_name())
    }

    fn archive_name(&self, platform: &str) -> String {
        format!("terraform-provider-{}_{}_{platform}.zip", self.name, self.version)
    }
}

/// A package that is complete, under unfinished names beside its places.
pub(super) struct Unplaced {
    /// `OS_ARCH`, as in Go.
    pub(super) platform: String,
    /// Name of the zip in the provider's directory.
    pub(super) archive: String,
    /// Hash of the folder: `h1:…`.
    pub(super) folder_hash: String,
    /// Hash of the zip: `zh:…`.
    pub(super) archive_hash: String,
    /// Place of the program, and of the zip.
    pub(super) paths: [PathBuf; 2],
    program: AtomicFile,
    zip: AtomicFile,
}

/// A program that may be in the mirror.
pub(super) struct Checked<'a> {
    binary: &'a Binary,
    source: File,
    /// SHA-256 of the program.
    hash: String,
}

impl<'a> Checked<'a> {
    /// Checks a program; changes nothing.
    ///
    /// # Errors
    /// The program cannot be read or is for another platform, or the mirror has another one under the same version: a
    /// lock file that names the present one would no longer hold.
    pub(super) fn new(binary: &'a Binary, places: &Places) -> Result<Self, CliError> {
        let path = places.program(&binary.platform);
        let mut source = binary.open()?;
        let hash = sha256(&mut source).map_err(|e| CliError::file("cannot read", &binary.program, e))?;
        if let Some(present) = present(&path)?
            && present != hash
        {
            let fault = format!("{} is another program, and lock files hold its hash", path.display());
            return Err(CliError::failed(fault).remedy("export to an empty directory, or remove that program first"));
        }
        Ok(Self { binary, source, hash })
    }
}

impl Unplaced {
    /// Makes the package of a program, and changes nothing that core reads.
    ///
    /// # Errors
    /// The files cannot be read or written.
    pub(super) fn make(checked: Checked<'_>, places: &Places) -> Result<Self, CliError> {
        let Checked { binary: Binary { platform, .. }, mut source, hash } = checked;
        let (path, archive) = (places.program(platform), places.archive_name(platform));
        let archive_path = places.dir.join(&archive);
        let make = |dir: &Path| std::fs::create_dir_all(dir).map_err(|e| CliError::file("cannot make", dir, e));
        make(&places.version_dir().join(platform))?;
        let unwritten = |e: io::Error| CliError::file("cannot write", &path, e);
        let mut unpacked = AtomicFile::new_beside(&path).map_err(CliError::fs)?;
        source.rewind().and_then(|()| io::copy(&mut source, &mut unpacked)).map_err(unwritten)?;
        unpacked.file().set_permissions(Permissions::from_mode(0o755)).map_err(unwritten)?;
        let unwritten = |e: io::Error| CliError::file("cannot write", &archive_path, e);
        let mut zip = AtomicFile::new_beside(&archive_path).map_err(CliError::fs)?;
        source.rewind().map_err(unwritten)?;
        pack(&mut source, &places.program_name(), zip.file()).map_err(unwritten)?;
        zip.file().set_permissions(Permissions::from_mode(0o644)).map_err(unwritten)?;
        let packed = zip.file().rewind().and_then(|()| sha256(zip.file())).map_err(unwritten)?;
        Ok(Self {
            folder_hash: folder_hash(&[(&places.program_name(), &hash)]),
            archive_hash: format!("zh:{packed}"),
            platform: platform.clone(),
            archive,
            paths: [path, archive_path],
            program: unpacked,
            zip,
        })
    }

    /// Puts program and zip in their places.
    pub(super) fn place(self) -> Result<(), CliError> {
        self.program.replace_durably().and_then(|()| self.zip.replace_durably()).map_err(CliError::fs)
    }
}

/// The hash of a file that may not exist.
fn present(path: &Path) -> Result<Option<String>, CliError> {
    let unread = |e: io::Error| CliError::file("cannot read", path, e);
    match File::open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => sha256(&mut opened.map_err(unread)?).map(Some).map_err(unread),
    }
}

/// SHA-256 of the rest of a file, in hexadecimal digits.
fn sha256(file: &mut File) -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(file, &mut hash)?;
    Ok(format!("{:x}", hash.finalize()))
}

/// Core's hash of a folder, from the names and hashes of its files: that of Go's modules.
fn folder_hash(files: &[(&str, &str)]) -> String {
    let mut lines: Vec<_> = files.iter().map(|(name, hash)| format!("{hash}  {name}\n")).collect();
    lines.sort();
    format!("h1:{}", STANDARD.encode(Sha256::digest(lines.concat())))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    fn program(dir: &Path, name: &str, text: &str) -> Binary {
        let program = dir.join(name);
        let mut bytes = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0];
        bytes.resize(18, 0);
        bytes.extend([183, 0]);
        bytes.extend(text.as_bytes());
        fs::write(&program, bytes).unwrap();
        Binary { platform: "linux_arm64".into(), program }
    }

    fn make(binary: &Binary, places: &Places) -> Result<Unplaced, CliError> {
        Unplaced::make(Checked::new(binary, places)?, places)
    }

    fn places(dir: &Path) -> Places {
        Places { dir: dir.join("h.x/n/mortise"), name: "mortise".into(), version: "1.2.3".into() }
    }

    #[test]
    fn a_zip_depends_on_the_program_alone() {
        let dir = tempfile::tempdir().unwrap();
        let text = "x".repeat(100_000);
        let first = program(dir.path(), "one", &text);
        let second = program(dir.path(), "two", &text);
        fs::set_permissions(&second.program, Permissions::from_mode(0o600)).unwrap();
        let at = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        File::options().append(true).open(&second.program).unwrap().set_modified(at).unwrap();
        let made = [(&first, "a"), (&second, "b")].map(|(binary, folder)| {
            let package = make(binary, &places(&dir.path().join(folder))).unwrap();
            let (hash, [unpacked, path]) = (package.archive_hash.clone(), package.paths.clone());
            let listed = package.folder_hash.clone();
            package.place().unwrap();
            let name = unpacked.file_name().unwrap().to_str().unwrap();
            let program = format!("{:x}", Sha256::digest(fs::read(&unpacked).unwrap()));
            assert_eq!(listed, folder_hash(&[(name, &program)]), "core reads the folder of the program");
            (hash, fs::read(path).unwrap())
        });
        assert_eq!(made[0], made[1]);
        assert_eq!(made[0].0, format!("zh:{:x}", Sha256::digest(&made[0].1)));
        assert!(made[0].1.len() < 2_000, "packed");
    }

    #[test]
    fn another_program_under_the_same_version_is_refused_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let places = places(dir.path());
        let package = make(&program(dir.path(), "one", "1"), &places).unwrap();
        let paths = package.paths.clone();
        package.place().unwrap();
        let before = paths.clone().map(|path| fs::read(path).unwrap());
        let refused = make(&program(dir.path(), "two", "2"), &places).err().unwrap();
        assert!(refused.message.ends_with("is another program, and lock files hold its hash"), "{refused:?}");
        assert_eq!(paths.map(|path| fs::read(path).unwrap()), before);
        make(&program(dir.path(), "three", "1"), &places).unwrap().place().unwrap();
    }

    /// The expected hash comes from `openssl dgst`; a real core checks the hash of a package in tests/provider.
    #[test]
    fn the_hash_of_a_folder_is_the_hash_of_its_list_of_files() {
        let empty = format!("{:x}", Sha256::digest(b""));
        assert_eq!(folder_hash(&[("a", &empty)]), "h1:+6GTBXDPLTOioF/0Ok/qUyOCYR9Dh2mI/Jwx/ZzhAtE=");
    }
}
