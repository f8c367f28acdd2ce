//! Programs: values and the operations that make them, each checked when it is added.

mod restore;

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;

use super::operations::{BinaryFunction, Operation, ReduceFunction, Tensor, UnaryFunction};
pub(super) use restore::Restorer;

/// What elements a tensor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataType {
    /// IEEE half precision: everything that is computed with.
    Fp16,
    /// Signed 32 bits.
    Int32,
    /// True or false.
    Bool,
    /// Text.
    String,
}

/// Type and shape of a tensor. A scalar has no axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// Of each element.
    pub data_type: DataType,
    /// Sizes, outermost first.
    pub shape: Vec<usize>,
}

impl TensorType {
    /// A tensor in half precision.
    #[must_use]
    pub fn fp16(shape: Vec<usize>) -> Self {
        Self {
            data_type: DataType::Fp16,
            shape,
        }
    }
}

/// A value of a [`Program`], made and read only within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(usize);

impl ValueId {
    /// Its place among [`Program::values`].
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }
}

/// What an input holds or an operation yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Unique in its program: letters, digits and underscores, no digit first. None ends in `_0`, as the names of
    /// parameters do on disk.
    pub name: String,
    /// Type and shape.
    pub tensor_type: TensorType,
}

/// An operation and the values it yields.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Unique in its program.
    pub name: String,
    /// What is done with what.
    pub operation: Operation,
    /// Its outputs: one, or one a piece of a split.
    pub outputs: Vec<ValueId>,
}

/// A program: one function of fp16 tensors.
///
/// Walk `nodes` in order: operands come before what reads them. Results are rounded to half precision after every node.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// What it is called, also on disk.
    pub name: String,
    /// Given by the caller, in this order.
    pub inputs: Vec<ValueId>,
    /// In order of execution.
    pub nodes: Vec<Node>,
    /// What the caller gets, in this order.
    pub outputs: Vec<ValueId>,
    values: Vec<Value>,
}

impl Program {
    /// All inputs and results; [`ValueId::index`] is the place in it.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// The value behind an id of this program.
    #[must_use]
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0]
    }
}

/// An operation that does not fit its operands, or a name that is taken or malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphError {
    /// The program it was to go into.
    pub program: String,
    /// MIL's name of the operation, or `input` or `output`.
    pub operation: &'static str,
    /// The name it was to have.
    pub name: String,
    /// The shapes of its operands.
    pub shapes: Vec<Vec<usize>>,
    /// What does not fit.
    pub problem: String,
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            program,
            operation,
            name,
            shapes,
            problem,
        } = self;
        write!(
            f,
            "the program {program} cannot have {operation} {name} of shapes {shapes:?}: {problem}"
        )
    }
}

impl Error for GraphError {}

/// Makes a [`Program`], one operation after the other.
///
/// Operations are named after the scope they are added in: `scope_operation`, with a number where that is taken.
#[derive(Debug)]
pub struct ProgramBuilder {
    program: Program,
    scope: String,
    names: BTreeSet<String>,
}

type Added = Result<ValueId, GraphError>;

impl ProgramBuilder {
    /// An empty program.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let program = Program {
            name: name.into(),
            inputs: vec![],
            nodes: vec![],
            outputs: vec![],
            values: vec![],
        };
        Self {
            program,
            scope: "main".into(),
            names: BTreeSet::new(),
        }
    }

    /// Operations added from here on are named after `scope`.
    pub fn enter(&mut self, scope: &str) {
        self.scope = scope.into();
    }

    /// The shape of a value.
    #[must_use]
    pub fn shape(&self, id: ValueId) -> &[usize] {
        &self.program.value(id).tensor_type.shape
    }

    /// An fp16 tensor that the caller gives.
    ///
    /// # Errors
    /// A name that is taken or malformed, a shape that has no elements.
    pub fn input(&mut self, name: &str, shape: &[usize]) -> Added {
        if shape.is_empty() || shape.contains(&0) {
            return Err(self.error("input", name, &[shape.to_vec()], "it has no elements"));
        }
        self.claim("input", name)?;
        let id = self.push_value(name.into(), TensorType::fp16(shape.to_vec()));
        self.program.inputs.push(id);
        Ok(id)
    }

    /// Add an operation, named after the scope.
    ///
    /// # Errors
    /// Operands that do not fit.
    pub fn add(&mut self, operation: Operation) -> Added {
        Ok(self.add_all(operation)?[0])
    }

    /// As [`Self::add`], for an operation with several outputs.
    ///
    /// # Errors
    /// Operands that do not fit.
    pub fn add_all(&mut self, operation: Operation) -> Result<Vec<ValueId>, GraphError> {
        let base = format!("{}_{}", self.scope, operation.mil_name());
        let mut name = base.clone();
        let mut number = 1;
        while self.names.contains(&name) {
            number += 1;
            name = format!("{base}_{number}");
        }
        self.claim(operation.mil_name(), &name)?;
        self.insert(name, operation)
    }

    /// `function(x, y)`.
    ///
    /// # Errors
    /// Shapes that cannot be brought together.
    pub fn binary(&mut self, function: BinaryFunction, x: ValueId, y: ValueId) -> Added {
        self.add(Operation::Binary { function, x, y })
    }

    /// `function(x, value)`, with a scalar.
    ///
    /// # Errors
    /// None in practice: a scalar fits every shape.
    pub fn binary_scalar(&mut self, function: BinaryFunction, x: ValueId, value: f32) -> Added {
        let y = self.add(Operation::Const(Tensor::scalar(value)))?;
        self.binary(function, x, y)
    }

    /// `function(x)`.
    ///
    /// # Errors
    /// None in practice: it fits every shape.
    pub fn unary(&mut self, function: UnaryFunction, x: ValueId) -> Added {
        self.add(Operation::Unary { function, x })
    }

    /// `function` over `axis`, which becomes 1.
    ///
    /// # Errors
    /// An axis that `x` does not have.
    pub fn reduce(&mut self, function: ReduceFunction, x: ValueId, axis: usize) -> Added {
        self.add(Operation::Reduce { function, x, axis })
    }

    /// The finished program, with what the caller gets and how it is called.
    ///
    /// # Errors
    /// A name that is taken or malformed.
    pub fn finish(mut self, outputs: &[(&str, ValueId)]) -> Result<Program, GraphError> {
        for &(name, id) in outputs {
            self.claim("output", name)?;
            let value = &mut self.program.values[id.0];
            self.names.remove(&value.name);
            value.name = name.into();
            self.program.outputs.push(id);
            let makers = &mut self.program.nodes;
            if let Some(maker) = makers.iter_mut().find(|node| node.outputs == [id]) {
                maker.name = name.into();
            }
        }
        Ok(self.program)
    }

    fn insert(&mut self, name: String, operation: Operation) -> Result<Vec<ValueId>, GraphError> {
        let types = operation.infer(&self.program.values).map_err(|problem| {
            let operands = operation.operands();
            let shapes: Vec<_> = operands.iter().map(|id| self.shape(*id).to_vec()).collect();
            self.error(operation.mil_name(), &name, &shapes, &problem)
        })?;
        let several = types.len() > 1;
        let outputs = types
            .into_iter()
            .enumerate()
            .map(|(i, tensor_type)| {
                let output = if several {
                    format!("{name}_part{i}")
                } else {
                    name.clone()
                };
                self.push_value(output, tensor_type)
            })
            .collect::<Vec<_>>();
        self.program.nodes.push(Node {
            name,
            operation,
            outputs: outputs.clone(),
        });
        Ok(outputs)
    }

    fn push_value(&mut self, name: String, tensor_type: TensorType) -> ValueId {
        self.program.values.push(Value { name, tensor_type });
        ValueId(self.program.values.len() - 1)
    }

    fn claim(&mut self, operation: &'static str, name: &str) -> Result<(), GraphError> {
        let mut letters = name.chars();
        let sound = letters
            .next()
            .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.ends_with("_0");
        if !sound {
            return Err(self.error(operation, name, &[], "the name is malformed"));
        }
        if !self.names.insert(name.into()) {
            return Err(self.error(operation, name, &[], "the name is taken"));
        }
        Ok(())
    }

    fn error(
        &self,
        operation: &'static str,
        name: &str,
        shapes: &[Vec<usize>],
        problem: &str,
    ) -> GraphError {
        GraphError {
            program: self.program.name.clone(),
            operation,
            name: name.into(),
            shapes: shapes.to_vec(),
            problem: problem.into(),
        }
    }
}

#[cfg(test)]
mod tests;
