//! A page: head, description, example, and the schema's attributes in groups, with a section for each object.

use std::fmt::Write as _;

use super::{MARK, hcl, type_name};
use crate::{
    schema::{Attribute, Content, Function},
    value::Type,
};

/// A page under construction.
pub(super) struct Page {
    text: String,
}

impl Page {
    /// Begins a page. `subject` is the name in configurations, and `kind` the kind of the page.
    pub(super) fn new(subject: &str, kind: &str, provider: &str, group: &str, description: &str) -> Self {
        let description = plain(description);
        let summary = description.lines().next().filter(|line| !line.is_empty()).unwrap_or(subject);
        let title =
            if kind == "Provider" { format!("{subject} Provider") } else { format!("{subject} {kind} - {provider}") };
        let shown = if kind == "Provider" { format!("{subject} Provider") } else { format!("{subject} ({kind})") };
        let text = format!(
            "---\n{MARK}\npage_title: {}\nsubcategory: {}\ndescription: |-\n  {summary}\n---\n\n# {shown}\n\n{description}\n",
            hcl(&title),
            hcl(group)
        );
        Self { text }
    }

    /// Adds an example in Terraform's language.
    pub(super) fn example(mut self, example: &str) -> Self {
        self.code("## Example Usage", "terraform", example);
        self
    }

    /// Adds the attributes, and those of the block `data`.
    pub(super) fn schema(mut self, attributes: &[Attribute], data: Option<&[Attribute]>) -> Self {
        self.text.push_str("\n## Schema\n");
        let mut objects = Vec::new();
        let block = data.map(|attributes| {
            objects.push(("nestedblock--data".to_owned(), "data".to_owned(), attributes));
            "- `data` (Block, Min: 1, Max: 1) The fields. (see [below for nested schema](#nestedblock--data))\n"
        });
        self.groups("###", attributes, block, &mut objects, "");
        // A section may add the sections of its objects.
        let mut next = 0;
        while let Some((anchor, path, attributes)) = objects.get(next).cloned() {
            next += 1;
            _ = write!(self.text, "\n<a id=\"{anchor}\"></a>\n### Nested Schema for `{path}`\n");
            self.groups("####", attributes, None, &mut objects, &path);
        }
        self
    }

    /// Adds the ways of an import.
    pub(super) fn import(mut self, name: &str, id: &str) -> Self {
        let block = format!("import {{\n  to = {name}.example\n  id = {}\n}}\n", hcl(id));
        self.code("## Import", "terraform", &block);
        self.code("Or with a command:", "shell", &format!("terraform import {name}.example {id}\n"));
        self
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    fn code(&mut self, head: &str, language: &str, code: &str) {
        _ = write!(self.text, "\n{head}\n\n```{language}\n{code}```\n");
    }

    /// Writes attributes in groups: those that the user has to set, may set, and cannot set.
    fn groups<'a>(
        &mut self,
        level: &str,
        attributes: &'a [Attribute],
        block: Option<&str>,
        objects: &mut Vec<(String, String, &'a [Attribute])>,
        path: &str,
    ) {
        type Belongs = fn(&Attribute) -> bool;
        let groups: [(&str, Belongs); 3] = [
            ("Required", |attribute| attribute.flags.required),
            ("Optional", |attribute| attribute.flags.optional),
            ("Read-Only", |attribute| !attribute.flags.required && !attribute.flags.optional),
        ];
        for (head, belongs) in groups {
            let block = block.filter(|_| head == "Required");
            let mut members: Vec<_> = attributes.iter().filter(|attribute| belongs(attribute)).collect();
            if members.is_empty() && block.is_none() {
                continue;
            }
            members.sort_by(|one, other| one.name.cmp(&other.name));
            _ = write!(self.text, "\n{level} {head}\n\n");
            for attribute in members {
                self.line(attribute, objects, path);
            }
            self.text.push_str(block.unwrap_or_default());
        }
    }

    fn line<'a>(&mut self, attribute: &'a Attribute, objects: &mut Vec<(String, String, &'a [Attribute])>, path: &str) {
        let Attribute { name, content, flags, description, is_write_only } = attribute;
        let (kind, inner) = match content {
            Content::Value(value_type) => (type_name(value_type), None),
            Content::Object(inner) => ("Attributes".to_owned(), Some(inner)),
            Content::List(inner) => ("Attributes List".to_owned(), Some(inner)),
            Content::Set(inner) => ("Attributes Set".to_owned(), Some(inner)),
            Content::Map(inner) => ("Attributes Map".to_owned(), Some(inner)),
        };
        let marks =
            [(flags.sensitive, ", Sensitive"), (*is_write_only, ", Write-only"), (flags.deprecated, ", Deprecated")];
        let marks: String = marks.iter().filter(|(is_marked, _)| *is_marked).map(|(_, mark)| *mark).collect();
        let description = plain(description).replace('\n', " ");
        let replaces = if flags.replace { " Another value replaces the resource." } else { "" };
        let mut line = format!("- `{name}` ({kind}{marks}) {description}{replaces}").trim_end().to_owned();
        if let Some(inner) = inner.filter(|inner| !inner.is_empty()) {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let anchor = format!("nestedatt--{}", path.replace('.', "--"));
            _ = write!(line, " (see [below for nested schema](#{anchor}))");
            objects.push((anchor, path, inner));
        }
        self.text.push_str(&line);
        self.text.push('\n');
    }
}

/// The page of a function.
pub(super) fn function(name: &str, function: &Function, provider: &str) -> String {
    let proto = function.to_proto();
    let text = if proto.description.is_empty() { &proto.summary } else { &proto.description };
    let mut page = Page::new(name, "Function", provider, &function.plugin, text);
    let named = |name: &str, value_type: &Type| format!("{name} {}", type_name(value_type).to_lowercase());
    let mut parameters: Vec<_> =
        function.parameters().map(|(parameter, value_type)| named(&parameter.name, value_type)).collect();
    parameters.extend(
        function.variadic().map(|(parameter, value_type)| format!("{}...", named(&parameter.name, value_type))),
    );
    let returns = type_name(&function.returns).to_lowercase();
    let signature = format!("provider::{provider}::{name}({}) {returns}\n", parameters.join(", "));
    page.code("## Signature", "text", &signature);
    page.text.push_str("\n## Arguments\n\n");
    for (number, (parameter, value_type)) in function.parameters().chain(function.variadic()).enumerate() {
        let description = plain(&parameter.description).replace('\n', " ");
        let line = format!("{}. `{}` ({}) {description}", number + 1, parameter.name, type_name(value_type));
        _ = writeln!(page.text, "{}", line.trim_end());
    }
    page.finish()
}

/// A plugin's text without control characters.
fn plain(text: &str) -> String {
    text.trim().chars().filter(|letter| *letter == '\n' || !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of plugins reach terminals and web pages.
    #[test]
    fn texts_of_plugins_lose_control_characters_and_stay_in_their_lines() {
        let page = Page::new("x", "Resource", "mortise", "g\"roup", "\x1b[31mFirst\r\nsecond\x07").finish();
        assert!(page.contains("subcategory: \"g\\\"roup\"\ndescription: |-\n  [31mFirst\n---\n"), "{page}");
        assert!(page.ends_with("# x (Resource)\n\n[31mFirst\nsecond\n"), "{page}");
    }

    #[test]
    fn attributes_are_in_groups_and_objects_have_sections() {
        let leaf = |name: &str, required: bool, optional: bool| Attribute {
            name: name.to_owned(),
            content: Content::Value(Type::String),
            flags: crate::mapping::Flags { required, optional, ..Default::default() },
            description: "Words\nof a plugin.".to_owned(),
            is_write_only: false,
        };
        let inner = Attribute { content: Content::List(vec![leaf("in", false, false)]), ..leaf("list", false, true) };
        let outer = Attribute { content: Content::Object(vec![inner]), ..leaf("object", false, true) };
        let page = Page { text: String::new() }.schema(&[leaf("b", true, false), leaf("a", true, false), outer], None);
        let expected = "
## Schema

### Required

- `a` (String) Words of a plugin.
- `b` (String) Words of a plugin.

### Optional

- `object` (Attributes) Words of a plugin. (see [below for nested schema](#nestedatt--object))

<a id=\"nestedatt--object\"></a>
### Nested Schema for `object`

#### Optional

- `list` (Attributes List) Words of a plugin. (see [below for nested schema](#nestedatt--object--list))

<a id=\"nestedatt--object--list\"></a>
### Nested Schema for `object.list`

#### Read-Only

- `in` (String) Words of a plugin.
";
        assert_eq!(page.finish(), expected);
    }
}
