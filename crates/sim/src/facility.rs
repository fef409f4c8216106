//! A single-server queue (a *facility* of queueing theory): a channel's thread, or one direction of a NIC. It
//! serves jobs one at a time, in order of arrival, and measures busy and waiting time.

/// A single-server queue, represented by the time at which its server is free.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facility {
    free_ns: u64,
    load: Load,
}

intendant_core::statistics! {
    /// Load of a facility, or the sum over several.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    Load {
        /// Jobs served.
        served: u64,
        /// Time spent serving, nanoseconds.
        busy_ns: u64,
        /// Time that jobs waited until their service began, summed over all jobs, nanoseconds.
        waited_ns: u64,
    }
}

impl Load {
    /// Busy fraction of `virtual_ns`; a sum of several facilities can exceed 1.
    #[must_use]
    pub fn utilisation(&self, virtual_ns: u64) -> f64 {
        self.busy_ns as f64 / virtual_ns.max(1) as f64
    }

    /// Mean waiting time of a job, in nanoseconds.
    #[must_use]
    pub fn mean_wait_ns(&self) -> f64 {
        self.waited_ns as f64 / self.served.max(1) as f64
    }
}

impl Facility {
    /// Serves a job that arrived at `came_ns` for `service_ns`, not before `from_ns`. Returns start and end
    /// of the service.
    pub(crate) fn serve(&mut self, came_ns: u64, from_ns: u64, service_ns: u64) -> (u64, u64) {
        let start_ns = self.free_ns.max(from_ns).max(came_ns);
        self.free_ns = start_ns + service_ns;
        self.load.served += 1;
        self.load.busy_ns += service_ns;
        self.load.waited_ns += start_ns - came_ns;
        (start_ns, self.free_ns)
    }

    /// Prolongs the last service by `more_ns`. Returns its new end.
    pub(crate) fn extend(&mut self, more_ns: u64) -> u64 {
        self.free_ns += more_ns;
        self.load.busy_ns += more_ns;
        self.free_ns
    }

    /// Whether the server became idle before `now_ns`.
    pub(crate) fn is_free(&self, now_ns: u64) -> bool {
        self.free_ns < now_ns
    }

    /// When the server has served all jobs.
    pub(crate) fn end_ns(&self) -> u64 {
        self.free_ns
    }

    /// The load so far.
    pub(crate) fn load(&self) -> Load {
        self.load
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::Dice;

    #[test]
    fn jobs_that_arrive_while_the_server_is_busy_wait() {
        let mut facility = Facility::default();
        assert_eq!(facility.serve(100, 0, 10), (100, 110));
        assert_eq!(facility.serve(105, 0, 10), (110, 120));
        assert_eq!(facility.extend(5), 125);
        assert_eq!(facility.serve(106, 0, 10), (125, 135));
        assert_eq!(facility.serve(200, 250, 10), (250, 260));
        assert_eq!(facility.load(), Load { served: 4, busy_ns: 45, waited_ns: 5 + 19 + 50 });
    }

    /// Poisson arrivals and constant service: the mean wait is ρ / (2 (1 − ρ)) services (Pollaczek and
    /// Khinchine).
    #[test]
    fn waiting_follows_the_formula_for_random_arrivals() {
        const SERVICE_NS: f64 = 1_000.0;
        for load in [0.2, 0.5, 0.8] {
            let (mut facility, mut dice, mut now) = (Facility::default(), Dice::new(7), 0.0);
            for _ in 0..200_000 {
                let unit = (dice.word() >> 11) as f64 / (1u64 << 53) as f64;
                now += -(1.0 - unit).ln() * SERVICE_NS / load;
                facility.serve(now as u64, 0, SERVICE_NS as u64);
            }
            let expected = load / (2.0 * (1.0 - load)) * SERVICE_NS;
            let found = facility.load().mean_wait_ns();
            assert!((found / expected - 1.0).abs() < 0.05, "load {load}: {found} instead of {expected}");
            let utilisation = facility.load().utilisation(now as u64);
            assert!((utilisation - load).abs() < 0.01, "load {load}: busy {utilisation}");
        }
    }
}
