//! The resources that the tool writes. The whole content of one follows from its name and a few numbers. So a
//! comparison needs only these, and notices every wrong byte.

use mortise_resource::pb;
use mortise_store::{Query, TypeKey};

const GROUP: &str = "faults";
const KINDS: [&str; 3] = ["Alpha", "Beta", "Gamma"];

/// State of a resource, without its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    /// Number of the write that made the content; each write has its own.
    pub(crate) number: u64,
    /// Number of the write that created the resource; the uid is made from this number.
    pub(crate) incarnation: u64,
    /// Name and incarnation of the owner.
    pub(crate) owner: Option<(String, u64)>,
    /// Version; 0 while it is unknown.
    pub(crate) version: u64,
}

impl State {
    /// Encodes the state in one word, without `,`, `=` or a space.
    pub(crate) fn to_word(&self) -> String {
        let Self { number, incarnation, owner, version } = self;
        let owner = owner.as_ref().map(|(name, incarnation)| format!("{name}@{incarnation}")).unwrap_or_default();
        format!("{number}:{incarnation}:{owner}:{version}")
    }

    /// Decodes a word of [`State::to_word`].
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        let mut parts = word.split(':');
        let mut next = || parts.next();
        let (number, incarnation) = (next()?.parse().ok()?, next()?.parse().ok()?);
        let owner = match next()? {
            "" => None,
            owner => owner.split_once('@').and_then(|(name, n)| Some((name.to_owned(), n.parse().ok()?))),
        };
        Some(Self { number, incarnation, owner, version: next()?.parse().ok()? })
    }
}

/// Returns the name of a writer's resource.
pub(crate) fn name(writer: usize, slot: usize) -> String {
    format!("w{writer:02}-{slot:03}")
}

/// Returns a query for all resources of each type.
pub(crate) fn queries() -> impl Iterator<Item = Query> {
    KINDS.into_iter().map(|kind| Query {
        type_key: TypeKey { group: GROUP.into(), kind: kind.into() },
        tenancy: pb::Tenancy { partition: "*".into(), namespace: "*".into() },
        name_prefix: String::new(),
    })
}

/// Returns the id of a resource.
pub(crate) fn id(name: &str, incarnation: u64) -> pb::Id {
    let sum: usize = name.bytes().map(usize::from).sum();
    let kind = KINDS.get(sum % KINDS.len()).copied().unwrap_or_default();
    let namespace = if sum.is_multiple_of(2) { "even" } else { "odd" };
    pb::Id {
        uid: format!("{incarnation:026}"),
        name: name.into(),
        r#type: Some(pb::Type { group: GROUP.into(), group_version: "v1".into(), kind: kind.into() }),
        tenancy: Some(pb::Tenancy { partition: "default".into(), namespace: namespace.into() }),
    }
}

/// Makes the resource with a name in a state; without a version if that is 0.
pub(crate) fn resource(name: &str, state: &State) -> pb::Resource {
    let number = state.number;
    let mut resource = pb::Resource {
        id: Some(id(name, state.incarnation)),
        owner: state.owner.as_ref().map(|(name, incarnation)| id(name, *incarnation)),
        generation: format!("{number:026}"),
        ..pb::Resource::default()
    };
    if state.version > 0 {
        resource.version = state.version.to_string();
    }
    // Each sixteen bytes show where they belong.
    let text = (0..units(number)).map(|unit| format!("{:08x}{unit:08x}", number & 0xffff_ffff));
    resource.metadata.insert("n".into(), number.to_string());
    resource.metadata.insert("text".into(), text.collect());
    resource
}

/// Returns the length of the text, in units of sixteen bytes: most are short, some are longer than one value of the
/// store.
fn units(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    match mixed % 64 {
        0..48 => mixed % 20,
        48..62 => mixed % 500,
        _ => mixed % 2_000,
    }
}

/// Returns name and state of a resource that was read.
///
/// # Errors
/// The tool did not write this resource, or not in this form.
pub(crate) fn describe(found: &pb::Resource) -> Result<(String, State), String> {
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<u64>().ok());
    let parts = |id: &pb::Id| Some((id.name.clone(), number(Some(&id.uid))?));
    let described = || {
        let (name, incarnation) = parts(found.id.as_ref()?)?;
        let owner = match &found.owner {
            Some(owner) => Some(parts(owner)?),
            None => None,
        };
        let written = number(found.metadata.get("n").map(String::as_str))?;
        let state = State { number: written, incarnation, owner, version: number(Some(&found.version))? };
        (resource(&name, &state) == *found).then_some((name, state))
    };
    described().ok_or_else(|| {
        let text: String = format!("{found:?}").chars().take(600).collect();
        format!("a resource that was never written in this form: {text}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_says_its_state_and_a_changed_one_does_not() {
        let owner = Some((name(1, 2), 7));
        for number in 1..200 {
            let state = State { number, incarnation: 3, owner: owner.clone(), version: 12 };
            let written = resource("w00-001", &state);
            assert_eq!(describe(&written).unwrap(), ("w00-001".to_owned(), state.clone()));
            assert_eq!(State::of_word(&state.to_word()).unwrap(), state);
            let mut changed = written;
            changed.metadata.get_mut("text").unwrap().push('x');
            describe(&changed).unwrap_err();
        }
        assert!((1..200).any(|number| units(number) * 16 > 8_192));
    }
}
