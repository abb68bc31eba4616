//! `mortise regions accept` and `adopt`: decisions of operators about a peer that is stopped, and a region that is
//! lost.

use clap::Args;
use mortise_resource::{
    data::{AcceptPeerRequest, AdoptAction, AdoptRequest, AdoptResponse},
    types::{describe, gvk},
};

use super::reason;
use crate::{
    CliError, Connect, Exit, Table,
    output::json::{self, AnswerFormat},
    output::ui,
};

pub(super) const ACCEPT_EXAMPLES: &str = "\
mortise regions accept us-1
mortise regions accept us-1 --store 01KA1T6Q3M0Z8R5V2X4Y6B7C9D";
pub(super) const ADOPT_EXAMPLES: &str = "\
mortise regions adopt --from us-1 --dry-run
mortise regions adopt --from us-1
mortise regions adopt --from us-1 --remove --yes";

/// Arguments of `regions accept`.
#[derive(Debug, Args)]
pub(super) struct Accept {
    /// The stopped peer
    #[arg(value_name = "PEER")]
    peer: String,
    /// Accepts only the store with this id
    #[arg(long, value_name = "ID")]
    store: Option<String>,
    #[command(flatten)]
    connect: Connect,
}

/// Arguments of `regions adopt`.
#[derive(Debug, Args)]
pub(super) struct Adopt {
    /// The lost region
    #[arg(long, value_name = "REGION")]
    from: String,
    /// Removes the replicas instead; resources here that they own stay
    #[arg(long)]
    remove: bool,
    /// Shows the effect, and changes nothing
    #[arg(long)]
    dry_run: bool,
    /// Does not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: AnswerFormat,
    #[command(flatten)]
    connect: Connect,
}

impl Accept {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let session = self.connect.session().await?;
        let request = AcceptPeerRequest { peer: self.peer.clone(), store_id: self.store.unwrap_or_default() };
        let answer = session.call(self.peer.clone(), async { session.regions().accept(request).await }).await?;
        let store = if answer.store_id.is_empty() { "without an id" } else { &answer.store_id };
        ui::line(match answer.was_stopped {
            true => format!("{} accepted, with the store {store}", self.peer),
            false => format!("{} is not stopped; nothing to accept", self.peer),
        })?;
        Ok(Exit::Done)
    }
}

impl Adopt {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let session = self.connect.session().await?;
        let ui = self.connect.ui();
        let action = if self.remove { AdoptAction::Remove } else { AdoptAction::Adopt };
        let ask = async |dry_run: bool| {
            let request = AdoptRequest { from: self.from.clone(), action: action.into(), dry_run };
            session.call(self.from.clone(), async { session.regions().adopt(request.clone()).await }).await
        };
        let mut answer = ask(true).await?;
        let number: u64 = answer.types.iter().map(|adopted| adopted.done).sum();
        if !self.dry_run && number > 0 {
            let what = if self.remove { "Remove" } else { "Adopt" };
            if !self.yes && !ui::confirm(&format!("{what} {number} replicas from {}?", self.from), "--yes")? {
                return Ok(Exit::Failed);
            }
            answer = ask(false).await?;
        }
        if self.output == AnswerFormat::Json {
            ui::print(json::message("mortise.v1.AdoptResponse", &answer)?)?;
        } else {
            ui::print(self.table(&answer, &ui))?;
        }
        Ok(if answer.refused.is_empty() { Exit::Done } else { Exit::Failed })
    }

    fn table(&self, answer: &AdoptResponse, ui: &crate::Ui) -> String {
        if answer.types.is_empty() {
            return format!("no replicas from {}\n", self.from);
        }
        let done = match (self.remove, self.dry_run) {
            (false, false) => "adopted",
            (false, true) => "would be adopted",
            (true, false) => "removed",
            (true, true) => "would be removed",
        };
        let mut types = Table::new(["type", done, "stay"]);
        for adopted in &answer.types {
            let kind = adopted.r#type.as_ref().map(gvk).unwrap_or_default();
            types.row(vec![kind.into(), adopted.done.to_string().into(), adopted.refused.to_string().into()]);
        }
        let mut out = types.render(ui);
        if !answer.refused.is_empty() {
            out.push('\n');
            let mut table = Table::new(["stays", "why", "detail"]);
            for refused in &answer.refused {
                let what = refused.id.as_ref().map(describe).unwrap_or_default();
                table.row(vec![what.into(), reason(refused.reason()).into(), refused.detail.as_str().into()]);
            }
            out.push_str(&table.render(ui));
        }
        out
    }
}
