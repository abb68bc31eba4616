//! `mortise edit`: a resource in an editor, and back.
//!
//! The write is conditional on the version that was read. After a concurrent change, that change and this one are
//! merged as `git merge` does: if they touch different lines, the result is written; if not, the editor opens again,
//! with both in it. A refused text comes back with the reasons above it. Typed text is never lost: when the command
//! gives up or is interrupted, it prints where the text is.

use std::path::{Path, PathBuf};

use clap::Args;
use mortise_resource::{pb, resource_meta::strip_server_part};
use mortise_text::{Document, Format, Source};

use crate::{
    CliError, Connect, CriticalSection, Exit, Session, Tenancy, Ui,
    apply::{files, plan::bare},
    env::process as env,
    error::diagnostic_line,
    output::ui,
    resources::catalog::Catalog,
    resources::ids::{self, Key, id_of, placed_title},
    resources::show,
};

pub(super) const EXAMPLES: &str = "\
mortise edit artist korn
EDITOR='code --wait' mortise edit artist/korn";

/// Most conflicts in a row before the command gives up.
const MAX_CONFLICTS: usize = 10;

/// Arguments of `edit`.
#[derive(Debug, Args)]
pub struct Edit {
    /// TYPE NAME or TYPE/NAME
    #[arg(value_name = "TYPE NAME", required = true)]
    what: Vec<String>,
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

impl Edit {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        let id = ids::one(&self.what, &catalog, &self.tenancy, &session)?;
        let mut stored = ids::read(&session, &id).await?;
        let name = placed_title(&id_of(&stored));
        let mut base = editable(&stored, &catalog)?;
        let mut text = base.clone();
        let mut comment = format!(
            "# {name}\n# Save to write it; leave it as it is, or empty, to write nothing.\n# Lines that begin with # do \
             not count.\n"
        );
        let mut conflicts = 0;
        let mut draft = Draft::new(self.connect.ui())?;
        loop {
            let shown = format!("{comment}{text}");
            if let Err(error) = open(&draft.path, &shown).await {
                return Err(draft.keep(error));
            }
            draft.matters = true;
            let edited = match files::text(&draft.path) {
                Ok(edited) => edited,
                Err(error) => return Err(draft.keep(error)),
            };
            let content = without_comments(&edited);
            if content.trim().is_empty() {
                draft.matters = false;
                ui::line(format!("{name}: nothing was written, since the text is empty"))?;
                return Ok(Exit::Done);
            }
            if without_comments(&shown) == content {
                if text == base {
                    draft.matters = false;
                    ui::line(format!("{name} unchanged"))?;
                    return Ok(Exit::Done);
                }
                return Err(
                    draft.keep(CliError::failed(format!("{name}: gave up, since the refused text was not changed")))
                );
            }
            text = content;
            loop {
                match write(&session, &catalog, &stored, &text).await {
                    Ok(warnings) => {
                        draft.matters = false;
                        warnings.iter().for_each(|warning| self.connect.ui().warn(warning));
                        ui::line(format!("{name} updated"))?;
                        return Ok(Exit::Done);
                    }
                    Err(WriteError::Conflict) if conflicts < MAX_CONFLICTS => {
                        conflicts += 1;
                        let theirs = match ids::read(&session, &id).await {
                            Ok(theirs) => theirs,
                            Err(error) => return Err(draft.keep(error)),
                        };
                        let before = std::mem::replace(&mut stored, theirs);
                        let theirs = match editable(&stored, &catalog) {
                            Ok(theirs) => theirs,
                            Err(error) => return Err(draft.keep(error)),
                        };
                        let merged = diffy::merge(&base, &text, &theirs);
                        let (was, is) = (bare(&before), bare(&stored));
                        let names = ("as it was", "as somebody else changed it");
                        let change = mortise_text::diff::diff(Some(&was), Some(&is), names, &catalog);
                        base = theirs;
                        let conflicted = merged.is_err();
                        text = merged.unwrap_or_else(|marked| marked);
                        if !conflicted {
                            self.connect.ui().note(&format!(
                                "{name} was changed by somebody else meanwhile; that change and yours are put together:\n{}",
                                change.trim_end()
                            ));
                            // The merged text is written without asking again: no line of either is lost.
                            continue;
                        }
                        comment = format!(
                            "# {name} was changed by somebody else meanwhile, in the same lines. Between <<<<<<< and ======= is \
                             yours,\n# between ======= and >>>>>>> is theirs, with ||||||| what was there before. Keep what is \
                             right and take\n# the markers out.\n#\n{}",
                            commented(&change)
                        );
                    }
                    Err(WriteError::Conflict) => {
                        let error = CliError::failed(format!("{name}: somebody else keeps changing it"));
                        return Err(draft.keep(error.remedy("try again later")));
                    }
                    Err(WriteError::Wrong(error)) => {
                        comment = format!("# {name} was not written:\n{}#\n", commented(&error.to_string()));
                    }
                    Err(WriteError::Failed(error)) => return Err(draft.keep(error)),
                }
                break;
            }
        }
    }
}

/// Reason why a text was not written.
enum WriteError {
    /// The resource changed meanwhile.
    Conflict,
    /// The text is wrong; the user can correct it.
    Wrong(CliError),
    /// Any other failure.
    Failed(CliError),
}

/// Renders a resource for editing, without what the server sets.
fn editable(resource: &pb::Resource, catalog: &Catalog) -> Result<String, CliError> {
    let mut resource = resource.clone();
    resource.version.clear();
    resource.generation.clear();
    resource.status.clear();
    resource.schema_version = 0;
    strip_server_part(&mut resource);
    show::yaml(&resource, catalog)
}

/// Parses the text and writes it over the version that was read; returns the warnings.
async fn write(
    session: &Session,
    catalog: &Catalog,
    stored: &pb::Resource,
    text: &str,
) -> Result<Vec<String>, WriteError> {
    let id = id_of(stored);
    let parsed = mortise_text::parse(Source { name: "edit", text }, Some(Format::Yaml), catalog);
    catalog.fault().map_err(WriteError::Failed)?;
    let mut documents = parsed.map_err(|faults| {
        let details = faults.to_string().lines().map(str::to_owned).collect();
        WriteError::Wrong(CliError { details, ..CliError::usage("the text has faults") })
    })?;
    let (Some(document), None): (Option<Document>, _) = (documents.pop(), documents.pop()) else {
        return Err(WriteError::Wrong(CliError::usage("the text must hold exactly one resource")));
    };
    let mut wanted = document.resource.clone();
    let own = id_of(&wanted);
    if Key::of(&own) != Key::of(&id) || (!own.uid.is_empty() && own.uid != id.uid) {
        return Err(WriteError::Wrong(
            CliError::usage("the id of a resource cannot be edited").remedy("write it under another name with apply"),
        ));
    }
    wanted.id = Some(pb::Id { r#type: own.r#type, ..id.clone() });
    wanted.version.clone_from(&stored.version);
    let request = pb::WriteRequest { resource: Some(wanted) };
    let call = async { session.resources().write(request).await };
    match session.call(placed_title(&id), call).await {
        Ok(answer) => Ok(answer.warnings.iter().map(diagnostic_line).collect()),
        Err(error) if error.code == Some(tonic::Code::Aborted) => Err(WriteError::Conflict),
        Err(error) if error.code == Some(tonic::Code::InvalidArgument) => {
            Err(WriteError::Wrong(files::at(&document, error)))
        }
        Err(error) => Err(WriteError::Failed(error)),
    }
}

/// Writes the text into the file and waits for the editor.
async fn open(file: &Path, text: &str) -> Result<(), CliError> {
    std::fs::write(file, text).map_err(|e| CliError::file("cannot write", file, e))?;
    let editor = env("VISUAL").or_else(|| env("EDITOR")).unwrap_or_else(|| "vi".into());
    // Started by a shell, since the variable may hold arguments; the file's name is a separate argument.
    let ended = {
        let _section = CriticalSection::enter();
        tokio::process::Command::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(file).status().await
    };
    match ended {
        Ok(status) if status.success() && !file.exists() => {
            let gone = format!("the editor {editor:?} removed {}, and what you typed with it", file.display());
            Err(CliError::failed(format!("{gone}; nothing was written")).remedy("set VISUAL or EDITOR to another"))
        }
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(CliError::failed(format!("the editor {editor:?} failed: {status}; nothing was written"))
            .remedy("set VISUAL or EDITOR to another")),
        Err(e) => Err(CliError::failed(format!("cannot start the editor {editor:?}")).caused_by(e)),
    }
}

/// Removes lines that begin with #.
fn without_comments(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}

fn commented(text: &str) -> String {
    text.lines().map(|line| format!("# {line}").trim_end().to_owned() + "\n").collect()
}

/// Temporary file with the user's text. It is removed on drop, unless it holds text that is not written: then it stays,
/// and standard error shows its path. This includes Ctrl-C during a write, which drops the command.
struct Draft {
    file: Option<tempfile::NamedTempFile>,
    path: PathBuf,
    /// Whether the file holds typed text that is not written.
    matters: bool,
    ui: Ui,
}

impl Draft {
    fn new(ui: Ui) -> Result<Self, CliError> {
        let file = tempfile::Builder::new().prefix("mortise-edit-").suffix(".yaml").tempfile()?;
        Ok(Self { path: file.path().to_owned(), file: Some(file), matters: false, ui })
    }

    /// Adds the path of the file to an error, if the file stays.
    fn keep(mut self, error: CliError) -> CliError {
        match self.leave() {
            Some(reason) => error.detail(reason),
            None => error,
        }
    }

    /// Keeps the file, if it matters and still exists; returns the message about it.
    fn leave(&mut self) -> Option<String> {
        let file = self.file.take().filter(|_| self.matters && self.path.exists())?;
        Some(match file.keep() {
            Ok((_, path)) => format!("what you typed is in {}", path.display()),
            Err(e) => format!("what you typed could not be kept: {e}"),
        })
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(reason) = self.leave() {
            self.ui.note(&format!("mortise: {reason}"));
        }
    }
}
