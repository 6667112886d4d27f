//! The field that makes an actor durable.

use std::{collections::VecDeque, fmt, future::Future, mem, ops::Deref, sync::Arc, time::Duration};

use actix::Actor;
use futures_util::future::{BoxFuture, Either};
use journal_core::{
    EventSourced, Options, PersistError, Persistence,
    adapter::{Admission, BoxedCommand, Engine, Restarts, Told},
};

use crate::{PersistentActor, off_thread::OffThread, shared::Shared, told::Hears};

type Configure<M> = Box<dyn Fn(Options<M>) -> Options<M> + Send>;

/// The durable part of an actor: the state, and all that keeps it.
///
/// It derefs to the *newest* state: all handled commands, perhaps not durable yet. So what a plain `Handler` reads here
/// must not leave the actor before [`settled`](Durable::settled) returns; what commands reply is withheld anyway. While
/// nothing is recovered (before the first recovery, after a failed one, while
/// [passivated](journal_core::Options::passivate_after)) it is the initial state.
pub struct Durable<M: EventSourced> {
    persistence: Option<Persistence>,
    configure: Option<Configure<M>>,
    model: Option<Box<dyn Share<M> + Send>>,
    pub(crate) hears: Hears<M>,
    initial: M::State,
    pub(crate) phase: Phase<M>,
    /// Commands that wait for a recovery which one of them began.
    pub(crate) waiting: VecDeque<BoxedCommand<M>>,
    pub(crate) prepared: Option<Prepared<M>>,
    /// One of the engine's waits is under way: commands queue in it, and it is not to be stepped.
    pub(crate) is_paused: bool,
    /// `shared` knows that it lives.
    pub(crate) is_announced: bool,
    /// The actor has started and is not recovered yet; to be recovered again later is no start.
    pub(crate) is_starting: bool,
    /// Has the engine looked at now and then, whether it is idle.
    pub(crate) looks: Option<OffThread<()>>,
    /// Once stopped, for good.
    pub(crate) is_ending: bool,
    /// What the model is still to be told of a life that failed.
    pub(crate) last_words: Option<BoxFuture<'static, ()>>,
    pub(crate) shared: Arc<Shared>,
}

/// A model that others share. Behind a trait of its own, so that an actor that is its own model, and need not be `Sync`,
/// can be sent to its arbiter.
trait Share<M> {
    fn model(&self) -> &M;
}

impl<M> Share<M> for Arc<M> {
    fn model(&self) -> &M {
        self
    }
}

/// Where an actor stands.
pub(crate) enum Phase<M: EventSourced> {
    /// It recovers when it starts.
    Unrecovered,
    Recovering,
    Live(Box<Engine<M>>),
    /// All that it handled is durable or has failed: it may stop.
    Settled(Box<Engine<M>>),
    /// It failed: what waits is answered so, and then it stops and stands here.
    Refusing(PersistError, Box<Phase<M>>),
    /// It recovers when the next command comes.
    Resting,
    /// For good.
    Ended,
}

/// What the first start made of the actor's description.
pub(crate) struct Prepared<M: EventSourced> {
    pub(crate) options: Options<M>,
    pub(crate) admission: Admission,
    pub(crate) restarts: Restarts,
    /// The wait before the next recovery.
    pub(crate) wait: Duration,
}

/// An actor that is its own model; nothing is to be implemented for it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is a model but no actor",
    note = "where `{Self}` is to be the actor itself, derive it: `#[derive(PersistentActor)]`",
    note = "where it is the model of another actor, give it to that one: `Durable::of(Arc::new(model), &persistence)`"
)]
pub trait OwnModel: EventSourced + Actor {}

impl<A: EventSourced + Actor> OwnModel for A {}

impl<M: OwnModel> Durable<M> {
    /// For an actor that is its own model, persisted there.
    #[must_use]
    pub fn new(persistence: &Persistence) -> Self {
        Self::with(Some(persistence.clone()), None, Hears::There(Arc::default()))
    }
}

impl<M: OwnModel> Default for Durable<M> {
    /// Persisted where [`Persistence::install`] says by the time it starts; without that, the actor cannot recover.
    fn default() -> Self {
        Self::with(None, None, Hears::There(Arc::default()))
    }
}

impl<M: EventSourced + Send + Sync> Durable<M> {
    /// For an actor whose model is a type of its own, which many actors may share, persisted there.
    #[must_use]
    pub fn of(model: Arc<M>, persistence: &Persistence) -> Self {
        let hearing = model.clone();
        let hears = Hears::Here(Arc::new(move |told: Told<M>| told.to(&hearing)));
        Self::with(Some(persistence.clone()), Some(Box::new(model)), hears)
    }
}

impl<M: EventSourced> Durable<M> {
    fn with(
        persistence: Option<Persistence>,
        model: Option<Box<dyn Share<M> + Send>>,
        hears: Hears<M>,
    ) -> Self {
        Self {
            persistence,
            configure: None,
            model,
            hears,
            initial: M::State::default(),
            phase: Phase::Unrecovered,
            waiting: VecDeque::new(),
            prepared: None,
            is_paused: false,
            is_announced: false,
            is_starting: false,
            looks: None,
            is_ending: false,
            last_words: None,
            shared: Arc::default(),
        }
    }

    /// Options of this one actor, on top of those of its type. Without effect once it has started.
    ///
    /// ```
    /// # use actix::prelude::*;
    /// # use journal_actix::Durable;
    /// # use journal_core::{EventSourced, Persistence};
    /// # use journal_derive::{Event, PersistentActor};
    /// # #[derive(serde::Serialize, serde::Deserialize, Event)]
    /// # #[event(manifest = "deposited", version = 1, crate = journal_core)]
    /// # struct Deposited { cents: u64 }
    /// # #[derive(PersistentActor)]
    /// # #[persistent(crate = journal_actix)]
    /// # struct Account {
    /// #     #[persistent(id)]
    /// #     id: String,
    /// #     #[persistent(state)]
    /// #     balance: Durable<Self>,
    /// # }
    /// # impl EventSourced for Account {
    /// #     type Event = Deposited;
    /// #     type State = u64;
    /// #     fn apply(balance: &mut u64, event: &Deposited) { *balance += event.cents; }
    /// # }
    /// # fn account(persistence: &Persistence) -> Account {
    /// // The type has to be named: it cannot be told from the field through a method.
    /// let balance = Durable::<Account>::new(persistence).options(|options| options.snapshot_every(1_000).strict());
    /// Account { id: "account|42".to_owned(), balance }
    /// # }
    /// ```
    #[must_use]
    pub fn options(mut self, options: impl Fn(Options<M>) -> Options<M> + Send + 'static) -> Self {
        self.configure = Some(Box::new(options));
        self
    }

    /// The model given to [`Durable::of`].
    ///
    /// # Panics
    /// If it was made by [`Durable::new`], which is for an actor that is its own model.
    #[must_use]
    pub fn model(&self) -> &M {
        self.model
            .as_ref()
            .expect("a Durable with a model of its own is made by Durable::of")
            .model()
    }

    /// Waits until everything handled so far is durable or has failed.
    pub fn settled(&self) -> impl Future<Output = ()> + Send + use<M> {
        match &self.phase {
            Phase::Live(engine) | Phase::Settled(engine) => Either::Left(engine.settled()),
            _ => Either::Right(std::future::ready(())),
        }
    }

    /// False while the state is the initial one because nothing is recovered.
    #[must_use]
    pub fn is_recovered(&self) -> bool {
        matches!(self.phase, Phase::Live(_) | Phase::Settled(_))
    }

    pub(crate) fn persistence(&self) -> Option<&Persistence> {
        self.persistence.as_ref()
    }

    /// Returns whether it was refusing.
    pub(crate) fn stop_refusing(&mut self) -> bool {
        match mem::replace(&mut self.phase, Phase::Unrecovered) {
            Phase::Refusing(_, next) => {
                self.leave(*next);
                true
            }
            other => {
                self.phase = other;
                false
            }
        }
    }

    /// Leaves the engine, and with it the state.
    pub(crate) fn leave(&mut self, phase: Phase<M>) {
        self.is_paused = false;
        self.looks = None;
        self.phase = phase;
    }
}

/// Makes the actor's options, at its first start or before.
pub(crate) fn prepare<A: PersistentActor>(actor: &mut A) -> &mut Prepared<A::Model> {
    let durable = actor.durable_mut();
    durable.persistence = durable.persistence.take().or_else(Persistence::installed);
    let configure = durable.configure.take();
    durable.prepared.get_or_insert_with(|| {
        let mut options = A::options(Options::default());
        if let Some(configure) = configure {
            options = configure(options);
        }
        Prepared {
            admission: options.admission(),
            restarts: Restarts::new(options.restart_backoff()),
            options,
            wait: Duration::ZERO,
        }
    })
}

impl<M: EventSourced> Deref for Durable<M> {
    type Target = M::State;

    fn deref(&self) -> &M::State {
        match &self.phase {
            Phase::Live(engine) | Phase::Settled(engine) => engine.state(),
            _ => &self.initial,
        }
    }
}

impl<M: EventSourced> Drop for Durable<M> {
    fn drop(&mut self) {
        // Whoever waits for the end may have the id at once.
        self.leave(Phase::Ended);
        self.shared.ended();
    }
}

impl<M: EventSourced> fmt::Debug for Durable<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Durable")
            .field("is_recovered", &self.is_recovered())
            .finish_non_exhaustive()
    }
}
