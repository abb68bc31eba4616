//! The parts of a service's endpoints: those in its ServiceEndpoints (the head), and slices.
//!
//! # Contract
//! - The head lists the slices in the order of the names of workloads. A slice has the workloads from its first name up
//!   to the first name of the next one; the head has those before the first slice.
//! - A part has at most [`MAX_ENDPOINTS`] endpoints and [`MAX_BYTES`]. A part that would get larger is split: first the
//!   head lists the new slice, then the new slice is written, and only then the former part loses those endpoints. So
//!   each endpoint is in one part or two at every moment.
//! - The slices that a part needs are listed at once, up to [`MAX_AHEAD`]: a change of the list wakes every slice of the
//!   service, so a list that grew by one slice after the other would cost the square of their number.
//! - A slice without endpoints is removed, first from the list.
//!
//! # Limits
//! [`MAX_SLICES`] of one service. A workload's endpoints are in one part.

use mortise_plugin::{Context, Failure, Kind, Typed, pb, prost};

use crate::{
    ENDPOINTS, SERVICE, compute,
    proto::catalog::v1::{Endpoint, Service, SliceRange, Workload},
    selection::{self, Workloads},
};

/// Most endpoints of a part. Tests have smaller parts, since they have fewer workloads.
pub(crate) const MAX_ENDPOINTS: usize = if cfg!(test) { 20 } else { 1_000 };

/// Most bytes of a part: half of the default of `store.max_resource_bytes`.
pub(crate) const MAX_BYTES: usize = if cfg!(test) { 16 << 10 } else { 512 << 10 };

/// Most slices of a service.
pub(crate) const MAX_SLICES: usize = 1_000;

/// Most slices that a split lists, and most workloads that it counts for them. A split that needs more is repeated by
/// its last slice. Each repetition is caused by a write of the same controller, and a controller may cause 10 calls in a
/// row without a wait: enough for all slices if a workload has six endpoints, for 164,000 workloads in any case.
/// Counting takes a tenth of the fuel of a call.
const MAX_AHEAD: usize = 128;
const MAX_AHEAD_WORKLOADS: usize = 16_384;

/// Most characters of the service's name in the name of a slice; and characters after them, a dash and the hash.
const MAX_PREFIX_CHARS: usize = 54;
const SUFFIX_CHARS: usize = 9;

/// The list of slices in a ServiceEndpoints, without the endpoints.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Layout {
    #[prost(message, repeated, tag = "4")]
    pub(crate) slices: Vec<SliceRange>,
}

impl prost::Name for Layout {
    const NAME: &'static str = "ServiceEndpoints";
    const PACKAGE: &'static str = "catalog.v1";
}

const LAYOUT: Kind<Layout> = Kind::new("catalog", "v1", "ServiceEndpoints");

/// Number of a slice in the list; `None` for the head.
pub(crate) type Number = Option<usize>;

/// The list of a service's slices, as the controller's cache has it.
pub(crate) fn cached(ctx: &Context<'_>, service: &pb::Id) -> Result<Layout, Failure> {
    let tenancy = service.tenancy.clone().unwrap_or_default();
    let found = ctx.cache().get(LAYOUT, &ENDPOINTS.id(&service.name, &tenancy))?;
    Ok(found.map(|layout| layout.data).unwrap_or_default())
}

impl Layout {
    /// The part with the workloads of this name.
    pub(crate) fn part_of(&self, workload: &str) -> Number {
        self.slices.partition_point(|slice| slice.from.as_str() <= workload).checked_sub(1)
    }

    /// The names of a part: from the first on, and before the second, unless that is empty.
    pub(crate) fn names(&self, part: Number) -> (&str, &str) {
        let first = |number: usize| self.slices.get(number).map(|slice| slice.from.as_str()).unwrap_or_default();
        match part {
            None => ("", first(0)),
            Some(number) => (first(number), first(number + 1)),
        }
    }

    /// The number of the slice of this name.
    pub(crate) fn number_of(&self, slice: &str) -> Option<usize> {
        self.slices.iter().position(|one| one.slice == slice)
    }

    /// Lists new slices of a service after a part, one from each of these names on, as far as there is room.
    ///
    /// # Errors
    /// [`Failure::INVALID`] without room: the service has [`MAX_SLICES`].
    pub(crate) fn split(&mut self, service: &str, part: Number, names: &[String]) -> Result<(), Failure> {
        let room = MAX_SLICES.saturating_sub(self.slices.len());
        if room == 0 && !names.is_empty() {
            return Err(Failure::new(
                Failure::INVALID,
                format!("the service has more endpoints than fit into {MAX_SLICES} slices; split it"),
            ));
        }
        let next = part.map_or(0, |number| number + 1).min(self.slices.len());
        for (number, from) in (next..).zip(names.iter().take(room)) {
            let free =
                (0_u32..).map(|salt| slice_name(service, from, salt)).find(|name| self.number_of(name).is_none());
            self.slices.insert(number, SliceRange { slice: free.unwrap_or_default(), from: from.clone() });
        }
        Ok(())
    }
}

/// The name of a slice: the beginning of the service's, and a hash (FNV-1a, 32 bits).
fn slice_name(service: &str, from: &str, salt: u32) -> String {
    let bytes = service.bytes().chain([0]).chain(from.bytes()).chain(salt.to_le_bytes());
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{}-{hash:08x}", prefix(service))
}

fn prefix(service: &str) -> &str {
    service.get(..MAX_PREFIX_CHARS).unwrap_or(service)
}

/// The services that may have a slice of this name.
pub(crate) fn services_of(ctx: &Context<'_>, slice: &pb::Id) -> Result<Vec<pb::Id>, Failure> {
    let tenancy = slice.tenancy.clone().unwrap_or_default();
    let Some(beginning) = slice.name.len().checked_sub(SUFFIX_CHARS).and_then(|length| slice.name.get(..length)) else {
        return Ok(Vec::new());
    };
    if beginning.len() < MAX_PREFIX_CHARS {
        return Ok(vec![SERVICE.id(beginning, &tenancy)]);
    }
    selection::services_named(ctx, slice, beginning)
}

/// The endpoints of a part, or its beginning if they do not fit.
pub(crate) struct Filled {
    pub(crate) endpoints: Vec<Endpoint>,
    /// Names of workloads at which the part has to be split, in their order.
    pub(crate) splits: Vec<String>,
}

/// Number and bytes of the endpoints of a part.
#[derive(Clone, Copy, Default)]
struct Size {
    endpoints: usize,
    bytes: usize,
}

impl Size {
    const MAX: Self = Self { endpoints: MAX_ENDPOINTS, bytes: MAX_BYTES };

    /// The part of a split: a quarter of its room is left for later workloads.
    const OF_SPLIT: Self = Self { endpoints: MAX_ENDPOINTS * 3 / 4, bytes: MAX_BYTES * 3 / 4 };

    fn of(endpoints: &[Endpoint]) -> Self {
        Self { endpoints: endpoints.len(), bytes: endpoints.iter().map(prost::Message::encoded_len).sum() }
    }

    /// Adds the endpoints of a workload, unless there are others and both together do not fit.
    fn add(&mut self, more: Self, max: Self) -> bool {
        let sum = Self { endpoints: self.endpoints + more.endpoints, bytes: self.bytes + more.bytes };
        let fits = self.endpoints == 0 || (sum.endpoints <= max.endpoints && sum.bytes <= max.bytes);
        if fits {
            *self = sum;
        }
        fits
    }
}

/// Computes the endpoints of the workloads with these names.
pub(crate) fn fill(ctx: &Context<'_>, service: &Typed<Service>, names: (&str, &str)) -> Result<Filled, Failure> {
    let mut filled = Filled { endpoints: Vec::new(), splits: Vec::new() };
    let Some(selector) = &service.data.selector else { return Ok(filled) };
    if !names.1.is_empty() && names.0 >= names.1 {
        return Ok(filled);
    }
    let mut workloads = selection::workloads(ctx, service.id(), selector, names);
    let mut size = Size::default();
    while let Some(workload) = workloads.next()? {
        let more = compute::endpoints(&service.data, &workload);
        if !size.add(Size::of(&more), Size::MAX) {
            let (from, rest) = split(&filled.endpoints, workload.name());
            filled.splits.push(from);
            look_ahead(&mut filled.splits, rest, &service.data, Some(workload), workloads)?;
            return Ok(filled);
        }
        filled.endpoints.extend(more);
    }
    Ok(filled)
}

/// Adds the splits behind the first one. `size` is that of the endpoints after it; `next` is the first workload that is
/// not among them. Sizes are estimated: a part that turns out too large is split again.
fn look_ahead(
    splits: &mut Vec<String>,
    mut size: Size,
    service: &Service,
    mut next: Option<Typed<Workload>>,
    mut workloads: Workloads<'_>,
) -> Result<(), Failure> {
    for _ in 0..MAX_AHEAD_WORKLOADS {
        let Some(workload) = next else { break };
        let (endpoints, bytes) = compute::size(service, &workload);
        let added = Size { endpoints, bytes };
        if !size.add(added, Size::OF_SPLIT) {
            if splits.len() >= MAX_AHEAD {
                break;
            }
            splits.push(workload.name().to_owned());
            size = added;
        }
        next = workloads.next()?;
    }
    Ok(())
}

/// The name at which a full part is split, and the size of its endpoints from there on. `next` is the workload that did
/// not fit.
fn split(endpoints: &[Endpoint], next: &str) -> (String, Size) {
    let first = endpoints.first().map(|endpoint| endpoint.workload.as_str());
    let middle = endpoints.get(endpoints.len() * 3 / 4).map(|one| one.workload.as_str());
    let from = middle.filter(|middle| first != Some(*middle)).unwrap_or(next);
    let start = endpoints.partition_point(|endpoint| endpoint.workload.as_str() < from);
    (from.to_owned(), Size::of(endpoints.get(start..).unwrap_or_default()))
}

/// Adds those of the stored endpoints that belong to later parts and are not in their part yet. Returns whether there
/// are any.
pub(crate) fn keep(
    endpoints: &mut Vec<Endpoint>,
    stored: &[Endpoint],
    before: &str,
    mut is_in_its_part: impl FnMut(&str) -> Result<bool, Failure>,
) -> Result<bool, Failure> {
    let count = endpoints.len();
    for endpoint in stored {
        let is_later = !before.is_empty() && endpoint.workload.as_str() >= before;
        if is_later && !is_in_its_part(&endpoint.workload)? {
            endpoints.push(endpoint.clone());
        }
    }
    Ok(endpoints.len() > count)
}
