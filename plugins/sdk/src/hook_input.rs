//! The resource of a hook's call: as the host sent it, or as an earlier hook left it.
//!
//! # Contract
//! The host calls the hooks of one request in one instance, most often with the same bytes, and decoding those is most
//! of a hook's cost. So the resource that was decoded last is cached, and a hook of the same plugin that gets the same
//! bytes finds it decoded. The result is the same as that of decoding: a resource is not cached after a `mutate` that
//! refused, or that changed its encoding.
//!
//! # Cost
//! One comparison of the bytes, and a copy of them. One resource is kept for as long as the instance lives, or until
//! another replaces it.

use std::{any::Any, cell::RefCell, ptr};

use mortise_resource::pb;
use prost::{Message, Name};

use crate::{AnyResourceType, Diagnostics, Typed, envelope::Envelope};

/// The types of a plugin.
type Types = &'static [&'static dyn AnyResourceType];

thread_local! {
    static CACHED: RefCell<Option<CachedInput>> = const { RefCell::new(None) };
}

/// The resource that a hook decoded last, with its encoded bytes.
struct CachedInput {
    types: Types,
    found: &'static dyn AnyResourceType,
    input: Vec<u8>,
    typed: Box<dyn Any>,
}

/// The resource of a hook's call.
pub struct HookInput(Form);

#[allow(clippy::large_enum_variant, reason = "there is one at a time, and it is short-lived")]
enum Form {
    Encoded(Envelope),
    /// A decoded [`Typed`].
    Decoded(Box<dyn Any>),
}

impl HookInput {
    /// Makes an input whose data is not decoded yet.
    pub(crate) fn encoded(resource: Envelope) -> Self {
        Self(Form::Encoded(resource))
    }

    /// Takes the cached resource if it was decoded from these bytes, with its type.
    pub(crate) fn cached(types: Types, input: &[u8]) -> Option<(&'static dyn AnyResourceType, Self)> {
        CACHED.with_borrow_mut(|kept| {
            let kept = kept.take_if(|kept| ptr::eq(kept.types, types) && kept.input == input)?;
            Some((kept.found, Self(Form::Decoded(kept.typed))))
        })
    }

    /// Caches the resource for the next hook, if its data was decoded.
    pub(crate) fn cache(self, types: Types, found: &'static dyn AnyResourceType, input: &[u8]) {
        if let Form::Decoded(typed) = self.0 {
            let kept = CachedInput { types, found, input: input.to_vec(), typed };
            CACHED.set(Some(kept));
        }
    }

    /// The resource with its data decoded. Without data: the default message if `optional`, else an error.
    pub(crate) fn typed<M>(&mut self, optional: bool) -> Result<&mut Typed<M>, Diagnostics>
    where
        M: Message + Name + Default + 'static,
    {
        if let Form::Encoded(resource) = &mut self.0 {
            let typed = Typed::<M>::decode(std::mem::take(resource), optional)?;
            self.0 = Form::Decoded(Box::new(typed));
        }
        let typed = if let Form::Decoded(typed) = &mut self.0 { typed.downcast_mut() } else { None };
        // Never fails: a type has one message.
        typed.ok_or_else(|| Diagnostics::refusal("the resource was decoded as another message"))
    }

    /// Id of the resource; the default id if it has none.
    pub(crate) fn id<M: 'static>(&self) -> pb::Id {
        let id = match &self.0 {
            Form::Encoded(resource) => resource.id.as_ref(),
            Form::Decoded(typed) => typed.downcast_ref::<Typed<M>>().map(Typed::id),
        };
        id.cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use mortise_resource::Scope;
    use prost_types::Any;

    use super::*;
    use crate::{Decision, Plugin, ResourceType};

    #[derive(Clone, PartialEq, Message)]
    struct Song {
        #[prost(string, tag = "1")]
        title: String,
    }

    impl Name for Song {
        const PACKAGE: &'static str = "jukebox.v1";
        const NAME: &'static str = "Song";
    }

    const fn song(kind: &'static str) -> ResourceType<Song> {
        ResourceType::new("jukebox", "v1", kind, Scope::Namespace)
            .mutate(|song: &mut Typed<Song>| match song.data.title.as_str() {
                "louder" => {
                    song.data.title.push('!');
                    Ok(())
                }
                "another" => {
                    *song = Typed::new(pb::Id::default(), Song { title: "in its place".into() });
                    Ok(())
                }
                "itself" => {
                    *song = Typed::new(pb::Id::default(), song.data.clone());
                    Ok(())
                }
                "broken" => {
                    song.data.title.clear();
                    Err(Diagnostics::refusal("no"))
                }
                _ => Ok(()),
            })
            .validate(|song: &Typed<Song>, _, said| {
                said.warning(song.data.title.clone());
            })
            .authorize_write(|song: &Typed<Song>| Decision::Deny(song.data.title.clone()))
    }

    static TYPES: Types = &[&song("Song")];
    static PLUGIN: Plugin = Plugin::new("jukebox", "1.0.0", &[], TYPES);

    fn bytes(title: &str) -> Vec<u8> {
        let of = pb::Type { group: "jukebox".into(), group_version: "v1".into(), kind: "Song".into() };
        let value = Song { title: title.into() }.encode_to_vec();
        pb::Resource {
            id: Some(pb::Id { name: "hit".into(), r#type: Some(of), ..pb::Id::default() }),
            data: Some(Any { type_url: "type.googleapis.com/jukebox.v1.Song".into(), value }),
            ..pb::Resource::default()
        }
        .encode_to_vec()
    }

    fn is_kept(input: &[u8]) -> bool {
        CACHED.with_borrow(|kept| kept.as_ref().is_some_and(|kept| kept.input == input))
    }

    fn title_in(said: &Diagnostics) -> String {
        said.iter().map(|one| one.summary.clone()).collect()
    }

    #[test]
    fn the_next_hook_finds_it_decoded() {
        let (first, second) = (bytes("first"), bytes("second"));
        assert_eq!(PLUGIN.mutate(&first).unwrap(), None);
        assert!(is_kept(&first));
        assert_eq!(title_in(&PLUGIN.validate(&first, None)), "first");
        assert!(is_kept(&first));
        assert_eq!(PLUGIN.write(&first), Decision::Deny("first".into()));
        assert_eq!(title_in(&PLUGIN.validate(&second, Some(&first))), "second", "other bytes are another resource");
        assert!(is_kept(&second) && !is_kept(&first));
    }

    #[test]
    fn what_a_hook_changed_or_refused_is_not_kept() {
        let louder = bytes("louder");
        assert_eq!(title_in(&PLUGIN.validate(&louder, None)), "louder");
        assert_eq!(PLUGIN.mutate(&louder).unwrap(), Some(bytes("louder!")));
        assert!(!is_kept(&louder));
        assert_eq!(title_in(&PLUGIN.validate(&louder, None)), "louder", "as the host sent it");
        let broken = bytes("broken");
        assert!(PLUGIN.mutate(&broken).is_err());
        assert_eq!(PLUGIN.write(&broken), Decision::Deny("broken".into()));
    }

    #[test]
    fn a_hook_that_puts_another_resource_in_its_place_changes_its_data_alone() {
        assert_eq!(PLUGIN.mutate(&bytes("another")).unwrap(), Some(bytes("in its place")));
        let itself = bytes("itself");
        assert_eq!(PLUGIN.mutate(&itself).unwrap(), None);
        let (_, given) = HookInput::cached(TYPES, &itself).unwrap();
        assert_eq!(given.id::<Song>().name, "hit");
    }

    #[test]
    fn other_plugins_decode_for_themselves() {
        static OTHERS: Types = &[&ResourceType::<Song>::new("jukebox", "v1", "Song", Scope::Namespace)
            .authorize_write_by_id(|id| Decision::Deny(format!("{} by id", id.name)))];
        static OTHER: Plugin = Plugin::new("other", "1.0.0", &[], OTHERS);
        let input = bytes("mine");
        assert_eq!(title_in(&PLUGIN.validate(&input, None)), "mine");
        assert_eq!(OTHER.write(&input), Decision::Deny("hit by id".into()));
        assert!(is_kept(&input), "and leave what was kept where it is");
    }

    #[test]
    fn a_rule_by_id_has_the_id_of_what_was_decoded() {
        static TYPES: Types = &[&ResourceType::<Song>::new("jukebox", "v1", "Song", Scope::Namespace)
            .validate(|_, _, _| {})
            .authorize_write_by_id(|id| Decision::Deny(id.name.clone()))];
        static BY_ID: Plugin = Plugin::new("by-id", "1.0.0", &[], TYPES);
        let input = bytes("x");
        assert_eq!(BY_ID.write(&input), Decision::Deny("hit".into()), "undecoded");
        assert!(!is_kept(&input));
        assert!(BY_ID.validate(&input, None).is_empty() && is_kept(&input));
        assert_eq!(BY_ID.write(&input), Decision::Deny("hit".into()), "decoded");
    }
}
