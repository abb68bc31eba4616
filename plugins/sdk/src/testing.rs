//! A host for native tests of hooks and reconcilers.
//!
//! Hooks are ordinary functions; reconcilers, plans, moves and imports are tested in a [`World`].

mod calls;
mod changes;
mod failures;
mod fields;
mod lookup;
mod settle;
mod store;
mod world;

use std::cell::RefCell;

pub use changes::{AdoptedResource, PlanAnswer, call};
pub(crate) use lookup::search;
pub use settle::{PendingReconcile, Settled, Unsettled};
pub use store::{Store, is_type, is_under};
pub use world::World;

use crate::level::Level;

type Caller = Box<dyn Fn(&str, &str) -> bool>;

thread_local! {
    static CALLER: RefCell<Option<Caller>> = const { RefCell::new(None) };
    static SETTINGS: RefCell<String> = const { RefCell::new(String::new()) };
    static LOG: RefCell<Vec<(Level, String)>> = const { RefCell::new(Vec::new()) };
}

/// Runs `body` with a caller whose permissions `may` decides, such as `may("key:read", "resource/…")`. Without a
/// caller, every permission is refused. Holds for this thread.
pub fn as_caller<T>(may: impl Fn(&str, &str) -> bool + 'static, body: impl FnOnce() -> T) -> T {
    /// Restores the outer caller, also when the body panics.
    struct Restore(Option<Caller>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CALLER.set(self.0.take());
        }
    }
    let _restore = Restore(CALLER.replace(Some(Box::new(may))));
    body()
}

/// Runs `body` with settings, one JSON object. Holds for this thread.
pub fn with_settings<T>(settings: &str, body: impl FnOnce() -> T) -> T {
    /// Restores the outer settings, also when the body panics.
    struct Restore(String);
    impl Drop for Restore {
        fn drop(&mut self) {
            SETTINGS.set(std::mem::take(&mut self.0));
        }
    }
    let _restore = Restore(SETTINGS.replace(settings.to_owned()));
    body()
}

pub(crate) fn settings() -> String {
    SETTINGS.with_borrow(|text| if text.is_empty() { "{}".to_owned() } else { text.clone() })
}

/// Takes the lines that hooks logged on this thread since the last call, with fields behind the message.
#[must_use]
pub fn take_log() -> Vec<(Level, String)> {
    LOG.take()
}

pub(crate) fn allowed(permission: &str, name: &str) -> bool {
    CALLER.with_borrow(|caller| caller.as_ref().is_some_and(|may| may(permission, name)))
}

pub(crate) fn log(level: Level, message: &str, fields: &[(&str, &str)]) {
    let fields = fields.iter().map(|(name, value)| format!(" {name}={value}")).collect::<String>();
    LOG.with_borrow_mut(|log| log.push((level, format!("{message}{fields}"))));
}
