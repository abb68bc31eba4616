//! Upstreams with host names, which nginx looks up for each request. At the load of its files, one name that does not
//! resolve would make nginx refuse them all.
//!
//! A `split_clients` block gives each request one of the host names, or the `upstream` block with the addresses, in
//! proportion to the weights, in a variable for `proxy_pass`. With a variable nginx asks the `resolver` of its server
//! block, and tries the addresses of the one name.

use std::fmt::Write as _;

/// First word of the block.
pub(crate) const SPLIT: &str = "split_clients";

/// Variable that the requests are divided by: different for each.
pub(crate) const KEY: &str = "$request_id";

/// Units of a share: nginx reads two digits behind the point of a percentage.
const UNITS: u64 = 10_000;

/// The variable of a Route, by the name of its `upstream` block. Names of variables have no dashes, and those of blocks
/// no two underscores beside each other.
pub(crate) fn variable(upstream: &str) -> String {
    format!("${}", upstream.replace('-', "__"))
}

/// Whether a file has the block.
pub(crate) fn has_variable(text: &str) -> bool {
    text.lines().any(|line| line.starts_with(SPLIT))
}

/// Appends the block, if there are names. `addresses` is the weight of those in the `upstream` block together, 0
/// without any.
pub(crate) fn render(upstream: &str, addresses: u64, names: &[(String, u32)], text: &mut String) {
    if names.is_empty() {
        return;
    }
    let mut targets: Vec<(&str, u64)> =
        names.iter().map(|(name, weight)| (name.as_str(), u64::from(*weight))).collect();
    if addresses > 0 {
        targets.push((upstream, addresses));
    }
    let total = targets.iter().map(|(_, weight)| weight).sum::<u64>().max(1);
    let Some(((rest, _), shares)) = targets.split_last() else { return };
    // Writing to a string does not fail.
    let _ = writeln!(text, "\n{SPLIT} {KEY} {} {{", variable(upstream));
    let mut left = UNITS;
    for (number, (target, weight)) in shares.iter().enumerate() {
        // nginx accepts no share of nothing, and no more than the whole.
        let later = (shares.len() - number) as u64;
        let units = (UNITS * weight / total).clamp(1, left.saturating_sub(later).max(1));
        left = left.saturating_sub(units);
        let _ = writeln!(text, "    {}.{:02}% {target};", units / 100, units % 100);
    }
    let _ = writeln!(text, "    * {rest};\n}}");
}

/// Whether a text is a share as it is written here.
pub(crate) fn is_share(text: &str) -> bool {
    let digits = |text: &str, most: usize| (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    let Some((whole, part)) = text.strip_suffix('%').and_then(|text| text.split_once('.')) else { return false };
    digits(whole, 3) && part.len() == 2 && digits(part, 2) && (1..=UNITS).contains(&units(whole, part))
}

/// The units of a share; none for more than there are.
fn units(whole: &str, part: &str) -> u64 {
    let number = |text: &str| text.parse::<u64>().unwrap_or(UNITS);
    number(whole).saturating_mul(100).saturating_add(number(part))
}

/// Units of a share that [`is_share`].
pub(crate) fn share(text: &str) -> u64 {
    text.strip_suffix('%').and_then(|text| text.split_once('.')).map_or(UNITS, |(whole, part)| units(whole, part))
}

/// Whether so many units are at most the whole.
pub(crate) fn is_within(sum: u64) -> bool {
    sum <= UNITS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(addresses: u64, names: &[(&str, u32)]) -> Vec<String> {
        let names: Vec<_> = names.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect();
        let mut text = String::new();
        render("mortise_a_b_web-1", addresses, &names, &mut text);
        text.lines().map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn shares_are_in_proportion_and_never_nothing_or_more_than_the_whole() {
        assert_eq!(
            shown(6, &[("a.example:80", 1), ("b.example:80", 1)]),
            [
                "",
                "split_clients $request_id $mortise_a_b_web__1 {",
                "12.50% a.example:80;",
                "12.50% b.example:80;",
                "* mortise_a_b_web-1;",
                "}"
            ]
        );
        assert_eq!(shown(0, &[("a:80", 7)])[2..], ["* a:80;", "}"]);
        assert_eq!(shown(0, &[("a:80", 1), ("b:80", 1000)])[2], "0.09% a:80;");
        let names: Vec<_> =
            (0..256).map(|number| (format!("n{number}:80"), if number == 3 { 1000 } else { 1 })).collect();
        let names: Vec<_> = names.iter().map(|(name, weight)| (name.as_str(), *weight)).collect();
        for addresses in [0, 1, 65_535_000] {
            let lines = shown(addresses, &names);
            let shares: Vec<_> = lines.iter().filter_map(|line| line.split_once(' ')).map(|(share, _)| share).collect();
            let shares: Vec<_> = shares.into_iter().filter(|one| one.ends_with('%')).collect();
            assert!(shares.iter().all(|one| is_share(one)), "{lines:?}");
            assert!(is_within(shares.iter().map(|one| share(one)).sum::<u64>() + 1), "{lines:?}");
        }
        for bad in ["0.00%", "100.01%", "1%", "1.5%", "-1.00%", "1.000%", "1.00", "٣.00%", ".10%", "1e2.00%"] {
            assert!(!is_share(bad), "{bad}");
        }
    }
}
