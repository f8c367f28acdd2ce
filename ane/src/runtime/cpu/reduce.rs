//! Sums, maxima and softmax along an axis.

use half::f16;

use super::half_lanes::{HalfLanes, exp};
use super::launch::Kernel;
use crate::mil::operations::ReduceFunction;

/// What is done along the axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Along {
    Reduce(ReduceFunction),
    Softmax,
}

/// One [count, inner] of a contiguous [outer, count, inner], along `count`, to [inner] or [count, inner].
pub(super) struct Axis {
    pub along: Along,
    pub count: usize,
    pub inner: usize,
    pub x: *const f16,
    pub out: *mut f16,
}

impl Kernel for Axis {
    #[inline(always)]
    unsafe fn run<V: HalfLanes>(&self) {
        for column in (0..self.inner).step_by(V::LANES) {
            let width = V::LANES.min(self.inner - column);
            // SAFETY: the caller vouches for the memory.
            unsafe {
                match self.along {
                    Along::Reduce(ReduceFunction::Max) => {
                        let largest: V = self.largest(column, width);
                        largest.store_half_first(self.out.add(column), width);
                    }
                    Along::Reduce(ReduceFunction::Mean) => {
                        let mean: V = self.mean(column, width);
                        mean.store_half_first(self.out.add(column), width);
                    }
                    Along::Softmax => self.softmax::<V>(column, width),
                }
            }
        }
    }
}

// Loops and no closures, which are compiled without V's instructions where they are not inlined.
impl Axis {
    #[inline(always)]
    unsafe fn largest<V: HalfLanes>(&self, column: usize, width: usize) -> V {
        // SAFETY: inside x.
        unsafe {
            let mut largest = V::splat(f32::NEG_INFINITY);
            for row in 0..self.count {
                largest = load::<V>(self.x.add(row * self.inner + column), width).maximum(largest);
            }
            largest
        }
    }

    #[inline(always)]
    unsafe fn mean<V: HalfLanes>(&self, column: usize, width: usize) -> V {
        // SAFETY: inside x.
        unsafe {
            let mut sum = V::zero();
            for row in 0..self.count {
                sum = sum.plus(load(self.x.add(row * self.inner + column), width));
            }
            sum.over(V::splat(self.count as f32))
        }
    }

    #[inline(always)]
    unsafe fn softmax<V: HalfLanes>(&self, column: usize, width: usize) {
        // SAFETY: inside x and the output.
        unsafe {
            let largest: V = self.largest(column, width);
            let mut sum = V::zero();
            for row in 0..self.count {
                let x = load::<V>(self.x.add(row * self.inner + column), width);
                sum = sum.plus(exp(x.minus(largest)));
            }
            let factor = V::splat(1.0).over(sum);
            for row in 0..self.count {
                let at = row * self.inner + column;
                let raised = exp(load::<V>(self.x.add(at), width).minus(largest));
                raised
                    .multiply(factor)
                    .store_half_first(self.out.add(at), width);
            }
        }
    }
}

#[inline(always)]
unsafe fn load<V: HalfLanes>(from: *const f16, width: usize) -> V {
    // SAFETY: the caller vouches for `width` values.
    unsafe {
        if width == V::LANES {
            V::load_half(from)
        } else {
            V::load_half_first(from, width)
        }
    }
}
