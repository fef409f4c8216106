//! Access control: checks of the host, the token, the method and the origin of a request; the headers of all
//! answers.

use crate::answer::Refusal;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Uri};
use intendant_transport::Token;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The headers of all answers. Pages run the scripts and styles of this server only, and no other site can
/// show, read or embed what it answers.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

/// The page for a browser that does not have the token.
const TOKEN_PAGE: &str = "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<title>Intendant: the token is missing</title>
</head>
<body>
<h1>The token is missing or wrong</h1>
<p>This dashboard shows its page only to those who have its token.</p>
<p>Write <code>?token=TOKEN</code> behind the address, and open it: <code>http://HOST:PORT/?token=TOKEN</code>.
TOKEN is the content of the file that the dashboard was started with (<code>--token-file FILE</code>).</p>
<p>Once is enough: the browser then has a cookie, until the dashboard ends.</p>
</body>
</html>
";

/// The conditions that requests must meet.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Names besides those of loopback that the header `Host` may have.
    hosts: Vec<String>,
    /// Whether addresses other than loopback may be in `Host`: if the server listens on such an address.
    addresses: bool,
    token: Option<Token>,
    /// The content of the cookie: a random number of this process. Cookies do not distinguish the ports of a
    /// host, so other servers of the host may see the cookie. Therefore it does not contain the token.
    session: Token,
    /// The name of the cookie.
    cookie: String,
}

impl Gate {
    /// # Errors
    /// If the operating system has no random numbers.
    pub(crate) fn new(
        address: SocketAddr,
        hosts: Vec<String>,
        token: Option<Token>,
    ) -> Result<Self, getrandom::Error> {
        let mut random = [0; 32];
        getrandom::fill(&mut random)?;
        let cookie = format!("intendant-{}", address.port());
        let addresses = !address.ip().is_loopback();
        Ok(Self { hosts, addresses, token, session: Token::from_bytes(random), cookie })
    }

    /// Whether a page of this server may have been loaded under this name. Other names lead here only if a
    /// site on the internet lets its own name point to this machine (DNS rebinding).
    fn knows_host(&self, host: &str) -> bool {
        let name = without_port(host);
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        address.map_or_else(
            |_| {
                name.eq_ignore_ascii_case("localhost")
                    || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
            },
            |address| self.addresses || address.is_loopback(),
        )
    }

    fn check(&self, request: &Request) -> Result<(), Refusal> {
        let method = request.method();
        if !matches!(*method, Method::GET | Method::HEAD | Method::POST) {
            return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "only GET and POST are served"));
        }
        let headers = request.headers();
        let host = text(headers, &header::HOST).filter(|host| self.knows_host(host)).ok_or_else(|| {
            let reason = "the header Host names another machine; open the address that the program printed, \
                          or start it with --allow-host NAME";
            Refusal::new(StatusCode::FORBIDDEN, reason)
        })?;
        // Browsers send the site from which a request to change something comes.
        if *method == Method::POST {
            let own = |origin: &str| {
                origin.split_once("://").is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(host))
            };
            let is_own =
                headers.get(header::ORIGIN).is_none() || text(headers, &header::ORIGIN).is_some_and(own);
            let site =
                headers.get("sec-fetch-site").is_none_or(|site| site == "same-origin" || site == "none");
            if !is_own || !site {
                return Err(Refusal::new(StatusCode::FORBIDDEN, "requests of other sites are refused"));
            }
        }
        let Some(token) = &self.token else { return Ok(()) };
        let matches = |given: &str| Token::from_hex(given).is_ok_and(|given| token.matches(&given));
        let bearer = text(headers, &header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        if bearer.is_some_and(matches) || self.has_cookie(headers) {
            return Ok(());
        }
        let reason = "the token is missing or wrong: open the address with ?token=TOKEN once, or send \
                      'Authorization: Bearer TOKEN'";
        Err(Refusal::new(StatusCode::UNAUTHORIZED, reason))
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut values = all
            .flat_map(|line| line.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(name, _)| *name == self.cookie)
            .map(|(_, value)| value);
        values.any(|value| Token::from_hex(value).is_ok_and(|given| self.session.matches(&given)))
    }

    /// The answer to a request with the right `?token=`: a cookie, and a redirect to the page without the
    /// token. So the token stays out of the browser's history and its list of open pages.
    fn admit(&self, request: &Request) -> Option<Response> {
        let token = self.token.as_ref()?;
        let given = query_token(request.uri())?;
        let host = text(request.headers(), &header::HOST)?;
        let is_right = Token::from_hex(given).is_ok_and(|given| token.matches(&given));
        if *request.method() != Method::GET || !self.knows_host(host) || !is_right {
            return None;
        }
        // Lax: a link with the token, for instance in a message, must lead to the page. Other sites still
        // cannot upload, see above.
        let cookie = format!("{}={}; HttpOnly; SameSite=Lax; Path=/", self.cookie, self.session.to_hex());
        // Only requests for the start page have a token, so the answer repeats nothing that was sent.
        Some(
            (StatusCode::SEE_OTHER, [(header::LOCATION, "/".to_owned()), (header::SET_COOKIE, cookie)])
                .into_response(),
        )
    }
}

/// The name or address of a header `Host`.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        Some(_) | None => host,
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn query_token(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix("token="))
}

/// Whether the request comes from a person who wants a page, and not from a program.
fn wants_page(request: &Request) -> bool {
    let accepts = text(request.headers(), &header::ACCEPT).is_some_and(|kinds| kinds.contains("text/html"));
    accepts && matches!(*request.method(), Method::GET | Method::HEAD)
}

/// Lets a request in, or refuses it.
pub(crate) async fn guard(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let mut response = match gate.admit(&request) {
        Some(admitted) => admitted,
        None => match gate.check(&request) {
            Ok(()) => next.run(request).await,
            Err(refusal) if refusal.status() == StatusCode::UNAUTHORIZED && wants_page(&request) => {
                (StatusCode::UNAUTHORIZED, Html(TOKEN_PAGE)).into_response()
            }
            Err(refusal) => refusal.into_response(),
        },
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_loopback_are_known_and_others_are_not() {
        let gate = |address: &str, hosts: &[&str]| {
            let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
            Gate::new(address.parse().unwrap(), hosts, None).unwrap()
        };
        let near = gate("127.0.0.1:7878", &["cluster.example"]);
        for host in
            ["localhost", "LOCALHOST:7878", "127.0.0.1:1", "127.9.9.9", "[::1]:7878", "cluster.example:80"]
        {
            assert!(near.knows_host(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example:7878",
            "10.0.0.1:7878",
            "[fe80::1]",
            "127.0.0.1.evil",
        ] {
            assert!(!near.knows_host(host), "{host}");
        }
        let far = gate("0.0.0.0:7878", &[]);
        assert!(far.knows_host("10.0.0.1:7878") && !far.knows_host("evil.example"));
    }
}
