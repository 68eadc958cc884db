//! Values of rows, column by column, as Milvus stores and sends them.

use crate::Result;
use crate::error::Origin;

/// The values of one field, one a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// The name of the field.
    pub name: String,
    /// The values.
    pub values: Values,
}

/// Values of one type.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Truth values.
    Bool(Vec<bool>),
    /// Whole numbers of at most 32 bits.
    Int32(Vec<i32>),
    /// Whole numbers of 64 bits.
    Int64(Vec<i64>),
    /// Text.
    VarChar(Vec<String>),
    /// Dense vectors of `dim` numbers, one after the other.
    FloatVector {
        /// How many numbers a vector has.
        dim: usize,
        /// The numbers of all vectors.
        numbers: Vec<f32>,
    },
    /// Sparse vectors: pairs of a dimension and its weight.
    SparseFloatVector(Vec<Vec<(u32, f32)>>),
    /// Lists of whole numbers.
    ArrayInt64(Vec<Vec<i64>>),
}

impl Column {
    /// Names the values.
    pub fn new(name: impl Into<String>, values: Values) -> Self {
        Self { name: name.into(), values }
    }
}

impl Values {
    /// How many rows the values are for. A dense column whose length is no multiple of its dimension counts whole rows.
    pub fn rows(&self) -> usize {
        match self {
            Self::Bool(values) => values.len(),
            Self::Int32(values) => values.len(),
            Self::Int64(values) => values.len(),
            Self::VarChar(values) => values.len(),
            Self::FloatVector { dim, numbers } => numbers.len().checked_div(*dim).unwrap_or(0),
            Self::SparseFloatVector(values) => values.len(),
            Self::ArrayInt64(values) => values.len(),
        }
    }

    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Bool(_) => "Bool",
            Self::Int32(_) => "Int32",
            Self::Int64(_) => "Int64",
            Self::VarChar(_) => "VarChar",
            Self::FloatVector { .. } => "FloatVector",
            Self::SparseFloatVector(_) => "SparseFloatVector",
            Self::ArrayInt64(_) => "Array of Int64",
        }
    }
}

/// The rows of a reply: columns of equal length, in the order of the fields that the request named.
#[derive(Debug, Clone)]
pub struct Rows {
    columns: Vec<Column>,
    len: usize,
    origin: Origin,
}

impl Rows {
    pub(crate) fn new(columns: Vec<Column>, len: usize, origin: Origin) -> Self {
        Self { columns, len, origin }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The columns. There may be none if there is no row.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The columns, by value.
    pub fn into_columns(self) -> Vec<Column> {
        self.columns
    }

    /// The numbers of a field; none if there is no row.
    ///
    /// # Errors
    ///
    /// `Malformed` if the reply lacks the field, or has it with another type.
    pub fn int64(&self, name: &str) -> Result<&[i64]> {
        self.typed(
            name,
            "Int64",
            |values| if let Values::Int64(values) = values { Some(values.as_slice()) } else { None },
        )
    }

    /// The numbers of a field; none if there is no row.
    ///
    /// # Errors
    ///
    /// `Malformed` if the reply lacks the field, or has it with another type.
    pub fn int32(&self, name: &str) -> Result<&[i32]> {
        self.typed(
            name,
            "Int32",
            |values| if let Values::Int32(values) = values { Some(values.as_slice()) } else { None },
        )
    }

    /// The texts of a field; none if there is no row.
    ///
    /// # Errors
    ///
    /// `Malformed` if the reply lacks the field, or has it with another type.
    pub fn var_char(&self, name: &str) -> Result<&[String]> {
        self.typed(
            name,
            "VarChar",
            |values| {
                if let Values::VarChar(values) = values { Some(values.as_slice()) } else { None }
            },
        )
    }

    /// The lists of a field; none if there is no row.
    ///
    /// # Errors
    ///
    /// `Malformed` if the reply lacks the field, or has it with another type.
    pub fn array_int64(&self, name: &str) -> Result<&[Vec<i64>]> {
        self.typed(name, "Array of Int64", |values| {
            if let Values::ArrayInt64(values) = values { Some(values.as_slice()) } else { None }
        })
    }

    /// The numbers of all dense vectors of a field, one vector after the other, each of `dim` numbers; none if there is
    /// no row.
    ///
    /// # Errors
    ///
    /// `Malformed` if the reply lacks the field, or has it with another type or another dimension.
    pub fn float_vectors(&self, name: &str, dim: usize) -> Result<&[f32]> {
        self.typed(name, "FloatVector", |values| match values {
            Values::FloatVector { dim: found, numbers } if *found == dim || numbers.is_empty() => {
                Some(numbers.as_slice())
            }
            _ => None,
        })
    }

    /// The sparse vectors of a field; none if there is no row.
    ///
    /// # Errors
    ///
    /// `Malformed` if the reply lacks the field, or has it with another type.
    pub fn sparse_vectors(&self, name: &str) -> Result<&[Vec<(u32, f32)>]> {
        self.typed(name, "SparseFloatVector", |values| {
            if let Values::SparseFloatVector(values) = values { Some(values.as_slice()) } else { None }
        })
    }

    fn typed<'a, T>(
        &'a self,
        name: &str,
        wanted: &str,
        get: impl FnOnce(&'a Values) -> Option<&'a [T]>,
    ) -> Result<&'a [T]> {
        if self.is_empty() {
            return Ok(&[]);
        }
        let column = self.columns.iter().find(|column| column.name == name);
        let column = column.ok_or_else(|| self.origin.malformed(format!("the field `{name}` is missing")))?;
        let found = column.values.type_name();
        get(&column.values).ok_or_else(|| {
            self.origin.malformed(format!("the field `{name}` has the type {found} instead of {wanted}"))
        })
    }
}
