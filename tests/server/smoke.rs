//! The first steps: start, write with defaults from a plugin, read, stop.

use crate::support::{Server, artist, demo, id};
use prost::Message as _;

#[tokio::test]
async fn a_plugin_fills_in_defaults_and_the_server_stops_cleanly() {
    let server = Server::start().await;
    let mut korn = artist("korn");
    let mut data = demo::v2::Artist::decode(korn.data.as_ref().unwrap().value.as_slice()).unwrap();
    data.genre = 0;
    korn.data.as_mut().unwrap().value = data.encode_to_vec();
    let written = server.write(korn).await.unwrap();
    let stored = demo::v2::Artist::decode(written.data.clone().unwrap().value.as_slice()).unwrap();
    assert_eq!(stored.genre(), demo::v2::Genre::Disco);
    assert_eq!(server.read(&id("demo.v2.Artist", "korn")).await.unwrap(), written);
    assert!(server.stop().await.success());
}
