//! Where requests wait for answers. The questions that wait for the same endpoint and the same model are
//! answered together: a search reads the whole table, whether for one question or for many.

use crate::counts::Counts;
use crate::current::Loaded;
use crate::program::{Endpoint, Question};
use intendant_core::lock;
use serde_json::Value;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// Questions that are answered together. A request with more is answered alone.
const TOGETHER: usize = 128;

/// Questions that wait at a desk.
const WAITING_MAX: usize = 16_384;

/// The answers to the questions of a request; `None` if the model failed, which is a fault of the program.
pub(crate) type Answers = Option<Vec<Result<Value, String>>>;

/// A request that waits.
struct Job {
    model: Arc<Loaded>,
    questions: Vec<Question>,
    tell: oneshot::Sender<Answers>,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    questions: usize,
    is_closed: bool,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    more: Condvar,
}

/// The desk of an endpoint, with a thread of its own, which ends when the desk is dropped.
pub(crate) struct Desk {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl Desk {
    /// Opens the desk of the endpoint at `number`. Searches use up to `threads` threads.
    pub(crate) fn open(
        number: usize,
        endpoint: &'static Endpoint,
        threads: usize,
        counts: Arc<Counts>,
    ) -> io::Result<Self> {
        let queue = Arc::<Queue>::default();
        let taken = Arc::clone(&queue);
        let work = move || {
            while let Some((model, jobs)) = taken.next() {
                counts.answered(number, jobs.iter().map(|job| job.questions.len()).sum());
                answer(endpoint, &model, jobs, threads);
            }
        };
        let thread = std::thread::Builder::new().name(format!("desk {}", endpoint.name())).spawn(work)?;
        Ok(Self { queue, thread: Some(thread) })
    }

    /// Lets a request wait. `None` if too many do.
    pub(crate) fn ask(
        &self,
        model: Arc<Loaded>,
        questions: Vec<Question>,
    ) -> Option<oneshot::Receiver<Answers>> {
        let (tell, told) = oneshot::channel();
        let mut waiting = lock(&self.queue.waiting);
        // A request that is larger than all places is served when it is alone.
        if waiting.questions > 0 && waiting.questions + questions.len() > WAITING_MAX {
            return None;
        }
        waiting.questions += questions.len();
        waiting.jobs.push_back(Job { model, questions, tell });
        drop(waiting);
        self.queue.more.notify_one();
        Some(told)
    }

    /// Questions that wait.
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.queue.waiting).questions
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        lock(&self.queue.waiting).is_closed = true;
        self.queue.more.notify_all();
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, it has already reported the panic.
            let _ = thread.join();
        }
    }
}

impl Queue {
    /// Waits for requests, and takes those that are answered together. `None` if the desk is closed.
    fn next(&self) -> Option<(Arc<Loaded>, Vec<Job>)> {
        let mut waiting = lock(&self.waiting);
        loop {
            if waiting.is_closed {
                return None;
            }
            if let Some(taken) = waiting.take() {
                return Some(taken);
            }
            waiting = self.more.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Waiting {
    fn take(&mut self) -> Option<(Arc<Loaded>, Vec<Job>)> {
        let (mut jobs, mut questions) = (Vec::new(), 0);
        let mut model = None;
        while let Some(job) = self.jobs.front() {
            // The client has left, or waits no longer.
            let is_over = job.tell.is_closed();
            let fits = jobs.is_empty() || questions + job.questions.len() <= TOGETHER;
            let is_same = model.as_ref().is_none_or(|model| Arc::ptr_eq(model, &job.model));
            if !(is_over || fits && is_same) {
                break;
            }
            let Some(job) = self.jobs.pop_front() else { break };
            self.questions -= job.questions.len();
            if !is_over {
                questions += job.questions.len();
                model.get_or_insert_with(|| Arc::clone(&job.model));
                jobs.push(job);
            }
        }
        model.map(|model| (model, jobs))
    }
}

/// Answers requests together.
fn answer(endpoint: &Endpoint, model: &Loaded, jobs: Vec<Job>, threads: usize) {
    let (mut questions, mut tells) = (Vec::new(), Vec::with_capacity(jobs.len()));
    for job in jobs {
        tells.push((job.questions.len(), job.tell));
        questions.extend(job.questions);
    }
    let answered = catch_unwind(AssertUnwindSafe(|| model.answer(endpoint.name(), &questions, threads)));
    let answered = answered.ok().filter(|answered| answered.len() == questions.len());
    if answered.is_none() {
        tracing::error!("a model has not answered {} questions of {}", questions.len(), endpoint.name());
    }
    let mut answered = answered.map(Vec::into_iter);
    for (count, tell) in tells {
        // A client that has left hears nothing.
        let _ = tell.send(answered.as_mut().map(|answered| answered.by_ref().take(count).collect()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Found, Model};
    use serde_json::{Map, json};
    use std::sync::mpsc::{Receiver, Sender, channel};

    static ENDPOINT: Endpoint =
        Endpoint { path: "/v1/near", about: "", members: &[], found: Found::Number("n") };

    /// Says how many questions it was asked together, once the test lets it; a question with `panic` is one
    /// too many.
    struct Slow {
        begun: Sender<usize>,
        go_on: Mutex<Receiver<()>>,
        name: &'static str,
    }

    impl Model for Slow {
        fn sizes(&self) -> Vec<(&'static str, usize)> {
            Vec::new()
        }

        fn answer(&self, _: &str, questions: &[Question], _: usize) -> Vec<Result<Value, String>> {
            self.begun.send(questions.len()).unwrap();
            lock(&self.go_on).recv().unwrap();
            let read = |question: &Question| question.read::<Map<String, Value>>().unwrap();
            assert!(
                !questions.iter().any(|question| read(question).contains_key("panic")),
                "as the test wants"
            );
            questions.iter().map(|_| Ok(json!([self.name, questions.len()]))).collect()
        }
    }

    struct Test {
        desk: Desk,
        begun: Receiver<usize>,
        go_on: Sender<()>,
        models: [Arc<Loaded>; 2],
    }

    fn test() -> Test {
        let (begin, begun) = channel();
        let (go_on, wait) = channel();
        // Both models share the lock of the receiver by turns: only one is asked at a time.
        let (second_go_on, second_wait) = channel();
        drop(second_go_on);
        let slow = |name, wait| Slow { begun: begin.clone(), go_on: Mutex::new(wait), name };
        let models = [slow("old", wait), slow("new", second_wait)]
            .map(|model| Arc::new(Loaded::new(Box::new(model), Map::new(), 1)));
        let desk = Desk::open(0, &ENDPOINT, 1, Arc::new(Counts::new(&[]))).unwrap();
        Test { desk, begun, go_on, models }
    }

    fn questions(count: usize) -> Vec<Question> {
        vec![Question::new(Map::new(), 1); count]
    }

    #[test]
    fn requests_that_wait_are_answered_together_and_those_whose_clients_left_are_not() {
        let Test { desk, begun, go_on, models: [model, _] } = test();
        let ask = |count| desk.ask(Arc::clone(&model), questions(count)).unwrap();
        let first = ask(1);
        assert_eq!(begun.recv().unwrap(), 1);
        // While the model is busy, four requests arrive; one of their clients leaves.
        let (second, left, third, large) = (ask(2), ask(50), ask(3), ask(TOGETHER));
        drop(left);
        go_on.send(()).unwrap();
        assert_eq!(first.blocking_recv().unwrap().unwrap(), [Ok(json!(["old", 1]))]);
        assert_eq!(begun.recv().unwrap(), 5, "both that fit");
        go_on.send(()).unwrap();
        assert_eq!(second.blocking_recv().unwrap().unwrap(), vec![Ok(json!(["old", 5])); 2]);
        assert_eq!(third.blocking_recv().unwrap().unwrap(), vec![Ok(json!(["old", 5])); 3]);
        assert_eq!(begun.recv().unwrap(), TOGETHER);
        go_on.send(()).unwrap();
        assert_eq!(large.blocking_recv().unwrap().unwrap().len(), TOGETHER);
        assert_eq!(desk.waiting(), 0);
    }

    #[test]
    fn too_many_questions_are_turned_away_and_a_panic_ends_only_its_requests() {
        let Test { desk, begun, go_on, models: [model, _] } = test();
        let wrong = Question::new(json!({ "panic": 1 }).as_object().cloned().unwrap(), 1);
        let first = desk.ask(Arc::clone(&model), vec![wrong]).unwrap();
        begun.recv().unwrap();
        let all = desk.ask(Arc::clone(&model), questions(WAITING_MAX + 1)).expect("it is alone");
        assert!(desk.ask(Arc::clone(&model), questions(1)).is_none());
        drop(all);
        go_on.send(()).unwrap();
        assert!(first.blocking_recv().unwrap().is_none());
        while desk.waiting() > 0 {
            std::thread::yield_now();
        }
        let next = desk.ask(model, questions(1)).unwrap();
        begun.recv().unwrap();
        go_on.send(()).unwrap();
        assert_eq!(next.blocking_recv().unwrap().unwrap().len(), 1);
    }

    #[test]
    fn requests_to_an_old_model_are_not_mixed_with_those_to_a_new_one() {
        let Test { desk, begun, go_on, models: [old, new] } = test();
        let first = desk.ask(Arc::clone(&old), questions(1)).unwrap();
        begun.recv().unwrap();
        let second = desk.ask(old, questions(1)).unwrap();
        let third = desk.ask(new, questions(2)).unwrap();
        go_on.send(()).unwrap();
        assert!(first.blocking_recv().unwrap().is_some());
        assert_eq!(begun.recv().unwrap(), 1);
        go_on.send(()).unwrap();
        assert_eq!(second.blocking_recv().unwrap().unwrap(), [Ok(json!(["old", 1]))]);
        // The test has closed the channel of the new model, so that it fails: it was asked by itself.
        assert_eq!(begun.recv().unwrap(), 2);
        assert!(third.blocking_recv().unwrap().is_none());
    }
}
