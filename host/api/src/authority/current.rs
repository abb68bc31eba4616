//! The active files of the authority, and their reload: as with the files of TLS, a change is applied after two looks
//! in a row have seen the same files, and faulty files change nothing but the log.

use std::{sync::Arc, time::SystemTime};

use arc_swap::ArcSwap;
use mortise_keys::certificate::{Certificate, check_request};
use mortise_resource::{Code, Error};
use parking_lot::Mutex;
use tokio::{
    sync::Semaphore,
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use super::{
    error::{AuthorityError, IssueError},
    issuer::{Leaf, LoadedIssuer},
    name::check_identity,
    options::{CERT_FILE, IdentityOptions, MAX_SIGNERS},
};
use crate::tls::{ExpiryMonitor, FileState, LastRead, Stamps, TlsReload};

/// The field of the request for a certificate.
const REQUEST: &str = "certificate_signing_request";

/// The authority.
pub(crate) struct Authority {
    options: IdentityOptions,
    issuer: ArcSwap<LoadedIssuer>,
    last_read: Mutex<LastRead>,
    signers: Arc<Semaphore>,
}

/// A certificate with its issuers.
pub(crate) struct Certified {
    pub(crate) leaf: Vec<u8>,
    pub(crate) intermediates: Vec<Vec<u8>>,
    pub(crate) serial: String,
    pub(crate) not_after: SystemTime,
}

/// Handle to read the files of the authority at once.
pub struct AuthorityFiles(pub(crate) Arc<Authority>);

impl AuthorityFiles {
    /// Reads the files again if they have changed, or if they were refused.
    pub async fn reload(&self) -> TlsReload {
        let options = self.0.options.clone();
        match spawn_blocking(move || stamps(&options)).await {
            Ok(now) => self.0.reload(now, true).await,
            Err(_) => TlsReload::Unchanged,
        }
    }
}

impl Authority {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// [`AuthorityError`].
    pub(crate) async fn load(options: IdentityOptions) -> Result<Arc<Self>, AuthorityError> {
        let (stamps, issuer) = read(&options).await?;
        log(&issuer.certificate, &options, "identities: the authority is in service");
        let last_read = Mutex::new(LastRead { stamps, refused: false });
        let signers = Arc::new(Semaphore::new(MAX_SIGNERS));
        Ok(Arc::new(Self { options, issuer: ArcSwap::from_pointee(issuer), last_read, signers }))
    }

    /// Checks that an identity is in the trust domain.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(crate) fn check_identity(&self, identity: &str) -> Result<(), Error> {
        check_identity(identity, &self.options.trust_domain)
    }

    /// Issues a certificate for an identity, which the caller must have been allowed.
    ///
    /// # Errors
    /// `InvalidArgument`: the request. `Unavailable`: the authority has expired. `Internal`.
    pub(crate) async fn certify(&self, identity: &str, request: Vec<u8>) -> Result<Certified, Error> {
        let closed = |_| Error::new(Code::Unavailable, "the server is stopping; ask again");
        let signer = self.signers.clone().acquire_owned().await.map_err(closed)?;
        let (issuer, identity) = (self.issuer.load_full(), identity.to_owned());
        let signing = spawn_blocking(move || {
            // The place is taken until the end, also if the caller has gone.
            let _signer = signer;
            let key = check_request(&request, &identity).map_err(|fault| {
                let fault = fault.to_string();
                Error::invalid(format!("{REQUEST} {fault}")).with_violation(REQUEST, fault)
            })?;
            let leaf = issuer.issue(&identity, &key).map_err(failed)?;
            Ok::<_, Error>((leaf, issuer.intermediates.clone()))
        });
        let (Leaf { der, serial, not_after }, intermediates) =
            signing.await.map_err(|e| Error::internal(format!("making a certificate: {e}")))??;
        Ok(Certified { leaf: der, intermediates, serial, not_after })
    }

    /// Watches the files for ever.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut every = interval(self.options.rescan);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut expiry = ExpiryMonitor::default();
        let mut watched = FileState::Judged(self.last_read.lock().stamps);
        loop {
            every.tick().await;
            expiry.check(&[(CERT_FILE, self.issuer.load().certificate.clone())]);
            let options = self.options.clone();
            // The task does not panic; if it did, the next check would follow.
            let Ok(now) = spawn_blocking(move || stamps(&options)).await else { continue };
            let judge;
            (watched, judge) = watched.next(now);
            if judge && self.reload(now, false).await.is_in_service() {
                expiry = ExpiryMonitor::default();
            }
        }
    }

    /// Reads files with these stamps and activates them, unless they were read before. With `again`, refused ones are
    /// read once more.
    async fn reload(&self, now: Stamps, again: bool) -> TlsReload {
        let before = std::mem::replace(&mut self.last_read.lock().stamps, now);
        if before == now && !(again && self.last_read.lock().refused) {
            return TlsReload::Unchanged;
        }
        let read = read(&self.options).await;
        self.last_read.lock().refused = read.is_err();
        let outcome = if read.is_ok() { "loaded" } else { "refused" };
        metrics::counter!("mortise_identity_reloads_total", "outcome" => outcome).increment(1);
        match read {
            Ok((_, issuer)) => {
                log(&issuer.certificate, &self.options, "identities: the changed files are in service");
                self.issuer.store(Arc::new(issuer));
                TlsReload::Loaded
            }
            Err(e) => {
                tracing::error!(
                    "identities: the changed files are refused, and the files that were read before stay in service: {e}"
                );
                TlsReload::Refused(e.to_string())
            }
        }
    }
}

fn failed(fault: IssueError) -> Error {
    match fault {
        IssueError::Expired(_) => {
            let what = "make another one by `mortise tls init --mesh DOMAIN --force`; its files are read again";
            Error::new(Code::Unavailable, format!("identity.cert_file: {fault}; {what}"))
        }
        // The name constraints of the authority leave the identity out.
        IssueError::Refused(_) => {
            let what = "ask for another identity, or use an authority that may issue this one (identity.cert_file)";
            Error::invalid(format!("identity: {fault}; {what}")).with_violation("identity", fault.to_string())
        }
        IssueError::Certificate(_) | IssueError::Random => Error::internal(fault.to_string()),
    }
}

/// Reads the files on a blocking thread; returns the issuer with the stamps from before.
async fn read(options: &IdentityOptions) -> Result<(Stamps, LoadedIssuer), AuthorityError> {
    let options = options.clone();
    spawn_blocking(move || Ok((stamps(&options), LoadedIssuer::read(&options)?))).await?
}

fn stamps(options: &IdentityOptions) -> Stamps {
    Stamps::of_files([Some(&options.cert_file), Some(&options.key_file), None])
}

fn log(certificate: &Certificate, options: &IdentityOptions, what: &str) {
    let Certificate { serial, .. } = certificate;
    let (subject, until) = (certificate.label(), certificate.expiry());
    tracing::info!(subject, serial, %until, trust_domain = options.trust_domain, "{what}");
}
