//! Which requests are answered.
//!
//! On addresses other than loopback addresses, a request must bring the token, or an answer to the server's
//! challenge, which does not reveal the token ([`Challenge`]). On loopback addresses, every program of the
//! machine may read the numbers, but no web page in a browser may. A web page can reach a loopback address by
//! a name of its own that resolves to it (DNS rebinding); its request then has that name, and is refused.

use hyper::header::{AUTHORIZATION, HOST, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Request, StatusCode};
use intendant_transport::{Challenge, Token};
use std::net::{IpAddr, SocketAddr};

/// The rule that decides who may read.
#[derive(Clone, Debug)]
pub struct Guard(Rule);

#[derive(Clone, Debug)]
enum Rule {
    /// Requests to `localhost` or a loopback address.
    Loopback,
    /// Requests with this token, or with the answer to this challenge.
    Token(Token, Option<Challenge>),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It does not bring the token.
    NoToken,
    /// It names another host.
    OtherHost,
}

impl Refusal {
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::NoToken => StatusCode::UNAUTHORIZED,
            Self::OtherHost => StatusCode::FORBIDDEN,
        }
    }

    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::NoToken => {
                "this address answers requests with the header 'Authorization: Bearer TOKEN' only\n"
            }
            Self::OtherHost => {
                "this address answers requests to loopback addresses only, by 'localhost' or by number\n"
            }
        }
    }
}

impl Guard {
    /// The guard of an address. On a loopback address, every local program may read; on other addresses, only
    /// programs with `token`. `None` if the address is not a loopback address and there is no token.
    #[must_use]
    pub fn of(address: SocketAddr, token: Option<&Token>) -> Option<Self> {
        if address.ip().is_loopback() {
            return Some(Self(Rule::Loopback));
        }
        let token = token.filter(|token| !token.is_open())?;
        Some(Self(Rule::Token(token.clone(), Challenge::draw())))
    }

    /// Whether a request is answered.
    pub(crate) fn check<B>(&self, request: &Request<B>) -> Result<(), Refusal> {
        match &self.0 {
            Rule::Token(token, challenge) if has_token(request, token, challenge.as_ref()) => Ok(()),
            Rule::Token(..) => Err(Refusal::NoToken),
            Rule::Loopback if is_local(request) => Ok(()),
            Rule::Loopback => Err(Refusal::OtherHost),
        }
    }

    /// The ways in which a request can authenticate, as values of the header `WWW-Authenticate`.
    pub(crate) fn asks(&self) -> impl Iterator<Item = HeaderValue> {
        let challenge = match &self.0 {
            Rule::Loopback | Rule::Token(_, None) => None,
            Rule::Token(_, Some(challenge)) => HeaderValue::from_str(&challenge.to_string()).ok(),
        };
        [HeaderValue::from_static("Bearer")].into_iter().chain(challenge)
    }
}

fn has_token<B>(request: &Request<B>, token: &Token, challenge: Option<&Challenge>) -> bool {
    let mut headers = request.headers().get_all(AUTHORIZATION).iter();
    let (Some(header), None) = (headers.next(), headers.next()) else { return false };
    let Ok(header) = header.to_str() else { return false };
    let Some((scheme, given)) = header.split_once(' ') else { return false };
    if scheme.eq_ignore_ascii_case("bearer") {
        // Tokens are compared in constant time.
        return Token::from_hex(given).is_ok_and(|given| given.matches(token));
    }
    challenge.is_some_and(|challenge| challenge.is_answered(header, token))
}

/// Whether every host that the request names is this machine.
fn is_local<B>(request: &Request<B>) -> bool {
    let named: Vec<_> = request.headers().get_all(HOST).iter().collect();
    let is_local_header = |header: &&hyper::header::HeaderValue| {
        header
            .to_str()
            .ok()
            .and_then(|host| host.parse::<Authority>().ok())
            .is_some_and(|host| is_loopback(&host))
    };
    named.len() == 1 && named.iter().all(is_local_header) && request.uri().authority().is_none_or(is_loopback)
}

fn is_loopback(authority: &Authority) -> bool {
    let host = authority.host();
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    !authority.as_str().contains('@')
        && (host.eq_ignore_ascii_case("localhost")
            || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "00112233445566778899aabbccddeeff";

    fn request(uri: &str, headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request")
    }

    fn guard(address: &str) -> Option<Guard> {
        let token = Token::from_hex(TOKEN).expect("a token");
        Guard::of(address.parse().expect("an address"), Some(&token))
    }

    #[test]
    fn addresses_of_the_network_need_a_token() {
        let outside: SocketAddr = "192.0.2.1:80".parse().expect("an address");
        assert!(Guard::of(outside, None).is_none());
        assert!(Guard::of(outside, Some(&Token::open())).is_none());
        for everywhere in ["0.0.0.0:80", "[::]:80", "[::ffff:127.0.0.1]:80"] {
            assert!(Guard::of(everywhere.parse().expect("an address"), None).is_none(), "{everywhere}");
        }
        let guard = guard("0.0.0.0:80").expect("there is a token");
        let check = |value: &str| {
            guard.check(&request("/metrics", &[("host", "localhost"), ("authorization", value)]))
        };
        for good in [format!("Bearer {TOKEN}"), format!("bearer {}", TOKEN.to_uppercase())] {
            assert_eq!(check(&good), Ok(()), "{good}");
        }
        let other = TOKEN.replace("00", "01");
        let bad = [format!("Bearer {other}"), "Bearer".to_owned(), "Bearer ".to_owned(), TOKEN.to_owned()];
        for bad in bad.into_iter().chain([format!("Basic {TOKEN}"), format!("Bearer {TOKEN}01")]) {
            assert_eq!(check(&bad), Err(Refusal::NoToken), "{bad}");
        }
        assert_eq!(guard.check(&request("/metrics", &[("host", "localhost")])), Err(Refusal::NoToken));
        let good = format!("Bearer {TOKEN}");
        let twice = [("authorization", good.as_str()), ("authorization", good.as_str())];
        assert_eq!(guard.check(&request("/metrics", &twice)), Err(Refusal::NoToken));
        // Without the token, the answer to the challenge of the refusal is accepted.
        let asked: Vec<_> = guard.asks().collect();
        assert_eq!((asked.len(), asked[0].as_bytes()), (2, &b"Bearer"[..]));
        let challenge = asked[1].to_str().ok().and_then(Challenge::from_header).expect("a challenge");
        let token = |text: &str| Token::from_hex(text).expect("a token");
        assert_eq!(check(&challenge.answer(&token(TOKEN))), Ok(()));
        assert_eq!(check(&challenge.answer(&token(&other))), Err(Refusal::NoToken));
    }

    #[test]
    fn on_loopback_addresses_the_host_is_this_machine() {
        let guard = Guard::of("127.0.0.1:80".parse().expect("an address"), None).expect("no token is needed");
        let check = |host: &str| guard.check(&request("/", &[("host", host)]));
        for good in ["localhost", "LOCALHOST:9100", "127.0.0.1:9100", "127.1.2.3", "[::1]", "[::1]:9100"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "evil.example:9100",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "localhost@evil.example",
            "evil@localhost",
            "192.0.2.1:9100",
            "0.0.0.0",
            "::1",
        ] {
            assert_eq!(check(bad), Err(Refusal::OtherHost), "{bad}");
        }
        assert_eq!(guard.check(&request("/", &[])), Err(Refusal::OtherHost));
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(guard.check(&request("/", &two)), Err(Refusal::OtherHost));
        let absolute = request("http://evil.example/metrics", &[("host", "localhost")]);
        assert_eq!(guard.check(&absolute), Err(Refusal::OtherHost));
    }
}
