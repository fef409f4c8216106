//! Questions about runs. An answer is at most as large as a picture, however many events the run has.

mod affinity;
mod key;
mod matrix;
mod overview;
mod question;
mod rounds;
mod selection;
mod series;
mod texts;

use crate::answer::Refusal;
use crate::assets;
use crate::library::{Library, Loaded, UPLOADS_MAX, acquire, blocking, receive};
use crate::live::Live;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::{Method, StatusCode};
use intendant_analysis::Doubt;
use intendant_analysis::palette::{COLOURS, MOVING_COLOUR, UNKNOWN_COLOUR};
use question::Asked;
use serde::Deserialize;
use serde_json::json;
use std::any::Any;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tower_http::catch_panic::CatchPanicLayer;

/// The most answers that are computed at the same time; other requests wait.
const ANSWERS_AT_ONCE: usize = 8;

/// The most uploads at the same time.
const UPLOADS_AT_ONCE: usize = 2;

/// The state that handlers share.
#[derive(Debug)]
pub(crate) struct App {
    library: Arc<Library>,
    live: Option<Live>,
    upload_bytes_max: u64,
    answers: Arc<Semaphore>,
    uploads: Semaphore,
}

impl App {
    pub(crate) fn new(library: Arc<Library>, live: Option<Live>, upload_bytes_max: u64) -> Self {
        let (answers, uploads) = (Arc::new(Semaphore::new(ANSWERS_AT_ONCE)), Semaphore::new(UPLOADS_AT_ONCE));
        Self { library, live, upload_bytes_max, answers, uploads }
    }

    pub(crate) fn library(&self) -> &Arc<Library> {
        &self.library
    }

    pub(crate) fn live(&self) -> Option<&Live> {
        self.live.as_ref()
    }

    /// Answers a question about a run.
    async fn answer<T: Send + 'static>(
        &self,
        id: &str,
        answer: impl FnOnce(&Loaded) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let run = self.library.open(id).await?;
        let place = acquire(&self.answers).await?;
        blocking(place, move || answer(&run)).await?
    }
}

/// The routes of the server.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/api/runs", get(runs))
        .route("/api/runs/{id}", get(overview_of))
        .route("/api/runs/{id}/matrix", get(matrix_of))
        .route("/api/runs/{id}/series", get(series_of))
        .route("/api/runs/{id}/affinity", get(affinity_of))
        .route("/api/runs/{id}/keys/{key}", get(key_of))
        .route("/api/runs/{id}/keys/{key}/state", get(state_of))
        .route("/api/compare/{a}/{b}", get(compare))
        .route("/api/live", get(live))
        .route("/api/upload", post(upload).layer(DefaultBodyLimit::disable()))
        .fallback(asset)
        .method_not_allowed_fallback(|| async { other_method() })
        .layer(CatchPanicLayer::custom(panicked))
        .with_state(app)
}

/// The answer after a panic. The panic's text goes to the log, and not to the user.
fn panicked(cause: Box<dyn Any + Send>) -> Response {
    let text =
        cause.downcast_ref::<&str>().copied().or_else(|| cause.downcast_ref::<String>().map(String::as_str));
    tracing::error!("a handler has panicked: {}", text.unwrap_or("no text"));
    Refusal::fault().into_response()
}

type Answer<T> = Result<Json<T>, Refusal>;

async fn runs(State(app): State<Arc<App>>) -> impl IntoResponse {
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "palette": COLOURS,
        "moving": MOVING_COLOUR,
        "unknown": UNKNOWN_COLOUR,
        "uploads_max": UPLOADS_MAX,
        "live": app.live.as_ref().map(Live::address),
        "upload_bytes_max": app.upload_bytes_max,
        "runs": app.library.entries(),
    }))
}

async fn overview_of(State(app): State<Arc<App>>, Path(id): Path<String>) -> Answer<overview::Overview> {
    app.answer(&id, |run| Ok(overview::of(run))).await.map(Json)
}

/// The reasons to doubt a comparison of two runs, in the words of `intendant trace compare`.
async fn compare(
    State(app): State<Arc<App>>,
    Path((a, b)): Path<(String, String)>,
) -> Result<impl IntoResponse, Refusal> {
    let (a, b) = (app.library.open(&a).await?, app.library.open(&b).await?);
    let doubts = Doubt::between(&a.summary, &b.summary);
    let doubts = doubts.into_iter().map(|doubt| json!({ "kind": doubt, "text": doubt.to_string() }));
    Ok(Json(json!({ "doubts": doubts.collect::<Vec<_>>() })))
}

async fn matrix_of(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Asked(question): Asked<matrix::Question>,
) -> Result<Response, Refusal> {
    let body = app.answer(&id, move |run| matrix::of(run, &question)).await?;
    Ok(([(http::header::CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

async fn series_of(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Asked(question): Asked<series::Question>,
) -> Answer<series::Series> {
    app.answer(&id, move |run| series::of(run, &question)).await.map(Json)
}

async fn affinity_of(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Asked(question): Asked<affinity::Question>,
) -> Answer<affinity::Table> {
    app.answer(&id, move |run| affinity::of(run, &question)).await.map(Json)
}

async fn key_of(
    State(app): State<Arc<App>>,
    Path((id, key)): Path<(String, String)>,
    Asked(question): Asked<key::Question>,
) -> Answer<key::View> {
    app.answer(&id, move |run| key::of(run, &key, &question)).await.map(Json)
}

async fn state_of(
    State(app): State<Arc<App>>,
    Path((id, key)): Path<(String, String)>,
    Asked(question): Asked<key::Moment>,
) -> Answer<key::State> {
    app.answer(&id, move |run| key::state(run, &key, &question)).await.map(Json)
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Since {
    since: u64,
}

async fn live(
    State(app): State<Arc<App>>,
    Asked(question): Asked<Since>,
) -> Result<impl IntoResponse, Refusal> {
    let live = app
        .live
        .as_ref()
        .ok_or_else(|| Refusal::missing("no cluster is watched; start with --live ADDRESS"))?;
    Ok(Json(live.answer(question.since)))
}

/// The body has limits of its own.
async fn upload(State(app): State<Arc<App>>, body: Body) -> Result<impl IntoResponse + use<>, Refusal> {
    let _place = app.uploads.try_acquire().map_err(|_| {
        Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "other uploads are under way; try again when they are complete",
        )
    })?;
    let uploaded = receive(body, app.upload_bytes_max).await?;
    app.library.add(uploaded).await.map(Json)
}

async fn asset(request: Request) -> Response {
    let Some(found) = assets::find(request.uri().path()) else {
        return Refusal::missing("there is no such page").into_response();
    };
    if *request.method() == Method::POST { other_method().into_response() } else { found }
}

fn other_method() -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this address is not served by this method")
}
