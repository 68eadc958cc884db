//! The schema of a collection, in both directions.

use crate::generated::common::KeyValuePair;
use crate::generated::schema::{CollectionSchema, DataType, FieldSchema};

/// A collection to create. It has one shard and no dynamic fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// The name: letters, digits and underscores.
    pub name: String,
    /// Free text. Milvus Lite drops it; see [`Features::keeps_description`](crate::Features::keeps_description).
    pub description: String,
    /// The fields, among them exactly one primary key and at least one vector.
    pub fields: Vec<Field>,
    /// Names and values that the server keeps with the collection.
    pub properties: Vec<(String, String)>,
}

/// A field of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The name.
    pub name: String,
    /// The type with its limits.
    pub kind: FieldType,
    /// Whether the field identifies a row. The caller gives its values.
    pub is_primary: bool,
}

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldType {
    /// Truth values.
    Bool,
    /// Whole numbers of 32 bits.
    Int32,
    /// Whole numbers of 64 bits.
    Int64,
    /// Text of at most `max_bytes` bytes, which are at most 65,535.
    VarChar {
        /// The longest text, in bytes.
        max_bytes: usize,
    },
    /// Dense vectors.
    FloatVector {
        /// How many numbers a vector has.
        dim: usize,
    },
    /// Sparse vectors.
    SparseFloatVector,
    /// Lists of whole numbers of 64 bits.
    ArrayInt64 {
        /// The longest list, at most 4,096.
        max_len: usize,
    },
    /// A type that this client does not handle, by its number in the protocol.
    Other(i32),
}

/// A collection as the server describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collection {
    /// The name. It is that of the collection if the request named an alias.
    pub name: String,
    /// The number that the server gave the collection; 0 on Milvus Lite. A collection created again has another.
    pub id: i64,
    /// Free text; empty on Milvus Lite.
    pub description: String,
    /// The fields.
    pub fields: Vec<Field>,
    /// The aliases. Milvus Lite does not list them here; see [`Client::list_aliases`](crate::Client::list_aliases).
    pub aliases: Vec<String>,
    /// Names and values that the server keeps with the collection.
    pub properties: Vec<(String, String)>,
}

impl Field {
    /// A field that is not the primary key.
    pub fn new(name: impl Into<String>, kind: FieldType) -> Self {
        Self { name: name.into(), kind, is_primary: false }
    }

    /// The field that identifies a row.
    pub fn primary(name: impl Into<String>, kind: FieldType) -> Self {
        Self { name: name.into(), kind, is_primary: true }
    }
}

impl Collection {
    /// The field with this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// How many numbers a vector of this field has. `None` if there is no such field, or it has no dense vectors.
    pub fn dim(&self, name: &str) -> Option<usize> {
        match self.field(name)?.kind {
            FieldType::FloatVector { dim } => Some(dim),
            _ => None,
        }
    }
}

pub(crate) fn pairs(values: &[(String, String)]) -> Vec<KeyValuePair> {
    values.iter().map(|(key, value)| pair(key, value)).collect()
}

pub(crate) fn pair(key: &str, value: impl ToString) -> KeyValuePair {
    KeyValuePair { key: key.to_string(), value: value.to_string() }
}

pub(crate) fn unpair(pairs: Vec<KeyValuePair>) -> Vec<(String, String)> {
    pairs.into_iter().map(|pair| (pair.key, pair.value)).collect()
}

pub(crate) fn to_proto(schema: &Schema) -> CollectionSchema {
    CollectionSchema {
        name: schema.name.clone(),
        description: schema.description.clone(),
        fields: schema.fields.iter().map(field_to_proto).collect(),
        ..Default::default()
    }
}

fn field_to_proto(field: &Field) -> FieldSchema {
    let mut element = DataType::None;
    let (data_type, type_params) = match field.kind {
        FieldType::Bool => (DataType::Bool as i32, vec![]),
        FieldType::Int32 => (DataType::Int32 as i32, vec![]),
        FieldType::Int64 => (DataType::Int64 as i32, vec![]),
        FieldType::VarChar { max_bytes } => (DataType::VarChar as i32, vec![pair("max_length", max_bytes)]),
        FieldType::FloatVector { dim } => (DataType::FloatVector as i32, vec![pair("dim", dim)]),
        FieldType::SparseFloatVector => (DataType::SparseFloatVector as i32, vec![]),
        FieldType::ArrayInt64 { max_len } => {
            element = DataType::Int64;
            (DataType::Array as i32, vec![pair("max_capacity", max_len)])
        }
        FieldType::Other(number) => (number, vec![]),
    };
    FieldSchema {
        name: field.name.clone(),
        is_primary_key: field.is_primary,
        data_type,
        element_type: element as i32,
        type_params,
        ..Default::default()
    }
}

/// The field as the server describes it. A limit that the server does not state is 0.
pub(crate) fn field_from_proto(field: FieldSchema) -> Field {
    let number = |key: &str| {
        let found = field.type_params.iter().find(|pair| pair.key == key);
        found.and_then(|pair| pair.value.parse().ok()).unwrap_or(0)
    };
    let is_int64_list = field.element_type == DataType::Int64 as i32;
    let kind = match DataType::try_from(field.data_type) {
        Ok(DataType::Bool) => FieldType::Bool,
        Ok(DataType::Int32) => FieldType::Int32,
        Ok(DataType::Int64) => FieldType::Int64,
        Ok(DataType::VarChar) => FieldType::VarChar { max_bytes: number("max_length") },
        Ok(DataType::FloatVector) => FieldType::FloatVector { dim: number("dim") },
        Ok(DataType::SparseFloatVector) => FieldType::SparseFloatVector,
        Ok(DataType::Array) if is_int64_list => FieldType::ArrayInt64 { max_len: number("max_capacity") },
        _ => FieldType::Other(field.data_type),
    };
    Field { name: field.name, kind, is_primary: field.is_primary_key }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_survive_the_round_trip() {
        let kinds = [
            FieldType::Bool,
            FieldType::Int32,
            FieldType::Int64,
            FieldType::VarChar { max_bytes: 100 },
            FieldType::FloatVector { dim: 384 },
            FieldType::SparseFloatVector,
            FieldType::ArrayInt64 { max_len: 64 },
            FieldType::Other(23),
        ];
        for kind in kinds {
            let field = Field::primary("f", kind);
            assert_eq!(field_from_proto(field_to_proto(&field)), field);
        }
    }
}
