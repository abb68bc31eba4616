//! The outside of a case: its answers to HTTP requests and TCP connects. Nothing leaves the machine.

use async_trait::async_trait;
use mortise_plugin_host::Failure;
use mortise_resource::Code;
use serde_json::Value;

use super::{
    case::{Case, HttpAnswer, HttpContent, TcpAnswer},
    exchange::{Answer, Exchange, HostCall, Responder},
    problems::Problems,
};

/// Answers of a case, at a fixed time.
#[derive(Default)]
pub(super) struct Outside {
    http: Vec<HttpAnswer>,
    tcp: Vec<TcpAnswer>,
    /// Time in milliseconds since 1970.
    now: u64,
}

impl Outside {
    pub(super) fn of(case: &Case, now: u64) -> Self {
        Self { http: case.http.clone(), tcp: case.tcp.clone(), now }
    }

    /// Accepts or fails a connect to a host and port.
    ///
    /// # Errors
    /// The failure of the case; a connect that it does not know.
    pub(super) fn connect(&self, to: &str) -> Result<Answer, Failure> {
        match self.tcp.iter().find(|exchange| exchange.to.eq_ignore_ascii_case(to)) {
            Some(TcpAnswer { fails: None, .. }) => Ok(Answer::Nothing),
            Some(TcpAnswer { fails: Some(why), .. }) => Err(Failure::new(Code::Unavailable, why.clone())),
            None => {
                let text = format!("the case has no answer to a connect to {to}; add one under `tcp`");
                Err(Failure::new(Code::Unavailable, text))
            }
        }
    }

    /// Returns the first answer for this method and URL whose content fits.
    ///
    /// # Errors
    /// A request that the case does not know, or with other content than each of its answers asks for.
    pub(super) fn http(&self, request: &HttpRequest<'_>) -> Result<Answer, Failure> {
        let HttpRequest { method, url, .. } = request;
        let fits =
            |answer: &&HttpAnswer| answer.method.eq_ignore_ascii_case(method) && plain(&answer.url) == plain(url);
        let mut difference = None;
        for found in self.http.iter().filter(fits) {
            match found.request.as_ref().and_then(|content| request.difference(content)) {
                None => {
                    let (headers, body) = (found.headers.clone(), found.body.clone().into_bytes());
                    return Ok(Answer::Http { status: found.status, headers, body });
                }
                Some(other) => difference = difference.or(Some(other)),
            }
        }
        let text = match difference {
            None => format!("the case has no answer to {method} {url}; add one under `http`"),
            Some(difference) => format!("no answer of the case to {method} {url} fits: {difference}"),
        };
        Err(Failure::new(Code::Unavailable, text))
    }
}

#[async_trait]
impl Responder for Outside {
    async fn answer(&self, ask: &HostCall) -> Result<Answer, Failure> {
        match ask {
            HostCall::Http { .. } => HttpRequest::of(ask).map_or(Ok(Answer::Nothing), |request| self.http(&request)),
            HostCall::Connect(to) => self.connect(to),
            // An import has nothing but the outside; each family of calls is refused in the words of its host.
            other => {
                let family = other.name().split('.').next().unwrap_or_default();
                let text = match family {
                    "kv" | "private-bytes" | "queries" => format!("{family} is not available"),
                    _ => "an import cannot use resources or the cache; describe the external object alone".to_owned(),
                };
                Err(Failure::new(Code::FailedPrecondition, text))
            }
        }
    }

    fn now(&self) -> u64 {
        self.now
    }
}

/// A request of a plugin.
pub(super) struct HttpRequest<'a> {
    method: &'a str,
    url: &'a str,
    headers: &'a std::collections::BTreeMap<String, String>,
    body: &'a [u8],
}

impl<'a> HttpRequest<'a> {
    /// The request of a host call, if it is one.
    pub(super) fn of(ask: &'a HostCall) -> Option<Self> {
        match ask {
            HostCall::Http { method, url, headers, body } => Some(Self { method, url, headers, body }),
            _ => None,
        }
    }

    /// The first difference from the content that an answer asks for.
    fn difference(&self, wanted: &HttpContent) -> Option<String> {
        for (name, value) in &wanted.headers {
            let sent = self.headers.iter().find(|(sent, _)| sent.eq_ignore_ascii_case(name)).map(|(_, value)| value);
            if sent != Some(value) {
                let sent = sent.map_or("none".to_owned(), |sent| format!("{sent:?}"));
                return Some(format!("its header {name} is {sent}, not {value:?}"));
            }
        }
        let body = String::from_utf8_lossy(self.body);
        match &wanted.body {
            None => None,
            Some(Value::String(text)) => (body != *text).then(|| format!("its body is {body:?}, not {text:?}")),
            Some(json) => {
                let sent = serde_json::from_str::<Value>(&body).ok();
                (sent.as_ref() != Some(json)).then(|| format!("its body is {body:?}, not the JSON {json}"))
            }
        }
    }
}

/// A URL without the default port, and without a slash at its end.
fn plain(url: &str) -> String {
    let url = url.replacen(":443/", "/", usize::from(url.starts_with("https:")));
    url.replacen(":80/", "/", usize::from(url.starts_with("http:"))).trim_end_matches('/').to_owned()
}

/// Compares the requests among host calls with the expected ones, in order.
pub(super) fn compare_requests(problems: &mut Problems, expected: &[String], exchanges: &[Exchange]) {
    let line = |method: &str, url: &str| format!("{} {}\n", method.to_uppercase(), plain(url));
    let expected = expected.iter().map(|request| match request.split_once(' ') {
        Some((method, url)) => line(method, url.trim()),
        None => format!("{request}\n"),
    });
    let requests = exchanges.iter().filter_map(|exchange| HttpRequest::of(&exchange.ask));
    let found = requests.map(|request| line(request.method, request.url));
    problems.same("other HTTP requests than expected:", &expected.collect::<String>(), &found.collect::<String>());
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn outside(answers: Value) -> Outside {
        let (case, _) = Case::read(&json!({"case": "c", "reconcile": {"name": "x"}, "http": answers,
            "expect": {"outcome": "done"}}))
        .unwrap();
        Outside::of(&case, 0)
    }

    fn ask(outside: &Outside, authorization: &str, body: &str) -> Result<Vec<u8>, String> {
        let ask = HostCall::Http {
            method: "POST".into(),
            url: "https://a.test:443/x".into(),
            headers: [("Authorization".to_owned(), authorization.to_owned())].into(),
            body: body.into(),
        };
        match outside.http(&HttpRequest::of(&ask).unwrap()) {
            Ok(Answer::Http { body, .. }) => Ok(body),
            other => Err(other.unwrap_err().message),
        }
    }

    #[test]
    fn the_first_answer_whose_content_fits_is_given() {
        let answer = |request: Value, body: &str| json!({"method": "post", "url": "https://a.test/x", "body": body, "request": request});
        let outside = outside(json!([
            answer(json!({"body": {"a": 1, "b": [true]}}), "json"),
            answer(json!({"headers": {"authorization": "Bearer s"}, "body": "plain"}), "text"),
        ]));
        // Values are compared, not their text.
        assert_eq!(ask(&outside, "", "{\"b\":[ true ],\"a\":1}").unwrap(), b"json");
        assert_eq!(ask(&outside, "Bearer s", "plain").unwrap(), b"text");
        let refused = ask(&outside, "Bearer t", "plain").unwrap_err();
        assert!(refused.contains("no answer of the case to POST https://a.test:443/x fits"), "{refused}");
        assert!(ask(&outside, "Bearer s", "other").is_err());
    }

    #[test]
    fn requests_are_compared_without_default_ports() {
        let sent = |method: &str, url: &str| Exchange {
            ask: HostCall::Http {
                method: method.into(),
                url: url.into(),
                headers: Default::default(),
                body: Vec::new(),
            },
            answer: Ok(Answer::Nothing),
        };
        let exchanges = [
            sent("GET", "http://a.test:80/x"),
            sent("PUT", "https://a.test:443/x/"),
            sent("GET", "http://a.test:8080/"),
        ];
        let problem = |expected: &[&str]| {
            let (mut problems, expected) = (Problems::default(), expected.iter().map(|text| (*text).to_owned()));
            compare_requests(&mut problems, &expected.collect::<Vec<_>>(), &exchanges);
            problems.text()
        };
        assert_eq!(problem(&["GET http://a.test/x", "put https://a.test/x", "GET http://a.test:8080"]), None);
        for wrong in [
            &["GET http://a.test/x", "PUT https://a.test/x"][..],
            &["PUT https://a.test/x", "GET http://a.test/x", "GET http://a.test:8080"],
            &[],
        ] {
            assert!(problem(wrong).is_some(), "{wrong:?}");
        }
    }

    #[test]
    fn an_answer_without_content_fits_every_request() {
        let outside = outside(json!([{"method": "POST", "url": "https://a.test/x"}]));
        assert_eq!(ask(&outside, "", "anything").unwrap(), b"");
        let other = HostCall::Http {
            method: "GET".into(),
            url: "https://a.test/x".into(),
            headers: Default::default(),
            body: Vec::new(),
        };
        assert!(outside.http(&HttpRequest::of(&other).unwrap()).unwrap_err().message.contains("add one under `http`"));
    }
}
