//! The files of the page. They are embedded in the program, so that it needs neither a network nor a folder.

use axum::response::{IntoResponse, Response};
use http::header;

/// Type and content of each file, by its path.
const FILES: [(&str, &str, &[u8]); 5] = [
    ("/", "text/html; charset=utf-8", include_bytes!("../web/dist/index.html")),
    ("/app.js", "text/javascript; charset=utf-8", include_bytes!("../web/dist/app.js")),
    ("/app.css", "text/css; charset=utf-8", include_bytes!("../web/dist/app.css")),
    ("/icon.svg", "image/svg+xml", include_bytes!("../web/dist/icon.svg")),
    ("/NOTICE.txt", "text/plain; charset=utf-8", include_bytes!("../web/dist/NOTICE.txt")),
];

/// The file at a path.
pub(crate) fn find(path: &str) -> Option<Response> {
    let (_, kind, content) = FILES.iter().find(|(known, ..)| *known == path)?;
    Some(([(header::CONTENT_TYPE, *kind)], *content).into_response())
}
