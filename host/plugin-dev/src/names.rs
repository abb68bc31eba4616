//! Rules for the name of a new plugin, and the names of its files, modules and messages.
//!
//! One name is given to a plugin, a crate, and, unless a type is given, a protobuf package and a message; so the rules
//! of all these apply, and errors name them.

use heck::{ToSnakeCase as _, ToUpperCamelCase as _};
use mortise_cli::CliError;
use mortise_resource::types::Gvk;

use crate::{fault, lockfile};

/// Words that cannot name a Rust module.
const KEYWORDS: [&str; 52] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true",
    "try", "type", "typeof", "union", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Names that the generated code uses itself.
const TAKEN: [&str; 26] = [
    "Accept",
    "Condition",
    "Context",
    "Controller",
    "Default",
    "Diagnostics",
    "Err",
    "Error",
    "Kind",
    "None",
    "Ok",
    "Option",
    "Outcome",
    "Plugin",
    "Reconciler",
    "Request",
    "ResourceType",
    "Result",
    "Scope",
    "Self",
    "Some",
    "Status",
    "String",
    "Typed",
    "Vec",
    "World",
];

/// Crates that come with the compiler, and names that cargo keeps for itself.
const RESERVED: [&str; 9] = ["alloc", "build", "core", "deps", "examples", "proc-macro", "std", "test", "incremental"];

/// Names of a new plugin and its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    /// Name of the plugin and of its crate.
    pub(crate) plugin: String,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

impl Names {
    /// Checks a plugin's name, and a type's if one is given; otherwise the type is named after the plugin.
    ///
    /// # Errors
    /// The fault of a name, with a better one.
    pub(crate) fn new(plugin: &str, given: Option<&str>) -> Result<Self, CliError> {
        check_plugin(plugin)?;
        let Gvk { group, group_version: version, kind } = match given {
            None => Gvk::new(plugin.replace('-', "_"), "v1", plugin.to_upper_camel_case()),
            Some(text) => text.parse().map_err(|_| {
                fault::usage(
                    format!("{text:?} is not a type: a type has three parts, GROUP.VERSION.Kind"),
                    format!("`mortise plugin new {plugin} --type GROUP.VERSION.Kind`, such as shop.v1.Order"),
                )
            })?,
        };
        let names = Self { plugin: plugin.to_owned(), group, version, kind };
        names.check_type(given.is_some())?;
        Ok(names)
    }

    fn check_type(&self, given: bool) -> Result<(), CliError> {
        let Self { plugin, group, version, kind } = self;
        let refuse = |what: String| {
            let what = if given { what } else { format!("the type would be called {}: {what}", self.type_name()) };
            let next = format!("`mortise plugin new {plugin} --type GROUP.VERSION.Kind`, such as shop.v1.Order");
            Err(fault::usage(what, next))
        };
        let lower = |c: char| c.is_ascii_lowercase();
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if group.len() < 2 || !group.starts_with(lower) || !group.chars().all(word) {
            return refuse(format!(
                "the group {group:?} must be two or more lower-case letters, digits and underscores, a letter first"
            ));
        }
        if KEYWORDS.contains(&group.as_str()) {
            return refuse(format!("the group {group:?} is a keyword of Rust, and the generated module has its name"));
        }
        let middle = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let numbered = version
            .strip_prefix('v')
            .is_some_and(|rest| rest.ends_with(|c: char| c.is_ascii_digit()) && rest.chars().all(middle));
        if !numbered {
            return refuse(format!("the version {version:?} must be like v1 or v2beta1"));
        }
        let letters = |c: char| c.is_ascii_alphanumeric();
        if kind.len() < 2 || !kind.starts_with(|c: char| c.is_ascii_uppercase()) || !kind.chars().all(letters) {
            return refuse(format!("the kind {kind:?} must be two or more letters and digits, a capital first"));
        }
        if TAKEN.contains(&self.message().as_str()) {
            return refuse(format!("the kind {kind:?} is a name that the generated code uses itself"));
        }
        Ok(())
    }

    /// `group.version.Kind`.
    pub(crate) fn type_name(&self) -> String {
        format!("{}.{}.{}", self.group, self.version, self.kind)
    }

    /// Name of the message in generated code.
    pub(crate) fn message(&self) -> String {
        self.kind.to_upper_camel_case()
    }

    /// The file of the message, below `proto/`.
    pub(crate) fn proto(&self) -> String {
        format!("{}/{}/{}.proto", self.group, self.version, self.kind.to_snake_case())
    }

    /// Name of the controller: that of its type, by the rules for controllers.
    pub(crate) fn controller(&self) -> String {
        self.kind.to_snake_case().replace('_', "-")
    }
}

fn check_plugin(name: &str) -> Result<(), CliError> {
    let refuse = |what: String, next: String| Err(fault::usage(what, next));
    let suggestion = suggest(name);
    let retry = format!("`mortise plugin new {suggestion}`");
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let letter = |c: char| c.is_ascii_lowercase();
    if name.is_empty() || name.len() > 63 || !name.starts_with(letter) || !name.chars().all(word) || name.ends_with('-')
    {
        let what = format!(
            "{name:?} cannot be a plugin's name: 1 to 63 lower-case letters, digits and dashes, a letter first and no \
             dash last"
        );
        return refuse(what, retry);
    }
    if KEYWORDS.contains(&name) || RESERVED.contains(&name) {
        let what = format!("{name:?} cannot be a crate's name: Rust or cargo reserves it");
        return refuse(what, format!("`mortise plugin new my-{name}`"));
    }
    if lockfile::is_dependency(name) {
        let what = format!("{name:?} cannot be this crate's name: a crate of that name is among its dependencies");
        return refuse(what, format!("`mortise plugin new my-{name}`"));
    }
    Ok(())
}

/// Suggests a valid name that looks like the given one.
fn suggest(name: &str) -> String {
    let plain = name.to_snake_case().replace('_', "-");
    let kept: String = plain.chars().filter(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-').collect();
    let trimmed = kept.trim_matches(|c: char| c == '-').trim_start_matches(|c: char| !c.is_ascii_lowercase());
    let cut: String = trimmed.chars().take(63).collect();
    if cut.is_empty() { "my-plugin".into() } else { cut.trim_end_matches('-').to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_called_after_the_plugin() {
        let names = Names::new("guest-book", None).unwrap();
        assert_eq!(names.type_name(), "guest_book.v1.GuestBook");
        assert_eq!(
            (names.proto().as_str(), names.controller().as_str()),
            ("guest_book/v1/guest_book.proto", "guest-book")
        );
        let names = Names::new("edge", Some("edge.v2beta1.HTTPRoute")).unwrap();
        assert_eq!(names.type_name(), "edge.v2beta1.HTTPRoute");
        assert_eq!((names.message().as_str(), names.proto().as_str()), ("HttpRoute", "edge/v2beta1/http_route.proto"));
    }

    #[test]
    fn illegal_names_come_with_a_legal_one() {
        for (bad, better) in [
            ("GuestBook", "guest-book"),
            ("", "my-plugin"),
            ("9lives", "lives"),
            ("a_b", "a-b"),
            ("über", "ber"),
            ("trailing-", "trailing"),
            ("../etc", "etc"),
        ] {
            let refused = Names::new(bad, None).unwrap_err();
            assert_eq!(refused.remedy.as_deref().unwrap(), format!("`mortise plugin new {better}`"), "{bad}");
        }
        for bad in ["type", "test", "core", "prost", "mortise-plugin", "serde"] {
            let refused = Names::new(bad, None);
            assert!(refused.is_err_and(|e| e.remedy.unwrap() == format!("`mortise plugin new my-{bad}`")), "{bad}");
        }
    }

    #[test]
    fn illegal_types_say_which_part() {
        for (bad, says) in [
            ("shop", "three parts"),
            ("a.b.c.d", "three parts"),
            ("s.v1.Order", "group"),
            ("Shop.v1.Order", "group"),
            ("type.v1.Order", "keyword"),
            ("shop.1.Order", "version"),
            ("shop.v1beta.Order", "version"),
            ("shop.v1.order", "kind"),
            ("shop.v1.Or_der", "kind"),
            ("shop.v1.Typed", "uses itself"),
        ] {
            let refused = Names::new("shop", Some(bad)).unwrap_err();
            assert!(refused.message.contains(says), "{bad}: {refused}");
            assert!(refused.remedy.as_deref().unwrap().contains("--type GROUP.VERSION.Kind"), "{refused}");
        }
        let refused = Names::new("a", None).unwrap_err();
        assert!(refused.message.contains("would be called a.v1.A"), "{refused}");
    }
}
