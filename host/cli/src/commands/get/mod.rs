//! `mortise get`, also called `list`: resources as tables, YAML, JSON or names, once or as a watch.

mod changes;
mod columns;
mod follow;
mod output;
mod page;
mod place;
mod sink;
mod watch;

use clap::Args;
use mortise_resource::{
    data::{BatchGetRequest, TypeInfo},
    manifest, pb,
};

use self::columns::ColumnArgs;
use crate::{
    CliError, Connect, Exit, Session, Tenancy, Ui,
    apply::files::{self, Files},
    resources::catalog::Catalog,
    resources::ids::{self, Selection, placed_title},
    resources::output::{Output, OutputParser},
    resources::search::{Found, QueryArgs},
    resources::show::{Rows, RowsOptions, Shown},
};

pub(super) const EXAMPLES: &str = "\
mortise get artists
mortise get artist korn -o yaml
mortise get artist/korn album/issues
mortise get all -n blue
mortise list demo.v2.Album -A -o wide
mortise get albums --prefix korn- --watch
mortise get artists,albums --watch
mortise get artists -l 'env in (prod, test)' --filter 'data.genre = \"GENRE_METAL\"' --explain
mortise get albums --sort-by id.name --fields data.title,meta.labels --page-size 20";

/// Word for every type of plugins that has namespaces, unless a type has this name.
const ALL: &str = "all";

fn all(catalog: &Catalog) -> Vec<Selection> {
    let wanted = |info: &&TypeInfo| !info.plugin.is_empty() && info.scope() == manifest::Scope::Namespace;
    let types = catalog.infos().iter().filter(wanted).filter_map(|info| info.r#type.clone());
    types.map(|ty| Selection { ty, names: Vec::new() }).collect()
}

/// Arguments of `get`.
#[derive(Debug, Args)]
pub struct Get {
    /// TYPE, TYPE NAME…, or TYPE/NAME…; a type is group.version.Kind, a kind or a short name; `all` is every type of
    /// plugins that has namespaces
    #[arg(value_name = "TYPE [NAME]", required_unless_present = "filename", conflicts_with = "filename")]
    what: Vec<String>,
    /// Shows the stored resources that these files, directories and URLs name; - is standard input
    #[arg(short, long, value_name = "FILE|DIR|URL|-", num_args = 1..)]
    filename: Vec<std::path::PathBuf>,
    /// Also reads the directories within a directory
    #[arg(short = 'R', long, requires = "filename")]
    recursive: bool,
    /// Output format.
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "table",
        value_parser = OutputParser,
        hide_possible_values = true,
        help = "Output format: table, wide, yaml, json, name, jsonpath=TEMPLATE, custom-columns=NAME:PATH,…, \
                go-template=TEMPLATE or go-template-file=FILE"
    )]
    output: Output,
    /// Also shows every change, until Ctrl-C: on a terminal, a table that is kept up to date; elsewhere and in other
    /// formats, a line or a text for each change; with --sort-by or --page-size, the whole page
    #[arg(short, long)]
    watch: bool,
    /// Prints a line for each change on a terminal, too
    #[arg(long, requires = "watch")]
    lines: bool,
    /// Continues an earlier watch of the same query from the token that it printed
    #[arg(long, value_name = "TOKEN", default_value = "", hide_default_value = true, requires = "watch")]
    resume: String,
    /// Lists every partition and namespace
    #[arg(short = 'A', long, visible_alias = "all-namespaces", conflicts_with_all = ["partition", "namespace"])]
    all_tenancies: bool,
    /// Only resources with this name prefix
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: String,
    /// Leaves out names that do not exist, without an error
    #[arg(long)]
    ignore_not_found: bool,
    #[command(flatten)]
    columns: ColumnArgs,
    #[command(flatten)]
    query: QueryArgs,
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

impl Get {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let ui = self.connect.ui();
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        let is_all = self.what == [ALL] && catalog.find(ALL).is_err();
        let wanted = match self.filename.is_empty() {
            true if is_all => all(&catalog),
            true => ids::selections(&self.what, &catalog, &self.tenancy)?,
            false => {
                let files = Files { filename: self.filename.clone(), recursive: self.recursive, format: None };
                files::selections(&files, &catalog, &self.tenancy, &session).await?
            }
        };
        if let Some(fault) = self.fault(&wanted) {
            return Err(CliError::usage(fault));
        }
        if self.watch {
            return self.watch(&wanted, is_all, &session, &catalog, &ui).await;
        }
        let mut missing = Vec::new();
        let mut found = Vec::new();
        let mut left_out = Vec::new();
        for wanted in &wanted {
            let of_type = match wanted.names.is_empty() {
                true => self.listed(&wanted.ty, &session, &catalog, &ui).await,
                false => self.named(wanted, &session, &catalog, &mut missing).await,
            };
            match of_type {
                Err(error) if is_all && error.code == Some(tonic::Code::PermissionDenied) => {
                    left_out.push(ids::type_name(&wanted.ty));
                }
                of_type => found.push((&wanted.ty, of_type?)),
            }
        }
        if !left_out.is_empty() {
            ui.note(&format!("left out, since the caller may not list them: {}", left_out.join(", ")));
        }
        self.show(&found, &wanted, missing.is_empty() && !self.ignore_not_found, &catalog, &ui)?;
        if self.ignore_not_found {
            return Ok(Exit::Done);
        }
        for error in &missing {
            ui.note(&format!("mortise: {error}"));
        }
        Ok(if missing.is_empty() { Exit::Done } else { Exit::Failed })
    }

    /// Returns the first conflict between the arguments.
    fn fault(&self, wanted: &[Selection]) -> Option<&'static str> {
        let is_named = wanted.iter().any(|wanted| !wanted.names.is_empty());
        match () {
            () if is_named && !self.prefix.is_empty() => Some("give either names or --prefix"),
            () if is_named && self.all_tenancies => {
                Some("-A does not go with names: give --partition and --namespace instead")
            }
            () if is_named && self.query.chooses() => {
                Some("give names or a query: --selector, --filter, --sort-by, --page-size, --page-token, --explain")
            }
            () if wanted.len() > 1 && self.query.wants_page() => Some("a page can list one type only"),
            () if wanted.len() > 1 && !self.resume.is_empty() => Some("--resume continues the watch of one type only"),
            () if !self.resume.is_empty() && self.query.is_ordered() => {
                Some("--resume continues without an order: leave --sort-by and --page-size out")
            }
            () => None,
        }
    }

    /// Reads the named resources; the errors of missing ones go to `missing`.
    async fn named(
        &self,
        wanted: &Selection,
        session: &Session,
        catalog: &Catalog,
        missing: &mut Vec<CliError>,
    ) -> Result<Found, CliError> {
        let mut resources = Vec::new();
        for name in &wanted.names {
            let id = ids::id(&wanted.ty, name, &self.tenancy, session, catalog);
            let read = match self.query.projects() {
                true => self.projected(session, &id).await,
                false => ids::read(session, &id).await,
            };
            match read {
                Ok(resource) => resources.push(resource),
                Err(error) if error.code == Some(tonic::Code::NotFound) => match place::default_unit(&id) {
                    Some(unit) => resources.push(unit),
                    None => missing.push(error),
                },
                Err(error) => return Err(error),
            }
        }
        Ok(Found { resources, ..Found::default() })
    }

    /// Lists a type, by the query if there is one.
    async fn listed(&self, ty: &pb::Type, session: &Session, catalog: &Catalog, ui: &Ui) -> Result<Found, CliError> {
        let units = self.units(ty, session, catalog);
        let found = match self.query.chooses() || self.query.projects() {
            true => self.query.search(session, ty, units.clone(), &self.prefix, ui).await?,
            false => {
                let mut resources = ids::list(session, ty, units.clone(), &self.prefix).await?;
                if self.prefix.is_empty() && self.output.is_table() {
                    place::add_default(session, ty, &units, &mut resources).await?;
                }
                Found { resources, ..Found::default() }
            }
        };
        if found.resources.is_empty() {
            place::check(session, &units).await?;
        }
        Ok(found)
    }

    /// Reads one resource with the query's view and fields.
    async fn projected(&self, session: &Session, id: &pb::Id) -> Result<pb::Resource, CliError> {
        let (view, field_mask) = self.query.projection();
        let request = BatchGetRequest { ids: vec![id.clone()], field_mask, view };
        let answer = session.call(placed_title(id), async { session.queries().batch_get(request).await }).await?;
        match answer.resources.into_iter().next() {
            Some(resource) => Ok(resource),
            // A plain read gives the reason.
            None => ids::read(session, id).await,
        }
    }

    fn units(&self, ty: &pb::Type, session: &Session, catalog: &Catalog) -> pb::Tenancy {
        if self.all_tenancies {
            return pb::Tenancy { partition: "*".into(), namespace: "*".into() };
        }
        self.tenancy.units_for(ty, session, catalog)
    }

    /// Format of resources in the output.
    fn shown<'c>(&self, catalog: &'c Catalog) -> Shown<'c> {
        Shown { catalog, whole_meta: self.query.projects(), placed: self.all_tenancies }
    }

    fn rows<'c>(&self, catalog: &'c Catalog, ty: &pb::Type, typed: bool, events: bool, placed: bool) -> Rows<'c> {
        let options = RowsOptions {
            wide: matches!(self.output, Output::Wide),
            everywhere: self.all_tenancies || placed,
            typed,
            events,
            fields: self.query.fields(),
            custom: match &self.output {
                Output::Columns(columns) => Some(columns.clone()),
                _ => None,
            },
            labels: self.columns.label_columns.clone(),
            all_labels: self.columns.show_labels,
            headless: self.columns.no_headers,
        };
        Rows::new(catalog, ty, options)
    }
}
