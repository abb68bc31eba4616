//! Resources as tables, YAML, JSON and names.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use mortise_resource::{FieldPath, PathStep, Scope, pb};
use mortise_text::{Indent, Types, WholeMeta};

use crate::{
    Cell, CliError, Style, Table,
    resources::catalog::Catalog,
    resources::ids::{id_of, made_at, title},
    resources::places::address,
    resources::readiness::{conditions, readiness, references},
    resources::template::CustomColumns,
};

/// Columns of a table of resources.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowsOptions {
    /// Whether there are further columns.
    pub(crate) wide: bool,
    /// Whether partition and namespace are columns.
    pub(crate) everywhere: bool,
    /// Whether types precede names, since there are several.
    pub(crate) typed: bool,
    /// Whether the first column is an event.
    pub(crate) events: bool,
    /// Paths that replace the columns of the type.
    pub(crate) fields: Vec<String>,
    /// Columns that replace all others.
    pub(crate) custom: Option<Arc<CustomColumns>>,
    /// Labels that are columns.
    pub(crate) labels: Vec<String>,
    /// Adds a column with all labels.
    pub(crate) all_labels: bool,
    /// Leaves out the headings.
    pub(crate) headless: bool,
}

impl RowsOptions {
    /// Returns true for a table with columns of readiness and references. Lines of a watch keep their columns, which
    /// programs read.
    fn has_state(&self) -> bool {
        self.fields.is_empty() && !self.events
    }
}

/// A table of one type's resources.
pub(crate) struct Rows<'c> {
    catalog: &'c Catalog,
    scope: Option<Scope>,
    options: RowsOptions,
    /// Paths of the columns between the name and the last ones.
    paths: Vec<String>,
    pub(crate) table: Table,
}

impl<'c> Rows<'c> {
    /// An empty table.
    pub(crate) fn new(catalog: &'c Catalog, ty: &pb::Type, mut options: RowsOptions) -> Self {
        let info = catalog.info(ty).cloned().unwrap_or_default();
        let scope = catalog.scope(ty);
        options.everywhere |= options.wide;
        let mut headings: Vec<&str> = Vec::new();
        if options.events {
            headings.push("event");
        }
        if let Some(custom) = options.custom.clone() {
            headings.extend(custom.headings());
            let table = Table::new(headings).headless(options.headless);
            return Self { catalog, scope, options, paths: Vec::new(), table };
        }
        if options.everywhere && scope != Some(Scope::Cluster) {
            headings.push("partition");
        }
        if options.everywhere && matches!(scope, Some(Scope::Namespace | Scope::Undefined)) {
            headings.push("namespace");
        }
        headings.push("name");
        let paths = match options.fields.is_empty() {
            true => {
                headings.extend(info.printer_columns.iter().map(|column| column.name.as_str()));
                info.printer_columns.iter().map(|column| column.path.clone()).collect()
            }
            false => {
                headings.extend(options.fields.iter().map(String::as_str));
                options.fields.clone()
            }
        };
        let mut optional = Vec::new();
        if options.wide {
            headings.extend(["conditions", "owner", "version", "generation", "uid"]);
        } else if options.has_state() {
            optional.extend([headings.len(), headings.len() + 1]);
            headings.extend(["ready", "refers to"]);
        }
        if options.fields.is_empty() {
            headings.push("age");
        }
        headings.extend(options.labels.iter().map(|key| key.rsplit('/').next().unwrap_or(key)));
        if options.all_labels {
            headings.push("labels");
        }
        let table = Table::new(headings).headless(options.headless).with_optional(optional);
        Self { catalog, scope, options, paths, table }
    }

    /// Adds a resource; `event` is its first column in a table of events.
    pub(crate) fn add(&mut self, resource: &pb::Resource, event: Option<&str>) {
        let mut row: Vec<Cell> = event.map(Cell::from).into_iter().collect();
        row.extend(self.cells(resource));
        self.table.row(row);
    }

    /// Position of the age among the cells of a resource.
    pub(crate) fn age_position(&self) -> Option<usize> {
        if self.options.custom.is_some() || !self.options.fields.is_empty() {
            return None;
        }
        let behind = self.options.labels.len() + usize::from(self.options.all_labels) + 1;
        self.table.headings().len().checked_sub(behind + usize::from(self.options.events))
    }

    /// The cells of a resource, without an event.
    pub(crate) fn cells(&self, resource: &pb::Resource) -> Vec<Cell> {
        let id = id_of(resource);
        let tenancy = id.tenancy.clone().unwrap_or_default();
        if let Some(custom) = &self.options.custom {
            return custom.cells(&json(resource, self.catalog)).into_iter().map(Cell::from).collect();
        }
        let mut row: Vec<Cell> = Vec::new();
        if self.options.everywhere && self.scope != Some(Scope::Cluster) {
            row.push(tenancy.partition.into());
        }
        if self.options.everywhere && matches!(self.scope, Some(Scope::Namespace | Scope::Undefined)) {
            row.push(tenancy.namespace.into());
        }
        row.push(Cell::styled(Style::Name, if self.options.typed { title(&id) } else { id.name.clone() }));
        if !self.paths.is_empty() {
            let json = json(resource, self.catalog);
            row.extend(self.paths.iter().map(|path| Cell::from(field(&json, path))));
        }
        if self.options.wide {
            row.push(conditions(resource));
            row.push(resource.owner.as_ref().map(title).unwrap_or_default().into());
            row.push(resource.version.as_str().into());
            row.push(resource.generation.as_str().into());
            row.push(id.uid.as_str().into());
        } else if self.options.has_state() {
            row.push(readiness(resource));
            row.push(references(resource).into());
        }
        if self.options.fields.is_empty() {
            row.push(age(&id.uid).into());
        }
        let none = Default::default();
        let labels = resource.meta.as_ref().map_or(&none, |meta| &meta.labels);
        row.extend(self.options.labels.iter().map(|key| Cell::from(labels.get(key).map_or("", String::as_str))));
        if self.options.all_labels {
            let all: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            row.push(all.join(",").into());
        }
        row
    }
}

/// The printed form of a resource, with all of its meta.
pub(crate) fn json(resource: &pb::Resource, catalog: &Catalog) -> serde_json::Value {
    let text = mortise_text::to_json(resource, &WholeMeta(catalog), Indent::Compact);
    serde_json::from_str(&text).unwrap_or_default()
}

/// Returns the value at a path such as `data.group_members["drums"]`, as text; empty for a missing value.
pub(crate) fn field(json: &serde_json::Value, path: &str) -> String {
    let mut value = json;
    for step in FieldPath::parse(path).0 {
        let next = match (step, value) {
            (PathStep::Index(index), serde_json::Value::Array(items)) => items.get(index as usize),
            (PathStep::Field(name), serde_json::Value::Array(items)) => {
                name.parse::<usize>().ok().and_then(|n| items.get(n))
            }
            (PathStep::Field(name) | PathStep::Key(name), serde_json::Value::Object(map)) => {
                map.get(&name).or_else(|| map.get(&camel(&name)))
            }
            _ => None,
        };
        match next {
            Some(next) => value = next,
            None => return String::new(),
        }
    }
    flat(value)
}

/// Renders a value on one line.
fn flat(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(items) => items.iter().map(flat).collect::<Vec<_>>().join(","),
        serde_json::Value::Object(map) => {
            map.iter().map(|(key, value)| format!("{key}={}", flat(value))).collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    }
}

/// Converts `group_members` to its form in JSON, `groupMembers`.
fn camel(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut upper = false;
    for letter in name.chars() {
        match letter {
            '_' | '-' => upper = true,
            letter if upper => {
                out.push(letter.to_ascii_uppercase());
                upper = false;
            }
            letter => out.push(letter),
        }
    }
    out
}

/// Age of a resource, from the ULID in its uid.
fn age(uid: &str) -> String {
    made_at(uid).map(|ms| ago(UNIX_EPOCH + Duration::from_millis(ms))).unwrap_or_default()
}

/// Time since `time`, in the two largest units.
pub(crate) fn ago(time: SystemTime) -> String {
    let seconds = SystemTime::now().duration_since(time).unwrap_or_default().as_secs();
    span(seconds)
}

fn span(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) if minutes < 10 && !seconds.is_multiple_of(60) => format!("{minutes}m{}s", seconds % 60),
        (0, 0, minutes) => format!("{minutes}m"),
        (0, hours, minutes) if hours < 10 && minutes > 0 => format!("{hours}h{minutes}m"),
        (0, hours, _) => format!("{hours}h"),
        (days, hours, _) if days < 10 && hours > 0 => format!("{days}d{hours}h"),
        (days, ..) => format!("{days}d"),
    }
}

/// Rendering of resources as text.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'c> {
    pub(crate) catalog: &'c Catalog,
    /// Whether the server's own data in meta is included.
    pub(crate) whole_meta: bool,
    /// Writes the place of each name, also that of the command.
    pub(crate) placed: bool,
}

impl Shown<'_> {
    /// Renders the name, with the place if a command without flags would look elsewhere.
    pub(crate) fn name(&self, resource: &pb::Resource) -> String {
        address(&id_of(resource), self.placed, self.catalog)
    }

    /// Renders YAML.
    pub(crate) fn yaml(&self, resource: &pb::Resource) -> Result<String, CliError> {
        self.whole(|types| mortise_text::to_yaml(resource, types))
    }

    /// Renders JSON, for people.
    pub(crate) fn json(&self, resource: &pb::Resource) -> Result<String, CliError> {
        self.whole(|types| mortise_text::to_json(resource, types, Indent::Spaces(2)) + "\n")
    }

    /// Renders JSON on one line.
    pub(crate) fn compact(&self, resource: &pb::Resource) -> Result<String, CliError> {
        self.whole(|types| mortise_text::to_json(resource, types, Indent::Compact))
    }

    /// Renders many as JSON, for people, with further texts.
    pub(crate) fn list(&self, resources: &[pb::Resource], more: &[(&str, &str)]) -> Result<String, CliError> {
        self.whole(|types| mortise_text::list_to_json(resources, more, types, Indent::Spaces(2)))
    }

    /// Renders many as JSON on one line, with further texts.
    pub(crate) fn compact_list(&self, resources: &[pb::Resource], more: &[(&str, &str)]) -> Result<String, CliError> {
        self.whole(|types| mortise_text::list_to_json(resources, more, types, Indent::Compact))
    }

    /// Renders a text; fails if a descriptor for it could not be fetched.
    fn whole(&self, text: impl FnOnce(&dyn Types) -> String) -> Result<String, CliError> {
        let text = match self.whole_meta {
            true => text(&WholeMeta(self.catalog)),
            false => text(self.catalog),
        };
        self.catalog.fault()?;
        Ok(text)
    }
}

/// Renders a resource as YAML.
pub(crate) fn yaml(resource: &pb::Resource, catalog: &Catalog) -> Result<String, CliError> {
    Shown { catalog, whole_meta: false, placed: false }.yaml(resource)
}

/// Renders a resource as JSON, for people.
pub(crate) fn json_text(resource: &pb::Resource, catalog: &Catalog) -> Result<String, CliError> {
    Shown { catalog, whole_meta: false, placed: false }.json(resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_paths_into_the_resource() {
        let json = serde_json::json!({
            "id": {"name": "korn", "type": {"groupVersion": "v2"}},
            "data": {"genre": "JAZZ", "groupMembers": {"drums": "Ray"}, "tracks": ["a", "b"], "live": true, "n": 3, "dotted": {"a.b": "yes"}}
        });
        for (path, value) in [
            ("data.genre", "JAZZ"),
            ("data.group_members[\"drums\"]", "Ray"),
            ("data.group_members", "drums=Ray"),
            ("data.tracks", "a,b"),
            ("data.tracks[1]", "b"),
            ("data.live", "true"),
            ("data.n", "3"),
            ("id.type.group_version", "v2"),
            ("data.dotted.a\\.b", "yes"),
            ("data.group-members.drums", "Ray"),
            ("data.nope", ""),
            ("data.genre.deeper", ""),
            (
                "",
                "data=dotted=a.b=yes,genre=JAZZ,groupMembers=drums=Ray,live=true,n=3,tracks=a,b,id=name=korn,type=groupVersion=v2",
            ),
        ] {
            assert_eq!(field(&json, path), value, "{path}");
        }
    }

    #[test]
    fn spans_have_two_units_at_most() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (61, "1m1s"),
            (599, "9m59s"),
            (3_540, "59m"),
            (3_660, "1h1m"),
            (36_060, "10h"),
            (90_000, "1d1h"),
            (864_000, "10d"),
        ] {
            assert_eq!(span(seconds), text);
        }
    }
}
