//! HTTP handlers that help to search: highlights, completion, counts, pages and remembered searches.

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;

use crate::model::{
    CompleteRequest, CountsRequest, ForgetSearches, MarksRequest, PageRequest, PictureRequest, SearchNote,
};
use crate::serve::http::body;
use crate::serve::http::state::{CallerExtension, Reply, SharedState, json_response};
use crate::serve::validate;

/// `POST /v1/marks`: returns which words of some texts match a question.
pub(crate) async fn marks(State(bridge): SharedState, Extension(caller): CallerExtension, request: Request) -> Reply {
    let request: MarksRequest = body::parse_json(&bridge, request).await?;
    validate::marks(&request)?;
    json_response(StatusCode::OK, &caller.service().marks(request).await?)
}

/// `POST /v1/complete`: returns completions of a question.
pub(crate) async fn complete(
    State(bridge): SharedState,
    Extension(caller): CallerExtension,
    request: Request,
) -> Reply {
    let request: CompleteRequest = body::parse_json(&bridge, request).await?;
    json_response(StatusCode::OK, &caller.service().complete(request).await?)
}

/// `POST /v1/counts`: counts the files that match a question by type, folder, date, size, language and owner.
pub(crate) async fn counts(State(bridge): SharedState, Extension(caller): CallerExtension, request: Request) -> Reply {
    let request: CountsRequest = body::parse_json(&bridge, request).await?;
    validate::counts(&request)?;
    json_response(StatusCode::OK, &caller.service().counts(request).await?)
}

/// `POST /v1/page`: returns the size of a page and the places of the words of a question on it.
pub(crate) async fn page(State(bridge): SharedState, Extension(caller): CallerExtension, request: Request) -> Reply {
    let request: PageRequest = body::parse_json(&bridge, request).await?;
    validate::page(&request)?;
    json_response(StatusCode::OK, &caller.service().page(request).await?)
}

/// `GET /v1/page/picture?path=&page=&width=`: returns the picture of a page as JPEG.
pub(crate) async fn picture(Extension(caller): CallerExtension, request: Request) -> Reply {
    let request: PictureRequest = body::parse_query(&request)?;
    validate::page_number(&request.path, request.page)?;
    let picture = caller.service().picture(request).await?;
    Ok(([(header::CONTENT_TYPE, "image/jpeg")], picture.jpeg).into_response())
}

/// `GET /v1/searches`: returns the remembered searches.
pub(crate) async fn past_searches(Extension(caller): CallerExtension) -> Reply {
    json_response(StatusCode::OK, &caller.service().past_searches().await?)
}

/// `POST /v1/searches`: remembers a search, or saves it under a name.
pub(crate) async fn remember(
    State(bridge): SharedState,
    Extension(caller): CallerExtension,
    request: Request,
) -> Reply {
    let note: SearchNote = body::parse_json(&bridge, request).await?;
    validate::search_note(&note)?;
    json_response(StatusCode::OK, &caller.service().remember_search(note).await?)
}

/// `POST /v1/searches/remove`: deletes remembered searches.
pub(crate) async fn forget(State(bridge): SharedState, Extension(caller): CallerExtension, request: Request) -> Reply {
    let which: ForgetSearches = body::parse_json(&bridge, request).await?;
    json_response(StatusCode::OK, &caller.service().forget_searches(which).await?)
}
