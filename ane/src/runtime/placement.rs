//! Which device runs which operation of a program.

use crate::mil::graph::{Node, Program};
use crate::mil::operations::Operation;

/// What an operation can run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// The processor.
    Cpu,
    /// The graphics processor.
    Gpu,
    /// Apple's Neural Engine.
    NeuralEngine,
}

/// Where one operation runs.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationPlacement {
    /// The kind of operation, in the runtime's words: `conv`.
    pub operation: String,
    /// Its first output.
    pub output: String,
    /// All devices that could run it.
    pub supported: Vec<Device>,
    /// The one it is planned for. None for what costs nothing at run time, such as constants, and where it is not known.
    pub preferred: Option<Device>,
    /// Its part of the program's time as the runtime estimates it, 0 to 1. None where it does not.
    pub cost: Option<f64>,
}

/// Where a program runs: the runtime's plan, not a measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// In the program's order.
    pub operations: Vec<OperationPlacement>,
}

/// A [`Placement`] in four numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// How many operations have a known device: those that compute something.
    pub operations: usize,
    /// Their part on the Neural Engine, 0 to 1; all parts are 0 where there are no such operations.
    pub neural_engine: f64,
    /// On the graphics processor.
    pub gpu: f64,
    /// On the processor.
    pub cpu: f64,
}

impl Placement {
    /// How much runs where, by the number of operations.
    #[must_use]
    pub fn shares(&self) -> Shares {
        let placed = self.operations.iter().filter(|it| it.preferred.is_some());
        let share = |device| self.share_of_operations(device).unwrap_or(0.0);
        Shares {
            operations: placed.count(),
            neural_engine: share(Device::NeuralEngine),
            gpu: share(Device::Gpu),
            cpu: share(Device::Cpu),
        }
    }

    /// Everything on the processor.
    #[must_use]
    pub fn on_cpu(program: &Program) -> Self {
        let place = |node: &Node| {
            let constant = matches!(
                node.operation,
                Operation::Const(_) | Operation::ConstexprAffineDequantize(_)
            );
            OperationPlacement {
                operation: node.operation.mil_name().into(),
                output: program.value(node.outputs[0]).name.clone(),
                supported: vec![Device::Cpu],
                preferred: (!constant).then_some(Device::Cpu),
                cost: None,
            }
        };
        Self {
            operations: program.nodes.iter().map(place).collect(),
        }
    }

    /// The part of operations that are planned for `device`, 0 to 1, of those with a known one. None where there are none.
    #[must_use]
    pub fn share_of_operations(&self, device: Device) -> Option<f64> {
        self.share(device, |_| Some(1.0))
    }

    /// As [`Self::share_of_operations`], by estimated cost. None where nothing has a cost.
    #[must_use]
    pub fn share_of_cost(&self, device: Device) -> Option<f64> {
        self.share(device, |operation| operation.cost)
    }

    fn share(
        &self,
        device: Device,
        weight: impl Fn(&OperationPlacement) -> Option<f64>,
    ) -> Option<f64> {
        let (mut here, mut all) = (0.0, 0.0);
        for operation in &self.operations {
            if let (Some(preferred), Some(weight)) = (operation.preferred, weight(operation)) {
                all += weight;
                if preferred == device {
                    here += weight;
                }
            }
        }
        (all > 0.0).then(|| here / all)
    }
}

#[cfg(test)]
mod tests {
    use super::{Device, OperationPlacement, Placement, Shares};

    fn placement(operations: &[(Option<Device>, Option<f64>)]) -> Placement {
        let operations = operations
            .iter()
            .map(|(preferred, cost)| OperationPlacement {
                operation: "conv".into(),
                output: "y".into(),
                supported: vec![],
                preferred: *preferred,
                cost: *cost,
            });
        Placement {
            operations: operations.collect(),
        }
    }

    #[test]
    fn shares_are_of_what_has_a_device_and_a_cost() {
        let placement = placement(&[
            (Some(Device::NeuralEngine), Some(0.75)),
            (Some(Device::NeuralEngine), None),
            (Some(Device::Cpu), Some(0.25)),
            (Some(Device::Cpu), Some(0.0)),
            (None, Some(0.5)),
        ]);
        assert_eq!(
            placement.share_of_operations(Device::NeuralEngine),
            Some(0.5)
        );
        assert_eq!(placement.share_of_cost(Device::NeuralEngine), Some(0.75));
        assert_eq!(placement.share_of_cost(Device::Gpu), Some(0.0));
        let shares = Shares {
            operations: 4,
            neural_engine: 0.5,
            gpu: 0.0,
            cpu: 0.5,
        };
        assert_eq!(placement.shares(), shares);
    }

    #[test]
    fn nothing_known_is_no_share() {
        for unknown in [
            placement(&[]),
            placement(&[(None, None), (None, Some(1.0))]),
        ] {
            assert_eq!(unknown.share_of_operations(Device::Cpu), None);
            assert_eq!(unknown.share_of_cost(Device::Cpu), None);
            assert_eq!(unknown.shares().cpu, 0.0);
        }
    }
}
