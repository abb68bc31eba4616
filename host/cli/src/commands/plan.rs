//! `mortise plan`: the result of apply in advance, as the types' plugins predict it.

use clap::Args;
use mortise_resource::{
    data::{PlanRequest, PlanResponse, plan_response::Action},
    pb,
};
use mortise_text::Indent;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    CliError, Connect, Exit, Style, Tenancy,
    apply::{
        files::{self, Files},
        plan::bare,
        report,
    },
    error::diagnostic_line,
    output::json::AnswerFormat,
    output::ui,
    resources::{
        catalog::Catalog,
        ids::{id_of, placed_title},
    },
};

pub(super) const EXAMPLES: &str = "\
mortise plan -f route.yaml
mortise plan -f shop/ -o json";

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub struct PlanCommand {
    #[command(flatten)]
    files: Files,
    /// Plans each resource as a new one, even if it is stored
    #[arg(long)]
    create: bool,
    /// Output format; json prints one object for each resource
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: AnswerFormat,
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

impl PlanCommand {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let ui = self.connect.ui();
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        let mut different = false;
        for document in files::read(&self.files, &catalog, &self.tenancy, &session).await? {
            let request = PlanRequest { resource: Some(document.resource.clone()), create: self.create };
            let title = placed_title(&id_of(&document.resource));
            let planned = session.call(&title, session.changes().plan(request)).await;
            let planned = planned.map_err(|e| files::at(&document, e))?;
            different |= planned.action() != Action::None;
            if self.output == AnswerFormat::Json {
                ui::line(for_programs(&planned, &catalog)?)?;
                continue;
            }
            report::warnings(&document, &planned.warnings, &ui);
            let (style, word) = match planned.action() {
                Action::Create => (Style::Good, "would be created"),
                Action::Update => (Style::Plain, "would be updated"),
                Action::Replace => (Style::Bad, "would have to be deleted and created again"),
                Action::None => (Style::Dim, "would stay as it is"),
                Action::Unspecified => (Style::Bad, "has a plan that this program does not know"),
            };
            let why = match planned.replace.as_slice() {
                [] => String::new(),
                paths => format!(", because of {}", paths.join(", ")),
            };
            ui::line(ui.paint(style, &format!("{title} {word}{why}")))?;
            let (prior, planned, predicted) = (&planned.prior, &planned.resource, &planned.predicted);
            let change = diff(prior.as_ref(), planned.as_ref(), ("stored", "wanted"), &catalog)?;
            ui::print(report::coloured(&change, &ui))?;
            if let Some(predicted) = predicted {
                ui::line(format!("{title}, as its controllers are expected to change it:"))?;
                let change = diff(planned.as_ref(), Some(predicted), ("written", "expected"), &catalog)?;
                ui::print(report::coloured(&change, &ui))?;
            }
        }
        Ok(if different { Exit::Different } else { Exit::Done })
    }
}

/// A plan as JSON, on one line.
#[derive(Serialize)]
struct PlanJson<'p> {
    action: &'static str,
    resource: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prior: Option<Box<RawValue>>,
    replace: &'p [String],
    warnings: Vec<String>,
}

fn for_programs(planned: &PlanResponse, catalog: &Catalog) -> Result<String, CliError> {
    let failed = |e: serde_json::Error| CliError::failed("cannot write the plan as JSON").caused_by(e);
    let json = |resource: &Option<pb::Resource>| {
        let text = resource.as_ref().map(|resource| mortise_text::to_json(resource, catalog, Indent::Compact));
        text.map(RawValue::from_string).transpose().map_err(failed)
    };
    let shown = PlanJson {
        action: match planned.action() {
            Action::Create => "create",
            Action::Update => "update",
            Action::Replace => "replace",
            Action::None => "none",
            Action::Unspecified => "unknown",
        },
        resource: json(&planned.resource)?,
        predicted: json(&planned.predicted)?,
        prior: json(&planned.prior)?,
        replace: &planned.replace,
        warnings: planned.warnings.iter().map(diagnostic_line).collect(),
    };
    catalog.fault()?;
    serde_json::to_string(&shown).map_err(failed)
}

/// Renders a change as a unified diff; the words name its two sides.
fn diff(
    before: Option<&pb::Resource>,
    after: Option<&pb::Resource>,
    words: (&str, &str),
    catalog: &Catalog,
) -> Result<String, CliError> {
    let name = after.map(|after| placed_title(&id_of(after))).unwrap_or_default();
    let names = (format!("{name} ({})", words.0), format!("{name} ({})", words.1));
    let (before, after) = (before.map(bare), after.map(bare));
    let diff = mortise_text::diff::diff(before.as_ref(), after.as_ref(), (&names.0, &names.1), catalog);
    catalog.fault()?;
    Ok(diff)
}
