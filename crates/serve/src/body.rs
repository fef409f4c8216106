//! The questions of a request.

use crate::program::{Endpoint, K_DEFAULT, Question};
use crate::refusal::Refusal;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde_json::Value;

/// Answers of a request, over all its questions.
pub(crate) const ANSWERS_MAX: usize = 100_000;

/// The bounds of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) bytes: usize,
    pub(crate) questions: usize,
    pub(crate) k: usize,
}

/// What a request asks.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Each question, or why it is none.
    pub(crate) questions: Vec<Result<Question, String>>,
    /// Whether it is a list: then the answer is one.
    pub(crate) is_list: bool,
}

impl Asked {
    /// The answers that all questions want.
    pub(crate) fn wants(&self) -> usize {
        let k = |question: &Result<Question, String>| question.as_ref().map_or(0, Question::k);
        self.questions.iter().map(k).fold(0, usize::saturating_add)
    }
}

/// Reads a body.
pub(crate) async fn read(headers: &HeaderMap, body: Incoming, most: usize) -> Result<Bytes, Refusal> {
    let too_long = || {
        let reason = format!("a request has at most {most} bytes; ask in several requests");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, reason)
    };
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if length.is_some_and(|length: u64| length > most as u64) {
        return Err(too_long());
    }
    match Limited::new(body, most).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_long()),
        Err(error) => {
            tracing::debug!("a request has ended early: {error}");
            Err(Refusal::new(StatusCode::BAD_REQUEST, "the request is not complete"))
        }
    }
}

/// Reads questions: an object, or a list of objects.
pub(crate) fn parse(endpoint: &Endpoint, bytes: &[u8], bounds: Bounds) -> Result<Asked, Refusal> {
    let wrong = |reason: String| Refusal::new(StatusCode::BAD_REQUEST, reason);
    let body: Value =
        serde_json::from_slice(bytes).map_err(|error| wrong(format!("the body is no JSON: {error}")))?;
    let (values, is_list) = match body {
        Value::Array(values) => (values, true),
        Value::Object(_) => (vec![body], false),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            return Err(wrong(
                "the body must be an object, which is a question, or a list of them".to_owned(),
            ));
        }
    };
    let unprocessable = |reason: String| Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, reason);
    if values.len() > bounds.questions {
        let (asked, most) = (values.len(), bounds.questions);
        return Err(unprocessable(format!("the request has {asked} questions; allowed are up to {most}")));
    }
    let questions = values.into_iter().map(|value| question(endpoint, value, bounds.k)).collect();
    let asked = Asked { questions, is_list };
    if asked.wants() > ANSWERS_MAX {
        let wants = asked.wants();
        return Err(unprocessable(format!(
            "the request asks for {wants} answers; allowed are up to {ANSWERS_MAX} over all its questions"
        )));
    }
    Ok(asked)
}

fn question(endpoint: &Endpoint, value: Value, k_max: usize) -> Result<Question, String> {
    let Value::Object(mut members) = value else {
        return Err("a question must be an object".to_owned());
    };
    if !endpoint.takes_k() {
        return Ok(Question::new(members, 1));
    }
    let k = match members.remove("k") {
        None => K_DEFAULT.min(k_max),
        Some(given) => given
            .as_u64()
            .and_then(|k| usize::try_from(k).ok())
            .filter(|k| (1..=k_max).contains(k))
            .ok_or_else(|| format!("k must be a whole number from 1 to {k_max}"))?,
    };
    Ok(Question::new(members, k))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Found;

    const BOUNDS: Bounds = Bounds { bytes: 100, questions: 300, k: 500 };

    fn endpoint(found: Found) -> Endpoint {
        Endpoint { path: "/v1/near", about: "", members: &[], found }
    }

    fn status(text: &str) -> u16 {
        let list = endpoint(Found::List { answer: "a", number: "b" });
        parse(&list, text.as_bytes(), BOUNDS).map_or_else(|refusal| refusal.status.as_u16(), |_| 200)
    }

    #[test]
    fn a_body_is_a_question_or_a_list_of_them() {
        let list = endpoint(Found::List { answer: "a", number: "b" });
        let asked = parse(&list, br#"{"word": "a"}"#, BOUNDS).unwrap();
        assert!(!asked.is_list && asked.wants() == K_DEFAULT);
        let asked = parse(&list, br#"[{"k": 3}, {"k": 0}, 7, {"k": 501}, {"k": 500}]"#, BOUNDS).unwrap();
        let right: Vec<bool> = asked.questions.iter().map(Result::is_ok).collect();
        assert_eq!((asked.is_list, right, asked.wants()), (true, vec![true, false, false, false, true], 503));
        for text in ["", "x", "{", "7", "null", "\"a\"", "{} {}", "\u{0}"] {
            assert_eq!(status(text), 400, "{text}");
        }
        assert_eq!(status(&"[".repeat(100_000)), 400, "deeper than the parser follows");
        assert_eq!(status("[]"), 200);
        assert_eq!(status(&format!("[{}{{}}]", "{},".repeat(300))), 422);
        assert_eq!(status(&format!("[{}{{}}]", "{\"k\":500},".repeat(201))), 422);
        // Where there is one answer, `k` is no member.
        let one = parse(&endpoint(Found::Number("value")), br#"{"k": 2}"#, BOUNDS).unwrap();
        assert!(
            one.questions[0].as_ref().is_ok_and(|question| question.read::<Map>().unwrap().contains_key("k"))
        );
    }

    type Map = serde_json::Map<String, Value>;
}
