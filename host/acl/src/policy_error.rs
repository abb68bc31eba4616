//! Faults of the text and the rules of a policy.

use mortise_text::Diagnostics;

/// Longest text of rules, bytes.
pub(crate) const MAX_RULES_BYTES: usize = 64 << 10;

/// The fault of rules in YAML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum YamlRulesError {
    /// The text is not YAML, or exceeds a bound.
    #[error(transparent)]
    Text(#[from] Diagnostics),
    /// The text is not a map.
    #[error("write a map, AREA: LEVEL or AREA: {{NAME: {{policy: LEVEL}}}}")]
    NotAMap,
    /// The rule of an area has another form.
    #[error("the rule of {0:?} is neither a level nor a map of names; write LEVEL or {{NAME: {{policy: LEVEL}}}}")]
    BadRule(String),
}

/// The fault of an unusable policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The text of the rules is too long.
    #[error("the rules have {bytes} bytes and the limit is {MAX_RULES_BYTES}; split the policy")]
    TooLong {
        /// Length of the text, bytes.
        bytes: usize,
    },
    /// The policy has too many rules.
    #[error("the policy has more than {most} rules; split it into several policies")]
    TooManyRules {
        /// Most rules.
        most: usize,
    },
    /// The text is not valid HCL.
    #[error("line {line}: expected {expected}, found {found}")]
    Syntax {
        /// Line number from 1.
        line: usize,
        /// Accepted input at this place.
        expected: &'static str,
        /// Actual input.
        found: String,
    },
    /// The text is not valid YAML.
    #[error("the rules are neither HCL (AREA = \"LEVEL\", AREA \"NAME\" {{ policy = \"LEVEL\" }}) nor YAML: {0}")]
    Yaml(#[from] YamlRulesError),
    /// The level does not exist.
    #[error("{keyword}: unknown level {level:?}; use deny, read, list or write")]
    UnknownLevel {
        /// The area.
        keyword: String,
        /// The text in place of the level.
        level: String,
    },
    /// The word cannot be an area.
    #[error("{keyword:?} is not an area; use 1 to 64 lower-case letters, digits, `-` and `_`, a letter first")]
    BadArea {
        /// The text in place of the area.
        keyword: String,
    },
    /// The area has no meaning: neither Consul nor a plugin has it.
    #[error(
        "unknown area {area:?}; use one of {known} (with `_prefix` for prefixes), or load the plugin that asks about it"
    )]
    UnknownArea {
        /// The area.
        area: String,
        /// The known areas.
        known: String,
    },
    /// The area has no names.
    #[error("{area} has no names; write {area} = \"LEVEL\"")]
    NoNames {
        /// The area.
        area: String,
    },
    /// The names are missing, as in `key_prefix = "read"`.
    #[error("{keyword}: a name is missing; write {keyword} \"NAME\" {{ policy = \"LEVEL\" }}")]
    NameMissing {
        /// The area.
        keyword: String,
    },
    /// A rule by type and place lacks types or verbs.
    #[error("the type rule has no {0}; add at least one")]
    Incomplete(&'static str),
    /// The verb does not exist.
    #[error("unknown verb {0:?}; use read, list, write, delete, escalate or *")]
    UnknownVerb(String),
    /// The type pattern has another form.
    #[error("{0:?} is not a type pattern; write *, GROUP/*, GROUP/KIND or GROUP.VERSION.KIND")]
    BadType(String),
    /// A partition, a namespace or a name of the rule can belong to no resource.
    #[error("{what}: {word:?} fits nothing; {rule}")]
    BadWord {
        /// The list with the word.
        what: &'static str,
        /// The word.
        word: String,
        /// The form of such words.
        rule: &'static str,
    },
    /// The data is not a policy.
    #[error("the stored policy cannot be read; write it again")]
    Unreadable,
    /// A rule by type and place has too many words.
    #[error("the type rule has more than {most} {what}; split it into several rules")]
    TooMany {
        /// The list that is too long.
        what: &'static str,
        /// Most words in the list.
        most: usize,
    },
}
