//! The parent's knowledge of the store, and the states that it allows.

use std::collections::BTreeMap;

/// Number of a resource; `None` when it is absent.
type State = Option<u64>;

/// Knowledge about one resource.
#[derive(Default)]
pub(crate) struct KnownState {
    acknowledged: State,
    /// State that a begun commit may have produced instead.
    perhaps: Option<State>,
    /// Other resource of that commit, if it had two.
    partner: Option<String>,
}

#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) known: BTreeMap<String, KnownState>,
    /// Newest version of an earlier round.
    pub(crate) bar: u64,
    newest: u64,
    pub(crate) acknowledged: u64,
}

impl Ledger {
    fn begin(&mut self, name: &str, state: State, partner: Option<&str>) {
        let known = self.known.entry(name.to_owned()).or_default();
        (known.perhaps, known.partner) = (Some(state), partner.map(str::to_owned));
    }

    pub(crate) fn apply_line(&mut self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["put", name, n] => self.begin(name, Some(n.parse().unwrap()), None),
            ["delete", name] => self.begin(name, None, None),
            ["pair", a, m, b, n] => {
                self.begin(a, Some(m.parse().unwrap()), Some(b));
                self.begin(b, Some(n.parse().unwrap()), Some(a));
            }
            ["done", name, version] => {
                let known = self.known.get_mut(name).unwrap();
                known.acknowledged = known.perhaps.take().unwrap();
                if let Some(partner) = known.partner.take() {
                    // Both are acknowledged, even if the other's line was lost.
                    let other = self.known.get_mut(&partner).unwrap();
                    if let Some(state) = other.perhaps.take() {
                        other.acknowledged = state;
                        other.partner = None;
                        // The other's own line, if it comes, repeats this.
                        other.perhaps = Some(state);
                    }
                }
                let version: u64 = version.parse().unwrap();
                assert!(version == 0 || version > self.bar, "version {version} after {}", self.bar);
                self.newest = self.newest.max(version);
                self.acknowledged += 1;
            }
            ["found", name, n] => {
                let n = n.parse().unwrap();
                self.compare(name, (n > 0).then_some(n));
            }
            // The test harness prints other lines.
            _ => assert!(!line.contains("panicked"), "{line}"),
        }
    }

    /// Checks the state found, and takes it as the resource's state.
    pub(crate) fn compare(&mut self, name: &str, found: State) {
        let known = self.known.entry(name.to_owned()).or_default();
        let begun = known.perhaps.is_some_and(|state| state == found);
        assert!(
            found == known.acknowledged || begun,
            "{name} is {found:?}, acknowledged was {:?}, begun {:?}",
            known.acknowledged,
            known.perhaps
        );
        let both = known.partner.clone().filter(|_| begun && found != known.acknowledged);
        *known = KnownState { acknowledged: found, ..KnownState::default() };
        if let Some(partner) = both {
            // The other half of the batch must be there, too.
            let other = self.known.get_mut(&partner).unwrap();
            if let Some(state) = other.perhaps.take() {
                other.acknowledged = state;
            }
        }
    }

    pub(crate) fn round_over(&mut self) {
        self.bar = self.bar.max(self.newest);
    }
}
