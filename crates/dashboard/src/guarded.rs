//! The router behind its gate: requests that are let in, and the headers of all answers.

use crate::answer::Refusal;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse, Response};
use http::{Method, StatusCode, header};
use hyper::body::Incoming;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use intendant_web::{Denied, Gate, Guest, Service, protect};
use std::sync::Arc;

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

/// A router as a service, behind a gate.
#[derive(Clone)]
pub(crate) struct Guarded(TowerToHyperService<Router>);

impl Guarded {
    pub(crate) fn new(router: Router, gate: Arc<Gate>) -> Self {
        Self(TowerToHyperService::new(router.layer(from_fn_with_state(gate, guard))))
    }
}

impl Service for Guarded {
    type Body = Body;

    async fn answer(&self, request: http::Request<Incoming>, guest: Arc<Guest>) -> Response {
        // An upload is a part of the answer: a connection that uploads does not make way.
        let answering = guest.answering();
        let answer = self.0.call(request).await.unwrap_or_else(|never| match never {});
        drop(answering);
        answer
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        Self::new(denied.status, denied.reason)
    }
}

/// Whether the request comes from a person who wants a page, and not from a program.
fn wants_page(request: &Request) -> bool {
    let kinds = request.headers().get(header::ACCEPT).and_then(|kinds| kinds.to_str().ok());
    let accepts = kinds.is_some_and(|kinds| kinds.contains("text/html"));
    accepts && matches!(*request.method(), Method::GET | Method::HEAD)
}

/// Lets a request in, or refuses it.
async fn guard(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let mut response = match gate.admit(&request) {
        Some(admitted) => admitted.map(|()| Body::empty()),
        None => match gate.check(&request) {
            Ok(()) => next.run(request).await,
            Err(denied) if denied.status == StatusCode::UNAUTHORIZED && wants_page(&request) => {
                (StatusCode::UNAUTHORIZED, Html(TOKEN_PAGE)).into_response()
            }
            Err(denied) => Refusal::from(denied).into_response(),
        },
    };
    protect(response.headers_mut());
    response
}
