//! Machine code of a component, in memory that all engines of this process map.
//!
//! # Contract
//! The code lies in a file in memory that is sealed before it is mapped, so it never changes under a running guest. An
//! engine loads the pages that its guests touch; another engine that can run the same code shares them. A system that
//! refuses to map the file, for example without `/proc`, gets a copy for each engine.
//!
//! # Safety
//! Wasmtime runs loaded code unchecked. So code comes from the compiler of this very program, from the code cache, whose
//! checksum is keyed with a secret of this user ([`super::code_cache`]), or from a file that names this release and has
//! a signature by a key that the operator trusts with native code ([`super::brought_code`]). This is the only unsafe code
//! of the crate.

use std::{
    fs::File,
    io::{self, Write as _},
    os::unix::fs::FileExt as _,
};

use wasmtime::{Engine, component::Component};

/// Machine code that does not change any more.
#[derive(Debug)]
pub(crate) struct MachineCode(File);

impl MachineCode {
    /// Makes an empty file in memory, for the output of a compiler.
    ///
    /// # Errors
    /// The system's, for example without free descriptors.
    pub(crate) fn file() -> io::Result<File> {
        in_memory()
    }

    /// Seals the output of a compiler.
    ///
    /// # Errors
    /// The system's; also if another process maps the file to write into it.
    pub(crate) fn seal(file: File) -> io::Result<Self> {
        seal(&file)?;
        Ok(Self(file))
    }

    /// Copies code into a file in memory.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn of(bytes: &[u8]) -> io::Result<Self> {
        let mut file = Self::file()?;
        file.write_all(bytes)?;
        Self::seal(file)
    }

    /// Reads the code.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn bytes(&self) -> io::Result<Vec<u8>> {
        let length = usize::try_from(self.0.metadata()?.len()).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        self.0.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    /// Makes a component of the code.
    ///
    /// # Errors
    /// Wasmtime's: code of another version, setting or processor, or a component that does not fit into the engine's
    /// pool.
    pub(crate) fn load(&self, engine: &Engine) -> wasmtime::Result<Component> {
        map(engine, &self.0).map_or_else(|| copy(engine, &self.bytes()?), Ok)
    }
}

/// Makes a component of a copy of the code.
#[allow(unsafe_code, reason = "wasmtime cannot check machine code; the module's doc has the reason")]
fn copy(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: the bytes came out of the compiler of this very release; the module's doc has the ways. Wasmtime itself
    // refuses code of another version, setting or processor.
    unsafe { Component::deserialize(engine, code) }
}

/// Makes a component of the mapped file; `None` if that fails for any reason.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "wasmtime cannot check machine code; the module's doc has the reason")]
fn map(engine: &Engine, file: &File) -> Option<Component> {
    use std::os::fd::AsRawFd as _;

    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // SAFETY: as for a copy. The file cannot change or shrink while it is mapped: every `MachineCode` is sealed.
    unsafe { Component::deserialize_file(engine, path) }.ok()
}

/// Other systems have no sealed files.
#[cfg(not(target_os = "linux"))]
fn map(_: &Engine, _: &File) -> Option<Component> {
    None
}

#[cfg(target_os = "linux")]
fn in_memory() -> io::Result<File> {
    use rustix::{
        fs::{MemfdFlags, memfd_create},
        io::Errno,
    };

    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // A kernel may demand the flag, and one before 6.3 does not know it. It keeps the file from being run as a program.
    let made = match memfd_create(c"mortise-code", flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => memfd_create(c"mortise-code", flags),
        made => made,
    };
    Ok(File::from(made?))
}

#[cfg(not(target_os = "linux"))]
fn in_memory() -> io::Result<File> {
    tempfile::tempfile()
}

#[cfg(target_os = "linux")]
fn seal(file: &File) -> io::Result<()> {
    use rustix::fs::{SealFlags, fcntl_add_seals};

    Ok(fcntl_add_seals(file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?)
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::unnecessary_wraps, reason = "the signature of the other one")]
fn seal(_: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `\0asm`, version 13 of the component layer: the empty component.
    const EMPTY: [u8; 8] = [0x00, 0x61, 0x73, 0x6d, 0x0d, 0x00, 0x01, 0x00];

    #[test]
    fn code_is_mapped_and_cannot_change() {
        let engine = Engine::default();
        let bytes = engine.precompile_component(&EMPTY).unwrap();
        let code = MachineCode::of(&bytes).unwrap();
        assert_eq!(code.bytes().unwrap(), bytes);
        code.load(&engine).unwrap();
        assert!(cfg!(not(target_os = "linux")) || map(&engine, &code.0).is_some());
        let mut file = &code.0;
        assert!(cfg!(not(target_os = "linux")) || (file.write(b"x").is_err() && file.set_len(0).is_err()));
        assert_eq!(code.bytes().unwrap(), bytes);
    }

    #[test]
    fn code_of_another_engine_is_refused() {
        let other = Engine::new(wasmtime::Config::new().consume_fuel(true)).unwrap();
        let code = MachineCode::of(&other.precompile_component(&EMPTY).unwrap()).unwrap();
        assert!(code.load(&Engine::default()).is_err() && code.load(&other).is_ok());
    }
}
