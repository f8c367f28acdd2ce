//! The protobuf messages of a Core ML model that holds a MIL program: the part of them that we write.
//!
//! Field numbers: apple/coremltools, `mlmodel/format/{Model,FeatureTypes,MIL}.proto`. Maps are ordered, so that the same program
//! always gives the same bytes.

#![allow(missing_docs)] // the names are the format's own

use std::collections::BTreeMap;

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub struct Model {
    #[prost(int32, tag = "1")]
    pub specification_version: i32,
    #[prost(message, optional, tag = "2")]
    pub description: Option<ModelDescription>,
    #[prost(message, optional, tag = "502")]
    pub ml_program: Option<Program>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ModelDescription {
    #[prost(message, repeated, tag = "1")]
    pub input: Vec<FeatureDescription>,
    #[prost(message, repeated, tag = "10")]
    pub output: Vec<FeatureDescription>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FeatureDescription {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "3")]
    pub feature_type: Option<FeatureType>,
}

/// Of its kinds we write one, `multiArrayType`.
#[derive(Clone, PartialEq, Message)]
pub struct FeatureType {
    #[prost(message, optional, tag = "5")]
    pub multi_array: Option<ArrayFeatureType>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ArrayFeatureType {
    #[prost(int64, repeated, tag = "1")]
    pub shape: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub data_type: i32,
}

impl ArrayFeatureType {
    pub const FLOAT16: i32 = 65552;
}

#[derive(Clone, PartialEq, Message)]
pub struct Program {
    #[prost(int64, tag = "1")]
    pub version: i64,
    #[prost(btree_map = "string, message", tag = "2")]
    pub functions: BTreeMap<String, Function>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Function {
    #[prost(message, repeated, tag = "1")]
    pub inputs: Vec<NamedValueType>,
    #[prost(string, tag = "2")]
    pub opset: String,
    #[prost(btree_map = "string, message", tag = "3")]
    pub block_specializations: BTreeMap<String, Block>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Block {
    #[prost(string, repeated, tag = "2")]
    pub outputs: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    pub operations: Vec<Operation>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Operation {
    #[prost(string, tag = "1")]
    pub operation_type: String,
    #[prost(btree_map = "string, message", tag = "2")]
    pub inputs: BTreeMap<String, Argument>,
    #[prost(message, repeated, tag = "3")]
    pub outputs: Vec<NamedValueType>,
    #[prost(btree_map = "string, message", tag = "5")]
    pub attributes: BTreeMap<String, Value>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Argument {
    #[prost(message, repeated, tag = "1")]
    pub arguments: Vec<Binding>,
}

/// Of its kinds we write one, `name`.
#[derive(Clone, PartialEq, Message)]
pub struct Binding {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NamedValueType {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub value_type: Option<ValueType>,
}

/// Of its kinds we write one, `tensorType`.
#[derive(Clone, PartialEq, Message)]
pub struct ValueType {
    #[prost(message, optional, tag = "1")]
    pub tensor: Option<TensorType>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorType {
    #[prost(enumeration = "DataType", tag = "1")]
    pub data_type: i32,
    #[prost(int64, tag = "2")]
    pub rank: i64,
    #[prost(message, repeated, tag = "3")]
    pub dimensions: Vec<Dimension>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum DataType {
    Unused = 0,
    Bool = 1,
    String = 2,
    Float16 = 10,
    Int32 = 23,
    Uint8 = 31,
}

/// Of its kinds we write one, `constant`.
#[derive(Clone, PartialEq, Message)]
pub struct Dimension {
    #[prost(message, optional, tag = "1")]
    pub constant: Option<ConstantDimension>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ConstantDimension {
    #[prost(uint64, tag = "1")]
    pub size: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Value {
    #[prost(message, optional, tag = "2")]
    pub value_type: Option<ValueType>,
    #[prost(oneof = "ValueKind", tags = "3, 5")]
    pub value: Option<ValueKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum ValueKind {
    #[prost(message, tag = "3")]
    Immediate(ImmediateValue),
    #[prost(message, tag = "5")]
    BlobFile(BlobFileValue),
}

#[derive(Clone, PartialEq, Message)]
pub struct BlobFileValue {
    #[prost(string, tag = "1")]
    pub file_name: String,
    #[prost(uint64, tag = "2")]
    pub offset: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct ImmediateValue {
    #[prost(message, optional, tag = "1")]
    pub tensor: Option<TensorValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorValue {
    #[prost(oneof = "TensorData", tags = "2, 3, 4, 7")]
    pub value: Option<TensorData>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum TensorData {
    #[prost(message, tag = "2")]
    Ints(Ints),
    #[prost(message, tag = "3")]
    Bools(Bools),
    #[prost(message, tag = "4")]
    Strings(Strings),
    /// Little-endian; half precision and 8 bits are written so.
    #[prost(message, tag = "7")]
    Bytes(Bytes),
}

#[derive(Clone, PartialEq, Message)]
pub struct Ints {
    #[prost(int32, repeated, tag = "1")]
    pub values: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Bools {
    #[prost(bool, repeated, tag = "1")]
    pub values: Vec<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Strings {
    #[prost(string, repeated, tag = "1")]
    pub values: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Bytes {
    #[prost(bytes = "vec", tag = "1")]
    pub values: Vec<u8>,
}
