//! Values of a read: the user's spelling, if the server still has the value that it made from it, else the server's
//! value. `conform` recorded what the server made of each spelling.

use std::collections::BTreeMap;

use super::{
    conform::Divergences,
    equality::are_equal,
    shape::{Object, Presence, Shape},
};
use crate::value::{Step, Value};

/// Combines the server's value of the attribute `root` with the prior state.
#[must_use]
pub fn undo(shape: &Shape, root: &str, prior: &Value, server: &Value, divergences: &Divergences) -> Value {
    let mut restorer = Restorer { path: vec![Step::Attribute(root.to_owned())], divergences };
    restorer.value(shape, Presence::Implicit, prior, server)
}

struct Restorer<'a> {
    path: Vec<Step>,
    divergences: &'a Divergences,
}

impl Restorer<'_> {
    fn within(&mut self, step: Step, inner: impl FnOnce(&mut Self) -> Value) -> Value {
        self.path.push(step);
        let value = inner(self);
        self.path.pop();
        value
    }

    fn object(&mut self, object: &Object, prior: &Value, server: &Value) -> Value {
        let (Value::Map(prior), Value::Map(server)) = (prior, server) else { return server.clone() };
        let mut attributes = BTreeMap::new();
        for attribute in &object.attributes {
            let part = |values: &BTreeMap<String, Value>| values.get(&attribute.name).cloned().unwrap_or(Value::Null);
            let (prior, server) = (part(prior), part(server));
            let value = self.within(Step::Attribute(attribute.name.clone()), |restorer| {
                restorer.value(&attribute.shape, attribute.presence, &prior, &server)
            });
            attributes.insert(attribute.name.clone(), value);
        }
        Value::Map(attributes)
    }

    fn value(&mut self, shape: &Shape, presence: Presence, prior: &Value, server: &Value) -> Value {
        if let Some(known) = self.divergences.at(&self.path) {
            return if are_equal(shape, presence, known, server) { prior.clone() } else { server.clone() };
        }
        match (shape, prior, server) {
            (Shape::Object(object), Value::Map(_), Value::Map(_)) => self.object(object, prior, server),
            (Shape::List(element), Value::List(was), Value::List(is)) if was.len() == is.len() => {
                let item = |(index, (was, is))| {
                    self.within(Step::Index(index), |restorer| restorer.value(element, Presence::Explicit, was, is))
                };
                Value::List(was.iter().zip(is).enumerate().map(item).collect())
            }
            (Shape::Map(element), Value::Map(was), Value::Map(is)) => {
                let entry = |(key, is): (&String, &Value)| {
                    let value = match was.get(key) {
                        Some(was) => self.within(Step::Key(key.clone()), |restorer| {
                            restorer.value(element, Presence::Explicit, was, is)
                        }),
                        None => is.clone(),
                    };
                    (key.clone(), value)
                };
                Value::Map(is.iter().map(entry).collect())
            }
            _ if are_equal(shape, presence, prior, server) => prior.clone(),
            _ => server.clone(),
        }
    }
}
