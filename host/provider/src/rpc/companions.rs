//! Checks of attributes that are only written, in a configuration.

use super::diagnostic::error_at;
use crate::{
    mapping::{Attribute, Shape},
    proto::tfplugin6::Diagnostic,
    schema::ResourceSchema,
    value::{Step, Value},
};

/// The faults of a configuration. `is_taken` says whether core keeps such values out of its files.
pub(super) fn faults(schema: &ResourceSchema, config: &Value, is_taken: bool) -> Vec<Diagnostic> {
    let mut search = Search { is_taken, path: vec![Step::Attribute("data".to_owned())], found: Vec::new() };
    if schema.has_companions {
        search.within(&schema.shape(), config.get("data"));
    }
    search.found
}

struct Search {
    is_taken: bool,
    path: Vec<Step>,
    found: Vec<Diagnostic>,
}

impl Search {
    fn within(&mut self, shape: &Shape, value: &Value) {
        match (shape, value) {
            (Shape::Object(object), Value::Map(_)) => {
                for attribute in &object.attributes {
                    if attribute.has_companion {
                        self.check(attribute, value);
                    }
                    let step = Step::Attribute(attribute.name.clone());
                    self.below(step, &attribute.shape, value.get(&attribute.name));
                }
            }
            (Shape::List(element), Value::List(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.below(Step::Index(index), element, item);
                }
            }
            (Shape::Map(element), Value::Map(entries)) => {
                for (key, entry) in entries {
                    self.below(Step::Key(key.clone()), element, entry);
                }
            }
            _ => {}
        }
    }

    fn below(&mut self, step: Step, shape: &Shape, value: &Value) {
        self.path.push(step);
        self.within(shape, value);
        self.path.pop();
    }

    fn check(&mut self, attribute: &Attribute, value: &Value) {
        let (name, write_only, version) = (&attribute.name, attribute.write_only_name(), attribute.version_name());
        let is_set = |name: &str| !value.get(name).is_null();
        let fault = match (is_set(name), is_set(&write_only), is_set(&version)) {
            (_, true, _) if !self.is_taken => {
                let remedy = format!("use {name}, or Terraform 1.11, OpenTofu 1.11 or later");
                Some((&write_only, format!("this core would keep {write_only} in its state; {remedy}")))
            }
            (true, true, _) => Some((&write_only, format!("only one of {name} and {write_only} may be set"))),
            (_, true, false) => Some((&write_only, format!("set {version}, too; a change of it writes the value"))),
            (_, false, true) => Some((&version, format!("it is the version of {write_only}, which is not set"))),
            (false, false, _) if attribute.flags.required => {
                Some((name, format!("{name} or {write_only} is required")))
            }
            _ => None,
        };
        if let Some((at, summary)) = fault {
            self.path.push(Step::Attribute(at.clone()));
            self.found.push(error_at(&self.path, summary));
            self.path.pop();
        }
    }
}
