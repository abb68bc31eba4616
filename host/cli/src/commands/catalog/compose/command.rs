//! Commands of health checks that ask a port of their own container.

use super::{
    probe::{CommandError, Kind, Probe, is_own, number, split_port},
    request::{curl, wget},
};

/// Reads a command of a shell. `own` are the names of the container.
///
/// # Errors
/// The command has no counterpart.
pub(super) fn shell(text: &str, own: &[&str]) -> Result<Probe, CommandError> {
    let (command, alternative) = text.split_once("||").unwrap_or((text, "exit 1"));
    let is_code = |code: &str| code.trim().bytes().all(|byte| byte.is_ascii_digit());
    let is_failure = |text: &str| text == "false" || text.strip_prefix("exit").is_some_and(is_code);
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
