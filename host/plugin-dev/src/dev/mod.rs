//! `mortise plugin dev`: builds a plugin and installs it into a running server, each time that its sources change.
//!
//! One build runs at a time; changes during a build cause one more. A failed build, a failed case and a server's
//! refusal are printed with the next step, and the installed version keeps serving. The plugin's conditions and its log
//! are printed as they come. When a server was gone and is back, the plugin is installed again if it is missing there.

mod install;
mod view;
mod watch;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::Args;
use mortise_cli::{CliError, Connect, Exit, Session, Ui};
use tokio::signal::unix::{SignalKind, signal};

use crate::{fault, offline::Offline, report, source::Crate, test::Suite};

pub(crate) const EXAMPLES: &str = "\
mortise plugin dev
mortise plugin dev --test --grpc-addr edge.example.org:8502
mortise plugin dev --once";

/// Time without changes before the sources are built: editors write a file in several steps.
const SETTLE_TIME: Duration = Duration::from_millis(30);

/// Arguments of `plugin dev`.
#[derive(Debug, Args)]
pub struct Dev {
    #[command(flatten)]
    package: Crate,
    /// Runs the cases in tests/cases before each installation; if one fails, nothing is installed
    #[arg(long)]
    test: bool,
    /// Folder of the cases [default: tests/cases in --path]
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
    /// Builds and installs once, and prints the result
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    connect: Connect,
}

impl Dev {
    pub(crate) async fn run(self) -> Result<Exit, CliError> {
        let mut term = signal(SignalKind::terminate())
            .map_err(|e| fault::failed("cannot listen for signals", "try again").caused_by(e))?;
        tokio::select! {
            ended = self.work() => ended,
            _ = term.recv() => Ok(Exit::Done),
        }
    }

    async fn work(self) -> Result<Exit, CliError> {
        let ui = self.connect.ui();
        // An unreachable server is reported before anything is built.
        let session = self.connect.session().await?;
        if self.once {
            self.round(&session, &ui, None, None).await?;
            return Ok(Exit::Done);
        }
        let mut watch = watch::Watch::new(self.package.dir())?;
        view::say(
            &ui,
            view::LineKind::Dev,
            &format!("watching {}, installing into {}", self.package.dir().display(), session.url()),
        )?;
        let mut following: Option<view::LiveView> = None;
        let mut changed = None;
        loop {
            match self.round(&session, &ui, changed, Some(&watch)).await {
                Ok(name) if following.is_none() => following = Some(view::LiveView::start(&session, &ui, &name)),
                Ok(_) => {}
                Err(fault) if fault.exit == Exit::Closed => return Err(fault),
                Err(fault) => {
                    let kept = "the installed version keeps serving; the next change is built";
                    view::say(&ui, view::LineKind::Fault, &format!("{fault}\n{kept}"))?;
                }
            }
            let back = async {
                match &mut following {
                    Some(following) => following.server_is_back().await,
                    None => std::future::pending().await,
                }
            };
            changed = tokio::select! {
                change = watch.changed(SETTLE_TIME) => Some(change),
                () = back => None,
            };
        }
    }

    /// Builds, runs the cases and installs, once; returns the plugin's name.
    async fn round(
        &self,
        session: &Session,
        ui: &Ui,
        changed: Option<Instant>,
        watch: Option<&watch::Watch>,
    ) -> Result<String, CliError> {
        let begun = changed.unwrap_or_else(Instant::now);
        let path = self.package.build().await?;
        // The component is in a folder of the target directory, wherever that is.
        if let (Some(watch), Some(built)) = (watch, path.ancestors().nth(2)) {
            watch.ignore(built);
        }
        let offline = Offline::new(&path)?;
        // The loader's own checks are clearer than a server's refusal, and come sooner.
        let manifest = match offline.describe().await {
            Ok(manifest) => manifest,
            Err(fault) => return Err(fault::load(&path, fault)),
        };
        let built = begun.elapsed();
        let size = report::size(offline.bytes.len());
        view::say(ui, view::LineKind::Build, &format!("{} ({size}) in {:.1} s", path.display(), built.as_secs_f64()))?;
        if self.test {
            self.cases(ui, path).await?;
        }
        let name = manifest.name.to_string();
        let installed = install::install(session, &name, &offline.bytes).await?;
        let took = begun.elapsed().as_secs_f64();
        let what = if installed.unchanged { "serves already, unchanged" } else { "serves" };
        let version = &manifest.version;
        view::say(ui, view::LineKind::Live, &format!("{name} {version} {what}, {took:.1} s after the change"))?;
        let conditions = install::conditions(installed.plugin.as_ref());
        if !conditions.is_empty() {
            view::say(ui, view::LineKind::Plugin, &conditions.join("; "))?;
        }
        Ok(name)
    }

    async fn cases(&self, ui: &Ui, component: PathBuf) -> Result<(), CliError> {
        let cases = self.cases.clone().unwrap_or_else(|| self.package.within("tests/cases"));
        let suite =
            Suite { component, cases, filter: None, record: false, with: Vec::new(), server: None, reuse: None };
        let summary = suite.run(|_| Ok(())).await?;
        if summary.first_failure().is_some() {
            view::say(ui, view::LineKind::Test, summary.text(ui).trim())?;
            return Err(fault::failed(
                format!("{} of {} cases failed; nothing was installed", summary.failed(), summary.ran()),
                "fix the plugin or the case; `mortise plugin dev` without --test installs regardless",
            ));
        }
        view::say(ui, view::LineKind::Test, &format!("{} cases passed", summary.ran()))
    }
}
