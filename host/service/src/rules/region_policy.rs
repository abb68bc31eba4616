//! Policies of regions: their checks, and the regions in which they allow replicas.

use mortise_resource::{
    Diagnostic, EncodedResource, FieldFault, FieldPath, PathStep, Severity,
    goten::{MultiRegionPolicy, multi_region_policy::CriteriaForDisabledSync},
    manifest::RegionSyncing,
    name, pb,
    proto::hashicorp::consul::tenancy::v2beta1::Partition,
};
use prost::Message as _;

use crate::registry::Registry;

/// Name for all regions.
pub(crate) const ALL_REGIONS: &str = "*";

/// Limit of the regions that a policy enables.
const MAX_REGIONS: usize = 64;
/// Limit of the rules of a policy.
const MAX_RULES: usize = 256;
/// Bytes of the name of a type in a rule.
const MAX_TYPE_NAME_BYTES: usize = 128;

/// First bytes of the policy in an encoded partition: field 1000, length-delimited.
const POLICY_TAG: [u8; 2] = [0xC2, 0x3E];

/// Returns the policy of a partition; `None` without one, found without decoding.
pub(crate) fn of_partition(partition: &EncodedResource) -> Option<MultiRegionPolicy> {
    let may_have_one = partition.bytes().windows(POLICY_TAG.len()).any(|bytes| bytes == POLICY_TAG);
    may_have_one.then(|| partition.decode().ok()).flatten().and_then(|partition| of_data(&partition))
}

fn of_data(partition: &pb::Resource) -> Option<MultiRegionPolicy> {
    let data = partition.data.as_ref()?;
    Partition::decode(data.value.as_slice()).ok()?.multi_region_policy
}

/// Checks the policy of a written partition.
///
/// # Errors
/// The first fault, with its path within the data.
pub(crate) fn check(policy: &MultiRegionPolicy) -> Result<(), FieldFault> {
    let MultiRegionPolicy { enabled_regions: enabled, default_control_region: control, criteria_for_disabled_sync } =
        policy;
    let within = |field: &str| FieldPath::field("multi_region_policy").with(PathStep::Field(field.into()));
    let fault = |path, fault: String| Err(FieldFault { path, fault });
    if enabled.is_empty() || enabled.len() > MAX_REGIONS {
        let what = format!("{} regions; name 1 to {MAX_REGIONS}", enabled.len());
        return fault(within("enabled_regions"), what);
    }
    for (index, region) in enabled.iter().enumerate() {
        let field = within("enabled_regions").with(PathStep::index(index));
        if !name::is_valid(region) {
            return fault(field, bad_name(region));
        }
        if enabled.iter().take(index).any(|other| other == region) {
            return fault(field, format!("{region:?} is named twice; name each region once"));
        }
    }
    if !enabled.contains(control) {
        let what = format!("{control:?} is not an enabled region ({}); use one of these", enabled.join(", "));
        return fault(within("default_control_region"), what);
    }
    let rules = criteria_for_disabled_sync;
    if rules.len() > MAX_RULES {
        let what = format!("{} rules; a policy has at most {MAX_RULES}", rules.len());
        return fault(within("criteria_for_disabled_sync"), what);
    }
    for (index, rule) in rules.iter().enumerate() {
        let rule_path = within("criteria_for_disabled_sync").with(PathStep::index(index));
        let field = |name: &str| rule_path.clone().with(PathStep::Field(name.into()));
        for (name, region) in [("source_region", &rule.source_region), ("dest_region", &rule.dest_region)] {
            if region.is_empty() {
                continue;
            }
            if !name::is_valid(region) {
                return fault(field(name), bad_name(region));
            }
            if !enabled.contains(region) {
                let what = format!("{region:?} is not an enabled region ({}); use one of these", enabled.join(", "));
                return fault(field(name), what);
            }
        }
        let kind = &rule.resource_type_name;
        let is_kind = kind.split_once('/').is_some_and(|(group, kind)| !group.is_empty() && !kind.is_empty());
        if !kind.is_empty() && (!is_kind || kind.len() > MAX_TYPE_NAME_BYTES) {
            return fault(field("resource_type_name"), format!("{kind:?} is not a type; write it as \"demo/Artist\""));
        }
        if rules.iter().take(index).any(|other| other == rule) {
            return fault(rule_path, "is a duplicate of another rule; remove one".into());
        }
    }
    Ok(())
}

/// Returns a warning for each rule of a partition's policy that names a type without a registration.
pub(super) fn unknown_types(partition: &pb::Resource, registry: &Registry) -> Vec<Diagnostic> {
    let rules = of_data(partition).map(|policy| policy.criteria_for_disabled_sync).unwrap_or_default();
    let is_known = |name: &str| {
        name.is_empty() || name.split_once('/').is_some_and(|(group, kind)| registry.scope_of(group, kind).is_some())
    };
    let unknown = rules.iter().enumerate().filter(|(_, rule)| !is_known(&rule.resource_type_name));
    unknown
        .map(|(index, rule)| Diagnostic {
            severity: Severity::Warning.into(),
            summary: format!(
                "{:?} is not a registered type; the rule has no effect before it is",
                rule.resource_type_name
            ),
            path: format!("data.multi_region_policy.criteria_for_disabled_sync[{index}].resource_type_name"),
            ..Diagnostic::default()
        })
        .collect()
}

fn bad_name(region: &str) -> String {
    format!("{region:?} is not a region name; use lower-case letters, digits and dashes, 63 at most, such as eu-1")
}

/// Returns the regions of replicas of the type `GROUP/KIND` owned by region `owner`, sorted.
pub(crate) fn regions(
    policy: Option<&MultiRegionPolicy>,
    syncing: RegionSyncing,
    kind: &str,
    owner: &str,
) -> Vec<String> {
    let (enabled, rules) = match (policy, syncing) {
        (_, RegionSyncing::AlwaysGlobally) => return vec![ALL_REGIONS.to_owned()],
        (_, RegionSyncing::Never) | (None, _) => return vec![owner.to_owned()],
        (Some(policy), RegionSyncing::AlwaysInScope) => (&policy.enabled_regions, [].as_slice()),
        (Some(policy), RegionSyncing::Default) => {
            (&policy.enabled_regions, policy.criteria_for_disabled_sync.as_slice())
        }
    };
    let allowed = |region: &&String| *region == owner || !rules.iter().any(|rule| forbids(rule, kind, owner, region));
    let mut regions: Vec<String> = enabled.iter().filter(allowed).cloned().collect();
    regions.sort();
    regions
}

/// Whether a rule forbids replicas: its source is the owner, its destination the region of the replica.
fn forbids(rule: &CriteriaForDisabledSync, kind: &str, owner: &str, region: &str) -> bool {
    let fits = |rule: &str, value: &str| rule.is_empty() || rule == value;
    fits(&rule.source_region, owner) && fits(&rule.dest_region, region) && fits(&rule.resource_type_name, kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(kind: &str, source: &str, dest: &str) -> CriteriaForDisabledSync {
        CriteriaForDisabledSync {
            resource_type_name: kind.into(),
            source_region: source.into(),
            dest_region: dest.into(),
        }
    }

    fn policy(enabled: &[&str], control: &str, rules: Vec<CriteriaForDisabledSync>) -> MultiRegionPolicy {
        MultiRegionPolicy {
            enabled_regions: enabled.iter().map(|&region| region.to_owned()).collect(),
            default_control_region: control.into(),
            criteria_for_disabled_sync: rules,
        }
    }

    #[test]
    fn regions_are_those_that_no_rule_forbids() {
        let rules = vec![rule("", "eu", "us"), rule("demo/Album", "", "ap"), rule("demo/Song", "", "")];
        let policy = policy(&["us", "eu", "ap"], "eu", rules);
        let allowed = |syncing, kind: &str, owner: &str| regions(Some(&policy), syncing, kind, owner).join(",");
        assert_eq!(allowed(RegionSyncing::Default, "demo/Artist", "eu"), "ap,eu");
        assert_eq!(allowed(RegionSyncing::Default, "demo/Artist", "us"), "ap,eu,us");
        assert_eq!(allowed(RegionSyncing::Default, "demo/Album", "us"), "eu,us");
        assert_eq!(allowed(RegionSyncing::Default, "demo/Album", "ap"), "ap,eu,us", "the owner has it always");
        assert_eq!(allowed(RegionSyncing::Default, "demo/Song", "us"), "us");
        assert_eq!(
            allowed(RegionSyncing::Default, "demo/Artist", "sa"),
            "ap,eu,us",
            "an owner that is not enabled is not in"
        );
        assert_eq!(allowed(RegionSyncing::AlwaysInScope, "demo/Song", "eu"), "ap,eu,us");
        assert_eq!(allowed(RegionSyncing::Never, "demo/Artist", "us"), "us");
        assert_eq!(allowed(RegionSyncing::AlwaysGlobally, "demo/Artist", "us"), "*");
    }

    #[test]
    fn policies_are_refused_with_the_field_that_is_wrong() {
        assert_eq!(check(&policy(&["eu", "us"], "us", vec![rule("demo/Artist", "eu", "")])), Ok(()));
        let long = "x".repeat(64);
        for (wrong, field, says) in [
            (policy(&[], "", vec![]), "enabled_regions", "0 regions"),
            (policy(&["eu", "eu"], "eu", vec![]), "enabled_regions[1]", "named twice"),
            (policy(&["EU"], "EU", vec![]), "enabled_regions[0]", "not a region name"),
            (policy(&["*"], "*", vec![]), "enabled_regions[0]", "not a region name"),
            (policy(&[&long], &long, vec![]), "enabled_regions[0]", "not a region name"),
            (policy(&["eu"], "us", vec![]), "default_control_region", "\"us\" is not an enabled region (eu)"),
            (policy(&["eu"], "", vec![]), "default_control_region", "is not an enabled region"),
            (
                policy(&["eu"], "eu", vec![rule("Artist", "", "")]),
                "criteria_for_disabled_sync[0].resource_type_name",
                "is not a type",
            ),
            (
                policy(&["eu"], "eu", vec![rule("", "", "U S")]),
                "criteria_for_disabled_sync[0].dest_region",
                "not a region name",
            ),
            (
                policy(&["eu"], "eu", vec![rule("", "us", "")]),
                "criteria_for_disabled_sync[0].source_region",
                "\"us\" is not",
            ),
            (
                policy(&["eu"], "eu", vec![rule("", "", "us")]),
                "criteria_for_disabled_sync[0].dest_region",
                "\"us\" is not",
            ),
            (policy(&["eu"], "eu", vec![rule("", "eu", ""); 2]), "criteria_for_disabled_sync[1]", "duplicate"),
            (policy(&["eu"], "eu", vec![rule("", "eu", ""); 257]), "criteria_for_disabled_sync", "257 rules"),
        ] {
            let FieldFault { path, fault } = check(&wrong).unwrap_err();
            assert_eq!(path.to_string(), format!("multi_region_policy.{field}"));
            assert!(fault.contains(says), "{fault}");
        }
    }

    #[test]
    fn a_partition_without_a_policy_has_none() {
        let with = |policy: Option<MultiRegionPolicy>| {
            let data = Partition { description: "é ".repeat(40), multi_region_policy: policy }.encode_to_vec();
            let data = Some(prost_types::Any { type_url: String::new(), value: data });
            EncodedResource::encode(&pb::Resource { data, ..pb::Resource::default() }).unwrap()
        };
        assert_eq!(of_partition(&with(None)), None);
        let enabled = policy(&["eu"], "eu", vec![]);
        assert_eq!(of_partition(&with(Some(enabled.clone()))), Some(enabled));
    }
}
