//! Selection of resources by their labels.

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
