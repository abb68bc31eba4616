use wasm_encoder::{
    Component as Encoder, InstanceSection, MemorySection, MemoryType, Module, ModuleArg, ModuleSection, RefType,
    TableSection, TableType,
};
use wasmtime::{Engine, ResourceLimiter, Store, component::Linker};

use super::*;
use crate::{Plugin, Sandbox, engine::pool::Strategy};

/// A component of instances of one module, with memories of these numbers of pages and tables of these numbers of
/// elements.
fn component(instances: usize, memories: &[u64], tables: &[u64]) -> Vec<u8> {
    let (mut memory_section, mut table_section) = (MemorySection::new(), TableSection::new());
    for pages in memories {
        memory_section.memory(MemoryType {
            minimum: *pages,
            maximum: None,
            memory64: false,
            shared: false,
            page_size_log2: None,
        });
    }
    for elements in tables {
        table_section.table(TableType {
            element_type: RefType::FUNCREF,
            table64: false,
            minimum: *elements,
            maximum: None,
            shared: false,
        });
    }
    let mut module = Module::new();
    module.section(&table_section).section(&memory_section);
    let mut instance_section = InstanceSection::new();
    for _ in 0..instances {
        instance_section.instantiate::<_, &str>(0, std::iter::empty::<(&str, ModuleArg)>());
    }
    let mut component = Encoder::new();
    component.section(&ModuleSection(&module)).section(&instance_section);
    component.finish()
}

/// A sandbox with a pool, and the default limits.
fn pooled() -> (Sandbox, tempfile::TempDir) {
    let cache = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new(&Limits { instances: 4, ..Limits::default() }, cache.path().into()).unwrap();
    assert_eq!(sandbox.inner().pool.strategy, Strategy::Pooled);
    (sandbox, cache)
}

/// The messages are wasmtime's own, so each is produced here.
#[tokio::test]
async fn what_does_not_fit_into_the_pool_is_refused_with_its_limit() {
    let (sandbox, _cache) = pooled();
    for (bytes, says) in [
        (component(65, &[], &[]), "needs 65 core instances to start, more than the limit of 64 (a fixed limit)"),
        (component(1, &[1; 3], &[]), "needs 3 memories to start, more than the limit of 2 (a fixed limit)"),
        (component(3, &[1], &[]), "needs 3 memories to start, more than the limit of 2 (a fixed limit)"),
        (component(1, &[], &[1; 65]), "needs 65 tables to start, more than the limit of 64 (a fixed limit)"),
        (component(5, &[], &[1; 20]), "needs 100 tables to start, more than the limit of 64 (a fixed limit)"),
        (
            component(1, &[600], &[]),
            "needs 39321600 bytes of memory to start, more than the limit of 33554432 (sandbox.memory_bytes)",
        ),
        (
            component(1, &[], &[20_000]),
            "needs a table of 20000 elements to start, more than the limit of 10000 (a fixed limit)",
        ),
        (
            component(40, &[600], &[20_000]),
            "needs a table of 20000 elements to start, more than the limit of 10000 (a fixed limit), \
             and 39321600 bytes of memory, more than the limit of 33554432 (sandbox.memory_bytes), \
             and 40 memories, more than the limit of 2 (a fixed limit)",
        ),
    ] {
        let refused = Plugin::describe(&sandbox, "hungry.wasm", &bytes).await.unwrap_err();
        assert_eq!(refused.to_string(), says);
    }
}

#[tokio::test]
async fn one_module_may_have_all_memories_and_tables_that_the_limits_allow() {
    let (sandbox, _cache) = pooled();
    let inner = sandbox.inner();
    let bytes = component(1, &[1; 2], &[1; 64]);
    let component = inner.compiler().compile(&bytes).await.unwrap().component;
    let mut store = Store::new(&inner.engine, ());
    store.set_fuel(1_000_000).unwrap();
    store.set_epoch_deadline(1_000_000);
    Linker::new(&inner.engine).instantiate_async(&mut store, &component).await.unwrap();
}

/// Without a pool.
#[tokio::test]
async fn too_many_instances_on_demand_are_the_same_fault() {
    struct Two;
    impl ResourceLimiter for Two {
        fn memory_growing(&mut self, _: usize, _: usize, _: Option<usize>) -> wasmtime::Result<bool> {
            Ok(true)
        }

        fn table_growing(&mut self, _: usize, _: usize, _: Option<usize>) -> wasmtime::Result<bool> {
            Ok(true)
        }

        fn instances(&self) -> usize {
            2
        }
    }
    let engine = Engine::default();
    let component = Component::from_binary(&engine, &component(3, &[], &[])).unwrap();
    let mut store = Store::new(&engine, Two);
    store.limiter(|two| two);
    let error = Linker::new(&engine).instantiate_async(&mut store, &component).await.err().unwrap();
    let refused = exceeded_limit(&error, None, &Limits { core_instances: 2, ..Limits::default() }).unwrap();
    assert_eq!(refused.to_string(), "needs 3 core instances to start, more than the limit of 2 (a fixed limit)");
    assert!(exceeded_limit(&wasmtime::Error::msg("out of luck"), None, &Limits::default()).is_none());
}
