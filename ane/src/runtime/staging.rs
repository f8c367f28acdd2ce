//! Tensors between a program that takes nothing else and a caller's own memory.

use half::f16;

use super::tensor::Tensor;
use super::{Port, RuntimeError};
use crate::buffer::{View, ViewMut};

/// A tensor for each port of a program.
pub struct Staging {
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    /// One tensor without gaps between its rows.
    dense: Vec<f16>,
}

impl Staging {
    /// For a program with these ports.
    ///
    /// # Errors
    /// [`RuntimeError::Memory`] where there is none.
    pub fn new(inputs: &[Port], outputs: &[Port]) -> Result<Self, RuntimeError> {
        let tensors = |ports: &[Port]| {
            let tensors = ports.iter().map(|port| Tensor::new(&port.shape));
            tensors.collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            inputs: tensors(inputs)?,
            outputs: tensors(outputs)?,
            dense: vec![],
        })
    }

    /// Copy views of the ports' shapes in, run, and copy out.
    ///
    /// # Errors
    /// Those of `run`.
    pub fn run(
        &mut self,
        inputs: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
        run: impl FnOnce(&[&Tensor], &mut [&mut Tensor]) -> Result<(), RuntimeError>,
    ) -> Result<(), RuntimeError> {
        for (view, tensor) in inputs.iter().zip(&mut self.inputs) {
            self.dense.resize(view.shape().iter().product(), f16::ZERO);
            view.copy_to(&mut self.dense);
            tensor.view_mut().copy_from(&self.dense);
        }
        let lent: Vec<_> = self.inputs.iter().collect();
        let mut written: Vec<_> = self.outputs.iter_mut().collect();
        run(&lent, &mut written)?;
        for (view, tensor) in outputs.iter_mut().zip(&self.outputs) {
            self.dense.resize(view.shape().iter().product(), f16::ZERO);
            tensor.view().copy_to(&mut self.dense);
            view.copy_from(&self.dense);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::Staging;
    use crate::buffer::{Elements, ElementsMut, View, ViewMut};
    use crate::runtime::{Port, RuntimeError};

    fn port(name: &str, shape: &[usize]) -> Port {
        Port {
            name: name.into(),
            shape: shape.into(),
        }
    }

    #[test]
    fn what_a_program_does_with_tensors_reaches_the_callers_views() {
        let shapes = [[1, 1, 2, 3], [1, 1, 1, 3]];
        let ports = [port("a", &shapes[0]), port("b", &shapes[1])];
        let mut staging = Staging::new(&ports, &ports[..1]).unwrap();
        let (a, b) = (
            [1.0f32, 9.0, 2.0, 9.0, 3.0, 9.0, 4.0, 9.0, 5.0, 9.0, 6.0],
            [10, 20, 30],
        );
        let inputs = [
            View::new(Elements::Fp32(&a), &shapes[0], &[12, 12, 6, 2]).unwrap(),
            View::new(Elements::Int32(&b), &shapes[1], &[3, 3, 3, 1]).unwrap(),
        ];
        let mut out = [0.0f32; 6];
        let written = ViewMut::new(ElementsMut::Fp32(&mut out), &shapes[0], &[6, 6, 3, 1]).unwrap();
        staging
            .run(&inputs, &mut [written], |inputs, outputs| {
                let (mut a, mut b) = ([f16::ZERO; 6], [f16::ZERO; 3]);
                inputs[0].view().copy_to(&mut a);
                inputs[1].view().copy_to(&mut b);
                let sums: Vec<_> = (0..6).map(|i| a[i] + b[i % 3]).collect();
                outputs[0].view_mut().copy_from(&sums);
                Ok(())
            })
            .unwrap();
        assert_eq!(out, [11.0, 22.0, 33.0, 14.0, 25.0, 36.0]);
    }

    #[test]
    fn outputs_of_a_failed_run_are_left_alone() {
        let ports = [port("y", &[2])];
        let mut staging = Staging::new(&[], &ports).unwrap();
        let mut out = [7.0f32; 2];
        let written = ViewMut::new(ElementsMut::Fp32(&mut out), &[2], &[1]).unwrap();
        let failed = RuntimeError::Lost {
            program: "p".into(),
        };
        let result = staging.run(&[], &mut [written], |_, _| Err(failed.clone()));
        assert_eq!(result, Err(failed));
        assert_eq!(out, [7.0, 7.0]);
    }
}
