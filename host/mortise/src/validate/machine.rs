//! Checks of the machine that a configuration names: files, directories and addresses. The text of each fault begins
//! with the key of the setting.

use std::{
    error::Error,
    io,
    net::{SocketAddr, TcpListener, UdpSocket},
    path::{Path, PathBuf},
};

use mortise_keys::certificate::{PemFileError, read_certificates, read_key};
use mortise_plugin_host::grants::Secret;

use crate::{
    plugins,
    settings::{Config, Engine, parts},
};

/// A fault of the machine.
#[derive(Debug, thiserror::Error)]
enum MachineFault {
    #[error("{key}: {}: {source}", path.display())]
    File { key: String, path: PathBuf, source: io::Error },
    #[error("{key}: {} is not a directory; move it away, or name another", path.display())]
    NotADirectory { key: String, path: PathBuf },
    #[error("{key}: {source}")]
    Pem { key: String, source: PemFileError },
    #[error("{key}: this machine cannot listen at {ip}: {source}; name an address of this machine", ip = addr.ip())]
    Address { key: &'static str, addr: SocketAddr, source: io::Error },
    #[error("{key}: {other} has the address {addr}, too; give each port an address of its own")]
    SameAddress { key: &'static str, other: &'static str, addr: SocketAddr },
    #[error("{key}: {name:?} cannot be the name of a policy; write lower-case letters, digits and dashes, 63 at most")]
    PolicyName { key: String, name: String },
}

/// A fault of any part.
type Fault = Box<dyn Error>;

/// Returns the faults of the machine that a server with this configuration would meet. Blocks.
pub(super) fn faults(config: &Config) -> Vec<Fault> {
    let mut found = Vec::new();
    found.extend(addresses(config).into_iter().map(boxed));
    found.extend(directories(config).into_iter().map(boxed));
    let ports = parts::server(config, false);
    found.extend(ports.tls.iter().flat_map(|tls| tls.faults()).map(boxed));
    found.extend(ports.identity.iter().filter_map(|identity| identity.fault()).map(boxed));
    let signers = plugins::public_keys("plugins.trusted_keys", &config.plugins.trusted_keys);
    found.extend(signers.chain(plugins::code_keys(config)).filter_map(|key| key.err().map(boxed)));
    found.extend(registries(config).map(boxed));
    found.extend(parts::age_identities(config).err().map(boxed));
    if config.store.engine == Engine::Etcd {
        found.extend(etcd(config).into_iter().map(boxed));
    }
    found.extend(peers(config).into_iter().map(boxed));
    found.extend(granted(config).into_iter().map(boxed));
    found.extend(policies(config).map(boxed));
    found
}

fn boxed(fault: impl Error + 'static) -> Fault {
    Box::new(fault)
}

/// Listens at each address for a moment, with a port that the system picks, so that a running server does not matter.
fn addresses(config: &Config) -> Vec<MachineFault> {
    let dns = config.dns.enabled.then_some(("dns.addr", config.dns.addr));
    let ports = [("grpc_addr", config.grpc_addr), ("http_addr", config.http_addr)];
    let mut found = Vec::new();
    let mut before: Vec<(&'static str, SocketAddr)> = Vec::new();
    for (key, addr) in ports.into_iter().chain(dns) {
        let any = SocketAddr::new(addr.ip(), 0);
        let listening = match key {
            "dns.addr" => UdpSocket::bind(any).map(drop),
            _ => TcpListener::bind(any).map(drop),
        };
        found.extend(listening.err().map(|source| MachineFault::Address { key, addr, source }));
        if let Some((other, _)) = before.iter().find(|(_, taken)| *taken == addr && addr.port() != 0) {
            found.push(MachineFault::SameAddress { key, other, addr });
        }
        before.push((key, addr));
    }
    found
}

/// Checks directories of the server, as far as they exist: a start makes the others.
fn directories(config: &Config) -> Vec<MachineFault> {
    [
        ("data_dir", &config.data_dir),
        ("plugin_dir", &config.plugin_dir),
        ("cache_dir", &config.cache_dir),
        ("audit.dir", &config.audit.dir),
        ("backup.dir", &config.backup.dir),
    ]
    .into_iter()
    .filter(|(_, path)| !path.as_os_str().is_empty() && path.exists())
    .filter_map(|(key, path)| directory(key.to_owned(), path))
    .collect()
}

/// Returns the fault of a directory that must exist.
fn directory(key: String, path: &Path) -> Option<MachineFault> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_dir() => Some(MachineFault::NotADirectory { key, path: path.to_owned() }),
        Ok(_) => std::fs::read_dir(path).err().map(|source| MachineFault::File { key, path: path.to_owned(), source }),
        Err(source) => Some(MachineFault::File { key, path: path.to_owned(), source }),
    }
}

/// Returns the fault of a file that must be readable. An empty path names no file, and has no fault.
fn file(key: String, path: &Path) -> Option<MachineFault> {
    if path.as_os_str().is_empty() {
        return None;
    }
    parts::readable(path).err().map(|source| MachineFault::File { key, path: path.to_owned(), source })
}

fn registries(config: &Config) -> impl Iterator<Item = MachineFault> {
    let plugins = &config.plugins;
    let credentials = file("plugins.registry_config_file".into(), &plugins.registry_config_file);
    pem("plugins", [("registry_ca_file", &plugins.registry_ca_file), ("", Path::new(""))], Path::new(""))
        .into_iter()
        .chain(credentials)
}

/// Reads certificates and a key, as far as they are given.
fn pem(key: &str, certificates: [(&str, &Path); 2], key_file: &Path) -> Vec<MachineFault> {
    let given = |path: &Path| !path.as_os_str().is_empty();
    let fault = |name: &str, source| MachineFault::Pem { key: format!("{key}.{name}"), source };
    let read = |(name, path): (&str, &Path)| {
        given(path).then(|| read_certificates(path).err()).flatten().map(|source| fault(name, source))
    };
    let own = given(key_file).then(|| read_key(key_file).err()).flatten();
    certificates.into_iter().filter_map(read).chain(own.map(|source| fault("key_file", source))).collect()
}

fn etcd(config: &Config) -> Vec<MachineFault> {
    let etcd = &config.store.etcd;
    let certificates = [("ca_file", &*etcd.ca_file), ("cert_file", &*etcd.cert_file)];
    let mut found = pem("store.etcd", certificates, &etcd.key_file);
    found.extend(file("store.etcd.password_file".into(), &etcd.password_file));
    found
}

fn peers(config: &Config) -> Vec<MachineFault> {
    let mut found = Vec::new();
    for (name, peer) in &config.region.peers {
        let key = format!("region.peers.{name}");
        let certificates = [("ca_file", &*peer.ca_file), ("cert_file", &*peer.cert_file)];
        found.extend(pem(&key, certificates, &peer.key_file));
        found.extend(file(format!("{key}.token_file"), &peer.token_file));
    }
    found
}

/// Checks files and directories that plugins are granted. Variables are not: those of the server may differ.
fn granted(config: &Config) -> Vec<MachineFault> {
    let mut found = Vec::new();
    for (plugin, table) in &config.plugin {
        let key = |kind: &str, name: &str| format!("plugin.{plugin}.grants.{kind}.{name}");
        for (name, granted) in &table.grants.directories {
            found.extend(directory(key("directories", name), &granted.path));
        }
        for (name, secret) in &table.grants.secrets {
            if let Secret::File(path) = secret {
                found.extend(file(key("secrets", name), path));
            }
        }
    }
    found
}

/// Checks names of policies. The policies themselves are resources.
fn policies(config: &Config) -> impl Iterator<Item = MachineFault> {
    let acl = &config.acl;
    let lists = [
        ("acl.anonymous_policies".to_owned(), &acl.anonymous_policies),
        ("acl.dns_policies".to_owned(), &acl.dns_policies),
    ];
    let certificates = acl.certificates.iter().map(|(name, list)| (format!("acl.certificates.{name}"), list));
    lists.into_iter().chain(certificates).flat_map(|(key, list)| {
        let wrong = list.iter().filter(|name| !mortise_resource::name::is_valid(name));
        wrong.map(move |name| MachineFault::PolicyName { key: key.clone(), name: name.clone() }).collect::<Vec<_>>()
    })
}
