//! Statuses: findings of a controller about a resource, for people and for other controllers.

use mortise_resource::pb;

use crate::{Context, Failure, Typed};

/// Builder of a status: conditions of one resource, under a key of this controller's own.
///
/// Conditions form a map by their type; a condition that is true means all is well. Report all of them each time, true
/// or false.
///
/// A written status wakes the controllers of the resource, also the one that wrote it. [`Self::write_if_changed`]
/// writes only a status that differs: the time of writing and the order of conditions do not count.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    key: String,
    status: pb::Status,
}

impl Status {
    /// Makes a status about a resource as it was read, under a key such as `example.org/artists`.
    pub fn new<M>(key: impl Into<String>, observed: &Typed<M>) -> Self {
        let status = pb::Status { observed_generation: observed.generation().to_owned(), ..pb::Status::default() };
        Self { key: key.into(), status }
    }

    /// Adds a condition.
    #[must_use]
    pub fn with(mut self, condition: Condition) -> Self {
        self.push(condition);
        self
    }

    /// Adds a condition.
    pub fn push(&mut self, condition: Condition) {
        self.status.conditions.push(condition.0);
    }

    /// Writes the status unless the resource, as it was read, has the same; answers whether it was written.
    ///
    /// # Errors
    /// The host's.
    pub fn write_if_changed<M>(&self, ctx: &Context<'_>, resource: &Typed<M>) -> Result<bool, Failure> {
        if resource.status_under(&self.key).is_some_and(|stored| same(&stored, &self.status)) {
            return Ok(false);
        }
        ctx.write_status(resource.id(), &self.key, &self.status).map(|()| true)
    }

    /// Writes the status only if the resource has not changed since it was read: for a status that depends on another.
    ///
    /// # Errors
    /// The host's; [`Failure::is_conflict`] if the resource changed meanwhile.
    pub fn write_unchanged<M>(&self, ctx: &Context<'_>, resource: &Typed<M>) -> Result<(), Failure> {
        ctx.write_status_unchanged(resource, &self.key, &self.status)
    }
}

/// Whether two statuses are the same. Each condition of one is removed from the other's: they are few.
fn same(a: &pb::Status, b: &pb::Status) -> bool {
    let mut rest = a.conditions.iter().collect::<Vec<_>>();
    a.observed_generation == b.observed_generation
        && a.conditions.len() == b.conditions.len()
        && b.conditions.iter().all(|one| {
            let found = rest.iter().position(|other| *other == one);
            found.map(|place| rest.swap_remove(place)).is_some()
        })
}

/// A condition, such as `Condition::holds("Accepted").reason("Valid")`.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition(pb::Condition);

impl Condition {
    /// Makes a true condition, which means all is well.
    pub fn holds(of: impl Into<String>) -> Self {
        Self::new(of, pb::condition::State::True)
    }

    /// Makes a false condition.
    pub fn fails(of: impl Into<String>) -> Self {
        Self::new(of, pb::condition::State::False)
    }

    /// Makes a condition that is not known yet.
    pub fn unknown(of: impl Into<String>) -> Self {
        Self::new(of, pb::condition::State::Unknown)
    }

    fn new(of: impl Into<String>, state: pb::condition::State) -> Self {
        Self(pb::Condition { r#type: of.into(), state: state.into(), ..pb::Condition::default() })
    }

    /// Sets the reason, a word for machines.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.0.reason = reason.into();
        self
    }

    /// Sets the message, a sentence for people.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    /// Sets the other resource that it is about. The host accepts references with a partition and a namespace.
    #[must_use]
    pub fn about(mut self, resource: pb::Reference) -> Self {
        self.0.resource = Some(resource);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_time_do_not_count() {
        let typed = Typed::new(pb::Id::default(), ());
        let (a, b) = (Condition::holds("A"), Condition::fails("B").reason("Why"));
        let one = Status::new("k", &typed).with(a.clone()).with(b.clone()).status;
        let mut other = Status::new("k", &typed).with(b.clone()).with(a.clone()).status;
        other.updated_at = Some(prost_types::Timestamp { seconds: 1, nanos: 0 });
        assert!(same(&one, &other));
        assert!(!same(&one, &Status::new("k", &typed).with(a.clone()).with(a.clone()).status), "not a set");
        assert!(!same(&one, &Status::new("k", &typed).with(a).status));
        assert!(!same(&one, &pb::Status { observed_generation: "x".into(), ..one.clone() }));
    }
}
