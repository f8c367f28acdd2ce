//! A loaded program: its memory, and the walk over its steps.

use std::ptr;
use std::sync::{Arc, PoisonError, RwLock};

use half::f16;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use super::amx::Pairs;
use super::attention::{Attention, Piece};
use super::conv::{Columns, Shared, Widen, convolve};
use super::elements::{Function, Loop, Rows};
use super::launch::{InstructionSet, launch};
use super::matmul::Matmul;
use super::memory::Lines;
use super::plan::{At, AttentionStep, Located, Place, Plan, Step, WIDENED_COLUMNS, plan};
use super::reduce::{Along, Axis};
use crate::buffer::{View, ViewMut};
use crate::mil::graph::Program;
use crate::runtime::placement::Placement;
use crate::runtime::pool::Pool;
use crate::runtime::{Interface, LoadedProgram, RuntimeError};

/// Operations on fewer elements than this stay on one thread.
const SHARED_FROM: usize = 64 * 1024;

pub(super) struct CpuProgram {
    interface: Interface,
    placement: Placement,
    set: InstructionSet,
    pool: Arc<RwLock<Pool>>,
    plan: Plan,
    memory: Lines,
    /// The input of a convolution in float32.
    widened: Lines,
    /// By input: a copy of one that could not be read where it lies. Made when there is one.
    copies: Vec<Vec<f16>>,
    lent: Lent,
}

/// What a run reads of its caller's memory. Kept for its allocations only.
#[derive(Default)]
struct Lent {
    /// By input, for those that are read where they lie.
    inputs: Vec<(*const f16, [usize; 4])>,
    keys: Vec<Piece>,
    values: Vec<Piece>,
}

// SAFETY: pointers are only used in the run that put them there.
unsafe impl Send for Lent {}

impl CpuProgram {
    pub(super) fn new(
        program: &Program,
        set: InstructionSet,
        pool: Arc<RwLock<Pool>>,
    ) -> Result<Self, RuntimeError> {
        let plan = plan(program, set)?;
        Ok(Self {
            interface: Interface::of(program),
            placement: Placement::on_cpu(program),
            set,
            pool,
            memory: Lines::of::<f16>(plan.memory),
            widened: Lines::of::<f32>(plan.widened),
            copies: vec![vec![]; program.inputs.len()],
            lent: Lent::default(),
            plan,
        })
    }

    /// Copy inputs into the program's memory, or note where they lie.
    fn take_inputs(&mut self, views: &[View<'_>]) {
        self.lent.inputs.clear();
        for (input, view) in views.iter().enumerate() {
            let mut place = (ptr::null(), [0; 4]);
            if let Some(storage) = self.plan.inputs[input] {
                let storage = &self.plan.storages[storage];
                // SAFETY: the storage lies inside the memory, which is borrowed mutably and holds no other references.
                let to = unsafe {
                    let start = self.memory.pointer::<f16>().add(storage.offset);
                    std::slice::from_raw_parts_mut(start, storage.size)
                };
                view.copy_to(to);
            } else if let (Some(rows), Ok(strides)) = (view.half_rows(), view.strides().try_into())
            {
                place = (rows.as_ptr(), strides);
            } else {
                let shape = view.shape();
                let copy = &mut self.copies[input];
                copy.resize(shape.iter().product(), f16::ZERO);
                view.copy_to(copy);
                let [a, b, c] = [1, 2, 3].map(|axis| shape[axis..].iter().product());
                place = (copy.as_ptr(), [a, b, c, 1]);
            }
            self.lent.inputs.push(place);
        }
    }

    fn give_outputs(&mut self, views: &mut [ViewMut<'_>]) {
        for (view, at) in views.iter_mut().zip(&self.plan.outputs) {
            let size = view.shape().iter().product();
            // SAFETY: the planner put a contiguous tensor of the port's shape there.
            view.copy_from(unsafe { std::slice::from_raw_parts(self.read(*at), size) });
        }
    }

    fn read(&self, at: At) -> *const f16 {
        let start = match at.place {
            Place::Storage(storage) => self
                .memory
                .pointer::<f16>()
                .wrapping_add(self.plan.storages[storage].offset)
                .cast_const(),
            Place::Input(input) => self.lent.inputs[input].0,
            Place::Constant(constant) => self.plan.constants[constant].as_ptr(),
        };
        start.wrapping_add(at.offset)
    }

    /// As [`Self::read`], for results, which are always in the program's memory.
    fn write(&self, at: At) -> *mut f16 {
        self.read(at).cast_mut()
    }

    /// # Safety
    /// [`Self::take_inputs`] was called with views that are still borrowed.
    unsafe fn step(
        &self,
        step: &Step,
        pool: &Pool,
        keys: &mut Vec<Piece>,
        values: &mut Vec<Piece>,
    ) {
        // SAFETY: the processor has the set, or the runtime had not been made; the planner gave all operands memory of their
        // sizes, and results that of no operand that is still needed.
        unsafe {
            match step {
                Step::Elements {
                    function,
                    loops,
                    out,
                    operands,
                } => {
                    self.elements(*function, loops, *out, *operands, pool);
                }
                Step::Conv {
                    weight,
                    x,
                    widen,
                    out,
                } => {
                    let columns = self.columns(x, *widen);
                    convolve(
                        weight,
                        &columns,
                        (self.write(*out), x.shape[3]),
                        self.set,
                        pool,
                    );
                }
                Step::Matmul {
                    sizes: [batch, rows, inner, columns],
                    transposed,
                    x,
                    y,
                    out,
                } => Matmul {
                    batch: *batch,
                    rows: *rows,
                    inner: *inner,
                    columns: *columns,
                    transposed: *transposed,
                    x: self.read(*x),
                    y: self.read(*y),
                    out: self.write(*out),
                }
                .run(self.set, pool),
                Step::Axis {
                    along,
                    sizes,
                    x,
                    out,
                } => self.along(*along, *sizes, *x, *out, pool),
                Step::Attention(step) => self.attention(step, pool, keys, values),
            }
        }
    }

    unsafe fn elements(
        &self,
        function: Function,
        loops: &[Loop],
        out: At,
        operands: [At; 2],
        pool: &Pool,
    ) {
        let (outer, &[rows, columns]) = loops
            .split_last_chunk()
            .expect("there are two loops or more");
        let outer_count: usize = outer.iter().map(|level| level.count).product();
        let many = outer_count * rows.count * columns.count >= SHARED_FROM;
        let parts = if many {
            rows.count.min(pool.threads())
        } else {
            1
        };
        let most = rows.count.div_ceil(parts);
        let shared = Shared((self.write(out), operands.map(|at| self.read(at))));
        let set = self.set;
        let job = |index: usize| {
            let (mut out, mut operands) = shared.get();
            let first = index % parts * most;
            let mut rest = index / parts;
            let start = Loop {
                count: first + 1,
                ..rows
            };
            for (level, place) in outer
                .iter()
                .rev()
                .map(|level| {
                    let place = rest % level.count;
                    rest /= level.count;
                    (*level, place)
                })
                .chain([(start, first)])
            {
                out = out.wrapping_add(place * level.out);
                operands =
                    std::array::from_fn(|i| operands[i].wrapping_add(place * level.operands[i]));
            }
            let rows = Loop {
                count: most.min(rows.count.saturating_sub(first)),
                ..rows
            };
            // SAFETY: see `step`; jobs write different rows.
            unsafe {
                launch(
                    set,
                    &Rows {
                        function,
                        rows,
                        columns,
                        out,
                        operands,
                    },
                )
            };
        };
        run(many, outer_count * parts, &job, pool);
    }

    unsafe fn along(
        &self,
        along: Along,
        [outer, count, inner]: [usize; 3],
        x: At,
        out: At,
        pool: &Pool,
    ) {
        let step = if along == Along::Softmax {
            count * inner
        } else {
            inner
        };
        let shared = Shared((self.read(x), self.write(out)));
        let set = self.set;
        let job = |index: usize| {
            let (x, out) = shared.get();
            let axis = Axis {
                along,
                count,
                inner,
                x: x.wrapping_add(index * count * inner),
                out: out.wrapping_add(index * step),
            };
            // SAFETY: see `step`; jobs write different results.
            unsafe { launch(set, &axis) };
        };
        run(outer * count * inner >= SHARED_FROM, outer, &job, pool);
    }

    /// The input of a convolution as its kernel reads it.
    unsafe fn columns(&self, x: &Located, prepare: bool) -> Columns {
        let (rows, columns) = (x.shape[1], x.shape[3]);
        let stride = columns.next_multiple_of(WIDENED_COLUMNS);
        let (from, from_stride) = (self.read(x.at), x.strides[1]);
        let to = self.widened.pointer::<f32>();
        if prepare {
            // SAFETY (of both): see `step`; the planner counted this input for the size of `widened`.
            match self.set {
                #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
                InstructionSet::Amx => {
                    let pairs = Pairs {
                        from,
                        from_stride,
                        to,
                        rows,
                        columns,
                    };
                    unsafe { launch(self.set, &pairs) };
                }
                _ => {
                    let to_stride = stride;
                    let widen = Widen {
                        from,
                        from_stride,
                        to,
                        to_stride,
                        rows,
                        columns,
                    };
                    unsafe { launch(self.set, &widen) };
                }
            }
        }
        Columns {
            x: to,
            columns,
            stride,
        }
    }

    unsafe fn attention(
        &self,
        step: &AttentionStep,
        pool: &Pool,
        keys: &mut Vec<Piece>,
        values: &mut Vec<Piece>,
    ) {
        keys.clear();
        keys.extend(step.keys.iter().map(|tensor| self.piece(tensor)));
        values.clear();
        values.extend(step.values.iter().map(|tensor| self.piece(tensor)));
        let attention = Attention {
            heads: step.queries.shape[1],
            head_dim: step.queries.shape[2],
            columns: step.queries.shape[3],
            keys,
            values,
            queries: self.piece(&step.queries),
            mask: self.piece(&step.mask),
            boost: step.boost,
            out: self.write(step.out),
        };
        // SAFETY: see `step`.
        unsafe { attention.run(self.set, pool) };
    }

    fn piece(&self, tensor: &Located) -> Piece {
        let strides = match tensor.at.place {
            Place::Input(input) => &self.lent.inputs[input].1,
            _ => tensor.strides.as_slice(),
        };
        Piece {
            start: self.read(tensor.at),
            head_stride: strides[1],
            row_stride: strides[2],
            count: tensor.shape[3],
        }
    }
}

impl LoadedProgram for CpuProgram {
    fn interface(&self) -> &Interface {
        &self.interface
    }

    fn run(
        &mut self,
        inputs: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
    ) -> Result<(), RuntimeError> {
        self.interface.check(inputs, outputs)?;
        self.take_inputs(inputs);
        let (mut keys, mut values) = (
            std::mem::take(&mut self.lent.keys),
            std::mem::take(&mut self.lent.values),
        );
        let pool = Arc::clone(&self.pool);
        let pool = pool.read().unwrap_or_else(PoisonError::into_inner);
        for step in &self.plan.steps {
            // SAFETY: inputs were taken, and `inputs` is borrowed.
            unsafe { self.step(step, &pool, &mut keys, &mut values) };
        }
        (self.lent.keys, self.lent.values) = (keys, values);
        self.give_outputs(outputs);
        Ok(())
    }

    fn placement(&self) -> Result<Placement, RuntimeError> {
        Ok(self.placement.clone())
    }
}

fn run(shared: bool, jobs: usize, job: &(dyn Fn(usize) + Sync), pool: &Pool) {
    if shared {
        pool.run(jobs, job);
    } else {
        (0..jobs).for_each(job);
    }
}
