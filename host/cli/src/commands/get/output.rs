//! Output of `mortise get`.

use mortise_resource::pb;
use serde_json::{Value, json};

use super::Get;
use crate::{
    CliError, Ui,
    output::{paint, ui},
    resources::{
        catalog::Catalog,
        ids::{Selection, type_name},
        output::Output,
        places::PlacedName,
        search::Found,
        show,
    },
};

impl Get {
    /// Prints the resources found, by type.
    pub(super) fn show(
        &self,
        found: &[(&pb::Type, Found)],
        wanted: &[Selection],
        complete: bool,
        catalog: &Catalog,
        ui: &Ui,
    ) -> Result<(), CliError> {
        let resources = || found.iter().flat_map(|(_, found)| &found.resources);
        let shown = self.shown(catalog);
        let is_single = wanted.iter().map(|wanted| wanted.names.len()).sum::<usize>() == 1;
        match &self.output {
            Output::Name => {
                for resource in resources() {
                    ui::line(shown.name(resource))?;
                }
            }
            Output::Yaml => {
                for (position, resource) in resources().enumerate() {
                    let text = shown.yaml(resource)?;
                    let text = paint::yaml(&text, ui);
                    ui::print(if position == 0 { text.into_owned() } else { format!("---\n{text}") })?;
                }
            }
            Output::Json => match resources().next() {
                Some(resource) if is_single => ui::print(paint::json(&shown.json(resource)?, ui))?,
                None if is_single => {}
                _ => {
                    let all: Vec<_> = resources().cloned().collect();
                    let tokens: Vec<_> = found.iter().flat_map(|(_, found)| tokens(found)).collect();
                    ui::line(paint::json(&shown.list(&all, &tokens)?, ui))?;
                }
            },
            Output::Template(template) => {
                let mut all: Vec<Value> = resources().map(|resource| show::json(resource, catalog)).collect();
                catalog.fault()?;
                match is_single {
                    true => {
                        ui::print(all.pop().map(|value| template.print(&value, ui)).transpose()?.unwrap_or_default())?
                    }
                    false => ui::print(template.print(&json!({ "resources": all }), ui)?)?,
                }
            }
            Output::Table | Output::Wide | Output::Columns(_) => {
                let placed = wanted.iter().flat_map(|wanted| &wanted.names).any(PlacedName::is_placed);
                let mut first = true;
                for (ty, found) in found.iter().filter(|(_, found)| !found.resources.is_empty()) {
                    let mut rows = self.rows(catalog, ty, wanted.len() > 1, false, placed);
                    found.resources.iter().for_each(|resource| rows.add(resource, None));
                    catalog.fault()?;
                    ui::print(format!("{}{}", if first { "" } else { "\n" }, rows.table.render(ui)))?;
                    first = false;
                }
                if first && complete {
                    let types: Vec<_> = found.iter().map(|(ty, _)| type_name(ty)).collect();
                    match self.what.first().map(String::as_str) {
                        Some(super::ALL) => ui.note("no resources found"),
                        _ => ui.note(&format!("no {} found", types.join(" and no "))),
                    }
                }
            }
        }
        if !matches!(self.output, Output::Json) {
            for (key, token) in found.iter().flat_map(|(_, found)| tokens(found)) {
                let what = if key == AFTER { "the next page" } else { "the previous page" };
                ui.note(&format!("{what}: --page-token {token}"));
            }
        }
        Ok(())
    }

    /// Prints a watched page, once for each change.
    pub(super) fn show_page(&self, ty: &pb::Type, page: &Found, catalog: &Catalog, ui: &Ui) -> Result<(), CliError> {
        let shown = self.shown(catalog);
        match &self.output {
            Output::Name => {
                for resource in &page.resources {
                    ui::line(shown.name(resource))?;
                }
                ui::line("")
            }
            Output::Yaml => {
                for resource in &page.resources {
                    ui::print(format!("---\n{}", shown.yaml(resource)?))?;
                }
                ui::line("...")
            }
            Output::Json => ui::line(shown.compact_list(&page.resources, &tokens(page))?),
            Output::Template(template) => {
                let all: Vec<Value> = page.resources.iter().map(|resource| show::json(resource, catalog)).collect();
                catalog.fault()?;
                ui::line(template.print(&json!({ "resources": all }), ui)?)
            }
            Output::Table | Output::Wide | Output::Columns(_) => {
                let mut rows = self.rows(catalog, ty, false, false, false);
                page.resources.iter().for_each(|resource| rows.add(resource, None));
                catalog.fault()?;
                ui::print(format!("{}\n", rows.table.render(ui)))
            }
        }
    }
}

/// Names of the page tokens in JSON.
const BEFORE: &str = "prevPageToken";
const AFTER: &str = "nextPageToken";

/// Tokens of the neighbouring pages.
fn tokens(found: &Found) -> Vec<(&'static str, &str)> {
    [(BEFORE, found.before.as_str()), (AFTER, found.after.as_str())]
        .into_iter()
        .filter(|(_, token)| !token.is_empty())
        .collect()
}
