//! Collects the facts about an offered component, its signature among them, for the rules of [`trust`](crate::trust).

use mortise_keys::signature::{Verified, verify};

use crate::{
    core::Core,
    files::folder,
    load::{request::LoadRequest, stage::Failure},
    state::ManagerState,
    trust::{Origin, SignatureFault, TrustDecision, TrustFacts},
};

impl Core {
    /// Decides whether a component may be loaded, and why.
    pub(crate) async fn verify(&self, request: &LoadRequest) -> Result<TrustDecision, Failure> {
        let (has_served, is_planned, kept) = {
            let state = self.lock().await;
            let plugin = request.plugin_before.as_deref();
            let kept = plugin.and_then(|plugin| state.components.signature(plugin, &request.digest));
            (state.has_served(&request.digest), state.starting && state.planned.contains(&request.digest), kept)
        };
        let rules = &self.options.trust;
        let bundled = || self.options.bundled.iter().any(|(_, bytes)| folder::digest(bytes) == request.digest);
        let facts = TrustFacts {
            origin: request.origin,
            digest: &request.digest,
            signed: self.find_signature(request, kept).await,
            is_bundled: request.origin == Origin::Binary || rules.require_signed && bundled(),
            has_served,
            is_planned,
        };
        rules.verify(facts)
    }

    /// The signature by a trusted key: the offered one, or the kept one.
    async fn find_signature(
        &self,
        request: &LoadRequest,
        kept: Option<Vec<u8>>,
    ) -> Result<(Verified, Vec<u8>), SignatureFault> {
        let (offered, fault) = match &request.signature {
            Ok(offered) => (offered.clone(), SignatureFault::Missing),
            Err(fault) => (None, SignatureFault::Unreadable(fault.clone())),
        };
        if offered.is_none() && kept.is_none() {
            return Err(fault);
        }
        let (options, bytes) = (self.options.clone(), request.bytes.clone());
        let verified = tokio::task::spawn_blocking(move || {
            let mut fault = fault;
            for signature in [offered, kept].into_iter().flatten() {
                match verify(&bytes, &signature, &options.trust.keys) {
                    Ok(verified) => return Ok((verified, signature)),
                    // The fault of the offered signature is shown, since it can be fixed.
                    Err(refused) if matches!(fault, SignatureFault::Missing) => fault = refused.into(),
                    Err(_) => {}
                }
            }
            Err(fault)
        });
        verified.await.unwrap_or(Err(SignatureFault::Missing))
    }
}

impl ManagerState {
    /// Whether a plugin that no operator has removed serves that component, or served it before.
    fn has_served(&self, digest: &str) -> bool {
        self.plugins.values().filter(|managed| !managed.is_file_only()).any(|managed| {
            let data = &managed.record.data;
            !data.withdrawn && (data.digest == digest || data.previous_digest == digest)
        })
    }
}
