//! Rules by type and place: type, verb, partition, namespace and name of a resource. A rule without
//! partitions or namespaces fits all of them; a rule without names and prefixes fits every name. A rule that allows
//! fits tokens and policies only if it names their kind.

use mortise_resource::{
    IdRef,
    authorizer::{Effect, Verb},
    data, name,
    tenancy::WILDCARD,
    types::{Gvk, HOST_GROUP, is_access_kind},
};

use crate::policy_error::PolicyError;

/// Most words in one list of a rule.
const MAX_LIST_ENTRIES: usize = 256;

/// The types of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TypePattern {
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

    fn fits(&self, id: IdRef<'_>, deny: bool) -> bool {
        let reaches = deny || !is_access_kind(id.group, id.kind);
        match self {
            Self::Any => reaches,
            Self::Group(group) => reaches && **group == *id.group,
            Self::Kind { group, kind } => **group == *id.group && **kind == *id.kind,
            Self::Exact(exact) => exact.is_of(id),
        }
    }
}

/// The verbs of rules.
pub(crate) const VERBS: [Verb; 5] = [Verb::Read, Verb::List, Verb::Write, Verb::Delete, Verb::Escalate];

/// The verbs of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Verbs(Vec<Verb>);

impl Verbs {
    /// Reads verbs. `*` stands for all but escalate; in a denying rule for all.
    fn read(words: &[String], deny: bool) -> Result<Self, PolicyError> {
        let mut verbs = Vec::new();
        for word in words {
            match VERBS.iter().find(|verb| verb.name() == word) {
                Some(verb) => verbs.push(*verb),
                None if word == WILDCARD => verbs.extend(VERBS.iter().filter(|verb| deny || **verb != Verb::Escalate)),
                None => return Err(PolicyError::UnknownVerb(word.clone())),
            }
        }
        Ok(Self(verbs))
    }

    fn has(&self, verb: Verb) -> bool {
        self.0.contains(&verb)
    }
}

/// A valid rule in compiled form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompiledTypeRule {
    pub(crate) types: Vec<TypePattern>,
    verbs: Verbs,
    pub(crate) partitions: Vec<Box<str>>,
    pub(crate) namespaces: Vec<Box<str>>,
    pub(crate) names: Vec<Box<str>>,
    pub(crate) name_prefixes: Vec<Box<str>>,
    pub(crate) deny: bool,
}

/// The closeness of a rule's fit: an exact name is closest, then the longest prefix.
pub(crate) type Closeness = usize;

pub(crate) const EXACT: Closeness = usize::MAX;

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
        check_words(rule)?;
        let pattern = |text: &String| TypePattern::read(text).ok_or_else(|| PolicyError::BadType(text.clone()));
        Ok(Self {
            types: rule.types.iter().map(pattern).collect::<Result<_, _>>()?,
            verbs: Verbs::read(&rule.verbs, rule.deny)?,
            partitions: words("partitions", &rule.partitions)?,
            namespaces: words("namespaces", &rule.namespaces)?,
            names: words("names", &rule.names)?,
            name_prefixes: words("name_prefixes", &rule.name_prefixes)?,
            deny: rule.deny,
        })
    }

    /// Makes the rule that allows what this one denies.
    pub(crate) fn allowing(&self) -> Self {
        let mut types = self.types.clone();
        if types.iter().any(|kind| *kind == TypePattern::Any || *kind == TypePattern::Group(HOST_GROUP.into())) {
            let access = ["Token", "Policy"];
            types.extend(access.map(|kind| TypePattern::Kind { group: HOST_GROUP.into(), kind: kind.into() }));
        }
        Self { types, deny: false, ..self.clone() }
    }

    pub(crate) fn has_verb(&self, verb: Verb) -> bool {
        self.verbs.has(verb)
    }

    fn concerns(&self, verb: Verb, of: IdRef<'_>) -> bool {
        self.verbs.has(verb) && self.types.iter().any(|pattern| pattern.fits(of, self.deny))
    }

    /// Whether the rule fits every name in every place.
    fn fits_all(&self) -> bool {
        let any = |units: &[Box<str>]| units.is_empty() || units.iter().any(|unit| **unit == *WILDCARD);
        self.fits_all_names() && any(&self.partitions) && any(&self.namespaces)
    }

    pub(crate) fn fits_all_names(&self) -> bool {
        self.names.is_empty() && self.name_prefixes.is_empty()
    }

    /// The closeness of the rule; `None` if it does not fit. A question without a name is about all resources of the
    /// type in a place, where `*` stands for every partition or namespace. A rule with names can allow such a question
    /// (each resource is checked later), but cannot deny it.
    fn fits(&self, verb: Verb, id: IdRef<'_>, name: Option<&str>) -> Option<Closeness> {
        let unit = |units: &[Box<str>], unit: &str| {
            units.is_empty() || units.iter().any(|allowed| **allowed == *unit || **allowed == *WILDCARD)
        };
        let fits =
            self.concerns(verb, id) && unit(&self.partitions, id.partition) && unit(&self.namespaces, id.namespace);
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

/// The form of a word.
type Form<'f> = &'f dyn Fn(&str) -> bool;

/// Checks that the words for places and names can fit a resource.
fn check_words(rule: &data::TypeRule) -> Result<(), PolicyError> {
    const UNIT: &str = "use the name of one, or * for all";
    const NAME: &str =
        "use lower-case letters, digits and dashes; prefixes go to name_prefixes (NAME* in --allow and --deny)";
    let is_unit = |word: &str| word == WILDCARD || name::is_valid(word);
    // A prefix may end with a dash, where a name may not.
    let is_prefix = |word: &str| word.is_empty() || name::is_valid(word) || name::is_valid(&format!("{word}0"));
    let lists: [(_, &[String], Form<'_>, _); 4] = [
        ("partitions", &rule.partitions, &is_unit, UNIT),
        ("namespaces", &rule.namespaces, &is_unit, UNIT),
        ("names", &rule.names, &name::is_valid, NAME),
        ("name_prefixes", &rule.name_prefixes, &is_prefix, NAME),
    ];
    for (what, words, is_right, form) in lists {
        if let Some(word) = words.iter().find(|word| !is_right(word)) {
            return Err(PolicyError::BadWord { what, word: word.clone(), rule: form });
        }
    }
    Ok(())
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

/// The common decision of several rules about all resources of the type of `of`, in every place; `None` if resources
/// may differ.
pub(crate) fn decide_every<'a>(
    rules: impl IntoIterator<Item = &'a CompiledTypeRule>,
    verb: Verb,
    of: IdRef<'_>,
) -> Option<Effect> {
    let (mut some, mut all) = (false, false);
    for rule in rules.into_iter().filter(|rule| rule.concerns(verb, of)) {
        // A closer rule may allow what this one denies.
        if rule.deny {
            return None;
        }
        (some, all) = (true, all || rule.fits_all());
    }
    match (some, all) {
        (_, true) => Some(Effect::Allow),
        (false, false) => Some(Effect::Undecided),
        (true, false) => None,
    }
}
