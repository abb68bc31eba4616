//! Declared authorisation, which replaces a hook: a permission, and a text about the resource to ask it on. A check
//! costs a few short copies, where a hook costs an instance.

use mortise_resource::{
    IdRef,
    authorizer::{Authorizer, Names, Verb, denial_text},
    manifest as wire,
};

use crate::manifest::error::ManifestError;

/// Longest permission, and longest text to ask it on, bytes.
const MAX_LEN: usize = 1024;

/// The declared permissions of a type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Reading.
    pub read: Option<Permission>,
    /// Writing and deleting.
    pub write: Option<Permission>,
    /// Listing and watching.
    pub list: Option<Permission>,
}

/// A permission on a text made from the resource's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permission {
    permission: String,
    on: Vec<TextPart>,
}

/// A piece of the text to ask a permission on.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TextPart {
    Text(String),
    Part(IdPart),
}

/// A part of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IdPart {
    Group,
    GroupVersion,
    Kind,
    Partition,
    Namespace,
    Name,
}

const ID_PARTS: [(&str, IdPart); 6] = [
    ("group", IdPart::Group),
    ("group_version", IdPart::GroupVersion),
    ("kind", IdPart::Kind),
    ("partition", IdPart::Partition),
    ("namespace", IdPart::Namespace),
    ("name", IdPart::Name),
];

impl Permissions {
    /// Reads the permissions of a manifest's type.
    pub(crate) fn read(wire: &wire::Permissions) -> Result<Self, ManifestError> {
        let read_permission = |what: &str, declared: &Option<wire::Permission>| {
            let read = declared.as_ref().map(Permission::read).transpose();
            read.map_err(|fault| fault.at(format!("permissions.{what}")))
        };
        let list = read_permission("list", &wire.list)?;
        if list.as_ref().is_some_and(|list| list.on.contains(&TextPart::Part(IdPart::Name))) {
            return Err(ManifestError::new("a list has no {name}; leave it out").at("permissions.list"));
        }
        Ok(Self { read: read_permission("read", &wire.read)?, write: read_permission("write", &wire.write)?, list })
    }
}

impl Permission {
    /// Reads a permission of a manifest.
    ///
    /// # Errors
    /// The fault, and the next step.
    pub fn read(wire: &wire::Permission) -> Result<Self, ManifestError> {
        if wire.permission.is_empty() {
            return Err(ManifestError::new("permission is required, such as \"key:read\""));
        }
        if wire.permission.len() > MAX_LEN || wire.on.len() > MAX_LEN {
            return Err(ManifestError::new(format!("permission and on may have at most {MAX_LEN} bytes each")));
        }
        let mut on = Vec::new();
        let mut rest = wire.on.as_str();
        while let Some((text, after)) = rest.split_once('{') {
            let part = after.split_once('}').and_then(|(name, after)| {
                let (_, part) = ID_PARTS.iter().find(|(known, _)| *known == name)?;
                Some((*part, after))
            });
            let Some((part, after)) = part else {
                let known = ID_PARTS.map(|(name, _)| format!("{{{name}}}")).join(", ");
                return Err(
                    ManifestError::new(format!("{:?} has a brace that is not one of {known}", wire.on)).at("on")
                );
            };
            on.extend([TextPart::Text(text.to_owned()), TextPart::Part(part)]);
            rest = after;
        }
        on.push(TextPart::Text(rest.to_owned()));
        on.retain(|piece| *piece != TextPart::Text(String::new()));
        Ok(Self { permission: wire.permission.clone(), on })
    }

    /// Returns the area of the permission, such as `key` of `key:read`.
    #[must_use]
    pub fn area(&self) -> &str {
        self.permission.rsplit_once(':').map_or(&self.permission, |(area, _)| area)
    }

    /// Whether the caller's rules surely allow the verb, with this permission, on every resource of the type of `of`.
    #[must_use]
    pub fn is_held_on_all(&self, caller: &dyn Authorizer, verb: Verb, of: IdRef<'_>) -> bool {
        let mut text = String::with_capacity(96);
        for piece in &self.on {
            match piece {
                TextPart::Text(fixed) => text.push_str(fixed),
                TextPart::Part(IdPart::Group) => text.push_str(of.group),
                TextPart::Part(IdPart::GroupVersion) => text.push_str(of.group_version),
                TextPart::Part(IdPart::Kind) => text.push_str(of.kind),
                TextPart::Part(IdPart::Partition | IdPart::Namespace | IdPart::Name) => {
                    return caller.allows_every(verb, of, &self.permission, Names::Below(&text));
                }
            }
        }
        caller.allows_every(verb, of, &self.permission, Names::One(&text))
    }

    /// Checks whether the caller has the permission on the resource of this id. Answers the refusal, which names the
    /// permission and the text that it was asked on; `None` if the caller has it.
    #[must_use]
    pub fn refusal(&self, caller: &dyn Authorizer, id: IdRef<'_>) -> Option<String> {
        let part = |part| match part {
            IdPart::Group => id.group,
            IdPart::GroupVersion => id.group_version,
            IdPart::Kind => id.kind,
            IdPart::Partition => id.partition,
            IdPart::Namespace => id.namespace,
            IdPart::Name => id.name,
        };
        let mut on = String::with_capacity(96);
        for piece in &self.on {
            on.push_str(match piece {
                TextPart::Text(text) => text,
                TextPart::Part(which) => part(*which),
            });
        }
        (!caller.is_allowed(&self.permission, &on)).then(|| denial_text(caller.caller(), &self.permission, &on))
    }
}

#[cfg(test)]
mod tests {
    use mortise_resource::pb;

    use super::*;

    struct Only(&'static str, &'static str);

    impl Authorizer for Only {
        fn caller(&self) -> &str {
            "the tester"
        }

        fn is_allowed(&self, permission: &str, name: &str) -> bool {
            (permission, name) == (self.0, self.1)
        }

        fn fingerprint(&self) -> u64 {
            0
        }
    }

    fn permission(on: &str) -> Result<Permission, String> {
        Permission::read(&wire::Permission { permission: "key:read".into(), on: on.into() }).map_err(|e| e.to_string())
    }

    fn id() -> pb::Id {
        pb::Id {
            uid: String::new(),
            name: "korn".into(),
            r#type: Some(pb::Type { group: "demo".into(), group_version: "v2".into(), kind: "Artist".into() }),
            tenancy: Some(pb::Tenancy { partition: "p".into(), namespace: "n".into() }),
        }
    }

    #[test]
    fn parts_of_the_id_stand_where_the_text_says() {
        for (on, asked) in [
            ("resource/{group}.{group_version}.{kind}/{name}", "resource/demo.v2.Artist/korn"),
            ("{partition}/{namespace}", "p/n"),
            ("}all{name}{name}", "}allkornkorn"),
            ("", ""),
        ] {
            let permission = permission(on).unwrap();
            assert_eq!(permission.refusal(&Only("key:read", asked), IdRef::from(&id())), None, "{on}");
            let refused = permission.refusal(&Only("key:write", asked), IdRef::from(&id())).unwrap();
            assert_eq!(refused, denial_text("the tester", "key:read", asked), "{on}");
        }
    }

    #[test]
    fn what_is_no_part_is_refused_by_name() {
        for on in ["{", "{name", "{Name}", "{uid}", "a{}b", "{{name}}"] {
            assert!(permission(on).unwrap_err().contains("{group_version}"), "{on}");
        }
        let empty = wire::Permission { permission: String::new(), on: "x".into() };
        assert!(Permission::read(&empty).unwrap_err().to_string().contains("key:read"));
        assert!(permission(&"x".repeat(MAX_LEN + 1)).unwrap_err().contains("1024"));
        let list = wire::Permission { permission: "key:list".into(), on: "{name}".into() };
        let declared = wire::Permissions { list: Some(list), ..wire::Permissions::default() };
        assert!(Permissions::read(&declared).unwrap_err().to_string().starts_with("permissions.list"));
    }
}
