//! Execution of the commands of `mortise resource …`.

use mortise_resource::{
    pb,
    types::{Gvk, gvk},
};
use mortise_text::{Indent, consul};
use tonic::Request;

use super::{
    error::{ConsulError, NOT_NEEDED, format_fault, refusal, wording},
    flags::{FlagError, Flags},
    input::{decode, load},
    verb::{Family, Verb},
};
use crate::{
    Session,
    output::ui,
    resources::{
        catalog::Catalog,
        ids::{id_of, title},
    },
};

/// Command with its flags.
pub(super) struct ConsulCommand {
    pub(super) verb: Verb,
    pub(super) family: Family,
    pub(super) flags: Flags,
}

impl ConsulCommand {
    pub(super) async fn run(mut self, arguments: &[String]) -> Result<(), ConsulError> {
        let rest = self.parse(arguments)?;
        match self.verb {
            Verb::Apply => self.apply(&rest).await,
            Verb::Read | Verb::Delete => self.one(&rest).await,
            Verb::List => self.list(&rest).await,
        }
    }

    /// Reads flags from the front, and returns the rest.
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
            if let Some(meta) = &mut resource.meta {
                meta.resource_version.clear();
            }
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
                // A file names a resource, not one incarnation of it: the uid is stale once the resource was made
                // again.
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

    /// Reads flags after the arguments, and rejects anything else.
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

    /// Finds a type by its full name, in any case over HTTP, or by a kind that only one type has.
    fn find(&self, text: &str, catalog: &Catalog) -> Result<pb::Type, ConsulError> {
        let types = || catalog.infos().iter().filter_map(|info| info.r#type.clone());
        if let Ok(named) = text.parse::<Gvk>() {
            let own = types().find(|ty| self.family == Family::Http && gvk(ty).eq_ignore_ascii_case(text));
            // The server has a better error for a type that does not exist.
            return Ok(own.unwrap_or_else(|| named.to_pb()));
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

    /// Waits for an answer; a failure gets Consul's wording.
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
            Ok(Err(status)) => Err(refusal(doing, name, self.family, &status)),
        }
    }
}

fn out(text: &str) -> Result<(), ConsulError> {
    ui::line(text).map_err(ConsulError::Output)
}
