//! Makes a component on disk of a core module.

use std::{
    fs, io,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

use wit_component::ComponentEncoder;

use crate::Error;

/// Makes a component of a core module; its `component-type` sections describe its imports and exports. The linker of
/// WASI's targets already produces components, which are returned as they are.
pub(crate) fn encode(name: &str, module: &[u8]) -> Result<Vec<u8>, Error> {
    /// Bytes of the header that distinguish a component from a core module.
    const LAYER: std::ops::Range<usize> = 4..8;
    if module.get(LAYER) == Some(&[0x0d, 0, 1, 0]) {
        return Ok(module.to_vec());
    }
    ComponentEncoder::default()
        .validate(true)
        .module(module)
        .and_then(|mut encoder| encoder.encode())
        .map_err(|source| Error::Component { name: name.to_owned(), source: source.into() })
}

/// Writes a file by renaming a finished one over it. A file with the same content is not touched, so that cargo and
/// watchers do not take it for changed.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    if fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let unfinished = path.with_extension(format!("{}-{number}.tmp", std::process::id()));
    fs::write(&unfinished, bytes).map_err(Error::file("write", &unfinished))?;
    fs::rename(&unfinished, path).map_err(Error::file("write", path))
}

/// Removes components that the package no longer builds, such as those of a renamed example.
pub(crate) fn remove_stale_components(dir: &Path, keep: &[impl AsRef<Path>]) -> Result<(), Error> {
    for entry in fs::read_dir(dir).map_err(Error::file("read", dir))?.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "wasm")
            && !keep.iter().any(|kept| kept.as_ref() == path)
        {
            match fs::remove_file(&path) {
                Err(fault) if fault.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::file("remove", path)(fault));
                }
                _ => {}
            }
        }
    }
    Ok(())
}
