//! The configuration of a node.

use crate::error::Error;
use crate::recording::TraceConfig;
use intendant_core::{Element, Initialiser, Key, Layout, Tick, limits, random};
use intendant_engine::{ClusterSettings, ReplicationConfig};
use intendant_sampling::Sampler;
use intendant_techniques::{
    Assignment, KeyTechnique, Replicas, StaticReplicaPace, StaticReplicas, Technique,
};
use intendant_transport::Transport;

/// The configuration of a node: the same on all nodes of a cluster, except for the number of workers and the
/// transport.
#[derive(Clone)]
pub struct NodeConfig<E> {
    /// The keys and their homes. [`crate::Node`] sets its number of nodes to that of the cluster.
    pub layout: Layout,
    /// Initial values.
    pub init: Initialiser<E>,
    /// Distributions to sample from.
    pub sampler: Sampler,
    /// Seed of the samples that the system draws: of all that [`crate::Worker::prepare_sample`] prepares, and
    /// of pools.
    pub seed: u64,
    /// The technique, and how it manages parameters. See the table at the [crate](crate#techniques).
    pub cluster: ClusterSettings,
    /// Workers (training threads) of this node.
    pub workers: usize,
    /// Bytes that a worker may have in flight before its next operation waits: values, and
    /// [`limits::OUTSTANDING_KEY_BYTES`] for each key.
    pub outstanding_bytes: usize,
    /// Further settings that must be equal on all nodes, by name, e.g. the seed and kind of the initial
    /// values. A setting comes before the settings that follow from it: if nodes differ, joining fails on all
    /// of them, and the error names the first difference.
    pub settings: Vec<(String, String)>,
    /// The kinds of connections to the other nodes, for clusters of processes. Nodes may differ in it.
    pub transport: Transport,
    /// Whether workers may read values in the memory of other nodes of the host that own them, without a
    /// message, if the technique has such reads and [`NodeConfig::transport`] is not TCP. Nodes may differ in
    /// it.
    pub windows: bool,
    /// Threads that the program runs per worker, e.g. 2 with a loader thread. It is only used to check limits
    /// before the start.
    pub threads_per_worker: usize,
    /// The trace of what happens to parameters, if the node records one. Nodes may differ in it.
    pub trace: Option<TraceConfig>,
}

impl<E> NodeConfig<E> {
    /// Chooses how a technique with [`StaticReplicas::Assigned`] manages a key: by static replicas, or by
    /// relocation or at its home. The latter is the default for all keys. Other techniques ignore it.
    pub fn set_technique(&mut self, key: Key, technique: KeyTechnique) {
        self.cluster.replication.assignment.set_technique(key, technique);
    }

    /// Checks [`ClusterSettings::location`], and the part of [`ClusterSettings::replication`] that the
    /// technique uses.
    pub(crate) fn check_replication(&self, layout: &Layout) -> Result<(), Error>
    where
        E: Element,
    {
        let policy = self.cluster.policy();
        let wrong = |what: String| Error::Config(format!("technique {}: {what}", self.cluster.technique));
        policy
            .check()
            .and_then(|()| policy.check_rules(layout))
            .and_then(|()| policy.check_precision(self.cluster.replication.precision, E::TYPE, layout))
            .map_err(|error| Error::Config(error.to_string()))?;
        if let Some(least) = self.cluster.replication.significant {
            if policy.replicas.is_some_and(Replicas::is_clocked) {
                return Err(wrong(
                    "updates to be held back if they are not significant, but a clock promises all of them; leave \
                     `significant` out"
                        .into(),
                ));
            }
            if !(0.0..=1.0).contains(&least) {
                return Err(wrong(format!(
                    "updates to be significant from {least} on; use a number from 0 to 1"
                )));
            }
        }
        if policy.intents.is_some() {
            self.cluster.replication.timing.check().map_err(|error| wrong(error.to_string()))?;
            let sane = Tick(1)..=Tick(1 << 40);
            if !sane.contains(&self.cluster.replication.round_min)
                || self.cluster.replication.every.is_some_and(|every| !sane.contains(&every))
            {
                return Err(wrong(
                    "rounds that follow each other at once, or never; let 1 to 2^40 microseconds pass".into(),
                ));
            }
        }
        let Some(static_replicas) = policy.static_replicas else { return Ok(()) };
        match static_replicas {
            StaticReplicas::Assigned => self.cluster.replication.assignment.check(layout),
            StaticReplicas::All => Assignment::all().check(layout),
        }
        .map_err(|error| wrong(error.to_string()))?;
        if self.cluster.replication.pace == StaticReplicaPace::Every(Tick(0)) {
            return Err(wrong(
                "replicas to be brought in step without a pause; let a microsecond pass".into(),
            ));
        }
        match self.cluster.replication.clip {
            Some(factor) if !(factor.is_finite() && factor > 0.0) => Err(wrong(format!(
                "updates to be clipped at {factor} times the average; use a number above 0"
            ))),
            _ => Ok(()),
        }
    }

    /// The settings that must be equal on all nodes, by name. A setting comes before the settings that follow
    /// from it. Settings that the technique ignores may differ, and are left out.
    pub(crate) fn agreement(&self, layout: &Layout) -> Vec<(String, String)> {
        let policy = self.cluster.policy();
        let mut own = vec![
            ("technique", policy.name.to_owned()),
            ("order", format!("{:?}", policy.order).to_lowercase()),
            ("location", policy.location.to_string()),
        ];
        // Nodes may act on intents at different times, and may send updates of replicas that follow intents
        // at different rates.
        let ReplicationConfig {
            assignment,
            pace,
            clip,
            staleness,
            timing: _,
            every: _,
            significant: _,
            precision,
            round_min: _,
            watched: _,
            portion_bytes: _,
        } = &self.cluster.replication;
        if let Some(static_replicas) = policy.static_replicas {
            if static_replicas == StaticReplicas::Assigned {
                own.push(("digest of the replicated keys", format!("{:016x}", assignment.digest())));
            }
            own.push((
                "pace of static replicas",
                match pace {
                    StaticReplicaPace::Every(every) => format!("every {} µs", every.0),
                    StaticReplicaPace::Asked => "when asked".to_owned(),
                },
            ));
            own.push(("clipping of updates", clip.map_or("off".to_owned(), |factor| factor.to_string())));
        }
        if policy.replicas.is_some_and(Replicas::is_clocked) {
            own.push(("staleness", staleness.to_string()));
        }
        if matches!(policy.replicas, Some(Replicas::Directed { .. })) {
            own.push(("elements of replicas", precision.to_string()));
        }
        let ranges: Vec<String> = layout
            .ranges()
            .iter()
            .map(|range| {
                let by = range.rule.as_ref().map_or(String::new(), |rule| format!(" by {}", rule.id()));
                format!("{} {}×{}{by}", range.name, range.keys.end - range.keys.start, range.visible())
            })
            .collect();
        own.push(("key order", format!("{:?}", layout.order()).to_lowercase()));
        own.push(("seed of the key order", layout.seed().to_string()));
        own.push(("key ranges", ranges.join(", ")));
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
        self.settings.iter().cloned().chain(own).collect()
    }
}

/// A digest of a layout and of all settings that must be equal. The data planes of nodes compare it.
pub(crate) fn digest(layout: u64, settings: &[(String, String)]) -> u64 {
    settings.iter().fold(layout, |digest, (name, value)| {
        let text = |text: &str| random::stream(0, &text.bytes().map(u64::from).collect::<Vec<_>>());
        random::stream(digest, &[text(name), text(value)])
    })
}

impl<E: Element> NodeConfig<E> {
    /// A configuration with [`Technique::Adaptive`], one worker, a dense store, and nothing to sample from.
    pub fn new(layout: Layout, init: Initialiser<E>) -> Self {
        Self {
            layout,
            init,
            sampler: Sampler::default(),
            seed: 0,
            cluster: ClusterSettings::new(Technique::Adaptive),
            workers: 1,
            outstanding_bytes: limits::OUTSTANDING_BYTES_DEFAULT,
            settings: Vec::new(),
            transport: Transport::Auto,
            windows: true,
            threads_per_worker: 1,
            trace: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_core::Precision;
    use intendant_techniques::rules::Decay;
    use std::sync::Arc;

    fn config(technique: Technique) -> NodeConfig<f32> {
        let layout = Layout::builder().range("k", 10, 1).build().expect("a layout");
        let mut config = NodeConfig::new(layout, Arc::new(|_, value: &mut [f32]| value.fill(0.0)));
        config.cluster.technique = technique;
        config
    }

    /// Whether nodes that differ by `change` refuse each other.
    fn matters(technique: Technique, change: impl Fn(&mut NodeConfig<f32>)) -> bool {
        let (one, mut other) = (config(technique), config(technique));
        change(&mut other);
        let digest = |config: &NodeConfig<f32>| digest(0, &config.agreement(&config.layout));
        assert_eq!(digest(&one), digest(&config(technique)));
        digest(&one) != digest(&other)
    }

    fn directs(technique: Technique) -> bool {
        matches!(technique.policy().replicas, Some(Replicas::Directed { .. }))
    }

    #[test]
    fn elements_of_replicas_are_rounded_where_the_technique_directs_them() {
        for technique in Technique::ALL {
            let mut config = config(technique);
            config.cluster.replication.precision = Precision::Bf16;
            let error = config.check_replication(&config.layout).err().map(|error| error.to_string());
            assert_eq!(error.is_none(), directs(technique), "{technique}: {error:?}");
            assert!(error.is_none_or(|text| text.contains("bf16") && text.contains("adaptive")));
        }
        let layout = Layout::builder().range("k", 10, 1).build().expect("a layout");
        let mut config = NodeConfig::new(layout, Arc::new(|_, value: &mut [f64]| value.fill(0.0)));
        config.cluster.replication.precision = Precision::Bf16;
        let error = config.check_replication(&config.layout).expect_err("f64").to_string();
        assert!(error.contains("f64") && error.contains("use f32"), "{error}");
        let layout = Layout::builder().range_with_rule("k", 10, 1, Decay::new(0.5).expect("a decay"));
        let layout = layout.build().expect("a layout");
        let mut config = NodeConfig::new(layout, Arc::new(|_, value: &mut [f32]| value.fill(0.0)));
        config.cluster.replication.precision = Precision::Bf16;
        let error = config.check_replication(&config.layout).expect_err("a rule").to_string();
        assert!(error.contains("has a rule"), "{error}");
    }

    #[test]
    fn nodes_must_agree_on_what_their_technique_uses() {
        let assign = |config: &mut NodeConfig<f32>| config.set_technique(Key(3), KeyTechnique::Replicate);
        let pace = |config: &mut NodeConfig<f32>| config.cluster.replication.pace = StaticReplicaPace::Asked;
        let faster = |config: &mut NodeConfig<f32>| {
            config.cluster.replication.pace = StaticReplicaPace::Every(Tick(7))
        };
        let clip = |config: &mut NodeConfig<f32>| config.cluster.replication.clip = Some(2.0);
        let staleness = |config: &mut NodeConfig<f32>| config.cluster.replication.staleness = 2;
        let rounds = |config: &mut NodeConfig<f32>| config.cluster.replication.precision = Precision::Bf16;
        for technique in Technique::ALL {
            let policy = technique.policy();
            let some = policy.static_replicas == Some(StaticReplicas::Assigned);
            let all = policy.static_replicas.is_some();
            let clocked = policy.replicas.is_some_and(Replicas::is_clocked);
            let matter = [
                (matters(technique, assign), some),
                (matters(technique, pace), all),
                (matters(technique, faster), all),
                (matters(technique, clip), all),
                (matters(technique, staleness), clocked),
                (matters(technique, rounds), directs(technique)),
                (matters(technique, |config| config.settings = vec![("loss".into(), "log".into())]), true),
            ];
            assert!(matter.iter().all(|(found, expected)| found == expected), "{technique}: {matter:?}");
        }
        let digest = |technique| {
            let config = config(technique);
            digest(0, &config.agreement(&config.layout))
        };
        let names: std::collections::BTreeSet<u64> = Technique::ALL.map(digest).into_iter().collect();
        assert_eq!(names.len(), Technique::ALL.len());
    }

    #[test]
    fn what_cannot_be_done_is_refused_where_it_matters() {
        let refused = |technique, change: &dyn Fn(&mut NodeConfig<f32>)| {
            let mut config = config(technique);
            change(&mut config);
            config.check_replication(&config.layout).err().map(|error| error.to_string())
        };
        let beyond = |config: &mut NodeConfig<f32>| config.set_technique(Key(10), KeyTechnique::Replicate);
        let text = refused(Technique::Nups, &beyond).expect("there is no such key");
        assert!(text.contains("nups") && text.contains("key 10"), "{text}");
        assert_eq!(refused(Technique::Lapse, &beyond), None);
        let restless = |config: &mut NodeConfig<f32>| {
            config.cluster.replication.pace = StaticReplicaPace::Every(Tick(0))
        };
        let clip =
            |factor| move |config: &mut NodeConfig<f32>| config.cluster.replication.clip = Some(factor);
        let has_static = |technique: &Technique| technique.policy().static_replicas.is_some();
        for technique in Technique::ALL.into_iter().filter(has_static) {
            assert!(refused(technique, &restless).is_some());
            for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
                assert!(refused(technique, &clip(factor)).is_some_and(|text| text.contains("clipped")));
            }
            assert_eq!(refused(technique, &clip(0.5)), None);
        }
        assert_eq!(refused(Technique::Ssp, &restless), None);
        let significant =
            |least| move |config: &mut NodeConfig<f32>| config.cluster.replication.significant = Some(least);
        let clocked = |technique: &Technique| technique.policy().replicas.is_some_and(Replicas::is_clocked);
        for technique in Technique::ALL.into_iter().filter(clocked) {
            assert!(refused(technique, &significant(0.1)).is_some_and(|text| text.contains("clock")));
        }
        for least in [-0.1, 1.1, f64::NAN] {
            let text = refused(Technique::Adaptive, &significant(least));
            assert!(text.is_some_and(|text| text.contains("significant")), "{least}");
        }
        assert_eq!(refused(Technique::Adaptive, &significant(0.1)), None);
    }
}
