//! The call that finds the rows nearest to a vector.

use std::fmt::Write;

use prost::Message;

use crate::Result;
use crate::client::{Call, Client, Stub};
use crate::collection_schema::pair;
use crate::column::Rows;
use crate::convert;
use crate::error::Origin;
use crate::filter::Filter;
use crate::generated::common::{DslType, PlaceholderGroup, PlaceholderType, PlaceholderValue};
use crate::generated::milvus::{SearchRequest, search_request::SearchInput};
use crate::generated::schema::SearchResultData;
use crate::rows::{Guarantee, MAX_ROWS};

/// The similarity of two vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// The cosine of the angle.
    Cosine,
    /// The inner product.
    Ip,
    /// The square of the distance. [`Hits::scores`] holds its negative.
    L2,
}

impl Metric {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cosine => "COSINE",
            Self::Ip => "IP",
            Self::L2 => "L2",
        }
    }
}

/// The vector to look for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Vector<'a> {
    /// A number for each dimension.
    Dense(&'a [f32]),
    /// Pairs of a dimension and its weight. Weights are not negative.
    Sparse(&'a [(u32, f32)]),
}

/// A search in one field of vectors.
#[derive(Debug, Clone)]
pub struct Search<'a> {
    /// The field of vectors.
    pub field: &'a str,
    /// The vector to look for.
    pub vector: Vector<'a>,
    /// The similarity; the index of the field must have the same.
    pub metric: Metric,
    /// Numbers of the type of the index, such as `ef`.
    pub params: Vec<(String, i64)>,
    /// The rows to search in. `None` searches all.
    pub filter: Option<&'a Filter>,
    /// The most hits, 1 to [`MAX_ROWS`].
    pub limit: usize,
    /// The fields of the hits to return.
    pub output_fields: &'a [&'a str],
    /// How new the rows are that the search sees.
    pub guarantee: Guarantee,
}

/// What a search found, best first.
#[derive(Debug, Clone)]
pub struct Hits {
    /// The score of each hit, in the order of the server; a higher one is better for each [`Metric`].
    pub scores: Vec<f32>,
    /// The fields of each hit, in the same order. No rows if the search named no fields.
    pub rows: Rows,
}

impl Client {
    /// Finds the rows whose vectors are most similar. A sparse search returns no row that shares no dimension with the
    /// vector.
    ///
    /// # Errors
    ///
    /// `Invalid` if the limit or the vector cannot be used, or if the server refuses the request; `NotLoaded` if the
    /// collection could not be loaded in time; `Malformed` if the reply has another shape; and the errors of a call,
    /// within `read_timeout`.
    pub async fn search(&self, collection: &str, search: &Search<'_>) -> Result<Hits> {
        let call = Call { loads: true, ..self.reading("Search", collection) };
        let origin = self.origin(call.name);
        let request = request(collection, search).map_err(|why| origin.invalid(why))?;
        let reply =
            self.call(call, request, |mut stub: Stub, request| async move { stub.search(request).await }).await?;
        let results = reply.results.ok_or_else(|| origin.malformed("the results are missing"))?;
        to_hits(results, search, origin)
    }
}

fn request(collection: &str, search: &Search) -> std::result::Result<SearchRequest, String> {
    if !(1..=MAX_ROWS).contains(&search.limit) {
        return Err(format!("the limit `{}` is not between 1 and {MAX_ROWS}", search.limit));
    }
    let (kind, bytes) = match search.vector {
        Vector::Dense(numbers) => (PlaceholderType::FloatVector, convert::dense_bytes(numbers)),
        Vector::Sparse(pairs) => (PlaceholderType::SparseFloatVector, convert::sparse_bytes(pairs)),
    };
    let bytes = bytes.map_err(|why| format!("the vector for the field `{}` {why}", search.field))?;
    if bytes.is_empty() {
        return Err(format!("the vector for the field `{}` is empty", search.field));
    }
    let value = PlaceholderValue { tag: "$0".into(), r#type: kind as i32, values: vec![bytes], ..Default::default() };
    let group = PlaceholderGroup { placeholders: vec![value] };
    let (guarantee_timestamp, consistency_level) = search.guarantee.wire();
    Ok(SearchRequest {
        collection_name: collection.into(),
        dsl: search.filter.map(ToString::to_string).unwrap_or_default(),
        dsl_type: DslType::BoolExprV1 as i32,
        search_input: Some(SearchInput::PlaceholderGroup(group.encode_to_vec())),
        output_fields: search.output_fields.iter().map(ToString::to_string).collect(),
        search_params: vec![
            pair("anns_field", search.field),
            pair("topk", search.limit),
            pair("metric_type", search.metric.name()),
            pair("params", json_object(&search.params)),
            pair("round_decimal", -1),
        ],
        guarantee_timestamp,
        consistency_level,
        nq: 1,
        ..Default::default()
    })
}

fn to_hits(results: SearchResultData, search: &Search, origin: Origin) -> Result<Hits> {
    let count = results.scores.len();
    if count > search.limit {
        return Err(origin.malformed(format!("{count} hits came instead of at most {}", search.limit)));
    }
    if results.topks.len() > 1 || results.topks.first().is_some_and(|&topk| usize::try_from(topk) != Ok(count)) {
        return Err(origin.malformed(format!("the number of hits and the {count} scores differ")));
    }
    if results.scores.iter().any(|score| !score.is_finite()) {
        return Err(origin.malformed("a score is not a finite number"));
    }
    let keys = results.ids.and_then(|ids| Some((results.primary_field_name, ids.id_field?)));
    let rows = convert::to_rows(results.fields_data, search.output_fields, keys, origin.clone())?;
    if rows.len() != count && !search.output_fields.is_empty() {
        return Err(origin.malformed(format!("{} rows and {count} scores came", rows.len())));
    }
    let score = |score: f32| if search.metric == Metric::L2 { 0.0 - score } else { score };
    Ok(Hits { scores: results.scores.into_iter().map(score).collect(), rows })
}

/// Names and numbers as a JSON object. Names are those of parameters, which need no escapes; others are dropped.
pub(crate) fn json_object(params: &[(String, i64)]) -> String {
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let mut text = String::from("{");
    for (name, value) in params.iter().filter(|(name, _)| is_name(name)) {
        let comma = if text.len() > 1 { "," } else { "" };
        let _ = write!(text, "{comma}\"{name}\":{value}");
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_are_a_json_object() {
        assert_eq!(json_object(&[]), "{}");
        let params = [("M".to_string(), 16), ("a\"b".to_string(), 1), ("ef".to_string(), 64)];
        assert_eq!(json_object(&params), r#"{"M":16,"ef":64}"#);
    }
}
