//! The library that makes system calls fail (shim.c), and the file by which it is controlled.
//!
//! # Contract
//! A rule is in effect as soon as it is set, in the processes that loaded the library, until [`Shim::clear`].
//!
//! # Limits
//! At most 16 rules. Only calls through libc are met: rustix makes system calls itself, such as those that allocate
//! disk space ahead (`host/store/src/engine/files/reserve.rs`). A static binary cannot load the library.

use std::{
    fs::File,
    io::ErrorKind,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use mortise_test_process::Outcome;

const SOURCE: &str = include_str!("shim.c");
/// Bytes of a rule.
const RULE_BYTES: usize = 256;
/// Most rules.
const RULES: usize = 16;
/// Bytes of the path in a rule, with the zero at its end.
const PATH_BYTES: usize = 240;

/// Calls, as bits.
pub(crate) mod calls {
    pub(crate) const OPEN: u32 = 1;
    pub(crate) const READ: u32 = 2;
    pub(crate) const WRITE: u32 = 4;
    pub(crate) const SYNC: u32 = 8;
    pub(crate) const THREAD: u32 = 16;
    pub(crate) const CLOCK: u32 = 32;
    pub(crate) const ACCEPT: u32 = 64;
}

/// Errors, by their numbers in Linux.
pub(crate) mod errors {
    /// A write or a read does half.
    pub(crate) const SHORT: i32 = 0;
    pub(crate) const EIO: i32 = 5;
    pub(crate) const EAGAIN: i32 = 11;
    pub(crate) const ENFILE: i32 = 23;
    pub(crate) const ENOSPC: i32 = 28;
}

/// Calls that fail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// Calls, as bits of [`calls`].
    pub(crate) calls: u32,
    /// Error, of [`errors`]; for [`calls::CLOCK`], seconds to add.
    pub(crate) error: i32,
    /// Number of calls that fail; `None` for all.
    pub(crate) count: Option<i32>,
    /// Part of the path of the file; empty for any.
    pub(crate) path: &'static str,
}

/// A built library with its control file.
pub(crate) struct Shim {
    library: PathBuf,
    control: PathBuf,
    file: File,
}

impl Shim {
    /// Compiles the library into a folder. `None` if the machine has no C compiler.
    pub(crate) fn build(dir: &Path) -> Outcome<Option<Self>> {
        let (source, library, control) = (dir.join("shim.c"), dir.join("shim.so"), dir.join("control"));
        std::fs::write(&source, SOURCE)?;
        let mut command = Command::new("cc");
        command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).arg("-ldl");
        let built = match command.output() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            built => built?,
        };
        if !built.status.success() {
            return Err(format!("cc refuses shim.c: {}", String::from_utf8_lossy(&built.stderr)).into());
        }
        let file = std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&control)?;
        file.set_len((RULES * RULE_BYTES) as u64)?;
        Ok(Some(Self { library, control, file }))
    }

    /// Returns the variables with which a process loads the library.
    pub(crate) fn env(&self) -> Vec<(String, String)> {
        let text = |path: &Path| path.display().to_string();
        vec![("LD_PRELOAD".to_owned(), text(&self.library)), ("MORTISE_FAULTS_CONTROL".to_owned(), text(&self.control))]
    }

    /// Switches rules on, in place of those before.
    pub(crate) fn set(&self, rules: &[Rule]) -> Outcome<()> {
        self.clear()?;
        for (index, rule) in rules.iter().enumerate().take(RULES) {
            let mut bytes = [0; RULE_BYTES];
            let mut path = rule.path.as_bytes().to_owned();
            path.truncate(PATH_BYTES - 1);
            let fields = [0_u32.to_ne_bytes(), rule.error.to_ne_bytes(), rule.count.unwrap_or(-1).to_ne_bytes()];
            let content = fields.concat().into_iter().chain([0; 4]).chain(path);
            bytes.iter_mut().zip(content).for_each(|(byte, value)| *byte = value);
            let offset = (index * RULE_BYTES) as u64;
            self.file.write_all_at(&bytes, offset)?;
            // The calls come last: they switch the rule on.
            self.file.write_all_at(&rule.calls.to_ne_bytes(), offset)?;
        }
        Ok(())
    }

    /// Switches all rules off; their counts are lost.
    pub(crate) fn clear(&self) -> Outcome<()> {
        Ok(self.file.write_all_at(&[0; RULES * RULE_BYTES], 0)?)
    }

    /// Returns the number of calls that met the rules in effect.
    pub(crate) fn hits(&self) -> Outcome<u64> {
        let mut hits = 0;
        for index in 0..RULES {
            let mut bytes = [0; 4];
            self.file.read_exact_at(&mut bytes, (index * RULE_BYTES + 12) as u64)?;
            hits += u64::from(u32::from_ne_bytes(bytes));
        }
        Ok(hits)
    }
}
