//! The description of a service, as OpenAPI 3.1.

use crate::body::Bounds;
use crate::program::{Endpoint, Found, K_DEFAULT, Kind, Program};
use serde_json::{Map, Value, json};

/// The description as JSON.
pub(crate) fn describe(program: &Program, bounds: Bounds, has_token: bool) -> Value {
    let mut paths = Map::new();
    paths.insert("/v1/model".to_owned(), get("What the model is", "application/json"));
    paths.insert("/metrics".to_owned(), get("Metrics, for Prometheus", "text/plain"));
    paths.insert("/openapi.json".to_owned(), get("This description", "application/json"));
    let of_endpoints = program.endpoints.iter().map(|it| (it.path.to_owned(), post(it, bounds)));
    paths.extend(of_endpoints);
    let mut described = json!({
        "openapi": "3.1.0",
        "info": {
            "title": format!("A model of intendant {}", program.name),
            "version": program.version,
            "description": format!(
                "A request has a question, or a list of up to {}, and up to {} bytes. The answer to a question is an \
                 object, and that to a list is a list of answers in its order. In a list, a question that cannot be \
                 answered has {{\"error\": …}} in place of its answer.",
                bounds.questions, bounds.bytes
            ),
        },
        "paths": paths,
        "components": { "schemas": { "Error": {
            "type": "object", "required": ["error"], "properties": { "error": { "type": "string" } },
        } } },
    });
    if has_token {
        described["components"]["securitySchemes"] =
            json!({ "token": { "type": "http", "scheme": "bearer" } });
        described["security"] = json!([{ "token": [] }]);
    }
    described
}

fn get(about: &str, media: &str) -> Value {
    let schema = if media == "application/json" { "object" } else { "string" };
    json!({ "get": {
        "summary": about,
        "responses": {
            "200": { "description": about, "content": { media: { "schema": { "type": schema } } } },
            "default": refused(),
        },
    } })
}

fn refused() -> Value {
    json!({
        "description": "The request is refused",
        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } },
    })
}

fn post(endpoint: &Endpoint, bounds: Bounds) -> Value {
    let (mut asked, mut required) = (Map::new(), Vec::new());
    for member in endpoint.members {
        let mut schema = match member.kind {
            Kind::Text => json!({ "type": "string" }),
            Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        };
        schema["description"] = member.about.into();
        asked.insert(member.name.to_owned(), schema);
        if member.required {
            required.push(member.name);
        }
    }
    let mut answered: Map<String, Value> = Map::new();
    // JSON has no infinities: these are texts.
    let number = json!({ "type": ["number", "string"] });
    match endpoint.found {
        Found::List { answer, number: name } => {
            let k = json!({
                "type": "integer", "minimum": 1, "maximum": bounds.k, "default": K_DEFAULT.min(bounds.k),
                "description": "Answers that are wanted",
            });
            asked.insert("k".to_owned(), k);
            let properties = json!({ answer: { "type": "string" }, name: number });
            let item = json!({ "type": "object", "properties": properties });
            answered.insert("answers".to_owned(), json!({ "type": "array", "items": item }));
        }
        Found::Number(name) => {
            answered.insert(name.to_owned(), number);
        }
    }
    let question = json!({
        "type": "object", "properties": asked, "required": required, "additionalProperties": false,
    });
    let answer = json!({ "type": "object", "properties": answered });
    let one_or_list = |one: &Value, most: Option<usize>| {
        let mut list = json!({ "type": "array", "items": one });
        if let Some(most) = most {
            list["maxItems"] = most.into();
        }
        json!({ "oneOf": [one, list] })
    };
    let content = |schema: Value| json!({ "application/json": { "schema": schema } });
    let questions = one_or_list(&question, Some(bounds.questions));
    json!({ "post": {
        "summary": endpoint.about,
        "requestBody": { "required": true, "content": content(questions) },
        "responses": {
            "200": { "description": "The answers", "content": content(one_or_list(&answer, None)) },
            "default": refused(),
        },
    } })
}
