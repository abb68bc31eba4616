//! The RPCs of ResourceService, by name, and what a stored resource keeps.

mod delete;
mod identical_bytes;
mod list;
mod list_by_owner;
mod meta;
mod mutate_and_validate;
mod read;
mod watch_list;
mod watch_list_live;
mod watch_versions;
mod write;
mod write_data;
mod write_marked;
mod write_status;
mod write_stored;

use crate::support::{any, artist, demo, id, resource};
use mortise_resource::pb;
use prost_types::Any;
use tonic::Code;

const V2_ARTIST: &str = "hashicorp.consul.internal.demo.v2.Artist";
const V2_ALBUM: &str = "hashicorp.consul.internal.demo.v2.Album";

/// Data of any bytes.
fn bytes(url: &str, value: &[u8]) -> Any {
    Any { type_url: url.into(), value: value.to_vec() }
}

fn with_data(resource: pb::Resource, data: Any) -> pb::Resource {
    pb::Resource { data: Some(data), ..resource }
}

fn artist_v1(name: &str) -> pb::Resource {
    let data = demo::v1::Artist { name: name.into(), ..Default::default() };
    resource(id("demo.v1.Artist", name), Some(any("hashicorp.consul.internal.demo.v1.Artist", &data)))
}

/// An artist that its validation refuses.
fn nameless(name: &str) -> pb::Resource {
    with_data(artist(name), any(V2_ARTIST, &demo::v2::Artist::default()))
}

/// The error for a version that is not the stored one.
fn aborted() -> (Code, String) {
    (Code::Aborted, "CAS operation failed because the given version doesn't match what is stored".into())
}
