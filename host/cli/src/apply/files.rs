//! Resources from files, directories, URLs and standard input.
//!
//! In a directory, files with the endings .yaml, .yml, .json, .jsonl, .ndjson and .hcl are read, in the order of their
//! names. Everything is read and checked before the first write.

use std::{
    collections::HashMap,
    io::Read as _,
    path::{Path, PathBuf},
};

use clap::Args;
use mortise_resource::{pb, types::gvk};
use mortise_text::{Document, Format, Source};

use super::url;
use crate::{
    CliError, Exit, Session, Tenancy,
    resources::catalog::Catalog,
    resources::ids::{Key, Selection, id_of, placed_title},
    resources::places::PlacedName,
};

/// Largest input in bytes, plus one: the text crate rejects input of this size with its own message.
const MAX_BYTES: u64 = (64 << 20) + 1;

/// Name of a text that was typed as arguments.
const TYPED: &str = "arguments";

/// Most faults shown, over all files.
const MAX_FAULTS: usize = 50;

/// Files to read.
#[derive(Debug, Clone, Args)]
pub(crate) struct Files {
    /// A file, a directory, a URL (https://…, or http://…, which is not verified), or - for standard input; can be
    /// given several times
    #[arg(short, long = "filename", value_name = "FILE|DIR|URL|-", required = true, num_args = 1..)]
    pub(crate) filename: Vec<PathBuf>,
    /// Also reads the directories within a directory
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// Format of the files, in place of the one by their names: yaml, json or hcl
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    pub(crate) format: Option<Format>,
}

/// Fault of a format's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use yaml, json or hcl")]
pub(crate) struct FormatError;

pub(crate) fn format(text: &str) -> Result<Format, FormatError> {
    match text {
        "yaml" => Ok(Format::Yaml),
        "json" => Ok(Format::Json),
        "hcl" => Ok(Format::Hcl),
        _ => Err(FormatError),
    }
}

/// A text to parse.
enum Input {
    /// A file, which is read when its turn comes.
    File(PathBuf),
    /// The name and the text of a fetched file.
    Fetched(String, String),
}

/// Reads all files. Resources without a partition or namespace are placed in those of the flags and the context; a
/// resource that occurs twice is an error.
pub(crate) async fn read(
    files: &Files,
    catalog: &Catalog,
    tenancy: &Tenancy,
    session: &Session,
) -> Result<Vec<Document>, CliError> {
    let mut names = Vec::new();
    for name in &files.filename {
        find(name, files.recursive, &mut names)?;
    }
    let mut inputs = Vec::new();
    for name in names {
        inputs.push(match url::is_url(&name) {
            true => {
                let (name, bytes) = url::fetch(&name, MAX_BYTES, session.timeout()).await?;
                let text = utf8(&name, bytes)?;
                Input::Fetched(name, text)
            }
            false => Input::File(name),
        });
    }
    let texts = inputs.into_iter().map(|input| match input {
        Input::File(name) => Ok((name.to_string_lossy().into_owned(), text(&name)?)),
        Input::Fetched(name, text) => Ok((name, text)),
    });
    parsed(texts, files.format, catalog, tenancy, session)
}

/// Reads the names of the resources in all files, for commands that show what is stored.
pub(crate) async fn selections(
    files: &Files,
    catalog: &Catalog,
    tenancy: &Tenancy,
    session: &Session,
) -> Result<Vec<Selection>, CliError> {
    let mut all: Vec<Selection> = Vec::new();
    for document in read(files, catalog, tenancy, session).await? {
        let id = id_of(&document.resource);
        let (ty, name) = (id.r#type.clone().unwrap_or_default(), PlacedName::of(&id));
        match all.iter_mut().find(|selection| selection.ty == ty) {
            Some(selection) => selection.names.push(name),
            None => all.push(Selection { ty, names: vec![name] }),
        }
    }
    Ok(all)
}

/// Makes the document of a resource that was typed: its id, and its data as JSON.
pub(crate) fn typed(
    id: pb::Id,
    data: &str,
    catalog: &Catalog,
    tenancy: &Tenancy,
    session: &Session,
) -> Result<Vec<Document>, CliError> {
    let wrong = |error: serde_json::Error| CliError::usage("--data is not JSON").caused_by(error);
    let data: serde_json::Value = serde_json::from_str(data).map_err(wrong)?;
    let ty = id.r#type.as_ref().map(gvk).unwrap_or_default();
    let units = id.tenancy.unwrap_or_default();
    let mut document = serde_json::json!({ "type": ty, "name": id.name, "data": data });
    for (unit, name) in [("partition", units.partition), ("namespace", units.namespace)] {
        if let (false, Some(fields)) = (name.is_empty(), document.as_object_mut()) {
            fields.insert(unit.to_owned(), name.into());
        }
    }
    let text = Ok((TYPED.to_owned(), document.to_string()));
    parsed([text], Some(Format::Json), catalog, tenancy, session)
}

/// Parses texts, each with its name, as [`read`] does.
fn parsed(
    texts: impl IntoIterator<Item = Result<(String, String), CliError>>,
    format: Option<Format>,
    catalog: &Catalog,
    tenancy: &Tenancy,
    session: &Session,
) -> Result<Vec<Document>, CliError> {
    let mut documents = Vec::new();
    let mut faults = Vec::new();
    for text in texts {
        let (name, text) = text?;
        match mortise_text::parse(Source { name: &name, text: &text }, format, catalog) {
            Ok(read) => documents.extend(read),
            Err(wrong) => faults.extend(wrong.to_string().lines().map(str::to_owned)),
        }
        catalog.fault()?;
    }
    if !faults.is_empty() {
        let count = faults.len();
        let more = count.saturating_sub(MAX_FAULTS);
        faults.truncate(MAX_FAULTS);
        if more > 0 {
            faults.push(format!("and {more} more"));
        }
        let what = if count == 1 { "the input has a fault" } else { "the input has faults" };
        return Err(CliError { details: faults, ..CliError::new(Exit::Usage, format!("{what}; nothing was done")) });
    }
    if documents.is_empty() {
        return Err(CliError::usage("the input holds no resources"));
    }
    let units = tenancy.units(session);
    for document in &mut documents {
        document.place_in(&or_default(&units.partition), &or_default(&units.namespace), catalog);
    }
    once_each(&documents)?;
    Ok(documents)
}

/// Replaces an empty unit by `default`, as the server does, so that two spellings of one name compare equal.
fn or_default(unit: &str) -> String {
    if unit.is_empty() { "default".to_owned() } else { unit.to_owned() }
}

/// Rejects two documents about one resource.
fn once_each(documents: &[Document]) -> Result<(), CliError> {
    let mut seen: HashMap<Key, &Document> = HashMap::with_capacity(documents.len());
    for document in documents {
        let id = id_of(&document.resource);
        if let Some(first) = seen.insert(Key::of(&id), document) {
            return Err(CliError::usage(format!("{} occurs twice; nothing was done", placed_title(&id)))
                .detail(format!("{}: first", first.place))
                .detail(format!("{}: again", document.place)));
        }
    }
    Ok(())
}

fn find(name: &Path, recursive: bool, found: &mut Vec<PathBuf>) -> Result<(), CliError> {
    if name == Path::new("-") || !name.is_dir() {
        found.push(name.to_owned());
        return Ok(());
    }
    let before = found.len();
    within(name, recursive, found)?;
    if found.len() == before {
        return Err(CliError::usage(format!("{} holds no .yaml, .json or .hcl file", name.display()))
            .remedy("-R also reads the directories within it"));
    }
    Ok(())
}

fn within(dir: &Path, recursive: bool, found: &mut Vec<PathBuf>) -> Result<(), CliError> {
    let wrong = |e| CliError::file("cannot read the directory", dir, e);
    let entries = std::fs::read_dir(dir).map_err(wrong)?;
    let mut paths = entries.map(|entry| entry.map(|e| e.path())).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    paths.sort();
    for path in paths {
        // Symbolic links to directories could lead back here.
        let is_dir = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        if is_dir && recursive {
            within(&path, recursive, found)?;
        } else if path.is_file() && Format::of_name(&path.to_string_lossy()).is_some() {
            found.push(path);
        }
    }
    Ok(())
}

/// The whole of a file, or of standard input.
pub(crate) fn text(name: &Path) -> Result<String, CliError> {
    let mut bytes = Vec::new();
    let read = if name == Path::new("-") {
        std::io::stdin().lock().take(MAX_BYTES).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(name).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes))
    };
    read.map_err(|e| CliError::file("cannot read", name, e))?;
    utf8(&name.to_string_lossy(), bytes)
}

/// Turns the bytes of a file into text.
fn utf8(name: &str, bytes: Vec<u8>) -> Result<String, CliError> {
    String::from_utf8(bytes).map_err(|e| {
        let line = e.as_bytes().iter().take(e.utf8_error().valid_up_to()).filter(|b| **b == b'\n').count() + 1;
        CliError::usage(format!("{}:{line}: this is not UTF-8 text", mortise_text::file_name(name)))
    })
}

/// Adds the document's place to an error, and the place of each field that the server complains about.
pub(crate) fn at(document: &Document, mut error: CliError) -> CliError {
    for detail in &mut error.details {
        if let Some((path, _)) = detail.split_once(": ").filter(|(path, _)| !path.contains(' ')) {
            *detail = format!("{}: {detail}", document.locate(path));
        }
    }
    error.message = format!("{}: {}", document.place, error.message);
    error
}
