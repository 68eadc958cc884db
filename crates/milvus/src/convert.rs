//! Columns in the form of the protocol, and back. A reply of another shape is an error that names the field.

use crate::Result;
use crate::column::{Column, Rows, Values};
use crate::error::Origin;
use crate::generated::schema::field_data::Field;
use crate::generated::schema::i_ds::IdField;
use crate::generated::schema::scalar_field::Data as Scalar;
use crate::generated::schema::vector_field::Data as Vector;
use crate::generated::schema::{
    ArrayArray, BoolArray, DataType, FieldData, FloatArray, IntArray, LongArray, ScalarField, SparseFloatArray,
    StringArray, VectorField,
};

/// Bytes of one pair of a sparse vector: the dimension and the weight, both little-endian.
const PAIR_BYTES: usize = 8;
/// The protocol reserves the highest dimension.
const RESERVED_DIMENSION: u32 = u32::MAX;

type Checked<T> = std::result::Result<T, String>;

/// The columns of an upsert, and how many rows they have.
pub(crate) fn to_fields(columns: Vec<Column>) -> Checked<(Vec<FieldData>, u32)> {
    let rows = columns.first().map_or(0, |column| column.values.rows());
    if rows == 0 {
        return Err("there are no rows".into());
    }
    if let Some(ragged) = columns.iter().find(|column| column.values.rows() != rows) {
        let found = ragged.values.rows();
        return Err(format!("the field `{}` has {found} rows, and the first field {rows}", ragged.name));
    }
    let count = u32::try_from(rows).map_err(|_| format!("{rows} rows are too many"))?;
    let fields = columns.into_iter().map(|Column { name, values }| {
        to_field(values)
            .map(|(data_type, field)| field_data(name.clone(), data_type, field))
            .map_err(|why| format!("the field `{name}` {why}"))
    });
    Ok((fields.collect::<Checked<Vec<_>>>()?, count))
}

fn field_data(field_name: String, data_type: DataType, field: Field) -> FieldData {
    FieldData { r#type: data_type as i32, field_name, field: Some(field), ..Default::default() }
}

fn to_field(values: Values) -> Checked<(DataType, Field)> {
    Ok(match values {
        Values::Bool(data) => (DataType::Bool, scalars(Scalar::BoolData(BoolArray { data }))),
        Values::Int32(data) => (DataType::Int32, scalars(Scalar::IntData(IntArray { data }))),
        Values::Int64(data) => (DataType::Int64, scalars(Scalar::LongData(LongArray { data }))),
        Values::VarChar(data) => (DataType::VarChar, scalars(Scalar::StringData(StringArray { data }))),
        Values::FloatVector { dim, numbers } => {
            if numbers.len() % dim.max(1) != 0 {
                return Err(format!("has {} numbers, which are no vectors of {dim}", numbers.len()));
            }
            check_finite(&numbers)?;
            let dim = i64::try_from(dim).map_err(|_| "has too large vectors".to_string())?;
            let data = Some(Vector::FloatVector(FloatArray { data: numbers }));
            (DataType::FloatVector, Field::Vectors(VectorField { dim, data, ..Default::default() }))
        }
        Values::SparseFloatVector(vectors) => {
            let contents = vectors.iter().map(|pairs| sparse_bytes(pairs)).collect::<Checked<Vec<_>>>()?;
            let dim = vectors.iter().flatten().map(|&(dimension, _)| i64::from(dimension) + 1).max().unwrap_or(0);
            let data = Some(Vector::SparseFloatVector(SparseFloatArray { contents, dim }));
            (DataType::SparseFloatVector, Field::Vectors(VectorField { dim, data, ..Default::default() }))
        }
        Values::ArrayInt64(lists) => {
            let list = |data| ScalarField { data: Some(Scalar::LongData(LongArray { data })), ..Default::default() };
            let data = lists.into_iter().map(list).collect();
            let element_type = DataType::Int64 as i32;
            (DataType::Array, scalars(Scalar::ArrayData(ArrayArray { data, element_type })))
        }
    })
}

fn scalars(data: Scalar) -> Field {
    Field::Scalars(ScalarField { data: Some(data), ..Default::default() })
}

fn check_finite(numbers: &[f32]) -> Checked<()> {
    if numbers.iter().all(|number| number.is_finite()) { Ok(()) } else { Err("has a number that is not finite".into()) }
}

/// The numbers in the form of a request, little-endian.
pub(crate) fn dense_bytes(numbers: &[f32]) -> Checked<Vec<u8>> {
    check_finite(numbers)?;
    Ok(numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
}

/// The pairs in the form of the protocol: in the order of their dimensions, each at most once.
pub(crate) fn sparse_bytes(pairs: &[(u32, f32)]) -> Checked<Vec<u8>> {
    let mut sorted = pairs.to_vec();
    sorted.sort_unstable_by_key(|&(dimension, _)| dimension);
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(format!("has the dimension {} twice", twice[0].0));
    }
    for &(dimension, weight) in &sorted {
        if dimension == RESERVED_DIMENSION || !weight.is_finite() || weight < 0.0 {
            return Err(format!("has the weight {weight} in the dimension {dimension}"));
        }
    }
    Ok(sorted.iter().flat_map(|(dimension, weight)| [dimension.to_le_bytes(), weight.to_le_bytes()].concat()).collect())
}

pub(crate) fn sparse_from_bytes(bytes: &[u8]) -> Checked<Vec<(u32, f32)>> {
    let (pairs, rest) = bytes.as_chunks::<PAIR_BYTES>();
    if !rest.is_empty() {
        return Err(format!("has a sparse vector of {} bytes", bytes.len()));
    }
    let pair = |&[a, b, c, d, e, f, g, h]: &[u8; PAIR_BYTES]| {
        (u32::from_le_bytes([a, b, c, d]), f32::from_le_bytes([e, f, g, h]))
    };
    let pairs: Vec<_> = pairs.iter().map(pair).collect();
    if pairs.iter().any(|(_, weight)| !weight.is_finite()) {
        return Err("has a weight that is not finite".into());
    }
    Ok(pairs)
}

/// The wanted fields of a reply, in the order of the request. `keys` are the primary keys of hits with the name of their
/// field, which older servers leave empty: a server may send the keys there only.
pub(crate) fn to_rows(
    fields: Vec<FieldData>,
    wanted: &[&str],
    keys: Option<(String, IdField)>,
    origin: Origin,
) -> Result<Rows> {
    let mut columns: Vec<Column> = Vec::with_capacity(wanted.len());
    let mut fields: Vec<Option<FieldData>> = fields.into_iter().map(Some).collect();
    let is_empty = fields.iter().flatten().next().is_none() && keys.as_ref().is_none_or(|(_, ids)| id_count(ids) == 0);
    if is_empty {
        return Ok(Rows::new(columns, 0, origin));
    }
    let mut keys = keys;
    for &name in wanted {
        let found = fields.iter_mut().find(|field| field.as_ref().is_some_and(|field| field.field_name == name));
        let values = match found.and_then(Option::take) {
            Some(field) => from_field(field),
            None => match keys.take() {
                Some((field, ids)) if field == name || field.is_empty() => from_ids(ids),
                _ => Err("is missing".into()),
            },
        };
        let values = values.map_err(|why| origin.malformed(format!("the field `{name}` {why}")))?;
        columns.push(Column { name: name.to_string(), values });
    }
    let len = columns.first().map_or(0, |column| column.values.rows());
    if let Some(ragged) = columns.iter().find(|column| column.values.rows() != len) {
        let found = ragged.values.rows();
        return Err(origin.malformed(format!("the field `{}` has {found} rows instead of {len}", ragged.name)));
    }
    Ok(Rows::new(columns, len, origin))
}

fn id_count(ids: &IdField) -> usize {
    match ids {
        IdField::IntId(ids) => ids.data.len(),
        IdField::StrId(ids) => ids.data.len(),
        IdField::UuidId(ids) => ids.data.len(),
    }
}

fn from_ids(ids: IdField) -> Checked<Values> {
    match ids {
        IdField::IntId(ids) => Ok(Values::Int64(ids.data)),
        IdField::StrId(ids) => Ok(Values::VarChar(ids.data)),
        IdField::UuidId(_) => Err("has keys of another type".into()),
    }
}

fn from_field(field: FieldData) -> Checked<Values> {
    if field.valid_data.contains(&false) {
        return Err("has a missing value".into());
    }
    let data_type = DataType::try_from(field.r#type).map_err(|_| format!("has the unknown type {}", field.r#type))?;
    match field.field {
        Some(Field::Scalars(scalars)) => from_scalars(data_type, scalars),
        Some(Field::Vectors(vectors)) => from_vectors(data_type, vectors),
        None => Err("has no values".into()),
    }
}

fn from_scalars(data_type: DataType, scalars: ScalarField) -> Checked<Values> {
    if scalars.valid_data.contains(&false) {
        return Err("has a missing value".into());
    }
    match (data_type, scalars.data) {
        (DataType::Bool, Some(Scalar::BoolData(values))) => Ok(Values::Bool(values.data)),
        (DataType::Int8 | DataType::Int16 | DataType::Int32, Some(Scalar::IntData(values))) => {
            Ok(Values::Int32(values.data))
        }
        (DataType::Int64, Some(Scalar::LongData(values))) => Ok(Values::Int64(values.data)),
        (DataType::VarChar | DataType::String, Some(Scalar::StringData(values))) => Ok(Values::VarChar(values.data)),
        (DataType::Array, Some(Scalar::ArrayData(lists))) => {
            lists.data.into_iter().map(from_list).collect::<Checked<Vec<_>>>().map(Values::ArrayInt64)
        }
        // A column without rows may come without its list.
        (_, None) => empty(data_type, 0),
        (data_type, Some(_)) => Err(format!("says {data_type:?} and has values of another type")),
    }
}

fn from_list(list: ScalarField) -> Checked<Vec<i64>> {
    match list.data {
        Some(Scalar::LongData(values)) => Ok(values.data),
        None => Ok(Vec::new()),
        Some(_) => Err("has a list with values of another type".into()),
    }
}

fn from_vectors(data_type: DataType, vectors: VectorField) -> Checked<Values> {
    if vectors.valid_data.contains(&false) {
        return Err("has a missing value".into());
    }
    let dim = usize::try_from(vectors.dim).map_err(|_| format!("has the dimension {}", vectors.dim))?;
    match (data_type, vectors.data) {
        (DataType::FloatVector, Some(Vector::FloatVector(FloatArray { data }))) => {
            if dim == 0 || data.len() % dim != 0 {
                return Err(format!("has {} numbers, which are no vectors of {dim}", data.len()));
            }
            check_finite(&data)?;
            Ok(Values::FloatVector { dim, numbers: data })
        }
        (DataType::SparseFloatVector, Some(Vector::SparseFloatVector(vectors))) => {
            let vectors = vectors.contents.iter().map(|bytes| sparse_from_bytes(bytes));
            vectors.collect::<Checked<Vec<_>>>().map(Values::SparseFloatVector)
        }
        (_, None) => empty(data_type, dim),
        (data_type, Some(_)) => Err(format!("says {data_type:?} and has values of another type")),
    }
}

fn empty(data_type: DataType, dim: usize) -> Checked<Values> {
    Ok(match data_type {
        DataType::Bool => Values::Bool(Vec::new()),
        DataType::Int8 | DataType::Int16 | DataType::Int32 => Values::Int32(Vec::new()),
        DataType::Int64 => Values::Int64(Vec::new()),
        DataType::VarChar | DataType::String => Values::VarChar(Vec::new()),
        DataType::Array => Values::ArrayInt64(Vec::new()),
        DataType::FloatVector => Values::FloatVector { dim, numbers: Vec::new() },
        DataType::SparseFloatVector => Values::SparseFloatVector(Vec::new()),
        other => return Err(format!("has the type {other:?}, which this client does not handle")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn origin() -> Origin {
        Origin { address: "http://h:1".into(), call: "Query" }
    }

    fn columns() -> Vec<Column> {
        vec![
            Column::new("bool", Values::Bool(vec![true, false])),
            Column::new("small", Values::Int32(vec![1, -1])),
            Column::new("id", Values::Int64(vec![i64::MIN, i64::MAX])),
            Column::new("text", Values::VarChar(vec!["a".into(), String::new()])),
            Column::new("dense", Values::FloatVector { dim: 2, numbers: vec![1.0, 2.0, 3.0, 4.0] }),
            Column::new("sparse", Values::SparseFloatVector(vec![vec![(1, 0.5), (9, 2.0)], vec![]])),
            Column::new("list", Values::ArrayInt64(vec![vec![1, 2], vec![]])),
        ]
    }

    #[test]
    fn columns_survive_the_round_trip() {
        let (fields, rows) = to_fields(columns()).unwrap();
        let names: Vec<_> = fields.iter().map(|field| field.field_name.clone()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let back = to_rows(fields, &names, None, origin()).unwrap();
        assert_eq!((rows, back.len(), back.columns()), (2, 2, columns().as_slice()));
    }

    #[test]
    fn unusable_column_is_refused_by_name() {
        let cases = [
            Values::FloatVector { dim: 2, numbers: vec![1.0, f32::NAN] },
            Values::FloatVector { dim: 2, numbers: vec![1.0, 2.0, 3.0] },
            Values::FloatVector { dim: 0, numbers: vec![1.0] },
            Values::SparseFloatVector(vec![vec![(1, 1.0), (1, 2.0)]]),
            Values::SparseFloatVector(vec![vec![(1, -1.0)]]),
            Values::SparseFloatVector(vec![vec![(u32::MAX, 1.0)]]),
            Values::Int64(vec![1, 2]),
        ];
        for values in cases {
            let columns = vec![Column::new("id", Values::Int64(vec![1])), Column::new("odd", values)];
            let why = to_fields(columns).unwrap_err();
            assert!(why.contains("`odd`"), "{why}");
        }
        assert!(to_fields(Vec::new()).is_err());
    }

    fn why_of(fields: Vec<FieldData>, wanted: &[&str]) -> String {
        let error = to_rows(fields, wanted, None, origin()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Malformed(_)));
        error.to_string()
    }

    #[test]
    fn malformed_reply_names_the_field() {
        let int = |name: &str, data: Vec<i64>| {
            field_data(name.into(), DataType::Int64, scalars(Scalar::LongData(LongArray { data })))
        };
        let dense = |data: Vec<f32>, dim| {
            let data = Some(Vector::FloatVector(FloatArray { data }));
            field_data(
                "odd".into(),
                DataType::FloatVector,
                Field::Vectors(VectorField { dim, data, ..Default::default() }),
            )
        };
        let mut other_type = int("odd", vec![1]);
        other_type.r#type = DataType::VarChar as i32;
        let mut unknown_type = int("odd", vec![1]);
        unknown_type.r#type = 9999;
        let mut null = int("odd", vec![1]);
        null.valid_data = vec![false];
        let contents = vec![vec![0; 7]];
        let data = Some(Vector::SparseFloatVector(SparseFloatArray { contents, dim: 1 }));
        let sparse = field_data(
            "odd".into(),
            DataType::SparseFloatVector,
            Field::Vectors(VectorField { data, ..Default::default() }),
        );
        let odd = [
            int("odd", vec![1, 2]),
            other_type,
            unknown_type,
            null,
            sparse,
            FieldData { field: None, ..int("odd", vec![]) },
            dense(vec![1.0, 2.0, 3.0], 2),
            dense(vec![f32::INFINITY], 1),
            dense(vec![1.0], -1),
            dense(vec![1.0], 0),
        ];
        for field in odd {
            let text = why_of(vec![int("id", vec![1]), field], &["id", "odd"]);
            assert!(text.contains("`odd`"), "{text}");
        }
        assert!(why_of(vec![int("id", vec![1])], &["id", "odd"]).contains("`odd` is missing"));
    }

    #[test]
    fn keys_of_hits_fill_the_missing_field() {
        let ids = || IdField::IntId(LongArray { data: vec![7] });
        for name in ["id", ""] {
            let rows = to_rows(Vec::new(), &["id"], Some((name.to_string(), ids())), origin()).unwrap();
            assert_eq!(rows.int64("id").unwrap(), [7]);
        }
        assert!(to_rows(Vec::new(), &["id"], Some(("other".into(), ids())), origin()).is_err());
    }

    #[test]
    fn reply_without_rows_has_every_field() {
        let rows = to_rows(Vec::new(), &["id", "text"], None, origin()).unwrap();
        assert!(rows.is_empty() && rows.int64("id").unwrap().is_empty() && rows.var_char("text").unwrap().is_empty());
    }
}
