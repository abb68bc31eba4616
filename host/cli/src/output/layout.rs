//! Widths of a table's columns on a terminal.
//!
//! Columns are cut, the widest first, down to [`NARROWEST`]. If that is not enough, the last columns are left out. The
//! column of names is cut last, and never left out.

/// Least width to which a column is cut before others are left out.
const NARROWEST: usize = 8;

/// Returns the width of each column; `None` for one that is hidden, as it was before, or left out. `name` is the position
/// of the names, `gap` the number of blanks between columns.
pub(crate) fn fit(widths: &[Option<usize>], name: usize, gap: usize, available: usize) -> Vec<Option<usize>> {
    let mut shown = widths.to_vec();
    loop {
        let mut over = needed(&shown, gap).saturating_sub(available);
        // What the columns besides the name can give.
        let others = shown.iter().enumerate().filter(|(at, _)| *at != name).filter_map(|(_, width)| *width);
        let spare: usize = others.map(|width| width.saturating_sub(NARROWEST)).sum();
        let last = shown.iter().enumerate().rposition(|(at, width)| at != name && width.is_some());
        if over > spare
            && let Some(last) = last
        {
            if let Some(column) = shown.get_mut(last) {
                *column = None;
            }
            continue;
        }
        while over > 0 {
            let others =
                shown.iter_mut().enumerate().filter(|(at, _)| *at != name).filter_map(|(_, width)| width.as_mut());
            let Some(widest) = others.max().filter(|widest| **widest > NARROWEST) else { break };
            *widest -= 1;
            over -= 1;
        }
        if over > 0
            && let Some(Some(width)) = shown.get_mut(name)
        {
            *width = width.saturating_sub(over).max(1);
        }
        return shown;
    }
}

fn needed(shown: &[Option<usize>], gap: usize) -> usize {
    let count = shown.iter().flatten().count();
    shown.iter().flatten().sum::<usize>() + gap * count.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(widths: &[usize]) -> Vec<Option<usize>> {
        widths.iter().copied().map(Some).collect()
    }

    #[test]
    fn the_widest_are_cut_then_the_last_left_out_and_the_name_is_cut_last() {
        for (widths, available, expected) in [
            (vec![10, 20, 5], 45, vec![Some(10), Some(20), Some(5)]),
            (vec![10, 20, 5], 31, vec![Some(10), Some(10), Some(5)]),
            (vec![30, 20, 5], 49, vec![Some(30), Some(8), Some(5)]),
            (vec![30, 20, 5], 48, vec![Some(30), Some(15), None]),
            (vec![30, 20, 5], 32, vec![Some(30), None, None]),
            (vec![30, 20, 5], 12, vec![Some(12), None, None]),
            (vec![30, 20, 5], 0, vec![Some(1), None, None]),
            (vec![], 10, vec![]),
        ] {
            assert_eq!(fit(&all(&widths), 0, 3, available), expected, "{widths:?} in {available}");
        }
        assert_eq!(fit(&[Some(10), None, Some(5)], 0, 3, 18), [Some(10), None, Some(5)], "a hidden one needs nothing");
        // The name is not always the first column.
        assert_eq!(fit(&all(&[9, 30, 20]), 1, 3, 42), [Some(9), Some(30), None]);
        assert_eq!(fit(&all(&[9, 30, 20]), 1, 3, 35), [None, Some(30), None]);
    }

    #[test]
    fn nothing_is_wider_than_the_terminal() {
        for available in 1..120 {
            for name in 0..4 {
                let shown = fit(&all(&[40, 9, 70, 12]), name, 3, available);
                assert!(needed(&shown, 3) <= available, "{shown:?} in {available}");
                assert!(shown[name].is_some());
            }
        }
    }
}
