//! `mortise plugin compile`: machine code of components, made where compiling is cheap.
//!
//! # Contract
//! For each component and each kind of machine there is one file, named by the component's SHA-256 and the address space of
//! a memory, which a server looks for in `plugins.code_dir`. It is replaced whole. It counts there only with a signature,
//! which `mortise plugin sign` makes.
//!
//! # Cost
//! The compiler's time on all cores, once for each kind of machine: a second for a plugin of the Rust SDK, and some 20 s
//! for one in Python.

use std::{fs, io::Write as _, path::PathBuf};

use clap::{Args, ValueEnum};
use mortise_cli::{CliError, Exit, ui};
use mortise_durable_fs::{AtomicFile, FsError};
use mortise_plugin_host::{CodeFile, Limits, compile_for};

use crate::{
    fault,
    server_settings::{ReadServerSettings, ServerConfig},
};

pub(crate) const EXAMPLES: &str = "\
mortise plugin compile demo.wasm -o code
mortise plugin compile *.wasm -o code --machine small --config config.toml
mortise plugin sign code/2c26b46b68ff….code --key code.key";

/// Kind of machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Machine {
    /// Less than 1 GiB of memory, or a limit on address space
    Small,
    /// 1 GiB of memory, or more
    Large,
}

/// Arguments of `plugin compile`.
#[derive(Debug, Args)]
pub struct Compile {
    /// Components
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Folder for the code: the server's plugins.code_dir, or one to copy there
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    /// Machine that the server runs on; without it, the code for both kinds is made
    #[arg(long, value_enum)]
    machine: Option<Machine>,
    #[command(flatten)]
    server: ServerConfig,
}

impl Compile {
    /// Compiles, and prints the path of each file.
    pub(crate) fn run(self, read: ReadServerSettings) -> Result<Exit, CliError> {
        let limits = self.server.read(read)?.map_or_else(Limits::default, |server| server.limits);
        let machines = match self.machine {
            Some(machine) => vec![machine],
            None => vec![Machine::Small, Machine::Large],
        };
        fs::create_dir_all(&self.output).map_err(fault::file("create", &self.output))?;
        for path in &self.files {
            let component = fs::read(path).map_err(fault::file("read", path))?;
            let mut written = Vec::new();
            for machine in &machines {
                let CodeFile { name, content } = compile_for(&limits, *machine == Machine::Small, &component)
                    .map_err(|refused| fault::load(path, refused))?;
                if written.contains(&name) {
                    continue;
                }
                let path = self.output.join(&name);
                let write = || {
                    let mut file = AtomicFile::new_beside(&path)?;
                    file.write_all(&content).map_err(FsError::with_path(&path, "write"))?;
                    file.replace_durably()
                };
                write().map_err(|e: FsError| fault::file("write", &e.path)(e.source))?;
                ui::line(path.display().to_string())?;
                written.push(name);
            }
        }
        Ok(Exit::Done)
    }
}
