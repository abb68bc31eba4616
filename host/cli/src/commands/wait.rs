//! `mortise wait`: waits until resources have a state, exist, or are gone.

use clap::Args;
use mortise_resource::{goten::LabelSelector, pb};

use crate::{
    CliError, Connect, Exit, Session, Tenancy,
    output::ui,
    resources::{
        catalog::Catalog,
        ids::{self, id_of, placed_title},
        search::QueryArgs,
        state::{self, StateError, WantedState},
        wait,
    },
};

pub(super) const EXAMPLES: &str = "\
mortise wait artist korn --for condition=Accepted --timeout 1m
mortise wait artist/korn album/issues --for delete
mortise wait artist korn --for data.genre=GENRE_METAL
mortise wait albums -l app=shop --for condition=Accepted";

/// Arguments of `wait`.
#[derive(Debug, Args)]
pub struct Wait {
    /// TYPE NAME…, TYPE/NAME…, or TYPE with --selector or --all
    #[arg(value_name = "TYPE [NAME]", required = true)]
    what: Vec<String>,
    /// State to wait for, at most --timeout: condition=TYPE, condition=TYPE=false, delete, create, PATH=VALUE, or
    /// kubectl's jsonpath={.PATH}=VALUE
    #[arg(long = "for", value_name = "STATE", value_parser = goal)]
    goal: Goal,
    /// Waits for all resources of the type
    #[arg(long, conflicts_with = "selector")]
    all: bool,
    /// Waits for the resources of the type with these labels, such as app=shop,env!=prod
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = crate::resources::selector::selector)]
    selector: Option<LabelSelector>,
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

/// Goal of a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Goal {
    Created,
    Deleted,
    State(WantedState),
}

fn goal(text: &str) -> Result<Goal, StateError> {
    match text {
        "create" => Ok(Goal::Created),
        "delete" => Ok(Goal::Deleted),
        text => state::state(text).map(Goal::State),
    }
}

impl Wait {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        let ids = self.chosen(&session, &catalog).await?;
        match &self.goal {
            Goal::Created => {
                for id in &ids {
                    wait::until_there(&session, id).await?;
                    ui::line(format!("{} exists", placed_title(id)))?;
                }
            }
            Goal::Deleted => {
                for id in &ids {
                    if let Some(stored) = ids::read_if_there(&session, id).await? {
                        wait::until_gone(&session, &id_of(&stored)).await?;
                    }
                    ui::line(format!("{} is gone", placed_title(id)))?;
                }
            }
            Goal::State(state) => {
                let mut resources = Vec::new();
                for id in &ids {
                    resources.push(ids::read(&session, id).await?);
                }
                wait::until(&session, &catalog, &resources, state).await?;
                for id in &ids {
                    ui::line(format!("{} has {state}", placed_title(id)))?;
                }
            }
        }
        Ok(Exit::Done)
    }

    /// Ids of the named or selected resources.
    async fn chosen(&self, session: &Session, catalog: &Catalog) -> Result<Vec<pb::Id>, CliError> {
        let wanted = ids::selections(&self.what, catalog, &self.tenancy)?;
        let is_named = wanted.iter().any(|wanted| !wanted.names.is_empty());
        if is_named == (self.all || self.selector.is_some()) {
            let fault = if is_named { "give either names, or --all and --selector" } else { "no resource is named" };
            return Err(CliError::usage(fault).remedy("give names after the type, --selector or --all"));
        }
        let mut chosen = Vec::new();
        for wanted in &wanted {
            if is_named {
                chosen.extend(wanted.names.iter().map(|n| ids::id(&wanted.ty, n, &self.tenancy, session, catalog)));
                continue;
            }
            let units = self.tenancy.units_for(&wanted.ty, session, catalog);
            let query = QueryArgs::by(self.selector.clone(), "");
            let found = query.search(session, &wanted.ty, units, "", &self.connect.ui()).await?;
            chosen.extend(found.resources.iter().map(id_of));
        }
        match chosen.is_empty() {
            true => Err(CliError::failed("no resource was found to wait for").remedy("`mortise get` lists resources")),
            false => Ok(chosen),
        }
    }
}
