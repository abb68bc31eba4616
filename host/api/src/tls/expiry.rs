//! How long certificates are still valid: a metric, and a warning in time.

use std::time::Duration;

use jiff::Timestamp;
use mortise_certificate::{Certificate, Validity};
use tokio::time::Instant;

/// Days before the end from which on there is a warning.
const WARNING_DAYS: i64 = 30;

/// How long a warning is not said again.
const WARNING_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// Looks at certificates now and then.
#[derive(Default)]
pub(super) struct ExpiryMonitor {
    warned: Option<Instant>,
}

impl ExpiryMonitor {
    /// Sets the metric of each file, and warns once a day of what ends soon.
    pub(super) fn check(&mut self, certificates: &[(&'static str, Certificate)]) {
        let now = Timestamp::now();
        for (setting, certificate) in certificates {
            let gauge = metrics::gauge!("mortise_tls_certificate_expiry_seconds", "setting" => *setting);
            #[allow(clippy::cast_precision_loss, reason = "seconds of a few thousand years are exact")]
            gauge.set(certificate.seconds_left(now) as f64);
        }
        if self.warned.is_some_and(|warned| warned.elapsed() < WARNING_INTERVAL) {
            return;
        }
        for text in certificates.iter().filter_map(|(setting, certificate)| warning(setting, certificate, now)) {
            tracing::warn!("{text}");
            self.warned = Some(Instant::now());
        }
    }
}

fn warning(setting: &str, certificate: &Certificate, now: Timestamp) -> Option<String> {
    let label = certificate.label();
    match certificate.validity(now) {
        Validity::Expired => Some(format!(
            "{setting}: the certificate of {label} expired at {}; clients refuse it until the file has a new one",
            certificate.expiry()
        )),
        Validity::NotYet => Some(format!(
            "{setting}: the certificate of {label} is valid from {} on, and not yet; is the clock of this machine right?",
            certificate.start()
        )),
        Validity::Valid if certificate.days_left(now) < WARNING_DAYS => Some(format!(
            "{setting}: the certificate of {label} expires at {}, in {} days; a new one is taken when it is in the file",
            certificate.expiry(),
            certificate.days_left(now)
        )),
        Validity::Valid => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warning_begins_thirty_days_before() {
        let certificate = Certificate {
            subject: "CN=a".into(),
            common_name: None,
            dns_names: Vec::new(),
            addresses: Vec::new(),
            uris: Vec::new(),
            issuer: String::new(),
            serial: String::new(),
            not_before: 0,
            not_after: 100 * 86_400,
            is_ca: false,
        };
        let at = |seconds| warning("tls.cert_file", &certificate, Timestamp::from_second(seconds).unwrap());
        assert_eq!(at(70 * 86_400), None);
        let soon = at(70 * 86_400 + 1).unwrap();
        assert!(soon.starts_with("tls.cert_file: the certificate of CN=a expires at 1970-04-11"), "{soon}");
        assert!(soon.contains("in 29 days"), "{soon}");
        assert!(at(100 * 86_400 + 1).unwrap().contains("expired at"));
        assert!(at(-1).unwrap().contains("not yet"));
    }
}
