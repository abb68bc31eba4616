//! A guest for tests, of a few instructions: the first letter of the controller's name selects the action of
//! `reconcile`.
//!
//! | letter | action |
//! |---|---|
//! | `c` | counts its calls in this instance, and answers the count as `requeue-after` |
//! | `e` | answers the controller's name as its error |
//! | `g` | grows its memory by 2 MiB |
//! | `l` | calls `kv.get` without end |
//! | `n` | answers the time as `requeue-after` |
//! | `r` | reads the resource, and answers what failed as its error |
//! | `s` | spins |
//! | `t` | traps |
//! | `w` | works for some milliseconds |
//! | `x` | answers `requeue-now` if it is cancelled |
//!
//! After `g`, `r`, `w` and `x` it answers `done`.

use std::path::Path;

use mortise_resource::manifest as wire;
use prost::Message as _;
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, DataSection, EntityType, ExportKind, ExportSection, Function, FunctionSection,
    GlobalSection, GlobalType, ImportSection, InstructionSink, MemArg, MemorySection, MemoryType, Module, TypeSection,
    ValType,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// Offsets in the guest's memory: the answer of `describe`, that of `reconcile`, that of a host call, the manifest.
const DESCRIBED: i32 = 8;
const ANSWER: i32 = 16;
const HEARD: i32 = 64;
const MANIFEST: i32 = 128;

/// A plugin with one type and these controllers of it.
pub(super) fn manifest(name: &str, controllers: &[&str]) -> wire::Manifest {
    let type_name = wire::TypeName { group: "test".into(), group_version: "v1".into(), kind: "Thing".into() };
    let controller = |name: &&str| wire::Controller {
        name: (*name).to_owned(),
        manages: Some(type_name.clone()),
        parallel: 2,
        ..wire::Controller::default()
    };
    wire::Manifest {
        name: name.to_owned(),
        version: "1.0.0".into(),
        descriptors: Some(
            mortise_resource::descriptors::FileDescriptorSet::decode(mortise_resource::DESCRIPTORS).unwrap(),
        ),
        types: vec![wire::ResourceType {
            group: type_name.group.clone(),
            group_version: type_name.group_version.clone(),
            kind: type_name.kind.clone(),
            scope: wire::Scope::Namespace.into(),
            message: "hashicorp.consul.resource.Tombstone".into(),
            ..wire::ResourceType::default()
        }],
        controllers: controllers.iter().map(controller).collect(),
        ..wire::Manifest::default()
    }
}

/// The component with this manifest.
pub(super) fn component(manifest: &wire::Manifest) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/v0.1.0");
    let mut wit = "package mortise:plugin@0.1.0;\n".to_owned();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "wit") {
            wit.push_str(&std::fs::read_to_string(path).unwrap().replace("package mortise:plugin@0.1.0;", ""));
        }
    }
    wit.push_str(
        "world tested { import resources; import kv; import clock; import run; export plugin; export controlling; }",
    );
    let mut resolve = Resolve::default();
    let package = resolve.push_str("all.wit", &wit).unwrap();
    let world = resolve.select_world(&[package], Some("tested")).unwrap();
    let mut module = module(&manifest.encode_to_vec());
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().validate(true).module(&module).unwrap().encode().unwrap()
}

fn module(manifest: &[u8]) -> Vec<u8> {
    let mut types = TypeSection::new();
    types.ty().function([ValType::I32; 3], []);
    types.ty().function([], [ValType::I64]);
    types.ty().function([], [ValType::I32]);
    types.ty().function([ValType::I32; 4], [ValType::I32]);
    let mut imports = ImportSection::new();
    for (interface, name, parameters) in
        [("resources", "read", 0), ("kv", "get", 0), ("clock", "now", 1), ("run", "cancelled", 2)]
    {
        imports.import(&format!("mortise:plugin/{interface}@0.1.0"), name, EntityType::Function(parameters));
    }
    let mut functions = FunctionSection::new();
    functions.function(2).function(3).function(3);
    let end = i64::from(MANIFEST) + i64::try_from(manifest.len()).unwrap();
    let minimum = u64::try_from(end).unwrap().div_ceil(64 << 10) + 1;
    let mut memories = MemorySection::new();
    memories.memory(MemoryType { minimum, maximum: None, memory64: false, shared: false, page_size_log2: None });
    let mut globals = GlobalSection::new();
    let number = GlobalType { val_type: ValType::I32, mutable: true, shared: false };
    // Start of free memory, and number of calls of `c`.
    globals.global(number, &ConstExpr::i32_const(i32::try_from(end).unwrap())).global(number, &ConstExpr::i32_const(0));
    let mut exports = ExportSection::new();
    exports.export("memory", ExportKind::Memory, 0);
    exports.export("mortise:plugin/plugin@0.1.0#describe", ExportKind::Func, 4);
    exports.export("mortise:plugin/controlling@0.1.0#reconcile", ExportKind::Func, 5);
    exports.export("cabi_realloc", ExportKind::Func, 6);
    let mut code = CodeSection::new();
    let mut describe = Function::new([]);
    describe.instructions().i32_const(DESCRIBED).end();
    code.function(&describe).function(&reconcile()).function(&realloc());
    let mut data = DataSection::new();
    let described = [MANIFEST.to_le_bytes(), i32::try_from(manifest.len()).unwrap().to_le_bytes()].concat();
    data.active(0, &ConstExpr::i32_const(DESCRIBED), described);
    data.active(0, &ConstExpr::i32_const(MANIFEST), manifest.iter().copied());
    let mut module = Module::new();
    module.section(&types).section(&imports).section(&functions).section(&memories).section(&globals);
    module.section(&exports).section(&code).section(&data);
    module.finish()
}

fn at(offset: i32) -> MemArg {
    MemArg { offset: u64::try_from(offset).unwrap(), align: 0, memory_index: 0 }
}

/// Allocator that never frees, like that of the SDK's guests.
fn realloc() -> Function {
    let mut function = Function::new([(1, ValType::I32)]);
    let mut i = function.instructions();
    i.global_get(0).i32_const(7).i32_add().i32_const(-8).i32_and().local_tee(4);
    i.local_get(3).i32_add().global_set(0);
    i.global_get(0).memory_size(0).i32_const(16).i32_shl().i32_gt_u().if_(BlockType::Empty);
    i.global_get(0).memory_size(0).i32_const(16).i32_shl().i32_sub().i32_const(16).i32_shr_u().i32_const(1).i32_add();
    i.memory_grow(0).drop().end();
    i.local_get(4).end();
    function
}

/// Answers an outcome: `done` is 0, `requeue-now` 1, and 2 is `requeue-after` with the value on the stack.
fn answer(i: &mut InstructionSink<'_>, outcome: i32) {
    if outcome == 2 {
        i.local_set(5).i32_const(0).local_get(5).i64_store(at(ANSWER + 16));
    }
    i.i32_const(0).i32_const(0).i32_store8(at(ANSWER)).i32_const(0).i32_const(outcome).i32_store8(at(ANSWER + 8));
    i.i32_const(ANSWER).return_();
}

/// Parameters: address and length of the controller's name, and of the id.
fn reconcile() -> Function {
    let mut function = Function::new([(1, ValType::I32), (1, ValType::I64)]);
    let mut i = function.instructions();
    i.local_get(0).i32_load8_u(at(0)).local_set(4);
    let mut when = |letter: u8, body: fn(&mut InstructionSink<'_>)| {
        i.local_get(4).i32_const(letter.into()).i32_eq().if_(BlockType::Empty);
        body(&mut i);
        answer(&mut i, 0);
        i.end();
    };
    when(b'c', |i| {
        i.global_get(1).i32_const(1).i32_add().global_set(1).global_get(1).i64_extend_i32_u();
        answer(i, 2);
    });
    when(b'e', |i| {
        i.i32_const(0).local_get(0).i32_store(at(ANSWER + 8)).i32_const(0).local_get(1).i32_store(at(ANSWER + 12));
        i.i32_const(0).i32_const(1).i32_store8(at(ANSWER)).i32_const(ANSWER).return_();
    });
    when(b'g', |i| {
        i.i32_const(32).memory_grow(0).drop();
    });
    when(b'l', |i| {
        i.loop_(BlockType::Empty).local_get(0).local_get(1).i32_const(HEARD).call(1).br(0).end();
    });
    when(b'n', |i| {
        i.call(2);
        answer(i, 2);
    });
    when(b'r', |i| {
        i.local_get(2).local_get(3).i32_const(HEARD).call(0).i32_const(0).i32_load8_u(at(HEARD)).if_(BlockType::Empty);
        i.i32_const(0).i32_const(0).i32_load(at(HEARD + 8)).i32_store(at(ANSWER + 8));
        i.i32_const(0).i32_const(0).i32_load(at(HEARD + 12)).i32_store(at(ANSWER + 12));
        i.i32_const(0).i32_const(1).i32_store8(at(ANSWER)).i32_const(ANSWER).return_().end();
    });
    when(b's', |i| {
        i.loop_(BlockType::Empty).br(0).end();
    });
    when(b't', |i| {
        i.unreachable();
    });
    when(b'w', |i| {
        i.i64_const(30_000_000).local_set(5).loop_(BlockType::Empty);
        i.local_get(5).i64_const(1).i64_sub().local_tee(5).i64_eqz().i32_eqz().br_if(0).end();
    });
    when(b'x', |i| {
        i.call(3).if_(BlockType::Empty);
        answer(i, 1);
        i.end();
    });
    i.unreachable().end();
    function
}
