//! Owners before what they own, inside one set of resources.

use std::collections::HashMap;

use mortise_resource::pb;
use mortise_text::Document;

use crate::{
    CliError,
    resources::ids::{Key, id_of, title},
};

/// The documents by levels: those of the first have no owner in the set, those of each further one have theirs in the level
/// before. Within a level the order is that of the text.
pub(crate) fn levels(documents: Vec<Document>) -> Result<Vec<Vec<Document>>, CliError> {
    let position: HashMap<Key, usize> =
        documents.iter().enumerate().map(|(at, document)| (Key::of(&id_of(&document.resource)), at)).collect();
    let owner = |at: usize| -> Option<usize> {
        let owner: &pb::Id = documents.get(at)?.resource.owner.as_ref()?;
        position.get(&Key::of(owner)).copied()
    };
    let mut level: Vec<Option<usize>> = vec![None; documents.len()];
    for start in 0..documents.len() {
        // Up to an ancestor whose level is known, and down again.
        let mut path = Vec::new();
        let mut at = start;
        let mut base = loop {
            if let Some(known) = level.get(at).copied().flatten() {
                break known + 1;
            }
            if path.contains(&at) {
                return Err(cycle(&documents, &path, at));
            }
            path.push(at);
            match owner(at) {
                Some(above) => at = above,
                None => break 0,
            }
        };
        for at in path.into_iter().rev() {
            if let Some(slot) = level.get_mut(at) {
                *slot = Some(base);
                base += 1;
            }
        }
    }
    let mut levels: Vec<Vec<Document>> = Vec::new();
    for (document, level) in documents.into_iter().zip(level) {
        let level = level.unwrap_or(0);
        if levels.len() <= level {
            levels.resize_with(level + 1, Vec::new);
        }
        if let Some(level) = levels.get_mut(level) {
            level.push(document);
        }
    }
    Ok(levels)
}

fn cycle(documents: &[Document], path: &[usize], back: usize) -> CliError {
    let mut error = CliError::usage("these own each other in a circle; nothing was done");
    let begin = path.iter().position(|at| *at == back).unwrap_or(0);
    for at in path.get(begin..).unwrap_or_default() {
        if let Some(document) = documents.get(*at) {
            let owner = document.resource.owner.as_ref().map(title).unwrap_or_default();
            let name = title(&id_of(&document.resource));
            error = error.detail(format!("{}: {name} is owned by {owner}", document.locate("owner")));
        }
    }
    error
}
