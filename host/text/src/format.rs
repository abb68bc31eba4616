//! Formats of texts, and the choice by a file's name.

use std::path::Path;

/// Format of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// YAML 1.2; documents are separated by `---`.
    Yaml,
    /// JSON: values after each other, with or without line breaks between them.
    Json,
    /// HCL as Consul's command line reads it; one resource.
    Hcl,
}

impl Format {
    /// The format by the extension of a file's name: `yaml`, `yml`, `json`, `jsonl`, `ndjson`, `hcl`; `None` for
    /// others.
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
