//! Access control: checks of the host, the token, the method and the origin of a request; the headers of all
//! answers.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use intendant_transport::Token;
use std::net::{IpAddr, SocketAddr};

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

/// Gives an answer the headers of all answers.
pub fn protect(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Why a request is refused: a status, and the reason in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The status of the answer.
    pub status: StatusCode,
    /// The reason.
    pub reason: &'static str,
}

impl Denied {
    const fn new(status: StatusCode, reason: &'static str) -> Self {
        Self { status, reason }
    }
}

/// Who opens the addresses of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// People in a browser, which sends the token once as `?token=TOKEN` and gets a cookie; and programs.
    Browsers,
    /// Programs, which send the token in a header.
    Programs,
}

/// The conditions that requests must meet.
#[derive(Debug)]
pub struct Gate {
    clients: Clients,
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
    /// The gate of a server that listens on this address. `hosts` are names beside those of loopback that the
    /// header `Host` may have. With a token, requests must bring it.
    ///
    /// # Errors
    /// If the operating system has no random numbers.
    pub fn new(
        clients: Clients,
        address: SocketAddr,
        hosts: Vec<String>,
        token: Option<Token>,
    ) -> Result<Self, getrandom::Error> {
        let mut random = [0; 32];
        getrandom::fill(&mut random)?;
        let cookie = format!("intendant-{}", address.port());
        let addresses = !address.ip().is_loopback();
        Ok(Self { clients, hosts, addresses, token, session: Token::from_bytes(random), cookie })
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

    /// Whether a request is let in.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check<B>(&self, request: &Request<B>) -> Result<(), Denied> {
        let method = request.method();
        if !matches!(*method, Method::GET | Method::HEAD | Method::POST) {
            return Err(Denied::new(StatusCode::METHOD_NOT_ALLOWED, "only GET and POST are served"));
        }
        let headers = request.headers();
        let host = text(headers, &header::HOST).filter(|host| self.knows_host(host)).ok_or_else(|| {
            let reason = "the header Host names another machine; open the address that the program printed, \
                          or start it with --allow-host NAME";
            Denied::new(StatusCode::FORBIDDEN, reason)
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
                return Err(Denied::new(StatusCode::FORBIDDEN, "requests of other sites are refused"));
            }
        }
        let Some(token) = &self.token else { return Ok(()) };
        let matches = |given: &str| Token::from_hex(given).is_ok_and(|given| token.matches(&given));
        let bearer = text(headers, &header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        let is_browser = self.clients == Clients::Browsers;
        if bearer.is_some_and(matches) || is_browser && self.has_cookie(headers) {
            return Ok(());
        }
        let reason = match self.clients {
            Clients::Browsers => {
                "the token is missing or wrong: open the address with ?token=TOKEN once, or send \
                 'Authorization: Bearer TOKEN'"
            }
            Clients::Programs => "the token is missing or wrong: send 'Authorization: Bearer TOKEN'",
        };
        Err(Denied::new(StatusCode::UNAUTHORIZED, reason))
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

    /// The answer to a browser's request with the right `?token=`: a cookie, and a redirect to the page
    /// without the token. So the token stays out of the browser's history and its list of open pages.
    pub fn admit<B>(&self, request: &Request<B>) -> Option<Response<()>> {
        let token = self.token.as_ref().filter(|_| self.clients == Clients::Browsers)?;
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
        let answer = Response::builder().status(StatusCode::SEE_OTHER).header(header::LOCATION, "/");
        answer.header(header::SET_COOKIE, cookie).body(()).ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_loopback_are_known_and_others_are_not() {
        let gate = |address: &str, hosts: &[&str]| {
            let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
            Gate::new(Clients::Browsers, address.parse().unwrap(), hosts, None).unwrap()
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
