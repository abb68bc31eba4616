//! Components as artifacts: their manifests, and the signatures that refer to them.

use crate::{
    error::RegistryError,
    manifest::{
        Descriptor, EMPTY, EMPTY_CONFIG, INDEX, MANIFEST, MINISIGN, Manifest, TITLE, VERSION, WASM_CONFIG, WASM_LAYER,
    },
    wasm,
};

/// Media types of layers that hold a component: the usual one, and those of earlier programs.
const LAYERS: [&str; 3] =
    [WASM_LAYER, "application/vnd.wasm.content.layer.v1+wasm", "application/vnd.module.wasm.content.layer.v1+wasm"];

/// Media types of lists of manifests.
const INDEXES: [&str; 2] = [INDEX, "application/vnd.docker.distribution.manifest.list.v2+json"];

/// Most bytes of the config of an artifact.
pub(crate) const MAX_CONFIG: usize = 1 << 20;

/// Most signatures of a component that are read.
pub(crate) const MAX_SIGNATURES: usize = 8;

/// Most entries of signatures that are looked at for these.
pub(crate) const MAX_SIGNATURE_ENTRIES: usize = 64;

/// Most bytes of a signature.
pub(crate) const MAX_SIGNATURE: usize = 16 << 10;

/// An artifact, ready to be put somewhere: its manifest, its config and its layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// The manifest's bytes.
    pub manifest: Vec<u8>,
    /// The config's bytes.
    pub config: Vec<u8>,
    /// The layer's bytes.
    pub layer: Vec<u8>,
}

/// A component with what its manifest says about it.
#[derive(Debug, Clone)]
pub struct About<'a> {
    /// Name of its file.
    pub file: &'a str,
    /// Its version, if it is known.
    pub version: Option<&'a str>,
}

impl Artifact {
    /// Makes the artifact of a component. Equal components with equal names make equal artifacts.
    ///
    /// # Errors
    /// [`RegistryError::NotComponent`].
    pub fn of_component(component: Vec<u8>, about: &About<'_>) -> Result<Self, RegistryError> {
        let refused = |fault: String| RegistryError::NotComponent { reference: about.file.to_owned(), fault };
        wasm::check(&component).map_err(|fault| refused(fault.to_owned()))?;
        let layer = Descriptor::of(WASM_LAYER, &component).note(TITLE, about.file);
        let config = wasm::config(&component, &layer.digest).map_err(|error| refused(error.to_string()))?;
        let config = encode(&config, about.file)?;
        let mut manifest = Manifest::new(Descriptor::of(WASM_CONFIG, &config), layer);
        if let Some(version) = about.version {
            manifest.annotations.insert(VERSION.to_owned(), version.to_owned());
        }
        Ok(Self { manifest: encode(&manifest, about.file)?, config, layer: component })
    }

    /// Makes the artifact of a component's signature.
    ///
    /// # Errors
    /// None that is known: the manifest is made of texts.
    pub fn of_signature(subject: Descriptor, file: &str, signature: Vec<u8>) -> Result<Self, RegistryError> {
        let layer = Descriptor::of(MINISIGN, &signature).note(TITLE, format!("{file}.minisig"));
        let mut manifest = Manifest::new(Descriptor::of(EMPTY_CONFIG, EMPTY), layer);
        manifest.artifact_type = Some(MINISIGN.to_owned());
        manifest.subject = Some(subject);
        Ok(Self { manifest: encode(&manifest, file)?, config: EMPTY.to_vec(), layer: signature })
    }

    /// Describes the manifest.
    #[must_use]
    pub fn descriptor(&self) -> Descriptor {
        Descriptor::of(MANIFEST, &self.manifest)
    }
}

fn encode<T: serde::Serialize>(value: &T, file: &str) -> Result<Vec<u8>, RegistryError> {
    crate::api::json(value, file)
}

/// Fails for a media type of lists of manifests. The error is the fault.
pub(crate) fn refuse_list(media_type: &str) -> Result<(), String> {
    if INDEXES.contains(&media_type) {
        return Err("it is a list of manifests; name one of them by its digest".to_owned());
    }
    Ok(())
}

/// Finds the layer of the component in a manifest. The error is the fault.
pub(crate) fn layer(manifest: &Manifest) -> Result<&Descriptor, String> {
    refuse_list(&manifest.media_type)?;
    let mut found = manifest.layers.iter().filter(|layer| LAYERS.contains(&layer.media_type.as_str()));
    match (found.next(), found.next()) {
        (Some(layer), None) => Ok(layer),
        (Some(_), Some(_)) => Err(format!("it has several layers of the type {WASM_LAYER}")),
        (None, _) => Err(format!("it has no layer of the type {WASM_LAYER}, and is of the type {}", kind(manifest))),
    }
}

fn kind(manifest: &Manifest) -> String {
    let fits = |c: &char| c.is_ascii_graphic();
    manifest.kind().chars().filter(fits).take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

    #[test]
    fn equal_components_make_equal_artifacts_of_the_layout_that_wkg_wants() {
        let about = About { file: "demo.wasm", version: Some("1.2.0") };
        let made = Artifact::of_component(COMPONENT.to_vec(), &about).unwrap();
        assert_eq!(made, Artifact::of_component(COMPONENT.to_vec(), &about).unwrap());
        let manifest: Manifest = serde_json::from_slice(&made.manifest).unwrap();
        assert_eq!(manifest.config.media_type, "application/vnd.wasm.config.v0+json");
        assert_eq!(manifest.layers.len(), 1);
        assert_eq!(manifest.layers[0].media_type, "application/wasm");
        assert_eq!(manifest.layers[0].annotations[TITLE], "demo.wasm");
        assert_eq!(manifest.annotations[VERSION], "1.2.0");
        let config: serde_json::Value = serde_json::from_slice(&made.config).unwrap();
        assert_eq!(config["os"], "wasip2");
        assert_eq!(config["layerDigests"][0], manifest.layers[0].digest.to_string());
        assert_eq!(layer(&manifest).unwrap().digest.hex(), manifest.layers[0].digest.hex());
    }

    #[test]
    fn other_artifacts_have_no_layer_of_a_component() {
        let about = About { file: "demo.wasm", version: None };
        let made = Artifact::of_component(COMPONENT.to_vec(), &about).unwrap();
        let manifest: Manifest = serde_json::from_slice(&made.manifest).unwrap();
        let twice =
            Manifest { layers: [manifest.layers.clone(), manifest.layers.clone()].concat(), ..manifest.clone() };
        assert!(layer(&twice).unwrap_err().contains("several layers"));
        assert!(refuse_list(INDEX).unwrap_err().contains("list of manifests") && refuse_list(MANIFEST).is_ok());
        let image = Manifest { layers: vec![Descriptor::of("application/x-tar", b"")], ..manifest };
        assert!(layer(&image).unwrap_err().contains("no layer of the type application/wasm"));
        let fault = Artifact::of_component(b"text".to_vec(), &about).unwrap_err();
        assert_eq!(fault.to_string(), "demo.wasm is not a component: it is not WebAssembly");
    }
}
