//! The files of a compose project: the file itself, those that it includes, and those whose services it extends.
//!
//! # Limits
//! Only regular files of the folder of the first file, and of folders in it, are read: at most [`MAX_FILES`], with
//! [`MAX_BYTES`] together. Files may include others, and services extend others, [`MAX_DEPTH`] levels deep; circles are
//! errors. Services take over at most [`MAX_COPIED`] values from others.

use std::{
    collections::BTreeMap,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use mortise_text::{Diagnostics, Format, Limits, PlainNode, PlainValue, Source, plain_nodes};

use super::{
    node::{FillError, Node, NodeValue, keep_read},
    variables::{EnvFileError, Variables},
};
use crate::{
    commands::catalog::plan::{LoadPlan, Place},
    env::Env,
};

/// Most files of a project, `.env` files included.
const MAX_FILES: usize = 100;

/// Most bytes of all files together.
const MAX_BYTES: u64 = 16 << 20;

/// Most files that include each other, and most services that extend each other.
const MAX_DEPTH: usize = 16;

/// Most values that services take over from others.
const MAX_COPIED: usize = 1_000_000;

/// Reason why a project cannot be read.
#[derive(Debug, thiserror::Error)]
pub(in crate::commands::catalog) enum ComposeError {
    #[error(transparent)]
    Yaml(#[from] Diagnostics),
    #[error("it has no services")]
    NoServices,
    #[error("{0}: it is not {1}")]
    Form(Place, &'static str),
    #[error(transparent)]
    Variable(#[from] FillError),
    #[error("{file}:{line}: {source}")]
    EnvFile { file: String, line: usize, source: EnvFileError },
    #[error("{place}: cannot read {path}: {source}")]
    Read { place: Place, path: String, source: io::Error },
    #[error("{0}: {1} is outside of the folder of the compose file; move it there")]
    Outside(Place, String),
    #[error("{0}: {1} is not a regular file")]
    NotAFile(Place, String),
    #[error("the files of the project are more than {MAX_FILES}, or larger than {MAX_BYTES} bytes")]
    Size,
    #[error("{0}: it goes in a circle: {1}")]
    Circle(Place, String),
    #[error("{0}: it is nested more than {MAX_DEPTH} levels deep")]
    Depth(Place),
    #[error("{0}: {1} has no service {2:?}")]
    NoService(Place, String, String),
    #[error("{0}: the service {1:?} is in {2} already; rename one of them")]
    Twice(Place, String, String),
    #[error("services take over more than {MAX_COPIED} values from others")]
    Copied,
    #[error("no service has the profile {0:?}")]
    Profile(String),
}

/// A compose file with its variables filled in.
#[derive(Debug)]
struct ComposeFile {
    /// The file as errors show it.
    shown: String,
    /// Path without symbolic links.
    path: PathBuf,
    name: Option<String>,
    services: BTreeMap<String, Node>,
    include: Option<Node>,
}

impl ComposeFile {
    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }
}

/// Services of a project, and what was read for them.
#[derive(Debug)]
pub(super) struct Project {
    pub(super) name: String,
    pub(super) services: BTreeMap<String, Node>,
    /// Files that were read besides the first one, or looked for.
    pub(super) files: Vec<PathBuf>,
}

/// Reads a project that begins with this text.
///
/// # Errors
/// A file cannot be read, is malformed, or exceeds a bound.
pub(super) fn project(source: Source<'_>, env: Env<'_>, plan: &mut LoadPlan) -> Result<Project, ComposeError> {
    let shown = mortise_text::file_name(source.name).to_owned();
    let place = Place::line(&shown.as_str().into(), 1);
    let given = if source.name == "-" { Path::new(".").join("-") } else { PathBuf::from(source.name) };
    let folder = given.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let root = folder.canonicalize().map_err(|source| ComposeError::Read {
        place,
        path: folder.display().to_string(),
        source,
    })?;
    let path = root.join(given.file_name().unwrap_or_default());
    let mut reader = Reader {
        root: root.clone(),
        left: MAX_BYTES,
        copied: 0,
        files: Vec::new(),
        contexts: vec![Variables::new(env)],
        known: BTreeMap::new(),
        plan,
    };
    reader.add_env_file(0, &root.join(".env"), None)?;
    let first = reader.parse(source.text, &shown, path, 0)?;
    let services = reader.with_includes(&first, 0, &mut Vec::new())?;
    let given = reader.contexts.first().and_then(|variables| variables.get("COMPOSE_PROJECT_NAME"));
    let name = given.or_else(|| first.name.clone());
    let name = name.unwrap_or_else(|| root.file_name().unwrap_or_default().to_string_lossy().into_owned());
    Ok(Project { name, services, files: reader.files })
}

struct Reader<'e, 'p> {
    root: PathBuf,
    /// Bytes that may still be read.
    left: u64,
    copied: usize,
    files: Vec<PathBuf>,
    /// Variables of the first file, and of each include.
    contexts: Vec<Variables<'e>>,
    /// Files that were read, by their path and the index of their variables.
    known: BTreeMap<(PathBuf, usize), Arc<ComposeFile>>,
    plan: &'p mut LoadPlan,
}

impl Reader<'_, '_> {
    /// Adds the values of a `.env` file to a context. Without a place the file may be missing.
    fn add_env_file(&mut self, context: usize, path: &Path, place: Option<&Place>) -> Result<(), ComposeError> {
        if place.is_none() && !path.exists() {
            self.files.push(path.to_owned());
            return Ok(());
        }
        let file = self.shown(path);
        let place = place.cloned().unwrap_or_else(|| Place::line(&file.as_str().into(), 1));
        let (text, _) = self.read(path, &place)?;
        let Some(variables) = self.contexts.get_mut(context) else { return Ok(()) };
        variables.add_file(&text).map_err(|(line, source)| ComposeError::EnvFile { file, line, source })
    }

    /// The path as errors show it: below the folder of the project.
    fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }

    /// Reads a file of the project's folder, and returns its path without symbolic links.
    fn read(&mut self, path: &Path, place: &Place) -> Result<(String, PathBuf), ComposeError> {
        let shown = self.shown(path);
        let failed = |source| ComposeError::Read { place: place.clone(), path: shown.clone(), source };
        let real = path.canonicalize().map_err(failed)?;
        if !real.starts_with(&self.root) {
            return Err(ComposeError::Outside(place.clone(), shown));
        }
        // Opening a pipe would block until it has a writer.
        if !real.metadata().map_err(failed)?.is_file() {
            return Err(ComposeError::NotAFile(place.clone(), shown));
        }
        self.files.push(real.clone());
        let mut text = String::new();
        let file = std::fs::File::open(&real).map_err(failed)?;
        file.take(self.left + 1).read_to_string(&mut text).map_err(failed)?;
        self.left = self.left.checked_sub(text.len() as u64).ok_or(ComposeError::Size)?;
        if self.files.len() > MAX_FILES { Err(ComposeError::Size) } else { Ok((text, real)) }
    }

    /// Reads a compose file, once for each context.
    fn file(&mut self, path: &Path, context: usize, place: &Place) -> Result<Arc<ComposeFile>, ComposeError> {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if let Some(known) = self.known.get(&(real, context)) {
            return Ok(Arc::clone(known));
        }
        let (text, real) = self.read(path, place)?;
        let shown = self.shown(&real);
        self.parse(&text, &shown, real, context)
    }

    fn parse(
        &mut self,
        text: &str,
        shown: &str,
        path: PathBuf,
        context: usize,
    ) -> Result<Arc<ComposeFile>, ComposeError> {
        let limits = Limits { documents: 1, depth: 64, ..Limits::default() };
        let root = plain_nodes(Source { name: shown, text }, Format::Yaml, &limits)?.pop();
        let file: Arc<str> = shown.into();
        let mut entries = match root {
            None => BTreeMap::new(),
            Some(PlainNode { value: PlainValue::Map(entries), .. }) => entries,
            Some(root) => return Err(ComposeError::Form(Place::line(&file, root.line), "a map")),
        };
        let fill = |node: Option<PlainNode>, path: &str, variables: &Variables<'_>, plan: &mut LoadPlan| {
            node.map(|node| Node::fill(node, &file, path.to_owned(), variables, plan)).transpose()
        };
        let Some(variables) = self.contexts.get(context) else { return Err(ComposeError::Size) };
        let name = fill(entries.remove("name"), "name", variables, self.plan)?;
        let include = fill(entries.remove("include"), "include", variables, self.plan)?;
        let mut services = BTreeMap::new();
        match entries.remove("services") {
            Some(PlainNode { value: PlainValue::Map(found), .. }) => {
                for (name, mut node) in found {
                    keep_read(&mut node);
                    let service = Node::fill(node, &file, format!("services.{name}"), variables, self.plan)?;
                    if matches!(service.value, NodeValue::Scalar(_) | NodeValue::List(_)) {
                        return Err(ComposeError::Form(service.place, "a map"));
                    }
                    services.insert(name, service);
                }
            }
            Some(node) => {
                let place = Place { path: "services".to_owned(), ..Place::line(&file, node.line) };
                return Err(ComposeError::Form(place, "a map"));
            }
            None if include.is_none() => return Err(ComposeError::NoServices),
            None => {}
        }
        let name = name.as_ref().and_then(Node::scalar).map(str::to_owned);
        let read = Arc::new(ComposeFile { shown: shown.to_owned(), path: path.clone(), name, services, include });
        self.known.insert((path, context), Arc::clone(&read));
        Ok(read)
    }

    /// Services of a file, extended, and those of its includes. `above` has the files that include this one.
    fn with_includes(
        &mut self,
        file: &Arc<ComposeFile>,
        context: usize,
        above: &mut Vec<(PathBuf, String)>,
    ) -> Result<BTreeMap<String, Node>, ComposeError> {
        let mut services = BTreeMap::new();
        for name in file.services.keys() {
            let place = file.services.get(name).map(|node| node.place.clone()).unwrap_or_default();
            let service = self.extended(file, name, context, &place, &mut Vec::new())?;
            services.insert(name.clone(), service);
        }
        above.push((file.path.clone(), file.shown.clone()));
        for entry in file.include.iter().flat_map(|node| node.items().iter()) {
            for (name, node) in self.included(file, entry, context, above)? {
                // A file may be included twice.
                if let Some(known) = services.get(&name).filter(|known| **known != node) {
                    return Err(ComposeError::Twice(node.place.clone(), name, known.place.to_string()));
                }
                services.insert(name, node);
            }
        }
        above.pop();
        Ok(services)
    }

    /// Services of an entry of `include`; of several paths, each is put over the one before.
    fn included(
        &mut self,
        file: &Arc<ComposeFile>,
        entry: &Node,
        context: usize,
        above: &mut Vec<(PathBuf, String)>,
    ) -> Result<BTreeMap<String, Node>, ComposeError> {
        if above.len() > MAX_DEPTH {
            return Err(ComposeError::Depth(entry.place.clone()));
        }
        let paths = entry.get("path").unwrap_or(entry).items();
        let Some(first) = paths.first().and_then(Node::scalar) else {
            return Err(ComposeError::Form(entry.place.clone(), "the path of a file"));
        };
        let folder = file.folder().to_owned();
        let own = match entry.text("project_directory") {
            Some(directory) => folder.join(directory),
            None => folder.join(first).parent().unwrap_or(&folder).to_owned(),
        };
        let variables = self.contexts.get(context).cloned();
        self.contexts.extend(variables);
        let inner = self.contexts.len().saturating_sub(1);
        match entry.get("env_file") {
            Some(files) => {
                for env_file in files.items() {
                    let path = folder.join(env_file.scalar().unwrap_or_default());
                    self.add_env_file(inner, &path, Some(&env_file.place))?;
                }
            }
            None if own != folder => self.add_env_file(inner, &own.join(".env"), None)?,
            None => {}
        }
        let mut services: BTreeMap<String, Node> = BTreeMap::new();
        for path in paths {
            let Some(text) = path.scalar() else {
                return Err(ComposeError::Form(path.place.clone(), "the path of a file"));
            };
            let found = self.file(&folder.join(text), inner, &path.place)?;
            if above.iter().any(|(known, _)| *known == found.path) {
                let names = above.iter().map(|(_, shown)| shown.as_str()).chain([found.shown.as_str()]);
                let names = names.collect::<Vec<_>>().join(" includes ");
                return Err(ComposeError::Circle(path.place.clone(), names));
            }
            for (name, node) in self.with_includes(&found, inner, above)? {
                let node = match services.remove(&name) {
                    Some(base) => base.overlay("", node),
                    None => node,
                };
                services.insert(name, node);
            }
        }
        Ok(services)
    }

    /// A service over those that it extends. `chain` has the services that extend this one.
    fn extended(
        &mut self,
        file: &Arc<ComposeFile>,
        name: &str,
        context: usize,
        place: &Place,
        chain: &mut Vec<(PathBuf, String)>,
    ) -> Result<Node, ComposeError> {
        let link = (file.path.clone(), name.to_owned());
        if chain.contains(&link) {
            let names = chain.iter().chain([&link]).map(|(_, name)| name.as_str()).collect::<Vec<_>>();
            return Err(ComposeError::Circle(place.clone(), names.join(" extends ")));
        }
        if chain.len() > MAX_DEPTH {
            return Err(ComposeError::Depth(place.clone()));
        }
        let missing = || ComposeError::NoService(place.clone(), file.shown.clone(), name.to_owned());
        let mut service = file.services.get(name).cloned().ok_or_else(missing)?;
        let NodeValue::Map(entries) = &mut service.value else { return Ok(service) };
        let Some(extends) = entries.remove("extends").filter(|node| node.value != NodeValue::Null) else {
            return Ok(service);
        };
        let Some(base) = extends.scalar().or_else(|| extends.text("service")).map(str::to_owned) else {
            return Err(ComposeError::Form(extends.place, "the name of a service"));
        };
        let other = match extends.text("file") {
            Some(path) => self.file(&file.folder().join(path), context, &extends.place)?,
            None => Arc::clone(file),
        };
        chain.push(link);
        let base = self.extended(&other, &base, context, &extends.place, chain)?;
        chain.pop();
        self.copied += base.size();
        if self.copied > MAX_COPIED {
            return Err(ComposeError::Copied);
        }
        Ok(base.overlay("", service))
    }
}
