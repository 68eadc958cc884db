//! HTTP handlers for questions, searches, similar files and grep.

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;

use crate::model::{AskEvent, AskRequest, GrepRequest, SimilarRequest};
use crate::serve::http::state::{CallerExtension, Reply, SharedState, json_response};
use crate::serve::http::{body, sse};
use crate::serve::{streams, validate};

/// `POST /v1/ask`: answers a question with one JSON response, or with events if the client accepts `text/event-stream`.
pub(crate) async fn ask(State(bridge): SharedState, Extension(caller): CallerExtension, request: Request) -> Reply {
    let streamed = sse::accepts_events(&request);
    let question: AskRequest = body::parse_json(&bridge, request).await?;
    validate::ask(&question)?;
    if !streamed {
        return json_response(StatusCode::OK, &caller.service().ask(question).await?);
    }
    let events = caller.service().ask_stream(question).await?;
    let events = streams::answer_stream(events, bridge.shutdown.clone());
    Ok(sse::stream(events, |event| match event {
        AskEvent::Plan(plan) => sse::event("plan", &plan),
        AskEvent::Hits(hits) => sse::event("hits", &hits),
        AskEvent::Text(text) => sse::event("text", &text),
        AskEvent::Done(answer) => sse::event("done", &answer),
    }))
}

/// `POST /v1/search`: returns the hits for a question, without a summary.
pub(crate) async fn search(State(bridge): SharedState, Extension(caller): CallerExtension, request: Request) -> Reply {
    let question: AskRequest = body::parse_json(&bridge, request).await?;
    validate::ask(&question)?;
    json_response(StatusCode::OK, &caller.service().search(question).await?)
}

/// `POST /v1/similar`: returns files similar to a file.
pub(crate) async fn similar(State(bridge): SharedState, Extension(caller): CallerExtension, request: Request) -> Reply {
    let request: SimilarRequest = body::parse_json(&bridge, request).await?;
    validate::similar(&request)?;
    json_response(StatusCode::OK, &caller.service().similar(request).await?)
}

/// `POST /v1/grep`: returns the lines that match a regular expression.
pub(crate) async fn grep(State(bridge): SharedState, Extension(caller): CallerExtension, request: Request) -> Reply {
    let request: GrepRequest = body::parse_json(&bridge, request).await?;
    validate::grep(&request)?;
    json_response(StatusCode::OK, &caller.service().grep(request).await?)
}
