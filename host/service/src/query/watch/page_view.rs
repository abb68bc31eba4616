//! The page of a watch's client: its rows, their order, and the effect of each change on it.
//!
//! A client applies the steps one after another: an index is a place among the rows as the earlier steps left them. If
//! a change may let in an unknown row, the page has to be read again.

use mortise_query::{Direction, PageToken, SortKey};
use mortise_store::ListKey;

/// A row of the page.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) key: SortKey,
    pub(super) place: ListKey,
    pub(super) uid: String,
    /// Hash of the shown part of the resource.
    pub(super) shown: u64,
    /// Bytes of the resource.
    pub(super) bytes: usize,
    /// Bytes of the row in memory.
    pub(super) kept: usize,
}

/// The bounds of a page.
#[derive(Debug, Clone)]
pub(super) struct PageBounds {
    pub(super) size: usize,
    pub(super) bytes: usize,
    pub(super) token: Option<PageToken>,
}

/// The page, as the client has it.
pub(super) struct PageView {
    bounds: PageBounds,
    rows: Vec<Row>,
    /// First row after the page, in its own direction.
    follower: Option<NextRow>,
}

/// The first row beyond a page.
#[derive(Debug, Clone)]
pub(super) struct NextRow {
    pub(super) key: SortKey,
    pub(super) place: ListKey,
}

/// A step from one page to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PageStep {
    /// Adds the row of the change, or of the new page, at this index.
    Added(usize),
    /// Replaces or moves a row: old index, new index.
    Modified(usize, usize),
    /// Removes the row at this index, with its place and uid.
    Removed(usize, ListKey, String),
}

/// The effect of a change on the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    /// These steps, in order; the shown resource is that of the change.
    Steps(Vec<PageStep>),
    /// An unknown row may come in; the page has to be read again.
    Reread,
}

impl PageView {
    /// Makes the page before the first read.
    pub(super) fn empty(bounds: PageBounds) -> Self {
        Self { bounds, rows: Vec::new(), follower: None }
    }

    pub(super) fn first(&self) -> Option<&SortKey> {
        self.rows.first().map(|row| &row.key)
    }

    pub(super) fn last(&self) -> Option<&SortKey> {
        self.rows.last().map(|row| &row.key)
    }

    /// Whether rows follow the page, in its own direction.
    pub(super) fn more(&self) -> bool {
        self.follower.is_some()
    }

    /// Returns the bytes of the rows.
    pub(super) fn kept(&self) -> usize {
        self.rows.iter().map(|row| row.kept).sum()
    }

    fn is_leftward(&self) -> bool {
        self.bounds.token.as_ref().is_some_and(|token| token.direction == Direction::Left)
    }

    /// Applies the new state of a place: a row, if its resource matches.
    pub(super) fn apply(&mut self, place: &ListKey, now: Option<Row>) -> Effect {
        let now = now.filter(|row| self.bounds.token.as_ref().is_none_or(|token| token.admits(&row.key)));
        let old = self.rows.iter().position(|row| row.place == *place);
        if let Some(follower) = self.follower.as_ref().filter(|follower| follower.place == *place) {
            // Neither the next row is known, nor whether a smaller row fits now.
            return match &now {
                Some(row) if row.key == follower.key && self.is_full() => Effect::Steps(Vec::new()),
                _ => Effect::Reread,
            };
        }
        match (old, now) {
            (None, None) => Effect::Steps(Vec::new()),
            (None, Some(row)) => self.enter(row),
            (Some(_), None) if self.more() => Effect::Reread,
            (Some(old), None) => Effect::Steps(vec![self.remove(old)]),
            (Some(old), Some(row)) => self.change(old, row),
        }
    }

    /// Replaces this page by another one. Each added or modified row is that of the new page at the step's index.
    pub(super) fn become_page(&mut self, rows: Vec<Row>, follower: Option<NextRow>) -> Vec<PageStep> {
        let mut steps = Vec::new();
        for index in (0..self.rows.len()).rev() {
            let is_kept = self.rows.get(index).is_some_and(|row| rows.iter().any(|new| new.is_same(row)));
            if !is_kept {
                steps.push(self.remove(index));
            }
        }
        for (index, row) in rows.into_iter().enumerate() {
            match self.rows.iter().position(|old| old.is_same(&row)) {
                None => {
                    steps.push(PageStep::Added(index));
                    self.rows.insert(index, row);
                }
                Some(from) => {
                    let old = self.rows.remove(from);
                    if from != index || old.shown != row.shown {
                        steps.push(PageStep::Modified(from, index));
                    }
                    self.rows.insert(index, row);
                }
            }
        }
        self.follower = follower;
        steps
    }

    /// Whether the page has reached its number of rows.
    fn is_full(&self) -> bool {
        self.rows.len() >= self.bounds.size
    }

    fn bytes(&self) -> usize {
        self.rows.iter().map(|row| row.bytes).sum()
    }

    fn remove(&mut self, index: usize) -> PageStep {
        let row = self.rows.remove(index);
        PageStep::Removed(index, row.place, row.uid)
    }

    /// Adds a row that was not on the page.
    fn enter(&mut self, row: Row) -> Effect {
        let index = self.rows.partition_point(|other| other.key < row.key);
        let fits = self.bytes() + row.bytes <= self.bounds.bytes;
        let (is_behind, is_farther) = match (self.is_leftward(), &self.follower) {
            (true, follower) => (index == 0, follower.as_ref().is_some_and(|follower| row.key < follower.key)),
            (false, follower) => {
                (index == self.rows.len(), follower.as_ref().is_some_and(|follower| row.key > follower.key))
            }
        };
        if is_farther {
            return Effect::Steps(Vec::new());
        }
        if is_behind && self.is_full() {
            self.follower = Some(NextRow { key: row.key, place: row.place });
            return Effect::Steps(Vec::new());
        }
        if !fits || self.is_leftward() || (self.more() && !self.is_full()) {
            return Effect::Reread;
        }
        let mut steps = Vec::new();
        if self.is_full()
            && let Some(last) = self.rows.pop()
        {
            steps.push(PageStep::Removed(self.rows.len(), last.place.clone(), last.uid));
            self.follower = Some(NextRow { key: last.key, place: last.place });
        }
        steps.push(PageStep::Added(index));
        self.rows.insert(index, row);
        Effect::Steps(steps)
    }

    /// Replaces a row of the page.
    fn change(&mut self, old: usize, row: Row) -> Effect {
        let Some(before) = self.rows.get(old) else { return Effect::Reread };
        let is_moved = before.key != row.key;
        let grows = row.bytes > before.bytes;
        let others = self.rows.iter().enumerate().filter(|(index, _)| *index != old);
        let index = others.take_while(|(_, other)| other.key < row.key).count();
        let is_at_edge = if self.is_leftward() { index == 0 } else { index + 1 == self.rows.len() };
        let overflows = grows && self.bytes() - before.bytes + row.bytes > self.bounds.bytes;
        let shrinks = row.bytes < before.bytes && self.more() && !self.is_full();
        if overflows || shrinks || (self.more() && is_moved && is_at_edge) {
            return Effect::Reread;
        }
        let is_shown = old != index || before.shown != row.shown;
        self.rows.remove(old);
        self.rows.insert(index, row);
        Effect::Steps(if is_shown { vec![PageStep::Modified(old, index)] } else { Vec::new() })
    }
}

impl Row {
    /// Whether both are the same incarnation of the same resource.
    fn is_same(&self, other: &Self) -> bool {
        self.place == other.place && self.uid == other.uid
    }
}

#[cfg(test)]
mod tests {
    use mortise_query::{Candidate, OrderBy, Schema};
    use mortise_resource::{EncodedResource, pb};

    use super::*;
    use crate::query::collect::Collector;

    /// ListKey and content of each row that the client has.
    type Shown = Vec<(ListKey, u64)>;

    struct World {
        schema: Schema,
        order: OrderBy,
        /// Sort text, content hash and bytes, by name.
        stored: std::collections::BTreeMap<String, (String, u64, usize)>,
    }

    impl World {
        fn row(&self, name: &str) -> Row {
            let (value, shown, bytes) = &self.stored[name];
            let resource = pb::Resource {
                id: Some(pb::Id { name: name.into(), ..pb::Id::default() }),
                metadata: [("n".to_owned(), value.clone())].into(),
                ..pb::Resource::default()
            };
            let encoded = EncodedResource::encode(&resource).unwrap();
            let key = self.order.key(&Candidate::new(&encoded, &self.schema)).unwrap();
            Row { key, place: list_key(name), uid: String::new(), shown: *shown, bytes: *bytes, kept: 0 }
        }

        /// Returns the page of a search, made by the collector of searches.
        fn page(&self, bounds: &PageBounds) -> (Vec<Row>, Option<NextRow>) {
            let mut collector = Collector::new(bounds.size, bounds.bytes, bounds.token.clone());
            for (name, (_, _, bytes)) in &self.stored {
                // Only the counted bytes; the tag and the length of the added field take two.
                let empty = EncodedResource::encode(&named(name, 0)).unwrap().bytes().len();
                let resource = EncodedResource::encode(&named(name, bytes - empty - 2)).unwrap();
                assert_eq!(resource.bytes().len(), *bytes);
                collector.offer(self.row(name).key, resource);
            }
            let page = collector.finish();
            let more = page.follower.map(|(key, resource)| NextRow { key, place: list_key(resource.name()) });
            (page.resources.iter().map(|resource| self.row(resource.name())).collect(), more)
        }
    }

    fn named(name: &str, more: usize) -> pb::Resource {
        let generation = "g".repeat(more);
        pb::Resource {
            id: Some(pb::Id { name: name.into(), ..pb::Id::default() }),
            generation,
            ..pb::Resource::default()
        }
    }

    fn list_key(name: &str) -> ListKey {
        ListKey { partition: String::new(), namespace: String::new(), name: name.into() }
    }

    fn apply(shown: &mut Shown, step: PageStep, row: impl Fn(usize) -> (ListKey, u64)) {
        match step {
            PageStep::Added(index) => shown.insert(index, row(index)),
            PageStep::Modified(from, to) => {
                shown.remove(from);
                shown.insert(to, row(to));
            }
            PageStep::Removed(index, place, _) => assert_eq!(shown.remove(index).0, place),
        }
    }

    fn shown_rows(rows: &[Row]) -> Shown {
        rows.iter().map(|row| (row.place.clone(), row.shown)).collect()
    }

    /// Compares the client's page with that of a search, after each of many random changes.
    #[test]
    fn ten_thousand_histories_end_in_the_page_of_a_search_after_each_change() {
        let mut random = fastrand::Rng::with_seed(20);
        let (mut rereads, mut steps_told, mut compared) = (0, 0, 0);
        for history in 0..10_000 {
            let order = ["", "name desc", "metadata.n", "metadata.n desc"][random.usize(..4)];
            let schema = Schema::new(None);
            let order = OrderBy::parse(order, &schema).unwrap();
            let mut world = World { schema, order, stored: Default::default() };
            let change = |world: &mut World, random: &mut fastrand::Rng| {
                let name = format!("r{}", random.u8(..8));
                if random.u8(..3) == 0 {
                    world.stored.remove(&name);
                } else {
                    let value = random.u8(..4).to_string();
                    world.stored.insert(name.clone(), (value, random.u64(..3), random.usize(20..60)));
                }
                name
            };
            for _ in 0..random.usize(..10) {
                change(&mut world, &mut random);
            }
            let mut bounds =
                PageBounds { size: random.usize(1..6), bytes: [1_000, 120][random.usize(..2)], token: None };
            let boundary = (!world.stored.is_empty()).then(|| {
                let names: Vec<_> = world.stored.keys().cloned().collect();
                world.row(&names[random.usize(..names.len())]).key
            });
            bounds.token = boundary.filter(|_| random.bool()).map(|boundary| match random.bool() {
                true => PageToken::after(boundary),
                false => PageToken::up_to(boundary),
            });
            let mut view = PageView::empty(bounds.clone());
            let mut shown = Shown::new();
            let reread = |view: &mut PageView, shown: &mut Shown, world: &World| {
                let (rows, more) = world.page(&bounds);
                let expected = shown_rows(&rows);
                view.become_page(rows, more)
                    .into_iter()
                    .for_each(|step| apply(shown, step, |index| expected[index].clone()));
            };
            reread(&mut view, &mut shown, &world);
            for _ in 0..random.usize(..20) {
                let name = change(&mut world, &mut random);
                let row = world.stored.contains_key(&name).then(|| world.row(&name));
                let content = row.as_ref().map(|row| (row.place.clone(), row.shown));
                match view.apply(&list_key(&name), row) {
                    Effect::Steps(steps) => {
                        steps_told += steps.len();
                        steps.into_iter().for_each(|step| apply(&mut shown, step, |_| content.clone().unwrap()));
                    }
                    Effect::Reread => {
                        rereads += 1;
                        reread(&mut view, &mut shown, &world);
                    }
                }
                let (rows, more) = world.page(&bounds);
                assert_eq!(shown, shown_rows(&rows), "history {history}: {bounds:?}");
                assert_eq!(view.more(), more.is_some(), "history {history}: {bounds:?}");
                assert_eq!((view.first(), view.last()), (rows.first().map(|r| &r.key), rows.last().map(|r| &r.key)));
                compared += 1;
            }
        }
        println!("{compared} pages compared, {steps_told} steps, {rereads} pages read again");
        assert!(compared > 50_000 && steps_told > 20_000 && rereads > 5_000 && rereads < compared / 2);
    }
}
