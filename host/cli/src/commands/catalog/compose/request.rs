//! Commands `curl` and `wget` as HTTP requests.

use std::time::Duration;

use super::probe::{CommandError, Kind, Probe, is_own, number, split_port};

/// Schemes of URLs.
const HTTP: &str = "http";
const HTTPS: &str = "https";

/// Redirects that a request follows; the server follows no more.
const REDIRECTS: u32 = 10;

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

/// Reads the arguments of curl. `own` are the names of the container.
///
/// # Errors
/// An option has no counterpart, or the URL is not the container's.
pub(super) fn curl(arguments: &[String], own: &[&str]) -> Result<Probe, CommandError> {
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

/// Reads the arguments of wget. `own` are the names of the container.
///
/// # Errors
/// An option has no counterpart, or the URL is not the container's.
pub(super) fn wget(arguments: &[String], own: &[&str]) -> Result<Probe, CommandError> {
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
