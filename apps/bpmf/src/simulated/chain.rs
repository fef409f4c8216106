//! The chain on a simulated cluster, as a program.

use super::Cluster;
use crate::chain;
use crate::plan::Resolved;
use bpmf::Model;
use intendant_ratings::Dataset;
use intendant_task::{Reduction, Split};
use intendant_train::{About, AppError, Computed, Costs, Plan, Program, Simulation, State, TrainError};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A chain whose nodes are simulated.
pub(crate) struct SimulatedChain {
    data: Dataset,
    model: Arc<Model>,
    cluster: Cluster,
}

impl SimulatedChain {
    pub(crate) fn new(
        data: Dataset,
        resolved: Resolved,
        plan: &Plan,
        simulation: &Simulation,
    ) -> Result<Self, TrainError> {
        let model = Arc::new(chain::model(&data, resolved.config)?);
        let cluster = Cluster::new(&model, plan.nodes, resolved.exchange, simulation, plan.seed)?;
        Ok(Self { data, model, cluster })
    }

    /// What the program is about. It has no checkpoints.
    pub(crate) fn about(&self) -> About {
        About {
            task: chain::NAME,
            digest: self.data.digest(),
            size: chain::size(&self.model),
            state: State::default(),
            aborter: None,
        }
    }

    fn computed(&self, sums: Reduction) -> Computed {
        let simulated = Some(self.cluster.time());
        Computed { sums, costs: Costs { cpu_ns: 0, exchanged: self.cluster.exchanged(), simulated } }
    }
}

impl Program for SimulatedChain {
    fn epoch(&mut self, stop: &AtomicBool) -> Result<Computed, TrainError> {
        self.cluster.iterate(stop)?;
        if stop.load(Ordering::Relaxed) {
            return Ok(Computed::default());
        }
        let sums = self.cluster.blocks().flat_map(|block| block.sums(None));
        Ok(self.computed(chain::trained(&self.model.total(sums).unwrap_or_default())))
    }

    fn evaluate(&mut self, split: Split) -> Result<Computed, TrainError> {
        let held = chain::held(split, &self.model);
        let sums = self.cluster.blocks().flat_map(|block| block.sums(Some(held)));
        Ok(self.computed(chain::tested(&self.model.total(sums).unwrap_or_default())))
    }

    fn export(&mut self, _folder: Option<&Path>) -> Result<Result<(), AppError>, TrainError> {
        Ok(Err("a simulated chain has no export; run it without --simulate".into()))
    }
}
