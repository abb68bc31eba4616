//! The subject of a stream: a name, or an address whose meaning may change while the stream is open.

use std::{net::SocketAddr, sync::Arc};

use mortise_resource::{Code, Error};
use mortise_service::{Caller, ResourceService};
use tokio::sync::watch;
use tonic::Status;

use super::{
    addresses::{AddressShare, AddressState, Holders},
    authority::{Authority, Selection, ServiceName},
    follow::is_readable,
    hub::{Hub, Subscription},
    view::StreamError,
    workload::{OwnWorkload, candidates},
};
use crate::grpc::status::status;

/// The subject of a stream.
pub(super) enum Subject {
    Name(NamedSubject),
    Address(Box<AddressSubject>),
}

/// A service, or one of its workloads.
pub(super) struct NamedSubject {
    pub(super) authority: Authority,
    subscription: Subscription,
    versions: watch::Receiver<u64>,
}

/// An address and a port.
pub(super) struct AddressSubject {
    hub: Arc<Hub>,
    service: ResourceService,
    caller: Caller,
    addr: SocketAddr,
    share: AddressShare,
    /// The resources from which the meaning was found.
    resolved: Option<Arc<Holders>>,
    meaning: Meaning,
}

/// The meaning of an address.
enum Meaning {
    /// Unknown so far.
    Unknown,
    Service(NamedSubject),
    Workload(Box<OwnWorkload>),
    Nothing,
}

/// Present meaning of a subject.
pub(super) enum Present<'s> {
    /// Unknown so far.
    Unknown,
    /// A service; `is_address` if it was asked for by its virtual address.
    Service {
        subject: &'s NamedSubject,
        is_address: bool,
    },
    Workload(&'s OwnWorkload),
    /// An address of no service and no workload.
    Address(SocketAddr),
}

impl NamedSubject {
    pub(super) fn new(authority: Authority, subscription: Subscription) -> Self {
        let versions = subscription.view.versions();
        Self { authority, subscription, versions }
    }

    pub(super) fn view(&self) -> &super::view::View {
        &self.subscription.view
    }

    async fn changed(&mut self) {
        // An error would mean that the view is gone, but this subject holds it.
        let _ = self.versions.changed().await;
    }
}

impl AddressSubject {
    /// Subscribes to an address.
    ///
    /// # Errors
    /// Those of [`Hub::subscribe_address`].
    pub(super) fn new(
        hub: &Arc<Hub>,
        service: &ResourceService,
        caller: &Caller,
        addr: SocketAddr,
    ) -> Result<Self, Error> {
        let share = hub.subscribe_address(caller, addr.ip())?;
        let (hub, service, caller) = (hub.clone(), service.clone(), caller.clone());
        Ok(Self { hub, service, caller, addr, share, resolved: None, meaning: Meaning::Unknown })
    }

    /// Finds the meaning of the address again, if its resources have changed.
    async fn resolve(&mut self) -> Result<(), StreamError> {
        let state = self.share.state.borrow_and_update().clone();
        let holders = match state {
            AddressState::Unknown => return Ok(()),
            AddressState::Failed(error) => return Err(StreamError::Failed(status(error))),
            AddressState::Known(holders) => holders,
        };
        if self.resolved.as_ref().is_some_and(|resolved| Arc::ptr_eq(resolved, &holders)) {
            return Ok(());
        }
        self.resolved = Some(holders.clone());
        match &holders.service {
            Some(name) => {
                let may = is_readable(&self.service, &self.caller, name).await;
                if may.map_err(|error| StreamError::Failed(status(error)))? {
                    return self.follow_service(name);
                }
                self.meaning = Meaning::Nothing;
                Ok(())
            }
            None => {
                self.meaning = self.find_workload(&holders).await?;
                Ok(())
            }
        }
    }

    fn follow_service(&mut self, name: &ServiceName) -> Result<(), StreamError> {
        if matches!(&self.meaning, Meaning::Service(known) if known.authority.service == *name) {
            return Ok(());
        }
        let selection = Selection { port: self.addr.port(), instance: None };
        let authority = Authority { service: name.clone(), selection: selection.clone() };
        let subscription = self.hub.subscribe(&self.caller, name.clone(), selection, true);
        let subscription = subscription.map_err(|error| StreamError::Failed(status(error)))?;
        self.meaning = Meaning::Service(NamedSubject::new(authority, subscription));
        Ok(())
    }

    /// The workload that the caller may know. The right is that of a service with the workload's name.
    async fn find_workload(&self, holders: &Holders) -> Result<Meaning, StreamError> {
        for workload in candidates(holders, self.addr) {
            let name = ServiceName { namespace: workload.namespace.clone(), name: workload.name.clone() };
            let may = is_readable(&self.service, &self.caller, &name).await;
            if may.map_err(|error| StreamError::Failed(status(error)))? {
                return Ok(Meaning::Workload(Box::new(workload)));
            }
        }
        Ok(Meaning::Nothing)
    }

    fn present(&self) -> Present<'_> {
        match &self.meaning {
            Meaning::Unknown => Present::Unknown,
            Meaning::Service(subject) => Present::Service { subject, is_address: true },
            Meaning::Workload(workload) => Present::Workload(workload),
            Meaning::Nothing => Present::Address(self.addr),
        }
    }
}

impl Subject {
    /// Takes the present state in; later changes wake the stream again.
    ///
    /// # Errors
    /// The subject cannot be followed.
    pub(super) async fn look(&mut self) -> Result<(), StreamError> {
        match self {
            Self::Name(subject) => _ = subject.versions.borrow_and_update(),
            Self::Address(subject) => {
                subject.resolve().await?;
                if let Meaning::Service(service) = &mut subject.meaning {
                    service.versions.borrow_and_update();
                }
            }
        }
        Ok(())
    }

    pub(super) fn present(&self) -> Present<'_> {
        match self {
            Self::Name(subject) => Present::Service { subject, is_address: false },
            Self::Address(subject) => subject.present(),
        }
    }

    /// Treats the service behind an address as unknown to the caller, if that is the reason of a fault.
    pub(super) fn hide(&mut self, fault: &Status) -> bool {
        let Self::Address(subject) = self else { return false };
        let is_hidden = fault.code() == tonic::Code::PermissionDenied;
        if is_hidden {
            subject.meaning = Meaning::Nothing;
        }
        is_hidden
    }

    /// Waits for a change. Safe to cancel.
    pub(super) async fn changed(&mut self) {
        match self {
            Self::Name(subject) => subject.changed().await,
            Self::Address(subject) => {
                let AddressSubject { share, meaning, .. } = &mut **subject;
                let of_service = async {
                    match meaning {
                        Meaning::Service(service) => service.changed().await,
                        _ => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = of_service => {}
                    // An error would mean that the watch is gone; its last state shows the fault.
                    _ = share.state.changed() => {}
                }
            }
        }
    }
}

/// The status of a target without a policy.
pub(super) fn no_policy(present: &Present<'_>) -> Status {
    let what = match present {
        Present::Service { subject, .. } => {
            let ServiceName { namespace, name } = &subject.authority.service;
            format!("the service {namespace}/{name} does not exist")
        }
        Present::Address(addr) => format!("{addr} is the address of no service and no workload"),
        Present::Unknown | Present::Workload(_) => "the target is unknown".to_owned(),
    };
    let error = Error::new(
        Code::NotFound,
        format!("{what}, so it has no policy; create the service, or ask for another target"),
    );
    status(error)
}
