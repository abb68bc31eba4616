//! The reconciler: called for each {{kind}} when the server starts, whenever it changes, and now and then.

use mortise_plugin::{Condition, Context, Controller, Error, Outcome, Reconciler, Request, Status, log};

use crate::{KIND, proto::{{module}}::{{message}}};

/// Runs sixteen at once: one resource after another would wait for the disk after each write.
pub(crate) static CONTROLLER: Controller<Accept> = Controller::new("{{controller}}", KIND, Accept).parallel(16);

/// Marks each {{kind}} as seen. It reads the current state and does what is missing; a second call does nothing.
pub(crate) struct Accept;

impl Reconciler for Accept {
    type Managed = {{message}};

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<{{message}}>) -> Result<Outcome, Error> {
        let Some(found) = request.read(ctx)?.filter(|found| !found.is_marked()) else {
            return Ok(Outcome::Done);
        };
        let message = format!("{:?} has priority {}.", found.data.title, found.data.priority);
        let accepted = Condition::holds("Accepted").reason("Seen").message(message);
        if Status::new("{{name}}/{{controller}}", &found).with(accepted).write_if_changed(ctx, &found)? {
            log::info(&format!("accepted {}", found.name()));
        }
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PLUGIN;
    use mortise_plugin::{Typed, testing::World};

    #[test]
    fn what_is_written_is_accepted() {
        let world = World::new(&PLUGIN);
        let data = {{message}} { title: "One".into(), ..{{message}}::default() };
        let written = world.put(&Typed::new(KIND.id("one", &World::tenancy()), data)).unwrap();
        world.settle().unwrap();
        let status = world.get::<{{message}}>(written.id()).unwrap().status_under("{{name}}/{{controller}}").unwrap();
        assert_eq!(status.conditions[0].message, "\"One\" has priority 3.");
        assert_eq!(world.settle().unwrap().reconciles, 1, "asked again, it does nothing");
    }
}
