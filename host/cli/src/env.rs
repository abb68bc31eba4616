//! Environment variables, by a lookup that tests can replace. An empty variable counts as unset.

/// Looks up an environment variable.
pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Looks a variable up in the environment of this process.
pub(crate) fn process(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
