//! From the protobuf of a Core ML model back to the [`Program`] it was written from.
//!
//! Only what makes up the graph is looked at. Everything else is judged by writing the result again: see
//! [`read_package`](super::read::read_package).

use std::collections::BTreeMap;

use half::f16;

use super::graph::{DataType, GraphError, Program, Restorer, TensorType, ValueId};
use super::operations::{
    BinaryFunction, Operation, QuantizedTensor, ReduceFunction, Tensor, TensorData, UnaryFunction,
};
use super::protobuf as pb;
use super::weight_blob::BlobReader;

/// The program `name`, whose large weights are the blobs of `weights`.
///
/// # Errors
/// What is wrong with the model, as half a sentence.
pub fn decode(name: &str, model: pb::Model, weights: &[u8]) -> Result<Program, String> {
    let mut functions = model
        .ml_program
        .ok_or("it holds no program")?
        .functions
        .into_values();
    let function = functions.next().ok_or("its program has no function")?;
    let mut blocks = function.block_specializations.into_values();
    let block = blocks.next().ok_or("its program has no block")?;
    let mut decoder = Decoder {
        program: Restorer::new(name),
        parameters: BTreeMap::new(),
        blobs: BlobReader::new(weights),
    };
    for input in &function.inputs {
        let TensorType { shape, .. } = tensor_type(input.value_type.as_ref())?;
        let program = &mut decoder.program;
        program
            .input(&input.name, &shape)
            .map_err(|error| escaped(&error))?;
    }
    for operation in &block.operations {
        decoder.operation(operation)?;
    }
    let program = decoder.program.finish(&block.outputs);
    program.map_err(|error| escaped(&error))
}

struct Decoder<'a> {
    program: Restorer,
    /// Constants that are parameters of the operation behind them.
    parameters: BTreeMap<String, Tensor>,
    blobs: BlobReader<'a>,
}

impl Decoder<'_> {
    fn operation(&mut self, operation: &pb::Operation) -> Result<(), String> {
        let outputs: Vec<_> = operation
            .outputs
            .iter()
            .map(|output| output.name.as_str())
            .collect();
        let name = match operation.attributes.get("name").map(|v| self.tensor(v)) {
            Some(Ok(tensor)) => string(&tensor).ok_or("an operation's name is none")?,
            _ => return Err("an operation has no name".into()),
        };
        let kind = operation.operation_type.as_str();
        if kind == "const" {
            let tensor = self.attribute(operation, "val")?;
            // Names of values never end so.
            if name.ends_with("_0") {
                self.parameters.insert(name, tensor);
                return Ok(());
            }
            return self.add(&name, Operation::Const(tensor), &outputs);
        }
        let decoded = if kind == "constexpr_affine_dequantize" {
            Operation::ConstexprAffineDequantize(self.quantized(operation)?)
        } else {
            self.computed(kind, operation)
                .ok_or_else(|| format!("the operation {name:?} is no {kind:?} of ours"))?
        };
        self.add(&name, decoded, &outputs)
    }

    fn add(&mut self, name: &str, operation: Operation, outputs: &[&str]) -> Result<(), String> {
        let added = self.program.node(name, operation, outputs);
        added.map_err(|error| escaped(&error))
    }

    /// None where operands or parameters are not those that we write.
    fn computed(&self, kind: &str, operation: &pb::Operation) -> Option<Operation> {
        let value = |parameter: &str| self.ids(operation, parameter)?.first().copied();
        let ints = |parameter: &str| ints(self.parameter(operation, parameter)?);
        let axis = || ints("axis")?.first().copied();
        let binary = |function| {
            let (x, y) = (value("x")?, value("y")?);
            Some(Operation::Binary { function, x, y })
        };
        let unary = |function| {
            let x = value("x")?;
            Some(Operation::Unary { function, x })
        };
        let reduce = |function| {
            let (x, axis) = (value("x")?, ints("axes")?.first().copied()?);
            Some(Operation::Reduce { function, x, axis })
        };
        match kind {
            "conv" => Some(Operation::Conv {
                x: value("x")?,
                weight: value("weight")?,
            }),
            "matmul" => Some(Operation::Matmul {
                x: value("x")?,
                y: value("y")?,
                transpose_x: boolean(self.parameter(operation, "transpose_x")?)?,
            }),
            "add" => binary(BinaryFunction::Add),
            "sub" => binary(BinaryFunction::Sub),
            "mul" => binary(BinaryFunction::Mul),
            "real_div" => binary(BinaryFunction::RealDiv),
            "pow" => binary(BinaryFunction::Pow),
            "abs" => unary(UnaryFunction::Abs),
            "silu" => unary(UnaryFunction::Silu),
            "reduce_mean" => reduce(ReduceFunction::Mean),
            "reduce_max" => reduce(ReduceFunction::Max),
            "softmax" => Some(Operation::Softmax {
                x: value("x")?,
                axis: axis()?,
            }),
            "reshape" => Some(Operation::Reshape {
                x: value("x")?,
                shape: ints("shape")?,
            }),
            "split" => Some(Operation::Split {
                x: value("x")?,
                axis: axis()?,
                sizes: ints("split_sizes")?,
            }),
            "concat" => Some(Operation::Concat {
                values: self.ids(operation, "values")?,
                axis: axis()?,
            }),
            _ => None,
        }
    }

    fn ids(&self, operation: &pb::Operation, parameter: &str) -> Option<Vec<ValueId>> {
        let bindings = &operation.inputs.get(parameter)?.arguments;
        let id = |binding: &pb::Binding| self.program.id(binding.name.as_deref()?);
        bindings.iter().map(id).collect()
    }

    fn parameter(&self, operation: &pb::Operation, parameter: &str) -> Option<&Tensor> {
        let binding = operation.inputs.get(parameter)?.arguments.first()?;
        self.parameters.get(binding.name.as_deref()?)
    }

    fn attribute(&mut self, operation: &pb::Operation, name: &str) -> Result<Tensor, String> {
        let value = operation.attributes.get(name);
        self.tensor(value.ok_or_else(|| format!("a {:?} has no {name}", operation.operation_type))?)
    }

    fn quantized(&mut self, operation: &pb::Operation) -> Result<QuantizedTensor, String> {
        let data = operation.attributes.get("quantized_data");
        let (value_type, Some(pb::ValueKind::BlobFile(blob))) =
            data.map_or((None, None), |v| (v.value_type.as_ref(), v.value.as_ref()))
        else {
            return Err("a quantized weight has no data".into());
        };
        let shape = shape(tensor(value_type)?)?;
        let values = self.blobs.next(blob.offset)?.into();
        match self.attribute(operation, "scale")?.data {
            TensorData::Fp16(scales) => Ok(QuantizedTensor {
                shape,
                values,
                scales,
            }),
            _ => Err("the scales of a weight are not fp16".into()),
        }
    }

    fn tensor(&mut self, value: &pb::Value) -> Result<Tensor, String> {
        let TensorType { data_type, shape } = tensor_type(value.value_type.as_ref())?;
        let data = match (&value.value, data_type) {
            (Some(pb::ValueKind::BlobFile(blob)), DataType::Fp16) => {
                TensorData::Fp16(halves(self.blobs.next(blob.offset)?))
            }
            (Some(pb::ValueKind::Immediate(value)), data_type) => {
                let value = value.tensor.as_ref().and_then(|t| t.value.as_ref());
                match (value, data_type) {
                    (Some(pb::TensorData::Bytes(bytes)), DataType::Fp16) => {
                        TensorData::Fp16(halves(&bytes.values))
                    }
                    (Some(pb::TensorData::Ints(ints)), DataType::Int32) => {
                        TensorData::Int32(ints.values.as_slice().into())
                    }
                    (Some(pb::TensorData::Bools(bools)), DataType::Bool) => {
                        TensorData::Bool(bools.values.as_slice().into())
                    }
                    (Some(pb::TensorData::Strings(strings)), DataType::String) => {
                        TensorData::String(strings.values.as_slice().into())
                    }
                    _ => return Err(format!("a value of type {data_type:?} has other data")),
                }
            }
            _ => return Err(format!("a value of type {data_type:?} has no data")),
        };
        Ok(Tensor { shape, data })
    }
}

/// What stands in a damaged file may hold any letters.
fn escaped(error: &GraphError) -> String {
    error.to_string().escape_debug().to_string()
}

fn halves(bytes: &[u8]) -> std::sync::Arc<[f16]> {
    let pairs = bytes.chunks_exact(2);
    pairs.map(|b| f16::from_le_bytes([b[0], b[1]])).collect()
}

fn tensor(value_type: Option<&pb::ValueType>) -> Result<&pb::TensorType, String> {
    let tensor = value_type.and_then(|value_type| value_type.tensor.as_ref());
    tensor.ok_or_else(|| "a value has no type".into())
}

fn tensor_type(value_type: Option<&pb::ValueType>) -> Result<TensorType, String> {
    let tensor = tensor(value_type)?;
    let data_type = match pb::DataType::try_from(tensor.data_type) {
        Ok(pb::DataType::Float16) => DataType::Fp16,
        Ok(pb::DataType::Int32) => DataType::Int32,
        Ok(pb::DataType::Bool) => DataType::Bool,
        Ok(pb::DataType::String) => DataType::String,
        _ => return Err(format!("a value has the type {}", tensor.data_type)),
    };
    let shape = shape(tensor)?;
    Ok(TensorType { data_type, shape })
}

fn shape(tensor: &pb::TensorType) -> Result<Vec<usize>, String> {
    let size = |dimension: &pb::Dimension| usize::try_from(dimension.constant.as_ref()?.size).ok();
    let sizes: Option<Vec<_>> = tensor.dimensions.iter().map(size).collect();
    sizes.ok_or_else(|| "a value has no fixed shape".into())
}

fn ints(tensor: &Tensor) -> Option<Vec<usize>> {
    match &tensor.data {
        TensorData::Int32(values) => values.iter().map(|v| usize::try_from(*v).ok()).collect(),
        _ => None,
    }
}

fn boolean(tensor: &Tensor) -> Option<bool> {
    match &tensor.data {
        TensorData::Bool(values) => values.first().copied(),
        _ => None,
    }
}

fn string(tensor: &Tensor) -> Option<String> {
    match &tensor.data {
        TensorData::String(values) => values.first().cloned(),
        _ => None,
    }
}
