//! `mortise tls init`: files for TLS, all in one directory.
//!
//! Existing files are kept, so that the command can be repeated with one client more; --force issues the certificates
//! of server and clients again. The authority is never replaced: every client trusts it.
//!
//! Everything is made before anything is written, and a key is written before its certificate.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
};

use clap::Args;
use jiff::Timestamp;
use mortise_keys::certificate::{Certificate, PemFileError, Validity, read_certificates};

use super::{
    files::{NewFile, make_directory},
    issue::{Authority, Pair},
};
use crate::{CliError, Exit, output::ui};

pub(super) const EXAMPLES: &str = "\
mortise tls init --dir /etc/mortise/tls --host home.example.net --host 192.168.1.2 --client laptop
mortise tls init --dir /etc/mortise/tls --client phone
mortise tls init --dir /etc/mortise/tls --mesh mesh.example
mortise tls init --dir /etc/mortise/tls --force";

/// File names that no client may have.
const RESERVED: [&str; 3] = ["ca", "mesh", "server"];

/// Longest name of a client: the limit of a common name.
const MAX_NAME: usize = 64;

/// Arguments of `tls init`.
#[derive(Debug, Args)]
pub(super) struct Init {
    /// The directory for the files
    #[arg(long, value_name = "DIR", default_value = "tls")]
    dir: PathBuf,
    /// A name or an address of the server, as clients use it; can be given several times [default: localhost,
    /// 127.0.0.1, ::1 and the name of this machine, or with --force those of the existing certificate]
    #[arg(long, value_name = "NAME|IP", value_parser = host)]
    host: Vec<String>,
    /// A client to make a certificate for; can be given several times [default: client, or with --force every client
    /// with a certificate]
    #[arg(long, value_name = "NAME", value_parser = client)]
    client: Vec<String>,
    /// Makes an authority for identities in this domain, too, whose key the server needs
    #[arg(long, value_name = "DOMAIN", value_parser = domain)]
    mesh: Option<String>,
    /// Days for which the certificates of server, clients and the authority for identities are valid
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    /// Issues existing certificates again; the authority is kept
    #[arg(long)]
    force: bool,
}

/// Fault in the name of a host or a client.
#[derive(Debug, thiserror::Error)]
enum NameError {
    #[error("{0:?} is neither a DNS name nor an address; leave out scheme and port")]
    Host(String),
    #[error("{0:?} is invalid for a client: use letters, digits, dots, dashes and underscores, at most {MAX_NAME}")]
    Client(String),
    #[error("{0:?} is reserved; choose another name")]
    Reserved(String),
    #[error("{0:?} is not a domain; use a DNS name without a star, such as mesh.example")]
    Domain(String),
}

/// Parses a DNS name, possibly with a star as its first label, or an address.
fn host(text: &str) -> Result<String, NameError> {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let name = text.strip_prefix("*.").unwrap_or(text);
    let is_name = text.len() <= 253 && name.split('.').all(is_label);
    match is_name || text.parse::<IpAddr>().is_ok() {
        true => Ok(text.to_ascii_lowercase()),
        false => Err(NameError::Host(text.to_owned())),
    }
}

/// Parses a DNS name without a star.
fn domain(text: &str) -> Result<String, NameError> {
    match host(text) {
        Ok(name) if !name.contains('*') && name.parse::<IpAddr>().is_err() => Ok(name),
        _ => Err(NameError::Domain(text.to_owned())),
    }
}

fn client(text: &str) -> Result<String, NameError> {
    if RESERVED.contains(&text) {
        return Err(NameError::Reserved(text.to_owned()));
    }
    match is_client(text) {
        true => Ok(text.to_owned()),
        false => Err(NameError::Client(text.to_owned())),
    }
}

fn is_client(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && !name.starts_with(['.', '-'])
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b))
        && !RESERVED.contains(&name)
}

/// Files of the directory, and those to write.
struct Plan {
    dir: PathBuf,
    force: bool,
    new: Vec<NewFile>,
    /// Lines for the user, one for each pair.
    report: Vec<String>,
}

impl Init {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let dir = std::path::absolute(&self.dir).map_err(|e| CliError::file("cannot find", &self.dir, e))?;
        let mut plan = Plan { dir, force: self.force, new: Vec::new(), report: Vec::new() };
        let authority = plan.authority()?;
        if !self.host.is_empty() && plan.keeps("server")? {
            let path = plan.file("server", "pem");
            return Err(CliError::usage(format!("{} exists, perhaps for other hosts", path.display())).remedy(
                "--force issues it again, together with the certificates of all clients; --dir DIR writes elsewhere",
            ));
        }
        let hosts = plan.hosts(self.host)?;
        plan.pair("server", &format!("for {}", hosts.join(", ")), || authority.server(&hosts, self.days))?;
        if let Some(domain) = &self.mesh {
            plan.mesh(domain, &authority, self.days)?;
        }
        let clients = plan.clients(self.client)?;
        for name in &clients {
            plan.pair(name, &format!("for the client {name:?}"), || authority.client(name, self.days))?;
        }
        plan.write()?;
        plan.explain(&hosts, clients.first().map_or("client", String::as_str), self.mesh.as_deref())?;
        Ok(Exit::Done)
    }
}

impl Plan {
    fn file(&self, name: &str, extension: &str) -> PathBuf {
        self.dir.join(format!("{name}.{extension}"))
    }

    /// Whether a pair exists and stays.
    ///
    /// # Errors
    /// Only half of the pair exists. This command does not leave that behind, and does not overwrite it unasked.
    fn keeps(&self, name: &str) -> Result<bool, CliError> {
        let (certificate, key) = (self.file(name, "pem"), self.file(name, "key"));
        let there = |path: &Path| path.symlink_metadata().is_ok();
        match (there(&certificate), there(&key)) {
            (false, false) => Ok(false),
            _ if self.force && name != "ca" => Ok(false),
            (true, true) => Ok(true),
            (found, _) => {
                let (found, missing) = if found { (certificate, key) } else { (key, certificate) };
                let fault = format!("{} exists without {}", found.display(), missing.display());
                Err(CliError::usage(fault).remedy(match name {
                    "ca" => "put the missing file back, or choose another directory: --dir DIR",
                    _ => "--force makes both again",
                }))
            }
        }
    }

    /// Plans a new pair, unless one exists.
    fn pair(
        &mut self,
        name: &str,
        purpose: &str,
        make: impl FnOnce() -> Result<Pair, rcgen::Error>,
    ) -> Result<(), CliError> {
        if self.keeps(name)? {
            let described = describe(&self.file(name, "pem"))?;
            self.say(name, &format!("kept, expires {}; --force issues it again", described.expiry()));
            return Ok(());
        }
        let pair = make().map_err(failed)?;
        self.add(name, purpose, pair)
    }

    /// Plans the authority for identities, unless one exists.
    fn mesh(&mut self, domain: &str, authority: &Authority, days: u32) -> Result<(), CliError> {
        if !authority.allows_authorities() {
            let path = self.file("ca", "pem");
            return Err(CliError::usage(format!(
                "the authority in {} may not have another one below it, as those of earlier releases",
                path.display()
            ))
            .remedy("--dir DIR makes another one elsewhere, which the clients must then trust"));
        }
        self.pair("mesh", &format!("the authority for identities in {domain}"), || authority.mesh(domain, days))
    }

    fn add(&mut self, name: &str, purpose: &str, pair: Pair) -> Result<(), CliError> {
        let described = Certificate::parse_pem(&pair.certificate)
            .map_err(|e| CliError::failed("cannot read the new certificate").caused_by(e))?;
        self.say(name, &format!("written, {purpose}, expires {}", described.expiry()));
        // The key comes first: a server that looks in between waits for the certificate that fits.
        self.new.push(NewFile { path: self.file(name, "key"), content: pair.key.into_bytes(), mode: 0o600 });
        self.new.push(NewFile { path: self.file(name, "pem"), content: pair.certificate.into_bytes(), mode: 0o644 });
        Ok(())
    }

    fn say(&mut self, name: &str, what: &str) {
        self.report.push(format!("  {:<24} {what}", format!("{name}.pem, {name}.key")));
    }

    /// Returns the authority of the directory, or makes one.
    fn authority(&mut self) -> Result<Authority, CliError> {
        if !self.keeps("ca")? {
            let (authority, pair) =
                Authority::create(&format!("mortise authority of {}", machine())).map_err(failed)?;
            self.add("ca", "the authority", pair)?;
            return Ok(authority);
        }
        let (path, key_path) = (self.file("ca", "pem"), self.file("ca", "key"));
        let described = describe(&path)?;
        if described.validity(Timestamp::now()) != Validity::Valid || !described.is_ca {
            let state = if described.is_ca { "has expired" } else { "may not issue certificates" };
            return Err(CliError::usage(format!("the authority in {} {state}", path.display()))
                .remedy("--dir DIR makes another one elsewhere, which the clients must then trust"));
        }
        let read = |path: &Path| std::fs::read_to_string(path).map_err(|e| CliError::file("cannot read", path, e));
        let (certificate, key) = (read(&path)?, read(&key_path)?);
        let authority = Authority::of(&certificate, &key, &described)
            .map_err(|e| CliError::usage(format!("cannot use the authority in {}", path.display())).caused_by(e))?;
        super::fetch::check_pair(&path, &key_path)?;
        self.say("ca", &format!("kept, expires {}", described.expiry()));
        Ok(authority)
    }

    /// Returns the names and addresses for the server's certificate.
    fn hosts(&self, given: Vec<String>) -> Result<Vec<String>, CliError> {
        if !given.is_empty() {
            return Ok(given);
        }
        let path = self.file("server", "pem");
        if path.exists() {
            return Ok(describe(&path)?.alternative_names());
        }
        let mut hosts: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
        hosts.extend(host(&machine()).ok().filter(|name| name != "localhost"));
        Ok(hosts)
    }

    /// Returns the clients to make certificates for: those given, or those with a certificate of the authority. Other
    /// pairs in the directory are ignored.
    fn clients(&self, given: Vec<String>) -> Result<Vec<String>, CliError> {
        if !given.is_empty() {
            return Ok(given);
        }
        let authority = self.file("ca", "pem");
        let mut found = Vec::new();
        if authority.exists() {
            let authority = describe(&authority)?.subject;
            let wrong = |e| CliError::file("cannot read", &self.dir, e);
            for entry in std::fs::read_dir(&self.dir).map_err(wrong)? {
                let path = entry.map_err(wrong)?.path();
                let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
                let is_certificate = path.extension().is_some_and(|extension| extension == "pem");
                let is_ours = || describe(&path).is_ok_and(|found| found.issuer == authority && !found.is_ca);
                if is_certificate && is_client(name) && path.with_extension("key").exists() && is_ours() {
                    found.push(name.to_owned());
                }
            }
        }
        found.sort();
        Ok(if found.is_empty() { vec!["client".to_owned()] } else { found })
    }

    fn write(&self) -> Result<(), CliError> {
        make_directory(&self.dir)?;
        self.new.iter().try_for_each(|file| file.write(self.force))
    }

    /// Prints the files, and the settings for the server and a client.
    fn explain(&self, hosts: &[String], client: &str, mesh: Option<&str>) -> Result<(), CliError> {
        let path = |name: &str, extension: &str| self.file(name, extension).display().to_string();
        ui::line(format!("{}:", self.dir.display()))?;
        for line in &self.report {
            ui::line(line)?;
        }
        let host = hosts.iter().find(|host| !host.contains('*')).map_or("HOST", String::as_str);
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let (ca, ca_key) = (path("ca", "pem"), path("ca", "key"));
        let identity = mesh.map_or_else(String::new, |domain| {
            let (certificate, key) = (path("mesh", "pem"), path("mesh", "key"));
            format!(
                "\n  [identity]\n  cert_file = {certificate:?}\n  key_file = {key:?}\n  trust_domain = {domain:?}\n"
            )
        });
        ui::print(format!(
            "\nEveryone who has {ca_key} can make certificates. The server does not need it, so keep it elsewhere.\n\
             \nThe server's config.toml:\n\
             \n  [tls]\n  cert_file = {:?}\n  key_file = {:?}\n  client_ca_file = {ca:?}\n{identity}\
             \nOn a client, with its own files and ca.pem:\n\
             \n  mortise context set home --grpc-addr https://{host}:8502 --ca-file {ca} --client-cert {} --client-key {}\n",
            path("server", "pem"),
            path("server", "key"),
            path(client, "pem"),
            path(client, "key"),
        ))
    }
}

fn describe(path: &Path) -> Result<Certificate, CliError> {
    let chain = read_certificates(path).map_err(unreadable)?;
    let first = chain.first().map(|der| &**der).unwrap_or_default();
    Certificate::parse(first).map_err(|e| CliError::usage(path.display().to_string()).caused_by(e))
}

fn unreadable(error: PemFileError) -> CliError {
    CliError::usage("an existing file cannot be used").caused_by(error)
}

fn failed(error: rcgen::Error) -> CliError {
    CliError::failed("cannot make a certificate").caused_by(error)
}

/// Name of this machine.
fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().to_lowercase()
}
