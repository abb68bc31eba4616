//! What a text is written in.

use std::path::Path;

/// What a text is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// YAML 1.2; documents are separated by `---`.
    Yaml,
    /// JSON: values after each other, on a line each or not.
    Json,
    /// HCL as Consul's command line reads it; one resource.
    Hcl,
}

impl Format {
    /// What the extension of a file's name says, if anything: `yaml`, `yml`, `json`, `jsonl`, `ndjson`, `hcl`.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let extension = Path::new(name).extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "yaml" | "yml" => Some(Self::Yaml),
            "json" | "jsonl" | "ndjson" => Some(Self::Json),
            "hcl" => Some(Self::Hcl),
            _ => None,
        }
    }
}
