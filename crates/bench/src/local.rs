//! Local accesses: what a worker pays for values that its own node holds.

use crate::args::{self, Op};
use crate::error::BenchError;
use crate::keys::Drawn;
use crate::limit::{Latched, Plain};
use crate::node;
use crate::row::Row;
use crate::settings::Settings;
use crate::turns::{self, Work};
use intendant::{Element, Worker};
use std::sync::Arc;

pub(crate) fn rows<E: Element>(settings: &Settings) -> Result<Vec<Row>, BenchError> {
    settings.ops.iter().map(|op| row::<E>(settings, *op)).collect()
}

fn row<E: Element>(settings: &Settings, op: Op) -> Result<Row, BenchError> {
    let mut node = node::alone::<E>(settings)?;
    let beside = match settings.limit {
        args::Limit::Plain => "a plain loop over one flat array with the same keys",
        args::Limit::Latched => "a loop over latched rows, which the threads share, with the same keys",
    };
    let mut row = Row::new(settings, op.name(), beside);
    let shared = match settings.limit {
        args::Limit::Plain => None,
        args::Limit::Latched => Some(Arc::new(Latched::new(settings.keys, settings.len))),
    };
    let accesses = |worker: &Worker<E>| Accesses::new(settings, op, shared.clone(), worker);
    turns::measure(settings, &mut node, accesses, &mut row)?;
    node.shutdown()?;
    Ok(row)
}

struct Accesses<E> {
    op: Op,
    drawn: Drawn,
    limit: Limit<E>,
    values: Vec<E>,
}

enum Limit<E> {
    /// One per thread: nothing is shared.
    Plain(Plain<E>),
    /// One for all threads.
    Latched(Arc<Latched<E>>),
}

impl<E: Element> Accesses<E> {
    fn new(settings: &Settings, op: Op, shared: Option<Arc<Latched<E>>>, worker: &Worker<E>) -> Self {
        let Settings { dist, keys, len, batch, .. } = *settings;
        Self {
            op,
            drawn: Drawn::new(dist, keys, batch, 11 + u64::from(worker.id().0)),
            limit: shared.map_or_else(|| Limit::Plain(Plain::new(keys, len)), Limit::Latched),
            values: vec![E::ZERO; batch * len],
        }
    }
}

impl<E: Element> Work<E> for Accesses<E> {
    fn prepare(&mut self) {
        // Updates of zero would be the same work. These updates keep the values finite, however long the
        // measurement runs.
        self.values.fill(E::from_f64(1e-30));
    }

    fn limit(&mut self, call: usize) {
        let (keys, values) = (self.drawn.call(call), &mut self.values[..]);
        match &mut self.limit {
            Limit::Plain(plain) => plain.call(self.op, keys, values),
            Limit::Latched(latched) => latched.call(self.op, keys, values),
        }
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
