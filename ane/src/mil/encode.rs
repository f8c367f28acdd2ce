//! From a [`Program`] to the protobuf of a Core ML model, with large weights sent to a blob file.

use std::collections::BTreeMap;
use std::io::{self, Seek, Write};

use super::graph::{DataType, Node, Program, TensorType, ValueId};
use super::operations::{Operation, QuantizedTensor, Tensor, TensorData};
use super::protobuf as pb;
use super::weight_blob::BlobWriter;

/// macOS 13: the first with 8-bit weights (`constexpr_affine_dequantize`) and fp16 inputs.
const OPSET: &str = "CoreML6";
const SPECIFICATION_VERSION: i32 = 7;
const BLOB_FILE: &str = "@model_path/weights/weight.bin";
/// Smaller tensors stand in the program itself, as coremltools writes them.
const BLOB_ELEMENTS: usize = 10;

/// The model that holds `program`. Large weights go to `blobs`.
///
/// # Errors
/// Those of the blob file.
pub fn encode<W: Write + Seek>(
    program: &Program,
    blobs: &mut BlobWriter<W>,
) -> io::Result<pb::Model> {
    let mut encoder = Encoder {
        program,
        blobs,
        operations: vec![],
    };
    for node in &program.nodes {
        encoder.node(node)?;
    }
    let block = pb::Block {
        outputs: names(program, &program.outputs),
        operations: encoder.operations,
    };
    let function = pb::Function {
        inputs: program
            .inputs
            .iter()
            .map(|id| named_type(program, *id))
            .collect(),
        opset: OPSET.into(),
        block_specializations: BTreeMap::from([(OPSET.into(), block)]),
    };
    Ok(pb::Model {
        specification_version: SPECIFICATION_VERSION,
        description: Some(pb::ModelDescription {
            input: program
                .inputs
                .iter()
                .map(|id| feature(program, *id))
                .collect(),
            output: program
                .outputs
                .iter()
                .map(|id| feature(program, *id))
                .collect(),
        }),
        ml_program: Some(pb::Program {
            version: 1,
            functions: BTreeMap::from([("main".into(), function)]),
        }),
    })
}

struct Encoder<'a, W> {
    program: &'a Program,
    blobs: &'a mut BlobWriter<W>,
    operations: Vec<pb::Operation>,
}

impl<W: Write + Seek> Encoder<'_, W> {
    fn node(&mut self, node: &Node) -> io::Result<()> {
        let mut attributes = BTreeMap::from([("name".into(), immediate(&string(&node.name)))]);
        let mut inputs = BTreeMap::new();
        match &node.operation {
            Operation::Const(tensor) => {
                attributes.insert("val".into(), self.weight(tensor)?);
            }
            Operation::ConstexprAffineDequantize(weight) => {
                attributes.extend(self.quantized(weight)?)
            }
            operation => {
                for (parameter, ids) in operands(operation) {
                    inputs.insert(parameter.into(), argument(names(self.program, &ids)));
                }
                for (parameter, tensor) in parameters(operation) {
                    let name = self.parameter(&node.name, parameter, &tensor);
                    inputs.insert(parameter.into(), argument(vec![name]));
                }
            }
        }
        self.operations.push(pb::Operation {
            operation_type: node.operation.mil_name().into(),
            inputs,
            outputs: node
                .outputs
                .iter()
                .map(|id| named_type(self.program, *id))
                .collect(),
            attributes,
        });
        Ok(())
    }

    /// A parameter as an operation of its own, as coremltools writes them. Values in their place are legal, but less tried.
    fn parameter(&mut self, node: &str, parameter: &str, tensor: &Tensor) -> String {
        let name = format!("{node}_{parameter}_0");
        let attributes = [
            ("name", immediate(&string(&name))),
            ("val", immediate(tensor)),
        ];
        self.operations.push(pb::Operation {
            operation_type: "const".into(),
            inputs: BTreeMap::new(),
            outputs: vec![pb::NamedValueType {
                name: name.clone(),
                value_type: Some(value_type(&tensor.tensor_type())),
            }],
            attributes: attributes.map(|(key, value)| (key.into(), value)).into(),
        });
        name
    }

    fn weight(&mut self, tensor: &Tensor) -> io::Result<pb::Value> {
        match &tensor.data {
            TensorData::Fp16(values) if values.len() >= BLOB_ELEMENTS => {
                let offset = self.blobs.add_fp16(values)?;
                Ok(blob(value_type(&tensor.tensor_type()), offset))
            }
            _ => Ok(immediate(tensor)),
        }
    }

    /// Up to the opset of macOS 14, all that a constexpr operation takes are attributes.
    fn quantized(&mut self, weight: &QuantizedTensor) -> io::Result<[(String, pb::Value); 4]> {
        let values = self.blobs.add_uint8(&weight.values)?;
        let scale = Tensor {
            shape: vec![weight.scales.len()],
            data: TensorData::Fp16(weight.scales.clone()),
        };
        let zero_point = pb::TensorData::Bytes(pb::Bytes {
            values: vec![QuantizedTensor::ZERO_POINT],
        });
        let attributes = [
            (
                "quantized_data",
                blob(tensor_type(pb::DataType::Uint8, &weight.shape), values),
            ),
            ("scale", self.weight(&scale)?),
            (
                "zero_point",
                in_place(tensor_type(pb::DataType::Uint8, &[]), zero_point),
            ),
            ("axis", immediate(&int(0))),
        ];
        Ok(attributes.map(|(key, value)| (key.into(), value)))
    }
}

/// Operands by the names that MIL gives them.
fn operands(operation: &Operation) -> Vec<(&'static str, Vec<ValueId>)> {
    match operation {
        Operation::Const(_) | Operation::ConstexprAffineDequantize(_) => vec![],
        Operation::Conv { x, weight } => vec![("x", vec![*x]), ("weight", vec![*weight])],
        Operation::Matmul { x, y, .. } | Operation::Binary { x, y, .. } => {
            vec![("x", vec![*x]), ("y", vec![*y])]
        }
        Operation::Unary { x, .. }
        | Operation::Reduce { x, .. }
        | Operation::Softmax { x, .. }
        | Operation::Reshape { x, .. }
        | Operation::Split { x, .. } => vec![("x", vec![*x])],
        Operation::Concat { values, .. } => vec![("values", values.clone())],
    }
}

/// Parameters by the names that MIL gives them: all, since Core ML knows no defaults.
fn parameters(operation: &Operation) -> Vec<(&'static str, Tensor)> {
    match operation {
        Operation::Const(_)
        | Operation::ConstexprAffineDequantize(_)
        | Operation::Binary { .. }
        | Operation::Unary { .. } => vec![],
        Operation::Conv { .. } => vec![
            ("strides", ints(&[1, 1])),
            ("pad_type", string("valid")),
            ("pad", ints(&[0; 4])),
            ("dilations", ints(&[1, 1])),
            ("groups", int(1)),
        ],
        Operation::Matmul { transpose_x, .. } => vec![
            ("transpose_x", boolean(*transpose_x)),
            ("transpose_y", boolean(false)),
        ],
        Operation::Reduce { axis, .. } => {
            vec![("axes", ints(&[*axis])), ("keep_dims", boolean(true))]
        }
        Operation::Softmax { axis, .. } => vec![("axis", int(*axis))],
        Operation::Reshape { shape, .. } => vec![("shape", ints(shape))],
        Operation::Split { axis, sizes, .. } => {
            vec![("split_sizes", ints(sizes)), ("axis", int(*axis))]
        }
        Operation::Concat { axis, .. } => {
            vec![("axis", int(*axis)), ("interleave", boolean(false))]
        }
    }
}

fn ints(values: &[usize]) -> Tensor {
    Tensor {
        shape: vec![values.len()],
        data: TensorData::Int32(values.iter().map(|value| *value as i32).collect()),
    }
}

fn int(value: usize) -> Tensor {
    Tensor {
        shape: vec![],
        ..ints(&[value])
    }
}

fn boolean(value: bool) -> Tensor {
    Tensor {
        shape: vec![],
        data: TensorData::Bool([value].into()),
    }
}

fn string(value: &str) -> Tensor {
    Tensor {
        shape: vec![],
        data: TensorData::String([value.to_string()].into()),
    }
}

fn names(program: &Program, ids: &[ValueId]) -> Vec<String> {
    ids.iter()
        .map(|id| program.value(*id).name.clone())
        .collect()
}

fn argument(names: Vec<String>) -> pb::Argument {
    let arguments = names
        .into_iter()
        .map(|name| pb::Binding { name: Some(name) })
        .collect();
    pb::Argument { arguments }
}

fn named_type(program: &Program, id: ValueId) -> pb::NamedValueType {
    let value = program.value(id);
    pb::NamedValueType {
        name: value.name.clone(),
        value_type: Some(value_type(&value.tensor_type)),
    }
}

fn feature(program: &Program, id: ValueId) -> pb::FeatureDescription {
    let value = program.value(id);
    pb::FeatureDescription {
        name: value.name.clone(),
        feature_type: Some(pb::FeatureType {
            multi_array: Some(pb::ArrayFeatureType {
                shape: value
                    .tensor_type
                    .shape
                    .iter()
                    .map(|size| *size as i64)
                    .collect(),
                data_type: pb::ArrayFeatureType::FLOAT16,
            }),
        }),
    }
}

fn value_type(of: &TensorType) -> pb::ValueType {
    let data_type = match of.data_type {
        DataType::Fp16 => pb::DataType::Float16,
        DataType::Int32 => pb::DataType::Int32,
        DataType::Bool => pb::DataType::Bool,
        DataType::String => pb::DataType::String,
    };
    tensor_type(data_type, &of.shape)
}

fn tensor_type(data_type: pb::DataType, shape: &[usize]) -> pb::ValueType {
    let dimension = |size: &usize| pb::Dimension {
        constant: Some(pb::ConstantDimension { size: *size as u64 }),
    };
    pb::ValueType {
        tensor: Some(pb::TensorType {
            data_type: data_type as i32,
            rank: shape.len() as i64,
            dimensions: shape.iter().map(dimension).collect(),
        }),
    }
}

fn blob(value_type: pb::ValueType, offset: u64) -> pb::Value {
    pb::Value {
        value_type: Some(value_type),
        value: Some(pb::ValueKind::BlobFile(pb::BlobFileValue {
            file_name: BLOB_FILE.into(),
            offset,
        })),
    }
}

fn immediate(tensor: &Tensor) -> pb::Value {
    let data = match &tensor.data {
        TensorData::Fp16(values) => pb::TensorData::Bytes(pb::Bytes {
            values: values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect(),
        }),
        TensorData::Int32(values) => pb::TensorData::Ints(pb::Ints {
            values: values.to_vec(),
        }),
        TensorData::Bool(values) => pb::TensorData::Bools(pb::Bools {
            values: values.to_vec(),
        }),
        TensorData::String(values) => pb::TensorData::Strings(pb::Strings {
            values: values.to_vec(),
        }),
    };
    in_place(value_type(&tensor.tensor_type()), data)
}

fn in_place(value_type: pb::ValueType, data: pb::TensorData) -> pb::Value {
    let tensor = Some(pb::TensorValue { value: Some(data) });
    pb::Value {
        value_type: Some(value_type),
        value: Some(pb::ValueKind::Immediate(pb::ImmediateValue { tensor })),
    }
}
