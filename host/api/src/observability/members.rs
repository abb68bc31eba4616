//! The servers that share a store.

use mortise_resource::{Code, Error, data};
use mortise_store::{Member, MemberInfo, Members};

use super::server_status::Sources;

impl Sources {
    /// Lists the running servers that share the store.
    pub(crate) async fn members(&self) -> Result<data::ListMembersResponse, Error> {
        let backend = self.service.backend();
        let members = backend.members().await.map_err(|error| Error::new(Code::Unavailable, error.to_string()))?;
        Ok(match members {
            Some(Members { members, newest_version }) => {
                data::ListMembersResponse { members: members.into_iter().map(member).collect(), commit: newest_version }
            }
            None => self.alone(backend.newest_version()),
        })
    }

    fn alone(&self, commit: u64) -> data::ListMembersResponse {
        let info = MemberInfo {
            version: self.about.version.to_owned(),
            grpc_address: self.about.addresses.0.clone(),
            http_address: self.about.addresses.1.clone(),
            started_at: self.about.started_at,
        };
        let running = self.controller_manager.reports("").into_iter().map(|report| report.name);
        let mut holds: Vec<_> = running.collect();
        holds.sort();
        let alone = Member {
            name: self.service.backend().store_id().to_string(),
            info: Some(info),
            newest_version: commit,
            lag: 0,
            holds,
            is_this: true,
        };
        data::ListMembersResponse { members: vec![member(alone)], commit }
    }
}

fn member(member: Member) -> data::Member {
    let Member { name, info, newest_version, lag, holds, is_this } = member;
    let started_at = info.as_ref().map(|info| info.started_at.into());
    let (version, grpc_address, http_address) =
        info.map(|info| (info.version, info.grpc_address, info.http_address)).unwrap_or_default();
    data::Member {
        id: name,
        version,
        grpc_address,
        http_address,
        started_at,
        commit: newest_version,
        lag,
        holds,
        is_this,
    }
}
