//! Faults of the text and the rules of a policy.

/// Longest text of rules, bytes.
pub(crate) const MAX_TEXT: usize = 64 << 10;

/// Why a policy is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The rules are longer than they may be.
    #[error("the rules have {bytes} bytes; at most {MAX_TEXT} are read")]
    TooLong {
        /// How long they are.
        bytes: usize,
    },
    /// There are more rules than there may be.
    #[error("more than {most} rules; make several policies of them")]
    TooManyRules {
        /// How many there may be.
        most: usize,
    },
    /// The text is no HCL of rules.
    #[error("line {line}: expected {expected}, found {found}")]
    Syntax {
        /// From 1.
        line: usize,
        /// What could stand there.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// The text is no YAML of rules.
    #[error("it is neither HCL (AREA = \"LEVEL\", AREA \"NAME\" {{ policy = \"LEVEL\" }}) nor the same in YAML: {0}")]
    Yaml(String),
    /// A level that there is not.
    #[error("{keyword}: there is no level {level:?}; levels are deny, read, list and write")]
    UnknownLevel {
        /// The area.
        keyword: String,
        /// What is written.
        level: String,
    },
    /// A word that is no area.
    #[error("{keyword:?} is no area: letters, digits, `-` and `_`, at most 64, beginning with a letter in lower case")]
    BadArea {
        /// What is written.
        keyword: String,
    },
    /// `key_prefix = "read"`.
    #[error("{keyword}: names follow, as in {keyword} \"NAME\" {{ policy = \"LEVEL\" }}")]
    NameMissing {
        /// The area.
        keyword: String,
    },
    /// A rule by type and place that says nothing.
    #[error("type rule without {0}")]
    Incomplete(&'static str),
    /// A verb that there is not.
    #[error("there is no verb {0:?}; verbs are read, list, write, delete and *")]
    UnknownVerb(String),
    /// A type that is written in another way.
    #[error("{0:?} names no types: write *, GROUP/*, GROUP/KIND or GROUP.VERSION.KIND")]
    BadType(String),
    /// A rule by type and place with too many words.
    #[error("type rule with more than {most} {what}; make several of it")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        most: usize,
    },
}
