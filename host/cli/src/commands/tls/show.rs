//! `mortise tls show`: the certificates in files or of a server.

use std::path::{Path, PathBuf};

use clap::Args;
use jiff::Timestamp;
use mortise_keys::certificate::{Certificate, CertificateDer, PemFileError, Validity, read_certificates};
use serde::Serialize;

use super::fetch::chain_of;
use crate::{
    Cell, CliError, Color, Exit, Style, Table, Ui,
    connect::address::address,
    output::{json::AnswerFormat, ui},
};

pub(super) const EXAMPLES: &str = "\
mortise tls show /etc/mortise/tls
mortise tls show --server home.example.net:8502
mortise tls show server.pem -o json";

/// Extensions of certificate files in a directory.
const EXTENSIONS: [&str; 3] = ["pem", "crt", "cer"];

/// Days before the end from which a certificate is shown as a warning, as in the server's log.
const WARNING_DAYS: i64 = 30;

/// Arguments of `tls show`.
#[derive(Debug, Args)]
pub(super) struct Show {
    /// Files of certificates (PEM), or directories with files *.pem, *.crt and *.cer
    #[arg(value_name = "FILE|DIR", default_value = "tls", conflicts_with = "server")]
    files: Vec<PathBuf>,
    /// A running server of any kind: its certificates are shown, not verified
    #[arg(long, value_name = "HOST:PORT")]
    server: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: AnswerFormat,
}

/// Certificate and its source; the fields are the JSON for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    source: String,
    subject: String,
    names: Vec<String>,
    issuer: String,
    serial: String,
    authority: bool,
    not_before: String,
    not_after: String,
    days_left: i64,
    state: &'static str,
    #[serde(skip)]
    validity: Validity,
}

impl Show {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let mut found = Vec::new();
        match &self.server {
            Some(server) => {
                let (_, addr) = address(server)?;
                describe(&addr, &chain_of(&addr).await?, &mut found)?;
            }
            None => {
                for path in &self.files {
                    look(path, &mut found)?;
                }
            }
        }
        match self.output {
            AnswerFormat::Table => ui::print(render(&found, &Ui::new(Color::Auto)))?,
            AnswerFormat::Json => {
                let text = serde_json::to_string_pretty(&found);
                ui::line(text.map_err(|e| CliError::failed("no JSON of certificates").caused_by(e))?)?;
            }
        }
        match found.iter().filter(|certificate| certificate.validity != Validity::Valid).count() {
            0 => Ok(Exit::Done),
            wrong => Err(CliError::failed(format!("{wrong} of {} certificates are not valid now", found.len()))
                .remedy("`mortise tls init --force` issues those of its own authority again")),
        }
    }
}

/// Reads the certificates of a file, or of the files of a directory.
fn look(path: &Path, found: &mut Vec<Found>) -> Result<(), CliError> {
    if !path.is_dir() {
        let chain = read_certificates(path).map_err(unreadable)?;
        return describe(&path.display().to_string(), &chain, found);
    }
    let wrong = |e| CliError::file("cannot read", path, e);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(wrong)? {
        let file = entry.map_err(wrong)?.path();
        if file.extension().is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known)) {
            files.push(file);
        }
    }
    files.sort();
    let before = found.len();
    for file in files {
        match read_certificates(&file) {
            Ok(chain) => describe(&file.display().to_string(), &chain, found)?,
            // Perhaps a key alone.
            Err(PemFileError::NoCertificate { .. } | PemFileError::Irregular { .. }) => {}
            Err(e) => return Err(unreadable(e)),
        }
    }
    match found.len() == before {
        true => Err(CliError::usage(format!("{} has no certificate in a file *.pem, *.crt or *.cer", path.display()))),
        false => Ok(()),
    }
}

fn unreadable(error: PemFileError) -> CliError {
    CliError::usage("cannot show the certificates").caused_by(error)
}

fn describe(source: &str, chain: &[CertificateDer<'_>], found: &mut Vec<Found>) -> Result<(), CliError> {
    let now = Timestamp::now();
    for der in chain {
        let certificate = Certificate::parse(der).map_err(|e| CliError::usage(source).caused_by(e))?;
        let validity = certificate.validity(now);
        found.push(Found {
            source: source.to_owned(),
            names: certificate.alternative_names(),
            authority: certificate.is_ca,
            not_before: certificate.start().to_string(),
            not_after: certificate.expiry().to_string(),
            days_left: certificate.days_left(now),
            state: validity.name(),
            validity,
            subject: certificate.subject,
            issuer: certificate.issuer,
            serial: certificate.serial,
        });
    }
    Ok(())
}

fn render(found: &[Found], ui: &Ui) -> String {
    let mut table = Table::new(["file", "subject", "names", "issuer", "expires", "days left", "state"]);
    for certificate in found {
        let style = match certificate.validity {
            Validity::Valid if certificate.days_left < WARNING_DAYS => Style::Warn,
            Validity::Valid => Style::Good,
            _ => Style::Bad,
        };
        table.row(vec![
            certificate.source.as_str().into(),
            certificate.subject.as_str().into(),
            certificate.names.join(",").into(),
            certificate.issuer.as_str().into(),
            certificate.not_after.as_str().into(),
            Cell::styled(style, certificate.days_left.to_string()),
            Cell::styled(style, certificate.state),
        ]);
    }
    table.render(ui)
}
