//! The protobuf messages of the ONNX format that vic's graphs need, with the field numbers of `onnx.proto`.

use prost::Message;

/// Attribute type FLOAT (`AttributeProto.AttributeType.FLOAT`).
const ATTRIBUTE_FLOAT: i32 = 1;
/// Attribute type INT (`AttributeProto.AttributeType.INT`).
const ATTRIBUTE_INT: i32 = 2;
/// Tensor element type FLOAT (`TensorProto.DataType.FLOAT`).
pub(super) const FLOAT: i32 = 1;
/// Tensor element type INT8 (`TensorProto.DataType.INT8`).
pub(super) const INT8: i32 = 3;
/// Tensor element type INT64 (`TensorProto.DataType.INT64`).
#[cfg(test)]
pub(super) const INT64: i32 = 7;

#[derive(Clone, PartialEq, Message)]
pub(super) struct ModelProto {
    #[prost(int64, optional, tag = "1")]
    pub(super) ir_version: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub(super) producer_name: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(super) producer_version: Option<String>,
    #[prost(message, optional, tag = "7")]
    pub(super) graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    pub(super) opset_import: Vec<OperatorSetIdProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OperatorSetIdProto {
    #[prost(string, optional, tag = "1")]
    pub(super) domain: Option<String>,
    #[prost(int64, optional, tag = "2")]
    pub(super) version: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    pub(super) node: Vec<NodeProto>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
    #[prost(message, repeated, tag = "5")]
    pub(super) initializer: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub(super) input: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "12")]
    pub(super) output: Vec<ValueInfoProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    pub(super) input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(super) output: Vec<String>,
    #[prost(string, optional, tag = "3")]
    pub(super) name: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub(super) op_type: Option<String>,
    #[prost(message, repeated, tag = "5")]
    pub(super) attribute: Vec<AttributeProto>,
    #[prost(string, optional, tag = "7")]
    pub(super) domain: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AttributeProto {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(float, optional, tag = "2")]
    pub(super) f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub(super) i: Option<i64>,
    #[prost(int32, optional, tag = "20")]
    pub(super) kind: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorProto {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub(super) dims: Vec<i64>,
    #[prost(int32, optional, tag = "2")]
    pub(super) data_type: Option<i32>,
    #[prost(string, optional, tag = "8")]
    pub(super) name: Option<String>,
    #[prost(bytes = "vec", optional, tag = "9")]
    pub(super) raw_data: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ValueInfoProto {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub(super) kind: Option<TypeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TypeProto {
    #[prost(message, optional, tag = "1")]
    pub(super) tensor_type: Option<TensorType>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorType {
    #[prost(int32, optional, tag = "1")]
    pub(super) elem_type: Option<i32>,
    #[prost(message, optional, tag = "2")]
    pub(super) shape: Option<TensorShape>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorShape {
    #[prost(message, repeated, tag = "1")]
    pub(super) dim: Vec<Dimension>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Dimension {
    #[prost(int64, optional, tag = "1")]
    pub(super) dim_value: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub(super) dim_param: Option<String>,
}

impl AttributeProto {
    /// Creates an attribute of an operator with a floating point value.
    pub(super) fn float(name: &str, value: f32) -> AttributeProto {
        AttributeProto { name: Some(name.into()), f: Some(value), i: None, kind: Some(ATTRIBUTE_FLOAT) }
    }

    /// Creates an attribute of an operator with an integer value.
    pub(super) fn int(name: &str, value: i64) -> AttributeProto {
        AttributeProto { name: Some(name.into()), f: None, i: Some(value), kind: Some(ATTRIBUTE_INT) }
    }
}

impl ValueInfoProto {
    /// Describes an input or output tensor; each dimension is a number, or a name if it varies.
    pub(super) fn tensor(name: &str, elem_type: i32, dimensions: &[Result<i64, &str>]) -> ValueInfoProto {
        let dim = dimensions
            .iter()
            .map(|it| match it {
                Ok(value) => Dimension { dim_value: Some(*value), dim_param: None },
                Err(name) => Dimension { dim_value: None, dim_param: Some((*name).into()) },
            })
            .collect();
        let tensor = TensorType { elem_type: Some(elem_type), shape: Some(TensorShape { dim }) };
        ValueInfoProto { name: Some(name.into()), kind: Some(TypeProto { tensor_type: Some(tensor) }) }
    }
}
