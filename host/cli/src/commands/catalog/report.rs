//! `mortise catalog report`: writes the result of a workload's health check as its status.

use clap::{ArgGroup, Args};
use mortise_resource::{
    grpc::catalog::{Workload, health_check::Check},
    pb::{self, condition::State},
};
use prost::Message as _;

use crate::{
    CliError, Connect, Exit, Tenancy,
    output::ui,
    resources::{
        catalog::Catalog,
        ids::{self, placed_title},
        places::PlacedName,
    },
};

pub(super) const EXAMPLES: &str = "\
mortise catalog report web-1 alive --passing
mortise catalog report web-1 alive --failing --message 'out of memory'";

/// Arguments of `catalog report`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("result").required(true).args(["passing", "failing"]))]
pub(super) struct Report {
    /// The workload
    workload: String,
    /// The name of one of its ttl checks
    check: String,
    /// Reports the workload as healthy, for as long as the check's ttl
    #[arg(long)]
    passing: bool,
    /// Reports the workload as unhealthy
    #[arg(long)]
    failing: bool,
    /// The reason, in a sentence
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    message: String,
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

impl Report {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        let workload_type = catalog.find_type("catalog.v1.Workload")?;
        let stored = ids::read(
            &session,
            &ids::id(&workload_type, &PlacedName::plain(&self.workload), &self.tenancy, &session, &catalog),
        )
        .await?;
        let id = ids::id_of(&stored);
        let title = placed_title(&id);
        let data = stored.data.map(|data| data.value).unwrap_or_default();
        let workload = Workload::decode(data.as_slice())
            .map_err(|error| CliError::failed(format!("{title}: its data cannot be decoded")).caused_by(error))?;
        let checks: Vec<_> = workload
            .checks
            .iter()
            .filter(|check| matches!(check.check, Some(Check::Ttl(_))))
            .map(|matche| &matche.name)
            .collect();
        if !checks.contains(&&self.check) {
            let known: Vec<_> = checks.iter().map(|name| name.as_str()).collect();
            let known =
                if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
            return Err(CliError::usage(format!("{title} has no ttl check {:?}; {known}", self.check)));
        }
        let state = if self.passing { State::True } else { State::False };
        let condition = pb::Condition {
            r#type: "Passing".into(),
            state: state.into(),
            reason: "Reported".into(),
            message: self.message,
            resource: None,
        };
        let status =
            pb::Status { observed_generation: stored.generation, conditions: vec![condition], updated_at: None };
        let request = pb::WriteStatusRequest {
            id: Some(id),
            version: String::new(),
            key: format!("catalog.v1/check-{}", self.check),
            status: Some(status),
        };
        session.call(&title, async { session.resources().write_status(request).await }).await?;
        ui::line(format!("{title}: {} is {}", self.check, if self.passing { "passing" } else { "failing" }))?;
        Ok(Exit::Done)
    }
}
