//! Commands of health checks that ask a port of their own container.

use std::time::Duration;

/// Beginning of the text of a port that curl and wget ask without a number.
const HTTP: &str = "http";
const HTTPS: &str = "https";

/// Redirects that a request follows; the server follows no more.
const REDIRECTS: u32 = 10;

/// Reason why a command has no counterpart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CommandError {
    #[error("only one command is loaded, with `|| exit 1` behind it at most; give the workload a check yourself")]
    Shell,
    #[error("the program {0:?} has no counterpart; give the workload a check by http, tcp, grpc or ttl")]
    Program(String),
    #[error("the option {0:?} has no counterpart; give the workload a check yourself")]
    Option(String),
    #[error("it has no URL that the server could ask")]
    Url,
    #[error("it asks {0:?}, which is not the container")]
    Host(String),
    #[error("{0:?} is not a port from 1 to 65535")]
    Port(String),
}

/// A command that asks a port of its container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) kind: Kind,
    pub(super) port: u16,
    /// Longest time by the command's own options.
    pub(super) timeout: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Http {
        scheme: String,
        method: String,
        path: String,
        headers: Vec<(String, String)>,
        /// Statuses that pass; `None` for the server's default.
        statuses: Option<(u32, u32)>,
        redirects: u32,
    },
    Tcp,
    Grpc {
        service: String,
    },
}

/// Reads a command of a shell. `own` are the names of the container.
///
/// # Errors
/// The command has no counterpart.
pub(super) fn shell(text: &str, own: &[&str]) -> Result<Probe, CommandError> {
    let (command, alternative) = text.split_once("||").unwrap_or((text, "exit 1"));
    let is_failure = |text: &str| text == "false" || text.strip_prefix("exit").is_some_and(|code| code.len() < 5);
    if !is_failure(alternative.trim().trim_end_matches(';')) {
        return Err(CommandError::Shell);
    }
    // `redis-cli ping | grep PONG`: a connection is all that is asked for in either case.
    let (command, is_searched) = match command.split_once('|') {
        Some((command, search)) if search.trim_start().starts_with("grep") => (command, true),
        _ => (command, false),
    };
    if command.contains([';', '|', '`', '<', '\n']) || command.contains("&&") || command.contains("$(") {
        return Err(CommandError::Shell);
    }
    let words = without_redirections(shlex::split(command).ok_or(CommandError::Shell)?)?;
    let probe = program(&words, own)?;
    if is_searched && probe.kind != Kind::Tcp { Err(CommandError::Shell) } else { Ok(probe) }
}

/// Drops redirections to `/dev/null`.
fn without_redirections(words: Vec<String>) -> Result<Vec<String>, CommandError> {
    let mut kept = Vec::with_capacity(words.len());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let stream = word.trim_start_matches(['1', '2', '&']);
        match stream.strip_prefix('>').map(|target| target.trim_start_matches('>').to_owned()) {
            None => kept.push(word),
            Some(target) => {
                let target = if target.is_empty() { words.next().unwrap_or_default() } else { target };
                if !matches!(target.as_str(), "/dev/null" | "&1" | "&2") {
                    return Err(CommandError::Shell);
                }
            }
        }
    }
    Ok(kept)
}

/// Reads a command by its words. `own` are the names of the container.
///
/// # Errors
/// The command has no counterpart.
pub(super) fn program(words: &[String], own: &[&str]) -> Result<Probe, CommandError> {
    let Some((program, arguments)) = words.split_first() else { return Err(CommandError::Program(String::new())) };
    let name = program.rsplit('/').next().unwrap_or_default();
    let connection = |port, ports: &[&str]| tcp(arguments, port, ports, own);
    match name {
        "curl" => curl(arguments, own),
        "wget" => wget(arguments, own),
        "pg_isready" => connection(5432, &["-p", "--port"]),
        "redis-cli" | "valkey-cli" => connection(6379, &["-p"]),
        "mysqladmin" | "mariadb-admin" => connection(3306, &["-P", "--port"]),
        "nc" | "ncat" => netcat(arguments, own),
        "grpc_health_probe" => grpc(arguments, own),
        other => Err(CommandError::Program(other.to_owned())),
    }
}

/// Options of a request, as far as they matter here.
#[derive(Default)]
struct Request {
    urls: Vec<String>,
    method: Option<String>,
    headers: Vec<(String, String)>,
    timeout: Option<Duration>,
    is_unverified: bool,
    fails_on_status: bool,
    follows: bool,
}

impl Request {
    fn header(&mut self, text: &str) -> Result<(), CommandError> {
        let (key, value) = text.split_once(':').ok_or_else(|| CommandError::Option(text.to_owned()))?;
        self.headers.push((key.trim().to_owned(), value.trim().to_owned()));
        Ok(())
    }

    fn seconds(&mut self, text: &str) -> Result<(), CommandError> {
        let seconds: f64 = text.parse().map_err(|_| CommandError::Option(text.to_owned()))?;
        self.timeout = Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero());
        Ok(())
    }

    /// Method or header that the server does not send.
    fn unsendable(&self) -> Option<String> {
        let is_text = |text: &str| text.bytes().all(|byte| (byte.is_ascii_graphic() || byte == b' ') && byte != b'$');
        let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let wrong = self.headers.iter().find(|(key, value)| key.is_empty() || !is_name(key) || !is_text(value));
        let method = self.method.iter().find(|method| {
            *method == "CONNECT" || method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase())
        });
        method.cloned().or_else(|| wrong.map(|(key, _)| key.clone()))
    }

    fn probe(self, statuses: Option<(u32, u32)>, own: &[&str]) -> Result<Probe, CommandError> {
        let [url] = self.urls.as_slice() else { return Err(CommandError::Url) };
        let (scheme, rest) = url.split_once("://").unwrap_or((HTTP, url));
        if !matches!(scheme, HTTP | HTTPS)
            || rest.contains(['$', '@'])
            || !rest.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return Err(CommandError::Url);
        }
        if scheme == HTTPS && self.is_unverified {
            return Err(CommandError::Option("trust in any certificate".to_owned()));
        }
        if let Some(wrong) = self.unsendable() {
            return Err(CommandError::Option(wrong));
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let (host, port) = split_port(authority);
        is_own(host, own)?;
        let port = match port {
            Some(text) => number(text)?,
            None if scheme == HTTPS => 443,
            None => 80,
        };
        let kind = Kind::Http {
            scheme: scheme.to_owned(),
            method: self.method.unwrap_or_default(),
            path,
            headers: self.headers,
            statuses,
            redirects: if self.follows { REDIRECTS } else { 0 },
        };
        Ok(Probe { kind, port, timeout: self.timeout })
    }
}

fn curl(arguments: &[String], own: &[&str]) -> Result<Probe, CommandError> {
    let mut request = Request::default();
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let unknown = || CommandError::Option(word.clone());
        if let Some(long) = word.strip_prefix("--") {
            let (name, mut value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            let mut value = || value.take().or_else(|| rest.next().cloned()).ok_or_else(unknown);
            match name {
                "fail" | "fail-with-body" | "fail-early" => request.fails_on_status = true,
                "silent" | "show-error" | "no-progress-meter" | "verbose" | "include" | "ipv4" | "ipv6" => {}
                "location" => request.follows = true,
                "insecure" => request.is_unverified = true,
                "head" => request.method = Some("HEAD".to_owned()),
                "output" | "user-agent" | "write-out" | "connect-timeout" | "retry" | "retry-delay" | "noproxy" => {
                    drop(value()?);
                }
                "url" => request.urls.push(value()?),
                "max-time" => request.seconds(&value()?)?,
                "request" => request.method = Some(value()?),
                "header" => request.header(&value()?)?,
                _ => return Err(unknown()),
            }
        } else if let Some(short) = word.strip_prefix('-').filter(|short| !short.is_empty()) {
            let mut letters = short.chars();
            while let Some(letter) = letters.next() {
                match letter {
                    'f' => request.fails_on_status = true,
                    's' | 'S' | 'v' | 'i' | 'g' | '4' | '6' | 'q' => {}
                    'L' => request.follows = true,
                    'k' => request.is_unverified = true,
                    'I' => request.method = Some("HEAD".to_owned()),
                    'o' | 'A' | 'w' | 'm' | 'X' | 'H' => {
                        let attached = letters.as_str().to_owned();
                        let value = Some(attached).filter(|text| !text.is_empty()).or_else(|| rest.next().cloned());
                        let value = value.ok_or_else(unknown)?;
                        letters = "".chars();
                        match letter {
                            'm' => request.seconds(&value)?,
                            'X' => request.method = Some(value),
                            'H' => request.header(&value)?,
                            _ => {}
                        }
                    }
                    _ => return Err(unknown()),
                }
            }
        } else {
            request.urls.push(word.clone());
        }
    }
    // Without --fail, curl succeeds with any answer.
    let statuses = if request.fails_on_status { (200, 399) } else { (100, 599) };
    request.probe(Some(statuses), own)
}

fn wget(arguments: &[String], own: &[&str]) -> Result<Probe, CommandError> {
    let mut request = Request { follows: true, ..Request::default() };
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let unknown = || CommandError::Option(word.clone());
        let (name, attached) = match word.split_once('=') {
            Some((name, value)) if word.starts_with("--") => (name, Some(value.to_owned())),
            _ => (word.as_str(), None),
        };
        let mut value = || attached.clone().or_else(|| rest.next().cloned()).ok_or_else(unknown);
        match name {
            "--spider" | "--quiet" | "-q" | "-nv" | "--no-verbose" | "-S" | "--server-response" | "--no-proxy"
            | "-qO-" | "-O-" | "-qO/dev/null" | "-O/dev/null" => {}
            "--no-check-certificate" => request.is_unverified = true,
            "-O" | "-qO" | "--output-document" | "-t" | "--tries" | "-Y" | "--proxy" | "-U" | "--user-agent" => {
                drop(value()?);
            }
            "-T" | "--timeout" => request.seconds(&value()?)?,
            "--header" => request.header(&value()?)?,
            _ if name.starts_with("-t") || name.starts_with("-T") => {}
            _ if name.starts_with('-') => return Err(unknown()),
            _ => request.urls.push(word.clone()),
        }
    }
    request.probe(None, own)
}

/// A client of a database: its host and port are options, and all other words do not matter.
fn tcp(arguments: &[String], default: u16, ports: &[&str], own: &[&str]) -> Result<Probe, CommandError> {
    let mut port = default;
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let mut value_of = |names: &[&str]| -> Option<String> {
            names.iter().find_map(|name| match word.strip_prefix(*name)? {
                "" => rest.next().cloned(),
                attached if name.starts_with("--") => attached.strip_prefix('=').map(str::to_owned),
                attached => Some(attached.to_owned()),
            })
        };
        if let Some(host) = value_of(&["-h", "--host"]) {
            // A path is the folder of a socket.
            if !host.starts_with('/') {
                is_own(&host, own)?;
            }
        } else if let Some(text) = value_of(ports) {
            port = number(&text)?;
        }
    }
    Ok(Probe { kind: Kind::Tcp, port, timeout: None })
}

fn netcat(arguments: &[String], own: &[&str]) -> Result<Probe, CommandError> {
    let mut words = Vec::new();
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.strip_prefix('-') {
            None => words.push(word.as_str()),
            Some(letters) if letters.contains('u') => return Err(CommandError::Option(word.clone())),
            Some(letters) if letters.ends_with('w') => _ = rest.next(),
            Some(_) => {}
        }
    }
    let [host, port] = words.as_slice() else { return Err(CommandError::Url) };
    is_own(host, own)?;
    Ok(Probe { kind: Kind::Tcp, port: number(port)?, timeout: None })
}

fn grpc(arguments: &[String], own: &[&str]) -> Result<Probe, CommandError> {
    let (mut address, mut service) = (None, String::new());
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let name = word.trim_start_matches('-');
        let (name, attached) =
            name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value.to_owned())));
        let value = attached.or_else(|| rest.next().cloned()).ok_or_else(|| CommandError::Option(word.clone()))?;
        match name {
            "addr" => address = Some(value),
            "service" => service = value,
            "connect-timeout" | "rpc-timeout" => {}
            _ => return Err(CommandError::Option(word.clone())),
        }
    }
    let address = address.ok_or(CommandError::Url)?;
    let (host, port) = split_port(&address);
    if !host.is_empty() {
        is_own(host, own)?;
    }
    let port = number(port.unwrap_or_default())?;
    Ok(Probe { kind: Kind::Grpc { service }, port, timeout: None })
}

/// Splits `host:port`; an IPv6 address is in brackets.
fn split_port(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    }
}

fn number(text: &str) -> Result<u16, CommandError> {
    text.parse().ok().filter(|number| *number != 0).ok_or_else(|| CommandError::Port(text.to_owned()))
}

/// Checks that a host is the container itself.
fn is_own(host: &str, own: &[&str]) -> Result<(), CommandError> {
    const LOCAL: [&str; 6] = ["localhost", "127.0.0.1", "0.0.0.0", "[::1]", "::1", "[::]"];
    if LOCAL.contains(&host) || own.contains(&host) { Ok(()) } else { Err(CommandError::Host(host.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(String, u16), CommandError> {
        let probe = shell(text, &["web"])?;
        let kind = match probe.kind {
            Kind::Tcp => "tcp".to_owned(),
            Kind::Grpc { service } => format!("grpc {service}"),
            Kind::Http { scheme, method, path, headers, statuses, redirects } => {
                let headers: String = headers.iter().map(|(key, value)| format!(" {key}={value}")).collect();
                format!("{scheme} {method} {path} {statuses:?} {redirects}{headers}")
            }
        };
        Ok((kind, probe.port))
    }

    #[test]
    fn usual_commands_become_checks() {
        for (text, kind, port) in [
            ("curl -f http://localhost:8080/health || exit 1", "http  /health Some((200, 399)) 0", 8080),
            ("curl -fsSL -o /dev/null http://127.0.0.1/", "http  / Some((200, 399)) 10", 80),
            ("/usr/bin/curl --fail --silent https://web?x=1||false", "https  /?x=1 Some((200, 399)) 0", 443),
            ("curl localhost:3000 >/dev/null 2>&1", "http  / Some((100, 599)) 0", 3000),
            (
                "curl -sf -I -H 'X-A: b c' \"http://[::1]:81/a\" > /dev/null",
                "http HEAD /a Some((200, 399)) 0 X-A=b c",
                81,
            ),
            ("wget --no-verbose --tries=1 --spider http://localhost:9000/x || exit 1", "http  /x None 10", 9000),
            ("wget -qO- http://0.0.0.0:9000/x", "http  /x None 10", 9000),
            ("pg_isready -U $POSTGRES_USER -d \"${POSTGRES_DB}\"", "tcp", 5432),
            ("pg_isready -h localhost -p 6432", "tcp", 6432),
            ("pg_isready --host=/var/run --port=6432", "tcp", 6432),
            ("redis-cli ping | grep PONG", "tcp", 6379),
            ("redis-cli -p 6380 -a secret ping", "tcp", 6380),
            ("mysqladmin ping -h 127.0.0.1 -u root -p$MYSQL_PASSWORD", "tcp", 3306),
            ("nc -z localhost 4222", "tcp", 4222),
            ("grpc_health_probe -addr=:50051 -service=shop", "grpc shop", 50051),
        ] {
            assert_eq!(read(text), Ok((kind.to_owned(), port)), "{text}");
        }
        let slow = shell("curl -m 2.5 http://localhost", &[]).unwrap();
        assert_eq!(slow.timeout, Some(Duration::from_millis(2_500)));
    }

    #[test]
    fn other_commands_are_left_out() {
        let option = |text: &str| CommandError::Option(text.to_owned());
        for (text, error) in [
            ("curl -f http://localhost && test -f /ready", CommandError::Shell),
            ("curl -s http://localhost | grep ok", CommandError::Shell),
            ("curl http://localhost || restart", CommandError::Shell),
            ("curl `url`", CommandError::Shell),
            ("curl 'http://localhost", CommandError::Shell),
            ("curl http://localhost > /tmp/x", CommandError::Shell),
            ("curl -f http://other:80", CommandError::Host("other".to_owned())),
            ("curl -f http://localhost:$PORT", CommandError::Url),
            ("curl -f ftp://localhost", CommandError::Url),
            ("curl -f", CommandError::Url),
            ("curl -f --data x http://localhost", option("--data")),
            ("curl -fk https://localhost", option("trust in any certificate")),
            ("curl -f http://localhost:99999", CommandError::Port("99999".to_owned())),
            ("pg_isready -h db", CommandError::Host("db".to_owned())),
            ("nc -uz localhost 53", option("-uz")),
            ("/app/healthy --now", CommandError::Program("healthy".to_owned())),
        ] {
            assert_eq!(read(text), Err(error), "{text}");
        }
    }
}
