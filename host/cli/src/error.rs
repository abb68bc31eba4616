//! Failures of commands, and their exit codes.

use std::{fmt, io, sync::Arc, time::Duration};

use mortise_durable_fs::FsError;
use mortise_provider::client::diagnostics_of;
use mortise_resource::{Diagnostic, SERVER_STOPPING, Severity, error::is_passing_fault, pb};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// Result of a command, as an exit code. docs/cli.md and every `--help` list them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The command did what it should.
    Done = 0,
    /// The server refused, the command failed, or a requested resource does not exist.
    Failed = 1,
    /// The command line, the configuration or an input file is wrong; nothing was changed because of it.
    Usage = 2,
    /// The server cannot be reached.
    Unreachable = 3,
    /// `diff` or `plan` found differences.
    Different = 4,
    /// A condition or an answer did not come in time.
    TimedOut = 5,
    /// The user pressed Ctrl-C.
    Interrupted = 130,
    /// The reader of the output closed it, as `head` does.
    Closed = 141,
}

/// The last line of every command's help.
pub const EXIT_CODES: &str = "Exit codes: 0 done, 1 refused, failed or not found, 2 wrong usage or input, \
                              3 server not reached, 4 differences (diff, plan), 5 timed out, 130 interrupted";

/// Failure of a command: one sentence, lines of detail below it, and a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CliError {
    /// Exit code.
    pub exit: Exit,
    /// `<thing>: <fault>`; without "mortise: ", which is added when the error is shown.
    pub message: String,
    /// Faults in detail, a line for each, such as `artists.yaml:7: data.name: artist.name required`.
    pub details: Vec<String>,
    /// Remedy for the user.
    pub remedy: Option<String>,
    /// The server's status code, if the server refused.
    pub code: Option<Code>,
    /// Wait after which the same call may well succeed: the server, or a plugin of it, is overloaded.
    pub retry_in: Option<Duration>,
    /// The one of many resources that the server could not read, without its type.
    pub(crate) resource: Option<Box<pb::Id>>,
    /// Underlying error; its text is part of the message.
    pub(crate) cause: Option<Cause>,
}

/// Error that caused a [`CliError`]. Two are equal when their texts are.
#[derive(Debug, Clone)]
pub(crate) struct Cause(Arc<dyn std::error::Error + Send + Sync>);

impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_string() == other.0.to_string()
    }
}

impl Eq for Cause {}

impl CliError {
    /// Makes a failure of one sentence.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            details: Vec::new(),
            resource: None,
            remedy: None,
            code: None,
            retry_in: None,
            cause: None,
        }
    }

    /// Makes a failure of the command line, the configuration or a file.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Makes a failure of the command's work.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// Sets the remedy.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Makes a failure with the text of an error, and keeps the error.
    pub fn because(exit: Exit, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self { message: cause.to_string(), cause: Some(Cause(Arc::new(cause))), ..Self::new(exit, "") }
    }

    /// Appends the text of an error to the message, and keeps the error.
    #[must_use]
    pub fn caused_by(mut self, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.message = format!("{}: {}", self.message, cause.to_string().trim_end());
        self.cause = Some(Cause(Arc::new(cause)));
        self
    }

    /// Adds a line of detail.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.details.push(detail.into());
        self
    }

    /// Makes a failure of a file or directory; `doing` is such as `cannot read`.
    pub fn file(doing: &str, path: &std::path::Path, error: io::Error) -> Self {
        Self::usage(format!("{doing} {}", path.display())).caused_by(error)
    }

    /// Makes a failure of writing a file.
    pub(crate) fn fs(FsError { path, action, source }: FsError) -> Self {
        Self::file(&format!("cannot {action}"), &path, source)
    }

    /// Makes a failure of the server's answer to a call about `thing`.
    pub fn rpc(thing: impl fmt::Display, status: &Status) -> Self {
        let exit = match status.code() {
            _ if is_transport(status) || is_stopping(status) => Exit::Unreachable,
            Code::DeadlineExceeded => Exit::TimedOut,
            _ => Exit::Failed,
        };
        let message = match (std::error::Error::source(status), status.message()) {
            (Some(source), _) => format!("{thing}: lost the connection: {}", innermost(source)),
            (None, "") => format!("{thing}: {}", status.code().description()),
            (None, message) => format!("{thing}: {message}"),
        };
        let mut error = Self { code: Some(status.code()), ..Self::new(exit, message) };
        // A fault that repeats the message adds nothing.
        let lines = diagnostics_of(status).into_iter().map(|one| match one.severity() {
            Severity::Warning => format!("{} (warning)", diagnostic_line(&one)),
            Severity::Error | Severity::Unspecified => diagnostic_line(&one),
        });
        error.details = lines.filter(|line| !status.message().contains(line)).collect();
        if let Some(info) = status.get_details_error_info()
            && let (Some(plugin), Some(hook)) = (info.metadata.get("plugin"), info.metadata.get("hook"))
        {
            let version = info.metadata.get("version").map(String::as_str).unwrap_or_default();
            error.details.push(format!("plugin {plugin} {version}, in {hook}"));
        }
        error.resource = status.get_details_resource_info().and_then(|info| id_of(&info.resource_name)).map(Box::new);
        error.remedy = remedy(status);
        error.retry_in = retry_in(status);
        error
    }
}

/// `path: summary (detail)`.
pub(crate) fn diagnostic_line(Diagnostic { path, summary, detail, .. }: &Diagnostic) -> String {
    let path = if path.is_empty() { String::new() } else { format!("{path}: ") };
    let detail = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
    format!("{path}{summary}{detail}")
}

/// Whether the connection failed, and not the server's work.
fn is_transport(status: &Status) -> bool {
    std::error::Error::source(status).is_some()
}

/// Whether the server ends, so that another one may answer soon.
fn is_stopping(status: &Status) -> bool {
    status.code() == Code::Unavailable && status.message().starts_with(SERVER_STOPPING)
}

/// Text of the innermost error: the outer texts of transports are empty words ("transport error").
pub(crate) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

/// Wait after a refusal for lack of places, if the server names none.
const BUSY_RETRY_WAIT: Duration = Duration::from_millis(100);

/// Returns the wait before another attempt, if one is of use.
fn retry_in(status: &Status) -> Option<Duration> {
    if let Some(wait) = status.get_details_retry_info().and_then(|info| info.retry_delay) {
        return Some(wait);
    }
    let kind = status.get_details_error_info().and_then(|info| info.metadata.get("kind").cloned());
    let busy = kind.as_deref().is_some_and(is_passing_fault);
    (busy && !is_transport(status)).then_some(BUSY_RETRY_WAIT)
}

fn remedy(status: &Status) -> Option<String> {
    if let Some(wait) = status.get_details_retry_info().and_then(|info| info.retry_delay) {
        return Some(format!("try again in {wait:.1?}"));
    }
    match status.code() {
        Code::Unauthenticated => Some("give a token that the server knows: --token-file FILE or MORTISE_TOKEN".into()),
        Code::Unimplemented => {
            Some("the server does not know this call; is it a Mortise, and as new as this program?".into())
        }
        _ if is_transport(status) => {
            let fault = std::error::Error::source(status).map(innermost).unwrap_or_default();
            Some(tls_remedy(&fault).unwrap_or(UNREACHABLE).into())
        }
        _ if is_stopping(status) => Some("try again when it is back".into()),
        Code::Aborted => Some("it was changed meanwhile; read it again and retry".into()),
        _ => None,
    }
}

/// Remedy for a TLS fault, by rustls's words.
pub(crate) fn tls_remedy(fault: &str) -> Option<&'static str> {
    const OWN: &str = "the server wants a certificate of this client that it trusts: --client-cert and --client-key";
    let remedies = [
        ("InvalidContentType", "the server there does not speak TLS: leave out --tls, https:// and certificates"),
        ("UnknownIssuer", "--ca-file FILE names the authority (PEM) that issued the server's certificate"),
        ("not valid for name", "--tls-server-name NAME gives the name that the server's certificate has"),
        ("CertificateRequired", OWN),
        ("UnknownCA", OWN),
        ("BadCertificate", OWN),
        ("DecryptError", OWN),
        ("CertificateExpired", "the certificate of this client has expired: `mortise tls show FILE` says when"),
        (
            "certificate expired",
            "the server's certificate has expired: `mortise tls show --server HOST:PORT` says when",
        ),
    ];
    remedies.into_iter().find(|(word, _)| fault.contains(word)).map(|(_, remedy)| remedy)
}

/// Remedy when no server answers.
pub(crate) const UNREACHABLE: &str = "is `mortise dev` or `mortise serve` running there? \
                                      Give its address with --grpc-addr, MORTISE_ADDR or --context";

impl fmt::Display for CliError {
    /// Writes everything, over several lines if need be, without a line end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for detail in &self.details {
            write!(f, "\n  {detail}")?;
        }
        match &self.remedy {
            Some(remedy) => write!(f, "\n  hint: {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for CliError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| &*cause.0 as &(dyn std::error::Error + 'static))
    }
}

/// Ends the command when its output cannot be written; silently when the reader closed it.
impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::new(Exit::Closed, "output closed"),
            _ => Self::failed("cannot write the output").caused_by(error),
        }
    }
}

/// Parses the server's notation partition/namespace/name.
fn id_of(place: &str) -> Option<pb::Id> {
    let mut parts = place.splitn(3, '/').map(str::to_owned);
    let tenancy = pb::Tenancy { partition: parts.next()?, namespace: parts.next()? };
    Some(pb::Id { tenancy: Some(tenancy), name: parts.next()?, ..pb::Id::default() })
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    #[test]
    fn faults_are_shown_with_path_explanation_and_severity_and_not_twice() {
        let one = |severity: Severity, path: &str, summary: &str, detail: &str| Diagnostic {
            severity: severity.into(),
            path: path.into(),
            summary: summary.into(),
            detail: detail.into(),
        };
        let diagnostics = [
            one(Severity::Error, "data.year", "too early", "Leave it out."),
            one(Severity::Warning, "", "odd", ""),
            one(Severity::Error, "", "too early", ""),
        ];
        let details = diagnostics.iter().map(|one| prost_types::Any {
            type_url: "type.googleapis.com/mortise.v1.Diagnostic".into(),
            value: one.encode_to_vec(),
        });
        let details = tonic_types::Status { details: details.collect(), ..tonic_types::Status::default() };
        let status = Status::with_details(Code::InvalidArgument, "too early", details.encode_to_vec().into());
        let error = CliError::rpc("album x", &status);
        assert_eq!(error.details, ["data.year: too early (Leave it out.)", "odd (warning)"]);
    }
}
