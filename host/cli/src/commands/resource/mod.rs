//! `mortise resource …`: the commands of `consul resource`, so that scripts made for it go on working. Arguments, output,
//! wordings and exit codes (0, and 1 for every failure) are Consul's, from its documentation and behaviour; all of them speak
//! gRPC here, the ones that in Consul go over HTTP, too.

mod flags;
mod server;

use clap::{Args, Subcommand};
use mortise_resource::{pb, types::gvk};
use mortise_text::{Format, Indent, Source, consul};
use tonic::{Code, Request};

use self::flags::{FlagError, Flags};
use crate::{
    CliError, Exit, Session,
    apply::files,
    output::ui,
    resources::catalog::Catalog,
    resources::ids::{id_of, title},
};

pub(super) const EXAMPLES: &str = "\
mortise resource apply -f artist.hcl
mortise resource read demo.v2.Artist korn -namespace default
mortise resource list demo.v2.Artist
mortise resource delete demo.v2.Artist korn";

/// Arguments of `resource`.
#[derive(Debug, Args)]
pub struct Resource {
    #[command(subcommand)]
    command: ResourceCommand,
}

/// Flags as in Consul, with one dash; see docs/cli.md.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
struct RawArguments {
    /// As `consul resource` takes them: arguments, then flags: -f, -namespace, -partition, -stale, -token, -token-file,
    /// -grpc-addr, -grpc-tls, -ca-file, -ca-path, -client-cert, -client-key; -p PREFIX in list-grpc
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

#[derive(Debug, Subcommand)]
enum ResourceCommand {
    /// Write a resource from a file, as `consul resource apply`
    #[command(after_help = after("mortise resource apply -f artist.hcl"))]
    Apply(RawArguments),
    /// Read a resource, as `consul resource read`
    #[command(after_help = after("mortise resource read demo.v2.Artist korn -partition default"))]
    Read(RawArguments),
    /// List resources of a type, as `consul resource list`
    #[command(after_help = after("mortise resource list demo.v2.Artist -namespace default"))]
    List(RawArguments),
    /// Delete a resource, as `consul resource delete`
    #[command(after_help = after("mortise resource delete demo.v2.Artist korn"))]
    Delete(RawArguments),
    /// Write a resource from a file, as `consul resource apply-grpc`
    #[command(after_help = after("mortise resource apply-grpc -f artist.json"))]
    ApplyGrpc(RawArguments),
    /// Read a resource, as `consul resource read-grpc`
    #[command(after_help = after("mortise resource read-grpc executive ceo"))]
    ReadGrpc(RawArguments),
    /// List resources of a type, as `consul resource list-grpc`
    #[command(after_help = after("mortise resource list-grpc demo.v2.Artist -p korn"))]
    ListGrpc(RawArguments),
    /// Delete a resource, as `consul resource delete-grpc`
    #[command(after_help = after("mortise resource delete-grpc executive ceo"))]
    DeleteGrpc(RawArguments),
}

fn after(example: &str) -> String {
    format!("Example:\n  {example}\n\nExit codes: 0 done, 1 anything else")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Apply,
    Read,
    List,
    Delete,
}

/// Which of Consul's two families a command is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Http,
    Grpc,
}

impl Resource {
    pub(super) async fn run(self, program: clap::Command) -> Result<Exit, CliError> {
        let (verb, family, raw) = match self.command {
            ResourceCommand::Apply(raw) => (Verb::Apply, Family::Http, raw),
            ResourceCommand::Read(raw) => (Verb::Read, Family::Http, raw),
            ResourceCommand::List(raw) => (Verb::List, Family::Http, raw),
            ResourceCommand::Delete(raw) => (Verb::Delete, Family::Http, raw),
            ResourceCommand::ApplyGrpc(raw) => (Verb::Apply, Family::Grpc, raw),
            ResourceCommand::ReadGrpc(raw) => (Verb::Read, Family::Grpc, raw),
            ResourceCommand::ListGrpc(raw) => (Verb::List, Family::Grpc, raw),
            ResourceCommand::DeleteGrpc(raw) => (Verb::Delete, Family::Grpc, raw),
        };
        let call = ConsulCommand { verb, family, flags: Flags::default() };
        match call.run(&raw.arguments).await {
            Ok(()) => Ok(Exit::Done),
            Err(ConsulError::Help) => {
                ui::print(help(program, verb, family))?;
                Ok(Exit::Done)
            }
            Err(ConsulError::Wrong(text)) => {
                crate::Ui::new(crate::Color::Never).note(&text);
                Ok(Exit::Failed)
            }
            Err(ConsulError::Output(error)) => Err(error),
        }
    }
}

fn help(program: clap::Command, verb: Verb, family: Family) -> String {
    let name = match verb {
        Verb::Apply => "apply",
        Verb::Read => "read",
        Verb::List => "list",
        Verb::Delete => "delete",
    };
    let name = if family == Family::Grpc { format!("{name}-grpc") } else { name.to_owned() };
    let mut program = program;
    program.build();
    let own = program.find_subcommand_mut("resource").and_then(|resource| resource.find_subcommand_mut(&name));
    own.map(|own| own.render_help().to_string()).unwrap_or_default()
}

/// Why a command ended early.
enum ConsulError {
    Help,
    /// The text for standard error.
    Wrong(String),
    /// The output is closed, or full.
    Output(CliError),
}

impl From<String> for ConsulError {
    fn from(text: String) -> Self {
        Self::Wrong(text)
    }
}

/// What is at fault in the arguments themselves.
fn format_fault(what: &str) -> ConsulError {
    ConsulError::Wrong(format!("Incorrect argument format: {what}"))
}

const NOT_NEEDED: &str = "File argument is not needed when resource information is provided with the command";

/// One command.
struct ConsulCommand {
    verb: Verb,
    family: Family,
    flags: Flags,
}

impl ConsulCommand {
    async fn run(mut self, arguments: &[String]) -> Result<(), ConsulError> {
        let rest = self.parse(arguments)?;
        match self.verb {
            Verb::Apply => self.apply(&rest).await,
            Verb::Read | Verb::Delete => self.one(&rest).await,
            Verb::List => self.list(&rest).await,
        }
    }

    /// Reads flags from the front, and answers what is left.
    fn parse(&mut self, arguments: &[String]) -> Result<Vec<String>, ConsulError> {
        let prefix = self.verb == Verb::List && self.family == Family::Grpc;
        match self.flags.read(arguments, prefix) {
            Ok(rest) => Ok(rest.to_vec()),
            Err(FlagError::Help) => Err(ConsulError::Help),
            Err(FlagError::Wrong(text)) => Err(format!("Failed to parse args: {text}").into()),
        }
    }

    async fn apply(mut self, rest: &[String]) -> Result<(), ConsulError> {
        let file = match (self.flags.get("f").map(str::to_owned), rest) {
            (Some(file), []) => file,
            (Some(_), _) => return Err(format_fault(NOT_NEEDED)),
            (None, [file, after @ ..]) if self.family == Family::Http => {
                if !self.parse(after)?.is_empty() {
                    return Err(format_fault(
                        "Must provide exactly one positional argument to specify the resource to write",
                    ));
                }
                file.clone()
            }
            (None, []) if self.family == Family::Http => {
                return Err(format_fault(
                    "Must provide exactly one positional argument to specify the resource to write",
                ));
            }
            (None, _) => {
                let missing = "Required '-f' flag was not provided to specify where to load the resource content from";
                return Err(missing.to_owned().into());
            }
        };
        let text = load(&file)?;
        let (session, catalog) = self.connect().await?;
        let mut resource = decode(&file, &text, &catalog)?;
        if self.family == Family::Http {
            resource.version.clear();
            if let Some(id) = &mut resource.id {
                id.uid.clear();
            }
        }
        let id = id_of(&resource);
        let request = pb::WriteRequest { resource: Some(resource) };
        let done = async { session.resources().write(request).await };
        let written =
            self.answer("Error writing resource", &title(&id), &session, done).await?.resource.unwrap_or_default();
        let name = id_of(&written).name;
        let ty = id.r#type.as_ref().map(gvk).unwrap_or_default();
        out(&format!("{ty} '{name}' created."))?;
        self.print(&written, &catalog)
    }

    async fn one(mut self, rest: &[String]) -> Result<(), ConsulError> {
        let named = match (self.flags.get("f"), rest) {
            (Some(_), []) => None,
            (Some(_), _) => return Err(format_fault(NOT_NEEDED)),
            (None, [] | [_]) => {
                return Err(format_fault("Must specify two arguments: resource type and resource name"));
            }
            (None, [_, name, ..]) if name.starts_with('-') => {
                return Err(format_fault("Must provide resource name right after type"));
            }
            (None, [ty, name, after @ ..]) => {
                let (ty, name) = (ty.clone(), name.clone());
                self.nothing_more(after)?;
                Some((ty, name))
            }
        };
        let (session, catalog, id) = match named {
            Some((ty, name)) => {
                let parts = ty.split('.').count();
                if parts != 1 && parts != 3 {
                    return Err(format_fault(
                        "Must provide resource type argument with either in group.version.kind format or its shorthand name",
                    ));
                }
                let (session, catalog) = self.connect().await?;
                let ty = self.find(&ty, &catalog)?;
                (session, catalog, pb::Id { uid: String::new(), name, r#type: Some(ty), tenancy: Some(self.units()) })
            }
            None => {
                let file = self.flags.get("f").unwrap_or_default().to_owned();
                let text = load(&file)?;
                let (session, catalog) = self.connect().await?;
                // A file says which name is meant, and not which incarnation of it: that is gone when it was made anew.
                let id = pb::Id { uid: String::new(), ..id_of(&decode(&file, &text, &catalog)?) };
                (session, catalog, id)
            }
        };
        let name = title(&id);
        if self.verb == Verb::Delete {
            let request = pb::DeleteRequest { id: Some(id), version: String::new() };
            let done = async { session.resources().delete(request).await };
            self.answer("Error deleting resource", &name, &session, done).await?;
            return out(&format!("{name} deleted"));
        }
        let request = self.consistent(pb::ReadRequest { id: Some(id) });
        let done = async { session.resources().read(request).await };
        let found = self.answer("Error reading resource", &name, &session, done).await?.resource.unwrap_or_default();
        self.print(&found, &catalog)
    }

    async fn list(mut self, rest: &[String]) -> Result<(), ConsulError> {
        let named = match (self.flags.get("f"), rest) {
            (Some(_), []) => None,
            (Some(_), _) => return Err(format_fault(NOT_NEEDED)),
            (None, []) => return Err(format_fault("Must include resource type argument")),
            (None, [_, next, ..]) if !next.starts_with('-') => {
                return Err(format_fault("Must include flag arguments after resource type"));
            }
            (None, [ty, after @ ..]) => {
                let ty = ty.clone();
                self.nothing_more(after)?;
                Some(ty)
            }
        };
        let (session, catalog, ty, tenancy) = match named {
            Some(ty) => {
                let parts = ty.split('.').count();
                if self.family == Family::Http && parts != 3 {
                    return Err(format_fault("Must include resource type argument in group.version.kind format"));
                }
                if parts != 1 && parts != 3 {
                    return Err(format_fault(
                        "Must provide resource type argument with either in group.version.kind format or its shorthand name",
                    ));
                }
                let (session, catalog) = self.connect().await?;
                let ty = self.find(&ty, &catalog)?;
                (session, catalog, ty, self.units())
            }
            None => {
                let file = self.flags.get("f").unwrap_or_default().to_owned();
                let text = load(&file)?;
                let (session, catalog) = self.connect().await?;
                let id = id_of(&decode(&file, &text, &catalog)?);
                (session, catalog, id.r#type.unwrap_or_default(), id.tenancy.unwrap_or_default())
            }
        };
        let name = gvk(&ty);
        let request = self.consistent(pb::ListRequest {
            r#type: Some(ty),
            tenancy: Some(tenancy),
            name_prefix: self.flags.get("p").unwrap_or_default().to_owned(),
        });
        let done = async { session.resources().list(request).await };
        let found = self.answer("Error reading resources for type", &name, &session, done).await?.resources;
        let text = match self.family {
            Family::Http => consul::list(&found, &catalog, Indent::Spaces(4)),
            Family::Grpc => consul::grpc_list(&found, &catalog),
        };
        catalog.fault().map_err(wording)?;
        out(&text)
    }

    /// Flags behind the arguments, and nothing else.
    fn nothing_more(&mut self, after: &[String]) -> Result<(), ConsulError> {
        let had_file = self.flags.get("f").is_some();
        let rest = self.parse(after)?;
        if !had_file && self.flags.get("f").is_some() {
            return Err(format_fault(NOT_NEEDED));
        }
        match rest.first() {
            None => Ok(()),
            Some(word) => Err(format!("Failed to parse args: unexpected argument {word:?}").into()),
        }
    }

    fn print(&self, resource: &pb::Resource, catalog: &Catalog) -> Result<(), ConsulError> {
        let text = match self.family {
            Family::Http => consul::resource(resource, catalog, Indent::Spaces(4)),
            Family::Grpc => consul::grpc_resource(resource, catalog),
        };
        catalog.fault().map_err(wording)?;
        out(&text)
    }

    fn units(&self) -> pb::Tenancy {
        let unit = |name: &str| self.flags.get(name).unwrap_or_default().to_owned();
        pb::Tenancy { partition: unit("partition"), namespace: unit("namespace") }
    }

    /// A type by its full name, whose case matters only over gRPC; or by a kind that only one type has.
    fn find(&self, text: &str, catalog: &Catalog) -> Result<pb::Type, ConsulError> {
        let types = || catalog.infos().iter().filter_map(|info| info.r#type.clone());
        let mut parts = text.split('.').map(str::to_owned);
        if let (Some(group), Some(group_version), Some(kind)) = (parts.next(), parts.next(), parts.next()) {
            let own = types().find(|ty| self.family == Family::Http && gvk(ty).eq_ignore_ascii_case(text));
            // The server says it better than we could when there is none.
            return Ok(own.unwrap_or(pb::Type { group, group_version, kind }));
        }
        let mut found = types().filter(|ty| ty.kind.eq_ignore_ascii_case(text));
        match (found.next(), found.next()) {
            (Some(ty), None) => Ok(ty),
            _ => Err("The shorthand name does not map to any existing resource type".to_owned().into()),
        }
    }

    fn consistent<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if self.flags.is_on("stale") != Some(true) {
            let mode = tonic::metadata::MetadataValue::from_static("consistent");
            request.metadata_mut().insert("x-consul-consistency-mode", mode);
        }
        request
    }

    /// Waits for an answer; a failure is worded as Consul words it.
    async fn answer<T>(
        &self,
        doing: &str,
        name: &str,
        session: &Session,
        call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    ) -> Result<T, ConsulError> {
        match tokio::time::timeout(session.timeout(), call).await {
            Err(_) => Err(format!("{doing} {name}: no answer within {:?}", session.timeout()).into()),
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => {
                let code = match status.code() {
                    Code::Cancelled => "Canceled".to_owned(),
                    code => format!("{code:?}"),
                };
                let rpc = format!("rpc error: code = {code} desc = {}", status.message());
                Err(match self.family {
                    Family::Grpc => format!("{doing} {name}: {rpc}"),
                    Family::Http => {
                        let http = match status.code() {
                            Code::InvalidArgument => 400,
                            Code::PermissionDenied => 403,
                            Code::NotFound => 404,
                            Code::Aborted => 409,
                            _ => 500,
                        };
                        format!("{doing} {name}: Unexpected response code: {http} ({rpc})")
                    }
                }
                .into())
            }
        }
    }
}

/// An error of ours in one of these commands.
fn wording(error: CliError) -> ConsulError {
    if error.exit == Exit::Closed { ConsulError::Output(error) } else { ConsulError::Wrong(error.to_string()) }
}

fn load(file: &str) -> Result<String, ConsulError> {
    let path = std::path::Path::new(file);
    if file != "-" {
        let opened = std::fs::File::open(path);
        if let Err(e) = opened {
            let why = match e.kind() {
                std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
                std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
                _ => e.to_string(),
            };
            return Err(format!("Failed to load data: Failed to read file: open {file}: {why}").into());
        }
    }
    files::text(path)
        .map_err(|error| ConsulError::Wrong(format!("Failed to load data: Failed to read file: {}", error.message)))
}

fn decode(file: &str, text: &str, catalog: &Catalog) -> Result<pb::Resource, ConsulError> {
    let format = Format::of_consul_text(text);
    let parsed = mortise_text::parse(Source { name: file, text }, Some(format), catalog);
    catalog.fault().map_err(wording)?;
    let mut documents =
        parsed.map_err(|faults| ConsulError::Wrong(format!("Failed to decode resource from input file: {faults}")))?;
    match (documents.pop(), documents.pop()) {
        (Some(document), None) => Ok(document.resource),
        _ => Err("Failed to decode resource from input file: it has to hold exactly one resource".to_owned().into()),
    }
}

fn out(text: &str) -> Result<(), ConsulError> {
    ui::line(text).map_err(ConsulError::Output)
}
