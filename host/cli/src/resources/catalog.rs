//! The server's types: each command fetches the list once, and the descriptors of a type when it reads or shows data of
//! it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use mortise_resource::{
    Scope,
    data::{GetTypeRequest, ListTypesRequest, TypeInfo},
    manifest, pb,
    types::{Gvk, gvk},
};
use mortise_text::{TypeTable, Types};
use prost_reflect::MessageDescriptor;

use crate::{CliError, Connect, Session, words::letters::nearest};

/// Types of the server at the time of the fetch.
///
/// As [`Types`] it fetches descriptors by itself, and blocks until they come: that needs a runtime with several
/// threads, which [`block_on`](crate::block_on) makes. [`Catalog::fault`] returns a failure of such a fetch.
pub struct Catalog {
    types: Vec<TypeInfo>,
    session: Session,
    known: Mutex<DescriptorCache>,
}

#[derive(Default)]
struct DescriptorCache {
    messages: BTreeMap<Gvk, Option<MessageDescriptor>>,
    fault: Option<CliError>,
}

impl Catalog {
    /// Connects to the server, and fetches its types.
    ///
    /// # Errors
    /// Those of [`Connect::session`] and of [`Session::call`].
    pub(crate) async fn connect(server: &Connect) -> Result<(Session, Self), CliError> {
        let session = server.session().await?;
        let catalog = Self::fetch(&session).await?;
        Ok((session, catalog))
    }

    /// Fetches the types of the server.
    ///
    /// # Errors
    /// Those of [`Session::call`].
    pub async fn fetch(session: &Session) -> Result<Self, CliError> {
        let answer = session.call("types", session.types().list_types(ListTypesRequest {})).await?;
        let types = answer.types.into_iter().filter(|t| t.r#type.is_some()).collect();
        Ok(Self { types, session: session.clone(), known: Mutex::default() })
    }

    /// The connection by which the types came.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// All types, sorted by group, version and kind.
    #[must_use]
    pub fn infos(&self) -> &[TypeInfo] {
        &self.types
    }

    /// Finds a type by its exact name.
    #[must_use]
    pub fn info(&self, wanted: &pb::Type) -> Option<&TypeInfo> {
        self.types.iter().find(|t| t.r#type.as_ref() == Some(wanted))
    }

    /// Finds the type for `text`: `group.version.Kind`, `group.Kind`, a short name, or a kind in any case, also with an
    /// s behind it. Of several versions of one kind, the newest counts.
    ///
    /// # Errors
    /// [`Exit::Usage`](crate::Exit::Usage) when nothing matches, or kinds of several groups do.
    pub fn find(&self, text: &str) -> Result<&TypeInfo, CliError> {
        find(&self.types, text)
    }

    /// Finds a type as [`Catalog::find`] does, and returns its name.
    ///
    /// # Errors
    /// Those of [`Catalog::find`].
    pub fn find_type(&self, text: &str) -> Result<pb::Type, CliError> {
        self.find(text).map(|info| info.r#type.clone().unwrap_or_default())
    }

    /// Fails if descriptors could not be fetched since the last call.
    ///
    /// # Errors
    /// The first failure of a fetch.
    pub fn fault(&self) -> Result<(), CliError> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).fault.take().map_or(Ok(()), Err)
    }

    /// Fetches a type's descriptors.
    fn ask(&self, ty: &pb::Type) -> Result<Option<MessageDescriptor>, CliError> {
        if self.info(ty).is_none() {
            return Ok(None);
        }
        let request = GetTypeRequest { r#type: Some(ty.clone()) };
        let call = self.session.call(gvk(ty), async { self.session.types().get_type(request).await });
        let answer = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(call))?;
        let (info, descriptors) = (answer.r#type.unwrap_or_default(), answer.descriptors.unwrap_or_default());
        let mut table = TypeTable::new();
        table.add(&info, &descriptors).map_err(|e| CliError::failed("cannot use the server's answer").caused_by(e))?;
        Ok(table.message(ty))
    }
}

impl Types for Catalog {
    fn message(&self, ty: &pb::Type) -> Option<MessageDescriptor> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(message) = known.messages.get(&Gvk::from(ty)) {
            return message.clone();
        }
        let message = self.ask(ty).unwrap_or_else(|fault| {
            known.fault.get_or_insert(fault);
            None
        });
        known.messages.insert(Gvk::from(ty), message.clone());
        message
    }

    fn named(&self, name: &str) -> Vec<pb::Type> {
        self.find(name).ok().and_then(|info| info.r#type.clone()).into_iter().collect()
    }

    fn all(&self) -> Vec<pb::Type> {
        self.types.iter().filter_map(|info| info.r#type.clone()).collect()
    }

    fn message_named(&self, full_name: &str) -> Option<MessageDescriptor> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.messages.values().flatten().find_map(|message| message.parent_pool().get_message_by_name(full_name))
    }

    fn scope(&self, ty: &pb::Type) -> Option<Scope> {
        self.info(ty).map(|info| match info.scope() {
            manifest::Scope::Unspecified => Scope::Undefined,
            manifest::Scope::Cluster => Scope::Cluster,
            manifest::Scope::Partition => Scope::Partition,
            manifest::Scope::Namespace => Scope::Namespace,
        })
    }
}

/// Test for a text that names a type.
type Test<'f> = &'f dyn Fn(&TypeInfo, &pb::Type) -> bool;

fn find<'t>(types: &'t [TypeInfo], text: &str) -> Result<&'t TypeInfo, CliError> {
    let lower = text.to_lowercase();
    let singular = lower.strip_suffix('s').unwrap_or(&lower);
    let tests: [Test<'_>; 7] = [
        &|_, t| gvk(t) == text,
        &|_, t| gvk(t).to_lowercase() == lower,
        &|_, t| format!("{}.{}", t.group, t.kind).to_lowercase() == lower,
        &|info, _| info.short_names.contains(&lower),
        &|_, t| t.kind.to_lowercase() == lower,
        &|_, t| t.kind.to_lowercase() == singular,
        // kubectl's short name.
        &|info, t| lower == "ns" && t.kind == "Namespace" && info.plugin.is_empty(),
    ];
    let matching = |test: Test<'_>| -> Vec<&TypeInfo> {
        types.iter().filter(|info| info.r#type.as_ref().is_some_and(|t| test(info, t))).collect()
    };
    let found = tests.into_iter().map(matching).find(|found| !found.is_empty()).unwrap_or_default();
    let type_of = |info: &TypeInfo| info.r#type.clone().unwrap_or_default();
    let kind = |info: &TypeInfo| (type_of(info).group, type_of(info).kind);
    if let Some(first) = found.first()
        && found.iter().any(|info| kind(info) != kind(first))
    {
        let names: Vec<_> = found.iter().map(|info| gvk(&type_of(info))).collect();
        return Err(
            CliError::usage(format!("{text:?} may mean {}", names.join(" or "))).remedy("give the full name of a type")
        );
    }
    let age =
        |info: &&&TypeInfo| (!info.orphaned, version_order(&type_of(info).group_version), type_of(info).group_version);
    found.iter().max_by_key(age).copied().ok_or_else(|| {
        let kinds: Vec<String> = types.iter().map(|info| type_of(info).kind.to_lowercase()).collect();
        let names = kinds.iter().chain(types.iter().flat_map(|info| &info.short_names)).map(String::as_str);
        let known: BTreeSet<&str> = names.collect();
        let error = CliError::usage(format!("the server has no type {text:?}"));
        match nearest(singular, known.iter().copied()).or_else(|| nearest(&lower, known)) {
            Some(near) => error.remedy(format!("did you mean {near}? `mortise types` lists its types")),
            None => error.remedy("`mortise types` lists its types"),
        }
    })
}

/// Orders versions of types as Kubernetes does: numbers as numbers, and `v1` after `v1beta2` after `v1alpha1`. These
/// are not semantic versions, which `semver` would order.
fn version_order(version: &str) -> (u64, u8, u64) {
    let rest = version.strip_prefix('v').unwrap_or(version);
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(digits);
    let letters = rest.trim_end_matches(|c: char| c.is_ascii_digit());
    let stage = match letters {
        "" => 2,
        "beta" => 1,
        _ => 0,
    };
    let minor = rest.get(letters.len()..).unwrap_or_default();
    (major.parse().unwrap_or(0), stage, minor.parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types() -> Vec<TypeInfo> {
        let info = |text: &str, short: &str| {
            let t = text.parse::<Gvk>().unwrap().to_pb();
            let short_names = (!short.is_empty()).then(|| short.to_owned()).into_iter().collect();
            TypeInfo { r#type: Some(t), short_names, ..TypeInfo::default() }
        };
        vec![
            info("demo.v1.Artist", ""),
            info("demo.v2.Artist", "ar"),
            info("demo.v10beta2.Artist", ""),
            info("edge.v1.Route", "rt"),
            info("net.v1.Route", ""),
            info("net.v1.Bus", ""),
        ]
    }

    #[test]
    fn a_type_is_found_by_what_people_call_it() {
        let types = types();
        let find =
            |text: &str| find(&types, text).map(|info| gvk(info.r#type.as_ref().unwrap())).map_err(|e| e.message);
        assert_eq!(find("demo.v1.Artist").as_deref(), Ok("demo.v1.Artist"));
        assert_eq!(find("DEMO.V1.artist").as_deref(), Ok("demo.v1.Artist"));
        assert_eq!(find("ar").as_deref(), Ok("demo.v2.Artist"));
        assert_eq!(find("bus").as_deref(), Ok("net.v1.Bus"));
        assert_eq!(find("buss").as_deref(), Ok("net.v1.Bus"));
        assert_eq!(find("edge.route").as_deref(), Ok("edge.v1.Route"));
        assert_eq!(find("artists").as_deref(), Ok("demo.v10beta2.Artist"));
        assert_eq!(find("route"), Err("\"route\" may mean edge.v1.Route or net.v1.Route".into()));
        assert_eq!(find("nope"), Err("the server has no type \"nope\"".into()));
        assert_eq!(find(""), Err("the server has no type \"\"".into()));
    }

    #[test]
    fn versions_are_ordered_as_people_do() {
        let mut all = ["v2", "v1alpha1", "v10", "v1", "v1beta2", "v1beta1"];
        all.sort_by_key(|v| version_order(v));
        assert_eq!(all, ["v1alpha1", "v1beta1", "v1beta2", "v1", "v2", "v10"]);
    }
}
