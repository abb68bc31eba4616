//! Keeps the virtual addresses of services: a VirtualAddress for each address, whose owner is the Service that has it.
//!
//! # Contract
//! - An address has one resource, and a resource has one owner for its whole life. So two services never have one
//!   address.
//! - A Service has the addresses that it declares, except those of another Service. Of several Services that declare a
//!   free address the oldest gets it.
//! - A Service that declares none gets one from each range of the settings, and keeps it while it exists, even if
//!   the settings change.
//! - An address that a Service had stays with it as released, so that it is assigned to no other one. Another Service
//!   may still declare it.
//! - The Service's status reports what it has, and why it lacks others.
//!
//! # Cost
//! Services are reconciled one by one, since an assignment depends on the others. An assignment looks at one address in
//! most cases, and at [`MAX_LOOKS`] at most.

use std::{net::IpAddr, time::Duration};

use mortise_plugin::{
    Condition, Context, Controller, Error, Failure, Index, Key, Mapper, Outcome, Reconciler, Request, Typed, Watch, pb,
    settings,
};

use super::endpoints::write_status;
use crate::{
    ADDRESS, SERVICE,
    kinds::address_name,
    proto::catalog::v1::{Service, VirtualAddress},
    settings::{AddressRange, ranges},
};

#[cfg(test)]
mod tests;

/// Key of a Service's status, and its condition.
const STATUS_KEY: &str = "catalog.v1/addresses";
const ADDRESSED: &str = "Addressed";

/// Index of services by the addresses that they declare.
const DECLARED: &str = "declared";

/// Index of addresses by their services.
const HOLDER: &str = "holder";

/// Most addresses of a range that are looked at for a free one.
const MAX_LOOKS: u64 = 4_096;

/// Most released addresses of a Service; the first one of more is given up.
const MAX_RELEASED: usize = 64;

/// Delay until a Service without a free address is tried again.
const EXHAUSTED_RETRY_DELAY: Duration = Duration::from_secs(10);

pub(crate) static CONTROLLER: Controller<Addresses> = Controller::new("addresses", SERVICE, Addresses)
    .indexes(&[Index::by_value(DECLARED, "virtual_addresses")])
    .watches(&[&Watch::new(ADDRESS, Mapper::Map(of_address)).indexes(&[Index::by_owner(HOLDER)])]);

pub(crate) struct Addresses;

/// The services that have or declare the address.
fn of_address(ctx: &Context<'_>, address: &Typed<VirtualAddress>) -> Result<Vec<pb::Id>, Error> {
    let partition = address.id().tenancy.clone().unwrap_or_default().partition;
    let declaring = declaring(ctx, &partition, &address.data.address)?;
    let owner = address.owner().filter(|owner| SERVICE.is_of(owner));
    Ok(declaring.iter().map(|service| service.id().clone()).chain(owner).collect())
}

/// The services of a partition that declare an address.
fn declaring(ctx: &Context<'_>, partition: &str, address: &str) -> Result<Vec<Typed<Service>>, Failure> {
    let mut found: Vec<Typed<Service>> = ctx.cache().list(SERVICE, DECLARED, Key::Exact(address))?;
    found.retain(|service| {
        service.id().tenancy.as_ref().is_some_and(|tenancy| tenancy.partition == partition) && !service.is_marked()
    });
    Ok(found)
}

impl Reconciler for Addresses {
    type Managed = Service;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Service>) -> Result<Outcome, Error> {
        let service = ctx.cache().get(SERVICE, request.id())?.filter(|service| !service.is_marked());
        // The addresses of a Service that is gone are deleted with it.
        let Some(service) = service else { return Ok(Outcome::Done) };
        let tenancy = service.id().tenancy.clone().unwrap_or_default();
        let claims = Claims {
            ctx,
            service: &service,
            namespace: tenancy.namespace,
            tenancy: pb::Tenancy { partition: tenancy.partition, namespace: String::new() },
        };
        let held = claims.held()?;
        let mut result = Addressing::default();
        if service.data.virtual_addresses.is_empty() {
            claims.assign(&held, &mut result)?;
        } else {
            claims.declare(&mut result)?;
        }
        claims.release(held, &result.has)?;
        result.report(ctx, &service)
    }
}

/// The addresses that a Service has, and the reasons why it lacks others.
#[derive(Default)]
struct Addressing {
    has: Vec<String>,
    taken: Vec<String>,
    exhausted: Vec<String>,
}

impl Addressing {
    fn report(self, ctx: &Context<'_>, service: &Typed<Service>) -> Result<Outcome, Error> {
        let faults = [self.taken, self.exhausted.clone()].concat();
        let condition = match (faults.is_empty(), self.has.is_empty()) {
            (true, true) if service.status_under(STATUS_KEY).is_none() => return Ok(Outcome::Done),
            (true, true) => Condition::holds(ADDRESSED).reason("None"),
            (true, false) => Condition::holds(ADDRESSED).reason("Addressed").message(self.has.join(", ")),
            (false, _) => {
                let reason = if self.exhausted.is_empty() { "Taken" } else { "Exhausted" };
                let has = self.has.iter().map(|address| format!("; has {address}"));
                let message = faults.join("; ") + &has.collect::<String>();
                Condition::fails(ADDRESSED).reason(reason).message(message)
            }
        };
        write_status(ctx, service, STATUS_KEY, condition)?;
        match self.exhausted.is_empty() {
            true => Ok(Outcome::Done),
            false => Ok(Outcome::Deferred(EXHAUSTED_RETRY_DELAY, self.exhausted.join("; "))),
        }
    }
}

/// The claims of a Service.
struct Claims<'c> {
    ctx: &'c Context<'c>,
    service: &'c Typed<Service>,
    namespace: String,
    /// The partition.
    tenancy: pb::Tenancy,
}

/// The result of a claim.
enum Claim {
    Has,
    /// Another service has the address, or comes before: its namespace and name.
    Taken(String),
}

impl Claims<'_> {
    /// The addresses that the Service has or had.
    fn held(&self) -> Result<Vec<Typed<VirtualAddress>>, Failure> {
        let mut held: Vec<Typed<VirtualAddress>> =
            self.ctx.cache().list(ADDRESS, HOLDER, Key::Id(self.service.id()))?;
        held.retain(|address| self.is_own(address));
        Ok(held)
    }

    fn is_own(&self, address: &Typed<VirtualAddress>) -> bool {
        address.owner().is_some_and(|owner| owner.uid == self.service.id().uid)
    }

    /// Claims the declared addresses.
    fn declare(&self, result: &mut Addressing) -> Result<(), Failure> {
        for address in &self.service.data.virtual_addresses {
            // Checked when the Service was written.
            let Ok(ip) = address.parse::<IpAddr>() else { continue };
            match self.claim(ip)? {
                Claim::Has => result.has.push(ip.to_string()),
                Claim::Taken(holder) => result.taken.push(format!(
                    "{ip} belongs to the service {holder}; declare another address here, or remove it there"
                )),
            }
        }
        Ok(())
    }

    /// Claims an address that the Service declares.
    fn claim(&self, ip: IpAddr) -> Result<Claim, Failure> {
        let id = ADDRESS.id(address_name(ip), &self.tenancy);
        if let Some(stored) = self.ctx.read::<VirtualAddress>(&id)? {
            if self.is_own(&stored) {
                return self.set_released(stored, false).map(|()| Claim::Has);
            }
            let is_free = stored.data.released || !self.is_holder_there(&stored)?;
            if !is_free {
                return Ok(Claim::Taken(format!("{}/{}", stored.data.namespace, stored.data.service)));
            }
            if let Some(first) = self.before(ip)? {
                return Ok(Claim::Taken(first));
            }
            self.ctx.delete_unchanged(&stored)?;
        } else if let Some(first) = self.before(ip)? {
            return Ok(Claim::Taken(first));
        }
        self.create(ip, false).map(|()| Claim::Has)
    }

    /// Whether the Service that owns the address exists.
    fn is_holder_there(&self, address: &Typed<VirtualAddress>) -> Result<bool, Failure> {
        let Some(owner) = address.owner() else { return Ok(false) };
        let holder = self.ctx.cache().get(SERVICE, &owner)?;
        Ok(holder.is_some_and(|holder| holder.id().uid == owner.uid))
    }

    /// The oldest other service that declares the address, if it is older than this one. Uids grow with time.
    fn before(&self, ip: IpAddr) -> Result<Option<String>, Failure> {
        let declaring = declaring(self.ctx, &self.tenancy.partition, &ip.to_string())?;
        let oldest = declaring.iter().min_by(|left, right| left.id().uid.cmp(&right.id().uid));
        let older = oldest.filter(|oldest| oldest.id().uid < self.service.id().uid);
        Ok(older.map(|older| {
            let namespace = older.id().tenancy.clone().unwrap_or_default().namespace;
            format!("{namespace}/{}", older.name())
        }))
    }

    /// Assigns an address of each range, unless the Service has one.
    fn assign(&self, held: &[Typed<VirtualAddress>], result: &mut Addressing) -> Result<(), Failure> {
        for address in held.iter().filter(|address| address.data.assigned) {
            self.set_released(address.clone(), false)?;
            result.has.push(address.data.address.clone());
        }
        for range in ranges(&settings()) {
            let is_covered = result.has.iter().any(|address| address.parse().is_ok_and(|ip| range.is_family_of(ip)));
            if is_covered {
                continue;
            }
            match self.free(&range)? {
                Some(ip) => {
                    self.create(ip, true)?;
                    result.has.push(ip.to_string());
                }
                None => result.exhausted.push(format!(
                    "no address of {range} is free; widen the range in [plugin.catalog.settings], or declare an address"
                )),
            }
        }
        Ok(())
    }

    /// Finds a free address, from a place on that depends on the Service's name.
    fn free(&self, range: &AddressRange) -> Result<Option<IpAddr>, Failure> {
        let bytes = self.namespace.bytes().chain([b'/']).chain(self.service.name().bytes());
        let begin = bytes
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        let size = range.size();
        for number in 0..size.min(MAX_LOOKS) {
            let ip = range.address((begin % size) + number);
            let id = ADDRESS.id(address_name(ip), &self.tenancy);
            if self.ctx.cache().get(ADDRESS, &id)?.is_some()
                || !declaring(self.ctx, &self.tenancy.partition, &ip.to_string())?.is_empty()
            {
                continue;
            }
            // The cache may be behind.
            if self.ctx.read::<VirtualAddress>(&id)?.is_none() {
                return Ok(Some(ip));
            }
        }
        Ok(None)
    }

    fn create(&self, ip: IpAddr, assigned: bool) -> Result<(), Failure> {
        let data = VirtualAddress {
            address: ip.to_string(),
            namespace: self.namespace.clone(),
            service: self.service.name().to_owned(),
            assigned,
            released: false,
        };
        let created = Typed::new(ADDRESS.id(address_name(ip), &self.tenancy), data).owned_by(self.service.id());
        self.ctx.write(&created).map(drop)
    }

    /// Marks the addresses that the Service does not have any more as released, and gives up the first of too many.
    fn release(&self, held: Vec<Typed<VirtualAddress>>, has: &[String]) -> Result<(), Failure> {
        let mut released: Vec<_> = held.into_iter().filter(|held| !has.contains(&held.data.address)).collect();
        released.sort_by(|left, right| left.id().uid.cmp(&right.id().uid));
        let surplus = released.len().saturating_sub(MAX_RELEASED);
        for (address, number) in released.into_iter().zip(0_usize..) {
            if number < surplus {
                self.ctx.delete_unchanged(&address)?;
            } else {
                self.set_released(address, true)?;
            }
        }
        Ok(())
    }

    fn set_released(&self, mut address: Typed<VirtualAddress>, released: bool) -> Result<(), Failure> {
        if address.data.released == released {
            return Ok(());
        }
        address.data.released = released;
        self.ctx.write(&address).map(drop)
    }
}
