//! Rules by type and place: type, verb, partition, namespace and name of a resource. A rule without
//! partitions or namespaces fits all of them; a rule without names and prefixes fits every name.

use mortise_resource::{
    IdRef,
    authorizer::{Effect, Verb},
    data,
    tenancy::WILDCARD,
    types::Gvk,
};

use crate::policy_error::PolicyError;

/// Most words in one list of a rule.
const MAX_LIST_ENTRIES: usize = 256;

/// The types of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TypePattern {
    Any,
    Group(Box<str>),
    Kind { group: Box<str>, kind: Box<str> },
    Exact(Gvk),
}

impl TypePattern {
    fn read(text: &str) -> Option<Self> {
        let is_part = |part: &str| {
            (1..=128).contains(&part.len())
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        };
        if text == "*" {
            return Some(Self::Any);
        }
        if let Some((group, kind)) = text.split_once('/') {
            return match (is_part(group), kind) {
                (true, "*") => Some(Self::Group(group.into())),
                (true, kind) if is_part(kind) => Some(Self::Kind { group: group.into(), kind: kind.into() }),
                _ => None,
            };
        }
        let exact: Gvk = text.parse().ok()?;
        let is_exact = is_part(&exact.group) && is_part(&exact.group_version) && is_part(&exact.kind);
        is_exact.then_some(Self::Exact(exact))
    }

    fn fits(&self, id: IdRef<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::Group(group) => **group == *id.group,
            Self::Kind { group, kind } => **group == *id.group && **kind == *id.kind,
            Self::Exact(exact) => exact.is_of(id),
        }
    }
}

/// The verbs of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Verbs {
    read: bool,
    list: bool,
    write: bool,
    delete: bool,
}

impl Verbs {
    fn read(words: &[String]) -> Result<Self, PolicyError> {
        let mut verbs = Self::default();
        for word in words {
            match word.as_str() {
                "read" => verbs.read = true,
                "list" => verbs.list = true,
                "write" => verbs.write = true,
                "delete" => verbs.delete = true,
                "*" => verbs = Self { read: true, list: true, write: true, delete: true },
                other => return Err(PolicyError::UnknownVerb(other.to_owned())),
            }
        }
        Ok(verbs)
    }

    fn has(self, verb: Verb) -> bool {
        match verb {
            Verb::Read => self.read,
            Verb::List => self.list,
            Verb::Write => self.write,
            Verb::Delete => self.delete,
        }
    }
}

/// A valid rule in compiled form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompiledTypeRule {
    types: Vec<TypePattern>,
    verbs: Verbs,
    partitions: Vec<Box<str>>,
    namespaces: Vec<Box<str>>,
    names: Vec<Box<str>>,
    name_prefixes: Vec<Box<str>>,
    deny: bool,
}

/// The closeness of a rule's fit: an exact name is closest, then the longest prefix.
type Closeness = usize;

const EXACT: Closeness = usize::MAX;

impl CompiledTypeRule {
    pub(crate) fn read(rule: &data::TypeRule) -> Result<Self, PolicyError> {
        let words = |what, words: &[String]| match words.len() {
            0..=MAX_LIST_ENTRIES => Ok(words.iter().map(|word| word.as_str().into()).collect()),
            _ => Err(PolicyError::TooMany { what, most: MAX_LIST_ENTRIES }),
        };
        let _: Vec<Box<str>> = words("types", &rule.types)?;
        if rule.types.is_empty() {
            return Err(PolicyError::Incomplete("types"));
        }
        if rule.verbs.is_empty() {
            return Err(PolicyError::Incomplete("verbs"));
        }
        let pattern = |text: &String| TypePattern::read(text).ok_or_else(|| PolicyError::BadType(text.clone()));
        Ok(Self {
            types: rule.types.iter().map(pattern).collect::<Result<_, _>>()?,
            verbs: Verbs::read(&rule.verbs)?,
            partitions: words("partitions", &rule.partitions)?,
            namespaces: words("namespaces", &rule.namespaces)?,
            names: words("names", &rule.names)?,
            name_prefixes: words("name_prefixes", &rule.name_prefixes)?,
            deny: rule.deny,
        })
    }

    fn fits_all_names(&self) -> bool {
        self.names.is_empty() && self.name_prefixes.is_empty()
    }

    /// The closeness of the rule; `None` if it does not fit. A question without a name is about all resources of the
    /// type in a place, where `*` stands for every partition or namespace. A rule with names can allow such a question
    /// (each resource is checked later), but cannot deny it.
    fn fits(&self, verb: Verb, id: IdRef<'_>, name: Option<&str>) -> Option<Closeness> {
        let unit = |units: &[Box<str>], unit: &str| {
            units.is_empty() || units.iter().any(|allowed| **allowed == *unit || **allowed == *WILDCARD)
        };
        let fits = self.verbs.has(verb)
            && self.types.iter().any(|pattern| pattern.fits(id))
            && unit(&self.partitions, id.partition)
            && unit(&self.namespaces, id.namespace);
        if !fits {
            return None;
        }
        match name {
            None => (self.fits_all_names() || !self.deny).then_some(0),
            Some(_) if self.fits_all_names() => Some(0),
            Some(name) if self.names.iter().any(|allowed| **allowed == *name) => Some(EXACT),
            Some(name) => {
                let fitting = self.name_prefixes.iter().filter(|prefix| name.starts_with(&***prefix));
                fitting.map(|prefix| prefix.len()).max()
            }
        }
    }
}

/// The decision of several rules together: the closest fit decides; of equally close fits, deny.
pub(crate) fn decide<'a>(
    rules: impl IntoIterator<Item = &'a CompiledTypeRule>,
    verb: Verb,
    id: IdRef<'_>,
    name: Option<&str>,
) -> Effect {
    let fitting = rules.into_iter().filter_map(|rule| Some((rule.fits(verb, id, name)?, rule.deny)));
    match fitting.max() {
        None => Effect::Undecided,
        Some((_, true)) => Effect::Deny,
        Some((_, false)) => Effect::Allow,
    }
}
