//! Reads of the catalog for one question. Resources that belong to endpoints that the caller may read are read as the
//! host.

use std::sync::Arc;

use hickory_proto::op::ResponseCode;
use mortise_resource::{Code, EncodedResource, grpc::catalog::Service, pb, tenancy::DEFAULT, types::Gvk};
use mortise_service::{Caller, Consistency, ResourceService};
use prost::Message as _;

use super::cache::{Basis, Moment, Seen};
use crate::endpoints::services;

/// The reads of one question, in their order.
pub(super) struct Reads<'s> {
    service: &'s ResourceService,
    namespace: &'s str,
    /// The moment before the first read.
    pub(super) moment: Moment,
    seen: Vec<Seen>,
}

impl<'s> Reads<'s> {
    /// Begins reads in a namespace of the partition `default`.
    pub(super) fn begin(service: &'s ResourceService, namespace: &'s str) -> Self {
        let moment = Moment { types: service.types(), newest: service.backend().newest_version() };
        Self { service, namespace, moment, seen: Vec::new() }
    }

    /// Reads a resource as the caller; `None` if it is absent.
    pub(super) async fn read_as(
        &mut self,
        caller: &Caller,
        kind: &Gvk,
        name: &str,
    ) -> Result<Option<EncodedResource>, ResponseCode> {
        let tenancy = pb::Tenancy { partition: DEFAULT.to_owned(), namespace: self.namespace.to_owned() };
        let id =
            pb::Id { uid: String::new(), name: name.to_owned(), r#type: Some(kind.to_pb()), tenancy: Some(tenancy) };
        let found = self.fetch(caller, &id).await?;
        self.seen.push(Seen { id, version: found.as_ref().map(|found| found.version().to_owned()) });
        Ok(found)
    }

    /// Reads the data of a resource as the host; `None` if it is absent.
    pub(super) async fn read_data(&mut self, kind: &Gvk, name: &str) -> Result<Option<Vec<u8>>, ResponseCode> {
        let found = self.read_as(&Caller::host(Consistency::Eventual), kind, name).await?;
        found.as_ref().map(data_of).transpose()
    }

    /// Reads the declaration of a service as the host.
    pub(super) async fn service(&mut self, name: &str) -> Result<Option<Service>, ResponseCode> {
        let Some(data) = self.read_data(&services(), name).await? else { return Ok(None) };
        Service::decode(data.as_slice()).map(Some).map_err(|_| ResponseCode::ServFail)
    }

    /// Whether an earlier answer still holds, of which this question has read the first resource again.
    pub(super) async fn still_hold(&self, basis: &Basis) -> Result<bool, ResponseCode> {
        if !basis.has_types_of(&self.moment) {
            return Ok(false);
        }
        if basis.holds_at(&self.moment) {
            return Ok(true);
        }
        let mut before = basis.reads.iter();
        if before.next() != self.seen.first() {
            return Ok(false);
        }
        for seen in before {
            let now = self.fetch(&Caller::host(Consistency::Eventual), &seen.id).await?;
            if now.as_ref().map(EncodedResource::version) != seen.version.as_deref() {
                return Ok(false);
            }
        }
        basis.confirm(&self.moment);
        Ok(true)
    }

    /// The basis of an answer that is made from these reads.
    pub(super) fn into_basis(self) -> Arc<Basis> {
        Arc::new(Basis::new(&self.moment, self.seen))
    }

    async fn fetch(&self, caller: &Caller, id: &pb::Id) -> Result<Option<EncodedResource>, ResponseCode> {
        match self.service.read(caller, pb::ReadRequest { id: Some(id.clone()) }).await {
            Ok(resource) => Ok(Some(resource)),
            Err(error) if error.code == Code::NotFound => Ok(None),
            Err(error) if error.code == Code::PermissionDenied => Err(ResponseCode::Refused),
            Err(error) => {
                tracing::debug!("DNS: {}/{}: {error}", self.namespace, id.name);
                Err(ResponseCode::ServFail)
            }
        }
    }
}

/// The data of a resource, encoded.
pub(super) fn data_of(resource: &EncodedResource) -> Result<Vec<u8>, ResponseCode> {
    let resource = resource.decode().map_err(|_| ResponseCode::ServFail)?;
    Ok(resource.data.unwrap_or_default().value)
}
