//! One row in memory, and its way from and to columns.

use std::collections::BTreeMap;

use crate::column::{Column, Values};
use crate::generated::schema::DataType;

pub(super) type Row = BTreeMap<String, Value>;
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Bool(bool),
    Int(i64),
    Text(String),
    Dense(Vec<f32>),
    Sparse(Vec<(u32, f32)>),
    List(Vec<i64>),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Literal {
    Number(i64),
    Text(String),
}

/// The value as a filter writes it; `None` if a filter cannot.
pub(super) fn key_of(value: &Value) -> Option<Literal> {
    match value {
        Value::Int(number) => Some(Literal::Number(*number)),
        Value::Text(text) => Some(Literal::Text(text.clone())),
        _ => None,
    }
}

/// Whether a field of this type takes the value.
pub(super) fn fits(value: &Value, data_type: i32, dim: &str) -> bool {
    match value {
        Value::Bool(_) => data_type == DataType::Bool as i32,
        Value::Int(number) => {
            data_type == DataType::Int64 as i32 || data_type == DataType::Int32 as i32 && i32::try_from(*number).is_ok()
        }
        Value::Text(_) => data_type == DataType::VarChar as i32,
        Value::Dense(numbers) => data_type == DataType::FloatVector as i32 && numbers.len().to_string() == dim,
        Value::Sparse(_) => data_type == DataType::SparseFloatVector as i32,
        Value::List(_) => data_type == DataType::Array as i32,
    }
}

/// The values of a column, row by row.
pub(super) fn values_of(values: &Values) -> Vec<Value> {
    match values {
        Values::Bool(values) => values.iter().map(|&value| Value::Bool(value)).collect(),
        Values::Int32(values) => values.iter().map(|&value| Value::Int(value.into())).collect(),
        Values::Int64(values) => values.iter().map(|&value| Value::Int(value)).collect(),
        Values::VarChar(values) => values.iter().cloned().map(Value::Text).collect(),
        Values::FloatVector { dim, numbers } => {
            numbers.chunks((*dim).max(1)).map(|numbers| Value::Dense(numbers.to_vec())).collect()
        }
        Values::SparseFloatVector(vectors) => vectors.iter().cloned().map(Value::Sparse).collect(),
        Values::ArrayInt64(lists) => lists.iter().cloned().map(Value::List).collect(),
    }
}

/// One field of rows, as a column of the type that the schema says.
pub(super) fn column_of(rows: &[Row], name: &str, data_type: i32) -> Option<Column> {
    let values = rows.iter().map(|row| row.get(name));
    let int = |value: Option<&Value>| if let Some(Value::Int(number)) = value { Some(*number) } else { None };
    let values = match DataType::try_from(data_type).ok()? {
        DataType::Bool => {
            let get = |value: Option<&Value>| if let Some(Value::Bool(value)) = value { Some(*value) } else { None };
            Values::Bool(values.map(get).collect::<Option<_>>()?)
        }
        DataType::Int32 => Values::Int32(values.map(|value| int(value)?.try_into().ok()).collect::<Option<_>>()?),
        DataType::Int64 => Values::Int64(values.map(int).collect::<Option<_>>()?),
        DataType::VarChar => {
            let get =
                |value: Option<&Value>| if let Some(Value::Text(text)) = value { Some(text.clone()) } else { None };
            Values::VarChar(values.map(get).collect::<Option<_>>()?)
        }
        DataType::FloatVector => {
            let get = |value: Option<&Value>| {
                if let Some(Value::Dense(numbers)) = value { Some(numbers.clone()) } else { None }
            };
            let vectors = values.map(get).collect::<Option<Vec<_>>>()?;
            Values::FloatVector { dim: vectors.first().map_or(0, Vec::len), numbers: vectors.concat() }
        }
        DataType::SparseFloatVector => {
            let get =
                |value: Option<&Value>| if let Some(Value::Sparse(pairs)) = value { Some(pairs.clone()) } else { None };
            Values::SparseFloatVector(values.map(get).collect::<Option<_>>()?)
        }
        DataType::Array => {
            let get =
                |value: Option<&Value>| if let Some(Value::List(list)) = value { Some(list.clone()) } else { None };
            Values::ArrayInt64(values.map(get).collect::<Option<_>>()?)
        }
        _ => return None,
    };
    Some(Column::new(name, values))
}
