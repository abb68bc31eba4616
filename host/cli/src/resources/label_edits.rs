//! Labels and annotations of resources, set and removed one by one.
//!
//! A key with another value stays unless `--overwrite` is given. That is a condition of the update, so that a
//! concurrent write is not overwritten either. Keys that are not named are left alone.

use std::collections::{BTreeMap, BTreeSet};

use clap::{ArgAction, Args};
use mortise_resource::{
    data::{UpdateRequest, update_request::Cas},
    goten::Meta,
    pb,
};
use prost_types::FieldMask;

use super::{
    catalog::Catalog,
    ids::{self, Selection, id_of, placed_title},
    search::QueryArgs,
    tenancy::Tenancy,
};
use crate::{CliError, Connect, Exit, Session, Ui, output::ui};

/// Kind of pairs in meta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LabelEdits {
    Labels,
    Annotations,
}

/// Arguments of `label` and `annotate`.
#[derive(Debug, Args)]
pub(crate) struct LabelEditArgs {
    /// TYPE NAME…, TYPE/NAME…, or TYPE with --selector, --filter or --all; and KEY=VALUE… to set, KEY-… to remove
    #[arg(value_name = "TYPE [NAME] KEY=VALUE|KEY-", required = true)]
    words: Vec<String>,
    /// Changes keys that have another value
    #[arg(long)]
    overwrite: bool,
    /// Shows the existing pairs, one KEY=VALUE a line
    #[arg(long)]
    list: bool,
    /// Chooses all resources of the type
    #[arg(long)]
    all: bool,
    /// Chooses resources by labels: key=value, key!=value, key in (a,b), key notin (a,b), key, !key
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = crate::resources::selector::selector)]
    selector: Option<mortise_resource::goten::LabelSelector>,
    /// Chooses resources by a filter
    #[arg(long, value_name = "FILTER", default_value = "", hide_default_value = true)]
    filter: String,
    /// Shows what would change, and changes nothing
    #[arg(long, conflicts_with = "list", value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "server",
          default_value = "none", hide_default_value = true, value_parser = crate::args::dry_run, action = ArgAction::Set)]
    dry_run: bool,
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

/// Changes by key: a value to set, `None` to remove.
type Changes = BTreeMap<String, Option<String>>;

impl LabelEdits {
    fn of(self, resource: &pb::Resource) -> BTreeMap<String, String> {
        let meta = resource.meta.as_deref().cloned().unwrap_or_default();
        match self {
            Self::Labels => meta.labels,
            Self::Annotations => meta.annotations,
        }
    }

    fn meta(self, pairs: BTreeMap<String, String>) -> Meta {
        match self {
            Self::Labels => Meta { labels: pairs, ..Meta::default() },
            Self::Annotations => Meta { annotations: pairs, ..Meta::default() },
        }
    }

    fn path(self, key: &str) -> String {
        let field = match self {
            Self::Labels => "labels",
            Self::Annotations => "annotations",
        };
        format!("meta.{field}[{key:?}]")
    }

    fn mask<'k>(self, keys: impl Iterator<Item = &'k String>) -> FieldMask {
        FieldMask { paths: keys.map(|key| self.path(key)).collect() }
    }
}

impl LabelEditArgs {
    /// Shows or changes the pairs of each chosen resource.
    pub(crate) async fn run(self, pairs: LabelEdits) -> Result<Exit, CliError> {
        let (changes, words) = changes(&self.words)?;
        if self.list != changes.is_empty() {
            let fault = if self.list { "give either --list or changes" } else { "nothing to change" };
            return Err(CliError::usage(fault).remedy("KEY=VALUE sets, KEY- removes, --list shows"));
        }
        let ui = self.connect.ui();
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        let mut exit = Exit::Done;
        for resource in self.chosen(&words, &session, &catalog, &ui).await? {
            if self.list {
                ui::line(placed_title(&id_of(&resource)))?;
                for (key, value) in pairs.of(&resource) {
                    ui::line(format!("  {key}={value}"))?;
                }
                continue;
            }
            // A fault of one resource does not keep the others from being changed.
            match self.change(pairs, &changes, &resource, &session).await {
                Ok(what) => ui::line(format!("{} {what}", placed_title(&id_of(&resource))))?,
                Err(error) if error.exit == Exit::Failed => {
                    ui.note(&format!("mortise: {error}"));
                    exit = Exit::Failed;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(exit)
    }

    /// Reads the chosen resources.
    async fn chosen(
        &self,
        words: &[String],
        session: &Session,
        catalog: &Catalog,
        ui: &Ui,
    ) -> Result<Vec<pb::Resource>, CliError> {
        let wanted = ids::selections(words, catalog, &self.tenancy)?;
        let is_named = wanted.iter().any(|wanted| !wanted.names.is_empty());
        let chooses = self.all || self.selector.is_some() || !self.filter.is_empty();
        if is_named == chooses {
            let fault = if is_named { "give names, or --all, --selector and --filter" } else { "no resource is named" };
            return Err(CliError::usage(fault).remedy("give TYPE NAME, or TYPE with --selector, --filter or --all"));
        }
        let mut chosen = Vec::new();
        for Selection { ty, names } in &wanted {
            for name in names {
                chosen.push(ids::read(session, &ids::id(ty, name, &self.tenancy, session, catalog)).await?);
            }
            if chooses {
                let query = QueryArgs::by(self.selector.clone(), &self.filter);
                let units = self.tenancy.units_for(ty, session, catalog);
                chosen.extend(query.search(session, ty, units, "", ui).await?.resources);
            }
        }
        Ok(chosen)
    }

    /// Changes one resource, and returns a word for the result.
    async fn change(
        &self,
        pairs: LabelEdits,
        changes: &Changes,
        resource: &pb::Resource,
        session: &Session,
    ) -> Result<&'static str, CliError> {
        let (title, before) = (placed_title(&id_of(resource)), pairs.of(resource));
        let other = |(key, value): &(&String, &Option<String>)| {
            value.is_some() && before.get(*key).is_some_and(|before| Some(before) != value.as_ref())
        };
        if let Some((key, _)) = changes.iter().find(other).filter(|_| !self.overwrite) {
            let value = before.get(key).map(String::as_str).unwrap_or_default();
            return Err(CliError::failed(format!("{title}: {key} is {value:?} already"))
                .remedy("--overwrite replaces the value"));
        }
        if changes.iter().all(|(key, value)| before.get(key) == value.as_ref()) {
            return Ok("unchanged");
        }
        if self.dry_run {
            return Ok("updated (dry run)");
        }
        let set = changes.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?))).collect();
        let meta = |pairs_of: BTreeMap<String, String>| Some(Box::new(pairs.meta(pairs_of)));
        // Only this incarnation of the name was chosen.
        let id = resource.id.clone();
        let cas = (!self.overwrite).then(|| Cas {
            conditional_state: Some(pb::Resource { id: id.clone(), meta: meta(before), ..pb::Resource::default() }),
            field_mask: Some(pairs.mask(changes.keys())),
        });
        let request = UpdateRequest {
            resource: Some(pb::Resource { id, meta: meta(set), ..pb::Resource::default() }),
            update_mask: Some(pairs.mask(changes.keys())),
            cas,
            ..UpdateRequest::default()
        };
        session.call(&title, async { session.queries().update(request).await }).await?;
        Ok("updated")
    }
}

/// Splits the words into changes and others.
fn changes(words: &[String]) -> Result<(Changes, Vec<String>), CliError> {
    let (mut changes, mut left) = (Changes::new(), Vec::new());
    let mut keys = BTreeSet::new();
    for word in words {
        let (key, value) = match (word.split_once('='), word.strip_suffix('-')) {
            (Some((key, value)), _) => (key, Some(value.to_owned())),
            (None, Some(key)) => (key, None),
            (None, None) => {
                left.push(word.clone());
                continue;
            }
        };
        if key.is_empty() {
            return Err(CliError::usage(format!("{word:?} has no key")).remedy("KEY=VALUE sets, KEY- removes"));
        }
        if !keys.insert(key) {
            return Err(CliError::usage(format!("{key} occurs twice")).remedy("set or remove a key once"));
        }
        changes.insert(key.to_owned(), value);
    }
    Ok((changes, left))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn words_are_names_and_changes() {
        let (changes, left) = changes(&words(&["artist", "korn", "a=b=c", "x.org/old-", "empty="])).unwrap();
        assert_eq!(left, ["artist", "korn"]);
        let wanted = [("a", Some("b=c")), ("empty", Some("")), ("x.org/old", None)];
        assert_eq!(changes, wanted.map(|(key, value)| (key.to_owned(), value.map(str::to_owned))).into());
        for bad in [["=x", "a=b"], ["-", "a=b"], ["a=b", "a-"]] {
            assert!(super::changes(&words(&bad)).is_err(), "{bad:?}");
        }
        assert_eq!(LabelEdits::Labels.path("x.org/old"), r#"meta.labels["x.org/old"]"#);
    }
}
