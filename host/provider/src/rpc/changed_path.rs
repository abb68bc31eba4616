//! The comparison of two plans.

use crate::value::{Step, Value};

/// The path of the first known value that the new plan changes; `None` if the plans agree.
pub(crate) fn first_changed_path(before: &Value, now: &Value) -> Option<Vec<Step>> {
    match (before, now) {
        (Value::Unknown(_), _) => None,
        (Value::Map(before), Value::Map(now)) if before.len() == now.len() => {
            before.iter().find_map(|(name, before)| {
                let step = Step::Attribute(name.clone());
                match now.get(name) {
                    Some(now) => first_changed_path(before, now).map(|path| [vec![step], path].concat()),
                    None => Some(vec![step]),
                }
            })
        }
        (Value::List(before), Value::List(now)) if before.len() == now.len() => {
            before.iter().zip(now).enumerate().find_map(|(index, (before, now))| {
                first_changed_path(before, now).map(|path| [vec![Step::Index(index)], path].concat())
            })
        }
        (before, now) if before == now => None,
        _ => Some(Vec::new()),
    }
}
