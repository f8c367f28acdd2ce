//! Finds attention in a program: the operations that one kernel computes together.

use std::collections::BTreeSet;

use super::attention::MASK_COLUMNS;
use crate::mil::graph::{Program, ValueId};
use crate::mil::operations::{BinaryFunction, Operation, TensorData};

/// The operations between keys, queries, mask and values, and what comes out.
pub(super) struct AttentionNodes {
    /// Places of its operations in the program; the last is the one whose output it gives.
    pub nodes: BTreeSet<usize>,
    /// Along the positions, [1, heads, head dim, n] each.
    pub keys: Vec<ValueId>,
    pub values: Vec<ValueId>,
    /// [1, heads, head dim, columns].
    pub queries: ValueId,
    /// [1, 1, keys, mask columns], repeated until there are as many columns.
    pub mask: ValueId,
    pub boost: f32,
    pub out: ValueId,
}

/// Who makes and who reads each value.
pub(super) struct Uses<'a> {
    program: &'a Program,
    maker: Vec<Option<usize>>,
    readers: Vec<Vec<usize>>,
}

impl<'a> Uses<'a> {
    pub(super) fn of(program: &'a Program) -> Self {
        let mut maker = vec![None; program.values().len()];
        let mut readers = vec![vec![]; program.values().len()];
        for (index, node) in program.nodes.iter().enumerate() {
            for output in &node.outputs {
                maker[output.index()] = Some(index);
            }
            for operand in node.operation.operands() {
                readers[operand.index()].push(index);
            }
        }
        Self {
            program,
            maker,
            readers,
        }
    }

    /// The operation that makes a value, and its place; none for inputs.
    pub(super) fn maker(&self, id: ValueId) -> Option<(usize, &'a Operation)> {
        let index = self.maker[id.index()]?;
        Some((index, &self.program.nodes[index].operation))
    }

    /// Places of the operations that read a value, once for each operand.
    pub(super) fn readers(&self, id: ValueId) -> &[usize] {
        &self.readers[id.index()]
    }

    /// The operation that makes a value, where one operand of another is all that reads it.
    fn inner_maker(&self, id: ValueId) -> Option<(usize, &'a Operation)> {
        let read_once = self.readers(id).len() == 1 && !self.program.outputs.contains(&id);
        self.maker(id).filter(|_| read_once)
    }

    fn shape(&self, id: ValueId) -> &'a [usize] {
        &self.program.value(id).tensor_type.shape
    }

    /// The parts of a value that joining along the last axis makes and that nothing else reads.
    fn parts(&self, id: ValueId, nodes: &mut BTreeSet<usize>) -> Vec<ValueId> {
        match self.inner_maker(id) {
            Some((index, Operation::Concat { values, axis }))
                if *axis + 1 == self.shape(id).len() =>
            {
                nodes.insert(index);
                values.clone()
            }
            _ => vec![id],
        }
    }
}

/// All attentions of a program.
pub(super) fn find_attentions(program: &Program, uses: &Uses<'_>) -> Vec<AttentionNodes> {
    (0..program.nodes.len())
        .filter_map(|index| attention(program, uses, index))
        .collect()
}

/// The attention whose last operation is the node `index`: values times (softmax(keys^T times queries + mask) times boost).
fn attention(program: &Program, uses: &Uses<'_>, index: usize) -> Option<AttentionNodes> {
    let node = &program.nodes[index];
    let Operation::Matmul {
        x: values,
        y: probabilities,
        transpose_x: false,
    } = node.operation
    else {
        return None;
    };
    let mut nodes = BTreeSet::from([index]);
    let (boost, probabilities) = boosted(uses, probabilities, &mut nodes);
    let (softmax, Operation::Softmax { x: scores, axis: 2 }) = uses.inner_maker(probabilities)?
    else {
        return None;
    };
    let add = uses.inner_maker(*scores)?;
    let (
        add,
        Operation::Binary {
            function: BinaryFunction::Add,
            x: product,
            y: mask,
        },
    ) = add
    else {
        return None;
    };
    let product = uses.inner_maker(*product)?;
    let (
        product,
        Operation::Matmul {
            x: keys,
            y: queries,
            transpose_x: true,
        },
    ) = product
    else {
        return None;
    };
    nodes.extend([softmax, add, product]);
    let mask = repeated(uses, *mask, &mut nodes);
    let &[1, _, key_count, columns] = uses.shape(*scores) else {
        return None;
    };
    let &[1, 1, mask_keys, mask_columns] = uses.shape(mask) else {
        return None;
    };
    let fits = mask_keys == key_count
        && mask_columns.is_multiple_of(MASK_COLUMNS)
        && columns.is_multiple_of(mask_columns)
        && uses.shape(*scores)[1] == uses.shape(*keys)[1];
    fits.then(|| AttentionNodes {
        keys: uses.parts(*keys, &mut nodes),
        values: uses.parts(values, &mut nodes),
        queries: *queries,
        mask,
        boost,
        out: node.outputs[0],
        nodes,
    })
}

/// What probabilities are multiplied by, where the kernel can do that, and the probabilities.
fn boosted(uses: &Uses<'_>, id: ValueId, nodes: &mut BTreeSet<usize>) -> (f32, ValueId) {
    if let Some((
        index,
        Operation::Binary {
            function: BinaryFunction::Mul,
            x,
            y,
        },
    )) = uses.inner_maker(id)
        && let Some((_, Operation::Const(tensor))) = uses.maker(*y)
        && let (TensorData::Fp16(values), []) = (&tensor.data, tensor.shape.as_slice())
    {
        let boost = values[0].to_f32();
        // No product of a probability and a power of two in this range is rounded.
        if (1.0..=32768.0).contains(&boost) && boost.log2().fract() == 0.0 {
            nodes.insert(index);
            return (boost, *x);
        }
    }
    (1.0, id)
}

/// The value whose repetition along the last axis `id` is.
fn repeated(uses: &Uses<'_>, id: ValueId, nodes: &mut BTreeSet<usize>) -> ValueId {
    match uses.inner_maker(id) {
        Some((index, Operation::Concat { values, axis: 3 }))
            if values.iter().all(|value| value == &values[0]) =>
        {
            nodes.insert(index);
            values[0]
        }
        _ => id,
    }
}
