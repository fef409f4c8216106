//! The chain on a simulated cluster, as a program.

use super::Cluster;
use crate::chain;
use crate::plan::Resolved;
use bpmf::Model;
use intendant_ratings::Dataset;
use intendant_task::{Reduction, Split};
use intendant_train::{AppError, Costs, ModelSize, Plan, Program, Simulation, TrainError, VirtualEpoch};
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
}

impl Program for SimulatedChain {
    fn name(&self) -> &'static str {
        chain::NAME
    }

    fn digest(&self) -> u64 {
        self.data.digest()
    }

    fn size(&self) -> ModelSize {
        chain::size(&self.model)
    }

    fn epoch(&mut self, stop: &AtomicBool) -> Result<Reduction, TrainError> {
        self.cluster.iterate(stop)?;
        if stop.load(Ordering::Relaxed) {
            return Ok(Reduction::default());
        }
        let sums = self.cluster.blocks().flat_map(|block| block.sums(None));
        Ok(chain::trained(&self.model.total(sums).unwrap_or_default()))
    }

    fn evaluate(&mut self, split: Split) -> Result<Reduction, TrainError> {
        let held = chain::held(split, &self.model);
        let sums = self.cluster.blocks().flat_map(|block| block.sums(Some(held)));
        Ok(chain::tested(&self.model.total(sums).unwrap_or_default()))
    }

    fn costs(&self) -> Costs {
        Costs { cpu_ns: 0, exchanged: self.cluster.exchanged() }
    }

    fn virtual_epoch(&mut self) -> Option<VirtualEpoch> {
        Some(self.cluster.take())
    }

    fn export(&mut self, _folder: Option<&Path>) -> Result<Result<(), AppError>, TrainError> {
        Ok(Err("a simulated chain has no export; run it without --simulate".into()))
    }
}
