//! The slope of a series of samples, with its standard error.
//!
//! # Contract
//! [`slope`] fits one slope to several series, such as the lives of a server, each with a level of its own (least
//! squares). The standard error is that of the means of blocks of samples, since neighbouring samples resemble each
//! other.
//!
//! # Limits
//! A series that rises in steps needs several steps for a good standard error. Blocks that are shorter than the
//! oscillation of the series make the error too small.

/// Blocks of each series.
const BLOCKS: usize = 10;

/// A slope, in units of the values for each unit of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slope {
    /// Estimate.
    pub value: f64,
    /// Standard error.
    pub error: f64,
}

impl Slope {
    /// Lower end of the interval in which the slope is with 95 % confidence on each side.
    #[must_use]
    pub fn at_least(&self) -> f64 {
        // Student's t for the 16 degrees of freedom of two series is 1.75; for 8, it is 1.86.
        self.value - 1.86 * self.error
    }
}

/// Fits a slope to series of times and values. `None` if they have fewer than four blocks.
#[must_use]
pub fn slope(series: &[Vec<(f64, f64)>]) -> Option<Slope> {
    let blocks: Vec<Vec<(f64, f64)>> = series.iter().map(|samples| means(samples)).collect();
    let count: usize = blocks.iter().map(Vec::len).sum();
    let (mut squares, mut products, mut values) = (0.0, 0.0, 0.0);
    for block in &blocks {
        let (x, y) = mean(block);
        for (time, value) in block {
            squares += (time - x).powi(2);
            products += (time - x) * (value - y);
            values += (value - y).powi(2);
        }
    }
    let free = count.checked_sub(blocks.len() + 1).filter(|free| *free > 1)?;
    if squares <= 0.0 {
        return None;
    }
    let value = products / squares;
    let rest = (values - value * products).max(0.0);
    Some(Slope { value, error: (rest / free as f64 / squares).sqrt() })
}

/// Returns the means of consecutive blocks.
fn means(samples: &[(f64, f64)]) -> Vec<(f64, f64)> {
    samples.chunks(samples.len().div_ceil(BLOCKS).max(1)).map(mean).collect()
}

fn mean(samples: &[(f64, f64)]) -> (f64, f64) {
    let count = samples.len().max(1) as f64;
    let sum = samples.iter().fold((0.0, 0.0), |sum, (time, value)| (sum.0 + time, sum.1 + value));
    (sum.0 / count, sum.1 / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noisy(rise: f64, level: f64, random: &mut fastrand::Rng) -> Vec<(f64, f64)> {
        let value = |time: f64, noise: f64| (time, level + rise * time + noise);
        (0..200).map(|time| value(f64::from(time), 20.0 * (random.f64() - 0.5))).collect()
    }

    #[test]
    fn a_line_has_its_slope_and_no_error() {
        let line: Vec<_> = (0..100).map(|time| (f64::from(time), 7.0 + 0.5 * f64::from(time))).collect();
        let found = slope(&[line]).unwrap();
        assert!((found.value - 0.5).abs() < 1e-9 && found.error < 1e-6, "{found:?}");
    }

    #[test]
    fn series_with_other_levels_share_a_slope() {
        let series = |level: f64| (0..50).map(|time| (f64::from(time), level - f64::from(time))).collect();
        let found = slope(&[series(10.0), series(9_000.0)]).unwrap();
        assert!((found.value + 1.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn the_interval_has_the_slope_about_as_often_as_it_should() {
        let mut random = fastrand::Rng::with_seed(5);
        let (mut above, mut found_rises) = (0, 0);
        for _ in 0..500 {
            let flat = [noisy(0.0, 3.0, &mut random), noisy(0.0, 80.0, &mut random)];
            above += usize::from(slope(&flat).unwrap().at_least() > 0.0);
            let rises = [noisy(0.1, 3.0, &mut random), noisy(0.1, 80.0, &mut random)];
            found_rises += usize::from(slope(&rises).unwrap().at_least() > 0.0);
        }
        assert!((5..50).contains(&above), "{above} of 500 flat series seem to rise");
        assert!(found_rises > 490, "{found_rises} of 500 rising series are found");
    }

    #[test]
    fn a_few_samples_have_no_slope() {
        assert_eq!(slope(&[vec![(0.0, 1.0), (1.0, 2.0)]]), None);
        assert_eq!(slope(&[]), None);
        assert_eq!(slope(&[vec![(1.0, 1.0); 40]]), None);
    }
}
