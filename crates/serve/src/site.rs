//! Requests: who may ask, what is at which path, and the answers.

use crate::body::{self, Asked, Bounds};
use crate::counts::Counts;
use crate::current::{Current, Loaded};
use crate::desk::Desk;
use crate::program::{Program, Question};
use crate::refusal::Refusal;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use intendant_metrics::text;
use intendant_web::{Gate, Guest, Service, protect};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::block_in_place;
use tokio::time::{Instant, timeout_at};

const JSON: &str = "application/json";

/// Bytes of a body, or answers of a request, from which the work on them would keep other requests waiting.
const MUCH: usize = 1 << 13;

/// What is at a path.
#[derive(Clone, Copy)]
enum Place {
    Model,
    Metrics,
    Described,
    Endpoint(usize),
}

impl Place {
    fn methods(self) -> &'static str {
        match self {
            Self::Model | Self::Metrics | Self::Described => "GET, HEAD",
            Self::Endpoint(_) => "POST",
        }
    }
}

/// The service.
#[derive(Clone)]
pub(crate) struct Site(Arc<Inner>);

struct Inner {
    gate: Gate,
    places: Vec<(&'static str, Place)>,
    program: &'static Program,
    current: Arc<Current>,
    desks: Vec<Desk>,
    counts: Arc<Counts>,
    bounds: Bounds,
    within: Duration,
    described: Bytes,
}

impl Site {
    pub(crate) fn new(
        gate: Gate,
        (program, current): (&'static Program, Arc<Current>),
        (desks, counts): (Vec<Desk>, Arc<Counts>),
        (bounds, within): (Bounds, Duration),
        described: &Value,
    ) -> Self {
        let fixed = [
            ("/", Place::Described),
            ("/openapi.json", Place::Described),
            ("/v1/model", Place::Model),
            ("/metrics", Place::Metrics),
        ];
        let of_endpoints = (0..).zip(program.endpoints).map(|(at, it)| (it.path, Place::Endpoint(at)));
        let places = fixed.into_iter().chain(of_endpoints).collect();
        let described = described.to_string().into();
        Self(Arc::new(Inner { gate, places, program, current, desks, counts, bounds, within, described }))
    }
}

impl Service for Site {
    type Body = Full<Bytes>;

    async fn answer(&self, request: Request<Incoming>, guest: Arc<Guest>) -> Response<Full<Bytes>> {
        let begin = Instant::now();
        let place = self.0.places.iter().find(|(path, _)| *path == request.uri().path()).copied();
        let answer = self.0.answer(request, place.map(|(_, place)| place), &guest, begin).await;
        let mut response = answer.unwrap_or_else(|refusal| {
            let mut response =
                respond(refusal.status, JSON, json!({ "error": refusal.reason }).to_string().into());
            let allowed = place.filter(|_| refusal.status == StatusCode::METHOD_NOT_ALLOWED);
            if let Some((_, place)) = allowed {
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(place.methods()));
            }
            if refusal.status == StatusCode::UNAUTHORIZED {
                response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            if refusal.status == StatusCode::SERVICE_UNAVAILABLE {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            response
        });
        self.0.counts.request(place.map(|(path, _)| path), response.status().as_u16(), begin.elapsed());
        protect(response.headers_mut());
        response
    }
}

type Answer = Result<Response<Full<Bytes>>, Refusal>;

impl Inner {
    async fn answer(
        &self,
        request: Request<Incoming>,
        place: Option<Place>,
        guest: &Arc<Guest>,
        begin: Instant,
    ) -> Answer {
        self.gate.check(&request)?;
        let Some(place) = place else {
            let paths: Vec<&str> = self.places.iter().skip(1).map(|(path, _)| *path).collect();
            return Err(Refusal::new(StatusCode::NOT_FOUND, format!("there are {}", paths.join(", "))));
        };
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        match place {
            Place::Model if is_read => Ok(json_answer(self.current.get().about())),
            Place::Metrics if is_read => self.metrics(),
            Place::Described if is_read => Ok(respond(StatusCode::OK, JSON, self.described.clone())),
            Place::Endpoint(at) if *request.method() == Method::POST => {
                let until = begin + self.within;
                match timeout_at(until, self.endpoint(at, request, guest)).await {
                    Ok(answer) => answer,
                    Err(_) => Err(self.too_late()),
                }
            }
            Place::Model | Place::Metrics | Place::Described | Place::Endpoint(_) => {
                let reason = format!("this path is served by {} only", place.methods());
                Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, reason))
            }
        }
    }

    fn too_late(&self) -> Refusal {
        let seconds = self.within.as_secs();
        let reason =
            format!("the request could not be read and answered within {seconds} s; ask again, or ask less");
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, reason)
    }

    fn metrics(&self) -> Answer {
        self.counts.waiting(self.desks.iter().map(Desk::waiting));
        let encoded = text::encode(&*self.counts).map_err(|_| fault())?;
        Ok(respond(StatusCode::OK, text::MEDIA_TYPE, encoded.into()))
    }

    /// Answers questions by the model that is current now.
    async fn endpoint(&self, at: usize, request: Request<Incoming>, guest: &Arc<Guest>) -> Answer {
        let model = self.current.get();
        let (endpoint, desk) = self.program.endpoints.get(at).zip(self.desks.get(at)).ok_or_else(fault)?;
        let (head, body) = request.into_parts();
        check_kind(&head.headers)?;
        let bytes = body::read(&head.headers, body, self.bounds.bytes).await?;
        // Until here, the connection was one that waits for its peer. Now the peer waits.
        let _answering = guest.answering();
        let parse = || body::parse(endpoint, &bytes, self.bounds);
        let asked = if bytes.len() > MUCH { block_in_place(parse) } else { parse() }?;
        let is_much = asked.wants() > MUCH;
        let answers = ask(desk, model, asked).await?;
        let write = || match answers {
            Answers::One(answer) => answer.map(json_answer).map_err(unprocessable),
            Answers::List(answers) => {
                let answers =
                    answers.into_iter().map(|it| it.unwrap_or_else(|error| json!({ "error": error })));
                Ok(json_answer(Value::Array(answers.collect())))
            }
        };
        if is_much { block_in_place(write) } else { write() }
    }
}

/// Bodies are JSON, whatever their type is called; forms, which browsers send for other sites, are not.
fn check_kind(headers: &HeaderMap) -> Result<(), Refusal> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.starts_with("multipart/") {
        let reason = "the body must be JSON: send it as it is, and not as a form";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, reason));
    }
    Ok(())
}

enum Answers {
    One(Result<Value, String>),
    List(Vec<Result<Value, String>>),
}

/// Asks the model. Questions that are none have answers already, which say why.
async fn ask(desk: &Desk, model: Arc<Loaded>, asked: Asked) -> Result<Answers, Refusal> {
    let Asked { questions, is_list } = asked;
    let mut good: Vec<Question> = Vec::with_capacity(questions.len());
    let problems: Vec<Option<String>> =
        questions.into_iter().map(|question| question.map(|question| good.push(question)).err()).collect();
    let found = if good.is_empty() {
        Vec::new()
    } else {
        let busy =
            || Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too many questions wait; ask again later");
        let told = desk.ask(model, good).ok_or_else(busy)?;
        told.await.ok().flatten().ok_or_else(fault)?
    };
    let mut found = found.into_iter();
    let mut next = |problem: Option<String>| match problem {
        Some(problem) => Err(problem),
        None => found.next().unwrap_or_else(|| Err("there is no answer".to_owned())),
    };
    if is_list {
        return Ok(Answers::List(problems.into_iter().map(next).collect()));
    }
    Ok(Answers::One(next(problems.into_iter().next().flatten())))
}

fn unprocessable(reason: String) -> Refusal {
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, reason)
}

fn fault() -> Refusal {
    let reason = "this is a fault of the program: the request could not be processed; its log says more";
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, reason)
}

fn json_answer(value: Value) -> Response<Full<Bytes>> {
    respond(StatusCode::OK, JSON, value.to_string().into())
}

fn respond(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
