//! Code generation for build scripts: message types and descriptors from `.proto` files, without `protoc`.
//!
//! ```no_run
//! mortise_plugin::build::Protos::new().include("proto").file("jukebox/v1/song.proto").run()?;
//! # Ok::<(), mortise_plugin::build::Error>(())
//! ```
//!
//! Include the messages by `mortise_plugin::include_proto!(pub mod proto);`.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use mortise_resource::{descriptors::FileDescriptorSet, wire::WireError};
use prost::{DecodeError, Message, encoding::message};
use prost_types::{FileDescriptorProto, FileDescriptorSet as FileDescriptorProtos};
use protox::{
    Compiler,
    file::{ChainFileResolver, DescriptorSetFileResolver, GoogleFileResolver, IncludeFileResolver},
};

use crate::wire;

/// Reason that no code was generated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A `.proto` file is missing or wrong.
    #[error(transparent)]
    Proto(#[from] protox::Error),
    /// The generated code or the descriptors cannot be written.
    #[error("cannot write the generated code: {0}")]
    Write(#[from] io::Error),
    /// The descriptors built into this crate cannot be read.
    #[error("cannot read the descriptors of Mortise's own messages: {0}")]
    Own(#[from] DecodeError),
    /// The descriptor of a `.proto` file is not an encoded message.
    #[error("cannot read the descriptors of the .proto files: {0}")]
    Descriptors(#[from] WireError),
    /// The caller is not a build script.
    #[error("OUT_DIR is not set; call this from a build script")]
    NoOutDir,
}

/// Files to generate code from.
#[derive(Debug, Clone, Default)]
pub struct Protos {
    includes: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

impl Protos {
    /// Makes an empty list of files.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a directory to search for imports; directories are searched in order. The well-known types and Mortise's
    /// own messages, such as `hashicorp/consul/resource/resource.proto`, are always found; the option of Consul for
    /// scopes also by Consul's name, `pbresource/annotations.proto`.
    #[must_use]
    pub fn include(mut self, dir: impl Into<PathBuf>) -> Self {
        self.includes.push(dir.into());
        self
    }

    /// Adds a file to generate code from, by the name that an import would use.
    #[must_use]
    pub fn file(mut self, file: impl Into<PathBuf>) -> Self {
        self.files.push(file.into());
        self
    }

    /// Generates into `OUT_DIR`, and reports the files to cargo, which then rebuilds after changes.
    ///
    /// Maps become `BTreeMap`: encoding must be deterministic, since the SDK compares bytes.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn run(self) -> Result<(), Error> {
        let out = env::var_os("OUT_DIR").map(PathBuf::from).ok_or(Error::NoOutDir)?;
        let mut resolver = ChainFileResolver::new();
        for include in &self.includes {
            resolver.add(IncludeFileResolver::new(include.clone()));
        }
        resolver.add(GoogleFileResolver::new());
        resolver.add(DescriptorSetFileResolver::decode(mortise_resource::DESCRIPTORS)?);
        resolver.add(DescriptorSetFileResolver::new(consul_annotations()?));
        let mut compiler = Compiler::with_file_resolver(resolver);
        compiler.include_imports(true).include_source_info(true).open_files(&self.files)?;

        for path in compiler.files().filter_map(|file| file.path()) {
            rerun_if_changed(path);
        }
        let mut config = prost_build::Config::new();
        for (name, plain) in PLAIN_TYPES {
            config.extern_path(format!(".google.protobuf.{name}"), plain);
        }
        config
            .btree_map(["."])
            .enable_type_names()
            // Without this, a path for them counts as a duplicate.
            .compile_well_known_types()
            .extern_path(".google.protobuf", "::mortise_plugin::prost_types")
            .extern_path(".hashicorp.consul.resource", "::mortise_plugin::pb")
            .extern_path(".mortise.v1", "::mortise_plugin::__proto::mortise::v1")
            .out_dir(&out)
            .include_file("proto.rs")
            .compile_fds(compiler.file_descriptor_set())?;

        // The host knows the well-known types. Comments are for people who write resources; those of Mortise's own
        // messages, and the positions of declarations, are of no use to them. Options are kept as they are written,
        // including ones that no library here knows.
        let mut files = FileDescriptorSet::default();
        for whole in FileDescriptorSet::decode(compiler.encode_file_descriptor_set().as_slice())?.file {
            let file = FileDescriptorProto::decode(whole.as_slice())?;
            if file.name().starts_with("google/protobuf/") {
                continue;
            }
            let own = self.files.iter().any(|one| one.as_os_str() == file.name());
            let mut info = file.source_code_info.filter(|_| own).unwrap_or_default();
            info.location.retain(|one| one.leading_comments.is_some() || one.trailing_comments.is_some());
            info.location.iter_mut().for_each(|one| one.leading_detached_comments.clear());
            let mut bytes = wire::replace(&whole, &[SOURCE_CODE_INFO], &[])?;
            if !info.location.is_empty() {
                message::encode(SOURCE_CODE_INFO, &info, &mut bytes);
            }
            files.file.push(bytes);
        }
        fs::write(out.join("descriptors.bin"), files.encode_to_vec())?;
        Ok(())
    }
}

/// The file with Consul's option of messages, under the name that Consul's own files import.
fn consul_annotations() -> Result<FileDescriptorProtos, DecodeError> {
    let mut files = FileDescriptorProtos::decode(mortise_resource::DESCRIPTORS)?;
    files.file.retain(|file| file.name() == "hashicorp/consul/resource/annotations.proto");
    files.file.iter_mut().for_each(|file| file.name = Some("pbresource/annotations.proto".to_owned()));
    Ok(files)
}

/// Well-known messages that are plain values in Rust.
const PLAIN_TYPES: [(&str, &str); 10] = [
    ("BoolValue", "bool"),
    ("BytesValue", "::std::vec::Vec<u8>"),
    ("DoubleValue", "f64"),
    ("Empty", "()"),
    ("FloatValue", "f32"),
    ("Int32Value", "i32"),
    ("Int64Value", "i64"),
    ("StringValue", "::std::string::String"),
    ("UInt32Value", "u32"),
    ("UInt64Value", "u64"),
];

/// Number of `FileDescriptorProto.source_code_info`.
const SOURCE_CODE_INFO: u32 = 9;

/// Prints an instruction for cargo, which reads the standard output of build scripts.
#[allow(clippy::print_stdout, reason = "cargo reads the standard output")]
fn rerun_if_changed(path: &Path) {
    println!("cargo::rerun-if-changed={}", path.display());
}
