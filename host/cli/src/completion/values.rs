//! Candidates of values: from the contexts file, and from the server within [`VALUES_WAIT`].

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use clap_complete::engine::CompletionCandidate;
use mortise_resource::{
    data::{ListFunctionsRequest, SearchRequest},
    goten::View,
    pb,
    types::{self, Gvk, gvk},
};
use mortise_text::Types as _;
use prost_reflect::{Kind as FieldKind, MessageDescriptor};

use super::{Kind, Typed};
use crate::{CliError, Session, connect::contexts::Contexts, env, resources::catalog::Catalog};

/// Longest wait for the server while a person types.
pub(super) const VALUES_WAIT: Duration = Duration::from_secs(1);

/// Most resources of which the names or labels become candidates.
const MAX_RESOURCES: i32 = 500;

/// Argument that holds the type and the names in commands about resources.
const WHAT: &str = "what";

/// Returns the candidates that begin with `current`, or none after any fault.
pub(super) fn candidates(kind: Kind, argument: &str, current: &str, typed: &Typed) -> Vec<CompletionCandidate> {
    if let Kind::Contexts = kind {
        let contexts = Contexts::load(&env::process).unwrap_or_default();
        return begin_with(current, contexts.context.into_keys().map(|name| (name, String::new())));
    }
    // Descriptors are fetched by a thread that blocks, which takes a runtime with several.
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build() else {
        return Vec::new();
    };
    let asked = runtime.block_on(async {
        let asked = ask(kind, current.to_owned(), Asked::of(typed, argument));
        tokio::time::timeout(VALUES_WAIT, asked).await.ok()?.ok()
    });
    runtime.shutdown_background();
    begin_with(current, asked.unwrap_or_default().into_iter())
}

fn begin_with(current: &str, all: impl Iterator<Item = (String, String)>) -> Vec<CompletionCandidate> {
    all.filter(|(value, _)| value.starts_with(current))
        .map(|(value, help)| CompletionCandidate::new(value).help((!help.is_empty()).then(|| help.into())))
        .collect()
}

/// The words that a question to the server depends on.
struct Asked {
    connect: crate::Connect,
    tenancy: crate::Tenancy,
    /// Words of the argument that is completed, before the current one.
    before: Vec<String>,
    /// The type of a command about resources.
    resource_type: Option<String>,
}

impl Asked {
    fn of(typed: &Typed, argument: &str) -> Self {
        let mut connect = typed.connect();
        connect.timeout = Some(VALUES_WAIT);
        let resource_type = typed.values(WHAT).into_iter().next();
        Self { connect, tenancy: typed.tenancy(), before: typed.values(argument), resource_type }
    }
}

/// Values with their explanations.
type Explained = Vec<(String, String)>;

async fn ask(kind: Kind, current: String, asked: Asked) -> Result<Explained, CliError> {
    let session = asked.connect.session().await?;
    if let Kind::Functions = kind {
        let answer = session.call("functions", session.functions().list_functions(ListFunctionsRequest {})).await?;
        let named = |info: mortise_resource::data::FunctionInfo| {
            let function = info.function.unwrap_or_default();
            (format!("{}.{}", info.plugin, function.name), function.summary)
        };
        return Ok(answer.functions.into_iter().map(named).collect());
    }
    let server = Server { catalog: Catalog::fetch(&session).await?, session, asked };
    match kind {
        Kind::Contexts | Kind::Functions => Ok(Vec::new()),
        Kind::Types => Ok(server.types(&current)),
        Kind::Fields => Ok(server.fields(&current)),
        Kind::Resources => server.resources(&current).await,
        Kind::Named(of) => server.names(&of().to_pb(), &current, "").await,
        Kind::Paths => Ok(server.paths(&current)),
        Kind::Labels => server.labels(&current).await,
    }
}

/// The server, its types, and the question.
struct Server {
    catalog: Catalog,
    session: Session,
    asked: Asked,
}

impl Server {
    /// Types by their kind, or by their whole name where a kind is of several groups or the name was begun.
    fn types(&self, current: &str) -> Explained {
        let all = self.catalog.all();
        let mut groups: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for ty in &all {
            groups.entry(ty.kind.to_lowercase()).or_default().insert(&ty.group);
        }
        let whole = all
            .iter()
            .filter(|ty| current.contains('.') || groups.get(&ty.kind.to_lowercase()).is_some_and(|of| of.len() > 1));
        let whole = whole.map(|ty| (gvk(ty), String::new()));
        let kinds = groups.iter().filter(|(_, groups)| groups.len() == 1 && !current.contains('.'));
        let kinds = kinds.map(|(kind, groups)| (kind.clone(), groups.iter().copied().collect::<String>()));
        whole.chain(kinds).collect()
    }

    /// Whole names of types, and the fields of the one that was typed: `artist.`.
    fn fields(&self, current: &str) -> Explained {
        let Some((ty, path)) = current.split_once('.') else { return self.types(current) };
        match self.catalog.find_type(ty) {
            Ok(found) => self.fields_of(&found, &format!("{ty}."), path),
            Err(_) => self.types(current),
        }
    }

    /// `TYPE NAME`, `TYPE/NAME`, several types by commas.
    async fn resources(&self, current: &str) -> Result<Explained, CliError> {
        match (self.asked.before.first(), current.rsplit_once('/')) {
            (_, Some((ty, prefix))) => {
                let ty_of = self.catalog.find_type(ty)?;
                self.names(&ty_of, prefix, &format!("{ty}/")).await
            }
            (Some(first), None) if !first.contains('/') => {
                let ty = self.catalog.find_type(first)?;
                let named = self.names(&ty, current, "").await?;
                Ok(named.into_iter().filter(|(name, _)| !self.asked.before.contains(name)).collect())
            }
            _ => {
                let earlier = current.rfind(',').map_or("", |at| current.get(..=at).unwrap_or_default());
                let rest = current.get(earlier.len()..).unwrap_or_default();
                let types = self.types(rest).into_iter();
                Ok(types.map(|(ty, help)| (format!("{earlier}{ty}"), help)).collect())
            }
        }
    }

    /// Names of a type in the command's place, each behind `before`.
    async fn names(&self, ty: &pb::Type, prefix: &str, before: &str) -> Result<Explained, CliError> {
        let found = self.search(ty, prefix, View::Name).await?;
        let mut names: BTreeSet<String> =
            found.into_iter().filter_map(|resource| resource.id).map(|id| id.name).collect();
        // The units that exist without being stored.
        if [types::namespace(), types::partition()].contains(&Gvk::from(ty)) {
            names.insert("default".to_owned());
        }
        Ok(names.into_iter().map(|name| (format!("{before}{name}"), String::new())).collect())
    }

    async fn search(&self, ty: &pb::Type, prefix: &str, view: View) -> Result<Vec<pb::Resource>, CliError> {
        let request = SearchRequest {
            parent: prefix.to_owned(),
            page_size: MAX_RESOURCES,
            view: view.into(),
            r#type: Some(ty.clone()),
            tenancy: Some(self.asked.tenancy.units_for(ty, &self.session, &self.catalog)),
            ..SearchRequest::default()
        };
        let answer = self.session.call(gvk(ty), async { self.session.queries().search(request).await }).await?;
        Ok(answer.resources)
    }

    /// Paths of fields of the data of the type that was typed.
    fn paths(&self, current: &str) -> Explained {
        let Some(ty) = self.asked.resource_type.as_ref().and_then(|ty| self.catalog.find_type(ty).ok()) else {
            return Vec::new();
        };
        let (earlier, path) = current.rfind(',').map_or(("", current), |at| current.split_at(at + 1));
        match path.strip_prefix("data.") {
            Some(path) => self.fields_of(&ty, &format!("{earlier}data."), path),
            None => ["data.", "id.name", "meta.labels"].map(|root| (format!("{earlier}{root}"), String::new())).into(),
        }
    }

    /// Fields at the end of a path within a type's data; those that hold fields end in a dot.
    fn fields_of(&self, ty: &pb::Type, before: &str, path: &str) -> Explained {
        let (above, _) = path.rfind('.').map_or(("", path), |at| path.split_at(at + 1));
        let mut message = self.catalog.message(ty);
        for name in above.split_terminator('.') {
            message = message.and_then(|of| fields_below(&of, name));
        }
        let fields = message.into_iter().flat_map(|of| of.fields().collect::<Vec<_>>());
        let named = fields.map(|field| {
            let dot = if fields_below(field.parent_message(), field.name()).is_some() { "." } else { "" };
            (format!("{before}{above}{}{dot}", field.name()), String::new())
        });
        named.collect()
    }

    /// Keys of labels, and behind `key=` their values.
    async fn labels(&self, current: &str) -> Result<Explained, CliError> {
        let Some(ty) = &self.asked.resource_type else { return Ok(Vec::new()) };
        let found = self.search(&self.catalog.find_type(ty)?, "", View::Full).await?;
        let (earlier, label) = current.rfind(',').map_or(("", current), |at| current.split_at(at + 1));
        let labels = found.into_iter().filter_map(|resource| resource.meta).flat_map(|meta| meta.labels);
        let named: BTreeSet<String> = match label.contains('=') {
            true => labels.map(|(key, value)| format!("{earlier}{key}={value}")).collect(),
            false => labels.map(|(key, _)| format!("{earlier}{key}")).collect(),
        };
        Ok(named.into_iter().map(|label| (label, String::new())).collect())
    }
}

/// Message of a field that holds one; `None` for lists and maps, whose items have no path.
fn fields_below(of: &MessageDescriptor, name: &str) -> Option<MessageDescriptor> {
    let field = of.get_field_by_name(name)?;
    match field.kind() {
        FieldKind::Message(below) if !field.is_map() && !field.is_list() => Some(below),
        _ => None,
    }
}
