//! Planned values: the user's spelling where the configuration has a value, and the server's values elsewhere.
//!
//! Core requires a plan to repeat the configuration exactly, but a plugin's hooks may write something else in its
//! place. So the state shows the user's spelling, and [`Divergences`] record the server's values.

use std::collections::BTreeMap;

use super::{
    equality::are_equal,
    shape::{Attribute, Object, Presence, Shape},
};
use crate::value::{Step, Value};

/// The server's values where the state has the user's spelling, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Divergences(BTreeMap<Vec<Step>, Value>);

impl Divergences {
    /// The server's value at a path.
    #[must_use]
    pub fn at(&self, path: &[Step]) -> Option<&Value> {
        self.0.get(path)
    }

    /// Whether the state has the server's values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Estimate of their bytes in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let step = |step: &Step| match step {
            Step::Attribute(text) | Step::Key(text) => size_of::<Step>() + text.len(),
            Step::Index(_) => size_of::<Step>(),
        };
        self.0.iter().map(|(path, value)| path.iter().map(step).sum::<usize>() + value.memory_bytes()).sum()
    }

    /// The paths and the server's values there.
    pub fn iter(&self) -> impl Iterator<Item = (&[Step], &Value)> {
        self.0.iter().map(|(path, value)| (path.as_slice(), value))
    }

    /// Records the server's value at a path.
    pub fn record(&mut self, path: &[Step], value: Value) {
        self.0.insert(path.to_vec(), value);
    }
}

/// Combines the configured value at `root` with the value that the server would make of it. Without the server's value
/// (a part of the configuration is not known yet), parts that the server might fill in are unknown; an unknown part of
/// the server's value is one without it. `computed` says whether the server might fill in the whole.
#[must_use]
pub fn conform(
    shape: &Shape,
    computed: bool,
    root: &str,
    config: &Value,
    mutated: Option<&Value>,
    divergences: &mut Divergences,
) -> Value {
    let mut conformer = Conformer { path: vec![Step::Attribute(root.to_owned())], divergences };
    conformer.attribute(shape, Presence::Implicit, computed, config, mutated)
}

struct Conformer<'d> {
    path: Vec<Step>,
    divergences: &'d mut Divergences,
}

impl Conformer<'_> {
    fn within(&mut self, step: Step, inner: impl FnOnce(&mut Self) -> Value) -> Value {
        self.path.push(step);
        let value = inner(self);
        self.path.pop();
        value
    }

    fn object(&mut self, object: &Object, config: &Value, mutated: Option<&Value>) -> Value {
        let Value::Map(config) = config else { return config.clone() };
        let choice = |attribute: &Attribute| attribute.field.containing_oneof().filter(|oneof| !oneof.is_synthetic());
        let is_set = |attribute: &&Attribute| config.get(&attribute.name).is_some_and(|value| !value.is_null());
        let chosen: Vec<_> = object.attributes.iter().filter(is_set).filter_map(choice).collect();
        let attribute = |attribute: &Attribute, conformer: &mut Self| {
            let config = config.get(&attribute.name).unwrap_or(&Value::Null);
            let mutated = mutated.map(|value| match value {
                Value::Map(fields) => fields.get(&attribute.name).unwrap_or(&Value::Null),
                _ => &Value::Null,
            });
            // A plugin fills in a member of a oneof where the user sets none.
            let computed = attribute.flags.computed
                && (mutated.is_some() || choice(attribute).is_none_or(|oneof| !chosen.contains(&oneof)));
            conformer.attribute(&attribute.shape, attribute.presence, computed, config, mutated)
        };
        let attributes = object.attributes.iter().map(|field| {
            let value = self.within(Step::Attribute(field.name.clone()), |conformer| attribute(field, conformer));
            (field.name.clone(), value)
        });
        Value::Map(attributes.collect::<BTreeMap<_, _>>())
    }

    fn attribute(
        &mut self,
        shape: &Shape,
        presence: Presence,
        computed: bool,
        config: &Value,
        mutated: Option<&Value>,
    ) -> Value {
        let mutated = mutated.filter(|mutated| !matches!(mutated, Value::Unknown(_)));
        match (config, mutated) {
            (Value::Null, Some(mutated)) if computed => mutated.clone(),
            (Value::Null, None) if computed => Value::unknown(),
            _ => self.configured(shape, presence, config, mutated),
        }
    }

    /// Combines a configured value with the server's, in the configuration's spelling.
    fn configured(&mut self, shape: &Shape, presence: Presence, config: &Value, mutated: Option<&Value>) -> Value {
        let mutated = mutated.filter(|mutated| !matches!(mutated, Value::Unknown(_)));
        match (shape, config, mutated) {
            (_, Value::Null | Value::Unknown(_), _) => config.clone(),
            (Shape::Object(object), Value::Map(_), None | Some(Value::Map(_))) => self.object(object, config, mutated),
            (Shape::List(element), Value::List(items), None) => {
                Value::List(self.items(element, items.iter().map(|item| (item, None))))
            }
            (Shape::List(element), Value::List(items), Some(Value::List(server))) if items.len() == server.len() => {
                Value::List(self.items(element, items.iter().zip(server.iter().map(Some))))
            }
            (Shape::Map(element), Value::Map(entries), None) => {
                self.entries(element, entries.iter().map(|(key, value)| (key, value, None)))
            }
            (Shape::Map(element), Value::Map(entries), Some(Value::Map(server)))
                if entries.keys().eq(server.keys()) =>
            {
                self.entries(element, entries.iter().map(|(key, value)| (key, value, server.get(key))))
            }
            (_, config, None) => config.clone(),
            // Where the forms differ, unset parts stay null, and the whole value is recorded.
            (_, config, Some(server)) => {
                if !are_equal(shape, presence, config, server) {
                    let path = self.path.clone();
                    self.divergences.record(&path, server.clone());
                }
                config.clone()
            }
        }
    }

    fn items<'v>(&mut self, shape: &Shape, items: impl Iterator<Item = (&'v Value, Option<&'v Value>)>) -> Vec<Value> {
        let item = |(index, (config, server))| {
            self.within(Step::Index(index), |conformer| conformer.configured(shape, Presence::Explicit, config, server))
        };
        items.enumerate().map(item).collect()
    }

    fn entries<'v>(
        &mut self,
        shape: &Shape,
        entries: impl Iterator<Item = (&'v String, &'v Value, Option<&'v Value>)>,
    ) -> Value {
        let entry = |(key, config, server): (&String, &Value, Option<&Value>)| {
            let value = self.within(Step::Key(key.clone()), |conformer| {
                conformer.configured(shape, Presence::Explicit, config, server)
            });
            (key.clone(), value)
        };
        Value::Map(entries.map(entry).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::sync::Arc;

    use super::*;
    use crate::mapping::{shape::tests::object, undo};

    fn conform(object: &Object, config: &Value, mutated: Option<&Value>) -> (Value, Divergences) {
        let mut divergences = Divergences::default();
        let shape = Shape::Object(Arc::new(object.clone()));
        let planned = super::conform(&shape, false, "data", config, mutated, &mut divergences);
        (planned, divergences)
    }

    fn undo_of(object: &Object, prior: &Value, server: &Value, divergences: &Divergences) -> Value {
        undo(&Shape::Object(Arc::new(object.clone())), "data", prior, server, divergences)
    }

    fn text(text: &str) -> Value {
        Value::String(text.into())
    }

    fn list(items: &[&str]) -> Value {
        Value::List(items.iter().map(|item| text(item)).collect())
    }

    const MESSAGES: &str = "message In { string a = 1; int64 n = 2; }
        message M { string name = 1; string kind = 2; repeated string tags = 3; repeated In ins = 4; map<string, In> by = 5;
                    In in = 6; optional string maybe = 7; oneof c { string one = 8; string two = 9; } }";

    /// An object with these attributes; the others are null.
    fn of(attributes: &[(&str, Value)]) -> Value {
        let all = ["name", "kind", "tags", "ins", "by", "in", "maybe", "one", "two"];
        let value = |name: &str| {
            attributes.iter().find(|(known, _)| *known == name).map_or(Value::Null, |(_, value)| value.clone())
        };
        Value::object(all.map(|name| (name, value(name))))
    }

    fn inner(a: Value, n: Value) -> Value {
        Value::object([("a", a), ("n", n)])
    }

    #[test]
    fn the_plan_has_the_users_spelling_and_the_servers_values() {
        let object = object(MESSAGES);
        let config =
            of(&[("name", text("UPPER")), ("tags", list(&["b", "a", "b"])), ("in", inner(text("x"), Value::Null))]);
        let five = Value::Number(5_i64.into());
        let mutated = of(&[
            ("name", text("upper")),
            ("kind", text("defaulted")),
            ("tags", list(&["a", "b"])),
            ("in", inner(text("x"), five.clone())),
        ]);
        let (planned, divergences) = conform(&object, &config, Some(&mutated));
        let expected = of(&[
            ("name", text("UPPER")),
            ("kind", text("defaulted")),
            ("tags", list(&["b", "a", "b"])),
            ("in", inner(text("x"), five)),
        ]);
        assert_eq!(planned, expected);
        let recorded: Vec<_> = divergences.iter().map(|(path, value)| (path.to_vec(), value.clone())).collect();
        let path = |name: &str| vec![Step::Attribute("data".into()), Step::Attribute(name.into())];
        assert_eq!(recorded, [(path("name"), text("upper")), (path("tags"), list(&["a", "b"]))]);
        assert_eq!(undo_of(&object, &planned, &mutated, &divergences), planned);
        // Another client changed it.
        let changed = of(&[("name", text("other")), ("kind", text("defaulted")), ("tags", list(&["a", "b"]))]);
        let read = undo_of(&object, &planned, &changed, &divergences);
        let Value::Map(read) = read else { panic!("{read:?}") };
        assert_eq!(
            (&read["name"], &read["tags"], &read["in"]),
            (&text("other"), &list(&["b", "a", "b"]), &Value::Null)
        );
    }

    #[test]
    fn what_is_not_known_stays_so_and_what_may_be_filled_in_is_unknown() {
        let object = object(MESSAGES);
        let config = of(&[("name", Value::unknown()), ("in", inner(Value::unknown(), Value::Null))]);
        let (planned, divergences) = conform(&object, &config, None);
        let Value::Map(planned) = planned else { panic!("{planned:?}") };
        assert!(divergences.is_empty());
        assert_eq!(planned["in"], inner(Value::unknown(), Value::unknown()));
        assert_eq!((&planned["kind"], &planned["tags"]), (&Value::unknown(), &Value::unknown()));
        // The server may set a member of a oneof, unless the user does.
        assert_eq!((&planned["one"], &planned["two"]), (&Value::unknown(), &Value::unknown()));
        let (planned, _) = conform(&object, &of(&[("one", Value::unknown())]), None);
        assert_eq!((planned.get("one"), planned.get("two")), (&Value::unknown(), &Value::Null));
        let filled = of(&[("two", text("by the plugin"))]);
        let (planned, divergences) = conform(&object, &of(&[]), Some(&filled));
        assert_eq!((planned.get("two"), divergences.is_empty()), (&text("by the plugin"), true));
        // A plugin may choose another member than the user.
        let (planned, _) = conform(&object, &of(&[("one", text("by the user"))]), Some(&filled));
        assert_eq!(planned.get("two"), &text("by the plugin"));
        let other = object.attributes.iter().find(|attribute| attribute.name == "two").unwrap();
        assert!(other.flags.computed && other.flags.optional);
    }

    prop_compose! {
        fn texts()(text in prop::option::of("[aAbB]{0,2}")) -> Value {
            text.map_or(Value::Null, Value::String)
        }
    }

    prop_compose! {
        fn inners()(a in texts(), n in prop::option::of(0..3_i64)) -> Value {
            inner(a, n.map_or(Value::Null, |n| Value::Number(n.into())))
        }
    }

    prop_compose! {
        fn configs()(
            name in texts(), kind in texts(), maybe in texts(),
            tags in prop::option::of(prop::collection::vec("[aAbB]{0,2}", 0..4)),
            ins in prop::option::of(prop::collection::vec(inners(), 0..3)),
            by in prop::option::of(prop::collection::btree_map("[ab]", inners(), 0..3)),
            single in prop::option::of(inners()),
        ) -> Value {
            of(&[
                ("name", name), ("kind", kind), ("maybe", maybe),
                ("tags", tags.map_or(Value::Null, |tags| Value::List(tags.into_iter().map(Value::String).collect()))),
                ("ins", ins.map_or(Value::Null, Value::List)),
                ("by", by.map_or(Value::Null, Value::Map)),
                ("in", single.unwrap_or(Value::Null)),
            ])
        }
    }

    /// Imitates a server's hook: it lowers, sorts, removes duplicates and fills in.
    fn hook(value: &Value, key: &str) -> Value {
        match value {
            Value::Null if matches!(key, "kind" | "a") => text("filled"),
            Value::String(text) if key != "maybe" => Value::String(text.to_lowercase()),
            Value::List(items) if key == "tags" => {
                let mut items: Vec<_> = items.iter().map(|item| hook(item, "tag")).collect();
                items.sort_by_key(|item| format!("{item:?}"));
                items.dedup();
                Value::List(items)
            }
            Value::List(items) => Value::List(items.iter().map(|item| hook(item, key)).collect()),
            Value::Map(entries) => {
                Value::Map(entries.iter().map(|(name, value)| (name.clone(), hook(value, name))).collect())
            }
            other => other.clone(),
        }
    }

    /// Whether a planned value repeats the configuration wherever that has a value.
    fn follows(planned: &Value, config: &Value) -> bool {
        match (planned, config) {
            (_, Value::Null) => true,
            (Value::Map(planned), Value::Map(config)) => {
                config.iter().all(|(key, config)| planned.get(key).is_some_and(|planned| follows(planned, config)))
            }
            (Value::List(planned), Value::List(config)) => {
                planned.len() == config.len()
                    && planned.iter().zip(config).all(|(planned, config)| follows(planned, config))
            }
            (planned, config) => planned == config,
        }
    }

    proptest! {
        #[test]
        fn a_plan_follows_the_configuration_and_reading_finds_nothing_changed(config in configs()) {
            let object = object(MESSAGES);
            let server = hook(&config, "");
            let (planned, divergences) = conform(&object, &config, Some(&server));
            prop_assert!(follows(&planned, &config), "{planned:?}");
            prop_assert_eq!(&undo_of(&object, &planned, &server, &divergences), &planned);
            // Conforming the server's value again gives the same plan and divergences.
            prop_assert_eq!(&conform(&object, &config, Some(&server)), &(planned, divergences));
        }
    }
}
