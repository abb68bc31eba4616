//! Tokens and policies as they are stored: resources of cluster scope, by name.

use mortise_resource::{pb, types::Gvk};
use prost::Message;
use tonic::Code;

use crate::{
    CliError,
    connect::session::Session,
    output::ui::{Ui, warn},
};

/// A resource with its data decoded.
pub(super) struct Stored<M> {
    pub(super) resource: pb::Resource,
    pub(super) data: M,
}

impl<M: Message + Default> Stored<M> {
    fn of(resource: pb::Resource) -> Result<Self, CliError> {
        let bytes = resource.data.as_ref().map(|data| data.value.as_slice()).unwrap_or_default();
        let data = M::decode(bytes).map_err(|e| CliError::failed("cannot decode the server's answer").caused_by(e))?;
        Ok(Self { resource, data })
    }

    pub(super) fn name(&self) -> &str {
        self.resource.id.as_ref().map(|id| id.name.as_str()).unwrap_or_default()
    }
}

/// Tokens or policies of one server.
pub(super) struct Collection<'a> {
    pub(super) session: &'a Session,
    pub(super) kind: Gvk,
    /// Name of the kind in messages, such as `token`.
    pub(super) noun: &'static str,
    pub(super) ui: &'a Ui,
}

impl Collection<'_> {
    fn id(&self, name: &str) -> pb::Id {
        pb::Id { name: name.to_owned(), r#type: Some(self.kind.to_pb()), ..pb::Id::default() }
    }

    fn title(&self, name: &str) -> String {
        format!("{} {name}", self.noun)
    }

    /// Lists all, sorted by name.
    pub(super) async fn list<M: Message + Default>(&self) -> Result<Vec<Stored<M>>, CliError> {
        let tenancy = Some(pb::Tenancy::default());
        let request = pb::ListRequest { r#type: Some(self.kind.to_pb()), tenancy, name_prefix: String::new() };
        let listed = self.session.call(self.noun, self.session.resources().list(request)).await?;
        listed.resources.into_iter().map(Stored::of).collect()
    }

    /// Reads one by name; `None` if it does not exist.
    pub(super) async fn find<M: Message + Default>(&self, name: &str) -> Result<Option<Stored<M>>, CliError> {
        let request = pb::ReadRequest { id: Some(self.id(name)) };
        match self.session.call(self.title(name), self.session.resources().read(request)).await {
            Ok(answer) => Stored::of(answer.resource.unwrap_or_default()).map(Some),
            Err(error) if error.code == Some(Code::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads one that must exist.
    pub(super) async fn get<M: Message + Default>(&self, name: &str) -> Result<Stored<M>, CliError> {
        let missing = || {
            CliError::failed(format!("{} does not exist", self.title(name)))
                .remedy(format!("`mortise {} list` lists them", self.noun))
        };
        self.find(name).await?.ok_or_else(missing)
    }

    /// Writes one, and shows the server's warnings. `before` is the resource to replace, which must not have changed
    /// since it was read.
    pub(super) async fn put<M: Message>(
        &self,
        name: &str,
        data: &M,
        before: Option<pb::Resource>,
    ) -> Result<(), CliError> {
        let type_url =
            format!("type.googleapis.com/{}.{}.{}", self.kind.group, self.kind.group_version, self.kind.kind);
        let data = prost_types::Any { type_url, value: data.encode_to_vec() };
        let fresh = || pb::Resource { id: Some(self.id(name)), ..pb::Resource::default() };
        let resource = pb::Resource { data: Some(data), ..before.unwrap_or_else(fresh) };
        let request = pb::WriteRequest { resource: Some(resource) };
        let written = self.session.call(self.title(name), self.session.resources().write(request)).await?;
        warn(&self.title(name), &written.warnings, self.ui);
        Ok(())
    }

    /// Deletes one that must exist, and shows the server's warnings.
    pub(super) async fn delete<M: Message + Default>(&self, name: &str) -> Result<(), CliError> {
        let id = self.get::<M>(name).await?.resource.id;
        let request = pb::DeleteRequest { id, version: String::new() };
        let deleted = self.session.call(self.title(name), self.session.resources().delete(request)).await?;
        warn(&self.title(name), &deleted.warnings, self.ui);
        Ok(())
    }
}
