//! Imports for reconcilers, and for hooks that search: one world and one set of calls for each interface.
//!
//! A call that a component does not make is not compiled into it, and its interface is not imported; so a function here
//! must not refer to more than one interface, and must not be called through a table.

use mortise_resource::pb;
use prost::Message;

use super::mutates::mortise::plugin::types;
use crate::{
    Failure,
    host::{Host, Key},
    http_message::{HttpRequest, HttpResponse},
};

pub mod uses_resources {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "uses-resources",
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
        with: {
            "mortise:plugin/types@0.1.0": crate::bindings::mutates::mortise::plugin::types,
        },
    });
}

pub mod uses_queries {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "uses-queries",
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
        with: {
            "mortise:plugin/failures@0.1.0": crate::bindings::imports::uses_resources::mortise::plugin::failures,
        },
    });
}

pub mod uses_lookup {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "uses-lookup",
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
        with: {
            "mortise:plugin/failures@0.1.0": crate::bindings::imports::uses_resources::mortise::plugin::failures,
        },
    });
}

pub mod uses_cache {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "uses-cache",
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
        with: {
            "mortise:plugin/types@0.1.0": crate::bindings::mutates::mortise::plugin::types,
            "mortise:plugin/failures@0.1.0": crate::bindings::imports::uses_resources::mortise::plugin::failures,
        },
    });
}

pub mod uses_cache_pages {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "uses-cache-pages",
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
        with: {
            "mortise:plugin/types@0.1.0": crate::bindings::mutates::mortise::plugin::types,
            "mortise:plugin/failures@0.1.0": crate::bindings::imports::uses_resources::mortise::plugin::failures,
            "mortise:plugin/cache@0.1.0": crate::bindings::imports::uses_cache::mortise::plugin::cache,
        },
    });
}

pub mod uses_probes {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "uses-probes",
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
        with: {
            "mortise:plugin/types@0.1.0": crate::bindings::mutates::mortise::plugin::types,
            "mortise:plugin/failures@0.1.0": crate::bindings::imports::uses_resources::mortise::plugin::failures,
        },
    });
}

pub mod uses_kv {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "uses-kv",
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
        with: {
            "mortise:plugin/failures@0.1.0": crate::bindings::imports::uses_resources::mortise::plugin::failures,
        },
    });
}

pub mod uses_private_bytes {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "uses-private-bytes",
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
        with: {
            "mortise:plugin/types@0.1.0": crate::bindings::mutates::mortise::plugin::types,
            "mortise:plugin/failures@0.1.0": crate::bindings::imports::uses_resources::mortise::plugin::failures,
        },
    });
}

pub mod uses_files {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "uses-files",
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
        with: {
            "mortise:plugin/failures@0.1.0": crate::bindings::imports::uses_resources::mortise::plugin::failures,
        },
    });
}

pub mod uses_secrets {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "uses-secrets",
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
        with: {
            "mortise:plugin/failures@0.1.0": crate::bindings::imports::uses_resources::mortise::plugin::failures,
        },
    });
}

pub mod uses_tcp {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "uses-tcp",
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
        with: {
            "mortise:plugin/failures@0.1.0": crate::bindings::imports::uses_resources::mortise::plugin::failures,
        },
    });
}

pub mod uses_clock {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "uses-clock",
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
    });
}

pub mod uses_run {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "uses-run",
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
    });
}

use uses_cache::mortise::plugin::cache;
use uses_cache_pages::mortise::plugin::cache_pages;
use uses_clock::mortise::plugin::clock;
use uses_files::mortise::plugin::files;
use uses_kv::mortise::plugin::kv;
use uses_lookup::mortise::plugin::lookup;
use uses_private_bytes::mortise::plugin::private_bytes;
use uses_probes::mortise::plugin::probes;
use uses_queries::mortise::plugin::queries;
use uses_resources::mortise::plugin::{failures, resources};
use uses_run::mortise::plugin::run;
use uses_secrets::mortise::plugin::secrets;
use uses_tcp::mortise::plugin::tcp;

/// Calls `lookup.search`, from hooks: an encoded `mortise.v1.SearchRequest`, answered by a `SearchResponse`.
pub fn search(request: &[u8]) -> Result<Vec<u8>, Failure> {
    lookup::search(request).map_err(failure)
}

/// Imports of the component.
pub struct Imports;

impl Host for Imports {
    fn read(&self, id: &[u8]) -> Result<Vec<u8>, Failure> {
        resources::read(id).map_err(failure)
    }

    fn list(&self, of: pb::Type, tenancy: pb::Tenancy, name_prefix: &str) -> Result<Vec<Vec<u8>>, Failure> {
        let pb::Tenancy { partition, namespace } = tenancy;
        resources::list(&type_name(of), &types::Tenancy { partition, namespace }, name_prefix).map_err(failure)
    }

    fn list_by_owner(&self, owner: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
        resources::list_by_owner(owner).map_err(failure)
    }

    fn write(&self, resource: &[u8]) -> Result<Vec<u8>, Failure> {
        resources::write(resource).map_err(failure)
    }

    fn write_status(&self, id: &[u8], version: &str, key: &str, status: &[u8]) -> Result<Vec<u8>, Failure> {
        resources::write_status(id, version, key, status).map_err(failure)
    }

    fn delete(&self, id: &[u8], version: &str) -> Result<(), Failure> {
        resources::delete(id, version).map_err(failure)
    }

    fn search(&self, request: &[u8]) -> Result<Vec<u8>, Failure> {
        queries::search(request).map_err(failure)
    }

    fn update(&self, request: &[u8]) -> Result<Vec<u8>, Failure> {
        queries::update(request).map_err(failure)
    }

    fn cache_get(&self, of: pb::Type, index: &str, key: Key<'_>) -> Result<Option<Vec<u8>>, Failure> {
        cache::get(&type_name(of), index, &wire_key(key, false)).map_err(failure)
    }

    fn cache_list(&self, of: pb::Type, index: &str, key: Key<'_>) -> Result<Vec<Vec<u8>>, Failure> {
        cache::list(&type_name(of), index, &wire_key(key, true)).map_err(failure)
    }

    fn cache_page(
        &self,
        of: pb::Type,
        tenancy: pb::Tenancy,
        (index, key): (&str, Key<'_>),
        (from, before): (&str, &str),
        limit: u32,
    ) -> Result<(Vec<Vec<u8>>, bool), Failure> {
        let pb::Tenancy { partition, namespace } = tenancy;
        let within = types::Tenancy { partition, namespace };
        let key = wire_key(key, true);
        let page = cache_pages::list(&type_name(of), &within, index, &key, from, before, limit).map_err(failure)?;
        Ok((page.resources, page.more))
    }

    fn set_probes(&self, of: &[u8], set: &[u8]) -> Result<(), Failure> {
        probes::set(of, set).map_err(failure)
    }

    fn kv_get(&self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        kv::get(key).map_err(failure)
    }

    fn kv_set(&self, key: &str, value: &[u8]) -> Result<(), Failure> {
        kv::set(key, value).map_err(failure)
    }

    fn kv_remove(&self, key: &str) -> Result<(), Failure> {
        kv::remove(key).map_err(failure)
    }

    fn kv_keys(&self, prefix: &str) -> Result<Vec<String>, Failure> {
        kv::keys(prefix).map_err(failure)
    }

    fn private_bytes_get(&self, id: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        private_bytes::get(id).map_err(failure)
    }

    fn private_bytes_set(&self, id: &[u8], value: &[u8]) -> Result<(), Failure> {
        private_bytes::set(id, value).map_err(failure)
    }

    fn private_bytes_remove(&self, id: &[u8]) -> Result<(), Failure> {
        private_bytes::remove(id).map_err(failure)
    }

    fn file_read(&self, directory: &str, name: &str) -> Result<Option<Vec<u8>>, Failure> {
        files::read(directory, name).map_err(failure)
    }

    fn file_write(&self, directory: &str, name: &str, content: &[u8]) -> Result<(), Failure> {
        files::write(directory, name, content).map_err(failure)
    }

    fn file_remove(&self, directory: &str, name: &str) -> Result<(), Failure> {
        files::remove(directory, name).map_err(failure)
    }

    fn file_list(&self, directory: &str) -> Result<Vec<String>, Failure> {
        files::list(directory).map_err(failure)
    }

    fn secret(&self, name: &str) -> Result<Vec<u8>, Failure> {
        secrets::get(name).map_err(failure)
    }

    fn http(&self, request: &HttpRequest) -> Result<HttpResponse, Failure> {
        super::http::send(request)
    }

    fn tcp_connect(&self, host: &str, port: u16, timeout_ms: u32) -> Result<u32, Failure> {
        tcp::connect(host, port, timeout_ms).map_err(failure)
    }

    fn now(&self) -> u64 {
        clock::now()
    }

    fn elapsed(&self) -> u64 {
        clock::elapsed()
    }

    fn cancelled(&self) -> bool {
        run::cancelled()
    }
}

fn failure(failures::Failure { code, message }: failures::Failure) -> Failure {
    Failure { code, message }
}

fn type_name(of: pb::Type) -> types::TypeName {
    let pb::Type { group, group_version, kind } = of;
    types::TypeName { group, group_version, kind }
}

/// Key on the wire. A stored value ends with a zero byte, and a list compares prefixes: with that byte the prefix is
/// the whole value.
fn wire_key(key: Key<'_>, listing: bool) -> cache::Key {
    match key {
        Key::Id(id) => cache::Key::Id(id.encode_to_vec()),
        Key::Value(value) => cache::Key::Value(value.to_owned()),
        Key::Exact(value) if listing => cache::Key::Value(format!("{value}\0")),
        Key::Exact(value) => cache::Key::Value(value.to_owned()),
    }
}
