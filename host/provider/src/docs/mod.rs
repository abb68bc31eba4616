//! Pages about a server's types and functions, in the form of Terraform's registry: Markdown files in the folder `docs`
//! of a provider. The text comes from the comments in the descriptors of plugins, and examples from the fields.

mod example;
mod page;

use std::collections::BTreeMap;

use crate::{
    schema::{
        Action, FunctionSet, ProviderSchema, TOKEN_DESCRIPTION, list_attributes, provider_attributes, token_attributes,
    },
    value::Type,
};
use example::{block, data_block, hcl};
use page::Page;

/// Line of every page's head, by which a later run knows a page as its own.
pub const MARK: &str = "# Made by `mortise provider docs`.";

/// Folders of pages beside the index.
pub const FOLDERS: [&str; 6] =
    ["actions", "data-sources", "ephemeral-resources", "functions", "list-resources", "resources"];

/// Returns the pages by their paths in the folder `docs`. `name` is the provider's name in configurations, and `source`
/// its address.
#[must_use]
pub fn pages(schema: &ProviderSchema, functions: &FunctionSet, name: &str, source: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::from([("index.md".to_owned(), index(name, source))]);
    let prefix = format!("{}_", name.replace('-', "_"));
    let file =
        |folder: &str, subject: &str| format!("{folder}/{}.md", subject.strip_prefix(&prefix).unwrap_or(subject));
    for resource in schema.resources() {
        let own = &resource.name;
        let page = |kind: &str| Page::new(own, kind, name, &resource.kind.group, resource.description());
        let example = block(&format!("resource \"{own}\" \"example\""), &data_block(&resource.data));
        let has = |unit: &&&str| resource.attributes().iter().any(|attribute| attribute.name == ***unit);
        let place = ["partition", "namespace"].iter().filter(has).map(|_| "default/");
        let id = format!("{}example", place.collect::<String>());
        let made = page("Resource").example(&example).schema(resource.attributes(), Some(resource.data_attributes()));
        all.insert(file("resources", own), made.import(own, &id).finish());
        for (kind, keyword, folder) in
            [("Data Source", "data", "data-sources"), ("Ephemeral Resource", "ephemeral", "ephemeral-resources")]
        {
            let example = block(&format!("{keyword} \"{own}\" \"example\""), "  name = \"example\"\n");
            let made = page(kind).example(&example).schema(&resource.data_source_attributes(), None);
            all.insert(file(folder, own), made.finish());
        }
    }
    for resource in schema.resources() {
        let own = &resource.name;
        let page = Page::new(own, "List Resource", name, &resource.kind.group, resource.description());
        let body = format!("  provider = {name}\n\n  config {{\n    name_prefix = \"example\"\n  }}\n");
        let example = block(&format!("list \"{own}\" \"example\""), &body);
        all.insert(
            file("list-resources", own),
            page.example(&example).schema(&resource.query_attributes(), None).finish(),
        );
    }
    for (own, action) in schema.actions() {
        let config = match action {
            Action::Backup => "file = \"/var/backups/example.tar.gz\"",
            Action::Plugin(_) => "plugin = \"example\"",
        };
        let body = format!("  config {{\n    {config}\n  }}\n");
        let example = block(&format!("action \"{own}\" \"example\""), &body);
        let page = Page::new(&own, "Action", name, "", action.description()).example(&example);
        all.insert(file("actions", &own), page.schema(&action.attributes(), None).finish());
    }
    let token = schema.token_name();
    let example = block(&format!("ephemeral \"{token}\" \"example\""), "  policies = [\"example\"]\n");
    let page = Page::new(&token, "Ephemeral Resource", name, "", TOKEN_DESCRIPTION).example(&example);
    all.insert(file("ephemeral-resources", &token), page.schema(&token_attributes(), None).finish());
    let list = schema.list_name();
    let types = schema.resources().next().map_or("demo.v2.Artist".to_owned(), |first| {
        format!("{}.{}.{}", first.kind.group, first.kind.group_version, first.kind.kind)
    });
    let example = block(&format!("data \"{list}\" \"example\""), &format!("  type = \"{types}\"\n"));
    let page = Page::new(&list, "Data Source", name, "", "Resources of a type.").example(&example);
    all.insert(file("data-sources", &list), page.schema(&list_attributes(), None).finish());
    for (own, function) in functions.iter() {
        all.insert(file("functions", own), page::function(own, function, name));
    }
    all
}

/// The page of the provider itself.
fn index(name: &str, source: &str) -> String {
    let example = format!(
        "terraform {{\n  required_providers {{\n    {name} = {{\n      source = {}\n    }}\n  }}\n}}\n\nprovider {} {{\n  \
         address = \"https://mortise.example.org:8502\"\n}}\n",
        hcl(source),
        hcl(name)
    );
    Page::new(name, "Provider", name, "", "Resources of a Mortise server.")
        .example(&example)
        .schema(&provider_attributes(), None)
        .finish()
}

/// The name of a type for people, as in Terraform's registry.
fn type_name(value_type: &Type) -> String {
    match value_type {
        Type::String => "String".to_owned(),
        Type::Number => "Number".to_owned(),
        Type::Bool => "Boolean".to_owned(),
        Type::Dynamic => "Dynamic".to_owned(),
        Type::List(element) => format!("List of {}", type_name(element)),
        Type::Set(element) => format!("Set of {}", type_name(element)),
        Type::Map(element) => format!("Map of {}", type_name(element)),
        Type::Object(_) => "Object".to_owned(),
        Type::Tuple(_) => "Tuple".to_owned(),
    }
}
