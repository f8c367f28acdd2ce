//! The steps of each kind of operation.

use super::*;

type Planned = Result<(), RuntimeError>;

impl Planner<'_> {
    pub(super) fn node(&mut self, node: &Node) -> Planned {
        let out = node.outputs[0];
        match &node.operation {
            Operation::Const(_) | Operation::ConstexprAffineDequantize(_) => {} // when somebody reads it
            Operation::Conv { x, weight } => self.conv(node, *x, *weight)?,
            Operation::Matmul { x, y, transpose_x } => self.matmul(*x, *y, *transpose_x, out),
            Operation::Binary { function, x, y } => {
                self.elements(Function::Binary(*function), [*x, *y], out)
            }
            Operation::Unary { function, x } => {
                self.elements(Function::Unary(*function), [*x, *x], out)
            }
            Operation::Reduce { function, x, axis } => {
                self.along(Along::Reduce(*function), *x, *axis, out)
            }
            Operation::Softmax { x, axis } => self.along(Along::Softmax, *x, *axis, out),
            Operation::Reshape { x, shape } => {
                let x = self.located(*x);
                let at = self.contiguous(&x).at;
                self.located
                    .insert(out, Located::contiguous(at, shape.clone()));
            }
            Operation::Split { x, axis, sizes } => {
                let x = self.located(*x);
                let mut start = 0;
                for (&id, &size) in node.outputs.iter().zip(sizes) {
                    self.located.insert(id, x.part(*axis, start, size));
                    start += size;
                }
            }
            Operation::Concat { values, axis } => self.concat(values, *axis, out),
        }
        Ok(())
    }

    /// Where a value is; constants are prepared when they are first asked for.
    pub(super) fn located(&mut self, id: ValueId) -> Located {
        if let Some(located) = self.located.get(&id) {
            return located.clone();
        }
        let values: Arc<[f16]> = match self.uses.maker(id) {
            Some((
                _,
                Operation::Const(ConstantTensor {
                    data: TensorData::Fp16(values),
                    ..
                }),
            )) => values.clone(),
            Some((_, Operation::ConstexprAffineDequantize(weight))) => dequantized(weight),
            _ => unreachable!("operands come before what reads them, and are in half precision"),
        };
        self.plan.constants.push(values);
        let place = Place::Constant(self.plan.constants.len() - 1);
        let located = Located::contiguous(At { place, offset: 0 }, self.shape(id));
        self.located.insert(id, located.clone());
        located
    }

    /// The same tensor without gaps, copied if it has some.
    pub(super) fn contiguous(&mut self, tensor: &Located) -> Located {
        if tensor.is_contiguous() {
            return tensor.clone();
        }
        let copy = self.allocate(tensor.shape.clone());
        self.copy(tensor, &copy);
        copy
    }

    fn copy(&mut self, from: &Located, to: &Located) {
        let operands = [from.at; 2];
        let step = Step::Elements {
            function: Function::Copy,
            loops: loops(&to.shape, &to.strides, [&from.strides; 2]),
            out: to.at,
            operands,
        };
        self.push(step, &[to.at, from.at]);
    }

    fn elements(&mut self, function: Function, operands: [ValueId; 2], out: ValueId) {
        let shape = self.shape(out);
        let to = match self.reserved.remove(&out) {
            Some(reserved) => reserved,
            None => self.allocate(shape.clone()),
        };
        let operands = operands.map(|id| self.located(id));
        let strides = operands
            .each_ref()
            .map(|operand| broadcast_strides(operand, &shape));
        let step = Step::Elements {
            function,
            loops: loops(&shape, &to.strides, [&strides[0], &strides[1]]),
            out: to.at,
            operands: operands.each_ref().map(|operand| operand.at),
        };
        self.push(step, &[to.at, operands[0].at, operands[1].at]);
        self.located.insert(out, to);
    }

    fn conv(&mut self, node: &Node, x: ValueId, weight: ValueId) -> Planned {
        let prepared = match (self.weights.get(&weight), self.uses.maker(weight)) {
            (Some(prepared), _) => prepared.clone(),
            (None, Some((_, Operation::Const(tensor)))) => Arc::new(Weight::half(tensor, self.set)),
            (None, Some((_, Operation::ConstexprAffineDequantize(tensor)))) => {
                Arc::new(Weight::quantized(tensor, self.set))
            }
            _ => {
                return Err(RuntimeError::Unsupported {
                    operation: node.name.clone(),
                    problem: "its weight is no constant",
                });
            }
        };
        self.weights.insert(weight, prepared.clone());
        let mut x = self.located(x);
        if !x.has_whole_rows() {
            let copy = self.allocate(x.shape.clone());
            self.copy(&x, &copy);
            x = copy;
        }
        let columns = x.shape[3].next_multiple_of(WIDENED_COLUMNS);
        self.plan.widened = self
            .plan
            .widened
            .max(x.shape[1].next_multiple_of(TILE[1]) * columns);
        let out = self.allocate(self.shape(node.outputs[0]));
        let widen = self.last_widened.replace(x.at) != Some(x.at);
        let memory = [out.at, x.at];
        self.push(
            Step::Conv {
                weight: prepared,
                x,
                widen,
                out: out.at,
            },
            &memory,
        );
        self.located.insert(node.outputs[0], out);
        Ok(())
    }

    fn matmul(&mut self, x: ValueId, y: ValueId, transposed: bool, out: ValueId) {
        let [x, y] = [x, y].map(|id| {
            let operand = self.located(id);
            self.contiguous(&operand)
        });
        let to = self.allocate(self.shape(out));
        let (leading, &[rows, columns]) =
            to.shape.split_last_chunk().expect("a product has two axes");
        let inner = y.shape[y.shape.len() - 2];
        let step = Step::Matmul {
            sizes: [leading.iter().product(), rows, inner, columns],
            transposed,
            x: x.at,
            y: y.at,
            out: to.at,
        };
        self.push(step, &[to.at, x.at, y.at]);
        self.located.insert(out, to);
    }

    fn along(&mut self, along: Along, x: ValueId, axis: usize, out: ValueId) {
        let x = self.located(x);
        let x = self.contiguous(&x);
        let to = self.allocate(self.shape(out));
        let (outer, rest) = x.shape.split_at(axis);
        let sizes = [outer.iter().product(), rest[0], rest[1..].iter().product()];
        self.push(
            Step::Axis {
                along,
                sizes,
                x: x.at,
                out: to.at,
            },
            &[to.at, x.at],
        );
        self.located.insert(out, to);
    }

    fn concat(&mut self, values: &[ValueId], axis: usize, out: ValueId) {
        let whole = self.joined.remove(&out).expect("placed before");
        let mut start = 0;
        for &id in values {
            let from = self.located(id);
            let part = whole.part(axis, start, from.shape[axis]);
            start += from.shape[axis];
            if from.at != part.at {
                self.copy(&from, &part);
            }
        }
        self.located.insert(out, whole);
    }

    pub(super) fn attention(&mut self, nodes: &AttentionNodes) {
        let [mut queries, mut mask] = [nodes.queries, nodes.mask].map(|id| self.located(id));
        let [mut keys, mut values] = [&nodes.keys, &nodes.values]
            .map(|ids| ids.iter().map(|id| self.located(*id)).collect::<Vec<_>>());
        for tensor in keys
            .iter_mut()
            .chain(&mut values)
            .chain([&mut queries, &mut mask])
        {
            if !tensor.has_whole_rows() {
                *tensor = self.contiguous(tensor);
            }
        }
        let out = self.allocate(self.shape(nodes.out));
        let tensors = keys.iter().chain(&values).chain([&queries, &mask, &out]);
        let memory: Vec<_> = tensors.map(|tensor| tensor.at).collect();
        let step = AttentionStep {
            keys,
            values,
            queries,
            mask,
            boost: nodes.boost,
            out: out.at,
        };
        self.push(Step::Attention(step), &memory);
        self.located.insert(nodes.out, out);
    }
}

impl AttentionNodes {
    /// Whether it reads this value as keys, values or mask.
    pub(super) fn reads_directly(&self, id: ValueId) -> bool {
        self.keys.contains(&id) || self.values.contains(&id) || self.mask == id
    }
}

fn broadcast_strides(operand: &Located, shape: &[usize]) -> Vec<usize> {
    let missing = shape.len() - operand.shape.len();
    let stride = |axis: usize| match axis.checked_sub(missing) {
        Some(axis) if operand.shape[axis] != 1 => operand.strides[axis],
        _ => 0,
    };
    (0..shape.len()).map(stride).collect()
}

fn dequantized(weight: &QuantizedTensor) -> Arc<[f16]> {
    let row = weight.values.len() / weight.scales.len();
    let value = |i: usize| {
        let steps = f32::from(weight.values[i]) - f32::from(QuantizedTensor::ZERO_POINT);
        f16::from_f32(steps * weight.scales[i / row].to_f32())
    };
    (0..weight.values.len()).map(value).collect()
}
