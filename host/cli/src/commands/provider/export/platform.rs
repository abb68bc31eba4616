//! Platforms of packages, by their names in Go, and the platform that a program is for.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use crate::CliError;

/// Bytes at the start of a program that tell its platform.
const HEADER_BYTES: u64 = 20;

/// Most bytes of a program.
const MAX_PROGRAM_BYTES: u64 = 2 << 30;

/// Platforms whose programs this command recognizes.
const KNOWN: [&str; 6] = ["darwin_amd64", "darwin_arm64", "linux_amd64", "linux_arm64", "linux_riscv64", "linux_s390x"];

/// A program for a platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Binary {
    /// `OS_ARCH`, as in Go.
    pub(super) platform: String,
    /// The program.
    pub(super) program: PathBuf,
}

/// A text that names no program for a platform.
#[derive(Debug, thiserror::Error)]
#[error("a binary is OS_ARCH=FILE, such as linux_arm64=mortise-arm64; platforms are {}", KNOWN.join(", "))]
pub(super) struct BinaryFormatError;

/// Reads `OS_ARCH=FILE`.
pub(super) fn binary(text: &str) -> Result<Binary, BinaryFormatError> {
    let (platform, program) = text.split_once('=').ok_or(BinaryFormatError)?;
    if !KNOWN.contains(&platform) || program.is_empty() {
        return Err(BinaryFormatError);
    }
    Ok(Binary { platform: platform.to_owned(), program: program.into() })
}

impl Binary {
    /// This program, for this machine.
    pub(super) fn own() -> Result<Self, CliError> {
        let program = std::env::current_exe().map_err(|e| CliError::failed("cannot find this program").caused_by(e))?;
        Ok(Self { platform: own_platform(), program })
    }

    /// Opens the program, and checks that it is for the platform.
    pub(super) fn open(&self) -> Result<File, CliError> {
        let Self { platform, program } = self;
        let unread = |e: io::Error| CliError::file("cannot read", program, e);
        let mut file = File::open(program).map_err(unread)?;
        let kind = file.metadata().map_err(unread)?;
        if !kind.is_file() || kind.len() > MAX_PROGRAM_BYTES {
            return Err(CliError::usage(format!("{} is not a file of at most 2 GiB", program.display())));
        }
        let mut header = Vec::new();
        file.by_ref().take(HEADER_BYTES).read_to_end(&mut header).map_err(unread)?;
        io::Seek::rewind(&mut file).map_err(unread)?;
        match platform_of(&header) {
            Some(found) if found == platform => Ok(file),
            // A platform without a check can only be this machine's.
            None if !KNOWN.contains(&platform.as_str()) => Ok(file),
            found => Err(wrong_platform(program, platform, found)),
        }
    }
}

fn wrong_platform(program: &Path, wanted: &str, found: Option<&str>) -> CliError {
    let found = found.unwrap_or("none of the known platforms");
    CliError::usage(format!("{} is not a program for {wanted}: it is one for {found}", program.display()))
        .remedy("give the mortise binary of the same release for that platform")
}

/// The platform of a program that begins with these bytes.
fn platform_of(header: &[u8]) -> Option<&'static str> {
    let two = |from: usize| header.get(from..from + 2)?.try_into().ok();
    match header {
        // ELF: class, byte order, and the number of the machine.
        [0x7f, b'E', b'L', b'F', 2, order, ..] => {
            let machine = if *order == 1 { u16::from_le_bytes(two(18)?) } else { u16::from_be_bytes(two(18)?) };
            match (machine, order) {
                (62, 1) => Some("linux_amd64"),
                (183, 1) => Some("linux_arm64"),
                (243, 1) => Some("linux_riscv64"),
                (22, 2) => Some("linux_s390x"),
                _ => None,
            }
        }
        // Mach-O of 64 bits: the number of the processor.
        [0xcf, 0xfa, 0xed, 0xfe, 7, 0, 0, 1, ..] => Some("darwin_amd64"),
        [0xcf, 0xfa, 0xed, 0xfe, 12, 0, 0, 1, ..] => Some("darwin_arm64"),
        _ => None,
    }
}

/// The platform of this machine.
fn own_platform() -> String {
    let os = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    };
    format!("{os}_{arch}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_names_a_platform_and_a_file() {
        let read = binary("linux_arm64=a=b").unwrap();
        assert_eq!((read.platform.as_str(), read.program.as_path()), ("linux_arm64", Path::new("a=b")));
        for wrong in ["", "mortise", "linux_arm64", "linux_arm64=", "linux=x", "linux/arm64=x", "plan9_amd64=x"] {
            assert!(binary(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_program_shows_its_platform_and_another_one_is_refused() {
        let elf = |order: u8, machine: [u8; 2]| {
            let mut bytes = vec![0x7f, b'E', b'L', b'F', 2, order, 1, 0];
            bytes.resize(18, 0);
            bytes.extend(machine);
            bytes
        };
        let macho = |cpu: u8| vec![0xcf, 0xfa, 0xed, 0xfe, cpu, 0, 0, 1];
        let programs = [
            (elf(1, [62, 0]), "linux_amd64"),
            (elf(1, [183, 0]), "linux_arm64"),
            (elf(1, [243, 0]), "linux_riscv64"),
            (elf(2, [0, 22]), "linux_s390x"),
            (macho(7), "darwin_amd64"),
            (macho(12), "darwin_arm64"),
        ];
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        for (bytes, platform) in &programs {
            assert_eq!(platform_of(bytes), Some(*platform));
            std::fs::write(&program, bytes).unwrap();
            for wanted in KNOWN {
                let opened = Binary { platform: wanted.to_owned(), program: program.clone() }.open();
                assert_eq!(opened.is_ok(), wanted == *platform, "{wanted} {platform}");
            }
        }
        for unknown in [&b"#!/bin/sh\n"[..], b"", &elf(1, [3, 0]), &elf(1, [62, 0])[..18]] {
            std::fs::write(&program, unknown).unwrap();
            let opened = Binary { platform: "linux_amd64".to_owned(), program: program.clone() }.open();
            assert!(opened.unwrap_err().message.ends_with("none of the known platforms"), "{unknown:?}");
        }
    }
}
