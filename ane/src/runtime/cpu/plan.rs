//! From a program to steps over memory that is laid out once: views cost nothing, and results share memory where they do not
//! live at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;

use half::f16;

use super::elements::{Function, Loop, loops};
use super::fusion::{AttentionNodes, Uses, find_attentions};
use super::launch::InstructionSet;
use super::reduce::Along;
use super::weight::{TILE, Weight};
use crate::mil::graph::{Node, Program, ValueId};
use crate::mil::operations::{Operation, QuantizedTensor, Tensor as ConstantTensor, TensorData};
use crate::runtime::RuntimeError;

/// Where a tensor's memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// One of [`Plan::storages`].
    Storage(usize),
    /// The caller's view of an input, or where that is copied to.
    Input(usize),
    /// One of [`Plan::constants`].
    Constant(usize),
}

/// The first element of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub place: Place,
    pub offset: usize,
}

/// A tensor of half precision in memory.
#[derive(Clone, Debug)]
pub(super) struct Located {
    pub at: At,
    pub shape: Vec<usize>,
    /// In elements.
    pub strides: Vec<usize>,
}

/// One call of a kernel.
pub(super) enum Step {
    Elements {
        function: Function,
        /// At least two.
        loops: Vec<Loop>,
        out: At,
        operands: [At; 2],
    },
    Conv {
        weight: Arc<Weight>,
        x: Located,
        /// Whether x is not the one of the convolution before.
        widen: bool,
        out: At,
    },
    Matmul {
        /// Batch, rows, inner, columns.
        sizes: [usize; 4],
        transposed: bool,
        x: At,
        y: At,
        out: At,
    },
    Axis {
        along: Along,
        /// Outer, count, inner.
        sizes: [usize; 3],
        x: At,
        out: At,
    },
    Attention(AttentionStep),
}

/// Tensors of one attention, [1, heads, head dim, n] and the mask [1, 1, keys, columns].
pub(super) struct AttentionStep {
    pub keys: Vec<Located>,
    pub values: Vec<Located>,
    pub queries: Located,
    pub mask: Located,
    pub boost: f32,
    pub out: At,
}

/// Memory that some tensors share.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    pub size: usize,
    /// In elements, a multiple of [`ALIGNMENT`].
    pub offset: usize,
    first: usize,
    last: usize,
}

/// Everything that a run needs.
pub(super) struct Plan {
    pub steps: Vec<Step>,
    pub storages: Vec<Storage>,
    /// Elements of the memory that holds all storages.
    pub memory: usize,
    pub constants: Vec<Arc<[f16]>>,
    /// By input: the storage that it is copied to, or none where kernels read it where it lies.
    pub inputs: Vec<Option<usize>>,
    /// Contiguous.
    pub outputs: Vec<At>,
    /// Elements of the largest input of a convolution, its channels and columns rounded up to whole tiles.
    pub widened: usize,
}

/// Storages start at multiples of so many elements, which is a line of the cache.
const ALIGNMENT: usize = 32;
/// Columns of a convolution's input in float32 come in multiples of this.
pub(super) const WIDENED_COLUMNS: usize = 16;

/// # Errors
/// [`RuntimeError::Unsupported`] where a convolution's weight is no constant.
pub(super) fn plan(program: &Program, set: InstructionSet) -> Result<Plan, RuntimeError> {
    let uses = Uses::of(program);
    let attentions = find_attentions(program, &uses);
    let mut planner = Planner::new(program, set, &uses);
    planner.place_inputs(&attentions);
    planner.place_parts_of_concats(&attentions);
    for (index, node) in program.nodes.iter().enumerate() {
        match attentions
            .iter()
            .find(|attention| attention.nodes.contains(&index))
        {
            Some(attention) if attention.nodes.last() == Some(&index) => {
                planner.attention(attention)
            }
            Some(_) => {}
            None => planner.node(node)?,
        }
    }
    Ok(planner.finish())
}

struct Planner<'a> {
    program: &'a Program,
    set: InstructionSet,
    uses: &'a Uses<'a>,
    plan: Plan,
    located: BTreeMap<ValueId, Located>,
    /// Where results go that become a part of a concat.
    reserved: BTreeMap<ValueId, Located>,
    /// Storages of concats whose parts are reserved.
    joined: BTreeMap<ValueId, Located>,
    weights: BTreeMap<ValueId, Arc<Weight>>,
    last_widened: Option<At>,
}

impl<'a> Planner<'a> {
    fn new(program: &'a Program, set: InstructionSet, uses: &'a Uses<'a>) -> Self {
        let plan = Plan {
            steps: vec![],
            storages: vec![],
            memory: 0,
            constants: vec![],
            inputs: vec![],
            outputs: vec![],
            widened: 0,
        };
        Self {
            program,
            set,
            uses,
            plan,
            located: BTreeMap::new(),
            reserved: BTreeMap::new(),
            joined: BTreeMap::new(),
            weights: BTreeMap::new(),
            last_widened: None,
        }
    }
}

impl Planner<'_> {
    /// Inputs are copied into memory of the program, but for those that only attention reads, which can be large.
    fn place_inputs(&mut self, attentions: &[AttentionNodes]) {
        for (input, &id) in self.program.inputs.iter().enumerate() {
            let shape = self.program.value(id).tensor_type.shape.clone();
            let in_place = attentions
                .iter()
                .any(|attention| attention.reads_directly(id))
                && self
                    .uses
                    .readers(id)
                    .iter()
                    .all(|reader| attentions.iter().any(|a| a.nodes.contains(reader)))
                && !self.program.outputs.contains(&id);
            let located = if in_place {
                self.plan.inputs.push(None);
                Located::contiguous(
                    At {
                        place: Place::Input(input),
                        offset: 0,
                    },
                    shape,
                )
            } else {
                let located = self.allocate(shape);
                let Place::Storage(storage) = located.at.place else {
                    unreachable!("that is what was allocated")
                };
                self.plan.inputs.push(Some(storage));
                self.plan.storages[storage].first = 0;
                located
            };
            self.located.insert(id, located);
        }
    }

    /// Results of operations on elements that are joined and not read otherwise are computed where they are joined.
    fn place_parts_of_concats(&mut self, attentions: &[AttentionNodes]) {
        for (index, node) in self.program.nodes.iter().enumerate() {
            let Operation::Concat { values, axis } = &node.operation else {
                continue;
            };
            if attentions
                .iter()
                .any(|attention| attention.nodes.contains(&index))
            {
                continue;
            }
            let whole = self.allocate(self.shape(node.outputs[0]));
            let mut start = 0;
            for &id in values {
                let part = whole.part(*axis, start, self.shape(id)[*axis]);
                start += part.shape[*axis];
                let computed = self.uses.maker(id).is_some_and(|(maker, operation)| {
                    matches!(
                        operation,
                        Operation::Binary { .. } | Operation::Unary { .. }
                    ) && !attentions
                        .iter()
                        .any(|attention| attention.nodes.contains(&maker))
                });
                if computed
                    && self.uses.readers(id) == [index]
                    && !self.program.outputs.contains(&id)
                {
                    self.reserved.insert(id, part);
                }
            }
            self.joined.insert(node.outputs[0], whole);
        }
    }

    fn shape(&self, id: ValueId) -> Vec<usize> {
        self.program.value(id).tensor_type.shape.clone()
    }

    /// A contiguous tensor in memory of its own.
    fn allocate(&mut self, shape: Vec<usize>) -> Located {
        self.plan.storages.push(Storage {
            size: shape.iter().product(),
            offset: 0,
            first: usize::MAX,
            last: 0,
        });
        let place = Place::Storage(self.plan.storages.len() - 1);
        Located::contiguous(At { place, offset: 0 }, shape)
    }

    /// Append a step, which the memory that it reads and writes must outlive.
    fn push(&mut self, step: Step, memory: &[At]) {
        let index = self.plan.steps.len();
        for at in memory {
            if let Place::Storage(storage) = at.place {
                let storage = &mut self.plan.storages[storage];
                storage.first = storage.first.min(index);
                storage.last = storage.last.max(index);
            }
        }
        self.plan.steps.push(step);
    }

    fn finish(mut self) -> Plan {
        for &id in &self.program.outputs {
            let output = self.located(id);
            let at = self.contiguous(&output).at;
            if let Place::Storage(storage) = at.place {
                self.plan.storages[storage].last = usize::MAX;
            }
            self.plan.outputs.push(at);
        }
        self.plan.memory = lay_out(&mut self.plan.storages);
        self.plan
    }
}

/// Gives each storage the lowest place that is free as long as it lives; returns the size of the whole.
fn lay_out(storages: &mut [Storage]) -> usize {
    let mut order: Vec<usize> = (0..storages.len())
        .filter(|i| storages[*i].first != usize::MAX)
        .collect();
    order.sort_by_key(|i| storages[*i].first);
    let mut memory = 0;
    for (position, &index) in order.iter().enumerate() {
        let size = storages[index].size.next_multiple_of(ALIGNMENT);
        let mut taken: Vec<(usize, usize)> = order[..position]
            .iter()
            .map(|other| &storages[*other])
            .filter(|other| other.last >= storages[index].first)
            .map(|other| {
                (
                    other.offset,
                    other.offset + other.size.next_multiple_of(ALIGNMENT),
                )
            })
            .collect();
        taken.sort_unstable();
        let offset = taken.iter().fold(0, |offset, &(start, end)| {
            if offset + size <= start {
                offset
            } else {
                offset.max(end)
            }
        });
        storages[index].offset = offset;
        memory = memory.max(offset + size);
    }
    memory
}

impl Located {
    fn contiguous(at: At, shape: Vec<usize>) -> Self {
        let mut strides = vec![1; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * shape[axis];
        }
        Self { at, shape, strides }
    }

    fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        self.shape
            .iter()
            .zip(&self.strides)
            .rev()
            .all(|(&size, &stride)| {
                let fits = size == 1 || stride == expected;
                expected *= size;
                fits
            })
    }

    /// Whether rows of the last axis lie as they are read.
    fn has_whole_rows(&self) -> bool {
        self.strides.last() == Some(&1) || self.shape.last() == Some(&1)
    }

    fn part(&self, axis: usize, start: usize, size: usize) -> Self {
        let mut part = self.clone();
        part.at.offset += start * self.strides[axis];
        part.shape[axis] = size;
        part
    }
}

mod nodes;
