//! Programs put together again under the names that they had: for what is read from a package.

use std::collections::BTreeMap;

use super::{GraphError, Program, ProgramBuilder, ValueId};
use crate::mil::operations::Operation;
use crate::mil::shapes::element_count;

/// No program of ours has a value of so many elements. Below it no sum or product of sizes overflows.
const MOST_ELEMENTS: usize = 1 << 32;

/// Makes a [`Program`] from names. Inputs come first, as those of every draft's program do.
pub struct Restorer {
    builder: ProgramBuilder,
    ids: BTreeMap<String, ValueId>,
}

impl Restorer {
    /// An empty program.
    pub fn new(name: &str) -> Self {
        Self {
            builder: ProgramBuilder::new(name),
            ids: BTreeMap::new(),
        }
    }

    /// The value of this name.
    pub fn id(&self, name: &str) -> Option<ValueId> {
        self.ids.get(name).copied()
    }

    /// An input in half precision.
    ///
    /// # Errors
    /// A name that is taken or malformed, an impossible shape.
    pub fn input(&mut self, name: &str, shape: &[usize]) -> Result<(), GraphError> {
        let id = self.builder.input(name, shape)?;
        self.keep("input", name, id)
    }

    /// An operation, its name and those of its outputs.
    ///
    /// # Errors
    /// Operands that do not fit, names that are taken or malformed.
    pub fn node(
        &mut self,
        name: &str,
        operation: Operation,
        outputs: &[&str],
    ) -> Result<(), GraphError> {
        let kind = operation.mil_name();
        self.builder.claim(kind, name)?;
        let ids = self.builder.insert(name.into(), operation)?;
        if ids.len() != outputs.len() || (ids.len() == 1 && outputs[0] != name) {
            let problem = format!("its outputs are {outputs:?}");
            return Err(self.builder.error(kind, name, &[], &problem));
        }
        for (id, output) in ids.into_iter().zip(outputs) {
            self.builder.program.values[id.0].name = (*output).into();
            self.keep(kind, output, id)?;
        }
        Ok(())
    }

    /// The whole program.
    ///
    /// # Errors
    /// An output that there is not.
    pub fn finish(mut self, outputs: &[String]) -> Result<Program, GraphError> {
        for name in outputs {
            let id = self
                .id(name)
                .ok_or_else(|| self.builder.error("output", name, &[], "nothing makes it"))?;
            self.builder.program.outputs.push(id);
        }
        Ok(self.builder.program)
    }

    fn keep(&mut self, kind: &'static str, name: &str, id: ValueId) -> Result<(), GraphError> {
        let shape = self.builder.shape(id);
        let problem = if element_count(shape).is_none_or(|count| count > MOST_ELEMENTS) {
            "it has too many elements"
        } else if self.ids.insert(name.into(), id).is_some() {
            "the name is taken"
        } else {
            return Ok(());
        };
        let shapes = [self.builder.shape(id).to_vec()];
        Err(self.builder.error(kind, name, &shapes, problem))
    }
}
