//! Local accesses: what a worker pays for values that its own node holds.

use crate::args::Op;
use crate::error::BenchError;
use crate::keys::Drawn;
use crate::limit::Plain;
use crate::row::Row;
use crate::settings::Settings;
use crate::turns::{self, Work};
use intendant::{Element, Worker};

pub(crate) fn rows<E: Element>(settings: &Settings) -> Result<Vec<Row>, BenchError> {
    settings.ops.iter().map(|op| row::<E>(settings, *op)).collect()
}

fn row<E: Element>(settings: &Settings, op: Op) -> Result<Row, BenchError> {
    let mut node = crate::alone::<E>(settings)?;
    let mut row = Row::new(settings, op.name(), "a plain loop over one flat array with the same keys");
    turns::measure(settings, &mut node, |worker| Accesses::new(settings, op, worker), &mut row)?;
    node.shutdown()?;
    Ok(row)
}

/// Each thread has a plain array of its own: the limit knows no sharing.
struct Accesses<E> {
    op: Op,
    drawn: Drawn,
    plain: Plain<E>,
    values: Vec<E>,
}

impl<E: Element> Accesses<E> {
    fn new(settings: &Settings, op: Op, worker: &Worker<E>) -> Self {
        let Settings { dist, keys, len, batch, .. } = *settings;
        Self {
            op,
            drawn: Drawn::new(dist, keys, batch, 11 + u64::from(worker.id().0)),
            plain: Plain::new(keys, len),
            values: vec![E::ZERO; batch * len],
        }
    }
}

impl<E: Element> Work<E> for Accesses<E> {
    fn prepare(&mut self) {
        // Updates of zero would be the same work; these keep the values finite however long it runs.
        self.values.fill(E::from_f64(1e-30));
    }

    fn limit(&mut self, call: usize) {
        self.plain.call(self.op, self.drawn.call(call), &mut self.values);
    }

    fn ours(&mut self, worker: &mut Worker<E>, call: usize) -> Result<(), BenchError> {
        let keys = self.drawn.call(call);
        match self.op {
            Op::Pull => worker.pull(keys, &mut self.values)?,
            Op::Push => worker.push(keys, &self.values)?,
        }
        Ok(())
    }
}
