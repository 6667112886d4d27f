//! The one place where a live actor's user code runs beside its handlers: `then_run` closures, conversions of failures
//! and signals, in order, panics caught. Never under a lock, never on the hub.

use std::{
    collections::VecDeque,
    fmt,
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{runtime::Handle, sync::oneshot};

use crate::{
    DeliveryId, PersistError, PersistenceId, SequenceNr, Signal,
    command::{HeldReply, panic_message},
    deliveries::DeliveryEvent,
    effect::Inner,
    listener::Ears,
    persistence::{Persistence, Registration},
    redelivery::{Redeliveries, Sending},
    retention::{self, DeletionDuty, SnapshotDuty},
};

/// What one command leaves to be released once its events are durable.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) reply: Option<Box<dyn HeldReply>>,
    /// The command was refused, which is withheld like any other answer.
    pub(crate) refusal: Option<PersistError>,
    pub(crate) runs: Vec<Inner>,
    /// The engine's events among those of the command.
    pub(crate) deliveries: Vec<(SequenceNr, DeliveryEvent)>,
    pub(crate) duties: Vec<Duty>,
}

impl Held {
    /// Runs user code, also where it drops what closures captured.
    fn fail(self, error: PersistError) -> Option<Signal> {
        self.reply.and_then(|reply| reply.fail(error))
    }
}

/// What the engine does once the command is released.
pub(crate) enum Duty {
    Snapshot(Box<SnapshotDuty>),
    Delete(DeletionDuty),
    Stop,
}

enum Job {
    Release(Held),
    Fail(Held, PersistError),
    Signal(Signal),
    Redeliver(DeliveryId),
    /// Somebody waits for all before it.
    Reach(oneshot::Sender<()>),
}

impl Job {
    fn has_effects(&self) -> bool {
        matches!(self, Self::Release(held) if !held.runs.is_empty() || !held.deliveries.is_empty())
    }
}

/// What one actor's engine, ledgers and background duties share, over all its recoveries. The persistence id stays
/// registered until the last of them lets go.
pub(crate) struct Actor {
    pub(crate) id: PersistenceId,
    pub(crate) persistence: Persistence,
    listener: Box<dyn Ears>,
    runtime: Handle,
    queue: Mutex<Queue>,
    /// A stop is durable, though what is released before it may still run.
    stopping: AtomicBool,
    stop_due: AtomicBool,
    pub(crate) snapshot_round: Arc<AtomicBool>,
    /// Of an actor that delivers.
    pub(crate) redeliveries: Option<Arc<Redeliveries>>,
    registration: Registration,
}

/// The engine's own hold on the actor, also while it recovers. Once it is dropped the actor is gone, and its id is free
/// as soon as everything else has let go: until then successors wait instead of being refused.
pub(crate) struct Life(pub(crate) Arc<Actor>);

impl Deref for Life {
    type Target = Arc<Actor>;
    fn deref(&self) -> &Arc<Actor> {
        &self.0
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        if let Some(redeliveries) = &self.0.redeliveries {
            redeliveries.end();
        }
        self.0.retire();
    }
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    running: bool,
    /// Releases among them, and the one that runs, whose closures have not run or whose deliveries are not sent.
    effects: usize,
}

/// Jobs after which the effect task lets others run.
const JOBS_PER_TURN: usize = 64;

impl Actor {
    pub(crate) fn new(
        listener: Box<dyn Ears>,
        registration: Registration,
        persistence: Persistence,
        runtime: Handle,
        redeliveries: Option<Arc<Redeliveries>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            id: registration.id().clone(),
            persistence,
            listener,
            runtime,
            queue: Mutex::default(),
            stopping: AtomicBool::new(false),
            stop_due: AtomicBool::new(false),
            snapshot_round: Arc::new(AtomicBool::new(false)),
            redeliveries,
            registration,
        })
    }

    /// The actor is gone, or as good as: successors wait instead of being refused.
    pub(crate) fn retire(&self) {
        self.registration.retire();
    }

    /// Makes the adapter look at the engine: it broke, or its stop is due.
    pub(crate) fn wake(&self) {
        self.listener.wake();
    }

    /// True once a handled stop is durable.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// True once all that was released up to a handled stop has run.
    pub(crate) fn stop_is_due(&self) -> bool {
        self.stop_due.load(Ordering::Acquire)
    }

    /// Releases what has become durable: at once where no user code is involved or waits before it, otherwise on the
    /// effect task.
    pub(crate) fn release(self: &Arc<Self>, held: Held) {
        if held.duties.iter().any(|duty| matches!(duty, Duty::Stop)) {
            self.stopping.store(true, Ordering::Release);
        }
        let user_code = held.refusal.is_some() || !held.runs.is_empty() || !held.deliveries.is_empty();
        if !user_code && !self.lock().running {
            self.perform(held);
        } else {
            self.enqueue(Job::Release(held));
        }
    }

    /// Answers a command whose events are not stored; what it wanted beside is dropped, on the effect task too.
    pub(crate) fn fail(self: &Arc<Self>, held: Held, error: &PersistError) {
        self.enqueue(Job::Fail(held, error.clone()));
    }

    pub(crate) fn signal(self: &Arc<Self>, signal: Signal) {
        self.enqueue(Job::Signal(signal));
    }

    /// Sends a delivery again, if it is still unconfirmed then.
    pub(crate) fn redeliver(self: &Arc<Self>, id: DeliveryId) {
        self.enqueue(Job::Redeliver(id));
    }

    /// On the effect task.
    pub(crate) fn deliver(&self, sending: Sending) {
        self.listener.deliver(sending);
    }

    /// Returns when all user code so far has run. Does not hold the actor.
    pub(crate) fn caught_up(self: &Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        let (reach, reached) = oneshot::channel();
        if self.lock().running {
            self.enqueue(Job::Reach(reach));
        }
        // Dropped or sent, it is reached.
        async move { drop(reached.await) }
    }

    /// Whether closures or first deliveries of released commands are still to be seen to.
    pub(crate) fn has_effects(&self) -> bool {
        self.lock().effects > 0
    }

    fn enqueue(self: &Arc<Self>, job: Job) {
        let mut queue = self.lock();
        queue.effects += usize::from(job.has_effects());
        queue.jobs.push_back(job);
        if !queue.running {
            queue.running = true;
            drop(queue);
            // A task per burst and none per idle actor.
            self.runtime.spawn(self.clone().run());
        }
    }

    async fn run(self: Arc<Self>) {
        let mut had_effects = false;
        for turn in 1.. {
            let job = {
                let mut queue = self.lock();
                queue.effects -= usize::from(had_effects);
                let job = queue.jobs.pop_front();
                queue.running = job.is_some();
                had_effects = job.as_ref().is_some_and(Job::has_effects);
                job
            };
            match job {
                None => return,
                Some(Job::Release(held)) => match held.refusal.clone() {
                    None => self.perform(held),
                    Some(refusal) => self.answer_failure(held, refusal),
                },
                Some(Job::Fail(held, error)) => self.answer_failure(held, error),
                Some(Job::Signal(signal)) => self.listener.signal(signal),
                Some(Job::Redeliver(id)) => {
                    if let Some(redeliveries) = &self.redeliveries {
                        redeliveries.send_again(&self, id);
                    }
                }
                Some(Job::Reach(reach)) => drop(reach),
            }
            if turn % JOBS_PER_TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Closures and deliveries first, so that whoever gets the reply finds them done.
    fn perform(self: &Arc<Self>, held: Held) {
        for run in held.runs {
            self.guard(run);
        }
        if let Some(redeliveries) = &self.redeliveries
            && !held.deliveries.is_empty()
        {
            redeliveries.released(self, held.deliveries);
        }
        if let Some(reply) = held.reply {
            // Sending runs no user code, but it may drop a reply that nobody waits for, and that does.
            self.guard(|| reply.release());
        }
        for duty in held.duties {
            match duty {
                Duty::Snapshot(duty) => self.background(retention::snapshot_round(self.clone(), duty)),
                Duty::Delete(duty) => self.background(retention::delete_events(self.clone(), duty)),
                Duty::Stop => {
                    self.stop_due.store(true, Ordering::Release);
                    self.wake();
                }
            }
        }
    }

    fn answer_failure(self: &Arc<Self>, held: Held, error: PersistError) {
        let signal = self.guard(move || held.fail(error));
        if let Some(signal) = signal.flatten() {
            self.listener.signal(signal);
        }
    }

    /// Where its effects run.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    fn background(&self, duty: impl Future<Output = ()> + Send + 'static) {
        self.persistence.runtime().spawn(duty);
    }

    /// Runs user code; a panic becomes a signal.
    pub(crate) fn guard<T>(self: &Arc<Self>, user_code: impl FnOnce() -> T) -> Option<T> {
        match catch_unwind(AssertUnwindSafe(user_code)) {
            Ok(value) => Some(value),
            Err(panic) => {
                let message = panic_message(&*panic);
                tracing::error!(persistence_id = %self.id, %message, "an effect panicked");
                self.listener.signal(Signal::EffectPanicked(message));
                None
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl fmt::Debug for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Actor")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
