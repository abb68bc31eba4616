//! The remaining validity of certificates: a metric, and a warning in time.

use std::time::Duration;

use jiff::Timestamp;
use mortise_keys::certificate::{Certificate, Validity};
use tokio::time::Instant;

/// Days of remaining validity below which a warning is logged.
const WARNING_DAYS: i64 = 30;

/// Shortest time between two warnings for a file.
const WARNING_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// Checks certificates now and then.
#[derive(Default)]
pub(crate) struct ExpiryMonitor {
    warned: Option<Instant>,
}

impl ExpiryMonitor {
    /// Sets the metric of each file, and warns once a day about certificates that expire soon.
    pub(crate) fn check(&mut self, certificates: &[(&'static str, Certificate)]) {
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
            "{setting}: the certificate of {label} expired at {}; put a new one into the file, since clients refuse this one",
            certificate.expiry()
        )),
        Validity::NotYet => Some(format!(
            "{setting}: the certificate of {label} is not valid before {}; check the clock of this machine",
            certificate.start()
        )),
        Validity::Valid if certificate.days_left(now) < WARNING_DAYS => Some(format!(
            "{setting}: the certificate of {label} expires at {}, in {} days; put a new one into the file, which is reloaded",
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
            constrains_names: false,
            path_length: None,
        };
        let warning_at = |seconds| warning("tls.cert_file", &certificate, Timestamp::from_second(seconds).unwrap());
        assert_eq!(warning_at(70 * 86_400), None);
        let soon = warning_at(70 * 86_400 + 1).unwrap();
        assert!(soon.starts_with("tls.cert_file: the certificate of CN=a expires at 1970-04-11"), "{soon}");
        assert!(soon.contains("in 29 days"), "{soon}");
        assert!(warning_at(100 * 86_400 + 1).unwrap().contains("expired at"));
        assert!(warning_at(-1).unwrap().contains("not valid before"));
    }
}
