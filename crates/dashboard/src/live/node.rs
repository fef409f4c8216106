//! One question to one node.

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use intendant_transport::{Challenge, Token};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use tokio::net::TcpStream;

/// How long an answer may take. A slower node is shown as one that does not answer.
const WITHIN: Duration = Duration::from_secs(3);

/// Bytes of an answer.
const BYTES_MAX: usize = 4 << 20;

/// The schema of answers.
const SCHEMA: &str = "intendant.live/1";

/// The address at which a node of a running cluster answers: its `--metrics` address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveAddress(String);

/// Why a text is not the address of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no address of a node; write the one that the program prints for --metrics, as PORT, HOST:PORT or http://HOST:PORT"
)]
pub struct LiveAddressError(String);

impl FromStr for LiveAddress {
    type Err = LiveAddressError;

    fn from_str(text: &str) -> Result<Self, LiveAddressError> {
        let refused = || LiveAddressError(text.to_owned());
        let rest = text.strip_prefix("http://").unwrap_or(text);
        let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !matches!(path, "" | "metrics" | "live") {
            return Err(refused());
        }
        let (host, port) = place.rsplit_once(':').unwrap_or(("127.0.0.1", place));
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        port.parse::<u16>().ok().filter(|port| *port != 0).ok_or_else(refused)?;
        if host.is_empty() || !host.bytes().all(is_name) {
            return Err(refused());
        }
        Ok(Self(format!("{host}:{port}")))
    }
}

impl fmt::Display for LiveAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The answer of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Said {
    pub(super) schema: String,
    pub(crate) node: u64,
    pub(crate) nodes: u64,
    pub(crate) task: String,
    pub(crate) technique: String,
    pub(crate) workers: u64,
    pub(crate) peers: Vec<Option<String>>,
    pub(crate) started_unix_ms: u64,
    pub(crate) now_unix_ms: u64,
    pub(crate) metrics: BTreeMap<String, f64>,
    pub(crate) marks: Vec<Mark>,
}

/// Something that happened at a node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, serde::Serialize)]
#[serde(default)]
pub(crate) struct Mark {
    pub(crate) at_unix_ms: u64,
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<u64>,
}

impl LiveAddress {
    /// Asks a node for its numbers. The error is a text for users. A node that asks for the readers' token
    /// gets a proof, not the token: the address comes from another node, and another program may listen
    /// there.
    pub(crate) async fn ask(&self, token: Option<&Token>) -> Result<Said, String> {
        let answered = tokio::time::timeout(WITHIN, self.ask_and_answer(token));
        answered.await.unwrap_or_else(|_| Err(format!("it does not answer within {} s", WITHIN.as_secs())))
    }

    async fn ask_and_answer(&self, token: Option<&Token>) -> Result<Said, String> {
        let response = self.request(None).await?;
        let asked = response.headers().get_all(header::WWW_AUTHENTICATE).into_iter();
        let challenge = asked.filter_map(|way| Challenge::from_header(way.to_str().ok()?)).next();
        match (challenge, token) {
            (Some(challenge), Some(token)) if response.status() == StatusCode::UNAUTHORIZED => {
                read(self.request(Some(challenge.answer(token))).await?).await
            }
            (Some(_) | None, _) => read(response).await,
        }
    }

    async fn request(&self, authorization: Option<String>) -> Result<Response<Incoming>, String> {
        let stream = TcpStream::connect(&self.0).await.map_err(|error| error.to_string())?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        // The task ends with the connection, at the latest when the sender is dropped.
        tokio::spawn(connection);
        let mut request = Request::get("/live").header(header::HOST, &self.0);
        if let Some(authorization) = authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(|error| error.to_string())?;
        sender.send_request(request).await.map_err(|error| error.to_string())
    }
}

/// Reads the numbers of an answer.
async fn read(response: Response<Incoming>) -> Result<Said, String> {
    match response.status() {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            return Err("it wants the token of readers: set INTENDANT_TOKEN or INTENDANT_TOKEN_FILE to the \
                        cluster's, or --live-token-file"
                .to_owned());
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            return Err("it has no numbers: it does not train yet, or is overloaded".to_owned());
        }
        status => return Err(format!("it answers with status {status}; is it the address of --metrics?")),
    }
    let body = Limited::new(response.into_body(), BYTES_MAX).collect().await;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    let said: Said =
        serde_json::from_slice(&body).map_err(|error| format!("its answer cannot be read: {error}"))?;
    if said.schema != SCHEMA {
        return Err(format!("its answer has schema {:?}, and this program reads {SCHEMA}", said.schema));
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_nodes_are_read_as_they_are_printed() {
        let read = |text: &str| text.parse::<LiveAddress>().map(|address| address.to_string());
        assert_eq!(read("9100"), Ok("127.0.0.1:9100".to_owned()));
        assert_eq!(read("http://127.0.0.1:9100/metrics"), Ok("127.0.0.1:9100".to_owned()));
        assert_eq!(read("node-1.example:80"), Ok("node-1.example:80".to_owned()));
        assert_eq!(read("[::1]:9100"), Ok("[::1]:9100".to_owned()));
        for wrong in [
            "",
            "0",
            "host",
            "host:",
            ":80",
            "host:70000",
            "https://host:1",
            "a b:80",
            "host:80/x",
            "h\r\n:80",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
