//! Reads the one resource of a file given to `mortise resource …`.

use mortise_resource::pb;
use mortise_text::{Format, Source};

use super::error::{ConsulError, wording};
use crate::{apply::files, resources::catalog::Catalog};

/// Reads a file, or standard input for `-`.
pub(super) fn load(file: &str) -> Result<String, ConsulError> {
    let path = std::path::Path::new(file);
    if file != "-" {
        let opened = std::fs::File::open(path);
        if let Err(e) = opened {
            let why = match e.kind() {
                std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
                std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
                _ => e.to_string(),
            };
            return Err(format!("Failed to load data: Failed to read file: open {file}: {why}").into());
        }
    }
    files::text(path)
        .map_err(|error| ConsulError::Wrong(format!("Failed to load data: Failed to read file: {}", error.message)))
}

/// Parses the text of a file, which must hold exactly one resource.
pub(super) fn decode(file: &str, text: &str, catalog: &Catalog) -> Result<pb::Resource, ConsulError> {
    let format = Format::of_consul_text(text);
    let parsed = mortise_text::parse(Source { name: file, text }, Some(format), catalog);
    catalog.fault().map_err(wording)?;
    let mut documents =
        parsed.map_err(|faults| ConsulError::Wrong(format!("Failed to decode resource from input file: {faults}")))?;
    match (documents.pop(), documents.pop()) {
        (Some(document), None) => Ok(document.resource),
        _ => Err("Failed to decode resource from input file: it must hold exactly one resource".to_owned().into()),
    }
}
