//! Shards: numbers that divide the resources among several controllers. A *ring* (`service.shard_rings`) is a number of
//! shards; each resource belongs to one shard of each ring. Controllers that watch one shard each together see every
//! resource once.
//!
//! The shard is the FNV-1a hash (64 bits) of the resource's full name, modulo the size of the ring. The full name is
//! partition, namespace and name, as far as the type has them, joined by slashes, like the path `name` of a query.

use mortise_resource::pb;

/// Sets the shards of a resource. Without rings the resource keeps its shards.
pub(crate) fn set(rings: &[u32], resource: &mut pb::Resource) {
    if rings.is_empty() {
        return;
    }
    let hash = fnv1a(full_name(resource.id.as_ref()).as_bytes());
    let label = |ring: &u32| (format!("byNameMod{ring}"), shard(hash, *ring));
    let shards = rings.iter().filter(|ring| **ring > 0).map(label).collect();
    resource.meta.get_or_insert_default().shards = shards;
}

fn full_name(id: Option<&pb::Id>) -> String {
    let Some(id) = id else { return String::new() };
    let (partition, namespace) =
        id.tenancy.as_ref().map(|t| (t.partition.as_str(), t.namespace.as_str())).unwrap_or_default();
    [partition, namespace, &id.name].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

fn shard(hash: u64, ring: u32) -> i64 {
    i64::try_from(hash % u64::from(ring)).unwrap_or_default()
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_reference() {
        for (name, hash, mod16, mod32) in [
            ("projects/p1/devices/d1", 0x51d0_27fc_5298_8c37, 7, 23),
            ("regions/us-west2", 0x199c_bd03_e2a4_992d, 13, 13),
        ] {
            assert_eq!(fnv1a(name.as_bytes()), hash, "{name}");
            assert_eq!((shard(hash, 16), shard(hash, 32)), (mod16, mod32), "{name}");
        }
    }

    #[test]
    fn the_full_name_has_the_units_that_there_are() {
        let id = |partition: &str, namespace: &str| pb::Id {
            name: "korn".into(),
            tenancy: Some(pb::Tenancy { partition: partition.into(), namespace: namespace.into() }),
            ..pb::Id::default()
        };
        assert_eq!(full_name(Some(&id("p", "n"))), "p/n/korn");
        assert_eq!(full_name(Some(&id("p", ""))), "p/korn");
        assert_eq!(full_name(Some(&id("", ""))), "korn");
    }

    #[test]
    fn each_ring_has_its_shard() {
        let mut resource = pb::Resource::default();
        set(&[], &mut resource);
        assert_eq!(resource.meta, None);
        resource.id = Some(pb::Id { name: "projects/p1/devices/d1".into(), ..pb::Id::default() });
        set(&[16, 32], &mut resource);
        let shards = resource.meta.unwrap().shards;
        assert_eq!(shards.into_iter().collect::<Vec<_>>(), [("byNameMod16".into(), 7), ("byNameMod32".into(), 23)]);
    }
}
