//! `mortise get`, also called `list`: resources as tables, YAML, JSON or names, once or for as long as one watches.

use clap::Args;
use mortise_resource::pb;
use mortise_text::Indent;

use super::watch;
use crate::{
    CliError, Connect, Exit, Session, Tenancy, Ui,
    output::ui,
    resources::catalog::Catalog,
    resources::ids::{self, Selection, placed_title, title, type_name},
    resources::selector::Selector,
    resources::show::{self, Output, Rows},
};

pub(super) const EXAMPLES: &str = "\
mortise get artists
mortise get artist korn -o yaml
mortise get artist/korn album/issues
mortise list demo.v2.Album -A -o wide
mortise get albums --prefix korn- --watch";

/// Arguments of `get`.
#[derive(Debug, Args)]
pub struct Get {
    /// TYPE, TYPE NAME…, or TYPE/NAME…; a type is group.version.Kind, a kind or a short name
    #[arg(value_name = "TYPE [NAME]", required = true)]
    what: Vec<String>,
    /// How they are shown
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "table",
        hide_possible_values = true,
        help = "How they are shown: table, wide, yaml, json or name"
    )]
    output: Output,
    /// Goes on with every change, until Ctrl-C
    #[arg(short, long)]
    watch: bool,
    /// In every partition and namespace
    #[arg(short = 'A', long, conflicts_with_all = ["partition", "namespace"])]
    all_tenancies: bool,
    /// Only names that begin so
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: String,
    /// Only with this metadata: key=value, several separated by commas
    #[arg(short = 'l', long, value_name = "KEY=VALUE", value_parser = crate::resources::selector::selector)]
    selector: Option<Selector>,
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

impl Get {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let ui = self.connect.ui();
        let session = self.connect.session().await?;
        let catalog = Catalog::fetch(&session).await?;
        let wanted = ids::selections(&self.what, &catalog)?;
        if wanted.iter().any(|wanted| !wanted.names.is_empty()) {
            let fault = match () {
                () if !self.prefix.is_empty() => "either names or --prefix",
                () if self.all_tenancies => "a name is in one place: -A lists, --partition and --namespace find",
                () => "",
            };
            if !fault.is_empty() {
                return Err(CliError::usage(fault));
            }
        }
        if self.watch {
            return self.watch(&wanted, &session, &catalog, &ui).await;
        }
        let mut missing = Vec::new();
        let mut found = Vec::new();
        for wanted in &wanted {
            let mut resources = Vec::new();
            for name in &wanted.names {
                let id = ids::id(&wanted.ty, name, &self.tenancy, &session, &catalog);
                match ids::read(&session, &id).await {
                    Ok(resource) => resources.push(resource),
                    Err(error) if error.code == Some(tonic::Code::NotFound) => missing.push(error),
                    Err(error) => return Err(error),
                }
            }
            if wanted.names.is_empty() {
                resources =
                    ids::list(&session, &wanted.ty, self.units(&wanted.ty, &session, &catalog), &self.prefix).await?;
            }
            resources.retain(|resource| self.selects(resource));
            found.push((&wanted.ty, resources));
        }
        self.show(&found, &wanted, missing.is_empty(), &catalog, &ui)?;
        for error in &missing {
            ui.note(&format!("mortise: {error}"));
        }
        Ok(if missing.is_empty() { Exit::Done } else { Exit::Failed })
    }

    fn selects(&self, resource: &pb::Resource) -> bool {
        self.selector.as_ref().is_none_or(|selector| selector.matches(&resource.metadata))
    }

    fn units(&self, ty: &pb::Type, session: &Session, catalog: &Catalog) -> pb::Tenancy {
        if self.all_tenancies {
            return pb::Tenancy { partition: "*".into(), namespace: "*".into() };
        }
        self.tenancy.units_for(ty, session, catalog)
    }

    fn show(
        &self,
        found: &[(&pb::Type, Vec<pb::Resource>)],
        wanted: &[Selection],
        complete: bool,
        catalog: &Catalog,
        ui: &Ui,
    ) -> Result<(), CliError> {
        let resources = || found.iter().flat_map(|(_, resources)| resources);
        match self.output {
            Output::Name => {
                for resource in resources() {
                    ui::line(title(&ids::id_of(resource)))?;
                }
            }
            Output::Yaml => {
                for (position, resource) in resources().enumerate() {
                    let text = show::yaml(resource, catalog)?;
                    ui::print(if position == 0 { text } else { format!("---\n{text}") })?;
                }
            }
            Output::Json => {
                let one = wanted.iter().map(|wanted| wanted.names.len()).sum::<usize>() == 1;
                match resources().next() {
                    Some(resource) if one => ui::print(show::json(resource, catalog)?)?,
                    None if one => {}
                    _ => {
                        let all: Vec<_> = resources().cloned().collect();
                        let text = mortise_text::list_to_json(&all, catalog, Indent::Spaces(2));
                        catalog.fault()?;
                        ui::line(text)?;
                    }
                }
            }
            Output::Table | Output::Wide => {
                let wide = self.output == Output::Wide;
                let mut first = true;
                for (ty, resources) in found.iter().filter(|(_, resources)| !resources.is_empty()) {
                    let mut rows = Rows::new(catalog, ty, wide, self.all_tenancies, found.len() > 1, false);
                    resources.iter().for_each(|resource| rows.add(resource, None));
                    catalog.fault()?;
                    ui::print(format!("{}{}", if first { "" } else { "\n" }, rows.table.render(ui)))?;
                    first = false;
                }
                if first && complete {
                    let types: Vec<_> = found.iter().map(|(ty, _)| type_name(ty)).collect();
                    ui.note(&format!("no {} there", types.join(" and no ")));
                }
            }
        }
        Ok(())
    }

    async fn watch(
        &self,
        wanted: &[Selection],
        session: &Session,
        catalog: &Catalog,
        ui: &Ui,
    ) -> Result<Exit, CliError> {
        let [Selection { ty, names }] = wanted else {
            return Err(CliError::usage("one type can be watched at a time"));
        };
        if let Some(name) = names.iter().find(|name| mortise_resource::name::fault(name).is_some()) {
            let fault = mortise_resource::name::fault(name).unwrap_or_default();
            return Err(CliError::usage(format!(
                "{}: {fault}",
                placed_title(&ids::id(ty, name, &self.tenancy, session, catalog))
            )));
        }
        let prefix = match names.as_slice() {
            [one] => one,
            _ => &self.prefix,
        };
        let units = self.units(ty, session, catalog);
        let rows = Rows::new(catalog, ty, self.output == Output::Wide, self.all_tenancies, false, true);
        let mut printer = watch::Printer::new(self.output, rows, catalog, ui);
        let wants = |resource: &pb::Resource| {
            (names.is_empty() || names.contains(&ids::id_of(resource).name)) && self.selects(resource)
        };
        watch::follow(session, ty, units, prefix, &wants, &mut printer).await?;
        Ok(Exit::Done)
    }
}
