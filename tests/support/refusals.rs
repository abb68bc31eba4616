//! Expected errors of refused requests.

use tonic::{Code, Status};

/// Code and message of the expected error.
#[track_caller]
pub fn refusal<T: std::fmt::Debug>(result: Result<T, Status>) -> (Code, String) {
    let status = result.expect_err("a refusal");
    (status.code(), status.message().to_owned())
}

/// The inner text of the name rule.
pub fn name_rule(value: &str) -> String {
    format!(
        "a resource name must consist of lower case alphanumeric characters or '-', must start and end with an \
         alphanumeric character and be less than 64 characters, got: {value:?}"
    )
}

/// The error for a unit (`partition` or `namespace`) that the scope of a type of the demo plugin does not have.
pub fn scope_rule(t: &str, unit: &str, value: &str) -> String {
    match t {
        "demo.v1.Executive" => format!("cluster scoped resource {t} cannot have a {unit}: {value}"),
        "demo.v1.RecordLabel" => format!("partition scoped resource {t} cannot have a {unit}. got: {value}"),
        _ => panic!("{t} has both units"),
    }
}

/// The code and message of an invalid request.
pub fn invalid(text: impl Into<String>) -> (Code, String) {
    (Code::InvalidArgument, text.into())
}

/// Parts of the error when a plugin fails: the plugin, the hook, and the cause.
#[derive(Debug, Clone, Copy)]
pub struct Fault<'a> {
    pub plugin: &'a str,
    pub hook: &'a str,
    pub code: Code,
    pub kind: &'a str,
    /// A part of the message: the limit, or the fault of the answer.
    pub says: &'a str,
}

impl Fault<'_> {
    #[track_caller]
    pub fn check(&self, status: &Status) {
        use tonic_types::StatusExt as _;
        assert_eq!(status.code(), self.code, "{self:?}: {status:?}");
        let begin = format!("plugin {} 0.1.0: hook {} ", self.plugin, self.hook);
        assert!(status.message().contains(&begin), "{self:?}: {}", status.message());
        assert!(status.message().contains(self.says), "{self:?}: {}", status.message());
        let details = status.get_error_details();
        let info = details.error_info().unwrap_or_else(|| panic!("no ErrorInfo in {status:?}"));
        assert_eq!((info.reason.as_str(), info.domain.as_str()), ("PLUGIN_FAULT", "mortise"));
        let expected = [("plugin", self.plugin), ("version", "0.1.0"), ("hook", self.hook), ("kind", self.kind)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(info.metadata, expected.into());
    }
}
