//! The replies of the mock to queries and searches, and replies of a wrong shape.

use prost::Message;

use super::faults::{Malformed, Refusal};
use super::row::{Row, Value, column_of};
use super::store::{Store, Stored};
use crate::convert;
use crate::generated::common::{KeyValuePair, PlaceholderGroup, Status};
use crate::generated::milvus::*;
use crate::generated::schema::field_data::Field;
use crate::generated::schema::i_ds::IdField;
use crate::generated::schema::scalar_field::Data as Scalar;
use crate::generated::schema::vector_field::Data as Vector;
use crate::generated::schema::{DataType, FieldData, IDs, LongArray, ScalarField, SearchResultData, StringArray};
use crate::rows::MAX_ROWS;

/// A reply that can carry any status, and can be made wrong.
pub(super) trait Answer: Default {
    fn set_status(&mut self, status: Option<Status>);

    fn malform(&mut self, _shape: Malformed) {}

    fn of(status: Status) -> Self {
        let mut answer = Self::default();
        answer.set_status(Some(status));
        answer
    }
}

impl Answer for Status {
    fn set_status(&mut self, status: Option<Status>) {
        *self = status.unwrap_or_default();
    }
}

macro_rules! answer {
    ($($name:ident $(($malform:expr))?),* $(,)?) => {$(
        impl Answer for $name {
            fn set_status(&mut self, status: Option<Status>) {
                self.status = status;
            }

            $(fn malform(&mut self, shape: Malformed) {
                let malform: fn(&mut Self, Malformed) = $malform;
                malform(self, shape);
            })?
        }
    )*};
}

answer!(
    BoolResponse,
    CheckHealthResponse,
    ConnectResponse,
    DescribeAliasResponse,
    DescribeCollectionResponse(|reply, _| reply.schema = None),
    DescribeIndexResponse,
    FlushResponse,
    GetFlushStateResponse,
    GetLoadStateResponse,
    GetVersionResponse,
    ListAliasesResponse,
    MutationResult(|reply, _| reply.err_index = vec![0]),
    QueryResults(|reply, shape| malform_fields(&mut reply.fields_data, shape)),
    SearchResults(malform_search),
    ShowCollectionsResponse,
);

fn malform_search(reply: &mut SearchResults, shape: Malformed) {
    let Some(results) = &mut reply.results else { return };
    match shape {
        Malformed::NoResults => reply.results = None,
        Malformed::NotFinite => results.scores.fill(f32::NAN),
        Malformed::NoField => {
            results.ids = None;
            malform_fields(&mut results.fields_data, shape);
        }
        shape => malform_fields(&mut results.fields_data, shape),
    }
}

fn malform_fields(fields: &mut Vec<FieldData>, shape: Malformed) {
    match shape {
        Malformed::NoField => drop(fields.pop()),
        Malformed::NoResults => fields.clear(),
        Malformed::OtherType => fields.iter_mut().for_each(|field| field.r#type = DataType::Json as i32),
        Malformed::Ragged => {
            if let Some(Field::Scalars(ScalarField { data: Some(Scalar::LongData(values)), .. })) =
                fields.first_mut().and_then(|field| field.field.as_mut())
            {
                values.data.push(0);
            }
        }
        Malformed::NotFinite => {
            for field in fields {
                if let Some(Field::Vectors(vectors)) = &mut field.field
                    && let Some(Vector::FloatVector(numbers)) = &mut vectors.data
                {
                    numbers.data.fill(f32::NAN);
                }
            }
        }
        Malformed::NoStatus => {}
    }
}

/// The answer to a query.
pub(super) fn found(store: &mut Store, request: QueryRequest) -> Result<QueryResults, Refusal> {
    let name = &request.collection_name;
    let mut rows = store.read(name, &request.expr, request.guarantee_timestamp)?;
    let collection = store.find(name)?;
    let mut reply = QueryResults { collection_name: collection.name.clone(), ..QueryResults::of(Status::default()) };
    if request.output_fields == ["count(*)"] {
        let count = i64::try_from(rows.len()).unwrap_or(i64::MAX);
        let data = Some(Scalar::LongData(LongArray { data: vec![count] }));
        let field = Some(Field::Scalars(ScalarField { data, ..Default::default() }));
        let field_name = "count(*)".to_string();
        reply.fields_data = vec![FieldData { r#type: DataType::Int64 as i32, field_name, field, ..Default::default() }];
        return Ok(reply);
    }
    match number(&request.query_params, "limit") {
        Some(limit) => rows.truncate(checked_limit(limit)?),
        None if request.expr.is_empty() => return Err(Refusal::INVALID),
        None => {}
    }
    reply.fields_data = fields_of(collection, &rows, &request.output_fields)?;
    reply.primary_field_name = collection.key_field().to_string();
    Ok(reply)
}

/// The answer to a search.
pub(super) fn nearest(store: &mut Store, request: SearchRequest) -> Result<SearchResults, Refusal> {
    let name = &request.collection_name;
    let rows = store.read(name, &request.dsl, request.guarantee_timestamp)?;
    let limit = checked_limit(number(&request.search_params, "topk").ok_or(Refusal::INVALID)?)?;
    let field = text(&request.search_params, "anns_field").ok_or(Refusal::INVALID)?;
    let metric = text(&request.search_params, "metric_type").ok_or(Refusal::INVALID)?;
    let collection = store.find(name)?;
    if text(collection.indexes.get(field).ok_or(Refusal::NO_INDEX)?, "metric_type") != Some(metric) {
        return Err(Refusal::INVALID);
    }
    let query = query_vector(&request).ok_or(Refusal::INVALID)?;
    let mut scored = Vec::new();
    for row in rows {
        let vector = row.get(field).ok_or(Refusal::INVALID)?;
        scored.extend(score(&query, vector, metric)?.map(|score| (score, row)));
    }
    let sign = if metric == "L2" { 1.0 } else { -1.0 };
    scored.sort_by(|(a, _), (b, _)| (sign * a).total_cmp(&(sign * b)));
    scored.truncate(limit);
    let (scores, rows): (Vec<f32>, Vec<Row>) = scored.into_iter().unzip();
    let results = SearchResultData {
        num_queries: 1,
        top_k: i64::try_from(limit).unwrap_or(i64::MAX),
        topks: vec![i64::try_from(scores.len()).unwrap_or(i64::MAX)],
        ids: ids_of(&rows, collection.key_field()),
        fields_data: fields_of(collection, &rows, &request.output_fields)?,
        primary_field_name: collection.key_field().to_string(),
        scores,
        ..Default::default()
    };
    Ok(SearchResults { results: Some(results), ..SearchResults::of(Status::default()) })
}

fn query_vector(request: &SearchRequest) -> Option<Value> {
    let Some(search_request::SearchInput::PlaceholderGroup(bytes)) = &request.search_input else { return None };
    let group = PlaceholderGroup::decode(bytes.as_slice()).ok()?;
    let [value] = group.placeholders.as_slice() else { return None };
    let [bytes] = value.values.as_slice() else { return None };
    match DataType::try_from(value.r#type).ok()? {
        DataType::FloatVector => {
            let (numbers, rest) = bytes.as_chunks::<4>();
            rest.is_empty().then(|| Value::Dense(numbers.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()))
        }
        DataType::SparseFloatVector => convert::sparse_from_bytes(bytes).ok().map(Value::Sparse),
        _ => None,
    }
}

/// The score as the full server gives it; `None` if a sparse row shares no dimension.
fn score(query: &Value, row: &Value, metric: &str) -> Result<Option<f32>, Refusal> {
    match (query, row, metric) {
        (Value::Sparse(query), Value::Sparse(row), "IP") => {
            let weight = |dimension| row.iter().find(|(other, _)| *other == dimension).map(|(_, weight)| weight);
            let products =
                query.iter().filter_map(|&(dimension, weight_of_query)| Some(weight_of_query * weight(dimension)?));
            let products: Vec<f32> = products.collect();
            Ok((!products.is_empty()).then(|| products.iter().sum()))
        }
        (Value::Dense(a), Value::Dense(b), _) if a.len() == b.len() => {
            let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
            let norm = dot(a, a).sqrt() * dot(b, b).sqrt();
            match metric {
                "IP" => Ok(Some(dot(a, b))),
                "COSINE" => Ok(Some(if norm > 0.0 { dot(a, b) / norm } else { 0.0 })),
                "L2" => Ok(Some(a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum())),
                _ => Err(Refusal::INVALID),
            }
        }
        _ => Err(Refusal::INVALID),
    }
}

fn ids_of(rows: &[Row], key: &str) -> Option<IDs> {
    let keys: Vec<_> = rows.iter().filter_map(|row| row.get(key)).collect();
    let int = |key: &&Value| if let Value::Int(number) = key { Some(*number) } else { None };
    let text = |key: &&Value| if let Value::Text(text) = key { Some(text.clone()) } else { None };
    let id_field = match keys.iter().map(int).collect::<Option<Vec<_>>>() {
        Some(data) => IdField::IntId(LongArray { data }),
        None => IdField::StrId(StringArray { data: keys.iter().map(text).collect::<Option<_>>()? }),
    };
    Some(IDs { id_field: Some(id_field) })
}

fn fields_of(collection: &Stored, rows: &[Row], names: &[String]) -> Result<Vec<FieldData>, Refusal> {
    let mut columns = Vec::new();
    for name in names {
        let field = collection.schema.fields.iter().find(|field| field.name == *name).ok_or(Refusal::INVALID)?;
        columns.push(column_of(rows, name, field.data_type).ok_or(Refusal::INVALID)?);
    }
    if rows.is_empty() || columns.is_empty() {
        return Ok(Vec::new());
    }
    convert::to_fields(columns).map(|(fields, _)| fields).map_err(|_| Refusal::INVALID)
}

fn checked_limit(limit: usize) -> Result<usize, Refusal> {
    if (1..=MAX_ROWS).contains(&limit) { Ok(limit) } else { Err(Refusal::INVALID) }
}

fn text<'a>(pairs: &'a [KeyValuePair], key: &str) -> Option<&'a str> {
    pairs.iter().find(|pair| pair.key == key).map(|pair| pair.value.as_str())
}

fn number(pairs: &[KeyValuePair], key: &str) -> Option<usize> {
    text(pairs, key)?.parse().ok()
}
