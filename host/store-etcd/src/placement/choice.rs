//! The choice of a server for a piece of work: the one with the highest hash of both names. When a server comes or goes,
//! only its own work moves.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

/// Returns the server that is preferred for a name.
pub(super) fn preferred<'s>(name: &str, servers: impl Iterator<Item = &'s str>) -> Option<&'s str> {
    // Without keys, so that all servers choose alike. Servers of another release may choose otherwise for a while; the
    // key of the name decides who holds it.
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    servers.max_by_key(|server| (hasher.hash_one((name, server)), *server))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn work_is_spread_and_only_that_of_a_lost_server_moves() {
        let servers = ["a", "b", "c"];
        let names: Vec<_> = (0..300).map(|n| format!("plugin/controller-{n}")).collect();
        let choose = |servers: &[&'static str]| -> BTreeMap<String, &'static str> {
            names.iter().map(|name| (name.clone(), preferred(name, servers.iter().copied()).unwrap())).collect()
        };
        let all = choose(&servers);
        for server in servers {
            let count = all.values().filter(|chosen| **chosen == server).count();
            assert!((60..=140).contains(&count), "{server} has {count} of 300");
        }
        let fewer = choose(&servers[..2]);
        assert!(all.iter().all(|(name, chosen)| *chosen == "c" || fewer[name] == *chosen));
        assert_eq!(preferred("x", std::iter::empty()), None);
    }
}
