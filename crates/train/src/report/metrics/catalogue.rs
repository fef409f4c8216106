//! The metrics of a node. `docs/metrics.md` has a table of them, and the members of the report that have the
//! same numbers.

use intendant_metrics::{Kind, Metric};

macro_rules! catalogue {
    ($($constant:ident: $kind:ident, $name:literal, $help:literal;)*) => {
        $(pub(super) static $constant: Metric = Metric { name: $name, kind: Kind::$kind, help: $help };)*

        /// All of them.
        pub(super) fn all() -> Vec<&'static Metric> {
            vec![$(&$constant),*]
        }
    };
}

catalogue! {
    INFO: Gauge, "intendant_info", "The run, as labels; the value is 1";
    NODES: Gauge, "intendant_nodes", "Nodes of the cluster";
    LOST_NODES: Gauge, "intendant_lost_nodes", "Nodes that this node knows to be lost; the run ends then";
    WORKERS: Gauge, "intendant_workers", "Training threads of this node";
    UPTIME: Gauge, "intendant_uptime_seconds", "Time since this node began to train";

    EPOCH: Gauge, "intendant_epoch", "The epoch under way or the last one, from 1; 0 before the first batch";
    EPOCHS_PLANNED: Gauge, "intendant_epochs_planned", "Epochs of the whole run, at most";
    EXAMPLES: Counter, "intendant_examples_total", "Examples trained";
    BATCHES: Counter, "intendant_batches_total", "Batches trained";
    SECONDS: Counter, "intendant_training_seconds_total", "Time in epochs, evaluation excluded";
    CPU_SECONDS: Counter, "intendant_training_cpu_seconds_total", "CPU time of this process in epochs";
    EPOCH_LOSS: Gauge, "intendant_epoch_loss", "Mean loss per example of this node in the epoch under way";
    LOSS: Gauge, "intendant_loss", "Mean loss per example of all nodes in the last epoch that ended";
    QUALITY: Gauge, "intendant_quality", "Quality on the validation data after the last epoch that was validated";

    PULLED: Counter, "intendant_pulled_keys_total", "Keys pulled";
    PUSHED: Counter, "intendant_pushed_keys_total", "Keys pushed";
    LOCAL: Counter, "intendant_local_accesses_total", "Accesses that did not wait for a message between nodes, in keys";
    REMOTE: Counter, "intendant_remote_accesses_total", "All other accesses, in keys";
    WINDOWS: Counter, "intendant_window_accesses_total", "Of these, keys read in the window of a node of the host";
    SAMPLED: Counter, "intendant_sampled_keys_total", "Pulled keys that the sampling manager chose";

    RELOCATIONS: Counter, "intendant_relocations_total", "Main copies that arrived at this node";
    SETUPS: Counter, "intendant_replica_setups_total", "Replicas created at this node";
    DROPS: Counter, "intendant_replica_drops_total", "Replicas dropped at this node";
    CONFLICTS: Counter, "intendant_localization_conflicts_total", "Remote accesses to keys that had been localized";
    ROUNDS: Counter, "intendant_sync_rounds_total", "Rounds in which a channel synchronised replicas";
    SYNCED: Counter, "intendant_synced_keys_total", "Keys whose updates were sent or received in such rounds";
    HELD_BACK: Counter, "intendant_held_back_deltas_total", "Deltas that rounds held back because they were not significant";
    INTENTS: Counter, "intendant_intent_keys_total", "Keys of intents that this node acted on";
    STALE_READS: Counter, "intendant_stale_reads_total", "Reads that waited for the staleness bound";
    QUEUED: Counter, "intendant_queued_accesses_total", "Accesses that waited for a key that was arriving";
    FORWARDED: Counter, "intendant_forwarded_accesses_total", "Accesses served for other nodes, by number of forwards";
    RELOCATION: Histogram, "intendant_relocation_seconds", "Time from the request for a key to its arrival";
    BLOCKING: Histogram, "intendant_blocking_seconds", "Time that an access waited for a key that was arriving";
    UNSENT: Histogram, "intendant_unsent_updates", "Updates of workers per delta of a replica";
    DRIFT: Histogram, "intendant_drift_ratio", "By how much of its norm a delta changed a replica";

    MESSAGES: Counter, "intendant_sent_messages_total", "Messages sent to other nodes";
    BYTES: Counter, "intendant_sent_bytes_total", "Bytes of these messages";
    UNPACKED_BYTES: Counter, "intendant_sent_unpacked_bytes_total", "The bytes that these messages would have if they were not packed";
    SAVED_BYTES: Counter, "intendant_saved_bytes_total", "Bytes that packing saved, by what";
    UNIX_BYTES: Counter, "intendant_sent_unix_bytes_total", "Those of the bytes that went over Unix sockets or shared memory";

    SAMPLES: Counter, "intendant_samples_total", "Samples drawn";
    POOLS: Counter, "intendant_sample_pools_total", "Pools of samples made";
    LATE_POOLS: Counter, "intendant_late_sample_pools_total", "Pools made when a sample was needed";
    POSTPONED: Counter, "intendant_postponed_samples_total", "Samples postponed because they were not local";
    STRAYED: Counter, "intendant_strayed_samples_total", "Samples that were not local when they were drawn or used";

    CHECKPOINTS: Counter, "intendant_checkpoints_total", "Checkpoints committed, those before a resumption included";
    CHECKPOINT: Gauge, "intendant_checkpoint_number", "Number of the newest checkpoint of this process";
    CHECKPOINT_BYTES: Gauge, "intendant_checkpoint_bytes", "Size of the newest checkpoint";
    CHECKPOINT_TIME: Gauge, "intendant_checkpoint_timestamp_seconds", "When the newest checkpoint was committed";
    CHECKPOINT_STOP: Gauge, "intendant_checkpoint_stop_seconds", "Mean time for which training stood still for one";
    CHECKPOINT_WRITE: Gauge, "intendant_checkpoint_write_seconds", "Mean time until node 0 had written its part";

    INBOX: Gauge, "intendant_inbox_commands", "Commands that wait for the threads of the channels";
    PREPARED: Gauge, "intendant_prepared_batches", "Batches that loaders have prepared and workers have not taken";
    OPERATIONS: Gauge, "intendant_outstanding_operations", "Operations of workers that wait for answers";
    OUTSTANDING: Gauge, "intendant_outstanding_bytes", "Bytes that workers have in flight";
    HELD: Gauge, "intendant_held_values", "Values that this node holds, replicas included";

    RESIDENT: Gauge, "process_resident_memory_bytes", "Resident memory of this process";
    PROCESS_CPU: Counter, "process_cpu_seconds_total", "CPU time of this process";
    PROCESS_START: Gauge, "process_start_time_seconds", "When this process started";
}
