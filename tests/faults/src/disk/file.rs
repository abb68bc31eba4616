//! The content of one file: what is on the disk, and what was done since.

use std::collections::BTreeMap;

use fastrand::Rng;

#[derive(Debug, Default)]
pub(super) struct FileNode {
    /// Content that is on the disk for certain.
    pub(super) synced: Vec<u8>,
    /// Changes since then, in order.
    pub(super) changes: Vec<Change>,
    /// Content that a reader sees.
    pub(super) current: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Change {
    pub(super) call: u64,
    /// Whether the call has ended.
    pub(super) ended: bool,
    pub(super) kind: ChangeKind,
}

#[derive(Debug)]
pub(super) enum ChangeKind {
    Write { at: usize, data: Vec<u8> },
    Length(usize),
}

/// Amount of unsynced data that is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Unsynced data is lost completely.
    All,
    /// Unsynced data survives completely.
    None,
    /// Each piece may be lost; this many of 256 survive in their last state.
    Some(u8),
}

pub(super) fn apply(bytes: &mut Vec<u8>, kind: &ChangeKind) {
    match kind {
        ChangeKind::Length(len) => bytes.resize(*len, 0),
        ChangeKind::Write { at, data } => {
            let end = at + data.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            if let Some(place) = bytes.get_mut(*at..end) {
                place.copy_from_slice(data);
            }
        }
    }
}

/// Returns how many of the changes, in order, are done.
pub(super) fn reached(changes: usize, loss: Loss, random: &mut Rng) -> usize {
    match loss {
        Loss::All => 0,
        Loss::None => changes,
        Loss::Some(chance) if random.u8(..) < chance => changes,
        Loss::Some(_) => random.usize(..=changes),
    }
}

impl FileNode {
    /// Returns the content on the disk, and the number of units that are not in their last written state.
    pub(super) fn cut(&self, unit: usize, loss: Loss, random: &mut Rng) -> (Vec<u8>, u64) {
        let mut bytes = self.synced.clone();
        let reached = reached(self.changes.len(), loss, random);
        // The changes that concern each unit. A new length concerns the units that it cuts off.
        let end = self.changes.iter().fold(bytes.len(), |end, change| match &change.kind {
            ChangeKind::Write { at, data } => end.max(at + data.len()),
            ChangeKind::Length(len) => end.max(*len),
        });
        let mut len = bytes.len();
        let mut units: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (n, change) in self.changes.iter().enumerate() {
            let (from, to) = match &change.kind {
                ChangeKind::Write { at, data } => {
                    if n < reached {
                        len = len.max(at + data.len());
                    }
                    (*at, at + data.len())
                }
                ChangeKind::Length(new) => {
                    if n < reached {
                        len = *new;
                    }
                    (*new, end)
                }
            };
            for touched in from / unit..to.div_ceil(unit) {
                units.entry(touched).or_default().push(n);
            }
        }
        bytes.resize(end, 0);
        let mut lost = 0;
        for (touched, changes) in units {
            let (from, to) = (touched * unit, ((touched + 1) * unit).min(end));
            let is_cut =
                |n: &usize| matches!(self.changes.get(*n).map(|change| &change.kind), Some(ChangeKind::Length(_)));
            // A finished change of the length applies. A write after an unfinished one had no place yet.
            let floor = changes.iter().rposition(|n| is_cut(n) && *n < reached).map_or(0, |at| at + 1);
            let ceiling = changes.iter().position(|n| is_cut(n) && *n >= reached).unwrap_or(changes.len());
            let writes = ceiling.saturating_sub(floor);
            let kept = match loss {
                Loss::All => 0,
                Loss::None => writes,
                Loss::Some(chance) if random.u8(..) < chance => writes,
                Loss::Some(_) => random.usize(..=writes),
            };
            lost += u64::from(floor + kept < changes.len());
            let Some(place) = bytes.get_mut(from..to) else { continue };
            for change in changes.iter().take(floor + kept).filter_map(|n| self.changes.get(*n)) {
                match &change.kind {
                    ChangeKind::Length(len) => {
                        if let Some(rest) = place.get_mut(len.saturating_sub(from)..) {
                            rest.fill(0);
                        }
                    }
                    ChangeKind::Write { at, data } => {
                        let (first, last) = ((*at).max(from), (at + data.len()).min(to));
                        let target = first.checked_sub(from).and_then(|first| place.get_mut(first..last - from));
                        if let (Some(target), Some(source)) = (target, data.get(first - at..last - at)) {
                            target.copy_from_slice(source);
                        }
                    }
                }
            }
        }
        bytes.truncate(len);
        (bytes, lost)
    }
}
