//! Answers with as many bytes as the resource's number, by default 64 KiB more than the host's default limit of 4 MiB:
//! in the data (mutate), in a warning's detail (validate), in the reason for a refusal (write; read and list never see
//! a number).

use mortise_plugin::{Decision, Plugin, ResourceType, Scope};
use mortise_test_guests::{DESCRIPTORS, Thing, boom, boom_list};

static PLUGIN: Plugin = Plugin::new(
    "oversized-reply",
    "0.1.0",
    DESCRIPTORS,
    &[&ResourceType::<Thing>::new("oversized_reply", "v1", "Thing", Scope::Namespace)
        .mutate(|thing| {
            if boom(thing.id(), "mutate") {
                thing.data.text = much(thing.data.number);
            }
            Ok(())
        })
        .validate(|thing, _, diagnostics| {
            if boom(thing.id(), "validate") {
                diagnostics.warning("this is long").detail(much(thing.data.number));
            }
        })
        .authorize_read_by_id(|id| refuse_if(boom(id, "read"), 0))
        .authorize_write(|thing| refuse_if(boom(thing.id(), "write"), thing.data.number))
        .authorize_list(|_, tenancy| refuse_if(boom_list(tenancy), 0))],
);
mortise_plugin::export!(PLUGIN: mutating, validating, authorizing);

fn refuse_if(refuse: bool, bytes: i64) -> Decision {
    if refuse { Decision::Deny(much(bytes)) } else { Decision::Allow }
}

fn much(bytes: i64) -> String {
    "x".repeat(usize::try_from(bytes).ok().filter(|bytes| *bytes > 0).unwrap_or((4 << 20) + (64 << 10)))
}
