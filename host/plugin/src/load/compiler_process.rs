//! A process that compiles one component and ends.
//!
//! # Contract
//! The server starts its own program under the name [`PROGRAM_NAME`], even if the file was replaced meanwhile. The
//! process reads the component from its standard input, and writes machine code to its standard output, a file in
//! memory. It gets no environment, no other file, and a process group of its own: a Ctrl-C for the server does not end
//! it. It ends with the load that it works for, or with its work.
//!
//! # Limits
//! [`address_space_bytes`] and [`processor_seconds`], by the size of the component. A process beyond them ends with an
//! error that says so; the system takes it first where memory is scarce. [`MAX_ERROR_BYTES`] of its text are read.

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{self, Read as _, Write as _},
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::{ExitCode, ExitStatus, Stdio},
};

use rustix::{
    io::Errno,
    process::{Resource, Rlimit, Signal, getrlimit, setrlimit},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::Command,
};
use wasmtime::Engine;

use crate::{
    engine::configuration,
    error::LoadError,
    load::{compile, machine_code::MachineCode},
};

/// Name under which the program compiles.
const PROGRAM_NAME: &str = "mortise-compiler";

/// Most bytes of the process's standard error.
const MAX_ERROR_BYTES: u64 = 16 << 10;

/// Exit code for a component that the compiler refuses, and for a fault of the machine. Both have a text.
const REFUSED: u8 = 1;
const MACHINE_FAULT: u8 = 3;

/// Address space of the process, bytes: the program, its threads, and for each byte of a component 64 bytes. Plugins of
/// the SDK take a tenth of it.
fn address_space_bytes(component_bytes: u64) -> u64 {
    (2 << 30) + 64 * component_bytes
}

/// Processor time of the process, seconds. A plugin of the SDK takes one, in a program without optimisation five.
fn processor_seconds(component_bytes: u64) -> u64 {
    60 + 30 * component_bytes.div_ceil(1 << 20)
}

/// Program that compiles: the running one.
#[derive(Debug, Clone)]
pub struct CompilerProgram(PathBuf);

impl CompilerProgram {
    /// The running program, which must call [`launch`] when it starts; `None` where a system cannot start it again.
    #[must_use]
    pub fn this() -> Option<Self> {
        // The link leads to the file that runs, wherever it is by now.
        let link = PathBuf::from("/proc/self/exe");
        (cfg!(target_os = "linux") && link.exists()).then_some(Self(link))
    }
}

/// Compiles in a process of its own.
pub(super) async fn compile(
    program: &CompilerProgram,
    (reservation, threads): (u64, usize),
    component: &[u8],
) -> Result<MachineCode, LoadError> {
    let host = |what| move |e: io::Error| LoadError::Host { what, source: wasmtime::Error::new(e) };
    let output = MachineCode::file().map_err(host("keeping compiled code in memory"))?;
    let stdout = output.try_clone().map_err(host("keeping compiled code in memory"))?;
    let mut child = Command::new(&program.0)
        .arg0(PROGRAM_NAME)
        .args([reservation.to_string(), threads.to_string(), component.len().to_string()])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(host("starting a process that compiles"))?;
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let send = async {
        if let Some(mut stdin) = stdin {
            // A process that ended early says why by its status.
            let _ = stdin.write_all(component).await;
        }
    };
    let receive = async {
        let mut text = Vec::new();
        if let Some(stderr) = stderr {
            let _ = stderr.take(MAX_ERROR_BYTES).read_to_end(&mut text).await;
        }
        text
    };
    let ((), text, ended) = tokio::join!(send, receive, child.wait());
    let ended = ended.map_err(host("waiting for the process that compiles"))?;
    match refusal(ended, &String::from_utf8_lossy(&text), component.len() as u64) {
        None => MachineCode::seal(output).map_err(host("keeping compiled code in memory")),
        Some(refused) => Err(refused),
    }
}

/// Error for the end of a process; `None` if it compiled the component.
fn refusal(ended: ExitStatus, text: &str, component_bytes: u64) -> Option<LoadError> {
    let text = text.trim();
    let too_costly = |what: String| Some(LoadError::TooCostly { what });
    let not = |what: String| Some(LoadError::NotAComponent { what });
    let machine = |text: String| {
        Some(LoadError::Host { what: "compiling in a process of its own", source: wasmtime::Error::msg(text) })
    };
    if let Some(signal) = ended.signal() {
        return match signal {
            signal if signal == Signal::XCPU.as_raw() => {
                too_costly(format!("{} s of processor time", processor_seconds(component_bytes)))
            }
            // Rust's answer to a refused allocation.
            signal if signal == Signal::ABORT.as_raw() && text.contains("memory allocation of") => {
                too_costly(format!("{} MiB of address space", address_space_bytes(component_bytes) >> 20))
            }
            signal => machine(format!("signal {signal} ended it. {text}")),
        };
    }
    match ended.code().and_then(|code| u8::try_from(code).ok()) {
        Some(0) => None,
        Some(REFUSED) => not(compile::with_remedy(text.to_owned())),
        Some(MACHINE_FAULT) => machine(text.to_owned()),
        _ => {
            tracing::error!("the compiler panicked: {text}");
            not("the compiler panicked; see the log".into())
        }
    }
}

/// Compiles if this process was started for it, and returns the exit code. To be called before anything else.
#[must_use]
pub fn launch() -> Option<ExitCode> {
    let arguments: Vec<OsString> = env::args_os().collect();
    let (name, rest) = arguments.split_first()?;
    if name != OsStr::new(PROGRAM_NAME) {
        return None;
    }
    let numbers: Vec<u64> = rest.iter().filter_map(|one| one.to_str()?.parse().ok()).collect();
    let done = match numbers.as_slice() {
        [reservation, threads, bytes] => work(*reservation, usize::try_from(*threads).unwrap_or(1), *bytes),
        _ => Err(Fault::Machine("this name is for the server's own use".into())),
    };
    let (code, text) = match done {
        Ok(()) => return Some(ExitCode::SUCCESS),
        Err(Fault::Component(text)) => (REFUSED, text),
        Err(Fault::Machine(text)) => (MACHINE_FAULT, text),
    };
    // Without a reader the exit code has to do.
    let _ = io::stderr().write_all(text.as_bytes());
    Some(ExitCode::from(code))
}

/// Reason that nothing was compiled.
enum Fault {
    Component(String),
    Machine(String),
}

/// Compiles standard input to standard output.
fn work(reservation: u64, threads: usize, bytes: u64) -> Result<(), Fault> {
    let machine = |what: &'static str| move |e: io::Error| Fault::Machine(format!("{what}: {e}"));
    limit(Resource::As, address_space_bytes(bytes)).map_err(machine("limiting the address space"))?;
    limit(Resource::Cpu, processor_seconds(bytes)).map_err(machine("limiting the processor time"))?;
    // A process that is ended for its processor time leaves no image of its memory.
    limit(Resource::Core, 0).map_err(machine("limiting images of memory"))?;
    // The system may take this process first when memory is scarce. Without /proc it chooses by itself.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let mut component = Vec::new();
    io::stdin().lock().take(bytes).read_to_end(&mut component).map_err(machine("reading the component"))?;
    if component.len() as u64 != bytes {
        return Err(Fault::Machine("the server ended while it sent the component".into()));
    }
    let engine = Engine::new(&configuration::of_code(reservation)).map_err(|e| Fault::Machine(format!("{e:#}")))?;
    let pool =
        compile::pool(threads).map_err(|e| Fault::Machine(format!("the compiler's threads cannot be started: {e}")))?;
    let code =
        pool.install(|| engine.precompile_component(&component)).map_err(|e| Fault::Component(format!("{e:#}")))?;
    let mut output = io::stdout().lock();
    output.write_all(&code).and_then(|()| output.flush()).map_err(machine("writing the code"))
}

/// Lowers a limit of this process. A supervisor may forbid that (`SystemCallFilter=~@resources`): its own bounds hold
/// then.
fn limit(resource: Resource, most: u64) -> io::Result<()> {
    let now = getrlimit(resource);
    let current = Some(now.current.map_or(most, |known| known.min(most)));
    match setrlimit(resource, Rlimit { current, maximum: now.maximum }) {
        Err(Errno::PERM) => Ok(()),
        set => Ok(set?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_signal(signal: Signal) -> ExitStatus {
        ExitStatus::from_raw(signal.as_raw())
    }

    fn by_code(code: u8) -> ExitStatus {
        ExitStatus::from_raw(i32::from(code) << 8)
    }

    #[test]
    fn the_end_of_the_process_says_whose_fault_it_was() {
        let allocation = "memory allocation of 9 bytes failed\n";
        for (ended, text, expected) in [
            (by_signal(Signal::XCPU), "", "compiling it takes more than 90 s of processor time; make it smaller"),
            (
                by_signal(Signal::ABORT),
                allocation,
                "compiling it takes more than 2112 MiB of address space; make it smaller",
            ),
            (by_signal(Signal::ABORT), "x", "compiling in a process of its own: signal 6 ended it. x"),
            (by_signal(Signal::KILL), "", "compiling in a process of its own: signal 9 ended it. "),
            (by_code(REFUSED), "unknown opcode\n", "not a WebAssembly component: unknown opcode"),
            (by_code(MACHINE_FAULT), "no threads", "compiling in a process of its own: no threads"),
            (by_code(101), "at x.rs", "not a WebAssembly component: the compiler panicked; see the log"),
        ] {
            assert_eq!(refusal(ended, text, 1 << 20).unwrap().to_string(), expected);
        }
        assert!(refusal(by_code(0), "a warning", 1).is_none());
    }

    #[tokio::test]
    async fn a_program_that_cannot_be_started_is_a_fault_of_the_machine() {
        let program = CompilerProgram("/nowhere/mortise".into());
        let refused = compile(&program, (64 << 20, 1), b"\0asm").await.unwrap_err();
        assert!(matches!(refused, LoadError::Host { what: "starting a process that compiles", .. }), "{refused}");
    }
}
