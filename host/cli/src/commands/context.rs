//! `mortise context …`: reads and changes the contexts file.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::{
    Cell, CliError, Color, Exit, Table, Ui,
    connect::{
        address::address,
        contexts::{Context as Entry, Contexts},
    },
    env::{self, Env},
    output::ui,
};

pub(super) const EXAMPLES: &str = "\
mortise context set home --grpc-addr home.example.net:8502 --tls --token-file ~/.mortise-token
mortise context use home";

/// Arguments of `context`.
#[derive(Debug, Args)]
pub struct Context {
    #[command(subcommand)]
    command: ContextCommand,
}

/// Subcommands of `context`.
#[derive(Debug, Subcommand)]
enum ContextCommand {
    /// Lists all contexts; a star marks the current one
    #[command(visible_alias = "ls", alias = "get-contexts", after_help = super::after("mortise context list"))]
    List,
    /// Makes a context the current one
    #[command(alias = "use-context", after_help = super::after("mortise context use home"))]
    Use {
        /// The context
        name: String,
    },
    /// Creates a context, or changes the given settings of one; an empty value removes a setting
    #[command(alias = "set-context", after_help = super::after("mortise context set home --grpc-addr 192.168.1.2:8502 --namespace blue"))]
    Set(Box<SetContext>),
    /// Deletes a context
    #[command(alias = "delete-context", after_help = super::after("mortise context delete home"))]
    Delete {
        /// The context
        name: String,
    },
    /// Prints the name of the current context
    #[command(alias = "current-context", after_help = super::after("mortise context current"))]
    Current,
    /// Shows a context as it stands in the file; without NAME, the current one
    #[command(alias = "view", after_help = super::after("mortise context show home"))]
    Show {
        /// The context
        name: Option<String>,
    },
}

/// Arguments of `context set`.
#[derive(Debug, Args)]
struct SetContext {
    /// The context
    name: String,
    /// The server: HOST:PORT, http://HOST:PORT or https://HOST:PORT
    #[arg(long, value_name = "ADDR")]
    grpc_addr: Option<String>,
    /// A file that holds the token
    #[arg(long, value_name = "FILE")]
    token_file: Option<String>,
    /// Whether to use TLS
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    tls: Option<bool>,
    /// Certificates (PEM) to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<String>,
    /// This client's certificate (PEM)
    #[arg(long, value_name = "FILE")]
    client_cert: Option<String>,
    /// The key of --client-cert (PEM)
    #[arg(long, value_name = "FILE")]
    client_key: Option<String>,
    /// The name that the server's certificate must have
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,
    /// The partition to work in
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// The namespace to work in
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
}

impl Context {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let env: Env<'_> = &env::process;
        let mut contexts = Contexts::load(env)?;
        match self.command {
            ContextCommand::List => ui::print(list(&contexts))?,
            ContextCommand::Use { name } => {
                contexts.get(&name)?;
                contexts.current = Some(name.clone());
                contexts.store(env)?;
                ui::line(format!("context {name:?} is the current one"))?;
            }
            ContextCommand::Set(set) => {
                let name = set.name.clone();
                if mortise_resource::name::fault(&name).is_some() {
                    return Err(CliError::usage(format!(
                        "{name:?} is not a valid name for a context; use lower-case letters, digits and dashes"
                    )));
                }
                let entry = contexts.context.entry(name.clone()).or_default();
                set.apply(entry)?;
                // The first context becomes the current one.
                let first = contexts.context.len() == 1 && contexts.current.is_none();
                if first {
                    contexts.current = Some(name.clone());
                }
                let path = contexts.store(env)?;
                let current = if first { "; it is the current one" } else { "" };
                ui::line(format!("context {name:?} written to {}{current}", path.display()))?;
            }
            ContextCommand::Delete { name } => {
                contexts.get(&name)?;
                contexts.context.remove(&name);
                let current = contexts.current.take_if(|current| *current == name).is_some();
                contexts.store(env)?;
                let none = if current { "; no context is the current one now" } else { "" };
                ui::line(format!("context {name:?} deleted{none}"))?;
            }
            ContextCommand::Current => ui::line(current(&contexts)?)?,
            ContextCommand::Show { name } => {
                let name = match name {
                    Some(name) => name,
                    None => current(&contexts)?,
                };
                let entry = contexts.get(&name)?.clone();
                let contexts = Contexts { current: None, context: [(name, entry)].into() };
                let text = toml::to_string(&contexts).map_err(|e| CliError::failed("contexts").caused_by(e))?;
                ui::print(text)?;
            }
        }
        Ok(Exit::Done)
    }
}

fn current(contexts: &Contexts) -> Result<String, CliError> {
    contexts.current.clone().ok_or_else(|| {
        CliError::usage("no context is the current one")
            .remedy("`mortise context use NAME` makes one current, `mortise context list` lists them")
    })
}

fn list(contexts: &Contexts) -> String {
    let mut table = Table::new(["current", "name", "address", "tls", "partition", "namespace"]);
    for (name, context) in &contexts.context {
        let or_empty = |text: &Option<String>| Cell::from(text.clone().unwrap_or_default());
        table.row(vec![
            if contexts.current.as_deref() == Some(name) { "*" } else { "" }.into(),
            name.as_str().into(),
            or_empty(&context.grpc_addr),
            context.tls.map(|tls| tls.to_string()).unwrap_or_default().into(),
            or_empty(&context.partition),
            or_empty(&context.namespace),
        ]);
    }
    table.render(&Ui::new(Color::Auto))
}

impl SetContext {
    /// Changes the given settings.
    fn apply(self, entry: &mut Entry) -> Result<(), CliError> {
        fn text(given: Option<String>, own: &mut Option<String>) {
            if let Some(given) = given {
                *own = Some(given).filter(|text| !text.is_empty());
            }
        }
        // Absolute, since the next command may run in another directory.
        fn file(given: Option<String>, own: &mut Option<PathBuf>) -> Result<(), CliError> {
            match given.map(PathBuf::from) {
                None => {}
                Some(given) if given.as_os_str().is_empty() => *own = None,
                Some(given) => {
                    let whole = std::path::absolute(&given).map_err(|e| CliError::file("cannot find", &given, e))?;
                    *own = Some(whole);
                }
            }
            Ok(())
        }
        if let Some(addr) = self.grpc_addr.as_deref().filter(|addr| !addr.is_empty()) {
            address(addr)?;
        }
        text(self.grpc_addr, &mut entry.grpc_addr);
        text(self.tls_server_name, &mut entry.tls_server_name);
        text(self.partition, &mut entry.partition);
        text(self.namespace, &mut entry.namespace);
        file(self.token_file, &mut entry.token_file)?;
        file(self.ca_file, &mut entry.ca_file)?;
        file(self.client_cert, &mut entry.client_cert)?;
        file(self.client_key, &mut entry.client_key)?;
        entry.tls = self.tls.or(entry.tls);
        Ok(())
    }
}
