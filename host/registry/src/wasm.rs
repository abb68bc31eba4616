//! The outside of a component, read without compiling it.

use wasmparser::{ComponentExternName, Encoding, Parser, Payload};

use crate::{
    digest::Digest,
    manifest::{WasmConfig, WasmInterface},
};

/// Most names of imports and exports in a config.
const MAX_NAMES: usize = 1_000;

/// Checks that bytes begin as a component. The error is the fault.
pub(crate) fn check(bytes: &[u8]) -> Result<(), &'static str> {
    match bytes.get(..8) {
        Some([0, b'a', b's', b'm', 0x0d, 0, 1, 0]) => Ok(()),
        Some([0, b'a', b's', b'm', 1, 0, 0, 0]) => Err("it is a core module of WebAssembly, and not a component"),
        Some([0, b'a', b's', b'm', ..]) => Err("it has a version of WebAssembly that is unknown here"),
        _ if bytes.starts_with(&[0x1f, 0x8b]) => Err("it is compressed by gzip, as the layers of container images are"),
        _ => Err("it is not WebAssembly"),
    }
}

/// Describes a component for the config of its artifact.
pub(crate) fn config(bytes: &[u8], layer: &Digest) -> Result<WasmConfig, wasmparser::BinaryReaderError> {
    let (mut imports, mut exports) = (Vec::new(), Vec::new());
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::Version { encoding: Encoding::Component | Encoding::Module, .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    push(&mut imports, &import?.name);
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    push(&mut exports, &export?.name);
                }
            }
            _ => {}
        }
    }
    Ok(WasmConfig {
        created: "1970-01-01T00:00:00Z".to_owned(),
        architecture: "wasm".to_owned(),
        os: "wasip2".to_owned(),
        layer_digests: vec![layer.clone()],
        component: WasmInterface { exports, imports, target: None },
    })
}

fn push(names: &mut Vec<String>, name: &ComponentExternName<'_>) {
    if names.len() < MAX_NAMES {
        names.push(name.name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_component_passes() {
        assert_eq!(check(b"\0asm\x0d\0\x01\0rest"), Ok(()));
        for (bytes, fault) in [
            (&b"\0asm\x01\0\0\0"[..], "core module"),
            (b"\0asm\x0e\0\x01\0", "unknown here"),
            (b"\x1f\x8b\x08\0\0\0\0\0", "gzip"),
            (b"", "not WebAssembly"),
            (b"{\"a\": 1}", "not WebAssembly"),
        ] {
            assert!(check(bytes).unwrap_err().contains(fault), "{fault}");
        }
    }
}
