//! Backups of a running server: taken by the command, and read as docs/backup-format.md describes them.

use std::{fs::File, io::Read as _};

use flate2::read::MultiGzDecoder;
use mortise_proof::record::{Answer, Call, DRAFT, Entry, NAMESPACE, NEVER, NODE, Operation, State};
use mortise_resource::pb;
use mortise_test_process::Outcome;
use prost::Message;

use super::{
    convert::{ALBUM, ARTIST, state},
    server::Server,
    world::World,
};

/// Number of the client that takes backups.
const CLIENT: usize = usize::MAX;
/// Kind of a record that is a stored resource.
const RESOURCE: i32 = 1;

/// A record of a backup; the events and checksums are left out.
#[derive(Clone, PartialEq, Message)]
struct Record {
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(message, optional, tag = "3")]
    resource: Option<pb::Resource>,
}

/// Takes a backup, and records it as a call.
pub(crate) async fn take(server: &mut Server, world: &World) -> Outcome<()> {
    let (file, addr) = (server.dir().join("backup.tar.gz"), server.process()?.addr.to_string());
    let name = file.to_str().ok_or("a path that is not a text")?;
    let begun = world.now();
    let output = server.command(&["backup", name, "--force", "--grpc-addr", &addr], &[]).await?;
    let (answer, ended) = match output.status.success() {
        true => (Answer::Found(read(&file, &world.prefix)?), world.now()),
        // The server was killed meanwhile.
        false => (Answer::Unknown, NEVER),
    };
    world.add(Entry::Operation(Operation { client: CLIENT, begun, ended, call: Call::Backup, answer }));
    Ok(())
}

/// Reads the resources of a history out of a backup.
fn read(file: &std::path::Path, prefix: &str) -> Outcome<Vec<State>> {
    let mut archive = tar::Archive::new(MultiGzDecoder::new(File::open(file)?));
    let mut states = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        if !entry.path()?.starts_with("records") {
            continue;
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let record = Record::decode_length_delimited(&mut rest)?;
            let resource = record.resource.filter(|_| record.kind == RESOURCE);
            let found = resource.iter().map(state).filter(|state| {
                let kinds = [ALBUM, ARTIST, NAMESPACE, NODE, DRAFT];
                state.key.name.starts_with(prefix) && kinds.contains(&state.key.kind.as_str())
            });
            states.extend(found);
        }
    }
    Ok(states)
}
