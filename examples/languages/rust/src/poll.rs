//! The reconciler: called for each device when the server starts, whenever it changes, and now and then.

use mortise_plugin::{Condition, Context, Controller, Error, Outcome, Reconciler, Request, Status, log};

use crate::{DEVICE, proto::fleet::v1::Device};

/// Runs sixteen at once: one device after another would wait for the disk after each write.
pub(crate) static CONTROLLER: Controller<Poll> = Controller::new("poll", DEVICE, Poll).parallel(16);

/// Remembers how many addresses a device has, and says in its status how it is polled.
pub(crate) struct Poll;

impl Reconciler for Poll {
    type Managed = Device;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Device>) -> Result<Outcome, Error> {
        let key = format!("addresses/{}", request.name());
        let Some(device) = request.read(ctx)? else {
            ctx.kv().remove(&key)?;
            return Ok(Outcome::Done);
        };
        let count = device.data.addresses.len();
        let text = count.to_string();
        if ctx.kv().get(&key)?.as_deref() != Some(text.as_bytes()) {
            ctx.kv().set(&key, text.as_bytes())?;
        }
        let polled = match count {
            0 => Condition::fails("Polled").reason("NoAddress").message("It has no address."),
            _ => {
                let message = format!("{count} addresses, every {} s.", device.data.interval);
                Condition::holds("Polled").reason("Scheduled").message(message)
            }
        };
        if Status::new("fleet-rust/poll", &device).with(polled).write_if_changed(ctx, &device)? {
            log::info(&format!("polls {}", device.name()));
        }
        Ok(Outcome::Done)
    }
}
