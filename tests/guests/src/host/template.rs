//! A component whose `describe` answers given bytes: a few instructions around a data segment.

use std::path::Path;

use wasm_encoder::{
    CodeSection, ConstExpr, DataSection, EntityType, ExportKind, ExportSection, Function, FunctionSection,
    ImportSection, MemorySection, MemoryType, Module, TypeSection, ValType,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// Address of the reply's address and length; the reply follows them.
const REPLY: u32 = 16;

/// The contract version of this host.
const VERSION: &str = "0.1.0";

/// Makes a component that exports `plugin` alone, with `manifest` as its manifest, valid or not.
///
/// # Panics
/// If the WIT folder is broken.
#[must_use]
pub fn manifest_only(manifest: &[u8]) -> Vec<u8> {
    manifest_only_for(VERSION, manifest)
}

/// The same, for another version of the contract with the same content.
///
/// # Panics
/// If the WIT folder is broken, or the version is invalid.
#[must_use]
#[allow(clippy::expect_used, reason = "for tests: the input is the repository")]
pub fn manifest_only_for(version: &str, manifest: &[u8]) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/v0.1.0");
    let wit = std::fs::read_to_string(folder.join("plugin.wit")).expect("there is a plugin.wit");
    let world = "world described { export plugin; }";
    let wit = format!("{}\n{world}", wit.replace(&format!("@{VERSION};"), &format!("@{version};")));
    let mut resolve = Resolve::default();
    let package = resolve.push_str("plugin.wit", &wit).expect("the WIT parses");
    let world = resolve.select_world(&[package], Some("described")).expect("there is a world `described`");

    let mut module = module(version, manifest);
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("the world encodes");
    let encoder = ComponentEncoder::default();
    let mut encoder = encoder.validate(true).module(&module).expect("the module fits the world");
    encoder.encode().expect("the component is valid")
}

/// Makes a component that imports one function of `<package>/calls@<version>`, and exports nothing.
///
/// # Panics
/// If the names are invalid in WIT.
#[must_use]
#[allow(clippy::expect_used, reason = "for tests: names that they choose")]
pub fn importing(package: &str, version: &str) -> Vec<u8> {
    let wit =
        format!("package {package}@{version};\ninterface calls {{ call: func(); }}\nworld caller {{ import calls; }}");
    let mut resolve = Resolve::default();
    let parsed = resolve.push_str("caller.wit", &wit).expect("the WIT parses");
    let world = resolve.select_world(&[parsed], Some("caller")).expect("there is a world `caller`");

    let mut types = TypeSection::new();
    types.ty().function([], []);
    let mut imports = ImportSection::new();
    imports.import(&format!("{package}/calls@{version}"), "call", EntityType::Function(0));
    let mut module = Module::new();
    module.section(&types).section(&imports);
    let mut module = module.finish();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("the world encodes");
    let encoder = ComponentEncoder::default();
    let mut encoder = encoder.validate(true).module(&module).expect("the module fits the world");
    encoder.encode().expect("the component is valid")
}

/// The core module: one function that returns the address of (address, length).
fn module(version: &str, manifest: &[u8]) -> Vec<u8> {
    let length = u32::try_from(manifest.len()).unwrap_or(u32::MAX);
    let mut types = TypeSection::new();
    types.ty().function([], [ValType::I32]);
    let mut functions = FunctionSection::new();
    functions.function(0);
    let mut memories = MemorySection::new();
    let minimum = u64::from(length).div_ceil(64 * 1024).saturating_add(1);
    memories.memory(MemoryType { minimum, maximum: None, memory64: false, shared: false, page_size_log2: None });
    let mut exports = ExportSection::new();
    exports.export("memory", ExportKind::Memory, 0);
    exports.export(&format!("mortise:plugin/plugin@{version}#describe"), ExportKind::Func, 0);
    let mut describe = Function::new([]);
    describe.instructions().i32_const(REPLY.cast_signed()).end();
    let mut code = CodeSection::new();
    code.function(&describe);
    let mut data = DataSection::new();
    let reply = [(REPLY + 8).to_le_bytes(), length.to_le_bytes()].concat();
    data.active(0, &ConstExpr::i32_const(REPLY.cast_signed()), [reply.as_slice(), manifest].concat());

    let mut module = Module::new();
    module.section(&types).section(&functions).section(&memories).section(&exports).section(&code).section(&data);
    module.finish()
}
