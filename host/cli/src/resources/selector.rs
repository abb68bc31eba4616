//! Selection of resources by their labels and fields, and orders, as flags have them.

use mortise_query::{QueryError, Selector, label_selector};
use mortise_resource::{goten::LabelSelector, pb};

use crate::CliError;

/// Parses a selector, for clap: `env=prod,tier!=web,zone in (a,b),!old`.
pub(crate) fn selector(text: &str) -> Result<LabelSelector, QueryError> {
    let selector = label_selector(text)?;
    match selector == LabelSelector::default() {
        true => Err(QueryError::Selector("it is empty; give key=value, or leave it out".to_owned())),
        false => Ok(selector),
    }
}

/// Whether a selector matches a resource as it stands in a file.
///
/// # Errors
/// The server would reject the selector.
pub(crate) fn selects(selector: &LabelSelector, resource: &pb::Resource) -> Result<bool, CliError> {
    let selector = Selector::new(selector).map_err(|fault| CliError::usage("--selector").caused_by(fault))?;
    let none = Default::default();
    Ok(selector.matches(resource.meta.as_ref().map_or(&none, |meta| &meta.labels)))
}

/// Fault in a selector of fields.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not FIELD=VALUE or FIELD!=VALUE; --filter takes other conditions, such as 'data.year > 1999'")]
pub(crate) struct FieldSelectorError(String);

/// Translates kubectl's selector of fields to a filter, for clap.
pub(crate) fn field_selector(text: &str) -> Result<String, FieldSelectorError> {
    let condition = |one: &str| {
        let wrong = || FieldSelectorError(one.to_owned());
        let (field, rest) = one.split_once(['=', '!']).ok_or_else(wrong)?;
        let is_negated = one.as_bytes().get(field.len()) == Some(&b'!');
        let value = if is_negated { rest.strip_prefix('=').ok_or_else(wrong)? } else { rest.trim_start_matches('=') };
        let field = path(field.trim());
        if field.is_empty() || field.contains(char::is_whitespace) {
            return Err(wrong());
        }
        let is_bare = !field.starts_with("id.") && (value.parse::<f64>().is_ok() || matches!(value, "true" | "false"));
        let value = if is_bare { value.to_owned() } else { format!("{value:?}") };
        Ok(format!("{field} {} {value}", if is_negated { "!=" } else { "=" }))
    };
    let all = text.split(',').filter(|one| !one.trim().is_empty()).map(condition);
    all.collect::<Result<Vec<_>, _>>().map(|all| all.join(" AND "))
}

/// Translates an order in kubectl's form, such as `.data.name` or `{.metadata.name}`, for clap.
pub(crate) fn order(text: &str) -> Result<String, std::convert::Infallible> {
    let paths = mortise_resource::split_paths(text).map(|one| path(one.trim()));
    Ok(paths.collect::<Vec<_>>().join(","))
}

/// A path without kubectl's dot and braces; `.metadata.name` and the like are parts of the id.
fn path(text: &str) -> String {
    let bare = text.trim_start_matches(['{', '$']).replace('}', "");
    let is_kubectl = bare.starts_with('.');
    let bare = bare.trim_start_matches('.');
    let (field, rest) = bare.split_once(' ').map_or((bare, String::new()), |(field, rest)| (field, format!(" {rest}")));
    let own = match field {
        "metadata.name" => "id.name",
        "metadata.namespace" => "id.tenancy.namespace",
        "metadata.creationTimestamp" if is_kubectl => "meta.create_time",
        other => other,
    };
    format!("{own}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_orders_may_have_the_form_of_kubectl() {
        for (given, wanted) in [
            ("metadata.name=korn", Some("id.name = \"korn\"")),
            (
                "metadata.namespace!=blue,data.genre==GENRE_JAZZ",
                Some("id.tenancy.namespace != \"blue\" AND data.genre = \"GENRE_JAZZ\""),
            ),
            (".data.year=1999,data.live=true", Some("data.year = 1999 AND data.live = true")),
            ("", Some("")),
            ("data.name", None),
            ("=x", None),
            ("data.name!x", None),
            ("a b=c", None),
        ] {
            assert_eq!(field_selector(given).ok().as_deref(), wanted, "{given}");
        }
        for (given, wanted) in [
            (".data.name", "data.name"),
            ("{.metadata.name}", "id.name"),
            (".metadata.creationTimestamp", "meta.create_time"),
            ("data.genre desc,id.name", "data.genre desc,id.name"),
        ] {
            assert_eq!(order(given).as_deref(), Ok(wanted));
        }
    }
}
