//! Operations on elements, over any strides that broadcasting, splitting and joining make.

use half::f16;

use super::half_lanes::{HalfLanes, MOST_LANES, exp};
use super::launch::Kernel;
use crate::mil::operations::{BinaryFunction, UnaryFunction};

/// What is done with each element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Function {
    Binary(BinaryFunction),
    Unary(UnaryFunction),
    /// The first operand as it is.
    Copy,
}

/// A loop, with its step in elements for the output and both operands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Loop {
    pub count: usize,
    pub out: usize,
    pub operands: [usize; 2],
}

/// Loops over the axes of `shape`, outermost first, in as few as possible; the last of them is as long as possible.
pub(super) fn loops(shape: &[usize], out: &[usize], operands: [&[usize]; 2]) -> Vec<Loop> {
    let mut merged: Vec<Loop> = vec![];
    for (axis, &count) in shape.iter().enumerate() {
        if count == 1 {
            continue;
        }
        let inner = Loop {
            count,
            out: out[axis],
            operands: operands.map(|strides| strides[axis]),
        };
        match merged.last_mut() {
            Some(outer)
                if outer.out == inner.out * count
                    && (0..2).all(|i| outer.operands[i] == inner.operands[i] * count) =>
            {
                *outer = Loop {
                    count: outer.count * count,
                    ..inner
                };
            }
            _ => merged.push(inner),
        }
    }
    while merged.len() < 2 {
        // One step of no length.
        merged.insert(
            0,
            Loop {
                count: 1,
                out: 1,
                operands: [1, 1],
            },
        );
    }
    merged
}

/// The two innermost loops.
pub(super) struct Rows {
    pub function: Function,
    pub rows: Loop,
    pub columns: Loop,
    pub out: *mut f16,
    pub operands: [*const f16; 2],
}

impl Kernel for Rows {
    #[inline(always)]
    unsafe fn run<V: HalfLanes>(&self) {
        // SAFETY: passed on.
        unsafe {
            match self.function {
                Function::Binary(BinaryFunction::Add) => self.each::<V, Add>(),
                Function::Binary(BinaryFunction::Sub) => self.each::<V, Sub>(),
                Function::Binary(BinaryFunction::Mul) => self.each::<V, Mul>(),
                Function::Binary(BinaryFunction::RealDiv) => self.each::<V, RealDiv>(),
                Function::Binary(BinaryFunction::Pow) => self.each::<V, Pow>(),
                Function::Unary(UnaryFunction::Abs) => self.each::<V, Abs>(),
                Function::Unary(UnaryFunction::Silu) => self.each::<V, Silu>(),
                Function::Copy => self.copy(),
            }
        }
    }
}

/// A function of vectors. Not a closure: those are compiled without V's instructions where they are not inlined.
trait OfVectors {
    unsafe fn of<V: HalfLanes>(x: V, y: V) -> V;
}

macro_rules! of_vectors {
    ($($name:ident($x:ident, $y:ident) $result:block)+) => {$(
        struct $name;
        impl OfVectors for $name {
            #[inline(always)]
            unsafe fn of<V: HalfLanes>($x: V, $y: V) -> V {
                // SAFETY: the caller has V's instruction set.
                unsafe { $result }
            }
        }
    )+};
}

of_vectors! {
    Add(x, y) { x.plus(y) }
    Sub(x, y) { x.minus(y) }
    Mul(x, y) { x.multiply(y) }
    RealDiv(x, y) { x.over(y) }
    Pow(x, y) { pow(x, y) }
    Abs(x, _y) { x.absolute() }
    Silu(x, _y) { x.over(V::splat(1.0).plus(exp(V::zero().minus(x)))) }
}

/// One value at a time: programs take powers of few.
#[inline(always)]
unsafe fn pow<V: HalfLanes>(x: V, y: V) -> V {
    let (mut powers, mut exponents) = ([0.0; MOST_LANES], [0.0; MOST_LANES]);
    // SAFETY: vectors have at most so many values.
    unsafe {
        x.store(powers.as_mut_ptr());
        y.store(exponents.as_mut_ptr());
        for (power, exponent) in powers.iter_mut().zip(exponents).take(V::LANES) {
            *power = power.powf(exponent);
        }
        V::load(powers.as_ptr())
    }
}

impl Rows {
    #[inline(always)]
    unsafe fn each<V: HalfLanes, F: OfVectors>(&self) {
        // SAFETY: passed on.
        unsafe {
            match (self.columns.out, self.columns.operands) {
                (1, [1, 1]) => self.vectors::<V, F, true, true>(),
                (1, [1, 0]) => self.vectors::<V, F, true, false>(),
                (1, [0, 1]) => self.vectors::<V, F, false, true>(),
                _ => self.values::<V, F>(),
            }
        }
    }

    /// Columns side by side; operands that do not move (X, Y) have one value a row.
    #[inline(always)]
    unsafe fn vectors<V: HalfLanes, F: OfVectors, const X: bool, const Y: bool>(&self) {
        let count = self.columns.count;
        let whole = count / V::LANES * V::LANES;
        for row in 0..self.rows.count {
            // SAFETY: inside the rows that the caller vouches for.
            unsafe {
                let out = self.out.add(row * self.rows.out);
                let x = self.operands[0].add(row * self.rows.operands[0]);
                let y = self.operands[1].add(row * self.rows.operands[1]);
                let (x_value, y_value) = (V::splat((*x).to_f32()), V::splat((*y).to_f32()));
                for i in (0..whole).step_by(V::LANES) {
                    let x = if X { V::load_half(x.add(i)) } else { x_value };
                    let y = if Y { V::load_half(y.add(i)) } else { y_value };
                    F::of(x, y).store_half(out.add(i));
                }
                if whole < count {
                    let rest = count - whole;
                    let x = if X {
                        V::load_half_first(x.add(whole), rest)
                    } else {
                        x_value
                    };
                    let y = if Y {
                        V::load_half_first(y.add(whole), rest)
                    } else {
                        y_value
                    };
                    F::of(x, y).store_half_first(out.add(whole), rest);
                }
            }
        }
    }

    /// Any steps, one value at a time.
    #[inline(always)]
    unsafe fn values<V: HalfLanes, F: OfVectors>(&self) {
        let [x_step, y_step] = self.columns.operands;
        for row in 0..self.rows.count {
            for column in 0..self.columns.count {
                // SAFETY: inside the rows that the caller vouches for.
                unsafe {
                    let x = *self.operands[0].add(row * self.rows.operands[0] + column * x_step);
                    let y = *self.operands[1].add(row * self.rows.operands[1] + column * y_step);
                    let out = self
                        .out
                        .add(row * self.rows.out + column * self.columns.out);
                    F::of(V::splat(x.to_f32()), V::splat(y.to_f32())).store_half_first(out, 1);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn copy(&self) {
        let count = self.columns.count;
        for row in 0..self.rows.count {
            // SAFETY: inside the rows that the caller vouches for.
            unsafe {
                let (from, to) = (
                    self.operands[0].add(row * self.rows.operands[0]),
                    self.out.add(row * self.rows.out),
                );
                if (self.columns.out, self.columns.operands[0]) == (1, 1) {
                    to.copy_from_nonoverlapping(from, count);
                } else {
                    for column in 0..count {
                        *to.add(column * self.columns.out) =
                            *from.add(column * self.columns.operands[0]);
                    }
                }
            }
        }
    }
}
