//! Machine code that another machine compiled, and an operator brought along: for machines too small, or too slow, to
//! compile a large plugin.
//!
//! # Contract
//! `mortise plugin compile` writes `DIGEST-RESERVATION.code`, the operator signs it, and the server finds it in
//! `plugins.code_dir` by the component's SHA-256 and its own reservation of a memory. Wasmtime runs machine code
//! unchecked, outside of every sandbox, so a file counts only with a signature by one of `plugins.code_keys`, only for the
//! component and the release that it names, and only if wasmtime finds that this processor can run it. Every other file
//! is refused with a warning, and the component is compiled here. Code that was taken never goes into the cache: a key
//! that is removed from `plugins.code_keys` counts at the next load.
//!
//! The code is for the least processor of its architecture, so that the machine which compiles may be a newer one.
//!
//! # Limits
//! A file has at most [`MAX_CODE_BYTES_PER_COMPONENT_BYTE`] for each byte of its component, and 16 MiB more. It is in
//! memory twice until it is loaded. Code runs on the architecture of the machine that compiled it alone.

use std::{
    fs::OpenOptions,
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use mortise_keys::signature::{FileError, PublicKey, SignatureError, read_signature, verify};
use serde::{Deserialize, Serialize};
use wasmtime::Engine;

use crate::{
    engine::{configuration, pool::PoolSize},
    error::LoadError,
    limits::Limits,
    load::{
        code_cache,
        compile::{self, Compiled},
        machine_code::MachineCode,
    },
};

/// First line of a file.
const MAGIC: &[u8] = b"mortise-code 1\n";

/// Most bytes of the second line.
const MAX_HEADER_BYTES: usize = 1 << 10;

/// Bytes of code that one byte of a component may become. Components of five languages take two to six.
const MAX_CODE_BYTES_PER_COMPONENT_BYTE: u64 = 16;

/// Bytes that the code of the smallest component may have.
const MIN_LIMIT_BYTES: u64 = 16 << 20;

/// Folder with code from other machines, and the keys that it must be signed by.
#[derive(Debug, Clone)]
pub struct CodeFolder {
    /// The folder. It may be missing.
    pub dir: PathBuf,
    /// Keys of signers whose code runs outside of every sandbox.
    pub keys: Vec<PublicKey>,
}

/// Second line of a file, as JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    /// SHA-256 of the component, in hexadecimal.
    component: String,
    /// Release that compiled it.
    mortise: String,
    /// Architecture and system, such as `x86_64-linux`.
    machine: String,
    /// Address space of one memory, bytes.
    reservation: u64,
}

/// Compiled code, as a file of its own.
#[derive(Debug)]
pub struct CodeFile {
    /// Name of the file in a [`CodeFolder`].
    pub name: String,
    /// Content of the file.
    pub content: Vec<u8>,
}

/// Reason that a file is not used.
#[derive(Debug, thiserror::Error)]
enum Unused {
    #[error("it cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    #[error("it has more than {0} bytes, too many for this component")]
    TooLarge(u64),
    #[error("its signature cannot be read: {0}")]
    SignatureFile(#[source] FileError),
    #[error("it has no signature beside it; `mortise plugin sign` makes one")]
    Unsigned,
    #[error("{0}")]
    Signature(#[source] SignatureError),
    #[error("it is not the output of `mortise plugin compile`")]
    Form,
    #[error("its {what} is {found}, not {wanted}; compile the component again")]
    Other { what: &'static str, found: String, wanted: String },
    #[error("its code cannot be kept in memory: {0}")]
    Memory(#[source] io::Error),
    #[error("this machine cannot run it: {0:#}")]
    Machine(#[source] wasmtime::Error),
}

impl CodeFolder {
    /// Finds the code of a component for an engine with this reservation. A file that cannot be used is logged, and
    /// passed over.
    pub(crate) fn find(
        &self,
        engine: &Engine,
        (digest, component_bytes): (&str, usize),
        reservation: u64,
    ) -> Option<Compiled> {
        let path = self.dir.join(file_name(digest, reservation));
        let limit = MIN_LIMIT_BYTES + MAX_CODE_BYTES_PER_COMPONENT_BYTE * component_bytes as u64;
        match self.read(&path, limit).transpose()?.and_then(|(content, key)| {
            let code = code_of(&content, digest, reservation)?;
            let code = MachineCode::of(code).map_err(Unused::Memory)?;
            let component = code.load(engine).map_err(Unused::Machine)?;
            Ok((Compiled { component, code }, key))
        }) {
            Ok((compiled, key)) => {
                tracing::info!(path = %path.display(), key, "compiled code from another machine is used");
                Some(compiled)
            }
            Err(unused) => {
                tracing::warn!(
                    path = %path.display(),
                    "compiled code in plugins.code_dir is not used, and the component is compiled here: {unused}"
                );
                None
            }
        }
    }

    /// Reads a file with the signature beside it, and returns it with the signer's key; `None` if it is missing.
    fn read(&self, path: &Path, limit: u64) -> Result<Option<(Vec<u8>, String)>, Unused> {
        // Opens without waiting: opening a pipe may block for ever.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let signature = read_signature(path).map_err(Unused::SignatureFile)?;
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(Unused::Unreadable)?,
        };
        let found = file.metadata().map_err(Unused::Unreadable)?;
        if !found.is_file() {
            let what = io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
            return Err(Unused::Unreadable(what));
        }
        let signature = signature.ok_or(Unused::Unsigned)?;
        if found.len() > limit {
            return Err(Unused::TooLarge(limit));
        }
        let mut content = Vec::new();
        file.take(limit + 1).read_to_end(&mut content).map_err(Unused::Unreadable)?;
        if content.len() as u64 > limit {
            return Err(Unused::TooLarge(limit));
        }
        let signed = verify(&content, &signature, &self.keys).map_err(Unused::Signature)?;
        Ok(Some((content, signed.key)))
    }
}

/// Returns the code of a file, if it is for this component, release, machine and reservation.
fn code_of<'a>(content: &'a [u8], digest: &str, reservation: u64) -> Result<&'a [u8], Unused> {
    let rest = content.strip_prefix(MAGIC).ok_or(Unused::Form)?;
    let end = rest.iter().take(MAX_HEADER_BYTES).position(|byte| *byte == b'\n').ok_or(Unused::Form)?;
    let (line, code) = rest.split_at_checked(end).ok_or(Unused::Form)?;
    let found: Header = serde_json::from_slice(line).map_err(|_| Unused::Form)?;
    let wanted = header(digest, reservation);
    let fields = [
        ("component", found.component, wanted.component),
        ("release of Mortise", found.mortise, wanted.mortise),
        ("machine", found.machine, wanted.machine),
        ("reservation", found.reservation.to_string(), wanted.reservation.to_string()),
    ];
    match fields.into_iter().find(|(_, found, wanted)| found != wanted) {
        Some((what, found, wanted)) => Err(Unused::Other { what, found, wanted }),
        None => code.get(1..).ok_or(Unused::Form),
    }
}

/// Compiles a component for servers with these limits: for the least processor of this architecture, and for a small or a
/// larger machine ([`PoolSize::reservation_of`]). Blocks, on all cores.
///
/// # Errors
/// [`LoadError::NotAComponent`], and [`LoadError::Host`] for a machine without threads.
pub fn compile_for(limits: &Limits, is_small: bool, component: &[u8]) -> Result<CodeFile, LoadError> {
    let host = |what| move |source| LoadError::Host { what, source };
    let reservation = PoolSize::reservation_of(limits, is_small);
    compile::refuse_other_forms(component)?;
    let mut config = configuration::of_code(reservation);
    config.target(&least_processor()).map_err(host("choosing the least processor of this architecture"))?;
    let engine = Engine::new(&config).map_err(host("setting up the compiler"))?;
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let pool = compile::pool(threads).map_err(|e| host("starting the compiler's threads")(wasmtime::Error::new(e)))?;
    let code = pool
        .install(|| engine.precompile_component(component))
        .map_err(|e| LoadError::NotAComponent { what: compile::with_remedy(format!("{e:#}")) })?;
    let digest = code_cache::digest(component);
    let line = serde_json::to_vec(&header(&digest, reservation))
        .map_err(|e| host("writing the header of the code")(wasmtime::Error::new(e)))?;
    let content = [MAGIC, &line, b"\n", &code].concat();
    Ok(CodeFile { name: file_name(&digest, reservation), content })
}

fn file_name(digest: &str, reservation: u64) -> String {
    format!("{digest}-{reservation}.code")
}

fn header(digest: &str, reservation: u64) -> Header {
    Header {
        component: digest.to_owned(),
        mortise: env!("CARGO_PKG_VERSION").to_owned(),
        machine: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        reservation,
    }
}

/// This architecture and system, without the features of this processor.
fn least_processor() -> String {
    let system = match std::env::consts::OS {
        "macos" => "apple-darwin",
        _ => "unknown-linux-gnu",
    };
    format!("{}-{system}", std::env::consts::ARCH)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use mortise_keys::signature::{KeyPair, SecretKey, SigningError, sign};

    use super::*;

    /// `\0asm`, version 13 of the component layer: the empty component.
    const EMPTY: [u8; 8] = [0x00, 0x61, 0x73, 0x6d, 0x0d, 0x00, 0x01, 0x00];

    /// A folder with signed code of the empty component, and the secret key.
    struct Brought {
        dir: tempfile::TempDir,
        folder: CodeFolder,
        key: SecretKey,
        file: CodeFile,
    }

    impl Brought {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let pair = KeyPair::generate(None).unwrap();
            let key_path = dir.path().join("key");
            fs::write(&key_path, pair.secret.as_bytes()).unwrap();
            let no_password = || -> Result<String, SigningError> { Err(SigningError::PasswordMissing) };
            let key = SecretKey::read(&key_path, no_password).unwrap();
            let file = compile_for(&Limits::default(), false, &EMPTY).unwrap();
            let folder = CodeFolder { dir: dir.path().to_owned(), keys: vec![PublicKey::parse(&pair.public).unwrap()] };
            let brought = Self { dir, folder, key, file };
            brought.put(&brought.file.content);
            brought
        }

        fn path(&self) -> PathBuf {
            self.dir.path().join(&self.file.name)
        }

        /// Puts a content there, with its signature.
        fn put(&self, content: &[u8]) {
            fs::write(self.path(), content).unwrap();
            let signature = sign(content, "x", &self.key, None).unwrap();
            fs::write(self.dir.path().join(format!("{}.minisig", self.file.name)), signature.as_bytes()).unwrap();
        }

        fn find(&self) -> Option<Compiled> {
            let reservation = PoolSize::reservation_of(&Limits::default(), false);
            let engine = Engine::new(&configuration::of_code(reservation)).unwrap();
            self.folder.find(&engine, (&code_cache::digest(&EMPTY), EMPTY.len()), reservation)
        }
    }

    #[test]
    fn signed_code_of_another_machine_is_taken() {
        let brought = Brought::new();
        assert!(brought.find().is_some());
        fs::remove_file(brought.path()).unwrap();
        assert!(brought.find().is_none(), "it is gone");
    }

    #[test]
    fn code_without_a_trusted_signature_is_never_loaded() {
        let mut brought = Brought::new();
        brought.folder.keys = vec![PublicKey::parse(&KeyPair::generate(None).unwrap().public).unwrap()];
        assert!(brought.find().is_none(), "another key");
        brought.folder.keys = Vec::new();
        assert!(brought.find().is_none(), "no key");

        let brought = Brought::new();
        let mut changed = brought.file.content.clone();
        *changed.last_mut().unwrap() ^= 1;
        fs::write(brought.path(), &changed).unwrap();
        assert!(brought.find().is_none(), "changed");
        fs::write(brought.path(), &brought.file.content).unwrap();
        assert!(brought.find().is_some());
        fs::remove_file(brought.dir.path().join(format!("{}.minisig", brought.file.name))).unwrap();
        assert!(brought.find().is_none(), "unsigned");
    }

    #[test]
    fn signed_code_is_bound_to_its_component_release_and_reservation() {
        let brought = Brought::new();
        let text = String::from_utf8_lossy(&brought.file.content).into_owned();
        let digest = code_cache::digest(&EMPTY);
        for (from, to) in [
            (digest.clone(), code_cache::digest(b"other")),
            (format!("\"mortise\":\"{}\"", env!("CARGO_PKG_VERSION")), "\"mortise\":\"0.0.0\"".into()),
            (std::env::consts::ARCH.to_owned(), "mips".into()),
            ("\"reservation\":".into(), "\"reservation\":1".into()),
            ("mortise-code 1".into(), "mortise-code 2".into()),
            ("{".into(), "[".into()),
        ] {
            let head = text.lines().take(2).collect::<Vec<_>>().join("\n");
            assert!(head.contains(&from), "{from} in {head}");
            let code = brought.file.content.get(head.len()..).unwrap();
            brought.put(&[head.replacen(&from, &to, 1).as_bytes(), code].concat());
            assert!(brought.find().is_none(), "{from} became {to}");
        }
        brought.put(MAGIC);
        assert!(brought.find().is_none(), "nothing but the first line");
        let limit = MIN_LIMIT_BYTES + MAX_CODE_BYTES_PER_COMPONENT_BYTE * EMPTY.len() as u64;
        let file = fs::File::create(brought.path()).unwrap();
        file.set_len(limit + 1).unwrap();
        assert!(matches!(brought.folder.read(&brought.path(), limit), Err(Unused::TooLarge(_))));
        fs::remove_file(brought.path()).unwrap();
        fs::create_dir(brought.path()).unwrap();
        assert!(matches!(brought.folder.read(&brought.path(), limit), Err(Unused::Unreadable(_))));
    }

    #[test]
    fn only_components_are_compiled() {
        for wrong in [&b"\0asm\x01\0\0\0"[..], b"text", b""] {
            let refused = compile_for(&Limits::default(), true, wrong).unwrap_err();
            assert!(matches!(refused, LoadError::NotAComponent { .. }), "{refused}");
        }
    }
}
